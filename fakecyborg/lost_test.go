package fakecyborg_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// deleteTree deletes the provider of the host and all below it, as the deletion of a compute service does.
func (w *reportWorld) deleteTree() {
	w.t.Helper()
	for _, p := range slices.Backward(w.placement.ResourceProviders()) {
		settled(w.t, w.placement.DeleteProvider(p.UUID))
	}
}

// makeRoot makes the provider of the host as nova-compute does; without a uuid it gets a new one.
func (w *reportWorld) makeRoot(uuid string) {
	w.t.Helper()
	w.root = w.create(placementsim.ResourceProvider{UUID: uuid, Name: "cn0", Inventories: novaInventories(), Traits: []string{"COMPUTE_ACCELERATORS"}}).UUID
}

// contents is the tree of the host by names, without what the deletion of its root changes.
func (w *reportWorld) contents() map[string]placementsim.ResourceProvider {
	w.t.Helper()
	all := w.tree()
	for path, p := range all {
		p.Generation, p.Parent, p.Root = 0, "", ""
		if path == "cn0" {
			p.UUID = ""
		}
		all[path] = p
	}
	return all
}

// lostWorlds are hosts of each layout with something in it that the layout keeps rows of.
func lostWorlds() map[fakecyborg.PlacementMode][]driver.Device {
	return map[fakecyborg.PlacementMode][]driver.Device{
		fakecyborg.ModeTree:   {gpu("3b", "PGPU", []string{"CUSTOM_A"}, "0"), vgpu("af", 3)},
		fakecyborg.ModeFlat:   {gpu("3b", "PGPU", []string{flatTrait}, "0"), gpu("5e", "CUSTOM_GPU", []string{flatTrait}, "0")},
		fakecyborg.ModeNested: {cardOf(slices.Concat(familyTraits, regionOne), slices.Concat(familyTraits, regionTwo)), gpu("3b", "PGPU", nil, "0")},
	}
}

// lostWorld is a host that has reported twice below a provider that nova-compute made.
func lostWorld(t *testing.T, cfg fakecyborg.Config, devices ...driver.Device) *reportWorld {
	t.Helper()
	w := newReportWorldOf(t, cfg, devices...)
	w.deleteTree()
	w.makeRoot("")
	w.report()
	w.report()
	return w
}

// TestDevicesReturnWithTheirHost: nova-compute recreates the deleted provider of a host, under
// its old UUID or another one, and the next report puts the devices below it. A newly started
// Cyborg does so too.
func TestDevicesReturnWithTheirHost(t *testing.T) {
	t.Parallel()
	for mode, devices := range lostWorlds() {
		for _, same := range []bool{true, false} {
			for _, noticed := range []bool{true, false} {
				for _, restarted := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/same uuid %t/seen without %t/restarted %t", mode, same, noticed, restarted), func(t *testing.T) {
						t.Parallel()
						cfg := fakecyborg.Config{PlacementMode: mode}
						testReturn(t, lostWorld(t, cfg, devices...), cfg, same, noticed, restarted)
					})
				}
			}
		}
	}
}

func testReturn(t *testing.T, w *reportWorld, cfg fakecyborg.Config, same, noticed, restarted bool) {
	before, handles, root := w.contents(), w.cyborg.AttachHandles(), w.root
	w.deleteTree()
	if noticed {
		if err := w.cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrNotReported) {
			t.Fatalf("report without the host's provider: %v", err)
		}
	}
	if !same {
		root = ""
	}
	w.makeRoot(root)
	if restarted {
		records, err := tables.Collect(w.cyborg)
		settled(t, err)
		w = newReportWorldOn(t, w, cfg)
		settled(t, sim.Replace(t.Context(), w.cyborg, records))
	}
	w.report()
	if diff := cmp.Diff(before, w.contents()); diff != "" {
		t.Errorf("providers (-before +after):\n%s", diff)
	}
	w.wire.take()
	w.report()
	if diff := cmp.Diff(w.lookups(cfg.PlacementMode), w.wire.take()); diff != "" {
		t.Errorf("calls of the report after that (-want +got):\n%s", diff)
	}
	for i, h := range w.cyborg.AttachHandles() {
		if h.UUID != handles[i].UUID {
			t.Errorf("attach handle %s became %s", handles[i].UUID, h.UUID)
		}
	}
	if cfg.PlacementMode != fakecyborg.ModeFlat {
		w.bind("PGPU", "3b")
	}
}

// TestDevicesReturnToAFlatHost: its provider was recreated under its UUID. Only missing data show
// that it is another one: its generation may be lower, the same or higher.
func TestDevicesReturnToAFlatHost(t *testing.T) {
	t.Parallel()
	for _, reports := range []int{1, 2} {
		for writes := range 4 {
			w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}, lostWorlds()[fakecyborg.ModeFlat]...)
			w.deleteTree()
			w.makeRoot("")
			for range reports {
				w.report()
			}
			before := w.contents()
			w.deleteTree()
			w.makeRoot(w.root)
			for range writes {
				w.claim(instanceA, placementsim.Allocation{Provider: w.root, Class: "VCPU", Used: 1})
				settled(t, w.placement.Release(instanceA))
			}
			w.report()
			if diff := cmp.Diff(before, w.contents()); diff != "" {
				t.Errorf("after %d reports and %d writes of others: providers (-before +after):\n%s", reports, writes, diff)
			}
		}
	}
}

