package fpga_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const other = "0000:af:00.0"

func TestTroubleWithOneCardLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	const (
		dev  = "class/fpga/intel-fpga-dev.0"
		fme  = dev + "/intel-fpga-fme.0"
		port = dev + "/intel-fpga-port.0"
	)
	deny := func(name string) func(t *testing.T, m *sysfs.Memory) {
		return func(t *testing.T, m *sysfs.Memory) {
			if err := m.Deny(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(name, text string) func(t *testing.T, m *sysfs.Memory) {
		return func(_ *testing.T, m *sysfs.Memory) { m.SetFile(name, []byte(text)) }
	}
	link := func(name, target string) func(t *testing.T, m *sysfs.Memory) {
		return func(_ *testing.T, m *sysfs.Memory) { m.Remove(name); m.SetLink(name, target) }
	}
	tests := []struct {
		name    string
		vfs     int
		damage  func(t *testing.T, m *sysfs.Memory)
		address string
		file    string
		cause   error
		offered []string // of the damaged card
	}{
		{name: "empty interface id", damage: file(fme+"/pr/interface_id", ""), address: pf, file: fme + "/pr/interface_id", cause: driver.ErrGarbled},
		{name: "garbled interface id", damage: file(fme+"/pr/interface_id", "xyz\n"), address: pf, file: fme + "/pr/interface_id", cause: driver.ErrGarbled},
		{name: "garbled interface id below virtual functions", vfs: 2, damage: file(fme+"/pr/interface_id", id("x")), address: pf, file: fme + "/pr/interface_id", cause: driver.ErrGarbled},
		{name: "oversized interface id", damage: file(fme+"/pr/interface_id", strings.Repeat("a", 64<<10+1)), address: pf, file: fme + "/pr/interface_id", cause: sysfs.ErrTooLarge},
		{name: "denied interface id", damage: deny(fme + "/pr/interface_id"), address: pf, file: fme + "/pr/interface_id", cause: fs.ErrPermission},
		{name: "cyclic interface id", damage: link(fme+"/pr/interface_id", "interface_id"), address: pf, file: fme + "/pr/interface_id"},
		{name: "interface id out of the tree", damage: link(fme+"/pr/interface_id", "/etc/passwd"), address: pf, file: fme + "/pr/interface_id", cause: sysfs.ErrEscapes},
		{name: "garbled number of ports", damage: file(fme+"/ports_num", "-1"), address: pf, file: fme + "/ports_num", cause: driver.ErrGarbled},
		{name: "engine without a number", damage: file(dev+"/intel-fpga-fme.x/y", ""), address: pf, file: dev + "/intel-fpga-fme.x", cause: driver.ErrGarbled},
		{name: "port with a huge number", damage: file(dev+"/intel-fpga-port.99999999999/y", ""), address: pf, file: dev + "/intel-fpga-port.99999999999", cause: driver.ErrGarbled},
		{name: "garbled function", damage: file(port+"/afu_id", id("g")), address: pf, file: port + "/afu_id", cause: driver.ErrGarbled},
		{name: "function is a directory", damage: func(_ *testing.T, m *sysfs.Memory) { m.Remove(port + "/afu_id"); m.SetFile(port+"/afu_id/x", nil) },
			address: pf, file: port + "/afu_id", cause: sysfs.ErrNotRegular},
		{name: "garbled function of one virtual function", vfs: 2, damage: file("class/fpga/intel-fpga-dev.2/intel-fpga-port.0/afu_id", "x"),
			address: "0000:5e:00.1", file: "class/fpga/intel-fpga-dev.2/intel-fpga-port.0/afu_id", cause: driver.ErrGarbled, offered: []string{"5e.2"}},
		{name: "denied container", damage: deny(dev), address: pf, file: dev, cause: fs.ErrPermission},
		{name: "garbled state", damage: file(pciDir+pf+"/sriov_numvfs", "many"), address: pf, file: pciDir + pf + "/sriov_numvfs", cause: driver.ErrGarbled},
		{name: "garbled state of one virtual function", vfs: 2, damage: file(pciDir+"0000:5e:00.2/boot_vga", "?"), address: "0000:5e:00.2",
			file: pciDir + "0000:5e:00.2/boot_vga", cause: driver.ErrGarbled, offered: []string{"5e.1"}},
		{name: "virtual function that is not on the bus", vfs: 2, damage: func(_ *testing.T, m *sysfs.Memory) { m.Remove(pciDir + "0000:5e:00.2") },
			address: "0000:5e:00.2", file: pciDir + "0000:5e:00.2", offered: []string{"5e.1"}},
		{name: "virtual function of two", vfs: 2, damage: link(pciDir+"0000:5e:00.2/physfn", "../"+other), address: "0000:5e:00.2",
			file: pciDir + "0000:5e:00.2/physfn", cause: driver.ErrGarbled, offered: []string{"5e.1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := drivertest.Tree(t, intelCard(pf, 0, "1", "aa", tt.vfs), intelCard(other, 1, "1", "b", 0))
			tt.damage(t, m)
			report := intel(t, fpga.Config{}, m)
			var offered []string
			healthy := false
			for _, d := range report.Devices {
				for _, p := range d.Deployables {
					for _, h := range p.AttachHandles {
						a, _ := driver.PCIAddressOf(h.Info)
						if healthy = healthy || a.String() == other; a.String() != other {
							offered = append(offered, fmt.Sprintf("%02x.%d", a.Bus, a.Function))
						}
					}
				}
			}
			if diff := cmp.Diff(tt.offered, offered); diff != "" || !healthy {
				t.Errorf("the other card offered: %t; of this one (-want +got):\n%s", healthy, diff)
			}
			if len(report.Problems) == 0 {
				t.Fatal("no problem")
			}
			p := report.Problems[len(report.Problems)-1] // a dangling link is another
			if p.Address != tt.address || p.File != tt.file || tt.cause != nil && !errors.Is(p, tt.cause) {
				t.Errorf("problem %v, want one of %s, %s: %v", p, tt.address, tt.file, tt.cause)
			}
		})
	}
}

func TestABrokenClassIsAProblemOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(m *sysfs.Memory){
		"class/fpga":                         func(m *sysfs.Memory) { m.Remove("class/fpga"); m.SetFile("class/fpga", nil) },
		"class/fpga/intel-fpga-dev.7/device": func(m *sysfs.Memory) { m.SetLink("class/fpga/intel-fpga-dev.7", "../nowhere") },
		"class/fpga/intel-fpga-dev.8/device": func(m *sysfs.Memory) { m.SetLink("class/fpga/intel-fpga-dev.8/device", "../../0000:99:00.0") },
		"class/fpga/intel-fpga-dev.9/device": func(m *sysfs.Memory) { m.SetLink("class/fpga/intel-fpga-dev.9/device", "../../platform") },
	} {
		m := drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0))
		damage(m)
		report := intel(t, fpga.Config{}, m)
		if len(report.Problems) != 1 || report.Problems[0].File != name || len(report.Devices) != 1 {
			t.Errorf("%s: problems %v, devices %d", name, report.Problems, len(report.Devices))
		}
	}
}

