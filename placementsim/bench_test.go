package placementsim

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
)

// benchWorld builds hosts with eight children each, alternately FPGA and PGPU.
func benchWorld(b *testing.B, hosts int) *Server {
	b.Helper()
	s := newServer(b, Config{Seed: 1})
	for h := range hosts {
		root, err := s.CreateProvider(NewProvider{
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
			_, err := s.CreateProvider(NewProvider{
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

const spawnQuery = "resources=VCPU:2,MEMORY_MB:4096,DISK_GB:20&resourcesdevice_profile_0=FPGA:1&requireddevice_profile_0=CUSTOM_FPGA_INTEL&group_policy=none"

func spawnQueryOf(groups, limit int) string {
	query := spawnQuery
	if groups == 2 {
		query += "&resourcesdevice_profile_1=PGPU:1&requireddevice_profile_1=CUSTOM_GPU_NVIDIA"
	}
	return fmt.Sprintf("/allocation_candidates?%s&limit=%d", query, limit)
}

// fetch makes one request on a live server and returns the length of the body.
func fetch(b *testing.B, url string) int {
	b.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return int(n)
}

func BenchmarkCandidates(b *testing.B) {
	for _, hosts := range []int{1000, 10000} {
		s := benchWorld(b, hosts)
		srv := httptest.NewServer(s)
		for _, groups := range []int{1, 2} {
			for _, limit := range []int{10, 1000} {
				b.Run(fmt.Sprintf("hosts=%d/groups=%d/limit=%d", hosts, groups, limit), func(b *testing.B) {
					b.ReportAllocs()
					size := 0
					for b.Loop() {
						size = fetch(b, srv.URL+spawnQueryOf(groups, limit))
					}
					b.ReportMetric(float64(size), "bytes")
				})
			}
		}
		srv.Close()
	}
}

// BenchmarkReadyMade is the bound: a handler that writes the same bytes.
func BenchmarkReadyMade(b *testing.B) {
	s := benchWorld(b, 1000)
	for _, limit := range []int{10, 1000} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			ready := httptest.NewRecorder()
			req := httptest.NewRequest("GET", spawnQueryOf(1, limit), nil)
			req.Header.Set("X-Auth-Token", "admin")
			req.Header.Set("OpenStack-API-Version", "placement 1.39")
			s.ServeHTTP(ready, req)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for key, values := range ready.Header() {
					w.Header()[key] = values
				}
				_, _ = w.Write(ready.Body.Bytes())
			}))
			defer srv.Close()
			b.ReportAllocs()
			for b.Loop() {
				fetch(b, srv.URL)
			}
		})
	}
}

// BenchmarkNeedle asks for what one host of many has, and for what none has.
func BenchmarkNeedle(b *testing.B) {
	const hosts = 10000
	s := benchWorld(b, hosts)
	last := s.ResourceProviders()[9*hosts-1]
	if err := s.SetTraits(last.UUID, "CUSTOM_NEEDLE"); err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	for name, query := range map[string]string{
		"trait": "resources_d=PGPU:1&required_d=CUSTOM_NEEDLE&limit=10",
		"full":  "resources_d=PGPU:9&limit=10",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fetch(b, srv.URL+"/allocation_candidates?"+query)
			}
		})
	}
}

// BenchmarkClaim is a claim and its release by eight goroutines.
func BenchmarkClaim(b *testing.B) {
	s := benchWorld(b, 1000)
	providers := s.ResourceProviders()
	var next atomic.Int64
	b.SetParallelism(8 / max(runtime.GOMAXPROCS(0), 1))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(next.Add(1))
			host := providers[i%1000*9]
			consumer := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i%100_000_000)
			err := s.Claim(Claim{Consumer: consumer, Project: "p", User: "u", Type: "INSTANCE", Allocations: []Allocation{
				{Provider: host.UUID, Class: "VCPU", Used: 2}, {Provider: host.UUID, Class: "MEMORY_MB", Used: 4096}, {Provider: providers[i%1000*9+8].UUID, Class: "PGPU", Used: 1},
			}})
			if err == nil {
				err = s.Release(consumer)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkBuild builds 90,000 providers and reports their memory.
func BenchmarkBuild(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	var s *Server
	for b.Loop() {
		s = benchWorld(b, 10000)
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	runtime.KeepAlive(s)
}
