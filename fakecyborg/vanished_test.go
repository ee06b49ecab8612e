package fakecyborg_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// offered is the number of units of a class in Placement, including units in use.
func (w *reportWorld) offered(class string) (n int) {
	for _, p := range w.placement.ResourceProviders() {
		i := p.Inventories[class]
		n += i.Total - i.Reserved
	}
	return n
}

// names lists the remaining deployables.
func (w *reportWorld) names() (list []string) {
	for _, d := range w.cyborg.Deployables() {
		list = append(list, d.Name)
	}
	return list
}

// bindTo binds a request of one unit to a provider.
func (w *reportWorld) bindTo(class, provider, instance string) error {
	w.t.Helper()
	profile := "p" + fmt.Sprint(len(w.cyborg.DeviceProfiles()))
	w.api().profile(profile, `[{"resources:`+class+`":"1"}]`)
	arqs, err := w.cyborg.CreateARQs(profile, "")
	settled(w.t, err)
	return w.cyborg.Bind(w.t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance})
}

// reportFails reports, with an error that names a deployable in use, and no other.
func (w *reportWorld) reportFails(deployable string) {
	w.t.Helper()
	err := w.cyborg.Report(w.t.Context())
	if err == nil || strings.Count(err.Error(), " in use by ") != 1 || !strings.Contains(err.Error(), deployable+" is in use by ARQ ") {
		w.t.Errorf("report: %v, want the user of %s named", err, deployable)
	}
}

// TestTheFreeRegionOfAVanishedCardIsNotOffered has cards that are pulled, or that lose a region, while a
// guest has one of the two regions.
func TestTheFreeRegionOfAVanishedCardIsNotOffered(t *testing.T) {
	t.Parallel()
	traits := []string{"CUSTOM_FPGA_INTEL"}
	both := cardOf(traits, traits)
	first, second := both.Clone(), both.Clone()
	first.Deployables, second.Deployables = both.Deployables[:1], both.Deployables[1:]
	for name, tt := range map[string]struct {
		left  []driver.Device
		bound int      // of the regions
		held  []string // deployables while the guest runs
		error string
		freed []string // and after it
	}{
		"pulled, first bound":   {nil, 0, []string{"cn0_region1"}, "cn0_region1", nil},
		"pulled, second bound":  {nil, 1, []string{"cn0_region2"}, "cn0_region2", nil},
		"second goes, is free":  {[]driver.Device{first}, 0, []string{"cn0_region1"}, "", []string{"cn0_region1"}},
		"second goes, is bound": {[]driver.Device{first}, 1, []string{"cn0_region1", "cn0_region2"}, "cn0_region2", []string{"cn0_region1"}},
		"first goes, is free":   {[]driver.Device{second}, 1, []string{"cn0_region2"}, "", []string{"cn0_region2"}},
	} {
		for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested, fakecyborg.ModeFlat} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, both)
				w.report()
				all := w.cyborg.Deployables()
				if mode == fakecyborg.ModeFlat && tt.bound == 1 { // the first free region counts there
					settled(t, w.bindTo("FPGA", all[0].ProviderUUID, instanceB))
				}
				settled(t, w.bindTo("FPGA", all[tt.bound].ProviderUUID, instanceA))
				if mode == fakecyborg.ModeFlat && tt.bound == 1 {
					w.free(instanceB)
				}
				w.hardware.set(tt.left...)
				for range 2 {
					if mode == fakecyborg.ModeNested && len(tt.left) > 0 && tt.error == "" { // its provider is to move
						w.reportFails(tt.held[0])
					} else if tt.error != "" {
						w.reportFails(tt.error)
					} else {
						w.report()
					}
				}
				if got := w.names(); !slices.Equal(got, tt.held) || w.offered("FPGA") != len(tt.held) {
					t.Errorf("deployables %v, and Placement has %d, want %v", got, w.offered("FPGA"), tt.held)
				}
				if free := all[1-tt.bound]; mode != fakecyborg.ModeFlat && !slices.Contains(tt.held, free.Name) {
					if err := w.bindTo("FPGA", free.ProviderUUID, instanceB); err == nil {
						t.Errorf("a second instance has %s, which no longer exists", free.Name)
					}
				}
				w.free(instanceA)
				w.report()
				if got := w.names(); !slices.Equal(got, tt.freed) || w.offered("FPGA") != len(tt.freed) {
					t.Errorf("deployables %v, and Placement has %d, want %v", got, w.offered("FPGA"), tt.freed)
				}
				w.hardware.set(both)
				w.report()
				if got := w.names(); len(got) != 2 || w.offered("FPGA") != 2 {
					t.Errorf("deployables %v, and Placement has %d, want the values of the restored card", got, w.offered("FPGA"))
				}
			})
		}
	}
}

