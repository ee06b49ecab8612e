package spawn_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/scale"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// BenchmarkScaleSpawn is a whole spawn, the definition of its guest and its release, by sixteen workers at once, in
// clouds that are empty. A failed spawn or a leak at the end fails the benchmark.
func BenchmarkScaleSpawn(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		w := scaleWorld(b, hosts, spawn.Config{})
		b.Run("empty", func(b *testing.B) { w.benchSpawns(b, &rates, hosts) })
		if free := hosts * scale.Devices / 5; free > 2*scaleWorkers {
			fillPart(b, w.cloud, 0.8)
			b.Run("filled=80", func(b *testing.B) { w.benchSpawns(b, &rates, hosts) })
		}
	})
}

// BenchmarkScaleWeigher is BenchmarkScaleSpawn with a weigher, which sees all candidates.
func BenchmarkScaleWeigher(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		scaleWorld(b, hosts, spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFragments}}).benchSpawns(b, &rates, hosts)
	})
}

const scaleWorkers = 16

// benchSpawns makes instances and releases them again.
func (w *world) benchSpawns(b *testing.B, rates *scale.Rates, hosts int) {
	b.ReportAllocs()
	work := make(chan string)
	var workers sync.WaitGroup
	for range scaleWorkers {
		workers.Go(func() {
			for id := range work {
				w.spawnAndRelease(b, id)
			}
		})
	}
	for n := 0; b.Loop(); n++ {
		work <- benchInstance(0xb, n)
	}
	close(work)
	workers.Wait()
	rates.Report(b, "spawn", hosts, float64(b.N), "spawns")
	w.cloud.CheckNoLeaks(b)
}

func (w *world) spawnAndRelease(b *testing.B, id string) {
	result, err := w.flow.Run(b.Context(), spawn.Request{Instance: id, Flavor: flavor("gpu")})
	if err != nil {
		b.Error(err)
		return
	}
	w.define(b, result)
	if err := w.flow.Release(b.Context(), id); err != nil {
		b.Error(err)
	}
	w.cloud.RemoveGuest(id)
}

// scaleWorld is a world of many hosts with eight GPUs each.
func scaleWorld(b *testing.B, hosts int, config spawn.Config) *world {
	w := &world{cloud: simcloud.Run(b, simcloud.ScaleModel(hosts, scale.Devices)), events: externalevent.NewRegistry()}
	w.cloud.HandleEvents(w.events.Handler())
	w.connect(b, w.cloud.Provider(b), spawn.WithConfig(config), spawn.WithJournal(nil)) // the default
	return w
}

// benchInstance is the UUID of the nth instance of a kind.
func benchInstance(kind, n int) string {
	return fmt.Sprintf("%08x-0000-4000-8%03x-%012x", uint32(n)*2654435761, kind, n)
}

// fillPart assigns the given part of the devices of a cloud to guests, chosen by a seed.
func fillPart(b *testing.B, cloud *simcloud.Cloud, part float64) {
	project := cloud.ProjectID("admin")
	devices := cloud.Cyborg.Deployables()
	rand.New(rand.NewPCG(13, 13)).Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
	for n, d := range devices[:int(part*float64(len(devices)))] {
		guest := benchInstance(0xf, n)
		settled(b, cloud.Placement.Claim(placementsim.Claim{Consumer: guest, Project: project, User: "user", Allocations: []placementsim.Allocation{
			{Provider: cloud.ProviderUUID(d.Hostname), Class: "VCPU", Used: 2},
			{Provider: cloud.ProviderUUID(d.Hostname), Class: "MEMORY_MB", Used: 2048},
			{Provider: d.ProviderUUID, Class: "PGPU", Used: 1},
		}}))
		arqs, err := cloud.Cyborg.CreateARQs("gpu", project)
		settled(b, err)
		settled(b, cloud.Cyborg.Bind(b.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: d.Hostname, Provider: d.ProviderUUID, Instance: guest}))
	}
	for _, arq := range cloud.Cyborg.ARQs() {
		address, err := driver.PCIAddressOf(arq.AttachHandleInfo)
		settled(b, err)
		settled(b, cloud.DefineGuest(sim.Guest{UUID: arq.InstanceUUID, Host: arq.Hostname, Domain: fmt.Sprintf(
			"<domain type='kvm'><devices><hostdev mode='subsystem' type='pci'><source><address domain='0x%x' bus='0x%x' slot='0x%x' function='0x%x'/></source></hostdev></devices></domain>",
			address.Domain, address.Bus, address.Device, address.Function)}))
	}
}