func TestAnUnclearDivisionIsAProblem(t *testing.T) {
	t.Parallel()
	partly := intelCard(pf, 0, "12", "aa", 2) // the second virtual function has the first port
	partly.FPGA.Ports[0].VF, partly.FPGA.Ports[1].VF = 0, 1
	for name, tt := range map[string]struct {
		device sysfs.PCIDevice
		text   string
	}{
		"three ports in two regions": {intelCard(pf, 0, "12", "abc", 3), "2 regions, 3 ports"},
		"some ports are hidden":      {partly, "some virtual functions show no port"},
		"a virtual function leads to several": {func() sysfs.PCIDevice {
			d := intelCard(pf, 0, "12", "ab", 2)
			d.FPGA.Ports[1].VF = 1
			d.VFs.Total, d.VFs.Enabled = 1, 1
			return d
		}(), "leads to regions [0 1]"},
	} {
		report := intel(t, fpga.Config{}, drivertest.Tree(t, tt.device, intelCard(other, 1, "3", "b", 0)))
		if len(report.Problems) != 1 || !errors.Is(report.Problems[0], fpga.ErrRegion) || !strings.Contains(report.Problems[0].Error(), tt.text) || len(report.Devices) != 1 {
			t.Errorf("%s: problems %v, devices %v", name, report.Problems, lines(report))
		}
	}
}

