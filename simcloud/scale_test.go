package simcloud_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/scale"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func scaled(tb testing.TB, hosts int, opts ...simcloud.Option) *simcloud.Cloud {
	tb.Helper()
	cloud, err := simcloud.New(tb.Context(), simcloud.ScaleModel(hosts, scale.Devices), opts...)
	must(tb, err)
	tb.Cleanup(func() { _ = cloud.Close() })
	return cloud
}

// fill gives each GPU of a cloud to a guest of its own, and returns how many there are.
func fill(tb testing.TB, cloud *simcloud.Cloud) int {
	tb.Helper()
	project := cloud.ProjectID("admin")
	for n, d := range cloud.Cyborg.Deployables() {
		guest := instance(n)
		claim := placementsim.Claim{Consumer: guest, Project: project, User: "user", Allocations: []placementsim.Allocation{
			{Provider: cloud.ProviderUUID(d.Hostname), Class: "VCPU", Used: 4},
			{Provider: cloud.ProviderUUID(d.Hostname), Class: "MEMORY_MB", Used: 8192},
			{Provider: d.ProviderUUID, Class: "PGPU", Used: 1},
		}}
		must(tb, cloud.Placement.Claim(claim))
		arqs, err := cloud.Cyborg.CreateARQs("gpu", project)
		must(tb, err)
		binding := fakecyborg.Binding{ARQ: arqs[0].UUID, Host: d.Hostname, Provider: d.ProviderUUID, Instance: guest}
		must(tb, cloud.Cyborg.Bind(tb.Context(), binding))
	}
	arqs := cloud.Cyborg.ARQs()
	for _, a := range arqs {
		must(tb, cloud.DefineGuest(sim.Guest{UUID: a.InstanceUUID, Host: a.Hostname, Domain: domainOf(tb, a)}))
	}
	return len(arqs)
}

// BenchmarkScaleLeaks checks clouds in which each device has a guest.
func BenchmarkScaleLeaks(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		b.ReportAllocs()
		cloud := scaled(b, hosts)
		guests := fill(b, cloud)
		for b.Loop() {
			if leaks := cloud.Leaks(); len(leaks) > 0 {
				b.Fatal(len(leaks), leaks[0])
			}
		}
		rates.Report(b, "leaks", hosts, float64(b.N*guests), "guests")
	})
}

// BenchmarkScaleState keeps clouds in a file and as a document: a request that changes a
// guest and waits for the disk, a start from the file, a dump and a load.
func BenchmarkScaleState(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		path := filepath.Join(b.TempDir(), "state")
		cloud := scaled(b, hosts, simcloud.WithStateFile(path))
		b.Run("change", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				cloud.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodPut, "/_sim/guests/"+instance(1), strings.NewReader(`{"host": "cn0"}`)))
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
			rates.Report(b, "change", hosts, float64(b.N), "changes")
		})
		dump, err := cloud.Dump()
		if err != nil {
			b.Fatal(err)
		}
		b.Run("dump", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := &discarded{header: make(http.Header)}
				cloud.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/_sim/state", nil))
				if w.n != len(dump) {
					b.Fatal(w.n, len(dump))
				}
			}
			b.ReportMetric(float64(len(dump))/(1<<20), "MiB")
			rates.Report(b, "dump", hosts, float64(b.N*hosts), "hosts")
		})
		b.Run("load", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := cloud.Load(dump); err != nil {
					b.Fatal(err)
				}
			}
			rates.Report(b, "load", hosts, float64(b.N*hosts), "hosts")
		})
		b.Run("start", func(b *testing.B) {
			b.ReportAllocs()
			dump = nil // no part of a start, as the cloud before
			for b.Loop() {
				if err := cloud.Close(); err != nil {
					b.Fatal(err)
				}
				cloud = nil
				if cloud, err = simcloud.New(b.Context(), simcloud.ScaleModel(hosts, scale.Devices), simcloud.WithStateFile(path)); err != nil {
					b.Fatal(err)
				}
			}
			rates.Report(b, "start", hosts, float64(b.N*hosts), "hosts")
			_ = cloud.Close()
		})
	})
}

// discarded is an answer that keeps only the length of its body.
type discarded struct {
	header http.Header
	n      int
}

func (d *discarded) Header() http.Header { return d.header }
func (d *discarded) WriteHeader(int)     {}
func (d *discarded) Write(p []byte) (int, error) {
	d.n += len(p)
	return io.Discard.Write(p)
}
