package fakecyborg_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// twin is a Cyborg with its own Placement and hardware.
type twin struct {
	*world
	card      *hardware
	placement *placementsim.Server
}

func newTwin(t *testing.T, cfg fakecyborg.Config) *twin {
	t.Helper()
	placement, card := newPlacement(t), newHardware("test")
	w := newWorld(t, cfg, []driver.Driver{card}, withImages(t), withPlacement(placement))
	return &twin{w, card, placement}
}

// twin is another Cyborg in the same state, after a crash.
func (w *twin) twin(t *testing.T, cfg fakecyborg.Config) *twin {
	t.Helper()
	other := newTwin(t, cfg)
	records, err := tables.Collect(w.placement)
	settled(t, err)
	settled(t, sim.Replace(t.Context(), other.placement, records))
	loaded(t, other.server, dumped(t, w.server))
	w.card.mu.Lock()
	defer w.card.mu.Unlock()
	other.card.report, other.card.mdevs = w.card.report, maps.Clone(w.card.mdevs)
	other.card.failMake, other.card.failDrop = w.card.failMake, w.card.failDrop
	return other
}

// withoutRequestIDs is a dump without the position in the sequence of request ids.
func withoutRequestIDs(data []byte) []byte {
	return regexp.MustCompile(`.*"key":"request_ids".*\n`).ReplaceAll(data, nil)
}

// step is something that happens to a cloud; it answers what can be seen of it.
type step func(w *twin) any

// asked is an answer without the request's id: what is only read leaves no trace in a
// dump, so that ids are given again.
func asked(r reply) any { return []any{r.status, r.text} }

// textOf is an error by its text.
func textOf(err error) any { return fmt.Sprint(err) }

// someStep draws what happens next, as the cloud is now.
func someStep(rt *rapid.T, w *twin) step {
	draw := func(name string, list ...string) string {
		if len(list) == 0 {
			list = []string{unknownID}
		}
		return rapid.SampledFrom(list).Draw(rt, name)
	}
	var arqs, devices, deployables, attributes []string
	providers := []string{unknownID}
	for _, a := range w.server.ARQs() {
		arqs = append(arqs, a.UUID)
	}
	for _, d := range w.server.Devices() {
		devices = append(devices, d.UUID)
	}
	for _, p := range w.server.Deployables() {
		deployables, providers = append(deployables, p.UUID), append(providers, p.ProviderUUID)
	}
	for _, a := range w.server.Attributes() {
		attributes = append(attributes, a.UUID)
	}
	instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", rapid.IntRange(1, 5).Draw(rt, "instance"))
	arq, deployable := draw("arq", arqs...), draw("deployable", deployables...)
	api := func(method, path, body string) step {
		return func(w *twin) any { return asked(w.send(sent{method: method, path: path, body: body})) }
	}
	switch draw("step", "create", "create", "bind", "bind", "bind", "unbind", "delete", "instance", "profile", "attribute", "no attribute",
		"status", "program", "hardware", "break", "stop", "start", "report", "state", "wait") {
	case "create":
		return api("POST", "/v2/accelerator_requests", fmt.Sprintf(`{"device_profile_name":%q}`, draw("profile", "v", "g", "f", "h", "m")))
	case "bind":
		return api("PATCH", "/v2/accelerator_requests", binding(instance, draw("provider", providers...), arq, draw("second", arqs...)))
	case "unbind":
		return api("PATCH", "/v2/accelerator_requests", unbinding(arq))
	case "delete":
		return api("DELETE", "/v2/accelerator_requests?arqs="+arq, "")
	case "instance":
		return api("DELETE", "/v2/accelerator_requests?instance="+instance, "")
	case "profile":
		return api("POST", "/v2/device_profiles", `[{"name":"`+draw("name", "m", "n")+`","groups":[{"resources:VGPU":"2"}],"description":"d"}]`)
	case "attribute":
		return func(w *twin) any {
			a, err := w.server.CreateAttribute(deployable, "rack", "7")
			return []any{a, textOf(err)}
		}
	case "no attribute":
		return api("DELETE", "/v2/attributes/"+draw("attribute", attributes...), "")
	case "status":
		return api("POST", "/v2/devices/"+draw("device", devices...)+"/"+draw("to", "enable", "disable"), "")
	case "program":
		image := draw("image", imageOne, imageUUID, imagePlain, imageBad)
		return func(w *twin) any { return textOf(w.server.ProgramDeployable(w.t.Context(), deployable, image)) }
	case "state":
		state := fakecyborg.State(draw("state", "Initial", "BindStarted", "Bound", "BindFailed", "UnbindFailed", "Deleting"))
		return func(w *twin) any { return textOf(w.server.SetARQState(arq, state)) }
	case "wait":
		return func(*twin) any { return nil }
	}
	return someAccident(rt, draw)
}

