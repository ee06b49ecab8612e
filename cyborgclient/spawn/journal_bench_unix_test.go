//go:build unix

package spawn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
)

// BenchmarkJournal is a spawn with each store of journals, alone and as one of 64 at once, in a cloud of 256 devices. The file is in the
// working directory. The release after it is not measured. A spawn reads all candidates: of the few that it asks for
// without a limit, others have most by the time it claims one.
func BenchmarkJournal(b *testing.B) {
	for _, name := range []string{"memory", "file"} {
		for _, atOnce := range []int{1, 64} {
			b.Run(fmt.Sprintf("store=%s/spawns=%d", name, atOnce), func(b *testing.B) {
				var store journal.Store = journal.NewMemory()
				if name == "file" {
					store = benchFile(b)
				}
				w := scaleWorld(b, 32, spawn.Config{})
				w.connect(b, w.cloud.Provider(b), spawn.WithConfig(spawn.Config{}), spawn.WithJournal(store))
				w.benchBatches(b, atOnce)
			})
		}
	}
}

func benchFile(b *testing.B) *journal.File {
	dir, err := os.MkdirTemp(".", "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	store, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return store
}

// benchBatches spawns instances side by side and releases them one after another.
func (w *world) benchBatches(b *testing.B, atOnce int) {
	var wall, processor time.Duration
	spawned, claims := 0, 0
	for b.Loop() {
		w.cloud.ForgetRequests()
		begun, used := time.Now(), processorTime()
		var batch sync.WaitGroup
		for n := range atOnce {
			batch.Go(func() {
				result, err := w.flow.Run(b.Context(), spawn.Request{Instance: benchInstance(0xb, n), Flavor: flavor("gpu"), Options: requestspec.Options{Limit: 256}})
				if err != nil {
					b.Error(err)
					return
				}
				w.define(b, result)
			})
		}
		batch.Wait()
		wall, processor, spawned = wall+time.Since(begun), processor+processorTime()-used, spawned+atOnce
		b.StopTimer()
		claims += w.count(fault.AllocationsPut)
		for n := range atOnce {
			if err := w.flow.Release(b.Context(), benchInstance(0xb, n)); err != nil {
				b.Fatal(err)
			}
			w.cloud.RemoveGuest(benchInstance(0xb, n))
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(claims)/float64(spawned), "claims/spawn")
	b.ReportMetric(float64(wall.Microseconds())/float64(spawned), "µs-wall/spawn")
	b.ReportMetric(float64(processor.Microseconds())/float64(spawned), "µs-cpu/spawn")
}

// processorTime is the user and system time of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
