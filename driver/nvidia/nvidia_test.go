package nvidia_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	card  = "0000:84:00.0"
	other = "0000:85:00.0"
	id1   = "11111111-1111-4111-8111-111111111111"
	id2   = "22222222-2222-4222-8222-222222222222"
)

func t4(address string, change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: address, Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
		MdevTypes: []sysfs.MdevType{
			{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 3},
			{Type: "nvidia-36", Name: "GRID T4-2B", AvailableInstances: 1},
		}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func newDriver(t testing.TB, c nvidia.Config, tree driver.Tree) *nvidia.Driver {
	t.Helper()
	c.Host = "compute1"
	d, err := nvidia.New(c, tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func discover(t testing.TB, c nvidia.Config, tree driver.Tree) driver.Report {
	t.Helper()
	report, err := newDriver(t, c, tree).Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Devices {
		if err := d.Validate(); err != nil {
			t.Errorf("the device cannot be stored: %v", err)
		}
	}
	return report
}

func divide(typ string, addresses ...string) nvidia.Config {
	return nvidia.Config{EnabledVGPUTypes: []nvidia.VGPUType{{Name: typ, DeviceAddresses: addresses}}}
}

func TestAWholeGPU(t *testing.T) {
	t.Parallel()
	report := discover(t, nvidia.Config{Policy: driver.Policy{ExtraTraits: []string{"CUSTOM_RACK_7", "OWNER_CYBORG"}}}, drivertest.Tree(t, t4(card)))
	address := driver.Info{"domain": "0000", "bus": "84", "device": "00", "function": "0"}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "10de", Model: "NVIDIA Corporation TU104GL [Tesla T4]", Type: "GPU",
		StdBoardInfo:    `{"product_id": "1eb8", "controller": "3D controller"}`,
		VendorBoardInfo: `{"vendor_info": "gpu_vb_info"}`,
		ControlPath:     driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "compute1_0000:84:00.0", NumAccelerators: 1, DriverName: "NVIDIA",
			Class: "PGPU", Traits: []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8", "CUSTOM_RACK_7"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: address}},
		}},
	}}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestADividedGPU(t *testing.T) {
	t.Parallel()
	report := discover(t, divide("nvidia-35", card), drivertest.Tree(t, t4(card)))
	want := driver.Deployable{
		Name: "compute1_0000:84:00.0", NumAccelerators: 3, DriverName: "NVIDIA",
		Class: "VGPU", Traits: []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"},
	}
	for i := range 3 {
		want.AttachHandles = append(want.AttachHandles, driver.AttachHandle{Type: "MDEV", Info: driver.Info{
			"asked_type": "nvidia-35", "vgpu_mark": fmt.Sprintf("nvidia-35_%d", i),
			"domain": "0000", "bus": "84", "device": "00", "function": "0"}})
	}
	if len(report.Devices) != 1 {
		t.Fatalf("report: %+v", report)
	}
	if diff := cmp.Diff(want, report.Devices[0].Deployables[0]); diff != "" {
		t.Errorf("deployable (-want +got):\n%s", diff)
	}
}

func TestTheReportStaysTheSameWhileItsMdevsComeAndGo(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, t4(card))
	d := newDriver(t, divide("nvidia-35", card), tree)
	before := discover(t, divide("nvidia-35", card), tree)
	same := func(step string) {
		t.Helper()
		after, err := d.Discover(t.Context())
		if diff := cmp.Diff(before, after); err != nil || diff != "" {
			t.Errorf("%s: %v (-before +after):\n%s", step, err, diff)
		}
	}
	m := driver.Mdev{UUID: id1, Parent: card, Type: "nvidia-35"}
	for _, step := range []struct {
		name string
		do   func(context.Context, driver.Mdev) error
		left int
	}{
		{"made", d.CreateMdev, 1}, {"made again", d.CreateMdev, 1}, {"removed", d.RemoveMdev, 0}, {"removed again", d.RemoveMdev, 0},
	} {
		if err := step.do(t.Context(), m); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := len(tree.Mdevs()); got != step.left {
			t.Errorf("%s: %d mdevs, want %d", step.name, got, step.left)
		}
		same(step.name)
	}
}

