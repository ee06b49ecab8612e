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

// with returns what makes the driver of a configuration.
func with(c ssd.Config) func(driver.Tree) (driver.Driver, error) {
	if c.Host == "" {
		c.Host = "compute1"
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
		{Name: "not a disk with partitions, mounts unknown", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "nvme0n1 has partitions"}},
		{Name: "a disk with partitions, none mounted", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(partitioned())}, Offered: map[string]string{at: inspur}},
		{Name: "a disk while another is mounted", New: with(mounts("259:7", "sda1")), Devices: []sysfs.PCIDevice{disk(partitioned())}, Offered: map[string]string{at: inspur}},
		{Name: "not a disk with a mounted partition", New: with(mounts("259:2")), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "nvme0n1p2 is mounted"}},
		{Name: "not a disk with a mounted partition, by name", New: with(mounts("nvme0n1p1")), Devices: []sysfs.PCIDevice{disk(partitioned())}, LeftOut: map[string]string{at: "nvme0n1p1 is mounted"}},
		{Name: "not a mounted disk", New: with(mounts("259:0")), Devices: []sysfs.PCIDevice{disk()}, LeftOut: map[string]string{at: "nvme0n1 is mounted"}},
		{Name: "not a disk with a volume on a partition", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(partitioned("dm-0"))}, LeftOut: map[string]string{at: "nvme0n1p2 is held by dm-0"}},
		{Name: "not a disk in an array", New: with(mounts()), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Disks[0].Holders = []string{"md127"} })}, LeftOut: map[string]string{at: "nvme0n1 is held by md127"}},
		{Name: "not Inspur's FPGA", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Class, d.Disks = "1200", nil })}},
		{Name: "not another vendor's", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Vendor = "144d" })}},
		{Name: "another vendor's, configured", New: with(ssd.Config{Vendors: []string{"0x144D"}}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Vendor = "144d" })}, Offered: map[string]string{at: "CUSTOM_SSD CUSTOM_SSD_SAMSUNG CUSTOM_SSD_PRODUCT_ID_1001"}},
		{Name: "not Inspur's where another is configured", New: with(ssd.Config{Vendors: []string{"144d"}}), Devices: []sysfs.PCIDevice{disk()}},
		{Name: "nothing where nothing is configured", New: with(ssd.Config{Vendors: []string{}}), Devices: []sysfs.PCIDevice{disk()}},
		{Name: "the virtual functions of a divided disk", New: with(ssd.Config{}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.VFs, d.Disks = &sysfs.VFs{Total: 4, Enabled: 2, Driver: "vfio-pci"}, nil })}, Offered: map[string]string{"0000:db:00.1": inspur, "0000:db:00.2": inspur}, LeftOut: map[string]string{at: "virtual functions (2)"}},
		{Name: "an unknown vendor", New: with(ssd.Config{Vendors: []string{"1e3b"}}), Devices: []sysfs.PCIDevice{disk(func(d *sysfs.PCIDevice) { d.Vendor = "1e3b" })},
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
		"no host name":                    {},
		"trait_shape":                     {Host: "h", Policy: driver.Policy{TraitShape: "baroque"}},
		`"inspur"`:                        {Host: "h", Vendors: []string{"inspur"}},
		`"1bd"`:                           {Host: "h", Vendors: []string{"1bd"}},
		`"0000"`:                          {Host: "h", Vendors: []string{"0000"}},
		`vendors: "0x1bd4" appears twice`: {Host: "h", Vendors: []string{"1bd4", "0x1bd4"}},
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
	dec := json.NewDecoder(strings.NewReader(`{"host": "compute1", "vendors": ["144d"], "trait_shape": "wallaby", "mounts": ["259:0"]}`))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	want := ssd.Config{Host: "compute1", Vendors: []string{"144d"}, Policy: driver.Policy{TraitShape: driver.ShapeWallaby, Mounts: []string{"259:0"}}}
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
	d, err := ssd.New(ssd.Config{Host: "compute1", Policy: driver.Policy{Mounts: []string{"nvme1n1"}}}, tree)
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
	// 0000:dc:00.0 in the host's use: block device nvme1n1 is mounted
}
