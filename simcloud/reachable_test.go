package simcloud_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Whatever clients have made of a cloud, its state can be loaded.
func TestStatesThatClientsCanReachAreLoaded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		model simcloud.Model
		reach func(u *user)
	}{
		"a provider without a name": {simcloud.Model{}, func(u *user) {
			u.do("POST", "/placement/resource_providers", placement, map[string]any{"name": "spare", "uuid": instance(9)}, 200, nil)
			u.do("PUT", "/placement/resource_providers/"+instance(9), placement, map[string]any{"name": ""}, 200, nil)
		}},
		"a bound request of a flat host whose provider was made again": {simcloud.Model{
			Hosts: []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Devices: []sysfs.PCIDevice{
				{Address: "0000:3b:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "vfio-pci"},
			}}}},
			Cyborg: fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat},
		}, func(u *user) {
			cloud, class := u.cloud, u.cloud.Cyborg.Deployables()[0].ResourceClass()
			if _, err := cloud.Cyborg.CreateDeviceProfile("p", []map[string]string{{"resources:" + class: "1"}}); err != nil {
				u.t.Fatal(err)
			}
			arqs, err := cloud.Cyborg.CreateARQs("p", cloud.ProjectID("admin"))
			must(u.t, err)
			root := cloud.ProviderUUID("cn0")
			must(u.t, cloud.Cyborg.Bind(u.t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: root, Instance: instance(1)}))
			u.do("DELETE", "/placement/resource_providers/"+root, placement, nil, 204, nil)
			u.do("POST", "/placement/resource_providers", placement, map[string]any{"name": "cn0", "uuid": instance(9)}, 200, nil)
			must(u.t, cloud.Cyborg.Report(u.t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := simcloud.Run(t, tt.model)
			tt.reach(login(t, cloud, "admin", "admin"))
			must(t, cloud.Load(dump(t, cloud)))
		})
	}
}