func TestSkippedDevices(t *testing.T) {
	t.Parallel()
	vga := func(d *sysfs.PCIDevice) { d.Class, d.MdevTypes = "0300", nil }
	sriov := func(enabled int) func(*sysfs.PCIDevice) {
		return func(d *sysfs.PCIDevice) {
			d.Product, d.MdevTypes = "20f1", nil
			d.VFs = &sysfs.VFs{Total: 2, Enabled: enabled, Driver: "nvidia",
				MdevTypes: []sysfs.MdevType{{Type: "nvidia-474", Name: "NVIDIA A100-10C", AvailableInstances: 1}}}
		}
	}
	for _, tt := range []struct {
		name     string
		config   nvidia.Config
		device   sysfs.PCIDevice
		before   func(*sysfs.Memory)
		offered  []string
		leftOut  map[string]string // address to a part of the reason
		problems int
	}{
		{name: "nothing: bound to nvidia", device: t4(card), offered: []string{card}},
		{name: "nothing: bound to nouveau", device: t4(card, func(d *sysfs.PCIDevice) { d.Driver = "nouveau" }), offered: []string{card}},
		{name: "nothing: bound to vfio-pci", device: t4(card, func(d *sysfs.PCIDevice) { d.Driver = "vfio-pci" }), offered: []string{card}},
		{name: "nothing: no driver", device: t4(card, func(d *sysfs.PCIDevice) { d.Driver = "" }), offered: []string{card}},
		{name: "nothing: a driver allowed", config: nvidia.Config{Policy: driver.Policy{AllowedDrivers: []string{"pci-stub"}}},
			device: t4(card, func(d *sysfs.PCIDevice) { d.Driver = "pci-stub" }), offered: []string{card}},
		{name: "another driver", device: t4(card, func(d *sysfs.PCIDevice) { d.Driver = "pci-stub" }),
			leftOut: map[string]string{card: "bound to driver pci-stub"}},
		{name: "the boot display", device: t4(card, vga, func(d *sysfs.PCIDevice) { d.BootVGA = true }),
			leftOut: map[string]string{card: "boot_vga is 1"}},
		{name: "nothing: a display that did not boot", device: t4(card, vga), offered: []string{card}},
		{name: "a display with a driver, boot_vga unknown", device: t4(card, vga),
			before:  func(m *sysfs.Memory) { m.Remove("bus/pci/devices/" + card + "/boot_vga") },
			leftOut: map[string]string{card: "no boot_vga file"}},
		{name: "nothing: a display for guests, boot_vga unknown", device: t4(card, vga, func(d *sysfs.PCIDevice) { d.Driver = "vfio-pci" }),
			before: func(m *sysfs.Memory) { m.Remove("bus/pci/devices/" + card + "/boot_vga") }, offered: []string{card}},
		{name: "nothing: VFs possible and none enabled", device: t4(card, sriov(0)), offered: []string{card}},
		{name: "a card with VFs, and the VFs", device: t4(card, sriov(2)),
			leftOut: map[string]string{card: "virtual functions enabled (2)", "0000:84:00.1": "virtual function of " + card, "0000:84:00.2": "virtual function of " + card}},
		{name: "VFs that only the physical function names", device: t4(card, sriov(1)),
			before:  func(m *sysfs.Memory) { m.Remove("bus/pci/devices/0000:84:00.1/physfn") },
			leftOut: map[string]string{card: "virtual functions enabled", "0000:84:00.1": "virtual function of " + card}},
		{name: "VFs that only a physical function with a problem names", device: t4(card, sriov(1)), problems: 1,
			before: func(m *sysfs.Memory) {
				m.Remove("bus/pci/devices/0000:84:00.1/physfn")
				m.SetFile("bus/pci/devices/"+card+"/sriov_totalvfs", []byte("x"))
			},
			leftOut: map[string]string{"0000:84:00.1": "virtual function of " + card}},
		{name: "a card with VFs only in its count", device: t4(card, sriov(1)),
			before:  func(m *sysfs.Memory) { m.Remove("bus/pci/devices/" + card + "/virtfn0") },
			leftOut: map[string]string{card: "virtual functions enabled (1)", "0000:84:00.1": "virtual function of"}},
		{name: "all but the VF that is divided", config: divide("nvidia-474", "0000:84:00.2"), device: t4(card, sriov(2)), offered: []string{"0000:84:00.2"},
			leftOut: map[string]string{card: "virtual functions enabled", "0000:84:00.1": "virtual function of"}},
		{name: "VFs by filter, divided or not", config: nvidia.Config{FilterSRIOVVFs: true, EnabledVGPUTypes: divide("nvidia-474", "0000:84:00.2").EnabledVGPUTypes},
			device:  t4(card, sriov(2)),
			leftOut: map[string]string{card: "virtual functions enabled", "0000:84:00.1": "filter_sriov_vfs", "0000:84:00.2": "filter_sriov_vfs"}},
		{name: "a card divided by another program", device: t4(card), before: func(m *sysfs.Memory) { makeMdev(m, "nvidia-36", id1) },
			leftOut: map[string]string{card: "has mediated devices (1), including " + id1}},
		{name: "a divided card that another type has taken", config: divide("nvidia-35", card), device: t4(card),
			before:  func(m *sysfs.Memory) { makeMdev(m, "nvidia-36", id1) },
			leftOut: map[string]string{card: "no instance of vGPU type nvidia-35 is available"}},
		{name: "not seen: another vendor", device: t4(card, func(d *sysfs.PCIDevice) { d.Vendor = "1002" })},
		{name: "not seen: another function of the card", device: t4(card, func(d *sysfs.PCIDevice) { d.Class = "0403" })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, tt.device)
			if tt.before != nil {
				tt.before(tree)
			}
			report := discover(t, tt.config, tree)
			if len(report.Problems) != tt.problems {
				t.Errorf("problems: %v", report.Problems)
			}
			if diff := cmp.Diff(tt.offered, addresses(report)); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			for _, l := range report.LeftOut {
				if want, ok := tt.leftOut[l.Address]; !ok || !strings.Contains(l.Reason, want) || l.Driver != "nvidia" {
					t.Errorf("left out %+v, want %q", l, want)
				}
			}
			if len(report.LeftOut) != len(tt.leftOut) {
				t.Errorf("left out %v, want %v", report.LeftOut, tt.leftOut)
			}
		})
	}
}

