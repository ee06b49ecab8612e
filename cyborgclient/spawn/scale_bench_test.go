package spawn_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// BenchmarkScaleSpawn is a whole spawn, the definition of its guest and its release, by
// sixteen workers at once, in empty clouds and in clouds of which 80 % of the devices are in
// use. Its rates are also told in parts of that of 8 empty hosts. There are always more free
// devices than workers: a spawn that fails fails the benchmark, and so does what is left in
// the end.
func BenchmarkScaleSpawn(b *testing.B) {
	base := 0.0
	for _, scale := range []struct {
		name   string
		hosts  int
		filled float64
		config spawn.Config
	}{
		{"hosts=8/filled=0", 8, 0, spawn.Config{}},
		{"hosts=1000/filled=0", 1000, 0, spawn.Config{}},
		{"hosts=10000/filled=0", 10_000, 0, spawn.Config{}},
		{"hosts=1000/filled=80", 1000, 0.8, spawn.Config{}},
		{"hosts=10000/filled=80", 10_000, 0.8, spawn.Config{}},
		{"hosts=1000/weigher", 1000, 0, spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFragments}}},
	} {
		b.Run(scale.name, func(b *testing.B) {
			w := scaleWorld(b, scale.hosts, scale.config)
			fillPart(b, w.cloud, scale.filled)
			rate := w.spawnAndRelease(b)
			if scale.hosts == 8 {
				base = rate // the last counts, the one of the most spawns
			}
			b.ReportMetric(rate, "spawns/s")
			b.ReportMetric(rate/base, "of-8-hosts")
			w.cloud.CheckNoLeaks(b)
		})
	}
}

// scaleWorld is a world of many hosts with eight GPUs each.
func scaleWorld(b *testing.B, hosts int, config spawn.Config) *world {
	w := &world{cloud: simcloud.Run(b, simcloud.ScaleModel(hosts, 8)), events: externalevent.NewRegistry()}
	w.cloud.HandleEvents(w.events.Handler())
	w.connect(b, w.cloud.Provider(b), spawn.WithConfig(config))
	return w
}

// spawnAndRelease makes b.N instances, sixteen at a time, and returns how many a second.
func (w *world) spawnAndRelease(b *testing.B) float64 {
	var number atomic.Int64
	const workers = 16
	b.SetParallelism(max(1, workers/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := benchInstance(0xb, int(number.Add(1)))
			result, err := w.flow.Run(b.Context(), spawn.Request{Instance: id, Flavor: flavor("gpu")})
			if err != nil {
				b.Error(err)
				continue
			}
			w.define(b, result)
			if err := w.flow.Release(b.Context(), id); err != nil {
				b.Error(err)
			}
			w.cloud.RemoveGuest(id)
		}
	})
	b.StopTimer()
	return float64(b.N) / b.Elapsed().Seconds()
}

// benchInstance is the UUID of the nth instance of a kind.
func benchInstance(kind, n int) string {
	return fmt.Sprintf("%08x-0000-4000-8%03x-%012x", uint32(n)*2654435761, kind, n)
}

// fillPart gives that part of the devices of a cloud to guests, chosen by a seed.
func fillPart(b *testing.B, cloud *simcloud.Cloud, part float64) {
	project := cloud.ProjectID("admin")
	devices := cloud.Cyborg.Deployables()
	rand.New(rand.NewPCG(13, 13)).Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
	for n, d := range devices[:int(part*float64(len(devices)))] {
		guest := benchInstance(0xf, n)
		if err := cloud.Placement.Claim(placementsim.Claim{Consumer: guest, Project: project, User: "user", Allocations: []placementsim.Allocation{
			{Provider: cloud.ProviderUUID(d.Hostname), Class: "VCPU", Used: 2},
			{Provider: cloud.ProviderUUID(d.Hostname), Class: "MEMORY_MB", Used: 2048},
			{Provider: d.ProviderUUID, Class: "PGPU", Used: 1},
		}}); err != nil {
			b.Fatal(err)
		}
		arqs, err := cloud.Cyborg.CreateARQs("gpu", project)
		if err != nil {
			b.Fatal(err)
		}
		if err := cloud.Cyborg.Bind(b.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: d.Hostname, Provider: d.ProviderUUID, Instance: guest}); err != nil {
			b.Fatal(err)
		}
	}
	for _, arq := range cloud.Cyborg.ARQs() {
		address, err := driver.PCIAddressOf(arq.AttachHandleInfo)
		if err != nil {
			b.Fatal(err)
		}
		if err := cloud.DefineGuest(sim.Guest{UUID: arq.InstanceUUID, Host: arq.Hostname, Domain: fmt.Sprintf(
			"<domain type='kvm'><devices><hostdev mode='subsystem' type='pci'><source><address domain='0x%x' bus='0x%x' slot='0x%x' function='0x%x'/></source></hostdev></devices></domain>",
			address.Domain, address.Bus, address.Device, address.Function)}); err != nil {
			b.Fatal(err)
		}
	}
}
