package sysfs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
)

// VGPUCard describes the vGPUs of a card of NVIDIA's that makes them without mediated devices:
// the type of a virtual function is written to nvidia/current_vgpu_type of it, and
// nvidia/creatable_vgpu_types lists the types for which there is room on the card.
type VGPUCard struct {
	Types []VGPUType `json:"types"`
	// Mixed lets types of several framebuffer sizes stand side by side (nvidia-smi vgpu -shm).
	Mixed bool `json:"mixed,omitempty"`
	// MIG is set for a card in MIG mode, which has types only in its GPU instances.
	MIG bool `json:"mig,omitempty"`
	// GPUInstances are the slices of each GPU instance.
	GPUInstances []int `json:"gpu_instances,omitempty"`
}

// VGPUType is a type of vGPUs.
type VGPUType struct {
	ID int `json:"id"`
	// Name is such as "NVIDIA L40S-24Q".
	Name string `json:"name"`
	// FramebufferMiB is its size: a card, or a GPU instance, has types of one size at a time.
	FramebufferMiB int `json:"framebuffer_mib"`
	// MaxInstances is how many fit on an empty card, or on an empty GPU instance.
	MaxInstances int `json:"max_instances"`
	// Slices is the size of the MIG GPU instance; 0 for non-MIG types.
	Slices int `json:"slices,omitempty"`
}

const (
	vgpuDir         = "nvidia"
	vgpuCreatable   = vgpuDir + "/creatable_vgpu_types"
	vgpuCurrent     = vgpuDir + "/current_vgpu_type"
	vgpuGPUInstance = vgpuDir + "/gpu_instance_id"
	vgpuPlacement   = vgpuDir + "/placement_id"
	vgpuParams      = vgpuDir + "/vgpu_params"
)

func (v *VGPUCard) check() error {
	if v == nil {
		return nil
	}
	if len(v.Types) == 0 {
		return errors.New("vgpus: no types")
	}
	for i, t := range v.Types {
		switch {
		case t.ID < 1 || slices.ContainsFunc(v.Types[:i], func(o VGPUType) bool { return o.ID == t.ID }):
			return fmt.Errorf("vgpus: type id %d is not positive or appears twice", t.ID)
		case t.Name == "" || strings.ContainsAny(t.Name, ":\n"):
			return fmt.Errorf("vgpus: type %d: name %q is empty or has a colon or a line end", t.ID, t.Name)
		case t.FramebufferMiB < 1 || t.MaxInstances < 1 || t.Slices < 0:
			return fmt.Errorf("vgpus: type %d: framebuffer_mib %d, max_instances %d, slices %d: want the first two positive and none negative",
				t.ID, t.FramebufferMiB, t.MaxInstances, t.Slices)
		}
	}
	if len(v.GPUInstances) > 0 && !v.MIG || slices.ContainsFunc(v.GPUInstances, func(n int) bool { return n < 1 }) {
		return errors.New("vgpus: gpu_instances need mig, and each a positive number of slices")
	}
	return nil
}

// addVGPUs makes the files of a new virtual function.
func (m *hardware) addVGPUs(pf, vf *function) {
	for _, name := range []string{vgpuCreatable, vgpuGPUInstance, vgpuPlacement} {
		m.file(vf.dir+"/"+name, "")
	}
	m.file(vf.dir+"/"+vgpuParams, "\n")
	m.file(vf.dir+"/"+vgpuCurrent, "0\n")
	m.setEffect(vf.dir+"/"+vgpuCurrent, func(data []byte) error { return m.writeVGPU(pf, vf, data) })
	m.showVGPU(vf)
}

// vgpu is the vGPU of a virtual function.
type vgpu struct {
	VGPUType
	instance int // the index of its GPU instance
}

// writeVGPU is the effect of current_vgpu_type.
func (m *hardware) writeVGPU(pf, vf *function, data []byte) error {
	id, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 31)
	switch {
	case err != nil:
		return syscall.EINVAL
	case (id == 0) == (vf.vgpu == nil): // nothing to clear, or another to clear first
		return syscall.EPERM
	case vf.held:
		return syscall.EBUSY
	case id == 0:
		vf.vgpu = nil
	default:
		made, err := pf.newVGPU(int(id))
		if err != nil {
			return err
		}
		vf.vgpu = made
	}
	m.showVGPU(vf)
	m.showCreatable(pf)
	return nil
}

// newVGPU finds the room for another vGPU of a type.
func (f *function) newVGPU(id int) (*vgpu, error) {
	v := f.vfs.VGPUs
	if v.MIG && len(v.GPUInstances) == 0 {
		return nil, syscall.EIO
	}
	at := slices.IndexFunc(v.Types, func(t VGPUType) bool { return t.ID == id })
	if at < 0 {
		return nil, syscall.ENODEV
	}
	t := v.Types[at]
	if !v.MIG {
		return &vgpu{VGPUType: t}, f.room(t, 0)
	}
	err := error(syscall.EINVAL) // no GPU instance of its profile
	for i, instance := range v.GPUInstances {
		if instance != t.Slices {
			continue
		}
		if err = f.room(t, i); err == nil {
			return &vgpu{t, i}, nil
		}
	}
	return nil, err
}

