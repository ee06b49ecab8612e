package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/ascend"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/hpts"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/ssd"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	damaged = "0000:84:00.0" // the function that is broken
	sound   = "0000:85:00.0" // the one beside it
)

// pciDriver is a driver that a PCISpec describes.
type pciDriver struct {
	name   string
	make   func(driver.Policy, driver.Tree) (driver.Driver, error)
	device sysfs.PCIDevice // one that it offers
}

func pciDrivers() []pciDriver {
	return []pciDriver{
		{"qat", func(p driver.Policy, tree driver.Tree) (driver.Driver, error) {
			return qat.New(qat.Config{Host: "h", Policy: p}, tree)
		}, sysfs.PCIDevice{Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx"}},
		{"nic", func(p driver.Policy, tree driver.Tree) (driver.Driver, error) {
			return nic.New(nic.Config{Host: "h", Policy: p}, tree)
		}, sysfs.PCIDevice{Vendor: "8086", Product: "1572", Class: "0200", Driver: "vfio-pci"}},
		{"ssd", func(p driver.Policy, tree driver.Tree) (driver.Driver, error) {
			return ssd.New(ssd.Config{Host: "h", Policy: p, DeviceSpec: []ssd.Spec{{VendorID: "1bd4"}}}, tree)
		}, sysfs.PCIDevice{Vendor: "1bd4", Product: "1001", Class: "0108", Driver: "nvme"}},
		{"ascend", func(p driver.Policy, tree driver.Tree) (driver.Driver, error) {
			return ascend.New(ascend.Config{Host: "h", Policy: p}, tree)
		}, sysfs.PCIDevice{Vendor: "19e5", Product: "d801", Class: "1200", Driver: "devdrv_device_driver"}},
		{"hpts", func(p driver.Policy, tree driver.Tree) (driver.Driver, error) {
			return hpts.New(hpts.Config{Host: "h", Policy: p}, tree)
		}, sysfs.PCIDevice{Vendor: "1cf2", Product: "2001", Class: "1110"}},
	}
}

// at puts the device at an address.
func (o pciDriver) at(address string, change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := o.device
	d.Address = address
	for _, c := range change {
		c(&d)
	}
	return d
}

func (o pciDriver) new(t testing.TB, p driver.Policy, tree driver.Tree) driver.Driver {
	t.Helper()
	d, err := o.make(p, tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// handles are the addresses that a report gives away.
func handles(report driver.Report) []string {
	var list []string
	for _, d := range report.Devices {
		for _, p := range d.Deployables {
			for _, h := range p.AttachHandles {
				a, err := driver.PCIAddressOf(h.Info)
				if err != nil {
					return []string{err.Error()}
				}
				list = append(list, a.String())
			}
		}
	}
	return list
}

func divided(enabled int) func(*sysfs.PCIDevice) {
	return func(d *sysfs.PCIDevice) {
		d.VFs = &sysfs.VFs{Total: 4, Enabled: enabled, Driver: "vfio-pci"}
	}
}

func TestPCIDriversDoNotOfferBrokenFunctions(t *testing.T) {
	t.Parallel()
	dir := "bus/pci/devices" + "/" + damaged
	deny := func(m *sysfs.Memory, name string) {
		if err := m.Deny(name); err != nil {
			panic(err)
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(*sysfs.Memory)
		file  string
		want  error // nil: any
	}{
		{"vendor missing", func(m *sysfs.Memory) { m.Remove(dir + "/vendor") }, dir + "/vendor", fs.ErrNotExist},
		{"device empty", func(m *sysfs.Memory) { m.SetFile(dir+"/device", nil) }, dir + "/device", driver.ErrGarbled},
		{"class garbled", func(m *sysfs.Memory) { m.SetFile(dir+"/class", []byte("0x1e240000\n")) }, dir + "/class", driver.ErrGarbled},
		{"vendor huge", func(m *sysfs.Memory) { m.SetFile(dir+"/vendor", make([]byte, 1<<20)) }, dir + "/vendor", sysfs.ErrTooLarge},
		{"vendor denied", func(m *sysfs.Memory) { deny(m, dir+"/vendor") }, dir + "/vendor", fs.ErrPermission},
		{"directory denied", func(m *sysfs.Memory) { deny(m, dir) }, dir, fs.ErrPermission},
		{"a cycle", func(m *sysfs.Memory) { m.SetLink(dir, damaged) }, dir + "/vendor", nil},
		{"a link out of the tree", func(m *sysfs.Memory) { m.SetLink(dir, "../../../../../etc") }, dir + "/vendor", sysfs.ErrEscapes},
		{"a link to the other device", func(m *sysfs.Memory) { m.SetLink(dir, sound) }, dir, driver.ErrGarbled},
		{"unplugged", func(m *sysfs.Memory) { m.Remove("devices/pci0000:84") }, dir + "/vendor", fs.ErrNotExist},
		{"VF count negative", func(m *sysfs.Memory) { m.SetFile(dir+"/sriov_numvfs", []byte("-1\n")) }, dir + "/sriov_numvfs", driver.ErrGarbled},
		{"VF count huge", func(m *sysfs.Memory) { m.SetFile(dir+"/sriov_numvfs", []byte("4294967296\n")) }, dir + "/sriov_numvfs", driver.ErrGarbled},
		{"physfn no link", func(m *sysfs.Memory) { m.SetFile(dir+"/physfn", nil) }, dir + "/physfn", fs.ErrInvalid},
		{"physfn no address", func(m *sysfs.Memory) { m.SetLink(dir+"/physfn", "../nonsense") }, dir + "/physfn", driver.ErrGarbled},
		{"physfn to itself", func(m *sysfs.Memory) { m.SetLink(dir+"/physfn", "../"+damaged) }, dir + "/physfn", driver.ErrGarbled},
		{"driver no link", func(m *sysfs.Memory) { m.SetFile(dir+"/driver", nil) }, dir + "/driver", fs.ErrInvalid},
		{"an interface that is removed during the read", func(m *sysfs.Memory) { m.SetFile(dir+"/net/eth0/mtu", []byte("1500\n")) }, dir + "/net/eth0/flags", fs.ErrNotExist},
		{"a path of a disk that no path leads to", func(m *sysfs.Memory) { m.SetFile(dir+"/nvme/nvme0/nvme0c0n1/size", []byte("1\n")) }, "class/block/nvme0n1", fs.ErrNotExist},
		{"flags of an interface garbled", func(m *sysfs.Memory) { m.SetFile(dir+"/net/eth0/flags", []byte("up\n")) }, dir + "/net/eth0/flags", driver.ErrGarbled},
		{"IOMMU group garbled", func(m *sysfs.Memory) { m.SetLink(dir+"/iommu_group", "../../x") }, dir + "/iommu_group", driver.ErrGarbled},
		{"IOMMU group denied", func(m *sysfs.Memory) {
			m.SetLink(dir+"/iommu_group", "../../../kernel/iommu_groups/9")
			m.SetLink("bus/pci/devices/"+sound+"/iommu_group", "../../../kernel/iommu_groups/10")
			m.SetFile("kernel/iommu_groups/9/devices/x", nil)
			deny(m, "kernel/iommu_groups/9/devices")
		}, "kernel/iommu_groups/9/devices", fs.ErrPermission},
	} {
		for _, o := range pciDrivers() {
			t.Run(tt.name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				m := drivertest.Tree(t, o.at(damaged), o.at(sound))
				tt.spoil(m)
				report := drivertest.Discover(t, o.new(t, driver.Policy{}, m))
				if diff := cmp.Diff([]string{sound}, handles(report)); diff != "" {
					t.Errorf("offered (-want +got):\n%s", diff)
				}
				if len(report.Problems) != 1 {
					t.Fatalf("problems: %v, want one", report.Problems)
				}
				if p := report.Problems[0]; p.Address != damaged || p.File != tt.file || p.Err == nil || tt.want != nil && !errors.Is(p, tt.want) {
					t.Errorf("problem %+v, want address %s, file %s, cause %v", p, damaged, tt.file, tt.want)
				}
			})
		}
	}
}

// vanishing is a tree in which one file goes while others are read.
type vanishing struct {
	*sysfs.Memory
	gone string
}

// ReadFile implements driver.Tree.
func (v vanishing) ReadFile(name string) ([]byte, error) {
	if name == v.gone {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return v.Memory.ReadFile(name)
}

func TestAFileThatVanishesWhileReadIsAProblemOfItsDevice(t *testing.T) {
	t.Parallel()
	for _, o := range pciDrivers() {
		m := drivertest.Tree(t, o.at(damaged, divided(0)), o.at(sound))
		file := "bus/pci/devices" + "/" + damaged + "/sriov_numvfs" // listed, and not there when read
		report := drivertest.Discover(t, o.new(t, driver.Policy{}, vanishing{m, file}))
		if diff := cmp.Diff([]string{sound}, handles(report)); diff != "" {
			t.Errorf("%s: offered (-want +got):\n%s", o.name, diff)
		}
		if len(report.Problems) != 1 || report.Problems[0].File != file || report.Problems[0].Address != damaged {
			t.Errorf("%s: problems %v", o.name, report.Problems)
		}
	}
}

func TestPCIDriversOfferVirtualFunctionsInsteadOfTheirPhysicalOne(t *testing.T) {
	t.Parallel()
	dir := "bus/pci/devices" + "/" + damaged
	vfs := []string{"0000:84:00.1", "0000:84:00.2"}
	for _, tt := range []struct {
		name    string
		before  func(*sysfs.Memory)
		want    []string
		leftOut []string
	}{
		{"linked both ways", func(*sysfs.Memory) {}, vfs, []string{damaged}},
		{"linked by the physical function alone", func(m *sysfs.Memory) { m.Remove(dir[:len(dir)-1] + "1/physfn") }, vfs, []string{damaged}},
		{"linked by the virtual functions alone", func(m *sysfs.Memory) {
			m.Remove(dir + "/virtfn0")
			m.Remove(dir + "/virtfn1")
			m.SetFile(dir+"/sriov_numvfs", []byte("0\n"))
		}, vfs, []string{damaged}},
		{"not linked, and counted", func(m *sysfs.Memory) {
			for _, name := range []string{"/virtfn0", "/virtfn1"} {
				m.Remove(dir + name)
			}
			for _, vf := range vfs {
				m.Remove("bus/pci/devices" + "/" + vf)
			}
		}, nil, []string{damaged}},
		{"a physical function in trouble", func(m *sysfs.Memory) { m.SetFile(dir+"/sriov_numvfs", []byte("x")) }, vfs, []string{damaged}},
	} {
		for _, o := range pciDrivers() {
			t.Run(tt.name+"/"+o.name, func(t *testing.T) {
				t.Parallel()
				m := drivertest.Tree(t, o.at(damaged, divided(2)))
				tt.before(m)
				report := drivertest.Discover(t, o.new(t, driver.Policy{}, m))
				if diff := cmp.Diff(tt.want, handles(report)); diff != "" {
					t.Errorf("offered (-want +got):\n%s", diff)
				}
				if len(tt.want) > 0 && (len(report.Devices) != 1 || report.Devices[0].ControlPath.Address().String() != damaged) {
					t.Errorf("devices %+v, want one at %s", report.Devices, damaged)
				}
				var leftOut []string
				for _, l := range report.LeftOut {
					leftOut = append(leftOut, l.Address)
				}
				if diff := cmp.Diff(tt.leftOut, leftOut); diff != "" {
					t.Errorf("left out (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestVirtualFunctionsOfAnotherDriversFunctionAreSkipped(t *testing.T) {
	t.Parallel()
	for _, o := range pciDrivers() {
		foreign := o.at(damaged, divided(2), func(d *sysfs.PCIDevice) {
			d.VFs.Product = d.Product
			d.Vendor, d.Product = "1d55", "1000"
		})
		m := drivertest.Tree(t, foreign, o.at(sound))
		for _, vf := range []string{"0000:84:00.1", "0000:84:00.2"} { // of the driver's own kind
			m.SetFile("bus/pci/devices"+"/"+vf+"/vendor", []byte("0x"+o.device.Vendor+"\n"))
		}
		report := drivertest.Discover(t, o.new(t, driver.Policy{}, m))
		if diff := cmp.Diff([]string{sound}, handles(report)); diff != "" || len(report.Problems) > 0 || len(report.LeftOut) != 2 ||
			!strings.Contains(report.LeftOut[0].Reason, "virtual function of 0000:84:00.0, which is not a device of this driver") {
			t.Errorf("%s: report %+v, offered (-want +got):\n%s", o.name, report, diff)
		}
	}
}

func TestPCIDriversCheckIOMMUGroups(t *testing.T) {
	t.Parallel()
	group := 3
	beside := sysfs.PCIDevice{Address: "0000:84:00.1", Vendor: "8086", Product: "a1af", Class: "0c03", Driver: "xhci_hcd", IOMMUGroup: &group}
	for _, o := range pciDrivers() {
		m := drivertest.Tree(t, o.at(damaged, func(d *sysfs.PCIDevice) { d.IOMMUGroup = &group }), beside)
		report := drivertest.Discover(t, o.new(t, driver.Policy{}, m))
		if len(report.LeftOut) != 1 || !strings.Contains(report.LeftOut[0].Reason, "IOMMU group 3") || len(report.Devices)+len(report.Warnings) > 0 {
			t.Errorf("%s: report %+v", o.name, report)
		}
	}
}

func TestABrokenFunctionOfTheIOMMUGroupKeepsTheOthersOut(t *testing.T) {
	t.Parallel()
	group := 3
	join := func(d *sysfs.PCIDevice) { d.IOMMUGroup = &group }
	file := "bus/pci/devices" + "/" + damaged + "/device"
	for _, o := range pciDrivers() {
		m := drivertest.Tree(t, o.at(damaged, join), o.at(sound, join))
		m.SetFile(file, []byte("x\n"))
		report := drivertest.Discover(t, o.new(t, driver.Policy{}, m))
		if len(report.Problems) != 1 || report.Problems[0].File != file {
			t.Errorf("%s: problems %v, want one of %s", o.name, report.Problems, file)
		}
		if len(report.Devices) != 0 || len(report.LeftOut) != 1 || report.LeftOut[0].Address != sound || !strings.Contains(report.LeftOut[0].Reason, "not understood") {
			t.Errorf("%s: devices %d, left out %v", o.name, len(report.Devices), report.LeftOut)
		}
	}
}

func TestPCIDriversReportTheConfiguredMemory(t *testing.T) {
	t.Parallel()
	policy := driver.Policy{LocalMemory: []driver.LocalMemory{
		{Type: "HBM", MiB: 32768, Address: damaged, Shared: true}, {Type: "DDR4", MiB: 1024},
	}}
	for _, o := range pciDrivers() {
		report := drivertest.Discover(t, o.new(t, policy, drivertest.Tree(t, o.at(damaged), o.at(sound))))
		if len(report.Devices) != 2 {
			t.Fatalf("%s: report %+v", o.name, report)
		}
		got := []map[string]int{report.Devices[0].Resources, report.Devices[0].Deployables[0].Resources, report.Devices[1].Resources, report.Devices[1].Deployables[0].Resources}
		want := []map[string]int{{"CUSTOM_ACCELERATOR_MEMORY_HBM": 32768}, {"CUSTOM_ACCELERATOR_MEMORY_DDR4": 1024}, nil, {"CUSTOM_ACCELERATOR_MEMORY_DDR4": 1024}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: memory (-want +got):\n%s", o.name, diff)
		}
	}
}

func TestPCIDriversListTheirClaims(t *testing.T) {
	t.Parallel()
	for _, o := range pciDrivers() {
		d := o.new(t, driver.Policy{}, drivertest.Tree(t, o.at(damaged)))
		functions, _, err := driver.NewView(d.(driver.TreeDriver).Tree()).PCIFunctions(t.Context())
		if err != nil || len(functions) != 1 {
			t.Fatal(functions, err)
		}
		claims := d.(driver.Claimer).Claims()
		if !slices.ContainsFunc(claims, func(c driver.Claim) bool { return c.Covers(functions[0]) && c.Why != "" }) {
			t.Errorf("%s: %+v is not claimed by %+v", o.name, functions[0], claims)
		}
	}
}

// counting counts what is opened.
type counting struct {
	driver.Tree
	opened map[string]int
}

// ReadFile implements driver.Tree.
func (c counting) ReadFile(name string) ([]byte, error) {
	c.opened[path.Clean(name)]++
	return c.Tree.ReadFile(name)
}

func TestADiscoveryOpensAFileAtMostOnceAndTheNextReadsItAgain(t *testing.T) {
	t.Parallel()
	for _, o := range pciDrivers() {
		m := drivertest.Tree(t, o.at(damaged, divided(2)), o.at(sound, func(d *sysfs.PCIDevice) {
			d.Clocks = []sysfs.Clock{{Name: "ptp0", ClockName: "c"}}
			d.Interfaces = []sysfs.Interface{{Name: "eth0", Up: true}}
		}))
		opened := make(map[string]int)
		d := o.new(t, driver.Policy{}, counting{m, opened})
		drivertest.Discover(t, d)
		if len(opened) == 0 {
			t.Errorf("%s opened nothing", o.name)
		}
		for name, n := range opened {
			if n > 1 {
				t.Errorf("%s: %s opened %d times", o.name, name, n)
			}
		}
		m.Remove("devices/pci0000:84")
		m.Remove("bus/pci/devices" + "/" + damaged)
		m.Remove("bus/pci/devices" + "/0000:84:00.1")
		m.Remove("bus/pci/devices" + "/0000:84:00.2")
		if got := handles(drivertest.Discover(t, d)); len(got) != 0 {
			t.Errorf("%s: offers %v, which no longer exist", o.name, got)
		}
	}
}

func TestACancelledDiscoveryReportsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range pciDrivers() {
		report, err := o.new(t, driver.Policy{}, drivertest.Tree(t, o.at(damaged))).Discover(ctx)
		if !errors.Is(err, context.Canceled) || len(report.Devices) > 0 {
			t.Errorf("%s: %+v, %v", o.name, report, err)
		}
	}
}

// FuzzPCIDrivers lets all drivers discover randomly damaged machines. No driver panics,
// everything offered can be stored, and nothing is both offered and skipped.
func FuzzPCIDrivers(f *testing.F) {
	for _, seed := range [][]byte{nil, {1, 2, 3}, {5, 0, 1, 1, 2, 0, 1, 3, 2, 1, 0, 1, 9, 4, 2}, []byte("all the king's horses and all the king's men")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		var devices []sysfs.PCIDevice
		for i := range 1 + c.below(6) {
			o := pciDrivers()[c.below(len(pciDrivers()))]
			group := c.below(3)
			devices = append(devices, o.at(fmt.Sprintf("0000:%02x:00.0", 0x10+i), divided(c.below(4)), func(d *sysfs.PCIDevice) {
				d.Driver, d.IOMMUGroup = pick(c, d.Driver, "", "vfio-pci", "x"), &group
				d.Interfaces = []sysfs.Interface{{Name: fmt.Sprintf("eth%d", i), Up: c.below(3) == 1}}[:c.below(2)]
				d.Clocks = []sysfs.Clock{{Name: fmt.Sprintf("ptp%d", i), ClockName: pick(c, "c", "é", "")}}[:c.below(2)]
				d.Disks = []sysfs.Disk{{Name: fmt.Sprintf("nvme%dn1", i), Major: 259, Minor: i}}[:c.below(2)]
			}))
		}
		m := drivertest.Tree(t, devices...)
		for names := paths(m, "bus/pci/devices"); len(c.data) > 0 && len(names) > 0; {
			at := names[(c.below(256)*256+c.below(256))%len(names)]
			switch c.below(5) {
			case 0:
				m.Remove(at)
			case 1:
				m.SetFile(at, pick(c, nil, []byte("0x1572\n"), []byte("-1\n"), make([]byte, 1<<17), []byte("99999999999\n")))
			case 2:
				m.SetLink(at, pick(c, path.Base(at), "../../../..", "/etc", "../0000:10:00.0", "../0000:11:00.1", "x"))
			case 3:
				_ = m.Deny(at) // it may be gone
			case 4:
				m.SetLink(path.Dir(at)+"/virtfn7", pick(c, "../0000:10:00.0", "../0000:11:00.0", "../x"))
			}
		}
		for _, o := range pciDrivers() {
			report := drivertest.Discover(t, o.new(t, driver.Policy{}, m))
			given := handles(report)
			for _, l := range report.LeftOut {
				if slices.Contains(given, l.Address) {
					t.Errorf("%s: %s is offered and left out: %s", o.name, l.Address, l.Reason)
				}
			}
			for _, w := range report.Warnings {
				if !slices.Contains(given, w.Address) {
					t.Errorf("%s: %s is warned about and not offered: %s", o.name, w.Address, w.Reason)
				}
			}
			slices.Sort(given)
			if twice := slices.Compact(slices.Clone(given)); len(twice) != len(given) {
				t.Errorf("%s: offered twice: %v", o.name, given)
			}
		}
	})
}

// A driver for a card of one's own needs no more than what the card is called.
func ExampleNewPCIDriver() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3b:00.0", Vendor: "1d55", Product: "1000", Class: "1200", VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "1001"}},
		{Address: "0000:5e:00.0", Vendor: "1d55", Product: "1000", Class: "1200", Driver: "uio_pci_generic"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := driver.NewPCIDriver(driver.PCISpec{
		Driver: "widget", Host: "compute1",
		Claims: []driver.Claim{{Vendor: 0x1d55, Product: 0x1000, Why: "Widget"}},
		Device: func(u driver.Unit) driver.Device {
			return driver.Device{Vendor: u.VendorID(), Model: "Widget", Type: driver.TypeAICHIP}
		},
		Subject: func(driver.Unit) driver.Subject {
			return driver.Subject{Type: driver.TypeAICHIP, Vendor: "widget", ShippedClass: "CUSTOM_WIDGET", Shipped: []string{"CUSTOM_WIDGET_MARK_2"}}
		},
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
	for _, device := range report.Devices {
		for _, p := range device.Deployables {
			fmt.Println(p.Name, p.Class, p.Traits)
		}
	}
	for _, l := range report.LeftOut {
		fmt.Println("left out:", l.Address, l.Reason)
	}
	// Output:
	// compute1_0000:3b:00.1 CUSTOM_WIDGET [CUSTOM_WIDGET_MARK_2]
	// compute1_0000:3b:00.2 CUSTOM_WIDGET [CUSTOM_WIDGET_MARK_2]
	// left out: 0000:3b:00.0 physical function with virtual functions (2), which are offered instead
	// left out: 0000:5e:00.0 bound to driver uio_pci_generic, which is not among the allowed ones
}
