package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
)

// mdevParent is a device that mediated devices are made on: a PCI function, or a device
// of another kind.
type mdevParent struct {
	name, dir string // dir is without links
	types     []MdevType
	mixed     bool
}

// addMdevParent makes the directories of the types that a device supports.
func (m *hardware) addMdevParent(p *mdevParent) {
	if len(p.types) == 0 {
		return
	}
	m.parents[p.name] = p
	for _, t := range p.types {
		dir := p.typeDir(t.Type)
		if t.Name != "" {
			m.file(dir+"/name", t.Name+"\n")
		}
		m.file(dir+"/available_instances", line(t.AvailableInstances))
		m.file(dir+"/device_api", cmp.Or(t.DeviceAPI, "vfio-pci")+"\n")
		m.file(dir+"/description", t.Description+"\n")
		m.root.makeDir(dir + "/devices")
		m.root.put(dir+"/create", &node{hidden: true, write: func(data []byte) error {
			return m.createMdev(p, t, data)
		}})
	}
	m.link(dirMdevBus+"/"+p.name, p.dir)
}

func (p *mdevParent) typeDir(typ string) string { return p.dir + "/" + mdevTypes + "/" + typ }

// addVirtualParent adds a parent that is not a PCI function. The samples of the kernel
// (mtty, mbochs) make a device of the name of its class below devices/virtual.
func (m *hardware) addVirtualParent(d MdevParent) {
	dir := "devices/virtual/" + d.Name + "/" + d.Name
	m.link(dir+"/subsystem", "class/"+d.Name)
	m.file(dir+"/uevent", "")
	m.link("class/"+d.Name+"/"+d.Name, dir)
	m.addMdevParent(&mdevParent{name: d.Name, dir: dir, types: d.Types, mixed: d.MixedMdevTypes})
}

// createMdev is the effect of create.
func (m *hardware) createMdev(p *mdevParent, t MdevType, data []byte) error {
	mdev := driver.Mdev{
		UUID:   strings.ToLower(strings.TrimSpace(string(data))),
		Parent: p.name,
		Type:   t.Type,
	}
	if mdev.Validate() != nil {
		return syscall.EINVAL
	}
	if _, exists := m.mdevs[mdev.UUID]; exists {
		return syscall.EEXIST
	}
	if m.available(p, t) < 1 {
		return syscall.ENOSPC
	}
	m.mdevs[mdev.UUID] = mdev
	m.addMdev(p, mdev)
	m.refresh(p)
	return nil
}

// addMdev makes the directory of a mediated device and the links to it.
func (m *hardware) addMdev(p *mdevParent, mdev driver.Mdev) {
	dir := p.dir + "/" + mdev.UUID
	m.link(dir+"/mdev_type", p.typeDir(mdev.Type))
	m.link(dir+"/subsystem", "bus/mdev")
	m.link(dir+"/driver", dirVFIO)
	m.file(dir+"/uevent", "DRIVER=vfio_mdev\nMODALIAS=mdev:c1\n")
	m.root.put(dir+"/remove", &node{hidden: true, write: func(data []byte) error {
		return m.removeMdev(mdev.UUID, data)
	}})
	m.link(dirMdevDevices+"/"+mdev.UUID, dir)
	m.link(p.typeDir(mdev.Type)+"/devices/"+mdev.UUID, dir)
}

// removeMdev is the effect of remove: any number but zero removes the device.
func (m *hardware) removeMdev(id string, data []byte) error {
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 0, 64)
	if err != nil {
		return syscall.EINVAL
	}
	if n != 0 {
		m.dropMdev(id)
	}
	return nil
}

func (m *hardware) dropMdev(id string) {
	mdev, ok := m.mdevs[id]
	if !ok {
		return
	}
	delete(m.mdevs, id)
	m.root.remove(dirMdevDevices + "/" + id)
	p := m.parents[mdev.Parent]
	if p == nil {
		return
	}
	m.root.remove(p.dir + "/" + id)
	m.root.remove(p.typeDir(mdev.Type) + "/devices/" + id)
	m.refresh(p)
}

// available counts the free instances of a type on a parent.
func (m *hardware) available(p *mdevParent, t MdevType) int {
	left := t.AvailableInstances
	for _, mdev := range m.mdevs {
		switch {
		case mdev.Parent != p.name:
		case mdev.Type == t.Type:
			left--
		case !p.mixed:
			return 0
		}
	}
	return max(left, 0)
}

// refresh writes available_instances of all types of a parent anew.
func (m *hardware) refresh(p *mdevParent) {
	for _, t := range p.types {
		m.setData(p.typeDir(t.Type)+"/available_instances", line(m.available(p, t)))
	}
}

// Mdevs returns the mediated devices that a tree shows, ordered by uuid. A machine without an
// mdev bus has none. What cannot be read is an error, since a missed device would be leaked.
func Mdevs(tree driver.Tree) ([]driver.Mdev, error) {
	if m, ok := tree.(*Memory); ok && m.isDescribed() {
		return nil, nil // no description has any
	}
	view := driver.NewView(tree)
	var list []driver.Mdev
	var faults []error
	names := func(dir string) []string {
		names, err := view.Names(dir)
		if err != nil {
			faults = append(faults, fmt.Errorf("sysfs: list mediated devices: %s: %w", dir, err))
		}
		return names
	}
	for _, parent := range names(dirMdevBus) {
		types := dirMdevBus + "/" + parent + "/" + mdevTypes
		for _, typ := range names(types) {
			for _, id := range names(types + "/" + typ + "/devices") {
				list = append(list, driver.Mdev{UUID: id, Parent: parent, Type: typ})
			}
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	sortMdevs(list)
	return list, nil
}
