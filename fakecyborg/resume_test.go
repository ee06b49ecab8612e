package fakecyborg_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// slowCard is hardware that shows when it is being programmed.
type slowCard struct {
	*hardware
	writing func()
}

func (c *slowCard) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	if c.writing != nil {
		c.writing()
	}
	return c.hardware.Program(ctx, path, deployable, image)
}

// bindCase is a kind of handle with everything that a bind of it needs.
type bindCase struct {
	card     func() *slowCard // nil: the fake driver
	profile  string
	provider string
}

func bindCases() map[string]bindCase {
	card := func(d driver.Device) func() *slowCard {
		return func() *slowCard { return &slowCard{hardware: newHardware("test", d)} }
	}
	return map[string]bindCase{
		"PCI":      {card(gpu("3b", "PGPU", nil, "0", "1")), `[{"resources:PGPU":"1"}]`, fpgaProvider()},
		"MDEV":     {card(vgpu("af", 2)), `[{"resources:VGPU":"1"}]`, vgpuProvider()},
		"TEST_PCI": {nil, `[{"resources:FPGA":"1"}]`, fakeProvider()},
		"FPGA":     {card(fpgaCard("FPGA")), `[{"resources:FPGA":"1","accel:bitstream_id":"` + imageOne + `"}]`, fpgaProvider()},
		"function": {card(fpgaCard("FPGA")), `[{"resources:FPGA":"1","accel:function_id":"one"}]`, fpgaProvider()},
	}
}

// world starts a simulator for the case, with its own card.
func (c bindCase) world(t *testing.T, cfg fakecyborg.Config) (*world, *slowCard) {
	t.Helper()
	var d driver.Driver = fake.New("cn0")
	var card *slowCard
	if c.card != nil {
		card = c.card()
		d = card
	}
	return newWorld(t, cfg, []driver.Driver{d}, withImages(t)), card
}

// interrupted is the dump of a simulator that ends in the middle of a bind: while
// the delay runs, or while the agent is at work.
func (c bindCase) interrupted(t *testing.T, cfg fakecyborg.Config, moment string) (data []byte, arq string) {
	t.Helper()
	w, card := c.world(t, cfg)
	w.profile("p", c.profile)
	arq = w.arqs("p")[0]
	take := func() {
		if data == nil {
			data = dumped(t, w.server)
		}
	}
	if moment == "the agent works" {
		card.during, card.writing = take, take
	}
	w.want(w.patch(binding(instanceA, c.provider, arq)), 202, "")
	if moment == "the delay runs" {
		take()
	}
	elapse(time.Minute)
	w.server.CheckBound(t, instanceA, 1)
	if data == nil || !strings.Contains(string(data), `"state":"BindStarted"`) {
		t.Fatalf("the dump was not taken during the bind:\n%s", data)
	}
	return data, arq
}

// A simulator that ended in the middle of a bind finishes it in its next life,
// unless the request is unbound or deleted first.
func TestInterruptedBindsEndAfterResume(t *testing.T) {
	t.Parallel()
	for kind, c := range bindCases() {
		for _, moment := range []string{"the delay runs", "the agent works"} {
			if moment == "the agent works" && (kind == "PCI" || kind == "TEST_PCI") {
				continue // it has nothing to do
			}
			for _, delay := range []time.Duration{0, 2 * time.Second} {
				if delay == 0 && moment == "the delay runs" {
					continue
				}
				for _, first := range []string{"", "unbind", "delete"} {
					t.Run(strings.Join([]string{kind, moment, delay.String(), first}, "/"), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { c.resumes(t, moment, delay, first) })
					})
				}
			}
		}
	}
}

