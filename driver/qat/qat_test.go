package qat_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const c62x = "0000:3d:00.0"

// accelerator is a C62x bound to the kernel's driver.
func accelerator(change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: c62x, Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx"}
	for _, c := range change {
		c(&d)
	}
	return d
}

func vfs(n int) func(*sysfs.PCIDevice) {
	return func(d *sysfs.PCIDevice) {
		d.VFs = &sysfs.VFs{Total: 16, Enabled: n, Offset: 8, Product: "37c9", Driver: "c6xxvf"}
	}
}

// with returns what makes the driver of a configuration.
func with(c qat.Config) func(driver.Tree) (driver.Driver, error) {
	if c.Host == "" {
		c.Host = "compute1"
	}
	return func(tree driver.Tree) (driver.Driver, error) { return qat.New(c, tree) }
}

func discover(t testing.TB, c qat.Config, tree driver.Tree) driver.Report {
	t.Helper()
	d, err := with(c)(tree)
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Discover(t, d)
}

func address(bus, device, function string) driver.Info {
	return driver.Info{"domain": "0000", "bus": bus, "device": device, "function": function}
}

func TestAWholeAccelerator(t *testing.T) {
	t.Parallel()
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "0x8086", Model: "miss_model_info", Type: "QAT",
		StdBoardInfo: `{"product_id": "0x37c8"}`, VendorBoardInfo: "miss_vb_info",
		ControlPath: driver.ControlPath{Type: "PCI", Info: address("3d", "00", "0")},
		Deployables: []driver.Deployable{{
			Name: "compute1_0000:3d:00.0", NumAccelerators: 1, DriverName: "intel_qat",
			Class:         "CUSTOM_QAT",
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: address("3d", "00", "0")}},
		}},
	}}}
	if diff := cmp.Diff(want, discover(t, qat.Config{}, drivertest.Tree(t, accelerator()))); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestVirtualFunctionsAreDeployablesOfTheirAccelerator(t *testing.T) {
	t.Parallel()
	report := discover(t, qat.Config{}, drivertest.Tree(t, accelerator(vfs(2))))
	var want []driver.Deployable
	for _, device := range []string{"0", "1"} {
		want = append(want, driver.Deployable{
			Name: "compute1_0000:3d:01." + device, NumAccelerators: 1, DriverName: "intel_qat",
			Class:         "CUSTOM_QAT",
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: address("3d", "01", device)}},
		})
	}
	if len(report.Devices) != 1 {
		t.Fatalf("report: %+v", report)
	}
	if diff := cmp.Diff(address("3d", "00", "0"), report.Devices[0].ControlPath.Info); diff != "" {
		t.Errorf("control path (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, report.Devices[0].Deployables); diff != "" {
		t.Errorf("deployables (-want +got):\n%s", diff)
	}
	leftOut := []driver.Notice{{Address: c62x, Driver: "intel_qat", Reason: "physical function with virtual functions (2), which are offered instead"}}
	if diff := cmp.Diff(leftOut, report.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

func TestEveryFamilyIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		physical, virtual, driver, family string
	}{
		{"0435", "0443", "dh895xcc", "DH895XCC"}, {"37c8", "37c9", "c6xx", "C62X"}, {"19e2", "19e3", "c3xxx", "C3XXX"},
		{"4940", "4941", "4xxx", "4XXX"}, {"4942", "4943", "4xxx", "401XX"}, {"4944", "4945", "4xxx", "402XX"},
		{"4946", "4947", "420xx", "420XX"}, {"4948", "4949", "6xxx", "6XXX"},
	} {
		t.Run(tt.family, func(t *testing.T) {
			t.Parallel()
			bound := accelerator(func(d *sysfs.PCIDevice) { d.Product, d.Driver = tt.physical, tt.driver })
			alone := accelerator(func(d *sysfs.PCIDevice) {
				d.Address, d.Product, d.Driver = "0000:05:00.0", tt.virtual, tt.driver+"vf" // a guest's view
			})
			config := qat.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}
			report := discover(t, config, drivertest.Tree(t, alone, bound))
			if len(report.Devices) != 2 || len(report.LeftOut) != 0 {
				t.Fatalf("report: %+v", report)
			}
			want := []string{"OWNER_CYBORG", "CUSTOM_QAT_INTEL", "CUSTOM_QAT_INTEL_" + tt.family}
			for _, d := range report.Devices {
				if diff := cmp.Diff(want, d.Deployables[0].Traits); diff != "" {
					t.Errorf("%s: traits (-want +got):\n%s", d.ControlPath.Key(), diff)
				}
			}
		})
	}
}

func TestAVirtualFunctionOfAnUnknownIdIsOfTheFamilyOfItsAccelerator(t *testing.T) {
	t.Parallel()
	config := qat.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyAgent}}
	report := discover(t, config, drivertest.Tree(t, accelerator(vfs(1), func(d *sysfs.PCIDevice) { d.VFs.Product = "9999" })))
	if diff := cmp.Diff([]string{"OWNER_CYBORG", "CUSTOM_QAT_INTEL_C62X"}, report.Devices[0].Deployables[0].Traits); diff != "" {
		t.Errorf("traits (-want +got):\n%s", diff)
	}
}