// room is nil if the card, or one of its GPU instances, has room for another vGPU of a type.
func (f *function) room(t VGPUType, instance int) error {
	v := f.vfs.VGPUs
	if (t.Slices > 0) != v.MIG {
		return syscall.EINVAL
	}
	full := 1.0 / float64(t.MaxInstances)
	for _, vf := range f.virtual {
		other := vf.vgpu
		if other == nil || other.instance != instance {
			continue
		}
		if other.FramebufferMiB != t.FramebufferMiB && (v.MIG || !v.Mixed) {
			return syscall.EINVAL
		}
		full += 1 / float64(other.MaxInstances)
	}
	if full > 1+1e-9 { // a third of the card three times may be a little more
		return syscall.ENOSPC
	}
	return nil
}

// showVGPU writes the files of a virtual function about its vGPU. Without a vGPU the kernel
// refuses to read the placements.
func (m *hardware) showVGPU(vf *function) {
	id, instance, err := 0, 0, error(syscall.ENXIO)
	if vf.vgpu != nil {
		id, instance, err = vf.vgpu.ID, vf.vgpu.instance, nil
	}
	m.setData(vf.dir+"/"+vgpuCurrent, line(id))
	for name, value := range map[string]int{vgpuGPUInstance: instance, vgpuPlacement: 0} {
		m.setData(vf.dir+"/"+name, line(value))
		m.setRefusal(vf.dir+"/"+name, err)
	}
}

// showCreatable lists on each virtual function the types for which there is room.
func (m *hardware) showCreatable(pf *function) {
	var b strings.Builder
	b.WriteString("ID    : vGPU Name\n")
	for _, t := range pf.vfs.VGPUs.Types {
		if _, err := pf.newVGPU(t.ID); err == nil {
			fmt.Fprintf(&b, "%-5d : %s\n", t.ID, t.Name)
		}
	}
	for _, vf := range pf.virtual {
		m.setData(vf.dir+"/"+vgpuCreatable, b.String())
	}
}

// HoldVGPU sets whether a guest has a virtual function open. While it does, clearing the vGPU
// fails with syscall.EBUSY. It returns an error for a missing function, and one that wraps
// syscall.ENODEV for a function without a type.
func (m *Memory) HoldVGPU(address driver.PCIAddress, held bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, vf, err := m.change().vgpuFunction(address.String())
	if err == nil && held && vf.vgpu == nil {
		err = fmt.Errorf("open %s: %w", address, syscall.ENODEV)
	}
	if err != nil {
		return fmt.Errorf("sysfs: %w", err)
	}
	vf.held = held
	return nil
}

// VGPUs returns the type that each virtual function of a tree has, by address. Functions without
// a vGPU are omitted. What cannot be read is an error, since a missed vGPU would be leaked.
func VGPUs(tree driver.Tree) (map[driver.PCIAddress]int, error) {
	if m, ok := tree.(*Memory); ok {
		return m.vgpus(), nil
	}
	view := driver.NewView(tree)
	names, err := view.Names(dirPCIDevices)
	if err != nil {
		return nil, fmt.Errorf("sysfs: list vGPUs: %s: %w", dirPCIDevices, err)
	}
	list := make(map[driver.PCIAddress]int)
	var faults []error
	for _, name := range names {
		address, err := driver.ParsePCIAddress(name)
		if err != nil {
			continue
		}
		id, err := driver.CurrentVGPU(view, address)
		if err != nil {
			faults = append(faults, fmt.Errorf("sysfs: list vGPUs: %w", err))
		}
		if id > 0 {
			list[address] = id
		}
	}
	return list, errors.Join(faults...)
}

func (m *Memory) vgpus() map[driver.PCIAddress]int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.changed == nil {
		return nil // no description has any
	}
	list := make(map[driver.PCIAddress]int)
	for at, f := range m.changed.functions {
		if f.vgpu != nil {
			list[at] = f.vgpu.ID
		}
	}
	return list
}

// restoreVGPU gives a virtual function the vGPU of a dump.
func (m *hardware) restoreVGPU(in dumpVGPU) error {
	pf, vf, err := m.vgpuFunction(in.Address)
	if err != nil {
		return err
	}
	v := pf.vfs.VGPUs
	at := slices.IndexFunc(v.Types, func(t VGPUType) bool { return t.ID == in.Type })
	switch {
	case at < 0:
		return errors.New("the card has no such type")
	case vf.vgpu != nil:
		return errors.New("the function appears twice")
	case in.GPUInstance < 0 || in.GPUInstance >= max(len(v.GPUInstances), 1):
		return fmt.Errorf("there is no GPU instance %d", in.GPUInstance)
	case v.MIG && (len(v.GPUInstances) == 0 || v.GPUInstances[in.GPUInstance] != v.Types[at].Slices):
		return fmt.Errorf("GPU instance %d is not of its profile", in.GPUInstance)
	}
	if err := pf.room(v.Types[at], in.GPUInstance); err != nil {
		return err
	}
	vf.vgpu, vf.held = &vgpu{v.Types[at], in.GPUInstance}, in.Held
	m.showVGPU(vf)
	m.showCreatable(pf)
	return nil
}

// vgpuFunction finds a virtual function with vGPUs, and its physical function.
func (m *hardware) vgpuFunction(address string) (pf, vf *function, err error) {
	for _, pf := range m.functions {
		for _, vf := range pf.virtual {
			if vf.makesVGPU && vf.address.String() == address {
				return pf, vf, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("%q is not a virtual function with vGPUs", address)
}