func (c bindCase) resumes(t *testing.T, moment string, delay time.Duration, first string) {
	cfg := fakecyborg.Config{BindDelay: delay}
	data, arq := c.interrupted(t, cfg, moment)
	w, card := c.world(t, cfg)
	loaded(t, w.server, data)
	elapse(time.Minute)
	w.server.CheckState(t, arq, fakecyborg.StateBindStarted) // no work is in progress
	w.checkPosts(0)
	want := "completed"
	switch first {
	case "unbind":
		w.want(w.patch(unbinding(arq)), 202, "")
		want = "failed"
	case "delete":
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		want = "failed"
	}
	w.server.Resume()
	synctest.Wait()
	if first == "" && delay > 0 {
		w.server.CheckState(t, arq, fakecyborg.StateBindStarted)
	}
	w.server.Resume() // a second one does nothing
	elapse(time.Minute)
	event := sim.Event{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arq, Status: want}
	if diff := cmp.Diff([][]sim.Event{{event}}, w.nova.sent()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if first == "" {
		w.server.CheckBound(t, instanceA, 1)
		if card != nil && card.present()+len(card.images) != either(card.made > 0 || len(card.images) > 0, 0, 1) {
			t.Errorf("%d mediated devices, %d images", card.present(), len(card.images))
		}
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
	}
	if w.used() != 0 || card != nil && card.present() != 0 {
		t.Errorf("left: %d handles\n%s", w.used(), w.server.Tree())
	}
	for _, deployable := range w.server.Deployables() {
		if card != nil && deployable.BitstreamID != "" && len(card.images) == 0 {
			t.Errorf("bitstream %s, and nothing was written", deployable.BitstreamID)
		}
	}
	again := w.arqs("p")[0] // and the device is as good as before
	w.want(w.patch(binding(instanceB, c.provider, again)), 202, "")
	elapse(time.Minute)
	w.server.CheckBound(t, instanceB, 1)
}

// Nova gets the events of a PATCH once, regardless of what had ended before.
func TestResumeSendsMissingEvents(t *testing.T) {
	t.Parallel()
	for _, form := range []fakecyborg.EventForm{fakecyborg.EventFormShipped, fakecyborg.EventFormTrain, fakecyborg.EventFormUssuri} {
		for nth := range 4 {
			t.Run(fmt.Sprint(form, nth), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					cfg := fakecyborg.Config{BindDelay: time.Second, EventForm: form}
					w, card := vgpuWorld(t, cfg, 4, 3)
					var data []byte
					made := 0
					take := func() {
						if made++; made == nth+1 {
							data = dumped(t, w.server)
						}
					}
					card.during = take
					if nth == 3 { // while the event is being sent
						made = nth
						card.during, w.nova.onPost = nil, take
					}
					arqs := w.arqs("v")
					w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
					elapse(time.Minute)
					other, _ := vgpuWorld(t, cfg, 4, 3)
					loaded(t, other.server, data)
					other.server.Resume()
					elapse(time.Minute)
					other.server.CheckBound(t, instanceA, 3)
					if diff := cmp.Diff(w.nova.sent(), other.nova.sent()); diff != "" {
						t.Errorf("events of both lives (-want +got):\n%s", diff)
					}
					if got := dumped(t, other.server); hasRows(got, "binds") {
						t.Errorf("binds remain:\n%s", got)
					}
				})
			})
		}
	}
}

// A PATCH that failed halfway was answered with the error: the binds that it has begun
// are finished, and no event is sent.
func TestResumeIsSilentAboutAPatchThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fakecyborg.Config{BindDelay: time.Second}
		w, _ := vgpuWorld(t, cfg, 1, 2) // the second request finds no handle
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 404, "")
		data := dumped(t, w.server)
		time.Sleep(time.Minute) // w continues, and has no work of the PATCH
		if text := dumped(t, w.server); hasRows(text, "binds") {
			t.Errorf("binds remain after the PATCH has ended:\n%s", text)
		}
		other, card := vgpuWorld(t, cfg, 1, 2)
		loaded(t, other.server, data)
		checkStates(t, other, "BindStarted", "BindFailed")
		other.server.Resume()
		elapse(time.Minute)
		checkStates(t, other, "Bound", "BindFailed")
		if card.present() != 1 || len(other.nova.sent()) != 0 {
			t.Errorf("%d mediated devices, events %v", card.present(), other.nova.sent())
		}
	})
}

