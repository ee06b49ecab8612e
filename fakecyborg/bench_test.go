package fakecyborg_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// benchServer is a server with hosts of eight cards each.
func benchServer(b *testing.B, hosts int, opts ...fakecyborg.Option) *fakecyborg.Server {
	b.Helper()
	server, err := fakecyborg.New(fakecyborg.Config{}, opts...)
	settled(b, err)
	for h := range hosts {
		name := fmt.Sprintf("cn%d", h)
		var cards []driver.Device
		for c := range 8 {
			card := gpu(fmt.Sprintf("%02x", c+1), "PGPU", []string{"OWNER_CYBORG"}, "0", "1", "2", "3")
			card.Deployables[0].Name = fmt.Sprintf("%s_card%d", name, c)
			cards = append(cards, card)
		}
		settled(b, server.AddHost(driver.Host{Name: name, Drivers: []driver.Driver{verbatim.New(cards)}}))
	}
	return server
}

// BenchmarkARQCycle creates and binds one request, notifies Nova, reads it and deletes
// it, on 8 goroutines. The aim is 3000 cycles/s.
func BenchmarkARQCycle(b *testing.B) {
	var posts atomic.Int64
	nova := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts.Add(1)
		simhttp.WriteJSON(w, http.StatusOK, map[string]any{"events": []any{}})
	})
	server := benchServer(b, 16, fakecyborg.WithNova(sim.Endpoint{URL: "http://nova.invalid", Client: inProcess(nova)}))
	settled(b, server.Report(b.Context()))
	_, err := server.CreateDeviceProfile("p", []map[string]string{{"resources:PGPU": "1"}})
	settled(b, err)
	client := inProcess(server)
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		n := int(next.Add(1))
		provider := driver.ProviderUUID(fmt.Sprintf("cn%d_card%d", n%16, n%8))
		for i := 0; pb.Next(); i++ {
			instance := fmt.Sprintf("aaaaaaaa-0000-4000-%04d-%012d", n, i)
			cycle(b, client, provider, instance)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
	if int(posts.Load()) < b.N {
		b.Errorf("%d posts of events for %d binds", posts.Load(), b.N)
	}
}

// cycle is the life of one request.
func cycle(b *testing.B, client *http.Client, provider, instance string) {
	const arqs = "/v2/accelerator_requests"
	var made struct {
		ARQs []struct {
			UUID string `json:"uuid"`
		} `json:"arqs"`
	}
	created := benchSend(b, client, "POST", arqs, `{"device_profile_name":"p"}`, http.StatusCreated)
	if err := json.Unmarshal(created, &made); err != nil || len(made.ARQs) != 1 {
		b.Error(err, string(created))
		return
	}
	benchSend(b, client, "PATCH", arqs, binding(instance, provider, made.ARQs[0].UUID), http.StatusAccepted)
	benchSend(b, client, "GET", arqs+"?instance="+instance, "", http.StatusOK)
	benchSend(b, client, "DELETE", arqs+"?instance="+instance, "", http.StatusNoContent)
}

func benchSend(b *testing.B, client *http.Client, method, path, body string, want int) []byte {
	req, err := http.NewRequestWithContext(b.Context(), method, "http://cyborg.invalid"+path, strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return nil
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("X-Service-Token", "nova")
	res, err := client.Do(req)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		b.Error(method, path, res.StatusCode, string(data), err)
	}
	return data
}

