package spawn_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestAHandleThatIsNotManagedReachesTheDomain checks the attribute from the driver through Cyborg's accelerator
// request to the XML, next to a handle without it.
func TestAHandleThatIsNotManagedReachesTheDomain(t *testing.T) {
	t.Parallel()
	for _, managed := range []string{"", "true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			model := simcloud.DefaultModel()
			at := driver.PCIAddress{Bus: 0xc8, Function: 2}
			handle := driver.AttachHandle{Type: driver.HandlePCI, Info: at.Info()}
			if managed != "" {
				handle.Info[driver.FieldManaged] = managed
			}
			model.Hosts[0].Devices = append(model.Hosts[0].Devices, driver.Device{
				Vendor: "10de", Model: "2bb5", Type: driver.TypeGPU, ControlPath: at.ControlPath(),
				Deployables: []driver.Deployable{{Name: model.Hosts[0].Name + "_" + at.String(), NumAccelerators: 1, DriverName: "test",
					Class: "CUSTOM_VF", AttachHandles: []driver.AttachHandle{handle}}},
			})
			model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "vf", Groups: []map[string]string{{"resources:CUSTOM_VF": "1"}}})
			w := newWorld(t, worldOpts{model: &model})
			result, err := w.flow.Run(t.Context(), request("vf"))
			if err != nil {
				t.Fatal(err)
			}
			if got := result.ARQs[0].AttachHandleInfo["managed"]; got != any(managed) && (got != nil || managed != "") {
				t.Errorf("managed %q: the request has %v", managed, got)
			}
			want := `managed="yes"`
			if managed == "false" {
				want = `managed="no"`
			}
			if got := string(result.Domain); strings.Count(got, "<hostdev") != 1 || !strings.Contains(got, want) {
				t.Errorf("managed %q: no %s in\n%s", managed, want, got)
			}
			w.checkPromise(t, result, nil)
		})
	}
}
