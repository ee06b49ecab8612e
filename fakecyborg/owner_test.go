package fakecyborg_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

func TestEveryProviderSaysThatItIsCyborgs(t *testing.T) {
	t.Parallel()
	for quirks, want := range map[bool][]string{false: {"CUSTOM_A", "OWNER_CYBORG"}, true: {"CUSTOM_A"}} {
		w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", []string{"CUSTOM_A"}, "0"))
		w.report()
		got, _ := w.provider("3b")
		slices.Sort(got.Traits)
		if !slices.Equal(got.Traits, want) {
			t.Errorf("quirks %t: traits %v, want %v", quirks, got.Traits, want)
		}
	}
}

func TestAProfileMayRequireItsOwner(t *testing.T) {
	t.Parallel()
	for quirks, want := range map[bool]int{false: 201, true: 400} {
		w := fakeWorld(t, fakecyborg.Config{UpstreamQuirks: quirks})
		r := w.send(sent{method: "POST", path: "/v2/device_profiles", body: `[{"name":"p","groups":[{"resources:FPGA":"1","trait:OWNER_CYBORG":"required"}]}]`})
		if quirks {
			w.want(r, want, "Unsupported trait name format OWNER_CYBORG, should start with CUSTOM_")
		} else {
			w.want(r, want, "")
		}
		r = w.send(sent{method: "POST", path: "/v2/device_profiles", body: `[{"name":"q","groups":[{"resources:FPGA":"1","trait:OWNER_NOVA":"required"}]}]`})
		w.want(r, 400, "Unsupported trait name format OWNER_NOVA, should start with CUSTOM_")
	}
}

func TestADeviceThatNovaHasIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cn0_pci_0000_3b_00_0", "compute_0000:3b:00.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReportWorld(t, gpu("3b", "VGPU", nil, "0"), gpu("5e", "PGPU", nil, "0"))
			nova := w.create(placementsim.ResourceProvider{
				Name: name, Parent: w.root, Traits: []string{"OWNER_NOVA"}, Inventories: map[string]placementsim.Inventory{"VGPU": {Total: 4}},
			})
			err := w.cyborg.Report(t.Context())
			var trouble *driver.ReportError
			if !errors.As(err, &trouble) || !strings.Contains(trouble.Device, `"bus":"3b"`) || !strings.Contains(err.Error(), "resource provider "+name+" carries OWNER_NOVA") {
				t.Errorf("error: %v", err)
			}
			if _, there := w.provider("3b"); there || len(w.cyborg.Devices()) != 1 {
				t.Errorf("stored: %v", w.cyborg.Devices())
			}
			if got, err := w.placement.ResourceProvider(nova.UUID); err != nil || got.Generation != nova.Generation {
				t.Errorf("Nova's provider: %+v, %v", got, err)
			}
			settled(t, w.placement.DeleteProvider(nova.UUID))
			w.report()
			if _, there := w.provider("3b"); !there {
				t.Error("not reported after Nova gave it up")
			}
		})
	}
}

// Nova makes its provider after Cyborg has reported the card: within ten minutes the card is
// Cyborg's no more, and when Nova gives it up, it is again.
func TestAKnownDeviceThatNovaOffersLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newReportWorld(t, gpu("3b", "VGPU", nil, "0"), gpu("5e", "PGPU", nil, "0"))
		w.report()
		nova := w.create(placementsim.ResourceProvider{
			Name: "cn0_pci_0000_3b_00_0", Parent: w.root, Traits: []string{"OWNER_NOVA"}, Inventories: map[string]placementsim.Inventory{"VGPU": {Total: 4}},
		})
		refused := 0
		for range 12 {
			time.Sleep(time.Minute)
			if err := w.cyborg.Report(t.Context()); err != nil {
				if !strings.Contains(err.Error(), "resource provider cn0_pci_0000_3b_00_0 carries OWNER_NOVA") {
					t.Fatal(err)
				}
				refused++
			}
		}
		if refused < 3 { // from the tenth minute on
			t.Errorf("%d of 12 reports refused the card", refused)
		}
		if _, there := w.provider("3b"); there || len(w.cyborg.Devices()) != 1 {
			t.Errorf("the card is still Cyborg's: %v", w.cyborg.Devices())
		}
		settled(t, w.placement.DeleteProvider(nova.UUID))
		w.report()
		if _, there := w.provider("3b"); !there {
			t.Error("not reported after Nova gave it up")
		}
	})
}

func TestADeviceOfNovasSettingsIsRefused(t *testing.T) {
	t.Parallel()
	for quirks, want := range map[bool]int{false: 0, true: 1} {
		server := newServer(t, fakecyborg.Config{UpstreamQuirks: quirks})
		settled(t, server.AddHost(driver.Host{
			Name: "cn0", Drivers: []driver.Driver{newHardware("test", gpu("3b", "PGPU", nil, "0"))},
			NovaClaims: func(d driver.Device) string { return "[pci] device_spec entry 0 admits " + d.Vendor },
		}))
		err := server.Report(t.Context())
		if (err == nil) != quirks || err != nil && !strings.Contains(err.Error(), "device_spec entry 0 admits 10de") {
			t.Errorf("quirks %t: error %v", quirks, err)
		}
		if got := len(server.Devices()); got != want {
			t.Errorf("quirks %t: %d devices stored", quirks, got)
		}
		if found := server.DriverReports()[0]; len(found.Conflicts) != 1-want || found.Devices != want || !quirks && found.Conflicts[0].Address != "0000:3b:00.0" {
			t.Errorf("quirks %t: found %+v", quirks, found)
		}
	}
}
