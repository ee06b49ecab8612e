package builtin_test

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
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

// describe takes devices from the machine that has everything, and changes them.
func describe(c *choices) sysfs.Description {
	all := everything()
	d := sysfs.Description{}
	if c.below(2) == 1 {
		d.MdevParents = all.MdevParents
	}
	for i := range all.Devices {
		device := all.Devices[i]
		switch c.below(6) {
		case 1:
			continue
		case 2:
			device.Driver = pick(c, "", "vfio-pci", "ahci")
		case 3:
			device.Class = pick(c, "0300", "0604", "0108", "1200")
		case 4:
			if device.VFs != nil {
				vfs := *device.VFs
				vfs.Enabled = c.below(vfs.Total + 1)
				device.VFs = &vfs
			}
		case 5:
			device.IOMMUGroup = group(c.below(3))
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
		m.SetFile(name, []byte(pick(c, "", "\n", "0x8086\n", "-1", "99999999999999999999", "\x00", "../../x", regionA)))
	case 2:
		m.SetFile(name, make([]byte, 1<<20))
	case 3:
		m.SetLink(name, pick(c, path.Base(name), "../../../../../../etc/passwd", "/etc/passwd", "..", ".", "nowhere", names[0]))
	case 4:
		_ = m.Deny(name) // a name already broken stays so
	case 5:
		m.SetFile(path.Join(name, pick(c, "x", "driver", "physfn", "virtfn0", "net/a/flags", "sriov_numvfs", "fpga/intel-fpga-dev.9/x",
			"nvme/nvme0/nvme0n1/dev", "ptp/ptp1/clock_name")), []byte("1"))
	case 6:
		m.SetFile(path.Join("bus/pci/devices", string(c.data[:min(8, len(c.data))])), nil)
	}
}

// FuzzDiscover lets all drivers loose on broken trees. Whatever they meet, every device
// they report can be stored, no address is given away twice, and every refusal and every
// problem says what it is about and why.
func FuzzDiscover(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte(strings.Repeat("\x00\x02\x04\x01\x05\x03\x06\x07\x09", 12)))
	f.Add([]byte("\x01a machine with a defect, and then another defect, and again"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		m, err := sysfs.Generate(describe(c))
		if err != nil {
			t.Skip(err) // two functions at one place
		}
		config := allOn()
		config.TraitShape = pick(c, driver.ShapeShipped, driver.ShapeRockyScheduling, driver.ShapeRockyAgent, driver.ShapeWallaby)
		config.FPGA.DoubledHandles = c.below(2) == 1
		if c.below(2) == 1 {
			config.PCI.PassthroughWhitelist = pci.Whitelist{{}, {DevName: "eth0"}}
		}
		drivers, err := builtin.New(config, m)
		if err != nil {
			t.Fatal(err)
		}
		for range c.below(8) {
			spoil(c, m)
		}
		reports := driver.DiscoverAll(context.Background(), drivers)
		drivertest.Check(t, drivers, reports)
		for i, report := range reports {
			if drivers[i].Name() == "nvidia" { // a whitelist may admit a virtual function
				checkWhole(t, m, report.Devices)
			}
		}
	})
}

// checkWhole looks at the tree with other eyes than the driver's.
func checkWhole(t *testing.T, m *sysfs.Memory, gpus []driver.Device) {
	t.Helper()
	for _, d := range gpus {
		for _, h := range d.Deployables[0].AttachHandles {
			address, err := driver.PCIAddressOf(h.Info)
			if _, isVGPU, _ := h.VGPU(); err != nil || isVGPU || h.Type != driver.HandlePCI {
				continue // a mediated device, or a vGPU without
			}
			for link, what := range map[string]string{"physfn": "a virtual function", "virtfn0": "a physical function with virtual ones"} {
				if _, err := m.Readlink(path.Join("bus/pci/devices", address.String(), link)); err == nil {
					t.Errorf("%s: %s is a whole GPU", address, what)
				}
			}
		}
	}
}
