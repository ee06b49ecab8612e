package fakecyborg_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// fpgaProfiles are device profiles with the image that the region must have while one of their
// requests is Bound; empty means any.
func fpgaProfiles() map[string][2]string {
	return map[string][2]string{
		"plain":     {`"accel:x":"y"`, ""},
		"one":       {`"accel:bitstream_id":"` + imageOne + `"`, imageOne},
		"one-named": {`"accel:bitstream_name":"gzip-v1"`, imageOne},
		"function":  {`"accel:function_id":"` + functionUUID + `"`, imageUUID},
		"name":      {`"accel:function_name":"gzip"`, imageOne},
		"bad":       {`"accel:bitstream_id":"` + imageBad + `"`, imageBad},
		"twice":     {`"accel:function_id":"two"`, "none"},
		"absent":    {`"accel:bitstream_name":"absent"`, "none"},
	}
}

// TestBoundRequestKeepsItsImage binds and programs in any order, several at a
// time: as long as a request is Bound its region has the image that it asked for.
func TestBoundRequestKeepsItsImage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			delay := time.Duration(rapid.IntRange(0, 2).Draw(rt, "delay")) * time.Second
			card := newHardware("test", fpgaCard("FPGA"))
			w := newWorld(t, fakecyborg.Config{BindDelay: delay}, []driver.Driver{card}, withImages(t))
			var names []string
			for name, p := range fpgaProfiles() {
				w.profile(name, `[{"resources:FPGA":"1",`+p[0]+`}]`)
				names = append(names, name)
			}
			slices.Sort(names)
			instances := 0
			rt.Repeat(map[string]func(*rapid.T){
				"bind": func(rt *rapid.T) {
					instances++
					instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", instances)
					w.patch(binding(instance, fpgaProvider(), w.arqs(rapid.SampledFrom(names).Draw(rt, "profile"))...))
				},
				"delete": func(rt *rapid.T) {
					if arqs := w.server.ARQs(); len(arqs) > 0 {
						w.delete("/v2/accelerator_requests?arqs=" + rapid.SampledFrom(arqs).Draw(rt, "arq").UUID)
					}
				},
				"program": func(rt *rapid.T) {
					w.programAPI(rapid.SampledFrom([]string{imageOne, imageUUID, imagePlain, imageBad, imageRegion, unknownID}).Draw(rt, "image"), "")
				},
				"report": func(rt *rapid.T) {
					if err := w.server.Report(t.Context()); err != nil {
						rt.Fatal(err)
					}
				},
				"wait": func(*rapid.T) { time.Sleep(time.Second) },
				"": func(rt *rapid.T) {
					synctest.Wait()
					has := w.server.Deployables()[0].BitstreamID
					for _, a := range w.server.ARQs() {
						if want := fpgaProfiles()[a.DeviceProfileName][1]; a.State == fakecyborg.StateBound && want != "" && want != has {
							rt.Fatalf("%s of profile %s is Bound, and its region has image %q\n%s", a.UUID, a.DeviceProfileName, has, w.server.Tree())
						}
					}
				},
			})
			elapse(time.Minute)
			for _, a := range w.server.ARQs() {
				if !a.State.Resolved() {
					rt.Errorf("%s is still %s", a.UUID, a.State)
				}
				if r := w.delete("/v2/accelerator_requests?arqs=" + a.UUID); r.status != http.StatusNoContent {
					rt.Errorf("delete: %d %s", r.status, r.fault())
				}
			}
			if w.used() != 0 {
				rt.Errorf("%d handles in use\n%s", w.used(), w.server.Tree())
			}
			w.want(w.programAPI(imageOne, ""), http.StatusOK, "") // the region is unused again
		})
	})
}

// TestRestartsLoseNothing stops and starts the agent in between everything else.
func TestRestartsLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			card := newHardware("test", vgpu("af", 3))
			w := newWorld(t, fakecyborg.Config{BindingStates: rapid.Bool().Draw(rt, "states")}, []driver.Driver{card})
			w.profile("v", `[{"resources:VGPU":"1"}]`)
			instances := 0
			start := func() {
				_ = w.server.StartAgent(t.Context(), "cn0") // fails while the card is broken
			}
			rt.Repeat(map[string]func(*rapid.T){
				"bind": func(*rapid.T) {
					instances++
					w.patch(binding(fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", instances), vgpuProvider(), w.arqs("v")...))
				},
				"release": func(rt *rapid.T) {
					if arqs := w.server.ARQs(); len(arqs) > 0 {
						arq := rapid.SampledFrom(arqs).Draw(rt, "arq").UUID
						if rapid.Bool().Draw(rt, "unbind") {
							w.patch(unbinding(arq))
						} else {
							w.delete("/v2/accelerator_requests?arqs=" + arq)
						}
					}
				},
				"stop": func(rt *rapid.T) {
					if err := w.server.StopAgent("cn0"); err != nil {
						rt.Fatal(err)
					}
					if rapid.Bool().Draw(rt, "lose") {
						card.Reboot()
					}
				},
				"start": func(*rapid.T) { start() },
				"break": func(rt *rapid.T) {
					card.failMake = rapid.SampledFrom([]error{nil, errors.New("no room")}).Draw(rt, "make")
				},
				"wait":   func(*rapid.T) { time.Sleep(20 * time.Second) },
				"report": func(*rapid.T) { _ = w.server.Report(t.Context()) },
			})
			card.failMake = nil
			start()
			bound := 0
			for _, a := range w.server.ARQs() {
				switch a.State {
				case fakecyborg.StateBound:
					bound++
				case fakecyborg.StateProvisioning, fakecyborg.StateUnknown, fakecyborg.StateBindStarted:
					rt.Errorf("%s is still %s", a.UUID, a.State)
				}
			}
			if present := card.present(); present < bound {
				rt.Errorf("%d mediated devices for %d bound requests\n%s", present, bound, w.server.Tree())
			}
			for _, a := range w.server.ARQs() {
				if r := w.delete("/v2/accelerator_requests?arqs=" + a.UUID); r.status != http.StatusNoContent {
					rt.Errorf("delete in %s: %d %s", a.State, r.status, r.fault())
				}
			}
			if w.used() != 0 || card.present() != 0 {
				rt.Errorf("left: %d handles, %d mediated devices\n%s", w.used(), card.present(), w.server.Tree())
			}
		})
	})
}

// noDeadline hides the deadline of a test, for which must not be asked where time
// is virtual.
type noDeadline struct{ testing.TB }
