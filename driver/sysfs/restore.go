package sysfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// restore does to a newly generated tree what a dump says.
func (m *hardware) restore(d treeDump) error {
	for _, p := range d.Ports {
		if err := m.restorePort(p); err != nil {
			return fmt.Errorf("fpga port %d of %q: %w", p.Port, p.Address, err)
		}
	}
	if err := m.restoreVFs(d.Functions); err != nil {
		return err
	}
	for _, mdev := range d.Mdevs {
		if err := m.restoreMdev(mdev); err != nil {
			return fmt.Errorf("mdev %q of type %q on %q: %w", mdev.UUID, mdev.Type, mdev.Parent, err)
		}
	}
	return m.restoreIdle(d.Idle)
}

func (m *hardware) restorePort(p dumpPort) error {
	at, err := driver.ParsePCIAddress(p.Address)
	if err != nil {
		return err
	}
	f := m.functions[at]
	if f == nil || f.fpga == nil || !slices.ContainsFunc(f.fpga.Ports, func(o FPGAPort) bool { return o.Number == p.Port }) {
		return ErrNoPort
	}
	if !fpgaID(p.AFUID) {
		return fmt.Errorf("afu_id %q is not 32 hexadecimal digits", p.AFUID)
	}
	f.loaded[p.Port] = p.AFUID
	m.placePorts(f)
	return nil
}

// restoreVFs makes the virtual functions of all physical ones. The numbers of the groups
// and of class/fpga are given out from the lowest that is free, so none is higher than if
// all had been given out at once.
func (m *hardware) restoreVFs(functions []dumpFunction) error {
	physical := m.physical()
	for _, f := range physical {
		m.setVFs(f, 0)
	}
	taken := givenNumbers{lastGroup: m.lastGroup, lastFPGA: m.lastFPGA, groups: make(map[int]bool), devs: make(map[int]bool)}
	for _, f := range physical {
		taken.maxGroup += f.vfs.Total
		if f.fpga != nil {
			taken.maxFPGA += len(f.fpga.Ports)
		}
	}
	seen := make(map[driver.PCIAddress]bool)
	for _, in := range functions {
		at, err := driver.ParsePCIAddress(in.Address)
		if err != nil {
			return fmt.Errorf("function %q: %w", in.Address, err)
		}
		f := m.functions[at]
		if f == nil || f.vfs == nil || seen[at] {
			return fmt.Errorf("function %s has no virtual functions by the description, or is there twice", in.Address)
		}
		seen[at] = true
		numbers, err := taken.take(f, in.VFs)
		if err != nil {
			return fmt.Errorf("function %s: %w", in.Address, err)
		}
		m.setNumberedVFs(f, numbers)
	}
	for _, f := range physical {
		if !seen[f.address] {
			return fmt.Errorf("function %s: nothing is said of its virtual functions", f.address)
		}
	}
	return nil
}

// givenNumbers are the numbers that virtual functions have.
type givenNumbers struct {
	lastGroup, lastFPGA int // the highest described
	maxGroup, maxFPGA   int // how many more there can be
	groups, devs        map[int]bool
}

// take checks the numbers of the virtual functions of f.
func (g *givenNumbers) take(f *function, list []dumpVF) ([]vfNumbers, error) {
	if len(list) > f.vfs.Total {
		return nil, fmt.Errorf("%d virtual functions, and it can have %d", len(list), f.vfs.Total)
	}
	numbers := make([]vfNumbers, len(list))
	for i, vf := range list {
		if err := free(g.groups, vf.IOMMUGroup, f.group != nil, g.lastGroup, g.maxGroup); err != nil {
			return nil, fmt.Errorf("virtual function %d: iommu_group: %w", i, err)
		}
		if err := free(g.devs, vf.FPGA, f.fpga.hasPort(i+1), g.lastFPGA, g.maxFPGA); err != nil {
			return nil, fmt.Errorf("virtual function %d: fpga: %w", i, err)
		}
		numbers[i] = vfNumbers{vf.IOMMUGroup, vf.FPGA}
	}
	return numbers, nil
}

// hasPort says whether a port is moved to a virtual function, counted from 1.
func (g *FPGA) hasPort(vf int) bool {
	return g != nil && slices.ContainsFunc(g.Ports, func(p FPGAPort) bool { return p.VF == vf })
}

// free takes a number between last and last+most, once, where one is wanted.
func free(taken map[int]bool, number *int, wanted bool, last, most int) error {
	switch {
	case number == nil && !wanted:
		return nil
	case number == nil || !wanted:
		return errors.New("it has none, or should have none, by the description")
	case *number <= last || *number > last+most:
		return fmt.Errorf("%d is not from %d to %d", *number, last+1, last+most)
	case taken[*number]:
		return fmt.Errorf("%d is there twice", *number)
	}
	taken[*number] = true
	return nil
}

// restoreMdev makes a mediated device as a write to create does.
func (m *hardware) restoreMdev(mdev driver.Mdev) error {
	p := m.parents[mdev.Parent]
	if p == nil {
		return errors.New("there is no such parent")
	}
	i := slices.IndexFunc(p.types, func(t MdevType) bool { return t.Type == mdev.Type })
	if i < 0 {
		return errors.New("the parent has no such type")
	}
	return m.createMdev(p, p.types[i], []byte(mdev.UUID))
}

// restoreIdle makes the directories of drivers without devices.
func (m *hardware) restoreIdle(list []string) error {
	for i, text := range list {
		name, pci := strings.CutPrefix(text, idlePCI)
		switch {
		case slices.Contains(list[:i], text):
			return fmt.Errorf("idle driver %q is there twice", text)
		case text == idleMdev:
			m.root.makeDir(dirVFIO)
		case pci && slices.Contains(m.vfDrivers(), name):
			m.root.makeDir(dirPCIDrivers + "/" + name)
		default:
			return fmt.Errorf("idle driver %q is none of the description", text)
		}
	}
	return nil
}