// TestALostProviderReturnsAlone: one provider of a device is deleted by mistake; its siblings are
// not written.
func TestALostProviderReturnsAlone(t *testing.T) {
	t.Parallel()
	for mode, devices := range lostWorlds() {
		if mode == fakecyborg.ModeFlat {
			continue
		}
		w := lostWorld(t, fakecyborg.Config{PlacementMode: mode}, devices...)
		before := w.contents()
		settled(t, w.placement.DeleteProvider(driver.ProviderUUID("cn0_0000:3b:00.0")))
		w.wire.take()
		w.report()
		if diff := cmp.Diff(before, w.contents()); diff != "" {
			t.Errorf("%s: providers (-before +after):\n%s", mode, diff)
		}
		for _, call := range w.wire.take() {
			if !strings.HasPrefix(call, "GET") && !strings.Contains(call, driver.ProviderUUID("cn0_0000:3b:00.0")) && !strings.HasPrefix(call, "POST /resource_providers ") {
				t.Errorf("%s: call %s", mode, call)
			}
		}
	}
}

// TestAReturnThatFailsIsTriedAgain: a device that could not be put back is not bound, and leaves no half of a
// provider.
func TestAReturnThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for mode, devices := range lostWorlds() {
		w := lostWorld(t, fakecyborg.Config{PlacementMode: mode}, devices...)
		before := w.contents()
		w.deleteTree()
		w.makeRoot("")
		w.wire.hook = func(method, path string) int {
			return either(method == "PUT" && strings.HasSuffix(path, "/traits"), 0, 500)
		}
		var failed *driver.ReportError
		if err := w.cyborg.Report(t.Context()); !errors.As(err, &failed) || !strings.HasPrefix(failed.Step, "put provider ") {
			t.Errorf("%s: report: %v", mode, err)
		}
		for path, p := range w.contents() {
			if path != "cn0" && len(p.Inventories) > 0 {
				t.Errorf("%s: provider %s without its traits: %+v", mode, path, p)
			}
		}
		w.wire.hook = nil
		w.report()
		if diff := cmp.Diff(before, w.contents()); diff != "" {
			t.Errorf("%s: providers (-before +after):\n%s", mode, diff)
		}
	}
}

// TestADeviceInUseReturns: what is bound keeps its handle, and a device that is disabled comes back reserved.
func TestADeviceInUseReturns(t *testing.T) {
	t.Parallel()
	w := lostWorld(t, fakecyborg.Config{}, gpu("3b", "PGPU", nil, "0"), gpu("5e", "PGPU", nil, "0"))
	arq := w.bind("PGPU", "3b")
	disabled := w.cyborg.Devices()[1].UUID
	w.api().want(w.api().send(sent{method: "POST", path: "/v2/devices/" + disabled + "/disable"}), 204, "")
	w.deleteTree()
	w.makeRoot("")
	w.report()
	if p, there := w.provider("3b"); !there || p.Inventories["PGPU"].Total != 1 || p.Inventories["PGPU"].Reserved != 0 {
		t.Errorf("provider of the bound device: %t %+v", there, p)
	}
	if p, there := w.provider("5e"); !there || p.Inventories["PGPU"].Reserved != 1 {
		t.Errorf("provider of the disabled device: %t %+v", there, p)
	}
	if got := w.cyborg.ARQs(); len(got) != 1 || got[0].UUID != arq || got[0].State != fakecyborg.StateBound {
		t.Errorf("requests: %+v", got)
	}
}

// TestUpstreamDoesNotReturnDevices: with the defects of the real Cyborg a device is reported once.
func TestUpstreamDoesNotReturnDevices(t *testing.T) {
	t.Parallel()
	w := lostWorld(t, fakecyborg.Config{UpstreamQuirks: true}, gpu("3b", "PGPU", nil, "0"))
	w.deleteTree()
	w.makeRoot("")
	w.report()
	if p, there := w.provider("3b"); there {
		t.Errorf("provider %+v", p)
	}
}

// The deletion of a provider succeeds and its answer is lost, and the next report cannot repeat it. The device is stored as one that
// Placement does not have.
func TestADeletedProviderIsNotStoredAsPresent(t *testing.T) {
	t.Parallel()
	w := newReportWorldOf(t, fakecyborg.Config{}, gpu("3b", "PGPU", []string{"CUSTOM_A"}, "0"))
	w.report()
	provider := w.cyborg.Deployables()[0].ProviderUUID
	w.hardware.set()
	w.wire.after = func(method, _ string) error {
		return either[error](method == http.MethodDelete, nil, errors.New("the answer is lost"))
	}
	_ = w.cyborg.Report(t.Context())
	w.wire.after = nil
	if _, err := w.placement.ResourceProvider(provider); err == nil {
		t.Fatal("the provider is still there")
	}
	w.wire.hook = func(method, _ string) int {
		return either(method == http.MethodDelete, 0, http.StatusServiceUnavailable)
	}
	_ = w.cyborg.Report(t.Context())
	w.wire.hook = nil
	if len(w.cyborg.Deployables()) == 0 {
		t.Fatal("the deletion was repeated")
	}
	next := newReportWorldOn(t, w, fakecyborg.Config{})
	loaded(t, next.cyborg, dumped(t, w.cyborg))
}
