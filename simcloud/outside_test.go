package simcloud_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The life of a host with a driver from outside is tested in examples/npu, which is a module of its own.

func outsideModel(drivers builtin.Config) simcloud.Model {
	return simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0", Drivers: &drivers}}, DeviceProfiles: []simcloud.DeviceProfile{}}
}

func loadFake(host string, _ json.RawMessage, _ driver.Tree) (driver.Driver, error) {
	return fake.New(host), nil
}

func TestADriverFromOutsideThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	enabled := builtin.Config{EnabledDrivers: []string{"acme"}}
	refuse := func(string, json.RawMessage, driver.Tree) (driver.Driver, error) {
		return nil, errors.New("no licence")
	}
	none := func(string, json.RawMessage, driver.Tree) (driver.Driver, error) { return nil, nil }
	for name, tt := range map[string]struct {
		drivers builtin.Config
		opts    []simcloud.Option
		want    string
	}{
		"not added":              {enabled, nil, `unknown driver "acme"`},
		"added twice":            {enabled, []simcloud.Option{simcloud.WithDriver("acme", loadFake), simcloud.WithDriver("acme", loadFake)}, "driver acme exists already"},
		"the name of ours":       {enabled, []simcloud.Option{simcloud.WithDriver(builtin.NVIDIA, loadFake)}, "driver nvidia_gpu_driver exists already"},
		"no name":                {enabled, []simcloud.Option{simcloud.WithDriver("", loadFake)}, "driver without a name"},
		"nothing loads it":       {enabled, []simcloud.Option{simcloud.WithDriver("acme", nil)}, "nothing loads it"},
		"it refuses":             {enabled, []simcloud.Option{simcloud.WithDriver("acme", refuse)}, "hosts[0].drivers.bad configuration: sections.acme: no licence"},
		"it is nil":              {enabled, []simcloud.Option{simcloud.WithDriver("acme", none)}, "sections.acme: no driver is loaded"},
		"section without driver": {builtin.Config{Sections: map[string]json.RawMessage{"acme": nil}}, nil, "sections.acme: no such driver from outside"},
		"a section without it": {builtin.Config{EnabledDrivers: []string{}, Sections: map[string]json.RawMessage{"acme": nil}},
			[]simcloud.Option{simcloud.WithDriver("acme", loadFake)}, "sections.acme: enabled_drivers does not name the driver"},
	} {
		cloud, err := simcloud.New(t.Context(), outsideModel(tt.drivers), tt.opts...)
		if err == nil {
			cloud.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// A driver that is its own hardware needs no tree; a restart of its host reaches it.
func TestADriverFromOutsideThatIsItsOwnHardware(t *testing.T) {
	t.Parallel()
	device := verbatim.New([]driver.Device{{
		Type: driver.TypeGPU, Vendor: "1d55", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: driver.PCIAddress{Bus: 1}.Info()},
	}})
	cloud := simcloud.Run(t, outsideModel(builtin.Config{EnabledDrivers: []string{"acme"}}),
		simcloud.WithDriver("acme", func(string, json.RawMessage, driver.Tree) (driver.Driver, error) { return device, nil }))
	mdev := driver.Mdev{UUID: "11111111-1111-4111-8111-111111111111", Parent: "0000:01:00.0", Type: "acme-1"}
	must(t, device.CreateMdev(t.Context(), mdev))
	if leaks := cloud.Leaks(); len(leaks) != 1 || leaks[0].Kind != simcloud.LeakMdev {
		t.Errorf("leaks: %v", leaks)
	}
	must(t, cloud.RebootHost(t.Context(), "cn0"))
	if mdevs, err := cloud.Mdevs("cn0"); err != nil || len(mdevs) > 0 {
		t.Errorf("after the restart: %v, %v", mdevs, err)
	}
}

// defective is a driver of a vendor that panics in the methods named.
type defective struct {
	*verbatim.Driver
	panics map[string]bool
}

func (d *defective) fails(method string) {
	if d.panics[method] {
		panic(method + " is broken")
	}
}

func (d *defective) Dump() ([]byte, error) { d.fails("Dump"); return d.Driver.Dump() }
func (d *defective) Prepare(data []byte) (func(), error) {
	d.fails("Load")
	return d.Driver.Prepare(data)
}
func (d *defective) Mdevs() []driver.Mdev { d.fails("Mdevs"); return d.Driver.Mdevs() }
func (d *defective) Reboot()              { d.fails("Reboot"); d.Driver.Reboot() }

// A panic is an error that names the driver, and the cloud goes on.
func TestADriverFromOutsideThatPanics(t *testing.T) {
	t.Parallel()
	d := &defective{Driver: verbatim.New(nil), panics: map[string]bool{}}
	cloud := simcloud.Run(t, outsideModel(builtin.Config{EnabledDrivers: []string{"acme"}}),
		simcloud.WithDriver("acme", func(string, json.RawMessage, driver.Tree) (driver.Driver, error) { return d, nil }))
	kept := dump(t, cloud)
	for method, do := range map[string]func() error{
		"Dump":   func() error { _, err := cloud.Dump(); return err },
		"Load":   func() error { return cloud.Load(kept) },
		"Mdevs":  func() error { _, err := cloud.Mdevs("cn0"); return err },
		"Reboot": func() error { return cloud.StopHost("cn0") },
	} {
		d.panics = map[string]bool{method: true}
		if err := do(); err == nil || !strings.Contains(err.Error(), d.Name()) || !strings.Contains(err.Error(), "panic: "+method+" is broken at outside_test.go:") {
			t.Errorf("%s: %v", method, err)
		}
	}
	d.panics = nil
	if err := cloud.Load(kept); err != nil {
		t.Errorf("after the panics: %v", err)
	}
	if err := cloud.RebootHost(t.Context(), "cn0"); err != nil {
		t.Errorf("after the panics: %v", err)
	}
}

// flaky is a driver of PCI functions that fails now and then.
type flaky struct {
	*driver.PCIDriver
	broken *bool
}

func (f flaky) DiscoverIn(ctx context.Context, view *driver.View) (driver.Report, error) {
	if *f.broken {
		return driver.Report{}, errors.New("no tool")
	}
	return f.PCIDriver.DiscoverIn(ctx, view)
}

// What a driver reported is kept while it fails. The function of another driver in the same IOMMU
// group must not be offered with it. A function that was already offered stays.
func TestAGroupOfADriverFromOutsideThatFails(t *testing.T) {
	t.Parallel()
	first, second := 30, 31
	broken := false
	load := func(host string, _ json.RawMessage, tree driver.Tree) (driver.Driver, error) {
		d, err := driver.NewPCIDriver(driver.PCISpec{
			Driver: "acme", Host: host, Claims: []driver.Claim{{Vendor: 0x1d55}},
			Device: func(driver.Unit) driver.Device {
				return driver.Device{Type: driver.TypeAICHIP, Vendor: "1d55", Model: "NPU"}
			},
			Subject: func(driver.Unit) driver.Subject { return driver.Subject{ShippedClass: "CUSTOM_NPU"} },
		}, tree)
		return flaky{d, &broken}, err
	}
	model := outsideModel(builtin.Config{EnabledDrivers: []string{"acme", builtin.PCI}, PCI: &pci.Config{PassthroughWhitelist: pci.Whitelist{{VendorID: "8086"}}}})
	model.Hosts[0].Sysfs = &simcloud.Sysfs{Devices: []sysfs.PCIDevice{
		{Address: "0000:40:00.0", Vendor: "1d55", Product: "0001", Class: "1200", Driver: "vfio-pci", IOMMUGroup: &first},
		{Address: "0000:41:00.0", Vendor: "8086", Product: "1520", Class: "0200", Driver: "vfio-pci", IOMMUGroup: &first},
		{Address: "0000:42:00.0", Vendor: "8086", Product: "1520", Class: "0200", Driver: "vfio-pci", IOMMUGroup: &second},
		{Address: "0000:43:00.0", Vendor: "1d55", Product: "0001", Class: "1200", Driver: "vfio-pci", IOMMUGroup: &second},
	}}
	cloud := simcloud.Run(t, model, simcloud.WithDriver("acme", load))
	for _, broken = range []bool{false, true, false} {
		_ = cloud.Cyborg.Report(t.Context()) // another test checks that the failure is reported
		var offered []string
		for _, d := range cloud.Cyborg.Deployables() {
			offered = append(offered, d.Name)
		}
		slices.Sort(offered)
		if diff := cmp.Diff([]string{"cn0_0000:40:00.0", "cn0_0000:42:00.0"}, offered); diff != "" {
			t.Errorf("the driver fails %t (-want +got):\n%s", broken, diff)
		}
	}
}
