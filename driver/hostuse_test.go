package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func nvmeDisk(change func(*sysfs.Disk)) sysfs.PCIDevice {
	d := sysfs.Disk{Name: "nvme0n1", Major: 259, Minor: 0}
	change(&d)
	return sysfs.PCIDevice{Address: "0000:01:00.0", Vendor: "144d", Product: "a80a", Class: "010802", Driver: "nvme", Disks: []sysfs.Disk{d}}
}

func TestADiskInTheHostsUseIsNeverOffered(t *testing.T) {
	t.Parallel()
	parted := func(holders ...string) func(*sysfs.Disk) {
		return func(d *sysfs.Disk) {
			d.Partitions = []sysfs.Partition{{Name: "nvme0n1p1", Minor: 1}, {Name: "nvme0n1p2", Minor: 2, Holders: holders}}
		}
	}
	known := func(mounts ...string) driver.Policy { return driver.Policy{Mounts: append([]string{}, mounts...)} }
	for _, tt := range []struct {
		name   string
		device sysfs.PCIDevice
		policy driver.Policy
		want   string // of the reason; "" for offered
	}{
		{"an empty disk, mounts unknown", nvmeDisk(func(*sysfs.Disk) {}), driver.Policy{}, ""},
		{"a disk with partitions, mounts unknown", nvmeDisk(parted()), driver.Policy{}, "disk nvme0n1 has partitions, including nvme0n1p1"},
		{"a disk with partitions, none mounted", nvmeDisk(parted()), known(), "disk nvme0n1 has partitions, including nvme0n1p1"},
		{"other disks mounted", nvmeDisk(func(*sysfs.Disk) {}), known("8:0", "sda1", "259:9"), ""},
		{"a signature of Ceph", nvmeDisk(func(d *sysfs.Disk) { d.Udev = map[string]string{"ID_FS_TYPE": "ceph_bluestore"} }), known(), "disk nvme0n1 has a file system ceph_bluestore"},
		{"a partition mounted, by number", nvmeDisk(parted()), known("259:2"), "block device nvme0n1p2 is mounted"},
		{"a partition mounted, by name", nvmeDisk(parted()), known("nvme0n1p1"), "block device nvme0n1p1 is mounted"},
		{"the whole disk mounted", nvmeDisk(func(*sysfs.Disk) {}), known("259:0"), "block device nvme0n1 is mounted"},
		{"a partition held by a volume", nvmeDisk(parted("dm-0")), known(), "block device nvme0n1p2 is held by dm-0"},
		{"the whole disk held by an array", nvmeDisk(func(d *sysfs.Disk) { d.Holders = []string{"md0"} }), known(), "block device nvme0n1 is held by md0"},
		{"a disk behind another controller", func() sysfs.PCIDevice {
			d := nvmeDisk(parted())
			d.Class, d.Driver, d.Disks[0].Name = "0100", "virtio-pci", "vda"
			return d
		}(), known("259:0"), "block device vda is mounted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report, err := passthrough(t, drivertest.Tree(t, tt.device), tt.policy, pci.Spec{}).Discover(t.Context())
			if err != nil || len(report.Problems) > 0 {
				t.Fatalf("%v, %v", report.Problems, err)
			}
			reason := ""
			for _, l := range report.LeftOut {
				reason += l.Reason
			}
			if (tt.want == "") != (len(report.Devices) == 1) || !strings.Contains(reason, tt.want) {
				t.Errorf("%d devices, left out: %q, want %q", len(report.Devices), reason, tt.want)
			}
		})
	}
}

// TestTheKernelShowsSomeFileSystems has no list of mounts.
func TestTheKernelShowsSomeFileSystems(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"fs/ext4/nvme0n1/features": "nvme0n1 is mounted, with file system ext4", "fs/xfs/nvme0n1p1/log/x": "nvme0n1p1 is mounted, with file system xfs",
		"fs/btrfs/0d4bcd1a-6a0e-4f1f-9d6e-0fd1a9a0b5c4/devices/nvme0n1/dev": "nvme0n1 is mounted, with file system btrfs", "fs/ext4/sda1/x": "disk nvme0n1 has partitions",
	} {
		m := drivertest.Tree(t, nvmeDisk(func(d *sysfs.Disk) { d.Partitions = []sysfs.Partition{{Name: "nvme0n1p1", Minor: 1}} }))
		m.SetFile(file, nil)
		report, err := passthrough(t, m, driver.Policy{Mounts: []string{}}, pci.Spec{}).Discover(t.Context())
		if err != nil || len(report.LeftOut) != 1 || !strings.Contains(report.LeftOut[0].Reason, want) {
			t.Errorf("%s: %+v, %v", file, report, err)
		}
	}
}

// TestADiskOfTwoPaths is a multipath disk: its controller's directory has a path, and the
// disk itself stands elsewhere.
func TestADiskOfTwoPaths(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, sysfs.PCIDevice{Address: "0000:01:00.0", Vendor: "144d", Product: "a80a", Class: "010802", Driver: "nvme"})
	dir := "bus/pci/devices/0000:01:00.0"
	m.SetFile(dir+"/nvme/nvme0/nvme0c0n1/uevent", nil)
	m.SetFile("devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/dev", []byte("259:7\n"))
	m.SetFile("devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/holders/dm-3/uevent", nil)
	m.SetFile("class/block/x", nil)
	m.SetLink("class/block/nvme0n1", "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1")
	report, err := passthrough(t, m, driver.Policy{}, pci.Spec{}).Discover(t.Context())
	if err != nil || len(report.LeftOut) != 1 || !strings.Contains(report.LeftOut[0].Reason, "nvme0n1 is held by dm-3") {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestAGarbledDiskIsAProblem(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, nvmeDisk(func(*sysfs.Disk) {}))
	m.SetFile("bus/pci/devices/0000:01:00.0/nvme/nvme0/nvme0n1/dev", []byte("259\n"))
	report, err := passthrough(t, m, driver.Policy{}, pci.Spec{}).Discover(t.Context())
	if err != nil || len(report.Devices) != 0 || len(report.Problems) != 1 || !strings.HasSuffix(report.Problems[0].File, "nvme0n1/dev") {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestAVirtualFunctionOfAContainer has its interface in another network namespace: the directory net is seen from
// everywhere, what is in it is not.
func TestAVirtualFunctionOfAContainer(t *testing.T) {
	t.Parallel()
	const vf = "0000:05:00.1"
	m := drivertest.Tree(t, sysfs.PCIDevice{Address: "0000:05:00.0", Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb",
		VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "1520", Driver: "igbvf"}})
	m.SetFile("bus/pci/devices/"+vf+"/net/eth1/flags", nil)
	m.Remove("bus/pci/devices/" + vf + "/net/eth1")
	for _, allowed := range [][]string{nil, {"igbvf"}} {
		report, err := passthrough(t, m, driver.Policy{AllowedDrivers: allowed}, pci.Spec{ProductID: "1520"}).Discover(t.Context())
		offered := 2 - len(report.LeftOut)
		if err != nil || offered != 1+len(allowed) || len(report.Devices) != offered {
			t.Errorf("drivers %q allowed: %+v, %v", allowed, report, err)
		}
		if allowed == nil && !strings.Contains(fmt.Sprint(report.LeftOut), vf+" pci its network interface is in another network namespace") {
			t.Errorf("left out: %v", report.LeftOut)
		}
	}
}
