package simcloud_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A device that could not be disabled can be allocated again, at the latest when it is enabled.
func TestADeviceThatCouldNotBeDisabledIsEnabledAgain(t *testing.T) {
	t.Parallel()
	lost := fault.Rule{Operation: fault.InventoriesPut, Action: fault.Status, When: fault.After}
	refused := lost
	refused.When, refused.Nth = fault.Before, 2 // the second is that of the undoing
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
			var provider, class string
			for _, d := range u.cloud.Cyborg.Deployables() {
				if d.DeviceUUID == device.UUID {
					provider, class = d.ProviderUUID, d.ResourceClass()
				}
			}
			for i := range tt.rules {
				tt.rules[i].Subject = provider
			}
			if err := u.cloud.Faults().Set(tt.rules...); err != nil {
				t.Fatal(err)
			}
			reserved := func() int {
				p, err := u.cloud.Placement.ResourceProvider(provider)
				if err != nil {
					t.Fatal(err)
				}
				return p.Inventories[class].Reserved
			}
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
