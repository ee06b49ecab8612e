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

func discover(t *testing.T, c ssd.Config, devices ...sysfs.PCIDevice) driver.Report {
	t.Helper()
	tree := drivertest.Tree(t, devices...)
	c.Host = "compute1"
	d, err := ssd.New(c, tree)
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
	if diff := cmp.Diff(want, discover(t, ssd.Config{}, disk())); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	mounts := func(list ...string) ssd.Config {
		return ssd.Config{Policy: driver.Policy{Mounts: append([]string{}, list...)}}
	}
	for _, tt := range []struct {
		name    string
		config  ssd.Config
		device  sysfs.PCIDevice
		offered []string
		leftOut map[string]string // address to a part of the reason
	}{
		{name: "a disk for guests", device: disk(func(d *sysfs.PCIDevice) { d.Driver, d.Disks = "vfio-pci", nil }), offered: []string{at}},
		{name: "a disk without a driver", device: disk(func(d *sysfs.PCIDevice) { d.Driver, d.Disks = "", nil }), offered: []string{at}},
		{name: "not a disk with another driver", device: disk(func(d *sysfs.PCIDevice) { d.Driver = "uio_pci_generic" }), leftOut: map[string]string{at: "bound to driver uio_pci_generic"}},
		{name: "not a disk with partitions, mounts unknown", device: disk(partitioned()), leftOut: map[string]string{at: "nvme0n1 has partitions"}},
		{name: "a disk with partitions, none mounted", config: mounts(), device: disk(partitioned()), offered: []string{at}},
		{name: "a disk while another is mounted", config: mounts("259:7", "sda1"), device: disk(partitioned()), offered: []string{at}},
		{name: "not a disk with a mounted partition", config: mounts("259:2"), device: disk(partitioned()), leftOut: map[string]string{at: "nvme0n1p2 is mounted"}},
		{name: "not a disk with a mounted partition, by name", config: mounts("nvme0n1p1"), device: disk(partitioned()), leftOut: map[string]string{at: "nvme0n1p1 is mounted"}},
		{name: "not a mounted disk", config: mounts("259:0"), device: disk(), leftOut: map[string]string{at: "nvme0n1 is mounted"}},
		{name: "not a disk with a volume on a partition", config: mounts(), device: disk(partitioned("dm-0")), leftOut: map[string]string{at: "nvme0n1p2 is held by dm-0"}},
		{name: "not a disk in an array", config: mounts(), device: disk(func(d *sysfs.PCIDevice) { d.Disks[0].Holders = []string{"md127"} }),
			leftOut: map[string]string{at: "nvme0n1 is held by md127"}},
		{name: "not Inspur's FPGA", device: disk(func(d *sysfs.PCIDevice) { d.Class, d.Disks = "1200", nil })},
		{name: "not another vendor's", device: disk(func(d *sysfs.PCIDevice) { d.Vendor = "144d" })},
		{name: "another vendor's, configured", config: ssd.Config{Vendors: []string{"0x144D"}}, device: disk(func(d *sysfs.PCIDevice) { d.Vendor = "144d" }), offered: []string{at}},
		{name: "not Inspur's where another is configured", config: ssd.Config{Vendors: []string{"144d"}}, device: disk()},
		{name: "nothing where nothing is configured", config: ssd.Config{Vendors: []string{}}, device: disk()},
		{name: "the virtual functions of a divided disk",
			device:  disk(func(d *sysfs.PCIDevice) { d.VFs, d.Disks = &sysfs.VFs{Total: 4, Enabled: 2, Driver: "vfio-pci"}, nil }),
			offered: []string{"0000:db:00.1", "0000:db:00.2"}, leftOut: map[string]string{at: "virtual functions (2)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := discover(t, tt.config, tt.device)
			var offered []string
			for _, d := range report.Devices {
				for _, p := range d.Deployables {
					offered = append(offered, strings.TrimPrefix(p.Name, "compute1_"))
				}
			}
			if diff := cmp.Diff(tt.offered, offered); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			for _, l := range report.LeftOut {
				if want, ok := tt.leftOut[l.Address]; !ok || !strings.Contains(l.Reason, want) || l.Driver != "inspur_ssd" {
					t.Errorf("left out %+v, want %q", l, want)
				}
			}
			if len(report.LeftOut) != len(tt.leftOut) || len(report.Problems) > 0 {
				t.Errorf("left out %v, want %v; problems %v", report.LeftOut, tt.leftOut, report.Problems)
			}
		})
	}
}

func TestNamesByVendorAndShape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		vendor string
		shape  driver.TraitShape
		class  string
		traits []string
	}{
		{"1bd4", driver.ShapeRockyScheduling, "CUSTOM_ACCELERATOR_SSD", []string{"OWNER_CYBORG", "CUSTOM_SSD_INSPUR", "CUSTOM_SSD_INSPUR_1001"}},
		{"1bd4", driver.ShapeRockyAgent, "CUSTOM_ACCELERATOR_SSD", []string{"OWNER_CYBORG", "CUSTOM_SSD_INSPUR_1001"}},
		{"1bd4", driver.ShapeWallaby, "CUSTOM_SSD", []string{"OWNER_CYBORG", "CUSTOM_INSPUR_1001", "CUSTOM_SSD_INSPUR", "CUSTOM_SSD_PRODUCT_ID_1001"}},
		{"144d", "", "CUSTOM_SSD", []string{"CUSTOM_SSD_SAMSUNG", "CUSTOM_SSD_PRODUCT_ID_1001"}},
		{"1cf2", "", "CUSTOM_SSD", []string{"CUSTOM_SSD_ZTE", "CUSTOM_SSD_PRODUCT_ID_1001"}},
		{"1e3b", "", "CUSTOM_SSD", []string{"CUSTOM_SSD_1E3B", "CUSTOM_SSD_PRODUCT_ID_1001"}},
	} {
		config := ssd.Config{Vendors: []string{tt.vendor}, Policy: driver.Policy{TraitShape: tt.shape}}
		report := discover(t, config, disk(func(d *sysfs.PCIDevice) { d.Vendor = tt.vendor }))
		p := report.Devices[0].Deployables[0]
		if diff := cmp.Diff(tt.traits, p.Traits); diff != "" || p.Class != tt.class {
			t.Errorf("%s %q: class %s, traits (-want +got):\n%s", tt.vendor, tt.shape, p.Class, diff)
		}
	}
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