// A dump does not contain the ended binds of such a PATCH.
func TestADumpDropsBindsWithoutAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fakecyborg.Config{BindDelay: time.Second}
		w, card := vgpuWorld(t, cfg, 2, 3)
		var data []byte
		card.during = func() { data = dumped(t, w.server) } // the last one counts
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 404, "")
		elapse(time.Minute)
		other, _ := vgpuWorld(t, cfg, 2, 3)
		loaded(t, other.server, data)
		checkStates(t, other, "Bound", "BindStarted", "BindFailed")
		other.server.Resume()
		elapse(time.Minute)
		checkStates(t, other, "Bound", "Bound", "BindFailed")
		other.checkPosts(0)
	})
}

// What upstream's defects leave BindStarted stays so.
func TestRequestsThatAreBindStartedForEverStaySo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fakecyborg.Config{UpstreamQuirks: true, BindDelay: time.Second}
		w, _ := vgpuWorld(t, cfg, 2, 1)
		w.want(w.patch(binding(instanceA, unknownID, w.arqs("v")...)), 404, "")
		held := w.arqs("v")[0]
		w.want(w.patch(binding(instanceB, vgpuProvider(), held)), 202, "")
		settled(t, w.server.SetARQState(held, fakecyborg.StateBindStarted))
		elapse(time.Minute)
		other, _ := vgpuWorld(t, cfg, 2, 1)
		loaded(t, other.server, dumped(t, w.server))
		other.server.Resume()
		elapse(time.Minute)
		checkStates(t, other, "BindStarted", "BindStarted")
		other.checkPosts(0)
	})
}

// A release that was interrupted can be tried again.
func TestInterruptedReleasesCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			cfg := fakecyborg.Config{BindDelay: delay}
			w, card := vgpuWorld(t, cfg, 2, 1)
			var data []byte
			card.dropping = func() { data = dumped(t, w.server) }
			arq := w.arqs("v")[0]
			w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
			other, left := vgpuWorld(t, cfg, 2, 1)
			loaded(t, other.server, data)
			other.server.Resume()
			other.server.CheckState(t, arq, either(delay > 0, fakecyborg.StateBound, fakecyborg.StateBindFailed))
			elapse(time.Minute)
			other.want(other.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
			other.checkFreed(left)
		})
	}
}

// An image that was being written at the word of an administrator is written
// again, since the content of the card is unknown.
func TestResumeWritesAnImageAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := bindCases()["FPGA"]
		w, card := c.world(t, fakecyborg.Config{})
		w.want(w.programAPI(imageOne, ""), 200, "")
		var data []byte
		card.writing = func() { data = dumped(t, w.server) }
		w.want(w.programAPI(imageUUID, ""), 200, "")
		other, second := c.world(t, fakecyborg.Config{})
		loaded(t, other.server, data)
		other.profile("f", c.profile)
		other.want(other.programAPI(imageOne, ""), 409, "deployable cn0_0000:3b:00.0 is being programmed already")
		second.writing = func() {
			second.writing = nil
			other.server.Resume() // does nothing
			time.Sleep(time.Second)
		}
		other.server.Resume()
		elapse(time.Minute)
		if got := other.server.Deployables()[0].BitstreamID; got != imageUUID || len(second.images) != 1 {
			t.Errorf("bitstream %q, %d images written; want %s written once", got, len(second.images), imageUUID)
		}
		if diff := cmp.Diff(w.functions(), other.functions()); diff != "" {
			t.Errorf("functions (-want +got):\n%s", diff)
		}
		other.want(other.programAPI(imageOne, ""), 200, "")

		gone := newWorld(t, fakecyborg.Config{}, []driver.Driver{c.card()}) // without images
		loaded(t, gone.server, data)
		gone.server.Resume()
		synctest.Wait()
		if text := string(dumped(t, gone.server)); strings.Contains(text, `"writing"`) {
			t.Errorf("the region stays taken:\n%s", text)
		}
		if image, functions := gone.server.Deployables()[0].BitstreamID, gone.functions(); image != "" || len(functions) > 0 {
			t.Errorf("the region has image %q and %v, as before the writing that was interrupted", image, functions)
		}
	})
}