// TestTheFreeUnitsOfAVanishedDeployableAreNotOffered has a card that stays and loses one of its deployables, which
// has three units and a guest.
func TestTheFreeUnitsOfAVanishedDeployableAreNotOffered(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			card := gpu("3b", "PGPU", nil, "0")
			more := gpu("3c", "CUSTOM_VF", nil, "1", "2", "3").Deployables[0]
			whole := card.Clone()
			whole.Deployables = append(whole.Deployables, more)
			w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, whole)
			w.report()
			settled(t, w.bindTo("CUSTOM_VF", w.cyborg.Deployables()[1].ProviderUUID, instanceA))
			w.hardware.set(card)
			for range 2 {
				w.reportFails(more.Name)
			}
			if vf, pgpu := w.offered("CUSTOM_VF"), w.offered("PGPU"); vf != 1 || pgpu != 1 {
				t.Errorf("Placement has %d CUSTOM_VF and %d PGPU, want the device in use and the remaining one", vf, pgpu)
			}
			w.hardware.set(whole)
			w.report()
			if got := w.offered("CUSTOM_VF"); got != 3 {
				t.Errorf("Placement has %d CUSTOM_VF of the deployable that is back, want 3", got)
			}
		})
	}
}

// TestTheFreeUnitsOfAVanishedCardWithAClaimAreNotOffered has a card that is pulled when an instance has claimed
// one of its units, and has no request bound yet.
func TestTheFreeUnitsOfAVanishedCardWithAClaimAreNotOffered(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat} {
		for _, used := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d claimed", mode, used), func(t *testing.T) {
				t.Parallel()
				card := gpu("3b", "PGPU", nil, "0", "1", "2", "3")
				w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, card)
				w.report()
				provider := w.cyborg.Deployables()[0].ProviderUUID
				w.claim(instanceA, placementsim.Allocation{Provider: provider, Class: "PGPU", Used: used})
				w.hardware.set()
				for range 2 {
					if err := w.cyborg.Report(t.Context()); err == nil {
						t.Error("no error for a provider that Placement keeps")
					}
				}
				if got := w.offered("PGPU"); got != 1 {
					t.Errorf("Placement has %d PGPU, want the least it takes", got)
				}
				api := w.api()
				api.profile("claimed", fmt.Sprintf(`[{"resources:PGPU":"%d"}]`, used))
				api.want(api.patch(binding(instanceA, provider, api.arqs("claimed")...)), 202, "")
				w.reportFails("cn0_0000:3b:00.0")
				if handles := len(w.cyborg.AttachHandles()); w.offered("PGPU") > used || handles != used {
					t.Errorf("Placement has %d PGPU and there are %d handles, want only the guest's", w.offered("PGPU"), handles)
				}
				w.hardware.set(card)
				w.report()
				if handles := len(w.cyborg.AttachHandles()); w.offered("PGPU") != 4 || handles != 4 {
					t.Errorf("Placement has %d PGPU, and there are %d handles of the card that is back, want 4", w.offered("PGPU"), handles)
				}
			})
		}
	}
}

// TestAFunctionInUseIsNotOfferedAsAnotherHandle has a function that a guest has reported otherwise than before.
func TestAFunctionInUseIsNotOfferedAsAnotherHandle(t *testing.T) {
	t.Parallel()
	before := gpu("3b", "PGPU", nil, "0", "1")
	renamed, elsewhere, changed, divided := before.Clone(), gpu("3c", "PGPU", nil, "0", "1"), before.Clone(), before.Clone()
	renamed.Deployables[0].Name = "cn0_another"
	elsewhere.Deployables[0].AttachHandles = before.Clone().Deployables[0].AttachHandles
	changed.Deployables[0].AttachHandles[0].Info["managed"] = "false"
	divided.Deployables[0].AttachHandles[0].Type = driver.HandleMDEV
	divided.Deployables[0].AttachHandles[0].Info["asked_type"] = "nvidia-35"
	for name, device := range map[string]driver.Device{
		"of another deployable": renamed, "of another card": elsewhere, "with other information": changed, "mediated device": divided,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstreams := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: true}, before)
			upstreams.report()
			upstreams.bind("PGPU", "3b")
			upstreams.hardware.set(device)
			_ = upstreams.cyborg.Report(t.Context())
			if !slices.ContainsFunc(upstreams.cyborg.AttachHandles(), func(h fakecyborg.StoredAttachHandle) bool { return !h.InUse && h.Info["function"] == "0" }) {
				t.Error("with upstream's defects the function is not offered again")
			}
			w := newReportWorld(t, before)
			w.report()
			w.bind("PGPU", "3b")
			w.hardware.set(device)
			for range 2 {
				if err := w.cyborg.Report(t.Context()); err == nil {
					t.Error("the report does not say that what is in use has vanished")
				}
				for _, h := range w.cyborg.AttachHandles() {
					if !h.InUse && h.Info["function"] == "0" {
						t.Errorf("the function is offered: %v", h)
					}
				}
			}
			w.free(instanceA)
			w.report()
			if got := w.cyborg.AttachHandles(); len(got) != 2 || w.offered("PGPU") != 2 {
				t.Errorf("after the guest: handles %v, and Placement has %d", got, w.offered("PGPU"))
			}
		})
	}
}

