package spawn_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// BenchmarkSpawnAndDelete is a whole spawn and the release of what it got, by
// sixteen goroutines at once. Afterwards nothing may be left anywhere.
func BenchmarkSpawnAndDelete(b *testing.B) {
	for _, world := range []struct{ hosts, devices, limit int }{{8, 8, 10}, {100, 8, 1000}} {
		b.Run(fmt.Sprintf("hosts=%d/devices=%d/limit=%d", world.hosts, world.devices, world.limit), func(b *testing.B) {
			cloud := simcloud.Run(b, simcloud.ScaleModel(world.hosts, world.devices))
			flow := benchFlow(b, cloud)
			var number, refused atomic.Int64
			const workers = 16
			b.SetParallelism(max(1, workers/runtime.GOMAXPROCS(0)))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(number.Load()*2654435761), number.Add(1))
					refused.Add(spawnAndDelete(b, flow, id, world.limit))
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spawns/s")
			b.ReportMetric(float64(refused.Load())/float64(b.N), "refused/op")
			cloud.CheckNoLeaks(b)
		})
	}
}

// spawnAndDelete tries again while others are faster everywhere, and tells how
// often they were.
func spawnAndDelete(b *testing.B, flow *spawn.Flow, id string, limit int) (refused int64) {
	request := spawn.Request{Instance: id, Flavor: flavor("gpu"), Options: requestspec.Options{Limit: limit}}
	for {
		_, err := flow.Run(b.Context(), request)
		if err == nil {
			break
		}
		if !errors.Is(err, spawn.ErrClaim) {
			b.Error(err)
			return refused
		}
		refused++
	}
	if err := flow.Release(b.Context(), id); err != nil {
		b.Error(err)
	}
	return refused
}

func benchFlow(b *testing.B, cloud *simcloud.Cloud) *spawn.Flow {
	w := &world{cloud: cloud, events: externalevent.NewRegistry()}
	cloud.HandleEvents(w.events.Handler())
	w.connect(b, cloud.Provider(b), spawn.WithConfig(spawn.Config{RotateCandidates: true}))
	return w.flow
}
