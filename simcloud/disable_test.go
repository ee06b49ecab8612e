package simcloud_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// placeOf is where a device is in Placement.
func placeOf(cloud *simcloud.Cloud, device string) (provider, class string) {
	for _, d := range cloud.Cyborg.Deployables() {
		if d.DeviceUUID == device {
			provider, class = d.ProviderUUID, d.ResourceClass()
		}
	}
	return provider, class
}

func inventoryOf(t *testing.T, cloud *simcloud.Cloud, provider, class string) placementsim.Inventory {
	t.Helper()
	p, err := cloud.Placement.ResourceProvider(provider)
	must(t, err)
	return p.Inventories[class]
}

// A device that could not be disabled can be allocated again, at the latest when it is enabled.
func TestADeviceThatCouldNotBeDisabledIsEnabledAgain(t *testing.T) {
	t.Parallel()
	lost := fault.Rule{Operation: fault.InventoriesPut, Action: fault.Status, When: fault.After}
	refused := lost
	refused.When, refused.Nth = fault.Before, 2 // the second write undoes the first
	onFlat := func(r fault.Rule) fault.Rule { r.Operation = fault.InventoryPut; return r }
	for name, tt := range map[string]struct {
		mode  fakecyborg.PlacementMode
		rules []fault.Rule
		kept  int // is reserved after the failure
	}{
		"the answer is lost":              {"", []fault.Rule{lost}, 0},
		"and the undoing refused":         {"", []fault.Rule{lost, refused}, 16},
		"Placement does not do it":        {"", []fault.Rule{{Operation: fault.InventoriesPut, Action: fault.Status}}, 0},
		"flat, the answer is lost":        {fakecyborg.ModeFlat, []fault.Rule{onFlat(lost)}, 0},
		"flat, and the undoing refused":   {fakecyborg.ModeFlat, []fault.Rule{onFlat(lost), onFlat(refused)}, 1},
		"nested, and the undoing refused": {fakecyborg.ModeNested, []fault.Rule{lost, refused}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := login(t, simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{PlacementMode: tt.mode}}), "admin", "admin")
			device := u.cloud.Cyborg.Devices()[0]
			provider, class := placeOf(u.cloud, device.UUID)
			for i := range tt.rules {
				tt.rules[i].Subject = provider
			}
			must(t, u.cloud.Faults().Set(tt.rules...))
			reserved := func() int { return inventoryOf(t, u.cloud, provider, class).Reserved }
			u.do("POST", "/accelerator/v2/devices/"+device.UUID+"/disable", accelerator, nil, 500, nil)
			if got := reserved(); got != tt.kept {
				t.Errorf("after a refused disabling %d of %s are reserved, want %d", got, class, tt.kept)
			}
			u.do("POST", "/accelerator/v2/devices/"+device.UUID+"/enable", accelerator, nil, 204, nil)
			if got := reserved(); got != 0 {
				t.Errorf("after it was enabled %d of %s are reserved", got, class)
			}
		})
	}
}

// What fails leaves a disabled device so: a second disabling that waited for the first one, and an enabling that Placement
// has done.
func TestADisabledDeviceIsNotOffered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rules []fault.Rule // for the writes of the device's inventory
		then  string       // what follows the disabling, and fails
	}{
		"a second disabling that waits": {[]fault.Rule{{Action: fault.Delay, Delay: time.Minute}, {Action: fault.Status, Nth: 2}}, "/disable"},
		"an enabling without an answer": {[]fault.Rule{{Action: fault.Status, When: fault.After, Nth: 2}}, "/enable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := login(t, simcloud.Run(t), "admin", "admin")
				device := u.cloud.Cyborg.Devices()[0]
				provider, class := placeOf(u.cloud, device.UUID)
				for i := range tt.rules {
					tt.rules[i].Operation, tt.rules[i].Subject = fault.InventoriesPut, provider
				}
				must(t, u.cloud.Faults().Set(tt.rules...))
				path := "/accelerator/v2/devices/" + device.UUID
				go u.do("POST", path+"/disable", accelerator, nil, 204, nil)
				synctest.Wait() // it waits for Placement, or has ended
				u.do("POST", path+tt.then, accelerator, nil, 500, nil)
				status := u.cloud.Cyborg.Devices()[0].Status
				if i := inventoryOf(t, u.cloud, provider, class); status != fakecyborg.StatusMaintaining || i.Reserved != i.Total {
					t.Errorf("the device is %s, and Placement has %d of %d %s reserved", status, i.Reserved, i.Total, class)
				}
			})
		})
	}
}