func TestTraitShapes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shape  driver.TraitShape
		class  string
		traits []string
	}{
		{"", "CUSTOM_QAT", []string{"CUSTOM_RACK_7"}},
		{driver.ShapeShipped, "CUSTOM_QAT", []string{"CUSTOM_RACK_7"}},
		{driver.ShapeRockyScheduling, "CUSTOM_ACCELERATOR_QAT", []string{"OWNER_CYBORG", "CUSTOM_QAT_INTEL", "CUSTOM_QAT_INTEL_C62X", "CUSTOM_RACK_7"}},
		{driver.ShapeRockyAgent, "CUSTOM_ACCELERATOR_QAT", []string{"OWNER_CYBORG", "CUSTOM_QAT_INTEL_C62X", "CUSTOM_RACK_7"}},
		{driver.ShapeWallaby, "CUSTOM_QAT", []string{"OWNER_CYBORG", "CUSTOM_INTEL_37C8", "CUSTOM_RACK_7"}},
	} {
		t.Run(string(tt.shape), func(t *testing.T) {
			t.Parallel()
			config := qat.Config{Policy: driver.Policy{TraitShape: tt.shape, ExtraTraits: []string{"CUSTOM_RACK_7"}}}
			for name, report := range map[string]driver.Report{
				"whole": discover(t, config, drivertest.Tree(t, accelerator())), "virtual": discover(t, config, drivertest.Tree(t, accelerator(vfs(1)))),
			} {
				p := report.Devices[0].Deployables[0]
				if diff := cmp.Diff(tt.traits, p.Traits); diff != "" || p.Class != tt.class {
					t.Errorf("%s: class %s, traits (-want +got):\n%s", name, p.Class, diff)
				}
			}
		})
	}
}

func TestSkippedDevices(t *testing.T) {
	t.Parallel()
	group := 7
	drivertest.Table(t, []drivertest.Row{
		{Name: "nothing: bound to vfio-pci", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Driver = "vfio-pci" })}, Offered: map[string]string{c62x: "CUSTOM_QAT"}},
		{Name: "nothing: no driver", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Driver = "" })}, Offered: map[string]string{c62x: "CUSTOM_QAT"}},
		{Name: "another driver", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Driver = "uio_pci_generic" })}, LeftOut: map[string]string{c62x: "bound to driver uio_pci_generic"}},
		{Name: "nothing: another driver allowed", New: with(qat.Config{Policy: driver.Policy{AllowedDrivers: []string{"uio_pci_generic"}}}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Driver = "uio_pci_generic" })}, Offered: map[string]string{c62x: "CUSTOM_QAT"}},
		{Name: "the driver of another family", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Driver = "4xxx" })}, LeftOut: map[string]string{c62x: "bound to driver 4xxx"}},
		{Name: "a virtual function that has another driver", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(vfs(1), func(d *sysfs.PCIDevice) { d.VFs.Driver = "uio_pci_generic" })}, LeftOut: map[string]string{c62x: "virtual functions (1)", "0000:3d:01.0": "bound to driver uio_pci_generic"}},
		{Name: "not seen: another vendor", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Vendor = "1d55" })}},
		{Name: "not seen: another product", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.Product = "18a0" })}},
		{Name: "one with a virtual function on its bus, where nothing tells of SR-IOV", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(), accelerator(func(d *sysfs.PCIDevice) { d.Address, d.Product, d.Driver = "0000:3d:01.0", "37c9", "vfio-pci" })}, Offered: map[string]string{"0000:3d:01.0": "CUSTOM_QAT"}, LeftOut: map[string]string{c62x: "0000:3d:01.0, a virtual function"}},
		{Name: "nothing: a virtual function of another family on its bus", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(), accelerator(func(d *sysfs.PCIDevice) { d.Address, d.Product, d.Driver = "0000:3d:01.0", "4941", "vfio-pci" })}, Offered: map[string]string{c62x: "CUSTOM_QAT", "0000:3d:01.0": "CUSTOM_QAT"}},
		{Name: "a group that the host uses", New: with(qat.Config{}), Devices: []sysfs.PCIDevice{accelerator(func(d *sysfs.PCIDevice) { d.IOMMUGroup = &group }),
			{Address: "0000:3d:00.1", Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb", IOMMUGroup: &group}}, LeftOut: map[string]string{c62x: "IOMMU group 7 has 0000:3d:00.1, of class 0200, on driver igb: bind it to vfio-pci"}},
	})
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]qat.Config{
		"no host":           {},
		"unknown shape":     {Host: "h", Policy: driver.Policy{TraitShape: "baroque"}},
		"illegal trait":     {Host: "h", Policy: driver.Policy{ExtraTraits: []string{"x"}}},
		"driver with slash": {Host: "h", Policy: driver.Policy{AllowedDrivers: []string{"a/b"}}},
	} {
		if _, err := qat.New(c, sysfs.NewMemory()); !errors.Is(err, driver.ErrConfig) {
			t.Errorf("%s: New: %v, want ErrConfig", name, err)
		}
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{accelerator(vfs(2))}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := qat.New(qat.Config{Host: "compute1"}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range report.Devices[0].Deployables {
		fmt.Println(p.Name, p.NumAccelerators, p.Class)
	}
	for _, l := range report.LeftOut {
		fmt.Println("left out:", l.Address, l.Reason)
	}
	// Output:
	// compute1_0000:3d:01.0 1 CUSTOM_QAT
	// compute1_0000:3d:01.1 1 CUSTOM_QAT
	// left out: 0000:3d:00.0 physical function with virtual functions (2), which are offered instead
}
