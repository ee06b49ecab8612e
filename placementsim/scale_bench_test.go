package placementsim

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/scale"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// scaleWorld builds hosts with eight GPUs each, as the agents of Cyborg report them, and
// returns the providers in the order of creation: each host with its GPUs.
func scaleWorld(b *testing.B, hosts int) (*Server, []ResourceProvider) {
	b.Helper()
	s := newServer(b, Config{Seed: 1})
	for h := range hosts {
		root := addProvider(b, s, ResourceProvider{
			Name: fmt.Sprintf("cn%d", h), Traits: []string{"COMPUTE_NODE", "HW_CPU_X86_VMX"},
			Inventories: map[string]Inventory{"VCPU": {Total: 64, AllocationRatio: 4}, "MEMORY_MB": {Total: 262144}, "DISK_GB": {Total: 4000}},
		})
		for d := range scale.Devices {
			addProvider(b, s, ResourceProvider{
				Name: fmt.Sprintf("%s_0000:%02x:00.0", root.Name, d+16), Parent: root.UUID,
				Traits:      []string{"OWNER_CYBORG", "CUSTOM_GPU_NVIDIA", "CUSTOM_GPU_PRODUCT_ID_20B5"},
				Inventories: map[string]Inventory{"PGPU": {Total: 1}},
			})
		}
	}
	return s, s.ResourceProviders()
}

// occupy gives the chosen GPUs, counted over all hosts, to consumers.
func occupy(b *testing.B, s *Server, providers []ResourceProvider, chosen func(gpu int) bool) {
	b.Helper()
	for gpu := range len(providers) / (scale.Devices + 1) * scale.Devices {
		if !chosen(gpu) {
			continue
		}
		host := providers[gpu/scale.Devices*(scale.Devices+1):]
		must(b, s.Claim(Claim{Consumer: fmt.Sprintf("%08d-0000-4000-8000-00000000000f", gpu), Project: "p", User: "u", Allocations: []Allocation{
			{Provider: host[0].UUID, Class: "VCPU", Used: 2}, {Provider: host[0].UUID, Class: "MEMORY_MB", Used: 4096}, {Provider: host[1+gpu%scale.Devices].UUID, Class: "PGPU", Used: 1},
		}}))
	}
}

// scaleQuery is what Nova asks for an instance with one GPU.
func scaleQuery(limit int) string {
	return fmt.Sprintf("resources=VCPU:2,MEMORY_MB:4096,DISK_GB:20&resources_device_profile_0=PGPU:1&required_device_profile_0=CUSTOM_GPU_NVIDIA&limit=%d", limit)
}

// discard discards an answer.
type discard struct {
	header http.Header
	status int
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) WriteHeader(status int) { d.status = status }

func (d *discard) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}

// ask sends a request to the handler and returns the length of the answer in bytes.
func ask(tb testing.TB, s http.Handler, method, path, body string, want int) int {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	req.Header.Set("Accept", "application/json")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	answer := &discard{header: make(http.Header)}
	s.ServeHTTP(answer, req)
	if answer.status != want {
		tb.Errorf("%s %s: status %d, want %d", method, path, answer.status, want)
	}
	return answer.bytes
}

// BenchmarkScaleCandidates asks the handler, without a socket, for the resources of an instance
// with one GPU: in empty clouds, and in clouds with four fifths of the GPUs in use: all GPUs of
// the first hosts, the first GPUs of each host, or random ones.
func BenchmarkScaleCandidates(b *testing.B) {
	var rates scale.Rates
	for _, hosts := range scale.Sizes() {
		for _, full := range []struct {
			name   string
			chosen func(gpu int) bool
		}{
			{"empty", func(int) bool { return false }},
			{"hosts", func(gpu int) bool { return gpu < hosts*scale.Devices*4/5 }},
			{"devices", func(gpu int) bool { return gpu%scale.Devices < scale.Devices*4/5+gpu/scale.Devices%5/3 }},
			{"any", func(gpu int) bool { return uint32(gpu)*2654435761>>16%5 != 0 }},
		} {
			s, providers := scaleWorld(b, hosts)
			occupy(b, s, providers, full.chosen)
			for _, limit := range []int{10, 80, 1000} {
				b.Run(fmt.Sprintf("hosts=%d/full=%s/limit=%d", hosts, full.name, limit), func(b *testing.B) {
					b.ReportAllocs()
					size := 0
					for b.Loop() {
						size = ask(b, s, "GET", "/allocation_candidates?"+scaleQuery(limit), "", http.StatusOK)
					}
					rates.Report(b, fmt.Sprint(full.name, limit), hosts, float64(b.N), "answers")
					b.ReportMetric(float64(size), "bytes")
				})
			}
		}
	}
}

// scaleClaim is the body of a claim of a GPU.
func scaleClaim(host []ResourceProvider, gpu int) string {
	return `{"allocations":{"` + host[0].UUID + `":{"resources":{"VCPU":2,"MEMORY_MB":4096,"DISK_GB":20}},"` + host[1+gpu].UUID + `":{"resources":{"PGPU":1}}},` +
		`"mappings":{"":["` + host[0].UUID + `"],"_device_profile_0":["` + host[1+gpu].UUID + `"]},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`
}