// A host that was restarting comes up when it would have.
func TestResumeLetsHostsComeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fakecyborg.Config{BindingStates: true}
		faults := fault.NewSet()
		w, _ := vgpuWorld(t, cfg, 2, 1, fakecyborg.WithFaults(faults))
		arq := w.arqs("v")[0]
		w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
		settled(t, faults.Set(fault.Rule{Operation: fault.AgentReport, Action: fault.Reboot, Delay: time.Hour, Times: 1}))
		if err := w.server.Report(t.Context()); err == nil {
			t.Fatal("the host did not go down")
		}
		time.Sleep(20 * time.Minute)
		data := dumped(t, w.server)
		other, card := vgpuWorld(t, cfg, 2, 1)
		loaded(t, other.server, data)
		other.server.Resume()
		time.Sleep(39 * time.Minute)
		other.server.CheckState(t, arq, fakecyborg.StateUnknown)
		time.Sleep(2 * time.Minute)
		other.server.CheckBound(t, instanceA, 1)
		if card.present() != 1 || len(other.nova.sent()) != 1 {
			t.Errorf("%d mediated devices, events %v", card.present(), other.nova.sent())
		}
	})
}

// A host that was starting creates the rest of its mediated devices, and Nova gets
// the events of all of them.
func TestResumeFinishesARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fakecyborg.Config{BindingStates: true}
		w, card := vgpuWorld(t, cfg, 2, 2)
		arqs := w.arqs("v")
		w.want(w.patch(binding(instanceA, vgpuProvider(), arqs...)), 202, "")
		card.Reboot()
		var data []byte
		card.during = func() {
			if card.present() == 2 { // one is created, and the event of the other not sent
				data = dumped(t, w.server)
			}
		}
		settled(t, w.server.StartAgent(t.Context(), "cn0"))
		other, again := vgpuWorld(t, cfg, 2, 2)
		loaded(t, other.server, data)
		checkStates(t, other, "Bound", "provisioning")
		other.server.Resume()
		elapse(time.Minute)
		other.server.CheckBound(t, instanceA, 2)
		var tags []string
		for _, post := range other.nova.sent() {
			for _, event := range post {
				tags = append(tags, *event.Tag)
			}
		}
		slices.Sort(tags)
		slices.Sort(arqs)
		if diff := cmp.Diff(arqs, tags); diff != "" || again.present() != 2 {
			t.Errorf("events (-want +got):\n%s\n%d mediated devices", diff, again.present())
		}
	})
}

// Close leaves the binds that it cuts short for the next life.
func TestBindsThatCloseCutShortGoOn(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"delay", "agent"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := fakecyborg.Config{BindDelay: time.Second}
			w, card := vgpuWorld(t, cfg, 2, 1)
			stuck := make(chan struct{})
			card.during = func() { <-stuck }
			card.failMake = context.Canceled
			arq := w.arqs("v")[0]
			w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
			if moment == "agent" {
				time.Sleep(2 * time.Second)
			}
			go func() {
				time.Sleep(time.Second)
				close(stuck)
			}()
			w.server.Close()
			other, _ := vgpuWorld(t, cfg, 2, 1)
			loaded(t, other.server, dumped(t, w.server))
			other.server.CheckState(t, arq, fakecyborg.StateBindStarted)
			other.server.Resume()
			elapse(time.Minute)
			other.server.CheckBound(t, instanceA, 1)
			other.checkPosts(1)
		})
	}
}

// Binds in progress end without effect when another dump is loaded.
func TestLoadEndsWhatGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := vgpuWorld(t, fakecyborg.Config{BindDelay: time.Second}, 2, 1)
		before := dumped(t, w.server)
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")[0])), 202, "")
		loaded(t, w.server, before)
		elapse(time.Minute)
		if card.present() != 0 || len(w.nova.sent()) != 0 || w.used() != 0 || len(w.server.ARQs()) != 0 {
			t.Errorf("%d mediated devices, events %v\n%s", card.present(), w.nova.sent(), w.server.Tree())
		}
	})
}

