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

func discover(t *testing.T, c ascend.Config, devices ...sysfs.PCIDevice) driver.Report {
	t.Helper()
	tree := drivertest.Tree(t, devices...)
	if c.Host == "" {
		c.Host = "compute1"
	}
	d, err := ascend.New(c, tree)
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
	if diff := cmp.Diff(want, discover(t, ascend.Config{}, processor())); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestProcessorsOfTwoHostsHaveProvidersOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, host := range []string{"compute1", "compute2"} {
		seen[driver.ProviderUUID(discover(t, ascend.Config{Host: host}, processor()).Devices[0].Deployables[0].Name)] = true
	}
	if len(seen) != 2 {
		t.Errorf("providers %v", seen)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	product := func(id string) func(*sysfs.PCIDevice) { return func(d *sysfs.PCIDevice) { d.Product = id } }
	for _, tt := range []struct {
		name    string
		config  ascend.Config
		device  sysfs.PCIDevice
		offered map[string]string // name of the deployable without the host, to model and traits
		leftOut string            // a part of the reason
	}{
		{name: "an Ascend 310P", device: processor(product("d500")), offered: map[string]string{at: "Ascend 310P CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D500"}},
		{name: "an Ascend 910", device: processor(product("d801")), offered: map[string]string{at: "Ascend 910 CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D801"}},
		{name: "an Ascend 910B", device: processor(product("d802")), offered: map[string]string{at: "Ascend 910B CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D802"}},
		{name: "one for guests", device: processor(func(d *sysfs.PCIDevice) { d.Driver = "vfio-pci" }), offered: map[string]string{at: "Ascend 310 CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100"}},
		{name: "by the scheduling shape", config: ascend.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}, device: processor(product("d802")),
			offered: map[string]string{at: "Ascend 910B OWNER_CYBORG CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_HUAWEI_ASCEND910B"}},
		{name: "by the agent's shape", config: ascend.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyAgent}}, device: processor(),
			offered: map[string]string{at: "Ascend 310 OWNER_CYBORG CUSTOM_AICHIP_HUAWEI_ASCEND310"}},
		{name: "by the vGPU shape", config: ascend.Config{Policy: driver.Policy{TraitShape: driver.ShapeWallaby}}, device: processor(),
			offered: map[string]string{at: "Ascend 310 OWNER_CYBORG CUSTOM_HUAWEI_D100 CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100"}},
		{name: "a product configured", config: ascend.Config{ProductIDs: []string{"d107"}}, device: processor(product("d107")),
			offered: map[string]string{at: " CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D107"}},
		{name: "not a product that is not configured", config: ascend.Config{ProductIDs: []string{"d107"}}, device: processor()},
		{name: "a virtual function, by the name of its card", device: processor(func(d *sysfs.PCIDevice) { d.VFs = &sysfs.VFs{Total: 1, Enabled: 1, Product: "d1ff"} }),
			offered: map[string]string{"0000:c1:00.1": "Ascend 310 CUSTOM_AICHIP_HUAWEI CUSTOM_AICHIP_PRODUCT_ID_D100"}, leftOut: "virtual functions (1)"},
		{name: "not another product", device: processor(product("d1ff"))},
		{name: "not d100 of another vendor", device: processor(func(d *sysfs.PCIDevice) { d.Vendor = "10de" })},
		{name: "not one with another driver", device: processor(func(d *sysfs.PCIDevice) { d.Driver = "uio_pci_generic" }), leftOut: "bound to driver uio_pci_generic"},
		{name: "not one that is divided", device: processor(func(d *sysfs.PCIDevice) {
			d.Files = map[string]string{"11111111-1111-4111-8111-111111111111/uevent": ""}
		}), leftOut: "carries mediated devices (1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := discover(t, tt.config, tt.device)
			var offered map[string]string
			for _, d := range report.Devices {
				p := d.Deployables[0]
				offered = map[string]string{strings.TrimPrefix(p.Name, "compute1_"): d.Model + " " + strings.Join(p.Traits, " ")}
			}
			if diff := cmp.Diff(tt.offered, offered); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if got := fmt.Sprint(report.LeftOut); tt.leftOut == "" && len(report.LeftOut) > 0 || !strings.Contains(got, tt.leftOut) || len(report.Problems) > 0 {
				t.Errorf("left out %v, want %q; problems %v", report.LeftOut, tt.leftOut, report.Problems)
			}
		})
	}
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