// BenchmarkScaleClaim claims a GPU, reads the allocations and releases them, through the
// handler without a socket: without a record, and with one as a simulated cloud keeps it.
func BenchmarkScaleClaim(b *testing.B) {
	var rates scale.Rates
	for _, hosts := range scale.Sizes() {
		s, providers := scaleWorld(b, hosts)
		i := 0
		for _, record := range []struct {
			name    string
			handler http.Handler
		}{{"none", s}, {"kept", simhttp.Recording(s, simhttp.NewRecorder(1000))}} {
			b.Run(fmt.Sprintf("hosts=%d/record=%s", hosts, record.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					i++
					path := fmt.Sprintf("/allocations/%08d-0000-4000-8000-000000000000", i)
					host := providers[i*7%hosts*(scale.Devices+1):]
					ask(b, record.handler, "PUT", path, scaleClaim(host, i%scale.Devices), http.StatusNoContent)
					ask(b, record.handler, "GET", path, "", http.StatusOK)
					ask(b, record.handler, "DELETE", path, "", http.StatusNoContent)
				}
				rates.Report(b, record.name, hosts, float64(b.N), "claims")
			})
		}
	}
}

// BenchmarkScaleReadersUnderWriters asks for ten candidates while 15 writers claim and release
// GPUs and one changes inventories and traits, all through the handler. A writer lets others
// run after each request, as one that waits for the next request does.
func BenchmarkScaleReadersUnderWriters(b *testing.B) {
	var rates scale.Rates
	for _, hosts := range scale.Sizes() {
		s, providers := scaleWorld(b, hosts)
		b.Run(fmt.Sprintf("hosts=%d/writers=16/limit=10", hosts), func(b *testing.B) {
			var stop atomic.Bool
			var writes atomic.Int64
			var wg sync.WaitGroup
			for w := range 15 {
				wg.Go(func() {
					for i := w; !stop.Load(); i += 15 {
						path := fmt.Sprintf("/allocations/%08d-0000-4000-8000-000000000000", i)
						// Each writer has its own host, except in the smallest cloud.
						host := providers[(w+i/15*15)%hosts*(scale.Devices+1):]
						status := serve(s, "PUT", path, scaleClaim(host, w/8%scale.Devices))
						writes.Add(1)
						if status == http.StatusNoContent {
							serve(s, "DELETE", path, "")
							writes.Add(1)
						} else if status != http.StatusConflict {
							b.Errorf("claim: status %d", status)
							return
						}
						runtime.Gosched()
					}
				})
			}
			wg.Go(func() { report(b, s, providers, &stop) })
			var waits []time.Duration
			for b.Loop() {
				started := time.Now()
				ask(b, s, "GET", "/allocation_candidates?"+scaleQuery(10), "", http.StatusOK)
				waits = append(waits, time.Since(started))
			}
			stop.Store(true)
			wg.Wait()
			slices.Sort(waits)
			rates.Report(b, "read", hosts, float64(b.N), "reads")
			b.ReportMetric(waits[len(waits)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(waits[len(waits)*99/100].Seconds()*1e3, "p99-ms")
			b.ReportMetric(float64(writes.Load())/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// report changes the traits and the inventories of one GPU after the other, as agents do.
func report(b *testing.B, s *Server, providers []ResourceProvider, stop *atomic.Bool) {
	for i := 0; !stop.Load(); i++ {
		runtime.Gosched()
		gpu := providers[i%len(providers)/(scale.Devices+1)*(scale.Devices+1)+scale.Devices].UUID
		p, err := s.ResourceProvider(gpu)
		if err != nil {
			b.Error(err)
			return
		}
		serve(s, "PUT", "/resource_providers/"+gpu+"/traits", fmt.Sprintf(`{"resource_provider_generation":%d,"traits":["OWNER_CYBORG","CUSTOM_GPU_NVIDIA"]}`, p.Generation))
		serve(s, "PUT", "/resource_providers/"+gpu+"/inventories", fmt.Sprintf(`{"resource_provider_generation":%d,"inventories":{"PGPU":{"total":1}}}`, p.Generation+1))
		serve(s, "PUT", "/resource_providers/"+gpu+"/traits", fmt.Sprintf(`{"resource_provider_generation":%d,"traits":["OWNER_CYBORG","CUSTOM_GPU_NVIDIA","CUSTOM_GPU_PRODUCT_ID_20B5"]}`, p.Generation+2))
	}
}

// BenchmarkScaleGeneration asks for candidates by default, and with a maximum of candidates by
// each strategy. One GPU of each host is free, so that all answers have the same length.
func BenchmarkScaleGeneration(b *testing.B) {
	for _, hosts := range scale.Sizes() {
		s, providers := scaleWorld(b, hosts)
		occupy(b, s, providers, func(gpu int) bool { return gpu%scale.Devices > 0 })
		for _, cfg := range []Config{
			{}, {MaxAllocationCandidates: 1000}, {MaxAllocationCandidates: 1000, GenerationStrategy: StrategyBreadthFirst},
		} {
			s.config = cfg
			for _, limit := range []int{10, 1000} {
				b.Run(fmt.Sprintf("hosts=%d/max=%d/strategy=%s/limit=%d", hosts, cfg.MaxAllocationCandidates, cfg.GenerationStrategy, limit), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						ask(b, s, "GET", "/allocation_candidates?"+scaleQuery(limit), "", http.StatusOK)
					}
				})
			}
		}
	}
}
