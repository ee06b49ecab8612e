package builtin_test

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	regionA = "a1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	regionB = "b2bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	regionC = "c3cccccccccccccccccccccccccccccc"
	afuA    = "d8424dc4a4a3c413f89e433683f9040b"
	afuB    = "f7df405cbd7acf7222f144b0b93acd18"
)

func group(n int) *int { return &n }

// everything is a machine with a device of every type, FPGAs of three vendors among them.
const vgpuName = "NVIDIA RTX Pro 6000 Blackwell DC-48Q"

func everything() sysfs.Description {
	return sysfs.Description{
		Devices: []sysfs.PCIDevice{
			{Address: "0000:10:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "nvidia", IOMMUGroup: group(1)},
			{Address: "0000:11:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia", IOMMUGroup: group(2),
				MdevTypes: []sysfs.MdevType{{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 16}, {Type: "nvidia-223", Name: "GRID T4-2B", AvailableInstances: 8}}},
			{Address: "0000:12:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci", IOMMUGroup: group(3),
				VFs:  &sysfs.VFs{Total: 1, Product: "09c5"},
				FPGA: &sysfs.FPGA{Dev: 0, InterfaceID: regionA, Ports: []sysfs.FPGAPort{{Number: 0, AFUID: afuA}}}},
			{Address: "0000:13:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci", IOMMUGroup: group(4),
				VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "09c5"},
				FPGA: &sysfs.FPGA{Dev: 1,
					Regions: []sysfs.FPGARegion{{Number: 1, InterfaceID: regionA}, {Number: 2, InterfaceID: regionB}},
					Ports:   []sysfs.FPGAPort{{Number: 1, AFUID: afuA, VF: 1}, {Number: 2, AFUID: afuB, VF: 2}}}},
			{Address: "0000:20:00.0", Vendor: "8086", Product: "0b30", Class: "1200", Driver: "dfl-pci", IOMMUGroup: group(21),
				FPGA: &sysfs.FPGA{Dev: 5, DFL: true, InterfaceID: regionC, Ports: []sysfs.FPGAPort{{Number: 7, AFUID: afuB}}}},
			{Address: "0000:14:00.0", Vendor: "10ee", Product: "5000", Class: "1200", Driver: "xclmgmt", IOMMUGroup: group(5)},
			{Address: "0000:14:00.1", Vendor: "10ee", Product: "5001", Class: "1200", Driver: "xocl", IOMMUGroup: group(15)},
			{Address: "0000:15:00.0", Vendor: "1bd4", Product: "a115", Class: "1200", IOMMUGroup: group(6)},
			{Address: "0000:16:00.0", Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx", IOMMUGroup: group(7),
				VFs: &sysfs.VFs{Total: 4, Enabled: 2, Product: "37c9"}},
			{Address: "0000:17:00.0", Vendor: "8086", Product: "1572", Class: "0200", Driver: "i40e", IOMMUGroup: group(8),
				Interfaces: []sysfs.Interface{{Name: "eth3"}}, VFs: &sysfs.VFs{Total: 4, Enabled: 2, Product: "154c", Driver: "iavf"}},
			{Address: "0000:18:00.0", Vendor: "1bd4", Product: "1001", Class: "0108", Driver: "nvme", IOMMUGroup: group(9),
				Disks: []sysfs.Disk{{Name: "nvme0n1", Major: 259, Minor: 0}}},
			{Address: "0000:19:00.0", Vendor: "1bd4", Product: "1001", Class: "0108", Driver: "nvme", IOMMUGroup: group(10),
				Disks: []sysfs.Disk{{Name: "nvme1n1", Major: 259, Minor: 1, Partitions: []sysfs.Partition{{Name: "nvme1n1p1", Minor: 2}}}}},
			{Address: "0000:1a:00.0", Vendor: "19e5", Product: "d100", Class: "1200", IOMMUGroup: group(11)},
			{Address: "0000:1b:00.0", Vendor: "1cf2", Product: "0001", Class: "0880", IOMMUGroup: group(12),
				Clocks: []sysfs.Clock{{Name: "ptp0", ClockName: "zte hpts"}}},
			{Address: "0000:1c:00.0", Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb", IOMMUGroup: group(13),
				Interfaces: []sysfs.Interface{{Name: "eth0", Up: true}}, VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "1520", Driver: "igbvf"}},
			{Address: "0000:1f:00.0", Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia", IOMMUGroup: group(20),
				VFs: &sysfs.VFs{Total: 4, Enabled: 4, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{Types: []sysfs.VGPUType{
					{ID: 1555, Name: vgpuName, FramebufferMiB: 49152, MaxInstances: 2}}}}},
			{Address: "0000:1d:00.0", Vendor: "102b", Product: "0534", Class: "0300", Driver: "mgag200", BootVGA: true},
		},
		MdevParents: []sysfs.MdevParent{{Name: "mtty", Types: []sysfs.MdevType{{Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 12}}}},
	}
}

// allOn is a configuration with every driver, for the machine of everything.
func allOn() builtin.Config {
	return builtin.Config{
		EnabledDrivers: builtin.Names(), Host: "cn0",
		Policy: driver.Policy{Mounts: []string{"nvme1n1p1"}},
		NVIDIA: &nvidia.Config{EnabledVGPUTypes: []nvidia.VGPUType{
			{Name: "nvidia-222", DeviceAddresses: []string{"0000:11:00.0"}},
			{Name: "nvidia-1555", DeviceAddresses: []string{"0000:1f:00.0"}, MaxInstances: 2, VGPUName: vgpuName},
		}},
		NIC: &nic.Config{}, FPGA: &fpga.Config{}, QAT: &qat.Config{}, HPTS: &hpts.Config{},
		SSD:  &ssd.Config{DeviceSpec: []ssd.Spec{{VendorID: "1bd4"}}},
		PCI:  &pci.Config{PassthroughWhitelist: pci.Whitelist{{VendorID: "8086", ProductID: "1520"}, {VendorID: "102b"}}},
		Mdev: &mdev.Config{EnabledMdevTypes: []mdev.Type{{Name: "mtty-2", Parents: []string{"mtty"}, Class: "CUSTOM_MTTY"}}},
	}
}

func generate(tb testing.TB, d sysfs.Description) *sysfs.Memory {
	tb.Helper()
	m, err := sysfs.Generate(d)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func load(tb testing.TB, c builtin.Config, tree driver.Tree) []driver.Driver {
	tb.Helper()
	drivers, err := builtin.New(c, tree)
	if err != nil {
		tb.Fatal(err)
	}
	return drivers
}

// crowded adds functions that no driver wants, until there are so many.
func crowded(d sysfs.Description, functions int) sysfs.Description {
	total := 0
	for _, device := range d.Devices {
		total++
		if device.VFs != nil {
			total += device.VFs.Enabled
		}
	}
	for i := range functions - total {
		d.Devices = append(d.Devices, sysfs.PCIDevice{
			Address: fmt.Sprintf("%04x:%02x:%02x.%d", i>>11+1, i>>8&7, i>>3&0x1f, i&7),
			Vendor:  "8086", Product: "2f04", Class: "0880",
		})
	}
	return d
}
