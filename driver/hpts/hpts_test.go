package hpts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	at    = "0000:a1:00.0"
	other = "0000:a2:00.0"
)

// card is a time card of ZTE with a clock.
func card(change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: at, Vendor: "1cf2", Product: "2001", Class: "1110", Driver: "zte_hpts",
		Clocks: []sysfs.Clock{{Name: "ptp1", ClockName: "zte hpts clock"}}}
	for _, c := range change {
		c(&d)
	}
	return d
}

// network is a network card with a clock of its own.
func network(change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: other, Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb",
		Interfaces: []sysfs.Interface{{Name: "eth0"}}, Clocks: []sysfs.Clock{{Name: "ptp0", ClockName: "i350 clock"}}}
	for _, c := range change {
		c(&d)
	}
	return d
}

// with returns what makes the driver of a configuration.
func with(c hpts.Config) func(driver.Tree) (driver.Driver, error) {
	if c.Host == "" {
		c.Host = "compute1"
	}
	return func(tree driver.Tree) (driver.Driver, error) { return hpts.New(c, tree) }
}

func discover(t testing.TB, c hpts.Config, tree driver.Tree) driver.Report {
	t.Helper()
	d, err := with(c)(tree)
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Discover(t, d)
}

func TestATimeCard(t *testing.T) {
	t.Parallel()
	address := driver.Info{"domain": "0000", "bus": "a1", "device": "00", "function": "0"}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "1cf2", Model: "zte hpts clock", Type: "HPTS",
		StdBoardInfo: `{"product_id": "2001", "controller": null}`, VendorBoardInfo: `{"vendor_info": "hpts_vb_info"}`,
		ControlPath: driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "compute1_0000:a1:00.0", NumAccelerators: 1, DriverName: "hpts",
			Class: "CUSTOM_ACCELERATOR_HPTS", Traits: []string{"CUSTOM_HPTS_ZTE"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: address}},
		}},
	}}}
	if diff := cmp.Diff(want, discover(t, hpts.Config{}, drivertest.Tree(t, card()))); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	only := func(devices ...hpts.Spec) hpts.Config {
		return hpts.Config{Devices: append([]hpts.Spec{}, devices...)}
	}
	class := func(text string) func(*sysfs.PCIDevice) { return func(d *sysfs.PCIDevice) { d.Class = text } }
	withoutClock := func(kernel string) func(*sysfs.PCIDevice) {
		return func(d *sysfs.PCIDevice) { d.Clocks, d.Driver = nil, kernel }
	}
	drivertest.Table(t, []drivertest.Row{
		{Name: "a card for guests", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{card(withoutClock("vfio-pci"))}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS CUSTOM_HPTS_ZTE"}},
		{Name: "a card without a driver", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{card(withoutClock(""))}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS CUSTOM_HPTS_ZTE"}},
		{Name: "not a card with a driver that makes no clock", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{card(withoutClock("uio_pci_generic"))}, LeftOut: map[string]string{at: "bound to driver uio_pci_generic"}},
		{Name: "not the clock of a network card", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{card(), network()}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS CUSTOM_HPTS_ZTE"}, LeftOut: map[string]string{other: "clock ptp0 (i350 clock) belongs to a network card"}},
		{Name: "not the clock of a network card, even when that is configured", New: with(only(hpts.Spec{VendorID: "8086", ProductID: "1521"})), Devices: []sysfs.PCIDevice{network()}, LeftOut: map[string]string{other: "a network card"}},
		{Name: "not a configured function with an interface of any class", New: with(only(hpts.Spec{VendorID: "8086", ProductID: "1521"})), Devices: []sysfs.PCIDevice{network(class("0880"))}, LeftOut: map[string]string{other: "a network card"}},
		{Name: "not a configured network card without an interface", New: with(only(hpts.Spec{VendorID: "8086", ProductID: "1521"})), Devices: []sysfs.PCIDevice{network(func(d *sysfs.PCIDevice) { d.Interfaces = nil })}, LeftOut: map[string]string{other: "a network card"}},
		{Name: "not a network card of the preset vendor", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{network(func(d *sysfs.PCIDevice) { d.Vendor = "1cf2" })}, LeftOut: map[string]string{other: "belongs to a network card"}},
		{Name: "not a disk of the preset vendor", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{card(withoutClock("nvme"), class("0108"))}},
		{Name: "not a bridge", New: with(only(hpts.Spec{VendorID: "1cf2", ProductID: "2001"})), Devices: []sysfs.PCIDevice{card(class("0604"))}, LeftOut: map[string]string{at: "a bridge"}},
		{Name: "a card that is configured by product of any class", New: with(only(hpts.Spec{VendorID: "1cf2", ProductID: "2001"})), Devices: []sysfs.PCIDevice{card(class("0400"))}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS CUSTOM_HPTS_ZTE"}},
		{Name: "another vendor's that is configured", New: with(only(hpts.Spec{VendorID: "1d9b", ProductID: "*"})), Devices: []sysfs.PCIDevice{card(class("0580"), func(d *sysfs.PCIDevice) { d.Vendor, d.Product = "1d9b", "0400" })}, Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS CUSTOM_HPTS_1D9B"}},
		{Name: "not another vendor's that is not configured", New: with(hpts.Config{}), Devices: []sysfs.PCIDevice{card(func(d *sysfs.PCIDevice) { d.Vendor, d.Product = "1d9b", "0400" })}, LeftOut: map[string]string{at: "clock ptp1 (zte hpts clock): vendor and product 1d9b:0400 are not configured"}},
		{Name: "nothing where nothing is configured", New: with(only()), Devices: []sysfs.PCIDevice{card(withoutClock(""))}},
		{Name: "by the shape ShapeRockyScheduling", New: with(hpts.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyScheduling}}), Devices: []sysfs.PCIDevice{card()},
			Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS OWNER_CYBORG CUSTOM_HPTS_ZTE CUSTOM_HPTS_ZTE_2001"}},
		{Name: "by the shape ShapeRockyAgent", New: with(hpts.Config{Policy: driver.Policy{TraitShape: driver.ShapeRockyAgent}}), Devices: []sysfs.PCIDevice{card()},
			Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS OWNER_CYBORG CUSTOM_HPTS_ZTE_2001"}},
		{Name: "by the shape ShapeWallaby", New: with(hpts.Config{Policy: driver.Policy{TraitShape: driver.ShapeWallaby}}), Devices: []sysfs.PCIDevice{card()},
			Offered: map[string]string{at: "CUSTOM_ACCELERATOR_HPTS OWNER_CYBORG CUSTOM_ZTE_2001 CUSTOM_HPTS_ZTE"}},
	})
}

func TestTroubleWithOneClockLeavesTheOtherAlone(t *testing.T) {
	t.Parallel()
	const clock = "class/ptp/ptp1"
	for _, tt := range []struct {
		name    string
		spoil   func(*sysfs.Memory)
		offered int
		address string // of the problem
		file    string
		want    error // nil: any
	}{
		{"name missing", func(m *sysfs.Memory) { m.Remove(clock + "/clock_name") }, 1, at, clock + "/clock_name", fs.ErrNotExist},
		{"name empty", func(m *sysfs.Memory) { m.SetFile(clock+"/clock_name", nil) }, 1, at, clock + "/clock_name", driver.ErrGarbled},
		{"name binary", func(m *sysfs.Memory) { m.SetFile(clock+"/clock_name", []byte{'a', 0, 0xff}) }, 1, at, clock + "/clock_name", driver.ErrGarbled},
		{"name long", func(m *sysfs.Memory) { m.SetFile(clock+"/clock_name", []byte(strings.Repeat("a", 4096))) }, 1, at, clock + "/clock_name", driver.ErrGarbled},
		{"name huge", func(m *sysfs.Memory) { m.SetFile(clock+"/clock_name", make([]byte, 1<<20)) }, 1, at, clock + "/clock_name", sysfs.ErrTooLarge},
		{"name denied", func(m *sysfs.Memory) { deny(m, clock+"/clock_name") }, 1, at, clock + "/clock_name", fs.ErrPermission},
		{"device no link", func(m *sysfs.Memory) { m.SetFile(clock+"/device", []byte("x")) }, 1, "", clock + "/device", fs.ErrInvalid},
		{"device of another bus", func(m *sysfs.Memory) { m.SetLink(clock+"/device", "../../../platform/mc") }, 1, "", "", nil},
		{"device not there", func(m *sysfs.Memory) { m.SetLink(clock+"/device", "../../0000:ff:1f.7") }, 1, "0000:ff:1f.7", clock + "/device", driver.ErrGarbled},
		{"no device, as a hypervisor's", func(m *sysfs.Memory) { m.Remove(clock + "/device") }, 1, "", "", nil},
		{"the clock a cycle", func(m *sysfs.Memory) { m.SetLink(clock, "ptp1") }, 1, "", clock + "/device", nil},
		{"the clock leaving the tree", func(m *sysfs.Memory) { m.SetLink(clock, "../../../etc") }, 1, "", clock + "/device", sysfs.ErrEscapes},
		{"the clock dangling", func(m *sysfs.Memory) { m.SetLink(clock, "../../devices/gone") }, 1, "", clock, fs.ErrNotExist},
		{"the class no directory", func(m *sysfs.Memory) { m.Remove("class/ptp"); m.SetFile("class/ptp", nil) }, 0, "", "class/ptp", syscall.ENOTDIR},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, card(), card(func(d *sysfs.PCIDevice) {
				d.Address, d.Clocks = other, []sysfs.Clock{{Name: "ptp2", ClockName: "second"}}
			}))
			tt.spoil(tree)
			report := discover(t, hpts.Config{}, tree)
			if len(report.Devices) != tt.offered || tt.offered == 1 && report.Devices[0].Model != "second" {
				t.Errorf("offered %+v", report.Devices)
			}
			switch {
			case tt.file == "":
				if len(report.Problems) > 0 {
					t.Errorf("problems: %v", report.Problems)
				}
			case len(report.Problems) != 1:
				t.Errorf("problems: %v, want one", report.Problems)
			default:
				if p := report.Problems[0]; p.Address != tt.address || p.File != tt.file || p.Err == nil || tt.want != nil && !errors.Is(p, tt.want) {
					t.Errorf("problem %+v, want address %q, file %q, cause %v", p, tt.address, tt.file, tt.want)
				}
			}
		})
	}
}

func deny(m *sysfs.Memory, name string) {
	if err := m.Deny(name); err != nil {
		panic(err)
	}
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]hpts.Config{
		"no host name":       {},
		"trait_shape":        {Host: "h", Policy: driver.Policy{TraitShape: "baroque"}},
		"entry 0: vendor_id": {Host: "h", Devices: []hpts.Spec{{ProductID: "2001"}}},
		"product_id":         {Host: "h", Devices: []hpts.Spec{{VendorID: "1cf2", ProductID: "20"}}},
		"entry 1: time card 1cf2:2001 appears twice": {Host: "h", Devices: []hpts.Spec{{VendorID: "1cf2", ProductID: "2001"}, {VendorID: "0x1cf2", ProductID: "2001"}}},
		"entry 1: time cards of zte appears twice":   {Host: "h", Devices: []hpts.Spec{{VendorID: "1cf2"}, {VendorID: "1cf2", ProductID: "*"}}},
	} {
		_, err := hpts.New(c, sysfs.NewMemory())
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

func TestTheConfigurationIsJSON(t *testing.T) {
	t.Parallel()
	var c hpts.Config
	dec := json.NewDecoder(strings.NewReader(`{"host": "compute1", "allowed_drivers": ["x"], "devices": [{"vendor_id": "1cf2", "product_id": "2001"}]}`))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	want := hpts.Config{Host: "compute1", Policy: driver.Policy{AllowedDrivers: []string{"x"}}, Devices: []hpts.Spec{{VendorID: "1cf2", ProductID: "2001"}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{card(), network()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := hpts.New(hpts.Config{Host: "compute1"}, tree)
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
	fmt.Println(report.LeftOut[0].Address, report.LeftOut[0].Reason)
	// Output:
	// compute1_0000:a1:00.0 CUSTOM_ACCELERATOR_HPTS [CUSTOM_HPTS_ZTE]
	// 0000:a2:00.0 clock ptp0 (i350 clock) belongs to a network card
}
