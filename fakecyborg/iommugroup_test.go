package fakecyborg_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// replaced is a tree that becomes another one, as when a card is plugged in.
type replaced struct{ driver.Tree }

// TestACardBesideOneOfItsGroupThatAGuestHas: the kernel gives the functions of an IOMMU group to one guest.
func TestACardBesideOneOfItsGroupThatAGuestHas(t *testing.T) {
	t.Parallel()
	machine := func(addresses ...string) *sysfs.Memory {
		group := 30
		var devices []sysfs.PCIDevice
		for _, at := range addresses {
			devices = append(devices, sysfs.PCIDevice{Address: at, Vendor: "10de", Product: "15f8", Class: "0302", Driver: "vfio-pci", IOMMUGroup: &group})
		}
		return machineOf(t, devices...)
	}
	tree := &replaced{machine("0000:41:00.0")}
	gpus, err := nvidia.New(nvidia.Config{Host: "cn0"}, tree)
	settled(t, err)
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{gpus})
	offered := func(want ...string) []fakecyborg.StoredDeployable {
		t.Helper()
		_ = w.server.Report(t.Context()) // of what cannot be read
		var names []string
		for _, d := range w.server.Deployables() {
			names = append(names, d.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("offered (-want +got):\n%s", diff)
		}
		return w.server.Deployables()
	}
	card := offered("cn0_0000:41:00.0")[0]
	w.profile("gpu", `[{"resources:PGPU":"1"}]`)
	w.want(w.patch(binding(instanceA, card.ProviderUUID, w.arqs("gpu")...)), 202, "")
	both := machine("0000:40:00.0", "0000:41:00.0")
	tree.Tree = both.Twin()
	offered("cn0_0000:41:00.0")
	broken := both.Twin()
	broken.SetFile("bus/pci/devices/0000:41:00.0/iommu_group", nil)
	tree.Tree = broken
	offered("cn0_0000:41:00.0")
	tree.Tree = both
	w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
	offered("cn0_0000:40:00.0")
}
