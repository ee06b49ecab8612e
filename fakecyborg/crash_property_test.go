package fakecyborg_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// crashWorld is a simulator whose card takes a second for everything.
func crashWorld(t *testing.T, cfg fakecyborg.Config) (*world, *slowCard) {
	t.Helper()
	card := &slowCard{hardware: newHardware("test", vgpu("af", 12), fpgaCard("FPGA"))}
	second := func() { time.Sleep(time.Second) }
	card.during, card.dropping, card.writing = second, second, second
	return newWorld(t, cfg, []driver.Driver{card}, withImages(t)), card
}

// after starts a simulator from what survives a crash: the dump and the hardware. It returns the
// requests that Nova knows to be bound.
func (w *world) after(t *testing.T, cfg fakecyborg.Config, card *slowCard) (*world, *slowCard, map[string]bool) {
	t.Helper()
	other, left := crashWorld(t, cfg)
	left.mdevs = maps.Clone(card.mdevs)
	loaded(t, other.server, dumped(t, w.server))
	return other, left, w.heard()
}

// heard are the requests whose completed event Nova got.
func (w *world) heard() map[string]bool {
	heard := make(map[string]bool)
	for _, post := range w.nova.sent() {
		for _, event := range post {
			heard[*event.Tag] = heard[*event.Tag] || event.Status == "completed" || event.Status == "ok"
		}
	}
	return heard
}

// traffic has clients bind and release until they have done all that was drawn.
// It answers the instances that keep what they have.
func (w *world) traffic(rt *rapid.T, clients *sync.WaitGroup) (keepers map[string]bool) {
	keepers = make(map[string]bool)
	pause := func() time.Duration {
		return time.Duration(rapid.IntRange(0, 30).Draw(rt, "pause")) * 100 * time.Millisecond
	}
	for n := range rapid.IntRange(1, 4).Draw(rt, "clients") {
		instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n)
		profile, provider := "v", vgpuProvider()
		if n == 0 {
			profile, provider = rapid.SampledFrom([]string{"f", "u"}).Draw(rt, "image"), fpgaProvider()
		}
		before, back, how := pause(), pause(), rapid.SampledFrom([]string{"keep", "delete", "unbind"}).Draw(rt, "then")
		keepers[instance] = how == "keep"
		clients.Go(func() {
			time.Sleep(before)
			arqs := w.arqs(profile)
			_, _ = w.trySend(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instance, provider, arqs...)})
			time.Sleep(back)
			switch how {
			case "delete":
				_, _ = w.trySend(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instance})
			case "unbind":
				_, _ = w.trySend(sent{method: "PATCH", path: "/v2/accelerator_requests", body: unbinding(arqs...)})
			}
		})
	}
	return keepers
}

// TestNothingIsLostByACrash ends a simulator at any moment of binds and releases.
// The next process ends every bind, Nova gets an event for each that is Bound, and everything is
// free when all requests are released.
func TestNothingIsLostByACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			cfg := fakecyborg.Config{AsyncBind: true, BindDelay: time.Duration(rapid.IntRange(0, 1).Draw(rt, "delay")) * time.Second}
			if rapid.Bool().Draw(rt, "train") {
				cfg.EventForm = fakecyborg.EventFormTrain
			}
			w, card := crashWorld(t, cfg)
			w.profile("v", `[{"resources:VGPU":"3"}]`)
			w.profile("f", `[{"resources:FPGA":"2","accel:bitstream_id":"`+imageOne+`"}]`)
			w.profile("u", `[{"resources:FPGA":"1","accel:function_id":"`+functionUUID+`"}]`)
			var clients sync.WaitGroup
			keepers := w.traffic(rt, &clients)
			elapse(time.Duration(rapid.IntRange(0, 100).Draw(rt, "crash"))*100*time.Millisecond + time.Millisecond)
			other, left, heard := w.after(t, cfg, card)
			clients.Wait()
			other.server.Resume()
			elapse(time.Minute)
			for tag, completed := range other.heard() {
				heard[tag] = heard[tag] || completed
			}
			for _, a := range other.server.ARQs() {
				idle := slices.Contains([]fakecyborg.State{fakecyborg.StateInitial, fakecyborg.StateUnbound}, a.State)
				if !a.State.Resolved() && !idle || a.State == fakecyborg.StateBindFailed && keepers[a.InstanceUUID] || a.State == fakecyborg.StateBound && !heard[a.UUID] {
					rt.Errorf("%s is still %s, Nova got its event: %t", a.UUID, a.State, heard[a.UUID])
				}
				if a.State == fakecyborg.StateBound && a.DeviceProfileName == "f" && !slices.ContainsFunc(other.server.Deployables(), func(d fakecyborg.StoredDeployable) bool { return d.BitstreamID == imageOne }) {
					rt.Errorf("%s is Bound, and its image is not written", a.UUID)
				}
				other.want(other.delete("/v2/accelerator_requests?arqs="+a.UUID), 204, "")
			}
			if err := other.server.Report(t.Context()); err != nil {
				rt.Error(err)
			}
			for _, deployable := range other.server.Deployables() {
				if deployable.ResourceClass() == "FPGA" {
					if err := other.server.ProgramDeployable(t.Context(), deployable.UUID, imageUUID); err != nil {
						rt.Error(err)
					}
				}
			}
			if other.used() != 0 || left.present() != 0 {
				rt.Errorf("left: %d handles, %d mediated devices\n%s", other.used(), left.present(), other.server.Tree())
			}
			elapse(time.Minute) // the crashed simulator finishes its work
		})
	})
}
