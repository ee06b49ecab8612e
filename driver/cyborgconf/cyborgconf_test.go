package cyborgconf_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/cyborgconf"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/ssd"
)

const realCyborgConf = `# of a real host, with sections for other services
[DEFAULT]
host = compute1
transport_url = rabbit://stackrabbit:secret@10.0.0.1:5672/?a=b;c#d
bind_timeout = 60
debug = True

[agent]
enabled_drivers = nvidia_gpu_driver,
  intel_nic_driver, pci_driver, inspur_nvme_ssd_driver
; a comment

[gpu_devices]
enabled_vgpu_types = nvidia-35, nvidia-36
filter_sriov_vfs = yes
[vgpu_nvidia-35]
device_addresses = 0000:84:00.0,0000:85:00.0
[vgpu_nvidia-36]
device_addresses: 0000:86:00.0

[nic_devices]
enabled_nic_types = x710_static
[x710_static]
physical_device_mappings = physnet1:eth2|eth3,physnet2:eth4
function_device_mappings = GTPv1:eth3|eth2
device_addresses = 0000:18:00.0, 0000:AF:02.1

[pci]
passthrough_whitelist = {"vendor_id": "8086", "product_id": "1520"}
passthrough_whitelist = [{"vendor_id": "102b", "address": "*:0a:00.*"},
    {"devname": "eth#1"}]
passthrough_whitelist = {"vendor_id": "8086", "product_id": "1520"}

[nvme]
device_spec = {"vendor_id": "144d", "address": "0000:3b:*.*", "clear_action": "auto"}
device_spec = {"vendor_id": "1bd4"}

[keystone_authtoken]
password = 50%;#"'
[agent]
enabled_drivers = nvidia_gpu_driver,
  intel_nic_driver, pci_driver, inspur_nvme_ssd_driver
`

func TestDriversAreConfiguredByCyborgConf(t *testing.T) {
	t.Parallel()
	got, err := cyborgconf.Parse([]byte(realCyborgConf))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"nvidia_gpu_driver", "intel_nic_driver", "pci_driver", "inspur_nvme_ssd_driver"}, got.EnabledDrivers); diff != "" || got.Host != "compute1" {
		t.Errorf("host %q, enabled_drivers (-want +got):\n%s", got.Host, diff)
	}
	wantGPUs := &nvidia.Config{FilterSRIOVVFs: true, EnabledVGPUTypes: []nvidia.VGPUType{
		{Name: "nvidia-35", DeviceAddresses: []string{"0000:84:00.0", "0000:85:00.0"}}, {Name: "nvidia-36", DeviceAddresses: []string{"0000:86:00.0"}},
	}}
	if diff := cmp.Diff(wantGPUs, got.NVIDIA); diff != "" {
		t.Errorf("gpu_devices (-want +got):\n%s", diff)
	}
	wantNICs := []nic.Type{{
		Name:                   "x710_static",
		PhysicalDeviceMappings: nic.Mappings{"physnet1": {"eth2", "eth3"}, "physnet2": {"eth4"}},
		FunctionDeviceMappings: nic.Mappings{"GTPv1": {"eth3", "eth2"}},
		DeviceAddresses:        []string{"0000:18:00.0", "0000:AF:02.1"},
	}}
	if diff := cmp.Diff(wantNICs, got.NIC.EnabledNICTypes); diff != "" {
		t.Errorf("nic_devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]ssd.Spec{{VendorID: "144d", Address: "0000:3b:*.*"}, {VendorID: "1bd4"}}, got.SSD.DeviceSpec); diff != "" {
		t.Errorf("nvme (-want +got):\n%s", diff)
	}
	i350 := pci.Spec{VendorID: "8086", ProductID: "1520"}
	wantList := pci.Whitelist{i350, {VendorID: "102b", Address: &pci.AddressPattern{Glob: "*:0a:00.*"}}, {DevName: "eth#1"}, i350}
	if diff := cmp.Diff(wantList, got.PCI.PassthroughWhitelist); diff != "" {
		t.Errorf("passthrough_whitelist (-want +got):\n%s", diff)
	}
}

// TestOptionsOfOtherDriversAreIgnored has the options of a driver that is not enabled, and JSON.
func TestOptionsOfOtherDriversAreIgnored(t *testing.T) {
	t.Parallel()
	got, err := cyborgconf.Parse([]byte("[agent]\nenabled_drivers = intel_qat_driver\n[pci]\npassthrough_whitelist = {}\n[nvme]\ndevice_spec = {\"vendor_id\": \"144d\"}\n"))
	if err != nil || got.PCI != nil || got.SSD != nil || got.NVIDIA != nil || got.NIC != nil || got.Check() != nil {
		t.Errorf("%+v, %v, %v", got, err, got.Check())
	}
	if got, err = cyborgconf.Parse([]byte(` {"host": "h", "qat": {}}`)); err != nil || got.Host != "h" || got.QAT == nil {
		t.Errorf("JSON: %+v, %v", got, err)
	}
	if _, err = cyborgconf.Parse([]byte("[nvme]\ndevice_spec = x\n")); err == nil {
		t.Error("a malformed option is accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(realCyborgConf)
	f.Add("[\n=\n[]]\n\"\"\"\n` = `\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := cyborgconf.Parse([]byte(text)); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}