func addresses(report driver.Report) []string {
	var list []string
	for _, d := range report.Devices {
		a, err := driver.PCIAddressOf(d.ControlPath.Info)
		if err != nil {
			return []string{err.Error()}
		}
		list = append(list, a.String())
	}
	return list
}

func makeMdev(m *sysfs.Memory, typ, id string) {
	if err := m.WriteFile("class/mdev_bus/"+card+"/mdev_supported_types/"+typ+"/create", []byte(id)); err != nil {
		panic(err)
	}
}

func TestTroubleWithOneCardLeavesTheOtherAlone(t *testing.T) {
	t.Parallel()
	dir := "bus/pci/devices/" + card
	typ := dir + "/mdev_supported_types/nvidia-35"
	for _, tt := range []struct {
		name   string
		config nvidia.Config
		spoil  func(*sysfs.Memory)
		file   string // "" when no file is to blame
		want   error
	}{
		{name: "vendor missing", spoil: func(m *sysfs.Memory) { m.Remove(dir + "/vendor") }, file: dir + "/vendor", want: fs.ErrNotExist},
		{name: "vendor empty", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/vendor", nil) }, file: dir + "/vendor", want: driver.ErrGarbled},
		{name: "vendor garbled", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/vendor", []byte("10de\n")) }, file: dir + "/vendor", want: driver.ErrGarbled},
		{name: "device huge", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/device", make([]byte, 1<<20)) }, file: dir + "/device", want: sysfs.ErrTooLarge},
		{name: "class denied", spoil: func(m *sysfs.Memory) { deny(m, dir+"/class") }, file: dir + "/class", want: fs.ErrPermission},
		{name: "class a directory", spoil: func(m *sysfs.Memory) {
			m.Remove(dir + "/class")
			m.SetFile(dir+"/class/x", nil)
		}, file: dir + "/class", want: sysfs.ErrNotRegular},
		{name: "the entry a cycle", spoil: func(m *sysfs.Memory) { m.SetLink(dir, card) }, file: dir + "/vendor"},
		{name: "the entry leaving the tree", spoil: func(m *sysfs.Memory) { m.SetLink(dir, "../../../../etc") }, file: dir + "/vendor", want: sysfs.ErrEscapes},
		{name: "the entry leading to another card", spoil: func(m *sysfs.Memory) { m.SetLink(dir, other) }, file: dir, want: driver.ErrGarbled},
		{name: "the device unplugged", spoil: func(m *sysfs.Memory) { m.Remove("devices/pci0000:84") }, file: dir + "/vendor", want: fs.ErrNotExist},
		{name: "VF count negative", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/sriov_numvfs", []byte("-1\n")) }, file: dir + "/sriov_numvfs", want: driver.ErrGarbled},
		{name: "VF count huge", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/sriov_numvfs", []byte("99999999999999999999\n")) }, file: dir + "/sriov_numvfs", want: driver.ErrGarbled},
		{name: "boot_vga garbled", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/boot_vga", []byte("yes\n")) }, file: dir + "/boot_vga", want: driver.ErrGarbled},
		{name: "driver no link", spoil: func(m *sysfs.Memory) { m.SetFile(dir+"/driver", nil) }, file: dir + "/driver", want: fs.ErrInvalid},
		{name: "mdev types denied", spoil: func(m *sysfs.Memory) { deny(m, dir+"/mdev_supported_types") }, file: dir + "/mdev_supported_types", want: fs.ErrPermission},
		{name: "no such type", config: divide("nvidia-99", card), want: driver.ErrMdevType},
		{name: "instances missing", config: divide("nvidia-35", card), spoil: func(m *sysfs.Memory) { m.Remove(typ + "/available_instances") }, file: typ + "/available_instances", want: fs.ErrNotExist},
		{name: "instances negative", config: divide("nvidia-35", card), spoil: func(m *sysfs.Memory) { m.SetFile(typ+"/available_instances", []byte("-3\n")) }, file: typ + "/available_instances", want: driver.ErrGarbled},
		{name: "instances huge", config: divide("nvidia-35", card), spoil: func(m *sysfs.Memory) { m.SetFile(typ+"/available_instances", []byte("2000000000\n")) }, file: typ + "/available_instances", want: driver.ErrGarbled},
		{name: "type name missing", config: divide("nvidia-35", card), spoil: func(m *sysfs.Memory) { m.Remove(typ + "/name") }, file: typ + "/name", want: fs.ErrNotExist},
		{name: "type name illegal", config: divide("nvidia-35", card), spoil: func(m *sysfs.Memory) { m.SetFile(typ+"/name", []byte("GRID T4+1B\n")) }, file: typ + "/name", want: driver.ErrName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, t4(card), t4(other))
			if tt.spoil != nil {
				tt.spoil(tree)
			}
			report := discover(t, tt.config, tree)
			if diff := cmp.Diff([]string{other}, addresses(report)); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if len(report.Problems) != 1 {
				t.Fatalf("problems: %v, want one", report.Problems)
			}
			p := report.Problems[0]
			if p.Address != card || p.File != tt.file || p.Err == nil || tt.want != nil && !errors.Is(p, tt.want) {
				t.Errorf("problem %+v, want address %s, file %q, cause %v", p, card, tt.file, tt.want)
			}
		})
	}
}

func deny(m *sysfs.Memory, name string) {
	if err := m.Deny(name); err != nil {
		panic(err)
	}
}

func TestTroubleWithTheBus(t *testing.T) {
	t.Parallel()
	t.Run("a name that is no address", func(t *testing.T) {
		t.Parallel()
		tree := drivertest.Tree(t, t4(card))
		for _, name := range []string{"nonsense", "0000:84:00.9", "0000:8A:00.0"} {
			tree.SetFile("bus/pci/devices/"+name+"/vendor", []byte("0x10de\n"))
		}
		report := discover(t, nvidia.Config{}, tree)
		if len(report.Problems) != 3 || len(report.Devices) != 1 {
			t.Errorf("report: %+v", report)
		}
		for _, p := range report.Problems {
			if !errors.Is(p, driver.ErrPCIAddress) || p.File != "bus/pci/devices/"+p.Address {
				t.Errorf("problem: %+v", p)
			}
		}
	})
	t.Run("no bus", func(t *testing.T) {
		t.Parallel()
		tree := drivertest.Tree(t)
		tree.Remove("bus/pci")
		report, err := newDriver(t, nvidia.Config{}, tree).Discover(t.Context())
		if len(report.Problems) != 0 || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nvidia: discover: bus/pci/devices:") {
			t.Errorf("%+v, error %v", report, err)
		}
	})
	t.Run("no card at a configured address", func(t *testing.T) {
		t.Parallel()
		report := discover(t, divide("nvidia-35", other), drivertest.Tree(t, t4(card)))
		if len(report.Problems) != 1 || report.Problems[0].Address != other || !errors.Is(report.Problems[0], driver.ErrConfig) {
			t.Errorf("problems: %v", report.Problems)
		}
	})
}

func TestConfigurationErrorsHaveUpstreamsTexts(t *testing.T) {
	t.Parallel()
	two := func(a, b nvidia.VGPUType) nvidia.Config {
		return nvidia.Config{Host: "h", EnabledVGPUTypes: []nvidia.VGPUType{a, b}}
	}
	for want, c := range map[string]nvidia.Config{
		"Invalid vGPU config: Missing device addresses config for vgpu type nvidia-35": two(nvidia.VGPUType{Name: "nvidia-35"}, nvidia.VGPUType{Name: "nvidia-36"}),
		"Invalid vGPU config: Duplicate types for PCI address 0000:84:00.0":            two(nvidia.VGPUType{Name: "nvidia-35", DeviceAddresses: []string{card}}, nvidia.VGPUType{Name: "nvidia-36", DeviceAddresses: []string{card}}),
		"Invalid vGPU config: Incorrect PCI address: 84:00.0":                          two(nvidia.VGPUType{Name: "nvidia-35", DeviceAddresses: []string{"84:00.0"}}, nvidia.VGPUType{}),
		"Invalid vGPU config: Duplicate vgpu type nvidia-35":                           two(nvidia.VGPUType{Name: "nvidia-35", DeviceAddresses: []string{card}}, nvidia.VGPUType{Name: "nvidia-35", DeviceAddresses: []string{other}}),
		`Invalid vGPU config: Incorrect vgpu type name: "../x"`:                        two(nvidia.VGPUType{Name: "../x", DeviceAddresses: []string{card}}, nvidia.VGPUType{}),
		"no host name": {},
		`extra_traits: driver: bad name: trait "x": character 'x' is not allowed`: {Host: "h", Policy: driver.Policy{ExtraTraits: []string{"x"}}},
	} {
		_, err := nvidia.New(c, sysfs.NewMemory())
		if !errors.Is(err, driver.ErrConfig) || err.Error() != "bad configuration: "+want {
			t.Errorf("New: %v, want %s", err, want)
		}
	}
	report := discover(t, divide("nvidia-99", card), drivertest.Tree(t, t4(card)))
	if got := report.Problems[0].Error(); !strings.HasSuffix(got, "Invalid requested vGPU type: nvidia-99") {
		t.Errorf("problem: %s", got)
	}
}

func TestTheConfigurationIsJSON(t *testing.T) {
	t.Parallel()
	var c nvidia.Config
	dec := json.NewDecoder(strings.NewReader(`{"host": "compute1", "filter_sriov_vfs": true, "allowed_drivers": ["x"], "extra_traits": ["CUSTOM_A"],
		"enabled_vgpu_types": [{"name": "nvidia-35", "device_addresses": ["0000:84:00.0"]}]}`))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	want := nvidia.Config{Host: "compute1", FilterSRIOVVFs: true, Policy: driver.Policy{AllowedDrivers: []string{"x"}, ExtraTraits: []string{"CUSTOM_A"}},
		EnabledVGPUTypes: []nvidia.VGPUType{{Name: "nvidia-35", DeviceAddresses: []string{card}}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMdevErrors(t *testing.T) {
	t.Parallel()
	good := driver.Mdev{UUID: id1, Parent: card, Type: "nvidia-35"}
	for _, tt := range []struct {
		name   string
		mdev   driver.Mdev
		before func(*sysfs.Memory)
		want   error
	}{
		{"no uuid", driver.Mdev{UUID: "x", Parent: card, Type: "nvidia-35"}, nil, driver.ErrHandle},
		{"a path for a type", driver.Mdev{UUID: id1, Parent: card, Type: "../nvidia-35"}, nil, driver.ErrHandle},
		{"a type not configured", driver.Mdev{UUID: id1, Parent: card, Type: "nvidia-36"}, nil, driver.ErrConfig},
		{"a card not configured", driver.Mdev{UUID: id1, Parent: other, Type: "nvidia-35"}, nil, driver.ErrConfig},
		{"a card gone", good, func(m *sysfs.Memory) { m.Remove("class/mdev_bus/" + card) }, fs.ErrNotExist},
		{"no permission", good, func(m *sysfs.Memory) {
			m.SetFile("class/mdev_bus/"+card+"/mdev_supported_types/nvidia-35/create", nil)
		}, fs.ErrPermission},
		{"uuid in use elsewhere", good, func(m *sysfs.Memory) {
			if err := m.WriteFile("class/mdev_bus/"+other+"/mdev_supported_types/nvidia-35/create", []byte(id1)); err != nil {
				panic(err)
			}
		}, fs.ErrExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, t4(card), t4(other))
			d := newDriver(t, divide("nvidia-35", card), tree)
			if tt.before != nil {
				tt.before(tree)
			}
			err := d.CreateMdev(t.Context(), tt.mdev)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.mdev.UUID) {
				t.Errorf("CreateMdev: %v, want %v and the uuid", err, tt.want)
			}
		})
	}
}

func TestAnMdevOfAFormerConfigurationCanBeRemoved(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, t4(card))
	makeMdev(tree, "nvidia-36", id2)
	d := newDriver(t, divide("nvidia-35", card), tree)
	if err := d.RemoveMdev(t.Context(), driver.Mdev{UUID: id2, Parent: card, Type: "nvidia-36"}); err != nil || len(tree.Mdevs()) != 0 {
		t.Errorf("RemoveMdev: %v, left %v", err, tree.Mdevs())
	}
}

func TestACancelledDiscoveryReportsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := newDriver(t, nvidia.Config{}, drivertest.Tree(t, t4(card))).Discover(ctx)
	if !errors.Is(err, context.Canceled) || len(report.Devices) != 0 {
		t.Errorf("Discover: %+v, %v", report, err)
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{t4(card), t4(other)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := nvidia.New(nvidia.Config{Host: "compute1", EnabledVGPUTypes: []nvidia.VGPUType{
		{Name: "nvidia-35", DeviceAddresses: []string{card}},
	}}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, device := range report.Devices {
		p := device.Deployables[0]
		fmt.Println(p.Name, p.NumAccelerators, p.Class, p.Traits)
	}
	// Output:
	// compute1_0000:84:00.0 3 VGPU [OWNER_CYBORG CUSTOM_NVIDIA_1EB8_T4_1B]
	// compute1_0000:85:00.0 1 PGPU [OWNER_CYBORG CUSTOM_NVIDIA_1EB8]
}
