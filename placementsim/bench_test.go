package placementsim

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// benchWorld builds hosts with eight children each, alternately FPGA and PGPU.
func benchWorld(b *testing.B, hosts int) *Server {
	b.Helper()
	s := newServer(b, Config{Seed: 1})
	for h := range hosts {
		root, err := s.CreateProvider(ResourceProvider{
			Name: fmt.Sprintf("host%05d", h), Traits: []string{"COMPUTE_NODE"},
			Inventories: map[string]Inventory{"VCPU": {Total: 64}, "MEMORY_MB": {Total: 262144}, "DISK_GB": {Total: 4000}},
		})
		if err != nil {
			b.Fatal(err)
		}
		for d := range 8 {
			class, traits := "FPGA", []string{"CUSTOM_FPGA_INTEL", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "OWNER_CYBORG"}
			if d%2 == 1 {
				class, traits = "PGPU", []string{"CUSTOM_GPU_NVIDIA", "OWNER_CYBORG"}
			}
			_, err := s.CreateProvider(ResourceProvider{
				Name: fmt.Sprintf("%s_0000:%02x:00.0", root.Name, d+1), Parent: root.UUID, Traits: traits,
				Inventories: map[string]Inventory{class: {Total: 1 + d%8}},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return s
}

// spawnQueryOf is what Nova asks for an instance with one or two devices.
func spawnQueryOf(groups, limit int) string {
	query := "resources=VCPU:2,MEMORY_MB:4096,DISK_GB:20&resourcesdevice_profile_0=FPGA:1&requireddevice_profile_0=CUSTOM_FPGA_INTEL&group_policy=none"
	if groups == 2 {
		query += "&resourcesdevice_profile_1=PGPU:1&requireddevice_profile_1=CUSTOM_GPU_NVIDIA"
	}
	return fmt.Sprintf("%s&limit=%d", query, limit)
}

// benchRequest is a request for candidates as a client sends it.
func benchRequest(b *testing.B, base, query string) *http.Request {
	b.Helper()
	req, err := http.NewRequest("GET", base+"/allocation_candidates?"+query, nil)
	must(b, err)
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	return req
}

// readyMade is the bound: a handler that writes the same headers and bytes as
// the server without thinking.
func readyMade(b *testing.B, s *Server, query string) http.Handler {
	b.Helper()
	ready := httptest.NewRecorder()
	s.ServeHTTP(ready, benchRequest(b, "", query))
	if ready.Code != http.StatusOK {
		b.Fatalf("%s: status %d: %s", query, ready.Code, ready.Body)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for key, values := range ready.Header() {
			w.Header()[key] = values
		}
		_, _ = w.Write(ready.Body.Bytes())
	})
}

// fetch sends a request over a connection that is kept, and returns how long
// the answer took and how long it is.
func fetch(b *testing.B, req *http.Request) (time.Duration, int64) {
	b.Helper()
	started := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	took := time.Since(started)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return took, n
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / 1e3
}

// compare alternates between a query and the ready-made answer to it over loopback sockets, so
// that noise affects both. It reports both medians and their ratio; the time per operation is the
// sum of the two requests.
func compare(b *testing.B, s *Server, query string) {
	b.Helper()
	sim, ready := live(b, s), live(b, readyMade(b, s, query))
	ask, bound := benchRequest(b, sim.URL, query), benchRequest(b, ready.URL, query)
	var asked, bounds []time.Duration
	var size int64
	for b.Loop() {
		took, n := fetch(b, ask)
		asked, size = append(asked, took), n
		took, _ = fetch(b, bound)
		bounds = append(bounds, took)
	}
	p50, least := median(asked), median(bounds)
	b.ReportMetric(p50, "p50-µs")
	b.ReportMetric(least, "ready-p50-µs")
	b.ReportMetric(p50/least, "x-ready")
	b.ReportMetric(float64(size), "bytes")
}

// BenchmarkCandidates asks for what an instance needs in clouds of two sizes.
func BenchmarkCandidates(b *testing.B) {
	for _, hosts := range []int{1000, 10000} {
		s := benchWorld(b, hosts)
		for _, groups := range []int{1, 2} {
			for _, limit := range []int{10, 1000} {
				b.Run(fmt.Sprintf("hosts=%d/groups=%d/limit=%d", hosts, groups, limit), func(b *testing.B) {
					compare(b, s, spawnQueryOf(groups, limit))
				})
			}
		}
	}
}

// BenchmarkNeedle asks for resources that only one host of 10,000 has, and for resources that no
// host has, in several ways of being full.
func BenchmarkNeedle(b *testing.B) {
	const hosts = 10000
	s := benchWorld(b, hosts)
	providers := s.ResourceProviders()
	must(b, s.SetTraits(providers[9*hosts-1].UUID, "CUSTOM_GPU_NVIDIA", "CUSTOM_NEEDLE"))
	must(b, s.SetTraits(providers[9*(hosts/2)].UUID, "COMPUTE_NODE", "CUSTOM_NEEDLE_ROOT"))
	fill(b, s, providers)
	for _, needle := range []struct{ name, query string }{
		{"device-trait", "resources=VCPU:2&resources_d=PGPU:1&required_d=CUSTOM_NEEDLE&limit=10"},
		{"host-trait", "resources=VCPU:2&required=CUSTOM_NEEDLE_ROOT&resources_d=PGPU:1&limit=10"},
		{"root-required", "resources=VCPU:2&root_required=CUSTOM_NEEDLE_ROOT&resources_d=PGPU:1&limit=10"},
		{"all-full", spawnQueryOf(1, 10)},
		{"full-by-trait", "resources_d=PGPU:1&required_d=CUSTOM_GPU_FULL&limit=10"},
		{"full-in-turns", "resources=MEMORY_MB:1,DISK_GB:1&limit=10"},
	} {
		b.Run(needle.name, func(b *testing.B) { compare(b, s, needle.query) })
	}
}

// fill takes every FPGA, and the memory of one half of the hosts and the disk
// of the other. The last PGPU but one of each host gets a trait of its own and
// is full.
func fill(b *testing.B, s *Server, providers []ResourceProvider) {
	b.Helper()
	for i := range len(providers) / 9 {
		host := providers[9*i : 9*i+9]
		claim := Claim{Consumer: fmt.Sprintf("%08d-0000-4000-8000-00000000000f", i), Project: "p", User: "u"}
		for d := range 8 {
			if d%2 == 0 {
				claim.Allocations = append(claim.Allocations, Allocation{Provider: host[d+1].UUID, Class: "FPGA", Used: 1 + d})
			}
		}
		claim.Allocations = append(claim.Allocations, Allocation{Provider: host[6].UUID, Class: "PGPU", Used: 6})
		if i%2 == 0 {
			claim.Allocations = append(claim.Allocations, Allocation{Provider: host[0].UUID, Class: "MEMORY_MB", Used: 262144})
		} else {
			claim.Allocations = append(claim.Allocations, Allocation{Provider: host[0].UUID, Class: "DISK_GB", Used: 4000})
		}
		must(b, s.SetTraits(host[6].UUID, "CUSTOM_GPU_FULL", "OWNER_CYBORG"))
		must(b, s.Claim(claim))
	}
}

// answerStructs is an answer as a program with structs would hold it.
type answerStructs struct {
	Requests []struct {
		Allocations map[string]struct {
			Resources map[string]int `json:"resources"`
		} `json:"allocations"`
		Mappings map[string][]string `json:"mappings"`
	} `json:"allocation_requests"`
	Summaries map[string]struct {
		Resources map[string]struct {
			Capacity int `json:"capacity"`
			Used     int `json:"used"`
		} `json:"resources"`
		Traits []string `json:"traits"`
		Parent *string  `json:"parent_provider_uuid"`
		Root   string   `json:"root_provider_uuid"`
	} `json:"provider_summaries"`
}

// BenchmarkAnswer searches and writes a long answer to a buffer, and lets
// encoding/json write the same answer from structs without any search.
func BenchmarkAnswer(b *testing.B) {
	s := benchWorld(b, 1000)
	c := &call{server: s, version: maxVersion}
	raw := spawnQueryOf(1, 1000)
	query, err := c.candidateQuery(parseQuery(raw))
	must(b, err)
	var body []byte
	b.Run("limit=1000/write=search", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if body, err = c.searchCandidates(nil, query); err != nil {
				b.Fatal(err)
			}
		}
	})
	var answer answerStructs
	must(b, json.Unmarshal(body, &answer))
	b.Run("limit=1000/write=json.Marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(answer); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkExplain explains every host of a cloud.
func BenchmarkExplain(b *testing.B) {
	for _, hosts := range []int{1000, 10000} {
		s := benchWorld(b, hosts)
		b.Run(fmt.Sprintf("hosts=%d/groups=2", hosts), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Explain(spawnQueryOf(2, 1) + "&required=CUSTOM_GPU_NVIDIA"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWorstCase asks one host with 500 identical devices for more than
// any search can list.
func BenchmarkWorstCase(b *testing.B) {
	s := newServer(b, Config{Seed: 1})
	root := addProvider(b, s, ResourceProvider{Name: "host"})
	for d := range 500 {
		addProvider(b, s, ResourceProvider{Name: fmt.Sprintf("d%d", d), Parent: root.UUID, Inventories: map[string]Inventory{"FPGA": {Total: 1}}})
	}
	for _, groups := range []int{50, 500, 501} {
		for _, limit := range []int{10, 1000, 0} {
			b.Run(fmt.Sprintf("groups=%d/policy=isolate/limit=%d", groups, limit), func(b *testing.B) {
				query := engine.CandidateQuery{Isolate: true, Limit: limit}
				for i := range groups {
					query.Groups = append(query.Groups, engine.Group{Suffix: fmt.Sprintf("_%d", i), Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 1}}})
				}
				b.ReportAllocs()
				var found counter
				for b.Loop() {
					found = 0
					err := s.state.Candidates(query, &found)
					if err != nil && !strings.Contains(err.Error(), "too many") {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(found), "candidates")
			})
		}
	}
}

// counter counts the requests of an answer.
type counter int

func (c *counter) Request(*engine.Request)  { *c++ }
func (c *counter) Provider(*engine.Summary) {}

// BenchmarkClaim is a claim and its release by eight goroutines: through the
// direct API, and through the handler without a socket.
func BenchmarkClaim(b *testing.B) {
	s := benchWorld(b, 1000)
	providers := s.ResourceProviders()
	host := func(i int) (root, gpu string) { return providers[i%1000*9].UUID, providers[i%1000*9+8].UUID }
	b.Run("via=direct/goroutines=8", func(b *testing.B) {
		cycles(b, s, func(i int, consumer string) error {
			root, gpu := host(i)
			err := s.Claim(Claim{Consumer: consumer, Project: "p", User: "u", Type: "INSTANCE", Allocations: []Allocation{
				{Provider: root, Class: "VCPU", Used: 2}, {Provider: root, Class: "MEMORY_MB", Used: 4096}, {Provider: gpu, Class: "PGPU", Used: 1},
			}})
			if err != nil {
				return err
			}
			return s.Release(consumer)
		})
	})
	b.Run("via=handler/goroutines=8", func(b *testing.B) {
		cycles(b, s, func(i int, consumer string) error {
			root, gpu := host(i)
			body := `{"allocations":{"` + root + `":{"resources":{"VCPU":2,"MEMORY_MB":4096}},"` + gpu + `":{"resources":{"PGPU":1}}},` +
				`"mappings":{"":["` + root + `"],"device_profile_0":["` + gpu + `"]},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`
			if status := serve(s, "PUT", "/allocations/"+consumer, body); status != http.StatusNoContent {
				return fmt.Errorf("claim: status %d", status)
			}
			if status := serve(s, "DELETE", "/allocations/"+consumer, ""); status != http.StatusNoContent {
				return fmt.Errorf("release: status %d", status)
			}
			return nil
		})
	})
}

func serve(s *Server, method, path, body string) int {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w.Code
}

// cycles lets eight goroutines go through cycles, each with a consumer of its own, and checks
// that no allocations remain and nothing was lost.
func cycles(b *testing.B, s *Server, cycle func(i int, consumer string) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if err := cycle(i, fmt.Sprintf("%08d-0000-4000-8000-000000000000", i%100_000_000)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
	if left := s.Allocations(); left != nil {
		b.Errorf("%d allocations remain", len(left))
	}
	for _, p := range s.ResourceProviders() {
		for class := range p.Inventories {
			if used := s.Usage(p.UUID, class); used != 0 {
				b.Fatalf("%s: %d of %s used", p.Name, used, class)
			}
		}
	}
}

// BenchmarkBuild builds 90,000 providers through the direct API and reports
// their memory.
func BenchmarkBuild(b *testing.B) {
	var before, after runtime.MemStats
	var s *Server
	least := math.MaxFloat64
	for b.Loop() {
		s = nil
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		started := time.Now()
		s = benchWorld(b, 10000)
		least = min(least, time.Since(started).Seconds())
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	b.ReportMetric(least, "s/build")
	runtime.KeepAlive(s)
}