func TestMissingVirtualFunctionsDoNotMoveTheOthers(t *testing.T) {
	t.Parallel()
	second := "cn0_" + pf + "_region1 1 of 5e.2:"
	for name, tt := range map[string]struct {
		damage func(m *sysfs.Memory)
		want   []string
	}{
		"one is not understood":        {func(m *sysfs.Memory) { m.SetFile(pciDir+"0000:5e:00.1/vendor", nil) }, []string{second}},
		"its state is not":             {func(m *sysfs.Memory) { m.SetFile(pciDir+"0000:5e:00.1/boot_vga", nil) }, []string{second}},
		"its function is not":          {func(m *sysfs.Memory) { m.SetFile("class/fpga/intel-fpga-dev.1/intel-fpga-port.0/afu_id", nil) }, []string{second}},
		"one was removed":              {func(m *sysfs.Memory) { m.Remove(pciDir + "0000:5e:00.1") }, []string{second}},
		"one was removed and its link": {func(m *sysfs.Memory) { m.Remove(pciDir + "0000:5e:00.1"); m.Remove(pciDir + pf + "/virtfn0") }, nil},
		"some are not to be seen":      {func(m *sysfs.Memory) { m.SetFile(pciDir+pf+"/sriov_numvfs", []byte("4")) }, nil},
	} {
		m := drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2))
		tt.damage(m)
		report := intel(t, fpga.Config{}, m)
		var got []string
		for _, line := range lines(report) {
			start, _, _ := strings.Cut(line, ": ")
			got = append(got, start+":")
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || len(report.Problems) == 0 {
			t.Errorf("%s: problems %v, offered (-want +got):\n%s", name, report.Problems, diff)
		}
	}
}

func TestHalfOfAXilinxCardIsNotOffered(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"0000:3b:00.0", "0000:3b:00.1"} {
		for _, file := range []string{"/boot_vga", "/vendor", "/device", "/class"} {
			m := drivertest.Tree(t, append(alveo("0000:3b:00"), alveo("0000:3c:00")...)...)
			m.SetFile(pciDir+broken+file, []byte("?"))
			report := xilinx(t, fpga.Config{}, m)
			var at []string
			for _, p := range report.Problems {
				at = append(at, p.Address)
			}
			slices.Sort(at)
			if len(report.Devices) != 1 || !slices.Equal(at, []string{"0000:3b:00.0", "0000:3b:00.1"}) {
				t.Errorf("%s%s: problems %v, offered %v", broken, file, report.Problems, lines(report))
			}
		}
	}
}

// counting counts what is read of a tree, and lets a file vanish.
type counting struct {
	driver.Tree
	mu     sync.Mutex
	reads  map[string]int
	vanish string
}