// BenchmarkListARQs lists 10,000 bound requests, all of them and those of one instance, and
// reads ready-made bytes of the long list in the same way. The aim for all is 3 times these.
func BenchmarkListARQs(b *testing.B) {
	server := benchServer(b, 313) // 10,016 handles
	settled(b, server.Report(b.Context()))
	_, err := server.CreateDeviceProfile("p", []map[string]string{{"resources:PGPU": "1"}})
	settled(b, err)
	for n, h := range server.AttachHandles()[:10_000] {
		arqs, err := server.CreateARQs("p", "admin")
		settled(b, err)
		instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n)
		settled(b, server.Bind(b.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: h.Hostname, Provider: h.ProviderUUID, Instance: instance}))
	}
	const path = "/v2/accelerator_requests"
	ready := benchSend(b, inProcess(server), "GET", path, "", http.StatusOK)
	for _, c := range []struct {
		name, query string
		handler     http.Handler
	}{
		{"all", "", server},
		{"ready-made", "", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			simhttp.WriteBody(w, http.StatusOK, "application/json", ready)
		})},
		{"instance", "?instance=aaaaaaaa-0000-4000-8000-000000000007", server},
	} {
		client := inProcess(c.handler)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSend(b, client, "GET", path+c.query, "", http.StatusOK)
			}
		})
	}
}

// manyCards are the cards of a host with sixteen handles each.
func manyCards(host string, n int) []driver.Device {
	cards := make([]driver.Device, 0, n)
	for c := range n {
		card := gpu(fmt.Sprintf("%02x", c+1), "PGPU", []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8"})
		deployable := &card.Deployables[0]
		deployable.Name, deployable.NumAccelerators = fmt.Sprintf("%s_card%d", host, c), 16
		for i := range 16 {
			info := pciInfo(fmt.Sprintf("%02x", c+1), fmt.Sprint(i%8))
			info["device"] = fmt.Sprintf("%02x", i/8)
			deployable.AttachHandles = append(deployable.AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: info})
		}
		cards = append(cards, card)
	}
	return cards
}

// addMany adds hosts with ten such cards each.
func addMany(tb testing.TB, server *fakecyborg.Server, hosts int) {
	tb.Helper()
	for h := range hosts {
		name := fmt.Sprint("cn", h)
		settled(tb, server.AddHost(driver.Host{Name: name, Drivers: []driver.Driver{verbatim.New(manyCards(name, 10))}}))
	}
}

// BenchmarkReport reports 10,000 devices of 1,000 hosts into a Placement for the
// first time. The aim is 20 s on two cores.
func BenchmarkReport(b *testing.B) {
	const hosts = 1000
	b.ReportAllocs()
	for b.Loop() {
		placement := newPlacement(b)
		for h := 1; h < hosts; h++ {
			_, err := placement.CreateProvider(placementsim.ResourceProvider{Name: fmt.Sprintf("cn%d", h)})
			settled(b, err)
		}
		server, err := fakecyborg.New(fakecyborg.Config{}, withPlacement(placement))
		settled(b, err)
		addMany(b, server, hosts)
		settled(b, server.Report(b.Context()))
	}
	b.ReportMetric(float64(b.N*hosts*10)/b.Elapsed().Seconds(), "devices/s")
}

// heapInUse is what is reachable now, in bytes.
func heapInUse() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkMemory measures the memory of 10,000 devices with sixteen
// handles each. What the drivers themselves hold is not the server's.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		server, err := fakecyborg.New(fakecyborg.Config{})
		settled(b, err)
		addMany(b, server, 1000)
		before := heapInUse()
		settled(b, server.Report(b.Context()))
		used := int64(heapInUse()) - int64(before)
		if n := len(server.AttachHandles()); n != 160000 {
			b.Fatalf("%d handles", n)
		}
		b.ReportMetric(float64(used)/(1<<20), "MiB")
		server.Close()
	}
}

// BenchmarkDump writes and reads the state of 1,000 devices with sixteen handles
// each.
func BenchmarkDump(b *testing.B) {
	server := newServer(b, fakecyborg.Config{})
	addMany(b, server, 100)
	settled(b, server.Report(b.Context()))
	data := dumped(b, server)
	b.Run("dump", func(b *testing.B) {
		for b.Loop() {
			dumped(b, server)
		}
		b.ReportMetric(float64(len(data))/(1<<20), "MiB")
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			settled(b, load(server, data))
		}
	})
}
