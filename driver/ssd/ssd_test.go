package ssd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/ssd"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const at = "0000:db:00.0"

// disk is upstream's example of a disk.
func disk(change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: at, Vendor: "1bd4", Product: "1001", Class: "010802", Driver: "nvme",
		Disks: []sysfs.Disk{{Name: "nvme0n1", Major: 259, Minor: 0}}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func partitioned(holders ...string) func(*sysfs.PCIDevice) {
	return func(d *sysfs.PCIDevice) {
		d.Disks[0].Partitions = []sysfs.Partition{{Name: "nvme0n1p1", Minor: 1}, {Name: "nvme0n1p2", Minor: 2, Holders: holders}}
	}
}

// found is something that udev found on the disk.
func found(key, value string) func(*sysfs.PCIDevice) {
	return func(d *sysfs.PCIDevice) { d.Disks[0].Udev = map[string]string{key: value} }
}

// with returns what makes the driver of a configuration, by default for all disks of Inspur.
func with(c ssd.Config) func(driver.Tree) (driver.Driver, error) {
	if c.Host == "" {
		c.Host = "compute1"
	}
	if c.DeviceSpec == nil {
		c.DeviceSpec = []ssd.Spec{{VendorID: "1bd4"}}
	}
	return func(tree driver.Tree) (driver.Driver, error) { return ssd.New(c, tree) }
}

func discover(t testing.TB, c ssd.Config, tree driver.Tree) driver.Report {
	t.Helper()
	d, err := with(c)(tree)
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Discover(t, d)
}

func TestADisk(t *testing.T) {
	t.Parallel()
	address := driver.Info{"domain": "0000", "bus": "db", "device": "00", "function": "0"}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "1bd4", Model: "Inspur Electronic Information Industry Co., Ltd. Device", Type: "SSD",
		StdBoardInfo:    `{"product_id": "1001", "controller": "Non-Volatile memory controller"}`,
		VendorBoardInfo: `{"vendor_info": "ssd_vb_info"}`,
		ControlPath:     driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "compute1_0000:db:00.0", NumAccelerators: 1, DriverName: "inspur_ssd",
			Class: "CUSTOM_SSD", Traits: []string{"CUSTOM_SSD_INSPUR", "CUSTOM_SSD_PRODUCT_ID_1001"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: address}},
		}},
	}}}
	if diff := cmp.Diff(want, discover(t, ssd.Config{}, drivertest.Tree(t, disk()))); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	const inspur = "CUSTOM_SSD CUSTOM_SSD_INSPUR CUSTOM_SSD_PRODUCT_ID_1001"
	shaped := func(shape driver.TraitShape) ssd.Config { return ssd.Config{Policy: driver.Policy{TraitShape: shape}} }
	mounts := func(list ...string) ssd.Config {
		return ssd.Config{Policy: driver.Policy{Mounts: append([]string{}, list...)}}
	}
	drivertest.Table(t, []drivertest.Row{
		{Name: "a disk for guests", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Driver, d.Disks = "vfio-pci", nil })}, Offered: map[string]string{at: inspur}},
		{Name: "a disk without a driver", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Driver, d.Disks = "", nil })}, Offered: map[string]string{at: inspur}},
		{Name: "not a disk with another driver", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Driver = "uio_pci_generic" })}, LeftOut: map[string]string{at: "bound to driver uio_pci_generic"}},
		{Name: "not a disk with partitions", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "nvme0n1 has partitions"}},
		{Name: "not a disk with partitions, none mounted", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "disk nvme0n1 has partitions, including nvme0n1p1"}},
		{Name: "not a disk with a file system, or a signature of a volume", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(found("ID_FS_TYPE", "LVM2_member"))}, LeftOut: map[string]string{at: "disk nvme0n1 has a file system LVM2_member"}},
		{Name: "not a disk with a partition table without partitions", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(found("ID_PART_TABLE_TYPE", "gpt"))}, LeftOut: map[string]string{at: "disk nvme0n1 has a partition table gpt"}},
		{Name: "an empty disk with other properties", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(found("ID_SERIAL", "S4"))}, Offered: map[string]string{at: inspur}},
		{Name: "not a disk that is not named", New: with(ssd.Config{DeviceSpec: []ssd.Spec{}}), Devices: []sysfs.PCIDevice{disk()}, LeftOut: map[string]string{at: "no entry of device_spec names the disk"}},
		{Name: "not a disk at another address", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{Address: "0000:3b:*.*"}}}), Devices: []sysfs.PCIDevice{disk()}, LeftOut: map[string]string{at: "no entry of device_spec names the disk"}},
		{Name: "a disk by its address", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{Address: at}}}), Devices: []sysfs.PCIDevice{disk()}, Offered: map[string]string{at: inspur}},
		{Name: "a disk by its address in capitals", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{Address: strings.ToUpper(at)}}}), Devices: []sysfs.PCIDevice{disk()}, Offered: map[string]string{at: inspur}},
		{Name: "a disk by a pattern and its product", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{Address: "0000:d?:*", VendorID: "*", ProductID: "1001"}}}), Devices: []sysfs.PCIDevice{disk()}, Offered: map[string]string{at: inspur}},
		{Name: "a disk while another is mounted", New: with(mounts("259:7", "sda1")), Devices: []sysfs.PCIDevice{disk()}, Offered: map[string]string{at: inspur}},
		{Name: "not a disk with a mounted partition", New: with(mounts("259:2")), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "nvme0n1p2 is mounted"}},
		{Name: "not a disk with a mounted partition, by name", New: with(mounts("nvme0n1p1")), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "nvme0n1p1 is mounted"}},
		{Name: "not a mounted disk", New: with(mounts("259:0")), Devices: []sysfs.PCIDevice{disk()}, LeftOut: map[string]string{at: "nvme0n1 is mounted"}},
		{Name: "not a disk with a volume on a partition", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(partitioned("dm-0"))}, LeftOut: map[string]string{at: "nvme0n1p2 is held by dm-0"}},
		{Name: "not a disk in an array", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Disks[0].Holders = []string{"md127"} })}, LeftOut: map[string]string{at: "nvme0n1 is held by md127"}},
		{Name: "not Inspur's FPGA", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Class, d.Disks = "1200", nil })}},
		{Name: "not another vendor's", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Vendor = "144d" })}},
		{Name: "another vendor's, configured", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{VendorID: "0x144D"}}}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Vendor = "144d" })}, Offered: map[string]string{at: "CUSTOM_SSD CUSTOM_SSD_SAMSUNG CUSTOM_SSD_PRODUCT_ID_1001"}},
		{Name: "not Inspur's where another is configured", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{VendorID: "144d"}}}), Devices: []sysfs.PCIDevice{disk()}, LeftOut: map[string]string{at: "no entry of device_spec names the disk"}},
		{Name: "the virtual functions of a divided disk", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.VFs, d.Disks = &sysfs.VFs{Total: 4, Enabled: 2, Driver: "vfio-pci"}, nil })}, Offered: map[string]string{"0000:db:00.1": inspur, "0000:db:00.2": inspur}, LeftOut: map[string]string{at: "virtual functions (2)"}},
		{Name: "an unknown vendor", New: with(ssd.Config{DeviceSpec: []ssd.Spec{{VendorID: "1e3b"}}}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Vendor = "1e3b" })},
			Offered: map[string]string{at: "CUSTOM_SSD CUSTOM_SSD_1E3B CUSTOM_SSD_PRODUCT_ID_1001"}},
		{Name: "by the scheduling shape", New: with(shaped(driver.ShapeRockyScheduling)), Devices: []sysfs.PCIDevice{disk()},
			Offered: map[string]string{at: "CUSTOM_ACCELERATOR_SSD OWNER_CYBORG CUSTOM_SSD_INSPUR CUSTOM_SSD_INSPUR_1001"}},
		{Name: "by the agent's shape", New: with(shaped(driver.ShapeRockyAgent)), Devices: []sysfs.PCIDevice{disk()},
			Offered: map[string]string{at: "CUSTOM_ACCELERATOR_SSD OWNER_CYBORG CUSTOM_SSD_INSPUR_1001"}},
		{Name: "by the vGPU shape", New: with(shaped(driver.ShapeWallaby)), Devices: []sysfs.PCIDevice{disk()},
			Offered: map[string]string{at: "CUSTOM_SSD OWNER_CYBORG CUSTOM_INSPUR_1001 CUSTOM_SSD_INSPUR CUSTOM_SSD_PRODUCT_ID_1001"}},
	})
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]ssd.Config{
		"no host name":                         {},
		"trait_shape":                          {Host: "h", Policy: driver.Policy{TraitShape: "baroque"}},
		`device_spec entry 0: vendor_id`:       {Host: "h", DeviceSpec: []ssd.Spec{{VendorID: "inspur"}}},
		`entry 1: product_id`:                  {Host: "h", DeviceSpec: []ssd.Spec{{VendorID: "1bd4"}, {ProductID: "0000"}}},
		`address "[": syntax error in pattern`: {Host: "h", DeviceSpec: []ssd.Spec{{Address: "["}}},
		`names no vendor, product or address`:  {Host: "h", DeviceSpec: []ssd.Spec{{VendorID: "*"}}},
	} {
		_, err := ssd.New(c, sysfs.NewMemory())
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

func TestTheConfigurationIsJSON(t *testing.T) {
	t.Parallel()
	var c ssd.Config
	dec := json.NewDecoder(strings.NewReader(`{"host": "compute1", "device_spec": [{"vendor_id": "144d"}], "trait_shape": "wallaby", "mounts": ["259:0"]}`))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	want := ssd.Config{Host: "compute1", DeviceSpec: []ssd.Spec{{VendorID: "144d"}}, Policy: driver.Policy{TraitShape: driver.ShapeWallaby, Mounts: []string{"259:0"}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{disk(), disk(func(d *sysfs.PCIDevice) {
		d.Address, d.Disks = "0000:dc:00.0", []sysfs.Disk{{Name: "nvme1n1", Major: 259, Minor: 1}}
	})}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := ssd.New(ssd.Config{
		Host: "compute1", DeviceSpec: []ssd.Spec{{VendorID: "1bd4"}}, Policy: driver.Policy{Mounts: []string{"nvme1n1"}},
	}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Devices[0].Deployables[0].Name, report.Devices[0].Deployables[0].Traits)
	fmt.Println(report.LeftOut[0].Address, report.LeftOut[0].Reason)
	// Output:
	// compute1_0000:db:00.0 [CUSTOM_SSD_INSPUR CUSTOM_SSD_PRODUCT_ID_1001]
	// 0000:dc:00.0 in use by the host: block device nvme1n1 is mounted
}

func TestADiskWithoutAUdevRecord(t *testing.T) {
	t.Parallel()
	const record = "run/udev/data/b259:0"
	m := drivertest.Tree(t, disk())
	m.Remove(record)
	report := discover(t, ssd.Config{}, m)
	if len(report.LeftOut) != 1 || report.LeftOut[0].Reason != "udev has no record of disk nvme0n1, so its content is unknown" {
		t.Errorf("%+v", report)
	}
	m = drivertest.Tree(t, disk())
	if err := m.Deny(record); err != nil {
		t.Fatal(err)
	}
	report = discover(t, ssd.Config{}, m)
	if len(report.Problems) != 1 || report.Problems[0].File != record || len(report.Devices)+len(report.LeftOut) > 0 {
		t.Errorf("a record that cannot be read: %+v", report)
	}
}

func TestParseDeviceSpec(t *testing.T) {
	t.Parallel()
	got, err := ssd.ParseDeviceSpec(`[{"vendor_id": "144d", "clear_action": "auto"}, {"address": "0000:3b:*.*"}]`)
	if diff := cmp.Diff([]ssd.Spec{{VendorID: "144d"}, {Address: "0000:3b:*.*"}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err = ssd.ParseDeviceSpec(` {"product_id": "a80a"} `); err != nil || len(got) != 1 || got[0].ProductID != "a80a" {
		t.Errorf("one object: %v, %v", got, err)
	}
	for _, text := range []string{"", "x", `{"vendor": "144d"}`, `{"address": {"bus": "3b"}}`} {
		if _, err := ssd.ParseDeviceSpec(text); !errors.Is(err, driver.ErrConfig) && text != "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The ports of a disk with two are controllers of one namespace, in which the kernel shows the disk of
// both: two guests would have it.
func TestADiskThatTwoControllersReachIsNotOffered(t *testing.T) {
	t.Parallel()
	const other, head = "0000:dc:00.0", "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
	controller := func(at string) sysfs.PCIDevice {
		return disk(func(d *sysfs.PCIDevice) { d.Address, d.Disks = at, nil })
	}
	m := drivertest.Tree(t, controller(at), controller(other))
	m.SetFile("bus/pci/devices/"+at+"/nvme/nvme0/nvme0c0n1/uevent", nil)
	m.SetFile("bus/pci/devices/"+other+"/nvme/nvme1/nvme0c1n1/uevent", nil)
	m.SetFile(head+"/dev", []byte("259:7\n"))
	m.SetFile(head+"/holders/x", nil)
	m.Remove(head + "/holders/x")
	m.SetLink("class/block/nvme0n1", "../../"+head)
	m.SetFile("run/udev/data/b259:7", []byte("I:100\n"))
	report := discover(t, ssd.Config{}, m)
	var got []string
	for _, l := range report.LeftOut {
		got = append(got, l.Address+" "+l.Reason)
	}
	want := []string{at + " disk nvme0n1 is reached through " + other + ", too", other + " disk nvme0n1 is reached through " + at + ", too"}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Devices)+len(report.Problems) > 0 {
		t.Errorf("left out (-want +got):\n%s\n%+v", diff, report)
	}
}
