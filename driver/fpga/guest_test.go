package fpga_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// bind does what libvirt does to a function of a card before a guest starts, and after it.
func bind(m *sysfs.Memory, address, container, kernelDriver string) (back func()) {
	at := "devices/pci0000:5f/" + address
	class, err := m.Readlink("class/fpga_region/" + container)
	if err != nil {
		panic(err)
	}
	m.Remove("class/fpga_region/" + container)
	m.Remove(at + "/driver")
	m.SetLink(at+"/driver", "../../../bus/pci/drivers/"+kernelDriver)
	return func() {
		m.SetLink("class/fpga_region/"+container, class)
		m.Remove(at + "/driver")
		m.SetLink(at+"/driver", "../../../bus/pci/drivers/dfl-pci")
	}
}

// What the kernel does not show while a guest has a card stays as it was reported, in every layout.
func TestACardThatAGuestHasKeepsItsTraits(t *testing.T) {
	t.Parallel()
	virtual := dflCard("0000:5f:00.0", 1, "2", "b")
	virtual.FPGA.Ports[0].VF, virtual.VFs = 1, &sysfs.VFs{Total: 1, Enabled: 1, Product: "0b31", Driver: "dfl-pci"}
	for name, tt := range map[string]struct {
		card                sysfs.PCIDevice
		mode                fakecyborg.PlacementMode
		function, container string
	}{
		"whole":                    {dflCard("0000:5f:00.0", 1, "2", "b"), fakecyborg.ModeTree, "0000:5f:00.0", "region1"},
		"whole, nested":            {dflCard("0000:5f:00.0", 1, "2", "b"), fakecyborg.ModeNested, "0000:5f:00.0", "region1"},
		"virtual function":         {virtual, fakecyborg.ModeTree, "0000:5f:00.1", "region2"},
		"virtual function, nested": {virtual, fakecyborg.ModeNested, "0000:5f:00.1", "region2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, tt.card)
			w := newWorld(t, tt.mode, nil, map[string]map[string]string{"p": {"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("b"): "required"}},
				newIntel(t, fpga.Config{}, tree))
			result, err := w.spawn(instanceA, "p")
			if err != nil {
				t.Fatal(err)
			}
			traits := func() []string {
				t.Helper()
				w.report()
				provider, err := w.cloud.Placement.ResourceProvider(result.ARQs[0].DeviceRPUUID)
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(provider.Traits)
				return provider.Traits
			}
			before := traits()
			back := bind(tree, tt.function, tt.container, "vfio-pci")
			if diff := cmp.Diff(before, traits()); diff != "" {
				t.Errorf("while the guest has it (-before +now):\n%s", diff)
			}
			back()
			if diff := cmp.Diff(before, traits()); diff != "" {
				t.Errorf("after the guest (-before +now):\n%s", diff)
			}
			if err := tree.Program(tt.function, 1, id("e")); err != nil {
				t.Fatal(err)
			}
			if now := strings.Join(traits(), " "); !strings.Contains(now, traitID("e")) || strings.Contains(now, traitID("b")) {
				t.Errorf("with another function: %s", now)
			}
		})
	}
}
