package fakecyborg_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
)

// benchServer is a server with hosts of eight cards each.
func benchServer(b *testing.B, hosts int, opts ...fakecyborg.Option) *fakecyborg.Server {
	b.Helper()
	server, err := fakecyborg.New(fakecyborg.Config{}, opts...)
	if err != nil {
		b.Fatal(err)
	}
	for h := range hosts {
		name := fmt.Sprintf("cn%d", h)
		var cards []driver.Device
		for c := range 8 {
			card := gpu(fmt.Sprintf("%02x", c+1), "PGPU", []string{"OWNER_CYBORG"}, "0", "1", "2", "3")
			card.Deployables[0].Name = fmt.Sprintf("%s_card%d", name, c)
			cards = append(cards, card)
		}
		if err := server.AddHost(fakecyborg.Host{Name: name, Drivers: []driver.Driver{verbatim.New(cards)}}); err != nil {
			b.Fatal(err)
		}
	}
	return server
}

// BenchmarkARQCycle makes, binds, reads and deletes one request.
func BenchmarkARQCycle(b *testing.B) {
	server := benchServer(b, 16)
	if err := server.Report(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, err := server.CreateDeviceProfile("p", []map[string]string{{"resources:PGPU": "1"}}); err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: simhttp.NewTransport(server)}
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		n := int(next.Add(1))
		provider := driver.ProviderUUID(fmt.Sprintf("cn%d_card%d", n%16, n%8))
		for i := 0; pb.Next(); i++ {
			instance := fmt.Sprintf("aaaaaaaa-0000-4000-%04d-%012d", n, i)
			cycle(b, client, provider, instance)
		}
	})
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

func adminToken(context.Context) (string, error) { return "admin", nil }

// BenchmarkReport reports all cards of the hosts for the first time.
func BenchmarkReport(b *testing.B) {
	const hosts = 125
	b.ReportAllocs()
	for b.Loop() {
		placement, err := placementsim.New(placementsim.Config{})
		if err != nil {
			b.Fatal(err)
		}
		for h := range hosts {
			if _, err := placement.CreateProvider(placementsim.NewProvider{Name: fmt.Sprintf("cn%d", h)}); err != nil {
				b.Fatal(err)
			}
		}
		server := benchServer(b, hosts, fakecyborg.WithPlacement(fakecyborg.Endpoint{
			URL: "http://placement.invalid", Client: &http.Client{Transport: simhttp.NewTransport(placement)}, Token: adminToken,
		}))
		if err := server.Report(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*hosts*8)/b.Elapsed().Seconds(), "devices/s")
}
