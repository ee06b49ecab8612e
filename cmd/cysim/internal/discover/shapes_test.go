package discover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// shape is a machine as in real data centres, and the expected reports of all drivers.
type shape struct {
	name    string
	devices []sysfs.PCIDevice
	change  func(*sysfs.Memory) // what a capture lacks or breaks
	config  string              // JSON; empty is the default
	// offered has lines "ADDRESS CLASS", leftOut part of the reason by "ADDRESS DRIVER",
	// problems "ADDRESS FILE".
	offered  []string
	leftOut  map[string]string
	problems []string
	warnings int
}

func TestDiscoverOnManyMachines(t *testing.T) {
	t.Parallel()
	for _, tt := range slices.Concat(gpuServers(), sharedCards(), networkAndDisks(), everyKind(), brokenCaptures()) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree, err := sysfs.Generate(sysfs.Description{Devices: tt.devices})
			must(t, err)
			if tt.change != nil {
				tt.change(tree)
			}
			dir := t.TempDir()
			must(t, tree.LayOut(dir))
			args := []string{"--sysfs", dir}
			if tt.config != "" {
				args = append(args, "--driver-config", writeFile(t, "c.json", tt.config))
			}
			tt.check(t, discover(t, args...))
		})
	}
}

func (s shape) check(t *testing.T, got outcome) {
	t.Helper()
	if got.status != 0 || got.stderr != "" {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	offered, warnings := []string{}, 0
	for _, d := range got.Devices {
		offered = append(offered, d.Address+" "+d.ResourceClass)
		warnings += len(d.Warnings)
	}
	if diff := cmp.Diff(append([]string{}, s.offered...), offered); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	reasons := got.leftOut()
	wanted := slices.Sorted(maps.Keys(s.leftOut))
	if diff := cmp.Diff(append([]string{}, wanted...), append([]string{}, slices.Sorted(maps.Keys(reasons))...)); diff != "" {
		t.Errorf("left out (-want +got):\n%s\n%v", diff, reasons)
	}
	for who, part := range s.leftOut {
		if !strings.Contains(reasons[who], part) {
			t.Errorf("%s is skipped because of %q, want %q", who, reasons[who], part)
		}
	}
	problems := []string{}
	for _, p := range got.Problems {
		problems = append(problems, p.Address+" "+p.File)
	}
	if diff := cmp.Diff(append([]string{}, s.problems...), problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s\n%v", diff, got.Problems)
	}
	if warnings != s.warnings {
		t.Errorf("%d warnings, want %d: %+v", warnings, s.warnings, got.Devices)
	}
}

// fn is a function that only has ids, a class and a driver.
func fn(address, vendor, product, class, kernel string) sysfs.PCIDevice {
	return sysfs.PCIDevice{Address: address, Vendor: vendor, Product: product, Class: class, Driver: kernel}
}

func with(d sysfs.PCIDevice, change func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	change(&d)
	return d
}

func behind(bridge string, d sysfs.PCIDevice) sysfs.PCIDevice {
	d.Parent = bridge
	return d
}

func group(n int, d sysfs.PCIDevice) sysfs.PCIDevice {
	d.IOMMUGroup = &n
	return d
}

func drop(paths ...string) func(*sysfs.Memory) {
	return func(m *sysfs.Memory) {
		for _, path := range paths {
			m.Remove(path)
		}
	}
}

const pciDir = "bus/pci/devices/"

func gpuServers() []shape {
	aspeed := fn("0000:03:00.0", "1a03", "2000", "0300", "ast")
	return []shape{
		{
			name: "eight H100 with NVSwitches, a BMC, and an RDMA function each",
			devices: func() []sysfs.PCIDevice {
				list := []sysfs.PCIDevice{aspeed}
				for i := range 4 {
					port := fmt.Sprintf("%04x:%02x:01.0", 0, 0x10+i)
					list = append(list,
						fn(port, "1000", "c030", "0604", "pcieport"),
						behind(port, fn(fmt.Sprintf("0000:%02x:00.0", 0x20+i), "10de", "2330", "0302", "nvidia")),
						fn(fmt.Sprintf("0000:%02x:00.0", 0x40+i), "10de", "22a3", "0680", "nvidia-nvswitch"),
						fn(fmt.Sprintf("0000:%02x:00.0", 0x60+i), "15b3", "1021", "0207", "mlx5_core"))
				}
				return list
			}(),
			offered: []string{"0000:20:00.0 PGPU", "0000:21:00.0 PGPU", "0000:22:00.0 PGPU", "0000:23:00.0 PGPU"},
		},
		{
			name:    "a bridge behind a bridge behind a bridge, in a domain above ffff",
			devices: []sysfs.PCIDevice{fn("10000:00:00.0", "8086", "2030", "0604", "pcieport"), behind("10000:00:00.0", fn("10000:01:00.0", "10b5", "8796", "0604", "pcieport")), behind("10000:01:00.0", fn("10000:02:08.0", "10b5", "8796", "0604", "pcieport")), behind("10000:02:08.0", fn("10000:03:00.0", "10de", "1eb8", "0302", ""))},
			leftOut: map[string]string{"10000:03:00.0 nvidia": "its PCI domain 10000 is above ffff, which QEMU refuses"},
		},
		{
			name:    "GPUs of AMD and Intel are unclaimed without a whitelist",
			devices: []sysfs.PCIDevice{fn("0000:41:00.0", "1002", "740f", "0380", "amdgpu"), fn("0000:42:00.0", "8086", "0bd5", "0380", "xe"), fn("0000:00:02.0", "8086", "3e92", "0300", "i915")},
		},
		{
			name:    "GPUs of AMD and Intel with a whitelist",
			config:  `{"host": "h", "pci": {"passthrough_whitelist": [{"vendor_id": "1002"}, {"vendor_id": "8086"}]}}`,
			devices: []sysfs.PCIDevice{fn("0000:41:00.0", "1002", "740f", "0380", "amdgpu"), with(fn("0000:00:02.0", "8086", "3e92", "0300", "i915"), func(d *sysfs.PCIDevice) { d.BootVGA = true })},
			offered: []string{"0000:41:00.0 CUSTOM_PCI"},
			leftOut: map[string]string{"0000:00:02.0 pci": "boot_vga is 1"},
		},
		{
			name: "a workstation: the card's audio and USB functions are no GPUs",
			devices: []sysfs.PCIDevice{
				group(1, fn("0000:01:00.0", "10de", "1eb1", "0300", "vfio-pci")), group(1, fn("0000:01:00.1", "10de", "10f8", "0403", "vfio-pci")),
				group(1, fn("0000:01:00.2", "10de", "1ad8", "0c03", "xhci_hcd")), group(1, fn("0000:01:00.3", "10de", "1ad9", "0c80", "")),
			},
			leftOut: map[string]string{"0000:01:00.0 nvidia": "IOMMU group 1 has 0000:01:00.2, of class 0c03, on driver xhci_hcd: bind it to vfio-pci"},
		},
		{
			name: "two cards, and one group is free",
			devices: []sysfs.PCIDevice{
				group(1, fn("0000:01:00.0", "10de", "1eb1", "0300", "vfio-pci")), group(1, fn("0000:01:00.2", "10de", "1ad8", "0c03", "xhci_hcd")),
				group(2, fn("0000:02:00.0", "10de", "1eb1", "0300", "vfio-pci")), group(2, fn("0000:02:00.1", "10de", "10f8", "0403", "vfio-pci")),
			},
			offered: []string{"0000:02:00.0 PGPU"},
			leftOut: map[string]string{"0000:01:00.0 nvidia": "IOMMU group 1 has 0000:01:00.2, of class 0c03, on driver xhci_hcd: bind it to vfio-pci"},
		},
		{
			name:    "a desktop's only display, with and without boot_vga",
			devices: []sysfs.PCIDevice{with(fn("0000:01:00.0", "10de", "2684", "0300", "nvidia"), func(d *sysfs.PCIDevice) { d.BootVGA = true }), fn("0000:02:00.0", "10de", "2684", "0300", "nvidia"), fn("0000:03:00.0", "10de", "2684", "0300", "vfio-pci"), fn("0000:04:00.0", "10de", "2684", "0300", "")},
			change:  drop(pciDir+"0000:02:00.0/boot_vga", pciDir+"0000:03:00.0/boot_vga", pciDir+"0000:04:00.0/boot_vga"),
			offered: []string{"0000:03:00.0 PGPU", "0000:04:00.0 PGPU"},
			leftOut: map[string]string{"0000:01:00.0 nvidia": "boot_vga is 1", "0000:02:00.0 nvidia": "no boot_vga file"},
		},
	}
}

// withReason returns reasons with one of them changed.
func withReason(reasons map[string]string, who, reason string) map[string]string {
	changed := maps.Clone(reasons)
	changed[who] = reason
	return changed
}

func sharedCards() []shape {
	a100 := with(fn("0000:3b:00.0", "10de", "20f1", "0302", "nvidia"), func(d *sysfs.PCIDevice) {
		d.VFs = &sysfs.VFs{Total: 4, Enabled: 4, Offset: 4, Driver: "nvidia", MdevTypes: []sysfs.MdevType{{Type: "nvidia-474", Name: "GRID A100-4C", AvailableInstances: 1}}}
	})
	listed := `{"host": "h", "nvidia": {"enabled_vgpu_types": [{"name": "nvidia-474", "device_addresses": ["0000:3b:00.4", "0000:3b:00.5"]}]}}`
	allOff := map[string]string{"0000:3b:00.0 nvidia": "virtual functions enabled (4)"}
	for _, vf := range []string{"00.4", "00.5", "00.6", "00.7"} {
		allOff["0000:3b:"+vf+" nvidia"] = "virtual function of 0000:3b:00.0"
	}
	someOff := maps.Clone(allOff)
	delete(someOff, "0000:3b:00.4 nvidia")
	delete(someOff, "0000:3b:00.5 nvidia")
	return []shape{
		{name: "an A100 with virtual functions is no whole GPU, nor five", devices: []sysfs.PCIDevice{a100}, leftOut: allOff},
		{name: "two of its virtual functions carry vGPUs", devices: []sysfs.PCIDevice{a100}, config: listed,
			offered: []string{"0000:3b:00.4 VGPU", "0000:3b:00.5 VGPU"}, leftOut: someOff},
		{name: "captured without physfn", devices: []sysfs.PCIDevice{a100}, leftOut: allOff,
			change: drop(pciDir+"0000:3b:00.4/physfn", pciDir+"0000:3b:00.5/physfn", pciDir+"0000:3b:00.6/physfn", pciDir+"0000:3b:00.7/physfn")},
		{name: "captured without virtfn and sriov files", devices: []sysfs.PCIDevice{a100},
			change:  drop(pciDir+"0000:3b:00.0/virtfn0", pciDir+"0000:3b:00.0/virtfn1", pciDir+"0000:3b:00.0/virtfn2", pciDir+"0000:3b:00.0/virtfn3", pciDir+"0000:3b:00.0/sriov_numvfs", pciDir+"0000:3b:00.0/sriov_totalvfs"),
			leftOut: allOff},
		{name: "captured without any link", devices: []sysfs.PCIDevice{a100}, leftOut: withReason(allOff, "0000:3b:00.0 nvidia", "on its bus is 0000:3b:00.4"),
			change: drop(pciDir+"0000:3b:00.4/physfn", pciDir+"0000:3b:00.5/physfn", pciDir+"0000:3b:00.6/physfn", pciDir+"0000:3b:00.7/physfn",
				pciDir+"0000:3b:00.0/virtfn0", pciDir+"0000:3b:00.0/virtfn1", pciDir+"0000:3b:00.0/virtfn2", pciDir+"0000:3b:00.0/virtfn3", pciDir+"0000:3b:00.0/sriov_numvfs", pciDir+"0000:3b:00.0/sriov_totalvfs")},
		{name: "captured without links, with counts", devices: []sysfs.PCIDevice{a100}, leftOut: allOff,
			change: drop(pciDir+"0000:3b:00.4/physfn", pciDir+"0000:3b:00.5/physfn", pciDir+"0000:3b:00.6/physfn", pciDir+"0000:3b:00.7/physfn",
				pciDir+"0000:3b:00.0/virtfn0", pciDir+"0000:3b:00.0/virtfn1", pciDir+"0000:3b:00.0/virtfn2", pciDir+"0000:3b:00.0/virtfn3")},
		{name: "a T4 with a mediated device of Nova's", devices: []sysfs.PCIDevice{with(fn("0000:84:00.0", "10de", "1eb8", "0302", "nvidia"), func(d *sysfs.PCIDevice) {
			d.MdevTypes = []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 16}}
		})},
			change: func(m *sysfs.Memory) {
				if err := m.WriteFile("class/mdev_bus/0000:84:00.0/mdev_supported_types/nvidia-35/create", []byte("11111111-1111-4111-8111-111111111111")); err != nil {
					panic(err)
				}
			},
			leftOut: map[string]string{"0000:84:00.0 nvidia": "mediated device"}},
		{name: "an H200 divided by MIG looks like a whole one, its capabilities are no functions", devices: []sysfs.PCIDevice{with(fn("0000:19:00.0", "10de", "2335", "0302", "nvidia"), func(d *sysfs.PCIDevice) {
			d.VFs = &sysfs.VFs{Total: 16, Offset: 4}
		})}, offered: []string{"0000:19:00.0 PGPU"}},
	}
}

