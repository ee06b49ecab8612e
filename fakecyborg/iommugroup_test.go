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
		var of sysfs.Description
		for _, at := range addresses {
			of.Devices = append(of.Devices, sysfs.PCIDevice{Address: at, Vendor: "10de", Product: "15f8", Class: "0302", Driver: "vfio-pci", IOMMUGroup: &group})
		}
		tree, err := sysfs.Generate(of)
		settled(t, err)
		return tree
	}
	tree := &replaced{machine("0000:41:00.0")}
	gpus, err := nvidia.New(nvidia.Config{Host: "cn0"}, tree)
	settled(t, err)
	cyborg, err := fakecyborg.New(fakecyborg.Config{})
	settled(t, err)
	t.Cleanup(cyborg.Close)
	settled(t, cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{gpus}}))
	offered := func(want ...string) []fakecyborg.StoredDeployable {
		t.Helper()
		_ = cyborg.Report(t.Context()) // of what cannot be read
		var names []string
		for _, d := range cyborg.Deployables() {
			names = append(names, d.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("offered (-want +got):\n%s", diff)
		}
		return cyborg.Deployables()
	}
	card := offered("cn0_0000:41:00.0")[0]
	if _, err := cyborg.CreateDeviceProfile("gpu", []map[string]string{{"resources:PGPU": "1"}}); err != nil {
		t.Fatal(err)
	}
	arqs, err := cyborg.CreateARQs("gpu", "")
	settled(t, err)
	err = cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: card.ProviderUUID, Instance: "5922a70f-1e06-4cfd-88dd-a332120d7144"})
	settled(t, err)
	both := machine("0000:40:00.0", "0000:41:00.0")
	tree.Tree = both.Twin()
	offered("cn0_0000:41:00.0")
	broken := both.Twin()
	broken.SetFile("bus/pci/devices/0000:41:00.0/iommu_group", nil)
	tree.Tree = broken
	offered("cn0_0000:41:00.0")
	tree.Tree = both
	settled(t, cyborg.DeleteARQs(t.Context(), arqs[0].UUID))
	offered("cn0_0000:40:00.0")
}