func (c *counting) count(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads[name]++
	if c.vanish != "" && strings.HasSuffix(name, c.vanish) {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return nil
}

func (c *counting) ReadFile(name string) ([]byte, error) {
	if err := c.count(name); err != nil {
		return nil, err
	}
	return c.Tree.ReadFile(name)
}

func (c *counting) WriteFile(name string, _ []byte) error {
	return fmt.Errorf("a discovery writes %s", name)
}

func TestADiscoveryReadsEachFileOnce(t *testing.T) {
	t.Parallel()
	c := &counting{Tree: drivertest.Tree(t, append(alveo("0000:3b:00"), intelCard(pf, 0, "12", "ab", 2), inspurCard("0000:3c:00.0"))...), reads: make(map[string]int)}
	intel(t, fpga.Config{}, c)
	for name, n := range c.reads {
		if n > 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
	if len(c.reads) < 10 {
		t.Errorf("only %d files were read", len(c.reads))
	}
	// every discovery sees the present tree
	c.vanish = "interface_id"
	if got := lines(intel(t, fpga.Config{}, c)); len(got) != 2 || strings.Contains(got[0], "REGION_INTEL") {
		t.Errorf("the type of a region vanished: %v", got)
	}
	c.vanish = "0000:5e:00.1/vendor"
	report := intel(t, fpga.Config{}, c)
	if got := lines(report); len(got) != 1 || !strings.HasPrefix(got[0], "cn0_"+pf+"_region1 1 of 5e.2:") || len(report.Problems) != 1 {
		t.Errorf("a function vanished: %v, %v", got, report.Problems)
	}
}

func TestACancelledDiscoveryEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tree := drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0))
	config := fpga.Config{Host: "cn0"}
	a, _ := fpga.NewIntel(config, tree)
	b, _ := fpga.NewXilinx(config, tree)
	c, _ := fpga.NewInspur(config, tree)
	for _, d := range []driver.TreeDriver{a, b, c} {
		if report, err := d.Discover(ctx); !errors.Is(err, context.Canceled) || len(report.Devices) != 0 || d.Tree() != driver.Tree(tree) {
			t.Errorf("%s: %v, %+v", d.Name(), err, report)
		}
	}
}

// describe draws a machine with FPGAs of all vendors.
func describe(t *rapid.T) sysfs.Description {
	var d sysfs.Description
	digits := func(label string, most int) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2", "3", "a", "b"}), 0, most).Draw(t, label), "")
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "cards") {
		bus := fmt.Sprintf("0000:%02x:00", 0x10+i)
		switch rapid.SampledFrom([]string{"intel", "xilinx", "inspur"}).Draw(t, "vendor") {
		case "intel":
			card := intelCard(bus+".0", i, digits("kinds", 4), digits("functions", 8), rapid.IntRange(0, 8).Draw(t, "vfs"))
			card.Product = rapid.SampledFrom([]string{"09c4", "0b2b", "abcd"}).Draw(t, "product")
			if len(card.FPGA.Regions) < 2 && rapid.Bool().Draw(t, "dfl") {
				card.FPGA.DFL, card.Driver = true, "dfl-pci"
				card.FPGA.ManagerState = rapid.SampledFrom([]string{"", "operating", "write", "write error"}).Draw(t, "state")
			}
			if card.VFs != nil {
				card.VFs.Enabled = rapid.IntRange(0, card.VFs.Total).Draw(t, "enabled")
			}
			d.Devices = append(d.Devices, card)
		case "xilinx":
			d.Devices = append(d.Devices, alveo(bus)[rapid.IntRange(0, 1).Draw(t, "from"):]...)
		case "inspur":
			d.Devices = append(d.Devices, inspurCard(bus+".0"))
		}
	}
	return d
}

// everything discovers with all three drivers.
func everything(t interface {
	Helper()
	Fatal(...any)
}, config fpga.Config, tree driver.Tree,
) []driver.Report {
	t.Helper()
	config.Host = "cn0"
	a, err1 := fpga.NewIntel(config, tree)
	b, err2 := fpga.NewXilinx(config, tree)
	c, err3 := fpga.NewInspur(config, tree)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return driver.DiscoverAll(context.Background(), []driver.Driver{a, b, c})
}

// faults are promises that a report breaks.
func faults(tree driver.Tree, reports []driver.Report) []string {
	var list []string
	users := make(map[string]int)
	for _, report := range reports {
		for _, d := range report.Devices {
			if err := d.Validate(); err != nil {
				list = append(list, err.Error())
			}
			for _, p := range d.Deployables {
				if p.Preprogrammed() == slices.Contains(p.Traits, "CUSTOM_PROGRAMMABLE") {
					list = append(list, p.Name+" contradicts itself about being programmable")
				}
				for _, h := range p.AttachHandles {
					a, err := driver.PCIAddressOf(h.Info)
					if err != nil {
						list = append(list, err.Error())
					}
					users[a.String()]++
				}
			}
		}
	}
	for address, n := range users {
		if n > 1 {
			list = append(list, fmt.Sprintf("%s is given away %d times", address, n))
		}
		if vfs, err := tree.ReadFile(pciDir + address + "/sriov_numvfs"); err == nil && !bytes.Equal(bytes.TrimSpace(vfs), []byte("0")) {
			list = append(list, address+" is given away and has virtual functions")
		}
	}
	return list
}

func TestNoFunctionIsEverGivenTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree, err := sysfs.Generate(describe(t))
		if err != nil {
			t.Fatal(err)
		}
		config := fpga.Config{
			SeparateFunctions: rapid.Bool().Draw(t, "separate"), DoubledHandles: rapid.Bool().Draw(t, "doubled"),
			Policy: driver.Policy{TraitShape: rapid.SampledFrom([]driver.TraitShape{driver.ShapeShipped, driver.ShapeRockyScheduling, driver.ShapeRockyAgent, driver.ShapeWallaby}).Draw(t, "shape")},
		}
		reports := everything(t, config, tree)
		if list := faults(tree, reports); len(list) > 0 {
			t.Fatalf("faults: %v", list)
		}
		for _, report := range reports { // the report mentions every existing function
			for _, d := range report.Devices {
				if len(d.Deployables) == 0 {
					t.Fatalf("%s has nothing to offer", d.ControlPath.Key())
				}
			}
		}
	})
}

// FuzzTree damages a tree of all vendors' cards at three places.
func FuzzTree(f *testing.F) {
	f.Add("class/fpga/intel-fpga-dev.0/intel-fpga-fme.0/pr/interface_id", []byte("x"), pciDir+pf+"/virtfn0", "../0000:3b:00.0", "class/fpga")
	f.Add(pciDir+"0000:5e:00.1/physfn/x", []byte{}, pciDir+"0000:5e:00.1/physfn", "../0000:5e:00.1", "x")
	f.Add(pciDir+pf+"/sriov_numvfs", []byte("-3"), "class/fpga/intel-fpga-dev.0/device", "device", "y")
	f.Add("class/fpga/intel-fpga-dev.99/intel-fpga-port.1/afu_id", []byte(id("a")), "class/fpga/intel-fpga-dev.99/device", "../../../"+pciDir+pf, "z")
	f.Fuzz(func(t *testing.T, file string, data []byte, link, target, removed string) {
		m := drivertest.Tree(t, append(alveo("0000:3b:00"), intelCard(pf, 0, "12", "ab", 2), inspurCard("0000:3c:00.0"))...)
		if fs.ValidPath(file) {
			m.SetFile(file, data)
		}
		if fs.ValidPath(link) && target != "" {
			m.SetLink(link, target)
		}
		if fs.ValidPath(removed) {
			m.Remove(removed)
		}
		config := fpga.Config{DoubledHandles: len(data)%2 == 0, SeparateFunctions: len(target)%2 == 0}
		if list := faults(m, everything(t, config, m)); len(list) > 0 {
			t.Errorf("faults: %v", list)
		}
		_ = newIntel(t, fpga.Config{}, m).Program(t.Context(), path(t, pf), "", data) // any answer is fine, but it must not panic
	})
}

// FuzzBitstream reads images, and writes again what it could read.
func FuzzBitstream(f *testing.F) {
	f.Add(gbs(f, "1", "a", "b"))
	f.Add([]byte(`{"afu-image": {"accelerator-clusters": [{"accelerator-type-uuid": "d8424dc4-a4a3-c413-f89e-433683f9040b"}]}}`))
	f.Fuzz(func(t *testing.T, image []byte) {
		b, err := fpga.ParseBitstream(image)
		if err != nil {
			if !errors.Is(err, fpga.ErrBitstream) {
				t.Errorf("error %v", err)
			}
			return
		}
		got, err := fpga.ParseBitstream(marshal(t, b))
		if diff := cmp.Diff(b, got); err != nil || diff != "" {
			t.Errorf("error %v, (-want +got):\n%s", err, diff)
		}
	})
}