func networkAndDisks() []shape {
	x710 := func(address string, up bool, name string) sysfs.PCIDevice {
		return with(fn(address, "8086", "1572", "0200", "i40e"), func(d *sysfs.PCIDevice) {
			d.Interfaces = []sysfs.Interface{{Name: name, MAC: "3c:fd:fe:00:00:01", Up: up}}
		})
	}
	nvme := func(address, vendor string, disks ...sysfs.Disk) sysfs.PCIDevice {
		return with(fn(address, vendor, "1001", "010802", "nvme"), func(d *sysfs.PCIDevice) { d.Disks = disks })
	}
	return []shape{
		{name: "many NICs up, one down",
			devices: []sysfs.PCIDevice{x710("0000:18:00.0", true, "eno1"), x710("0000:18:00.1", true, "eno2"), x710("0000:18:00.2", false, "eno3"),
				fn("0000:19:00.0", "15b3", "1017", "0200", "mlx5_core"), fn("0000:1a:00.0", "8086", "1521", "0200", "igb")},
			offered: []string{"0000:18:00.2 CUSTOM_NIC"},
			leftOut: map[string]string{"0000:18:00.0 intel_nic": "network interface eno1 is up", "0000:18:00.1 intel_nic": "network interface eno2 is up"}},
		{name: "NICs in a capture without their interfaces",
			devices: []sysfs.PCIDevice{x710("0000:18:00.0", true, "eno1")}, change: drop(pciDir+"0000:18:00.0/net", "class/net"),
			leftOut: map[string]string{"0000:18:00.0 intel_nic": ""}},
		{name: "a NIC with virtual functions bound to vfio-pci",
			devices: []sysfs.PCIDevice{with(x710("0000:18:00.0", true, "eno1"), func(d *sysfs.PCIDevice) {
				d.VFs = &sysfs.VFs{Total: 4, Enabled: 2, Offset: 16, Product: "154c", Driver: "vfio-pci"}
			})},
			offered: []string{"0000:18:02.0 CUSTOM_NIC", "0000:18:02.1 CUSTOM_NIC"},
			leftOut: map[string]string{"0000:18:00.0 intel_nic": "virtual functions (2)"}},
		{name: "NVMe disks: partitioned, in a volume group, empty, with a signature, of another vendor, and one that is not named",
			config: `{"host": "h", "ssd": {"device_spec": [{"vendor_id": "1bd4", "address": "0000:d?:*"}]}}`,
			devices: []sysfs.PCIDevice{
				nvme("0000:d8:00.0", "1bd4", sysfs.Disk{Name: "nvme0n1", Major: 259, Minor: 0, Partitions: []sysfs.Partition{{Name: "nvme0n1p1", Minor: 1}}}),
				nvme("0000:d9:00.0", "1bd4", sysfs.Disk{Name: "nvme1n1", Major: 259, Minor: 2, Holders: []string{"dm-0"}}),
				nvme("0000:da:00.0", "1bd4", sysfs.Disk{Name: "nvme2n1", Major: 259, Minor: 3}),
				nvme("0000:db:00.0", "144d", sysfs.Disk{Name: "nvme3n1", Major: 259, Minor: 4}),
				nvme("0000:dc:00.0", "1bd4", sysfs.Disk{Name: "nvme4n1", Major: 259, Minor: 5, Udev: map[string]string{"ID_FS_TYPE": "zfs_member"}}),
				nvme("0000:ec:00.0", "1bd4", sysfs.Disk{Name: "nvme5n1", Major: 259, Minor: 6}),
			},
			offered: []string{"0000:da:00.0 CUSTOM_SSD"},
			leftOut: map[string]string{"0000:d8:00.0 inspur_ssd": "has partitions", "0000:d9:00.0 inspur_ssd": "held by dm-0",
				"0000:dc:00.0 inspur_ssd": "disk nvme4n1 has a file system zfs_member", "0000:ec:00.0 inspur_ssd": "no entry of device_spec names the disk"}},
		{name: "a RAID controller and its disks are unclaimed",
			devices: []sysfs.PCIDevice{with(fn("0000:5e:00.0", "1000", "005d", "0104", "megaraid_sas"), func(d *sysfs.PCIDevice) {
				d.Disks = []sysfs.Disk{{Name: "sda", Major: 8, Minor: 0, Holders: []string{"dm-0"}}}
			})}},
		{name: "a boot disk in the whitelist by mistake", config: `{"host": "h", "pci": {"passthrough_whitelist": {"address": "*:*:*.*"}}}`,
			devices: []sysfs.PCIDevice{
				with(fn("0000:00:11.4", "8086", "8d62", "010601", "ahci"), func(d *sysfs.PCIDevice) {
					d.Disks = []sysfs.Disk{{Name: "sda", Major: 8, Minor: 0, Partitions: []sysfs.Partition{{Name: "sda1", Minor: 1}}}}
				}),
				with(fn("0000:00:04.0", "1af4", "1042", "0100", "virtio-pci"), func(d *sysfs.PCIDevice) {
					d.Disks = []sysfs.Disk{{Name: "vda", Major: 254, Minor: 0, Holders: []string{"dm-3"}}}
				}),
				fn("0000:00:1c.0", "8086", "8d10", "0604", "pcieport"), fn("0000:00:00.0", "8086", "2f00", "0600", ""),
			},
			leftOut: map[string]string{"0000:00:11.4 pci": "sda", "0000:00:04.0 pci": "held by dm-3", "0000:00:1c.0 pci": "bridge", "0000:00:00.0 pci": "bridge"}},
		{name: "a NIC's own clock is no time card",
			devices: []sysfs.PCIDevice{
				with(x710("0000:18:00.0", true, "eno1"), func(d *sysfs.PCIDevice) { d.Clocks = []sysfs.Clock{{Name: "ptp0", ClockName: "i40e"}} }),
				with(fn("0000:70:00.0", "1cf2", "1001", "0880", ""), func(d *sysfs.PCIDevice) { d.Clocks = []sysfs.Clock{{Name: "ptp1", ClockName: "zte"}} }),
			},
			offered: []string{"0000:70:00.0 CUSTOM_ACCELERATOR_HPTS"},
			leftOut: map[string]string{"0000:18:00.0 intel_nic": "eno1 is up", "0000:18:00.0 hpts": "belongs to a network card"}},
	}
}

