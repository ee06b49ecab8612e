package ascend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const at = "0000:c1:00.0"

// processor is an Ascend 310 bound to the vendor's driver.
func processor(change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: at, Vendor: "19e5", Product: "d100", Class: "1200", Driver: "devdrv_device_driver"}
	for _, c := range change {
		c(&d)
	}
	return d
}

// with returns what makes the driver of a configuration.
func with(c ascend.Config) func(driver.Tree) (driver.Driver, error) {
	if c.Host == "" {
		c.Host = "compute1"
	}
	return func(tree driver.Tree) (driver.Driver, error) { return ascend.New(c, tree) }
}

func discover(t testing.TB, c ascend.Config, tree driver.Tree) driver.Report {
	t.Helper()
	d, err := with(c)(tree)
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Discover(t, d)
}

func TestAProcessor(t *testing.T) {
	t.Parallel()
	address := driver.Info{"domain": "0000", "bus": "c1", "device": "00", "function": "0"}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "19e5", Model: "Ascend 310", Type: "AICHIP",
		StdBoardInfo: `{"device_id": "d100", "class": "Processing accelerators"}`,
		ControlPath:  driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "compute1_0000:c1:00.0", NumAccelerators: 1, DriverName: "ascend",
			Class: "CUSTOM_AICHIP", Traits: []string{"CUSTOM_AICHIP_HUAWEI", "CUSTOM_AICHIP_PRODUCT_ID_D100"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: address}},
		}},
	}}}
	if diff := cmp.Diff(want, discover(t, ascend.Config{}, drivertest.Tree(t, processor()))); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestProcessorsOfTwoHostsHaveProvidersOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, host := range []string{"compute1", "compute2"} {
		seen[driver.ProviderUUID(discover(t, ascend.Config{Host: host}, drivertest.Tree(t, processor())).Devices[0].Deployables[0].Name)] = true
	}
	if len(seen) != 2 {
		t.Errorf("providers %v", seen)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	product := func(id string) func(*sysfs.PCIDevice) { return func(d *sysfs.PCIDevice) { d.Product = id } }
	drivertest.Table(t, []drivertest.Row{
		{Name: "an Ascend 310P", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(product("d500"))}, Offered: map[string]string{at: "CUSTOM_AICHIP CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D500"}},
		{Name: "an Ascend 910", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(product("d801"))}, Offered: map[string]string{at: "CUSTOM_AICHIP CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D801"}},
		{Name: "an Ascend 910B", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(product("d802"))}, Offered: map[string]string{at: "CUSTOM_AICHIP CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D802"}},
		{Name: "one for guests", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(func(d *sysfs.PCIDevice) { d.Driver = "vfio-pci" })}, Offered: map[string]string{at: "CUSTOM_AICHIP CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100"}},
		{Name: "by the scheduling shape", New: with(ascend.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}), Devices: []sysfs.PCIDevice{processor(product("d802"))}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_AICHIP OWNER_CYBORG CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_HUAWEI_ASCEND910B"}},
		{Name: "by the agent's shape", New: with(ascend.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyAgent}}), Devices: []sysfs.PCIDevice{processor()}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_AICHIP OWNER_CYBORG CUSTOM_AICHIP_HUAWEI_ASCEND310"}},
		{Name: "by the vGPU shape", New: with(ascend.Config{Policy: driver.Policy{TraitShape: driver.ShapeWallaby}}), Devices: []sysfs.PCIDevice{processor()}, Offered: map[string]string{at: "CUSTOM_AICHIP OWNER_CYBORG CUSTOM_HUAWEI_D100 CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100"}},
		{Name: "a product configured", New: with(ascend.Config{ProductIDs: []string{"d107"}}), Devices: []sysfs.PCIDevice{processor(product("d107"))}, Offered: map[string]string{at: "CUSTOM_AICHIP CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D107"}},
		{Name: "not a product that is not configured", New: with(ascend.Config{ProductIDs: []string{"d107"}}), Devices: []sysfs.PCIDevice{processor()}},
		{Name: "a virtual function, by the name of its card", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(func(d *sysfs.PCIDevice) { d.VFs = &sysfs.VFs{Total: 1, Enabled: 1, Product: "d1ff"} })}, Offered: map[string]string{"0000:c1:00.1": "CUSTOM_AICHIP CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100"}, LeftOut: map[string]string{at: "virtual functions (1)"}},
		{Name: "not another product", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(product("d1ff"))}},
		{Name: "not d100 of another vendor", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(func(d *sysfs.PCIDevice) { d.Vendor = "10de" })}},
		{Name: "not one with another driver", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(func(d *sysfs.PCIDevice) { d.Driver = "uio_pci_generic" })}, LeftOut: map[string]string{at: "bound to driver uio_pci_generic"}},
		{Name: "not one that is divided", New: with(ascend.Config{}), Devices: []sysfs.PCIDevice{processor(func(d *sysfs.PCIDevice) {
			d.Files = map[string]string{"11111111-1111-4111-8111-111111111111/uevent": ""}
		})}, LeftOut: map[string]string{at: "has mediated devices (1)"}},
	})
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]ascend.Config{
		"no host name":     {},
		"trait_shape":      {Host: "h", Policy: driver.Policy{TraitShape: "baroque"}},
		`"310"`:            {Host: "h", ProductIDs: []string{"310"}},
		`"D100" appears t`: {Host: "h", ProductIDs: []string{"d100", "D100"}},
	} {
		_, err := ascend.New(c, sysfs.NewMemory())
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{processor()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := ascend.New(ascend.Config{Host: "compute1"}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	p := report.Devices[0].Deployables[0]
	fmt.Println(p.Name, p.Class, p.Traits)
	// Output:
	// compute1_0000:c1:00.0 CUSTOM_AICHIP [CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100]
}
