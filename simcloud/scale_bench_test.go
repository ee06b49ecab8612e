package simcloud_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/scale"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// allocated is what was allocated since the start, in bytes, and what is reachable now.
func allocated() (total, heap uint64) {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc, stats.HeapAlloc
}

// reportDevices reports how many devices were worked on each second, and how much was
// allocated for each.
func reportDevices(b *testing.B, rates *scale.Rates, hosts int, bytes uint64) {
	devices := float64(b.N) * float64(hosts*scale.Devices)
	rates.Report(b, "devices", hosts, devices, "devices")
	b.ReportMetric(float64(bytes)/devices/1000, "KB/device")
}

// BenchmarkScaleBuild builds clouds of many hosts. Its MiB are the heap that the last cloud
// holds.
func BenchmarkScaleBuild(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		before, empty := allocated()
		for b.Loop() {
			cloud, err := simcloud.New(b.Context(), simcloud.ScaleModel(hosts, scale.Devices))
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			_, heap := allocated()
			b.ReportMetric((float64(heap)-float64(empty))/(1<<20), "MiB")
			if err := cloud.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		after, _ := allocated()
		reportDevices(b, &rates, hosts, after-before)
	})
}

// BenchmarkScaleReport makes all agents report again, with nothing changed.
func BenchmarkScaleReport(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		cloud := simcloud.Run(b, simcloud.ScaleModel(hosts, scale.Devices))
		before, _ := allocated()
		for b.Loop() {
			if err := cloud.Cyborg.Report(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		after, _ := allocated()
		reportDevices(b, &rates, hosts, after-before)
	})
}

// BenchmarkScaleFirstReport makes the agents of a Cyborg without devices report to a
// Placement that has only the hosts.
func BenchmarkScaleFirstReport(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		bytes := uint64(0)
		for b.Loop() {
			b.StopTimer()
			cyborg, end := newScaleCyborg(b, hosts)
			before, _ := allocated()
			b.StartTimer()
			if err := cyborg.Report(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			after, _ := allocated()
			bytes += after - before
			end()
			b.StartTimer()
		}
		reportDevices(b, &rates, hosts, bytes)
	})
}

// newScaleCyborg makes a Cyborg that knows the hosts of a cloud, and none of their devices.
func newScaleCyborg(b *testing.B, hosts int) (cyborg *fakecyborg.Server, end func()) {
	placement, err := placementsim.New(placementsim.Config{})
	must(b, err)
	cyborg, endCyborg := newCyborg(b, simcloud.ScaleModel(hosts, scale.Devices), placement, placement)
	return cyborg, func() {
		endCyborg()
		placement.Close()
	}
}

// newCyborg makes a Cyborg that knows the hosts of a model, and none of their devices, and reaches
// Placement by a handler.
func newCyborg(tb testing.TB, m simcloud.Model, placement *placementsim.Server, handler http.Handler) (cyborg *fakecyborg.Server, end func()) {
	tb.Helper()
	agents, err := m.Agents()
	must(tb, err)
	cyborg, err = fakecyborg.New(fakecyborg.Config{}, fakecyborg.WithPlacement(sim.Endpoint{
		URL: "http://placement.invalid", Client: &http.Client{Transport: simhttp.NewTransport(handler)},
		Token: func(context.Context) (string, error) { return "admin", nil },
	}))
	must(tb, err)
	for _, agent := range agents.Hosts {
		if _, err := placement.CreateProvider(placementsim.ResourceProvider{Name: agent.Name}); err != nil {
			tb.Fatal(err)
		}
		must(tb, cyborg.AddHost(agent))
	}
	return cyborg, func() {
		cyborg.Close()
		must(tb, agents.Close())
	}
}

// BenchmarkScalePage refetches all sections of the status page, of a cloud whose devices are in
// use to 80 %. KB is what the browser gets.
func BenchmarkScalePage(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		cloud := simcloud.Run(b, simcloud.ScaleModel(hosts, scale.Devices))
		use(b, cloud, hosts*scale.Devices*8/10)
		size := 0
		get := func(path string) {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			if cloud.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
				b.Fatal(path, w.Code)
			}
			size += w.Body.Len()
		}
		for range 100 {
			get("/accelerator/v2")
		}
		b.ReportAllocs()
		for b.Loop() {
			size = 0
			for _, section := range []string{"now", "leaks", "hosts", "guests", "arqs", "flows", "faults"} {
				get("/_sim/?part=" + section)
			}
		}
		rates.Report(b, "page", hosts, float64(b.N), "pages")
		b.ReportMetric(float64(size)/1000, "KB")
	})
}

// use gives a number of devices to guests.
func use(b *testing.B, cloud *simcloud.Cloud, devices int) {
	for n, h := range cloud.Cyborg.AttachHandles()[:devices] {
		arqs, err := cloud.Cyborg.CreateARQs("gpu", "admin")
		must(b, err)
		instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n)
		must(b, cloud.Cyborg.Bind(b.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: h.Hostname, Provider: h.ProviderUUID, Instance: instance}))
		claim := placementsim.Claim{Consumer: instance, Project: "admin", User: "user", Allocations: []placementsim.Allocation{
			{Provider: h.ProviderUUID, Class: "PGPU", Used: 1},
		}}
		must(b, cloud.Placement.Claim(claim))
		must(b, cloud.DefineGuest(sim.Guest{UUID: instance, Host: h.Hostname}))
	}
}
