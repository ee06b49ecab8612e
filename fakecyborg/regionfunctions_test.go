package fakecyborg_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// twoFunctions is a card with one region of two functions, each of one handle, with the numbers 1 and 2.
func twoFunctions(first, second string) driver.Device {
	d := withTraits(fpgaCardWith(testFunction+first), testFunction+second)
	for i, function := range []string{first, second} {
		if function != "" {
			d.Deployables[0].AttachHandles[i].Functions = []string{testFunction + function}
		}
	}
	return d
}

// given are the functions of the handles that the requests of an instance have, sorted.
func (w *world) given(instance string) (handles []string) {
	for _, h := range w.server.AttachHandles() {
		for _, a := range w.server.ARQs() {
			if h.ARQ == a.UUID && a.InstanceUUID == instance {
				handles = append(handles, h.Info["function"])
			}
		}
	}
	slices.Sort(handles)
	return handles
}

func TestTheFunctionsOfARegionByTheirHandles(t *testing.T) {
	t.Parallel()
	trait := func(function string) string { return `"trait:` + testFunction + function + `":"required"` }
	id := func(function string) string { return `"accel:function_id":"` + strings.ToLower(function) + `"` }
	for _, tt := range []struct {
		name    string
		quirks  bool
		amount  string
		binds   []string // what the group of each instance names
		given   []string // to the last
		refused string
	}{
		{"the second", false, "1", []string{id("SIX")}, []string{"2"}, ""},
		{"the second by its trait", false, "1", []string{trait("SIX")}, []string{"2"}, ""},
		{"any, then the first", false, "1", []string{`"accel:x":"y"`, id("ONE")}, nil, "has no free attach handle that leads to function " + testFunction + "ONE"},
		{"the second twice", false, "1", []string{trait("SIX"), id("SIX")}, nil, "has no free attach handle that leads to function " + testFunction + "SIX"},
		{"the second, then any", false, "1", []string{id("SIX"), `"accel:x":"y"`}, []string{"1"}, ""},
		{"the whole region", false, "2", []string{id("SIX")}, []string{"1", "2"}, ""},
		{"upstream", true, "1", []string{trait("SIX")}, []string{"1"}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			card := newHardware("test", twoFunctions("ONE", "SIX"))
			w := newWorld(t, fakecyborg.Config{UpstreamQuirks: tt.quirks}, []driver.Driver{card}, withImages(t))
			for n, accel := range tt.binds {
				profile, instance := []string{"f", "g"}[n], []string{instanceA, instanceB}[n]
				w.profile(profile, `[{"resources:FPGA":"`+tt.amount+`",`+accel+`}]`)
				r := w.bindF(instance, profile)
				last := n == len(tt.binds)-1
				if last && tt.refused != "" {
					if r.status != 409 || !strings.Contains(r.fault(), tt.refused) {
						t.Errorf("%s: got %d %s, want %s", tt.name, r.status, r.fault(), tt.refused)
					}
					return
				}
				w.want(r, 202, "")
				if got := w.given(instance); last && !slices.Equal(got, tt.given) {
					t.Errorf("%s: given %v, want %v", tt.name, got, tt.given)
				}
				settled(t, w.server.Report(t.Context()))
			}
			if len(card.images) > 0 {
				t.Errorf("%s: written %q", tt.name, card.images)
			}
		})
	}
}

// What the handles of a region lead to follows the reports and the programmings, and stays while the kernel does not show it.
func TestTheFunctionsOfHandlesFollowTheRegion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		card := newHardware("test", twoFunctions("ONE", "SIX"))
		w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t))
		w.profile("one", `[{"resources:FPGA":"1","accel:function_id":"one"}]`)
		w.profile("six", `[{"resources:FPGA":"1","trait:`+testFunction+`SIX":"required"}]`)
		bind := func(when, profile, want string) {
			t.Helper()
			w.want(w.bindF(instanceA, profile), 202, "")
			if got := w.given(instanceA); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: given %v, want %s", when, got, want)
			}
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		}
		set := func(d driver.Device) {
			t.Helper()
			card.set(d)
			settled(t, w.server.Report(t.Context()))
		}
		bind("at first", "six", "2")
		set(twoFunctions("SIX", "ONE"))
		bind("the other way round", "six", "1")
		bind("the other way round", "one", "2")
		w.want(w.bindF(instanceB, "six"), 202, "")
		hidden := twoFunctions("ONE", "")
		hidden.Deployables[0].Traits, hidden.Deployables[0].Hidden = slices.DeleteFunc(hidden.Deployables[0].Traits, driver.IsFunctionTrait), true
		for i := range hidden.Deployables[0].AttachHandles {
			hidden.Deployables[0].AttachHandles[i].Functions = nil
		}
		set(hidden)
		bind("while a guest hides them", "one", "2")
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
		set(fpgaCardWith(testFunction + "SIX"))
		bind("all lead to one", "six", "1")
		set(twoFunctions("SIX", "ONE"))
		set(fpgaCardWith(testFunction + "SIX"))
		w.want(w.programAPI(imageOne, ""), 200, "") // of a driver that does not read the card
		bind("written", "one", "1")
	})
}
