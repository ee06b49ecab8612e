package spawn_test

import (
	"context"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/internal/scale"
)

// BenchmarkScaleReconcile lists the orphans of clouds in which four of five devices are in use and every tenth of
// their instances does not exist. Its rate is in ARQs per second, which is constant if the cost is linear.
func BenchmarkScaleReconcile(b *testing.B) {
	var rates scale.Rates
	scale.Run(b, func(b *testing.B, hosts int) {
		w := scaleWorld(b, hosts, spawn.Config{})
		fillPart(b, w.cloud, 0.8)
		living, arqs := map[string]bool{}, w.cloud.Cyborg.ARQs()
		for n, arq := range arqs {
			living[arq.InstanceUUID] = n%10 != 0
		}
		opts := w.scope()
		opts.Living = func(_ context.Context, instance string) (bool, error) { return living[instance], nil }
		b.ReportAllocs()
		for b.Loop() {
			orphans, err := w.flow.Reconcile(b.Context(), opts)
			if want := (len(arqs) + 9) / 10; err != nil || kindsOf(orphans)[spawn.LeftoverARQ] != want || kindsOf(orphans)[spawn.LeftoverAllocation] != want {
				b.Fatal(kindsOf(orphans), want, err)
			}
		}
		rates.Report(b, "reconcile", hosts, float64(b.N*len(arqs)), "ARQs")
	})
}