// fullCards are a card of each kind; the last has two regions that share memory.
func fullCards() []driver.Device {
	shared := cardOf(familyTraits, familyTraits)
	shared.Resources = map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR": 4096}
	return []driver.Device{vgpu("af", 3), gpu("3b", "PGPU", nil, "0", "1"), shared}
}

// someAccident is what happens to hosts and hardware.
func someAccident(rt *rapid.T, draw func(string, ...string) string) step {
	switch draw("accident", "hardware", "hardware", "break", "stop", "start", "report") {
	case "hardware":
		devices := rapid.SampledFrom([][]driver.Device{
			fullCards(), {vgpu("af", 1), fullCards()[2]}, {gpu("3b", "PGPU", []string{"CUSTOM_X"}, "1")},
			{fpgaCard("FPGA"), cardOf(familyTraits)}, {},
		}).Draw(rt, "devices")
		return func(w *twin) any {
			w.card.set(devices...)
			return textOf(w.server.Report(w.t.Context()))
		}
	case "break":
		failMake := rapid.SampledFrom([]error{nil, errors.New("no room")}).Draw(rt, "make")
		failDrop := rapid.SampledFrom([]error{nil, errors.New("stuck")}).Draw(rt, "drop")
		return func(w *twin) any {
			w.card.mu.Lock()
			defer w.card.mu.Unlock()
			w.card.failMake, w.card.failDrop = failMake, failDrop
			return nil
		}
	case "stop":
		return func(w *twin) any { return textOf(w.server.StopAgent("cn0")) }
	case "start":
		return func(w *twin) any { return textOf(w.server.StartAgent(w.t.Context(), "cn0")) }
	}
	return func(w *twin) any { return textOf(w.server.Report(w.t.Context())) }
}

// TestALoadedDumpBehavesAsTheOriginal does anything in any order. A dump can be
// loaded at every moment, and gives the same dump; a cloud that was loaded from one
// when nothing was going on answers everything that comes as the original does.
func TestALoadedDumpBehavesAsTheOriginal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			cfg := fakecyborg.Config{
				UpstreamQuirks: rapid.Bool().Draw(rt, "quirks"), BindingStates: rapid.Bool().Draw(rt, "states"),
				BindDelay:     time.Duration(rapid.IntRange(0, 1).Draw(rt, "delay")) * 1500 * time.Millisecond,
				PlacementMode: rapid.SampledFrom([]fakecyborg.PlacementMode{"", fakecyborg.ModeFlat, fakecyborg.ModeNested}).Draw(rt, "mode"),
				EventForm:     rapid.SampledFrom([]fakecyborg.EventForm{"", fakecyborg.EventFormTrain}).Draw(rt, "form"),
			}
			w := newTwin(t, cfg)
			w.card.set(fullCards()...)
			_ = w.server.Report(t.Context())
			w.profile("v", `[{"resources:VGPU":"1"}]`)
			w.profile("g", `[{"resources:PGPU":"1"},{"resources:PGPU":"1","trait:CUSTOM_X":"forbidden"}]`)
			w.profile("f", `[{"resources:FPGA":"1","accel:bitstream_id":"`+imageOne+`"}]`)
			w.profile("h", `[{"resources:FPGA":"1"}]`)
			do := func(worlds ...*twin) {
				next, answers := someStep(rt, worlds[0]), []any{}
				for _, w := range worlds {
					answers = append(answers, next(w))
				}
				elapse(time.Second)
				if len(worlds) == 2 {
					if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
						rt.Fatalf("the answer of the loaded server (-want +got):\n%s", diff)
					}
				}
			}
			for range rapid.IntRange(0, 12).Draw(rt, "before") {
				do(w)
			}
			w.twin(t, cfg) // something may be going on
			elapse(time.Minute)
			other := w.twin(t, cfg)
			for range rapid.IntRange(1, 8).Draw(rt, "after") {
				do(w, other)
			}
			elapse(time.Minute)
			if a, b := withoutRequestIDs(dumped(t, w.server)), withoutRequestIDs(dumped(t, other.server)); !bytes.Equal(a, b) {
				rt.Fatalf("Cyborg after the same steps (-want +got):\n%s", cmp.Diff(string(a), string(b)))
			}
			a, errA := tables.Collect(w.placement)
			b, errB := tables.Collect(other.placement)
			if errA != nil || errB != nil || !cmp.Equal(a, b) {
				rt.Fatalf("Placement after the same steps, %v, %v (-want +got):\n%s", errA, errB, cmp.Diff(a, b))
			}
			if diff := cmp.Diff(w.card.mdevs, other.card.mdevs); diff != "" {
				rt.Fatalf("mediated devices (-want +got):\n%s", diff)
			}
		})
	})
}
