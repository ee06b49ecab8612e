package nvidia

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// virtualFunction is a virtual function of a card that makes vGPUs without mediated devices.
type virtualFunction struct {
	*driver.Unit
	current int  // the id of the type that it has
	absent  bool // another kernel driver has it, or sriov-manage -e is not done: it has no types
}

// divideFunctions offers the virtual functions of a card, each as a vGPU of a type that is written to
// it at the bind. The kernel lists the types for which there is room, and not for how many; so each
// type is offered as often as is configured, and a type that the card refuses fails the bind.
func (d *Driver) divideFunctions(scan *driver.PCIScan, pf *driver.Unit, types []VGPUType) {
	if reason := d.config.HostUse(pf.PCIFunction, pf.PCIState); reason != "" {
		scan.LeaveOut(pf, "%s", reason)
		return
	}
	functions, names, err := readFunctions(scan.View, pf)
	switch {
	case err != nil:
	case !slices.ContainsFunc(functions, func(f virtualFunction) bool { return !f.absent }): // after a restart, until the operator's service has run
		err = errors.New("waiting for virtual functions with vGPU types (sriov-manage -e)")
	case len(names) == 0:
		err = errors.New("waiting for an available vGPU type: the card is full, or in MIG mode without a GPU instance")
	}
	if err != nil {
		scan.Problem(pf, err)
		return
	}
	device := device(*pf)
	device.ControlPath = pf.Address.ControlPath()
	for _, t := range types {
		own := functions[:min(t.MaxInstances, len(functions))]
		functions = functions[len(own):]
		part, err := d.functionsOf(scan, *pf, t, own, names)
		if err != nil {
			scan.Problem(pf, err)
			return
		}
		if part != nil {
			device.Deployables = append(device.Deployables, *part)
		}
	}
	for _, f := range functions {
		scan.LeaveOut(f.Unit, "virtual function of %s: max_instances of its vGPU types are offered by others", pf.Address)
	}
	if len(device.Deployables) > 0 {
		scan.Offer(pf, device)
	}
}

// readFunctions reads the virtual functions, and the names of the types that they have or can be given; the
// name of a type that has no room any more is empty. One without types keeps its place, so that the others
// stay with theirs.
func readFunctions(view *driver.View, pf *driver.Unit) (list []virtualFunction, names map[int]string, err error) {
	names = make(map[int]string)
	for _, vf := range pf.Virtual {
		types, err := driver.CreatableVGPUs(view, vf.Address)
		if errors.Is(err, fs.ErrNotExist) {
			list = append(list, virtualFunction{Unit: vf, absent: true})
			continue
		}
		current := 0
		if err == nil {
			current, err = driver.CurrentVGPU(view, vf.Address)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, t := range types {
			names[t.ID] = t.Name
		}
		if _, known := names[current]; current != 0 && !known {
			names[current] = ""
		}
		list = append(list, virtualFunction{Unit: vf, current: current})
	}
	return list, names, nil
}

// functionsOf is the deployable of one type, nil if it cannot be offered.
func (d *Driver) functionsOf(scan *driver.PCIScan, pf driver.Unit, t VGPUType, functions []virtualFunction, names map[int]string) (*driver.Deployable, error) {
	id, err := driver.ParseVGPUType(t.Name)
	if err != nil {
		return nil, err
	}
	shown, known := names[id]
	switch {
	case !known:
		for _, f := range functions {
			scan.LeaveOut(f.Unit, "virtual function of %s: no room for vGPU type %s, or no such type", pf.Address, t.Name)
		}
		return nil, nil
	case shown != "" && shown != t.VGPUName:
		return nil, fmt.Errorf("%w: vGPU type %s is %q, configured as %q", driver.ErrConfig, t.Name, shown, t.VGPUName)
	}
	class, traits, err := d.vgpuNames(pf.PCIFunction, strings.TrimPrefix(t.VGPUName, "NVIDIA "))
	if err != nil {
		return nil, err
	}
	part := driver.Deployable{Name: d.config.Host + "_" + pf.Address.String() + "_" + t.Name, DriverName: driverName, Class: class, Traits: traits}
	for _, f := range functions {
		if !scan.Assignable(f.Unit, functionDrivers...) {
			continue
		}
		if f.absent {
			scan.LeaveOut(f.Unit, "virtual function of %s: it has no vGPU types", pf.Address)
			continue
		}
		handle := driver.VGPU{Function: f.Address, Type: id}.Handle()
		handle.InUse = f.current != 0
		part.AttachHandles = append(part.AttachHandles, handle)
	}
	part.NumAccelerators = len(part.AttachHandles)
	if part.NumAccelerators == 0 {
		return nil, nil
	}
	return &part, nil
}

// vgpuNames returns the class and the traits of a type of vGPUs.
func (d *Driver) vgpuNames(f driver.PCIFunction, name string) (class string, traits []string, err error) {
	s := subject(f)
	s.VGPUType = name
	trait, err := driver.CustomName("NVIDIA", f.ProductID(), s.VGPUType)
	if err != nil {
		return "", nil, err
	}
	s.ShippedClass, s.Shipped = "VGPU", []string{driver.TraitOwnerCyborg, trait}
	return d.config.Names(s)
}
