package fakecyborg_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// Two runs with one seed are equal also where many binds are due at one instant: they end in the order of the calls, and
// those that a loaded state has in the order of the state.
func TestBindsThatAreDueAtOneInstantEndInTheOrderOfTheCalls(t *testing.T) {
	t.Parallel()
	const binds = 12
	synctest.Test(t, func(t *testing.T) {
		cfg := fakecyborg.Config{BindDelay: time.Second}
		w, _ := vgpuWorld(t, cfg, binds, 1)
		var want []string
		for n := range binds {
			want = append(want, fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n))
			w.want(w.patch(binding(want[n], vgpuProvider(), w.arqs("v")[0])), 202, "")
		}
		data := dumped(t, w.server)
		other, _ := vgpuWorld(t, cfg, binds, 1)
		loaded(t, other.server, data)
		other.server.Resume()
		elapse(time.Minute)
		for name, nova := range map[string]*world{"the calls": w, "the state": other} {
			var got []string
			for _, events := range nova.nova.sent() {
				got = append(got, events[0].ServerUUID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events after %s (-want +got):\n%s", name, diff)
			}
		}
	})
}