// TestAFunctionInUseThatIsHiddenStays has a function of a network whose name the kernel does not show, and an FPGA function that it
// does not show, either. Upstream removes the trait.
func TestAFunctionInUseThatIsHiddenStays(t *testing.T) {
	t.Parallel()
	const function = "CUSTOM_FPGA_FUNCTION_ID_TEST_ONE"
	shown := gpu("3b", "PGPU", nil, "0")
	hidden := shown.Clone()
	shown.Deployables[0].AttachHandles[0].Info["physical_network"] = "physnet1"
	shown.Deployables[0].Traits = append(shown.Deployables[0].Traits, function)
	hidden.Deployables[0].Hidden = true
	for _, quirks := range []bool{false, true} {
		w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, shown)
		w.report()
		w.bind("PGPU", "3b")
		w.hardware.set(hidden)
		if err := w.cyborg.Report(t.Context()); (err != nil) != quirks { // upstream treats it as another function, and cannot delete the handle
			t.Errorf("quirks %t: %v", quirks, err)
		}
		if got := w.cyborg.AttachHandles(); len(got) != 1 || got[0].Info["physical_network"] == "" {
			t.Errorf("quirks %t: handles %v", quirks, got)
		}
		if got, _ := w.provider("3b"); slices.Contains(got.Traits, function) == quirks {
			t.Errorf("quirks %t: traits %v", quirks, got.Traits)
		}
	}
}

// TestVanishedHandlesOfAFixedDeployableAreNotOffered has a card that loses a free function while a guest has another, and
// that is to be changed in Placement as it cannot be while the guest runs.
func TestVanishedHandlesOfAFixedDeployableAreNotOffered(t *testing.T) {
	t.Parallel()
	const memory = "CUSTOM_ACCELERATOR_MEMORY_DDR4"
	before := gpu("3b", "FPGA", nil, "1", "2", "3")
	before.Type = driver.TypeFPGA
	before.Deployables[0].Resources = map[string]int{memory: 1024}
	less := before.Clone()
	less.Deployables[0].NumAccelerators, less.Deployables[0].AttachHandles = 2, less.Deployables[0].AttachHandles[:2]
	class, bare, regions := less.Clone(), less.Clone(), less.Clone()
	class.Deployables[0].Class = "CUSTOM_ACCELERATOR_FPGA"
	bare.Deployables[0].Resources = nil
	others := class.Clone()
	others.Deployables[0].AttachHandles = gpu("3b", "", nil, "4", "5").Deployables[0].AttachHandles
	regions.Deployables = append(regions.Deployables, cardOf(nil).Deployables...)
	moved := regions.Clone()
	moved.Deployables[0].AttachHandles = others.Deployables[0].AttachHandles
	all := []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested, fakecyborg.ModeFlat}
	for name, tt := range map[string]struct {
		after driver.Device
		modes []fakecyborg.PlacementMode
		fails string // what Placement does not answer
	}{
		"another class":            {class, all, ""},
		"other handles":            {others, all, ""},
		"no memory":                {bare, all, ""},
		"a provider above it":      {regions, []fakecyborg.PlacementMode{fakecyborg.ModeNested}, ""},
		"others, and a provider":   {moved, []fakecyborg.PlacementMode{fakecyborg.ModeNested}, ""},
		"Placement does not write": {less, []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat}, http.MethodPut},
	} {
		for _, mode := range tt.modes {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, before)
				w.report()
				provider := w.cyborg.Deployables()[0].ProviderUUID
				w.claim(instanceA, placementsim.Allocation{Provider: provider, Class: "FPGA", Used: 1},
					placementsim.Allocation{Provider: provider, Class: memory, Used: 512})
				settled(t, w.bindTo("FPGA", provider, instanceA))
				if tt.fails != "" {
					w.wire.hook = func(method, _ string) int { return either(method == tt.fails, 0, 500) }
				}
				w.hardware.set(tt.after)
				for range 2 {
					if err := w.cyborg.Report(t.Context()); err == nil {
						t.Error("no error for a change that Placement refuses")
					}
					for _, h := range w.cyborg.AttachHandles() {
						if h.Info["function"] == "3" {
							t.Errorf("handle %v of a function that no longer exists", h)
						}
					}
					if got := w.offered("FPGA"); tt.fails == "" && got != len(w.cyborg.AttachHandles()) {
						t.Errorf("Placement has %d FPGA, want those that are there", got)
					}
				}
				w.wire.hook = nil
				w.free(instanceA)
				settled(t, w.placement.Release(instanceA))
				w.report()
				if class := tt.after.Deployables[0].Class; w.offered(class) != len(tt.after.Deployables)+1 {
					t.Errorf("Placement has %d %s after the guest", w.offered(class), class)
				}
			})
		}
	}
}