// everyKind is one host with a device for each driver, including FPGAs of three vendors.
func everyKind() []shape {
	const region, afu = "69528db6eb31577a8c3668f9faa081f6", "d8424dc4a4a3c413f89e433683f9040b"
	intel := with(fn("0000:5e:00.0", "8086", "09c4", "1200", "intel-fpga-pci"), func(d *sysfs.PCIDevice) {
		d.FPGA = &sysfs.FPGA{InterfaceID: region, Ports: []sysfs.FPGAPort{{AFUID: afu}}}
	})
	qat := with(fn("0000:3d:00.0", "8086", "37c8", "0b40", "c6xx"), func(d *sysfs.PCIDevice) {
		d.VFs = &sysfs.VFs{Total: 2, Enabled: 2, Product: "37c9", Driver: "vfio-pci"}
	})
	vgpu := with(fn("0000:84:00.0", "10de", "1eb8", "0302", "nvidia"), func(d *sysfs.PCIDevice) {
		d.MdevTypes = []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 16}}
	})
	clock := with(fn("0000:70:00.0", "1cf2", "1001", "0880", ""), func(d *sysfs.PCIDevice) { d.Clocks = []sysfs.Clock{{Name: "ptp0", ClockName: "zte"}} })
	return []shape{{
		name:   "one device for each driver",
		config: `{"host": "h", "nvidia": {"enabled_vgpu_types": [{"name": "nvidia-35", "device_addresses": ["0000:84:00.0"]}]}, "ssd": {"device_spec": [{"vendor_id": "1bd4"}]}, "pci": {"passthrough_whitelist": {"vendor_id": "1002"}}}`,
		devices: []sysfs.PCIDevice{
			intel, qat, vgpu, clock, fn("0000:3b:00.0", "10de", "15f8", "0302", "vfio-pci"),
			fn("0000:d8:00.0", "10ee", "5000", "1200", "xclmgmt"), fn("0000:d8:00.1", "10ee", "5001", "1200", "xocl"),
			fn("0000:3c:00.0", "1bd4", "a115", "1200", ""), fn("0000:db:00.0", "1bd4", "1001", "010802", "nvme"),
			fn("0000:18:00.0", "8086", "158b", "0200", "vfio-pci"), fn("0000:c1:00.0", "19e5", "d100", "1200", "devdrv_device_driver"),
			fn("0000:41:00.0", "1002", "740f", "0380", "amdgpu"),
		},
		offered: []string{
			"0000:3b:00.0 PGPU", "0000:84:00.0 VGPU", "0000:5e:00.0 FPGA", "0000:d8:00.1 FPGA", "0000:3c:00.0 FPGA",
			"0000:3d:00.1 CUSTOM_QAT", "0000:3d:00.2 CUSTOM_QAT", "0000:18:00.0 CUSTOM_NIC", "0000:db:00.0 CUSTOM_SSD",
			"0000:c1:00.0 CUSTOM_AICHIP", "0000:70:00.0 CUSTOM_ACCELERATOR_HPTS", "0000:41:00.0 CUSTOM_PCI",
		},
		leftOut: map[string]string{"0000:3d:00.0 intel_qat": "virtual functions (2)", "0000:d8:00.0 xilinx_fpga": "management function"},
	}}
}

