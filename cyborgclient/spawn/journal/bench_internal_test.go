package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// recordBytes is about the length of a record of a spawn.
const recordBytes = 300

// BenchmarkMemorySpawn keeps the journal of a spawn in memory: eight records.
func BenchmarkMemorySpawn(b *testing.B) {
	store := NewMemory()
	record := make([]byte, recordBytes)
	b.ReportAllocs()
	for b.Loop() {
		j, err := store.Lock(b.Context(), "c0ffee00-0000-4000-8000-000000000001")
		if err != nil {
			b.Fatal(err)
		}
		for range 8 {
			if err := j.Append(b.Context(), record); err != nil {
				b.Fatal(err)
			}
		}
		if err := j.Clear(b.Context()); err != nil {
			b.Fatal(err)
		}
		j.Release()
	}
}

// BenchmarkFileAppend appends records to a file on the disk of the working directory. A transaction flushes the disk
// twice.
func BenchmarkFileAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			dir, err := os.MkdirTemp(".", "bench")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			f, err := Open(filepath.Join(dir, "journal"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			before, _ := f.transaction()
			b.ResetTimer()
			var count atomic.Int64
			var all sync.WaitGroup
			for n := range writers {
				all.Go(func() {
					if err := appendUntil(b, f, fmt.Sprint("instance ", n), &count); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			b.StopTimer()
			after, _ := f.transaction()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(2*float64(after-before)/float64(b.N), "flushes/record")
		})
	}
}

// appendUntil appends records until b.N are counted, with a Clear after each eight.
func appendUntil(b *testing.B, f *File, instance string, count *atomic.Int64) error {
	j, err := f.Lock(b.Context(), instance)
	if err != nil {
		return err
	}
	defer j.Release()
	record := make([]byte, recordBytes)
	for n := 1; count.Add(1) <= int64(b.N); n++ {
		if err := j.Append(b.Context(), record); err != nil {
			return err
		}
		if n%8 == 0 {
			if err := j.Clear(b.Context()); err != nil {
				return err
			}
		}
	}
	return nil
}
