package fakecyborg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

const testFunction = "CUSTOM_FPGA_FUNCTION_ID_TEST_"

// region is the hardware of a card, which knows what is really on it.
type region struct {
	mu      sync.Mutex
	reads   bool   // the driver reads the function; else it reports the first one, regardless of the card's content
	content string // the end of the function's trait; "" for something else
	away    bool   // from the reports
	silent  bool   // no report succeeds
	fails   bool   // half-way through a writing
}

func (r *region) Name() string { return "test" }

// Discover implements driver.Driver.
func (r *region) Discover(context.Context) (driver.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shown, card := "ZERO", fpgaCard("FPGA")
	if r.reads {
		shown = r.content
	}
	switch {
	case r.silent:
		return driver.Report{}, errors.New("the card does not answer")
	case r.away:
		return driver.Report{}, nil
	case shown == "":
		card.Deployables[0].Traits = slices.DeleteFunc(card.Deployables[0].Traits, driver.IsFunctionTrait)
	default:
		card = fpgaCardWith(testFunction + shown)
	}
	return driver.Report{Devices: []driver.Device{card}}, nil
}

// Program implements driver.Programmer.
func (r *region) Program(_ context.Context, _ driver.ControlPath, _ string, image []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.content = ""; r.fails {
		return errors.New("half written")
	}
	r.content = map[string]string{"bits": "ONE", "two": "TWO"}[string(image)]
	return nil
}

func (r *region) change(change func(*region)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// TestABoundRequestHasItsFunction runs the events of a card in any order: as long as a request is Bound,
// and its host has not restarted since, the function that it requires is on the card.
func TestABoundRequestHasItsFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			simulated := newPlacement(t)
			placement, card := &refusing{Handler: simulated}, &region{content: "ZERO", reads: rapid.Bool().Draw(rt, "reads")}
			cfg := fakecyborg.Config{BindDelay: time.Duration(rapid.IntRange(0, 2).Draw(rt, "delay")) * time.Second}
			w := newWorld(t, cfg, []driver.Driver{card}, withImages(t), withPlacement(placement))
			wants := map[string]string{"plain": "", "one": "ONE", "t-one": "ONE", "t-zero": "ZERO"}
			w.profile("plain", `[{"resources:FPGA":"1"}]`)
			w.profile("one", `[{"resources:FPGA":"1","accel:function_id":"one"}]`)
			w.profile("t-one", `[{"resources:FPGA":"1","trait:`+testFunction+`ONE":"required"}]`)
			w.profile("t-zero", `[{"resources:FPGA":"1","trait:`+testFunction+`ZERO":"required"}]`)
			away := func(is bool) {
				forgotten := len(w.server.Deployables()) == 0
				card.change(func(r *region) {
					if r.away = is; forgotten && !is {
						r.content = "ZERO" // a card that comes again is a new one
					}
				})
			}
			instances, before := 0, map[string]bool{} // requests of before the last restart
			rt.Repeat(map[string]func(*rapid.T){
				"bind": func(rt *rapid.T) {
					profile := rapid.SampledFrom([]string{"plain", "one", "t-one", "t-zero"}).Draw(rt, "profile")
					instances++
					w.patch(binding(fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", instances), fpgaProvider(), w.arqs(profile)...))
				},
				"delete": func(rt *rapid.T) {
					if arqs := w.server.ARQs(); len(arqs) > 0 {
						w.delete("/v2/accelerator_requests?arqs=" + rapid.SampledFrom(arqs).Draw(rt, "arq").UUID)
					}
				},
				"program": func(rt *rapid.T) {
					if len(w.server.Deployables()) > 0 {
						w.programAPI(rapid.SampledFrom([]string{imageOne, imageTwo, imagePlain}).Draw(rt, "image"), "")
					}
				},
				"restart": func(rt *rapid.T) {
					settled(t, w.server.StopAgent("cn0"))
					if !card.reads || rapid.Bool().Draw(rt, "cold") { // what a driver reports after a restart counts
						card.change(func(r *region) { r.content = "ZERO" })
					}
					for _, a := range w.server.ARQs() {
						before[a.UUID] = before[a.UUID] || a.State == fakecyborg.StateBound
					}
				},
				"start":     func(*rapid.T) { _ = w.server.StartAgent(t.Context(), "cn0") },
				"report":    func(*rapid.T) { _ = w.server.Report(t.Context()) },
				"away":      func(*rapid.T) { away(!card.away) },
				"silent":    func(*rapid.T) { card.change(func(r *region) { r.silent = !r.silent }) },
				"fail":      func(*rapid.T) { card.change(func(r *region) { r.fails = !r.fails }) },
				"placement": func(*rapid.T) { placement.down.Store(!placement.down.Load()) },
				"wait":      func(*rapid.T) { time.Sleep(time.Second) },
				"": func(rt *rapid.T) {
					synctest.Wait()
					for _, a := range w.server.ARQs() {
						want := wants[a.DeviceProfileName]
						if a.State == fakecyborg.StateBound && !before[a.UUID] && want != "" && want != card.content {
							rt.Fatalf("%s of profile %s is Bound, and the card has %q\n%s", a.UUID, a.DeviceProfileName, card.content, w.server.Tree())
						}
					}
				},
			})
			away(false)
			card.change(func(r *region) { r.silent, r.fails = false, false })
			placement.down.Store(false)
			for _, a := range w.server.ARQs() {
				if r := w.delete("/v2/accelerator_requests?arqs=" + a.UUID); r.status != 204 {
					rt.Errorf("delete: %d %s", r.status, r.fault())
				}
			}
			_ = w.server.StartAgent(t.Context(), "cn0")
			time.Sleep(time.Minute)
			settled(t, errors.Join(w.server.Report(t.Context()), w.server.Report(t.Context())))
			promised, err := simulated.ResourceProvider(fpgaProvider())
			settled(t, err)
			for _, trait := range promised.Traits {
				if function, ok := strings.CutPrefix(trait, testFunction); ok && function != card.content {
					rt.Errorf("Placement promises %s, and the card has %q\n%s", function, card.content, w.server.Tree())
				}
			}
			w.want(w.programAPI(imageOne, ""), 200, "")
		})
	})
}