// An interrupted bind can be read in the dump.
func TestADumpShowsWhatGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data, arq := bindCases()["FPGA"].interrupted(t, fakecyborg.Config{}, "the agent works")
		d := parsed(t, data)
		want := []object{{
			"id": 1.0, "patch": 1.0, "accelerator_request": arq, "instance_uuid": instanceA, "device_profile_name": "p", "attempt": 1.0,
			"attach_handle": d["accelerator_requests"][0]["attach_handle"], "bitstream": object{"by": "bitstream_id", "value": imageOne},
		}}
		if diff := cmp.Diff(want, d["binds"]); diff != "" {
			t.Errorf("binds (-want +got):\n%s", diff)
		}
		leases := []object{
			{"id": 1.0, "work": "bind", "bind": 1.0, "attach_handle": want[0]["attach_handle"]},
			{"id": 2.0, "work": "program", "deployable": d["deployables"][0]["uuid"], "image_id": imageOne},
		}
		if diff := cmp.Diff(leases, d["leases"]); diff != "" {
			t.Errorf("leases (-want +got):\n%s", diff)
		}
	})
}

// A handle that can be released without an agent is free after a crash, also when
// the agent was programming its region for a request that was deleted; one that is
// no longer reported is deleted.
func TestADumpFreesUnusedHandles(t *testing.T) {
	t.Parallel()
	for _, vanishes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := bindCases()["FPGA"]
			w, card := c.world(t, fakecyborg.Config{})
			w.profile("p", c.profile)
			var data []byte
			card.writing = func() {
				w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
				if vanishes {
					one := fpgaCard("FPGA")
					one.Deployables[0].NumAccelerators, one.Deployables[0].AttachHandles = 1, one.Deployables[0].AttachHandles[1:]
					card.set(one)
					_ = w.server.Report(t.Context()) // reports that it is in use
				}
				data = dumped(t, w.server)
			}
			w.want(w.patch(binding(instanceA, c.provider, w.arqs("p")...)), 202, "")
			synctest.Wait()
			other, _ := c.world(t, fakecyborg.Config{})
			loaded(t, other.server, data)
			other.server.Resume()
			if n := len(other.server.AttachHandles()); other.used() != 0 || n != either(vanishes, 2, 1) {
				t.Errorf("%d of %d handles in use", other.used(), n)
			}
		})
	}
}

// A region belongs to its request from the bind on, before it is programmed.
func TestALoadedRegionWaitsForItsImage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, cfg := bindCases()["FPGA"], fakecyborg.Config{BindDelay: time.Second}
		data, arq := c.interrupted(t, cfg, "the delay runs")
		w, _ := c.world(t, cfg)
		loaded(t, w.server, data)
		w.profile("any", `[{"resources:FPGA":"1"}]`)
		w.want(w.patch(binding(instanceB, c.provider, w.arqs("any")...)), 409, "deployable cn0_0000:3b:00.0 is being programmed for ARQ "+arq)
		w.want(w.delete("/v2/device_profiles?value=p"), 409, "")
	})
}

// Load replaces the state also under a bind that is at its end.
func TestABindOfTheStateBeforeLeavesTheLoadedOneAlone(t *testing.T) {
	t.Parallel()
	w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1)
	before := dumped(t, w.server)
	card.during = func() {
		card.during = nil
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		other := vgpu("af", 2)
		other.Deployables[0].NumAccelerators, other.Deployables[0].AttachHandles = 1, other.Deployables[0].AttachHandles[1:]
		card.set(other)
		_ = w.server.Report(t.Context()) // the handle is removed once it is free
		loaded(t, w.server, before)
	}
	w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 409, "")
	if handles := w.server.AttachHandles(); len(handles) != 2 || w.used() != 0 {
		t.Errorf("handles %v, want two free ones", handles)
	}
}
