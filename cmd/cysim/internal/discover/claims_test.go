package discover

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// shared is a host with devices that two services may claim: a GPU, a card with mdev types,
// a NIC with virtual functions, and a QuickAssist accelerator.
func shared() sysfs.Description {
	return sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3b:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "nvidia"},
		{Address: "0000:84:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia", MdevTypes: []sysfs.MdevType{
			{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 16}, {Type: "nvidia-36", Name: "GRID T4-2B", AvailableInstances: 8},
		}},
		{Address: "0000:05:00.0", Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb",
			VFs:        &sysfs.VFs{Total: 2, Enabled: 2, Offset: 128, Product: "1520", Driver: "vfio-pci"},
			Interfaces: []sysfs.Interface{{Name: "eth2", Up: true}}},
		{Address: "0000:3d:00.0", Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx"},
	}}
}

func TestDevicesClaimedByCyborgAndNova(t *testing.T) {
	t.Parallel()
	const (
		gpu  = "0000:3b:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_15F8"
		t4   = "0000:84:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_1EB8"
		vgpu = "0000:84:00.0 VGPU OWNER_CYBORG CUSTOM_NVIDIA_1EB8_T4_1B"
		vf0  = "0000:05:10.0 CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_1520"
		vf1  = "0000:05:10.1 CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_1520"
	)
	const (
		noGPUs = "[agent]\nenabled_drivers = pci_driver\n"
		divide = "[agent]\nenabled_drivers = nvidia_gpu_driver\n[gpu_devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 0000:84:00.0\n"
		onlyVF = noGPUs + "[pci]\npassthrough_whitelist = {\"vendor_id\":\"8086\",\"product_id\":\"1520\"}\n"
		onlyQA = "[agent]\nenabled_drivers = intel_qat_driver\n"
	)
	for _, tt := range []struct {
		name, cyborg, nova string
		want               []string // what is named, in order; none: status 0
		offered            []string
	}{
		{"nothing in common", divide, "[pci]\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"1521\"}\n", nil, []string{gpu, vgpu}},
		{"an address", divide, "[pci]\ndevice_spec = {\"address\":\"0000:3b:00.0\"}\n",
			[]string{"0000:3b:00.0 (Cyborg: driver nvidia; Nova: [pci] device_spec entry 0)"}, []string{vgpu}},
		{"a glob, by the former name", divide, "[pci]\npassthrough_whitelist = [{\"address\":\"*:3b:*.*\", \"physical_network\": null, \"trusted\": \"true\"}]\n",
			[]string{"0000:3b:00.0 (Cyborg: driver nvidia; Nova: [pci] passthrough_whitelist entry 0)"}, []string{vgpu}},
		{"the oldest name", divide, "[DEFAULT]\npci_passthrough_whitelist = {\"product_id\":\"15F8\"}\n",
			[]string{"0000:3b:00.0 (Cyborg: driver nvidia; Nova: [DEFAULT] pci_passthrough_whitelist entry 0)"}, []string{vgpu}},
		{"ids of two devices", divide, "[pci]\ndevice_spec = {\"vendor_id\":\"10de\", \"product_id\":\"*\"}\n",
			[]string{"0000:3b:00.0 (", "0000:84:00.0 (", "10de:* (Cyborg: driver nvidia"}, []string{}},
		{"one mdev type on every card", divide, "[devices]\nenabled_mdev_types = nvidia-36\n",
			[]string{"0000:84:00.0 (Cyborg: driver nvidia; Nova: [devices] enabled_mdev_types: nvidia-36)"}, []string{gpu}},
		{"mdev addresses", divide, "[devices]\nenabled_mdev_types = nvidia-36, nvidia-35\n[mdev_nvidia-36]\ndevice_addresses = 0000:84:00.0\n[mdev_nvidia-35]\ndevice_addresses = 0000:85:00.0\n",
			[]string{"0000:84:00.0 (Cyborg: driver nvidia; Nova: [mdev_nvidia-36] device_addresses)"}, []string{gpu}},
		{"vgpu sections of former releases", divide, "[devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 0000:84:00.0\n",
			[]string{"0000:84:00.0 (Cyborg: driver nvidia; Nova: [vgpu_nvidia-35] device_addresses)"}, []string{gpu}},
		{"another type misses its addresses, so the first is everywhere", divide, "[devices]\nenabled_mdev_types = nvidia-36, x\n[mdev_nvidia-36]\ndevice_addresses = 0000:99:00.0\n",
			[]string{"0000:84:00.0 (Cyborg: driver nvidia; Nova: [devices] enabled_mdev_types: nvidia-36)"}, []string{gpu}},
		{"other cards' mdevs", divide, "[devices]\nenabled_mdev_types = nvidia-36\n[mdev_nvidia-36]\ndevice_addresses = 0000:99:00.0\n", nil, []string{gpu, vgpu}},
		{"an mdev address of a card that is not there", "[agent]\nenabled_drivers = nvidia_gpu_driver\n[gpu_devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 0000:99:00.0\n",
			"[devices]\nenabled_mdev_types = a\n[mdev_a]\ndevice_addresses = 0000:99:00.0\n",
			[]string{"0000:99:00.0 (Cyborg: [vgpu_nvidia-35] device_addresses; Nova: [mdev_a] device_addresses)"}, []string{gpu, t4}},
		{"virtual functions by the address of the physical one", onlyVF, "[pci]\ndevice_spec = {\"address\":\"0000:05:00.0\"}\n",
			[]string{"0000:05:10.0 (", "0000:05:10.1 ("}, []string{}},
		{"virtual functions by the interface of the physical one", onlyVF, "[pci]\ndevice_spec = {\"devname\":\"eth2\", \"physical_network\":\"p\"}\n",
			[]string{"0000:05:10.0 (Cyborg: driver pci; Nova: [pci] device_spec entry 0 (devname eth2))", "0000:05:10.1 ("}, []string{}},
		{"an interface that is not there", onlyVF, "[pci]\ndevice_spec = {\"devname\":\"eth9\"}\n", nil, []string{vf0, vf1}},
		{"the physical function by its ids is not its virtual functions", onlyVF, "[pci]\ndevice_spec = {\"address\":\"0000:05:00.0\", \"product_id\":\"1521\"}\n", nil, []string{vf0, vf1}},
		{"a glob for the physical function is not its virtual functions", onlyVF, "[pci]\ndevice_spec = {\"address\":\"0000:05:00.*\"}\n", nil, []string{vf0, vf1}},
		{"ids in both whitelists", onlyVF, "[pci]\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"0x1520\"}\n",
			[]string{"0000:05:10.0 (", "0000:05:10.1 (", "8086:1520 (Cyborg: [pci] passthrough_whitelist entry 0; Nova: [pci] device_spec entry 0)"}, []string{}},
		{"ids in both whitelists, of no device here", noGPUs + "[pci]\npassthrough_whitelist = {\"vendor_id\":\"1bd4\",\"product_id\":\"a115\"}\n",
			"[pci]\ndevice_spec = {\"vendor_id\":\"1BD4\",\"product_id\":\"A115\"}\n", []string{"1bd4:a115 ("}, []string{}},
		{"the same ids at different places", noGPUs + "[pci]\npassthrough_whitelist = {\"vendor_id\":\"8086\",\"product_id\":\"1520\",\"address\":\"0000:05:10.0\"}\n",
			"[pci]\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"1520\",\"address\":\"0000:05:10.1\"}\n", nil, []string{vf0}},
		{"an address in both, of no device here", noGPUs + "[pci]\npassthrough_whitelist = {\"address\":\"0000:99:00.0\"}\n", "[pci]\ndevice_spec = {\"address\":\"0000:99:00.0\"}\n",
			[]string{"0000:99:00.0 (Cyborg: [pci] passthrough_whitelist entry 0; Nova: [pci] device_spec entry 0)"}, []string{}},
		{"whitelisted and in use", noGPUs + "[pci]\npassthrough_whitelist = {\"address\":\"0000:05:00.0\"}\n", "[pci]\ndevice_spec = {\"product_id\":\"1521\"}\n",
			[]string{"0000:05:00.0 (Cyborg: [pci] passthrough_whitelist entry 0; Nova: [pci] device_spec entry 0)"}, []string{}},
		{"ids of a driver", onlyQA, "[pci]\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"37c8\",\"resource_class\":\"QAT\"}\n",
			[]string{"0000:3d:00.0 (", "8086:37c8 (Cyborg: driver intel_qat; Nova: [pci] device_spec entry 0)"}, []string{}},
		{"a driver that is not enabled", noGPUs, "[pci]\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"37c8\"}\n", nil, []string{}},
		{"the fake driver has no hardware", "[agent]\nenabled_drivers = fake_driver\n", "[pci]\ndevice_spec = {}\n", nil, []string{"0000:0c:00.0 FPGA CUSTOM_FAKE_DEVICE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := discover(t, "--sysfs", laidOut(t, shared()), "--driver-config", writeFile(t, "cyborg.conf", tt.cyborg), "--nova-conf", writeFile(t, "nova.conf", tt.nova))
			wantStatus := 0
			if len(tt.want) > 0 {
				wantStatus = command.StatusClaimedTwice
			}
			if got.status != wantStatus || len(tt.want) == 0 && got.stderr != "" || strings.Count(got.stderr, " (Cyborg: ") != len(tt.want) {
				t.Errorf("status %d, %q; want %d and %d names", got.status, got.stderr, wantStatus, len(tt.want))
			}
			rest := got.stderr
			for _, want := range tt.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("%q lacks %q", got.stderr, want)
				}
				rest = after
			}
			if diff := cmp.Diff(tt.offered, got.offered()); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
		})
	}
}

// Without a configuration of Cyborg only existing devices are claimed.
func TestDriverIDsAreClaimedOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	nova := writeFile(t, "nova.conf", "[pci]\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"37c8\"}\ndevice_spec = {\"vendor_id\":\"8086\",\"product_id\":\"1572\"}\n")
	got := discover(t, "--sysfs", laidOut(t, shared()), "--nova-conf", nova)
	if got.status != command.StatusClaimedTwice || !strings.Contains(got.stderr, "0000:3d:00.0") || strings.Contains(got.stderr, "8086:") {
		t.Errorf("status %d, %q", got.status, got.stderr)
	}
	want := "Nova claims 0000:3d:00.0, too: [pci] device_spec entry 0"
	if got := got.leftOut()["0000:3d:00.0 intel_qat"]; got != want {
		t.Errorf("left out because of %q, want %q", got, want)
	}
}