func brokenCaptures() []shape {
	gpu := func(address string) sysfs.PCIDevice { return fn(address, "10de", "1eb8", "0302", "nvidia") }
	pair := []sysfs.PCIDevice{gpu("0000:3b:00.0"), gpu("0000:5e:00.0")}
	breaks := func(name, file string, change func(*sysfs.Memory)) shape {
		return shape{name: name, devices: pair, change: change, offered: []string{"0000:5e:00.0 PGPU"}, problems: []string{"0000:3b:00.0 " + pciDir + "0000:3b:00.0" + file}}
	}
	const at = pciDir + "0000:3b:00.0/"
	set := func(name, text string) func(*sysfs.Memory) {
		return func(m *sysfs.Memory) { m.SetFile(at+name, []byte(text)) }
	}
	link := func(name, target string) func(*sysfs.Memory) {
		return func(m *sysfs.Memory) { m.SetLink(at+name, target) }
	}
	return []shape{
		breaks("an empty file", "/vendor", set("vendor", "")),
		breaks("a garbled file", "/device", set("device", "\x00\xff\xfe")),
		breaks("a number of too many digits", "/class", set("class", "0x0302000\n")),
		breaks("an oversized file", "/vendor", set("vendor", strings.Repeat("0x10de\n", 10000))),
		breaks("a missing file", "/class", drop(at+"class")),
		breaks("a link that leads out", "/vendor", link("vendor", "../../../../../../../../../etc/hostname")),
		breaks("an absolute link", "/vendor", link("vendor", "/etc/hostname")),
		breaks("a link to itself", "/vendor", link("vendor", "vendor")),
		breaks("a directory where a file should be", "/vendor", func(m *sysfs.Memory) { m.Remove(at + "vendor"); m.SetFile(at+"vendor/x", nil) }),
		breaks("a negative number of VFs", "/sriov_numvfs", set("sriov_numvfs", "-1\n")),
		breaks("a huge number of VFs", "/sriov_numvfs", set("sriov_numvfs", "99999999999999999999\n")),
		breaks("a boot_vga that is no flag", "/boot_vga", set("boot_vga", "7\n")),
		breaks("a bus entry that leads to another function", "", func(m *sysfs.Memory) { m.SetLink(pciDir+"0000:3b:00.0", "0000:5e:00.0") }),
		{name: "a bus entry that leads nowhere", devices: pair, offered: []string{"0000:5e:00.0 PGPU"},
			change:   func(m *sysfs.Memory) { m.SetLink(pciDir+"0000:3b:00.0", "../../../devices/none") },
			problems: []string{"0000:3b:00.0 " + pciDir + "0000:3b:00.0/vendor"}},
		{name: "names that are no address", devices: pair, offered: []string{"0000:3b:00.0 PGPU", "0000:5e:00.0 PGPU"},
			change: func(m *sysfs.Memory) {
				for _, name := range []string{"3b:00.0", "0000:3B:00.0", "0000:3b:20.0", "a", "0000:3b:00.0 "} {
					m.SetLink(pciDir+name, "0000:3b:00.0")
				}
			},
			problems: []string{
				"0000:3B:00.0 " + pciDir + "0000:3B:00.0", "0000:3b:00.0  " + pciDir + "0000:3b:00.0 ", "0000:3b:20.0 " + pciDir + "0000:3b:20.0",
				"3b:00.0 " + pciDir + "3b:00.0", "a " + pciDir + "a",
			}},
		{name: "no bus at all", change: drop("bus"), problems: []string{" "}},
		{name: "a tree of two directories", change: drop("class", "kernel", "bus/mdev", "bus/pci/drivers"), devices: pair,
			offered: []string{"0000:3b:00.0 PGPU", "0000:5e:00.0 PGPU"}},
	}
}
