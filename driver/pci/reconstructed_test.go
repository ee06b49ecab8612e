package pci_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// TestVirtualFunctionsOfGPUsOfEachVendor: on trees that are reconstructed, not captured. Ids and
// classes are taken from the drivers of amd/MxGPU-Virtualization (gim) and of the kernel's
// include/drm/intel/pciids.h; the integrated GPU is that of strongtz/i915-sriov-dkms issue 342.
func TestVirtualFunctionsOfGPUsOfEachVendor(t *testing.T) {
	t.Parallel()
	vfs := func(total, enabled int, product, kernel string) *sysfs.VFs {
		return &sysfs.VFs{Total: total, Enabled: enabled, Product: product, Driver: kernel}
	}
	no := pci.Managed(false)
	for _, tt := range []struct {
		name   string
		card   sysfs.PCIDevice
		entry  pci.Spec
		shape  driver.TraitShape
		want   []string
		leaves string // part of the reason for the physical function
	}{
		{"reconstructed MI300X", sysfs.PCIDevice{Address: "0000:05:00.0", Vendor: "1002", Product: "74a1", Class: "1200", Driver: "gim", VFs: vfs(1, 1, "74b5", "vfio-pci")},
			pci.Spec{VendorID: "1002"}, "", []string{"0000:05:00.1 CUSTOM_PCI: OWNER_CYBORG CUSTOM_PCI_AMD CUSTOM_PCI_PRODUCT_ID_74B5"}, "virtual functions enabled (1)"},
		{"reconstructed MI300X, Rocky names", sysfs.PCIDevice{Address: "0000:05:00.0", Vendor: "1002", Product: "74a1", Class: "1200", Driver: "gim", VFs: vfs(1, 1, "74b5", "vfio-pci")},
			pci.Spec{VendorID: "1002"}, driver.ShapeRockyScheduling, []string{"0000:05:00.1 CUSTOM_ACCELERATOR_GPU: OWNER_CYBORG CUSTOM_GPU_AMD CUSTOM_GPU_AMD_74B5"}, "virtual functions enabled (1)"},
		{"reconstructed MI210 without VFs", sysfs.PCIDevice{Address: "0000:03:00.0", Vendor: "1002", Product: "740f", Class: "0380", Driver: "vfio-pci"},
			pci.Spec{VendorID: "1002", ProductID: "740f"}, "", []string{"0000:03:00.0 CUSTOM_PCI: OWNER_CYBORG CUSTOM_PCI_AMD CUSTOM_PCI_PRODUCT_ID_740F"}, ""},
		{"reconstructed Flex 170", sysfs.PCIDevice{Address: "0000:4d:00.0", Vendor: "8086", Product: "56c0", Class: "0380", Driver: "i915", VFs: vfs(31, 2, "", "vfio-pci")},
			pci.Spec{VendorID: "8086", ProductID: "56c0"}, "", []string{
				"0000:4d:00.1 CUSTOM_PCI: OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_56C0",
				"0000:4d:00.2 CUSTOM_PCI: OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_56C0",
			}, "virtual functions enabled (2)"},
		{"reconstructed Arc Pro B50 with its variant driver", sysfs.PCIDevice{Address: "0000:03:00.0", Vendor: "8086", Product: "e212", Class: "0300", Driver: "xe", VFs: vfs(12, 1, "", "xe-vfio-pci")},
			pci.Spec{VendorID: "8086", Managed: &no}, "", []string{"0000:03:00.1 CUSTOM_PCI: OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_E212 managed=false"}, ""},
		{"reconstructed Alder Lake-N", sysfs.PCIDevice{Address: "0000:00:02.0", Vendor: "8086", Product: "46d3", Class: "0300", Driver: "i915", BootVGA: true, VFs: vfs(7, 2, "", "vfio-pci")},
			pci.Spec{VendorID: "8086", ProductID: "46d3"}, driver.ShapeRockyScheduling, []string{
				"0000:00:02.1 CUSTOM_ACCELERATOR_GPU: OWNER_CYBORG CUSTOM_GPU_INTEL CUSTOM_GPU_INTEL_46D3",
				"0000:00:02.2 CUSTOM_ACCELERATOR_GPU: OWNER_CYBORG CUSTOM_GPU_INTEL CUSTOM_GPU_INTEL_46D3",
			}, "boot_vga is 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := pci.New(pci.Config{Host: "h", PassthroughWhitelist: pci.Whitelist{tt.entry}, Policy: driver.Policy{TraitShape: tt.shape}}, drivertest.Tree(t, tt.card))
			if err != nil {
				t.Fatal(err)
			}
			report := drivertest.Discover(t, d)
			var got []string
			for _, d := range report.Devices {
				p := d.Deployables[0]
				line := strings.TrimPrefix(p.Name, "h_") + " " + p.Class + ": " + strings.Join(p.Traits, " ")
				if managed := p.AttachHandles[0].Info[driver.FieldManaged]; managed != "" {
					line += " managed=" + managed
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if reasons := append(report.LeftOut, driver.Notice{}); tt.leaves != "" && (reasons[0].Address != tt.card.Address || !strings.Contains(reasons[0].Reason, tt.leaves)) {
				t.Errorf("left out: %v, want %s: %s", report.LeftOut, tt.card.Address, tt.leaves)
			}
		})
	}
}

// TestVirtualFunctionsOfGPUsWithoutLinks: an A16 and an integrated GPU as in a capture that has neither links nor
// counts. Two GPUs on the bus of a virtual machine are no such thing.
func TestVirtualFunctionsOfGPUsWithoutLinks(t *testing.T) {
	t.Parallel()
	function := func(address, vendor, product, class string) sysfs.PCIDevice {
		return sysfs.PCIDevice{Address: address, Vendor: vendor, Product: product, Class: class, Driver: "vfio-pci"}
	}
	report := discover(t, drivertest.Tree(t,
		function("0000:41:00.0", "10de", "25b6", "0302"), function("0000:41:00.4", "10de", "25b6", "0302"), function("0000:41:01.0", "10de", "25b6", "0302"),
		function("0000:00:02.0", "8086", "46d3", "0300"), function("0000:00:02.1", "8086", "46d3", "0300"),
		function("0000:00:05.0", "10de", "1eb8", "0302"), function("0000:00:06.0", "10de", "1eb8", "0302"),
		function("0000:42:00.0", "10de", "1eb8", "0302"), function("0000:43:00.0", "10de", "1eb8", "0302"),
	), `[{"vendor_id": "10de"}, {"vendor_id": "8086"}]`)
	want := []string{"0000:00:02.1", "0000:00:05.0", "0000:00:06.0", "0000:41:00.4", "0000:41:01.0", "0000:42:00.0", "0000:43:00.0"}
	if diff := cmp.Diff(want, addresses(report)); diff != "" {
		t.Errorf("offered (-want +got):\n%s\n%v", diff, report.LeftOut)
	}
}
