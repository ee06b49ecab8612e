package driver_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/pci"
	"github.com/gocyborg/gocyborg/internal/sysfs"
)

// choices turns the bytes of the fuzzer into decisions; after the last one it says zero.
type choices struct{ data []byte }

func (c *choices) below(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func pick[T any](c *choices, from ...T) T { return from[c.below(len(from))] }

// describe makes a machine of up to eight functions.
func describe(c *choices) sysfs.Description {
	var d sysfs.Description
	for i := range c.below(9) {
		device := sysfs.PCIDevice{
			Address: fmt.Sprintf("0000:%02x:00.0", 0x10+i), Vendor: pick(c, "10de", "8086", "1d55"),
			Product: pick(c, "1eb8", "20f1"), Class: pick(c, "0302", "0300", "0604", "0200"),
			Driver: pick(c, "", "nvidia", "vfio-pci", "igb"), BootVGA: c.below(3) == 1,
		}
		if c.below(3) == 1 {
			device.VFs = &sysfs.VFs{Total: 4, Enabled: c.below(5), Driver: "nvidia"}
		}
		if c.below(3) == 1 {
			device.MdevTypes = []sysfs.MdevType{{Type: "nvidia-35", Name: pick(c, "GRID T4-1B", "x", "a b c", "é é"), AvailableInstances: c.below(20)}}
		}
		if c.below(4) == 1 {
			device.Interfaces = []sysfs.Interface{{Name: fmt.Sprintf("eth%d", i), Up: c.below(2) == 1}}
		}
		d.Devices = append(d.Devices, device)
	}
	return d
}

// paths lists all names of a tree.
func paths(tree driver.Tree, dir string) []string {
	entries, err := tree.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		list = append(list, name)
		if e.IsDir() {
			list = append(list, paths(tree, name)...)
		}
	}
	return list
}

// spoil breaks the tree in one place.
func spoil(c *choices, m *sysfs.Memory) {
	names := paths(m, ".")
	if len(names) == 0 {
		return
	}
	name := names[(c.below(256)<<8|c.below(256))%len(names)]
	switch c.below(7) {
	case 0:
		m.Remove(name)
	case 1:
		m.SetFile(name, []byte(pick(c, "", "\n", "0x10de\n", "-1", "99999999999999999999", "\x00", "../../x")))
	case 2:
		m.SetFile(name, make([]byte, sysfs.MaxFile+1))
	case 3:
		m.SetLink(name, pick(c, path.Base(name), "../../../../../../etc/passwd", "/etc/passwd", "..", ".", "nowhere", names[0]))
	case 4:
		_ = m.Deny(name) // a name already broken stays so
	case 5:
		m.SetFile(path.Join(name, pick(c, "x", "driver", "physfn", "virtfn0", "net/a/flags", "sriov_numvfs")), []byte("1"))
	case 6:
		m.SetFile(path.Join(driver.PCIDevicesDir, string(c.data[:min(8, len(c.data))])), nil)
	}
}

// FuzzSysfsTree lets the drivers loose on broken trees. Whatever they meet, every device
// they report can be stored, none is reported twice, no virtual function is a whole GPU,
// and every problem says what it is about.
func FuzzSysfsTree(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{8, 0, 0, 0, 1, 0, 1, 2, 1, 0, 9, 0, 0, 0, 0, 1, 1, 1})
	f.Add([]byte("\x03\x00\x00\x00\x01\x00\x01\x04\x01\x00\x05\x00one device with functions and types"))
	f.Add([]byte(strings.Repeat("\x01\x02\x03\x04\x05\x06\x07", 20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		m, err := sysfs.Generate(describe(c))
		if err != nil {
			t.Fatalf("a machine that could be: %v", err)
		}
		for range c.below(6) {
			spoil(c, m)
		}
		var types []nvidia.VGPUType
		if c.below(2) == 1 {
			types = []nvidia.VGPUType{{Name: "nvidia-35", DeviceAddresses: []string{"0000:10:00.0", "0000:11:00.1"}}}
		}
		gpus, err := nvidia.New(nvidia.Config{Host: "h", EnabledVGPUTypes: types, FilterSRIOVVFs: c.below(2) == 1}, m)
		check(t, m, gpus, err)
		all, err := pci.New(pci.Config{Host: "h", PassthroughWhitelist: []pci.Spec{{}, {DevName: "eth0"}}}, m)
		check(t, m, all, err)
	})
}

func check(t *testing.T, m *sysfs.Memory, d driver.Driver, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		t.Fatalf("%s: Discover: %v", d.Name(), err)
	}
	var seen []string
	for _, device := range report.Devices {
		if err := device.Validate(); err != nil {
			t.Errorf("%s: %v", d.Name(), err)
		}
		if slices.Contains(seen, device.ControlPath.Key()) {
			t.Errorf("%s: %s reported twice", d.Name(), device.ControlPath.Key())
		}
		seen = append(seen, device.ControlPath.Key())
		checkWhole(t, m, device)
	}
	for _, p := range report.Problems {
		if p.Err == nil || p.Address == "" && p.File == "" {
			t.Errorf("%s: problem %+v says nothing", d.Name(), p)
		}
	}
}

// checkWhole looks at the tree with other eyes than the driver's.
func checkWhole(t *testing.T, m *sysfs.Memory, device driver.Device) {
	t.Helper()
	address, err := driver.PCIAddressOf(device.ControlPath.Info)
	if err != nil {
		t.Error(err)
	}
	dir := path.Join(driver.PCIDevicesDir, address.String())
	if device.Deployables[0].ResourceClass() != "PGPU" {
		return
	}
	if _, err := m.Readlink(dir + "/physfn"); err == nil {
		t.Errorf("%s: a virtual function is a whole GPU", address)
	}
	if _, err := m.Readlink(dir + "/virtfn0"); err == nil {
		t.Errorf("%s: a physical function with virtual ones is a whole GPU", address)
	}
}
