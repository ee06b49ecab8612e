package sysfs

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
)

// vfAddress returns the place of the VF with the given index: a routing id is bus,
// device and function in sixteen bits.
func (f *function) vfAddress(index int) (driver.PCIAddress, bool) {
	a := f.address
	id := int(a.Bus)<<8 | int(a.Device)<<3 | int(a.Function)
	id += cmp.Or(f.vfs.Offset, 1) + index*cmp.Or(f.vfs.Stride, 1)
	if id > 0xffff {
		return a, false
	}
	return driver.PCIAddress{Domain: a.Domain, Bus: uint8(id >> 8), Device: uint8(id >> 3 & 0x1f), Function: uint8(id & 7)}, true
}

// reserve reserves the addresses of all VFs that the function can have; it fails when one
// is in use.
func (m *hardware) reserve(f *function) error {
	for i := range f.vfs.Total {
		at, ok := f.vfAddress(i)
		if !ok {
			return fmt.Errorf("vfs: VF %d lies beyond the last bus", i)
		}
		if m.functions[at] != nil || m.reserved[at] {
			return fmt.Errorf("vfs: VF %d at %s: address in use", i, at)
		}
		m.reserved[at] = true
	}
	return nil
}

// writeNumVFs is the effect of sriov_numvfs.
func (m *hardware) writeNumVFs(f *function, data []byte) error {
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 16)
	switch {
	case err != nil:
		return syscall.EINVAL
	case int(n) == len(f.virtual):
		return nil
	case int(n) > f.vfs.Total:
		return syscall.ERANGE
	case n > 0 && len(f.virtual) > 0:
		return syscall.EBUSY
	}
	m.setVFs(f, int(n))
	return nil
}

// setVFs replaces the virtual functions of a physical one by n new ones, in the same directory.
func (m *hardware) setVFs(f *function, n int) {
	for i, vf := range f.virtual {
		for id, mdev := range m.mdevs {
			if mdev.Parent == vf.address.String() {
				m.dropMdev(id)
			}
		}
		m.root.remove(fmt.Sprintf("%s/virtfn%d", f.dir, i))
		m.drop(vf)
	}
	f.virtual = nil
	for i := range n {
		vf := f.newVF(i)
		m.add(vf)
		m.link(vf.dir+"/physfn", f.dir)
		m.link(fmt.Sprintf("%s/virtfn%d", f.dir, i), vf.dir)
		f.virtual = append(f.virtual, vf)
		if f.vfs.VGPUs != nil {
			m.addVGPUs(f, vf)
		}
	}
	if f.vfs != nil && f.vfs.VGPUs != nil {
		m.showCreatable(f)
	}
	m.setData(f.dir+"/sriov_numvfs", line(n))
	m.placePorts(f)
}

func (f *function) newVF(index int) *function {
	at, _ := f.vfAddress(index)
	above, _, _ := cutLast(f.dir)
	id := f.id
	if f.vfs.Product != "" {
		id.product, _ = parseHex("product", f.vfs.Product, 4) // checked with the description
	}
	vf := &function{
		address: at, dir: above + "/" + at.String(), id: id, kernel: f.vfs.Driver,
		numa: f.numa, types: f.vfs.MdevTypes, mixed: f.mixed, makesVGPU: f.vfs.VGPUs != nil,
	}
	if f.group != nil {
		group := f.vfGroup + index
		vf.group = &group
	}
	return vf
}

// setData changes the content of a file and keeps its effects.
func (m *hardware) setData(path, text string) {
	if n, err := m.root.walk(path, false); err == nil && !n.isDir() {
		n.data = []byte(text)
	}
}
