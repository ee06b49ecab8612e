package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

const (
	iommuGroupsDir = "kernel/iommu_groups"
	baseBridge     = 0x06
	driverStub     = "pci-stub"
)

// isVFIO reports whether a kernel driver is vfio-pci or a variant of it: mlx5_vfio_pci.
func isVFIO(driver string) bool {
	return strings.HasSuffix(strings.ReplaceAll(driver, "_", "-"), driverVFIO)
}

// isolation returns why the IOMMU does not allow to assign a function to a guest, or what is in
// doubt. The unit is the group. The hardware does not isolate its functions from each other, and
// the kernel does not assign any of them to a guest while the host drives another endpoint of the
// group than the one libvirt unbinds. Bridges are ignored. A tree without kernel/iommu_groups,
// such as a capture, says nothing. The error is a Problem.
func (v *View) isolation(f PCIFunction, s PCIState) (reason, doubt string, err error) {
	if s.IOMMUGroup == nil {
		groups, err := v.ReadDir(iommuGroupsDir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", "", Problem{File: iommuGroupsDir, Err: file.Cause(err)}
		case len(groups) == 0:
			return "", "the machine has no IOMMU group: without an IOMMU a guest cannot start with it", nil
		default:
			return "in no IOMMU group, and other functions are in one: a guest cannot start with it", "", nil
		}
		return "", "", nil
	}
	dir := iommuGroupsDir + "/" + strconv.Itoa(*s.IOMMUGroup) + "/devices"
	names, err := v.Names(dir) // a captured tree may lack it
	if err != nil {
		return "", "", Problem{File: dir, Err: err}
	}
	for _, name := range names {
		address, err := ParsePCIAddress(name)
		if err != nil || address == f.Address { // groups hold devices that are not on PCI, too
			continue
		}
		if reason, err := v.groupUse(address); reason != "" || err != nil {
			return fmt.Sprintf("IOMMU group %d has %s, %s", *s.IOMMUGroup, address, reason), "", err
		}
	}
	return "", "", nil
}

// groupUse says how an endpoint keeps the other functions of its group from guests, or "".
func (v *View) groupUse(address PCIAddress) (string, error) {
	f, err := v.readFunction(address.String())
	if p := new(Problem); errors.As(err, p) {
		if file.Unread(p.Err) && !errors.Is(p.Err, ErrGarbled) {
			return "", Problem{File: p.File, Err: p.Err}
		}
		return fmt.Sprintf("which is not understood: %v", p.Err), nil
	}
	if f.DeviceClass()>>8 == baseBridge {
		return "", nil
	}
	target, err := v.Readlink(f.Dir() + "/driver")
	if file.Unread(err) {
		return "", Problem{File: f.Dir() + "/driver", Err: file.Cause(err)}
	}
	if driver := path.Base(target); err == nil && driver != driverStub && !isVFIO(driver) {
		return fmt.Sprintf("of class %04x, on driver %s: bind it to vfio-pci", f.DeviceClass(), driver), nil
	}
	return "", nil
}

// groupOf is the IOMMU group of a function, empty without a group or if it is not known.
func (v *View) groupOf(address PCIAddress) string {
	target, err := v.Readlink(PCIFunction{Address: address}.Dir() + "/iommu_group")
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// groupKey is an IOMMU group of one machine.
type groupKey struct {
	view *View
	name string
}

// has reports whether a function is in the group, by either link: one of them may be what could not be
// read.
func (k groupKey) has(at PCIAddress) bool {
	if k.view.groupOf(at) == k.name {
		return true
	}
	members, _ := k.view.Names(iommuGroupsDir + "/" + k.name + "/devices")
	return slices.Contains(members, at.String())
}

// leaveOneOfEachGroup keeps one function of each IOMMU group in the reports: the function that a
// guest has, or else the function with the lowest address. Two guests cannot have functions of
// one group. A function with a problem is included, since an agent keeps its last report. views
// are the views of the reports, nil for a driver without a tree.
func leaveOneOfEachGroup(drivers []Driver, reports []Report, views []*View, held []PCIAddress) {
	kept := make(map[groupKey]PCIAddress)
	shared := len(held) > 0
	for i, report := range reports {
		for _, d := range report.Devices {
			for _, p := range d.Deployables {
				for at, key := range p.groups(views[i]) {
					least, known := kept[key]
					shared = shared || known && at != least
					if !known || at.Compare(least) < 0 {
						kept[key] = at
					}
				}
			}
		}
	}
	for i, report := range reports {
		for _, p := range report.Problems {
			at, err := ParsePCIAddress(p.Address)
			for key, least := range kept {
				if err == nil && key.view == views[i] && at.Compare(least) < 0 && !errors.Is(p, ErrConfig) && key.has(at) {
					kept[key], shared = at, true
				}
			}
		}
	}
	for _, at := range held {
		for key := range kept {
			if name := key.view.groupOf(at); name == key.name || name == "" && key.has(at) {
				kept[key] = at
			}
		}
	}
	for i := range reports {
		if shared && views[i] != nil {
			reports[i].leaveOthers(drivers[i].Name(), views[i], kept)
		}
	}
}

// groups yields the functions that guests get as they are, with their groups.
func (d Deployable) groups(view *View) iter.Seq2[PCIAddress, groupKey] {
	return func(yield func(PCIAddress, groupKey) bool) {
		for _, h := range d.AttachHandles {
			if h.Type != HandlePCI || view == nil {
				continue
			}
			if at, err := PCIAddressOf(h.Info); err == nil {
				if name := view.groupOf(at); name != "" && !yield(at, groupKey{view, name}) {
					return
				}
			}
		}
	}
}

// leaveOthers leaves out the handles that are not those kept of their groups.
func (r *Report) leaveOthers(driver string, view *View, kept map[groupKey]PCIAddress) {
	devices := r.Devices[:0:0]
	for _, d := range r.Devices {
		deployables := d.Deployables[:0:0]
		for _, p := range d.Deployables {
			handles := r.leaveOtherHandles(driver, p, view, kept)
			if p.NumAccelerators -= len(p.AttachHandles) - len(handles); p.NumAccelerators > 0 {
				p.AttachHandles = handles
				deployables = append(deployables, p)
			}
		}
		if len(deployables) > 0 {
			d.Deployables = deployables
			devices = append(devices, d)
		}
	}
	r.Devices = devices
}

// leaveOtherHandles is leaveOthers for one deployable. The handles of one accelerator go to one
// guest, all or none of them.
func (r *Report) leaveOtherHandles(driver string, p Deployable, view *View, kept map[groupKey]PCIAddress) []AttachHandle {
	whole := p.NumAccelerators < len(p.AttachHandles)
	own := make(map[groupKey]bool) // groups with a kept handle of such an accelerator
	for at, key := range p.groups(view) {
		own[key] = own[key] || whole && kept[key] == at
	}
	left := make(map[PCIAddress]bool)
	for at, key := range p.groups(view) {
		if kept[key] != at && !own[key] {
			left[at] = true
			r.LeftOut = append(r.LeftOut, Notice{Address: at.String(), Driver: driver, Reason: fmt.Sprintf("group %s with %s", key.name, kept[key])})
		}
	}
	if whole && len(left) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.AttachHandles), func(h AttachHandle) bool {
		at, err := PCIAddressOf(h.Info)
		return h.Type == HandlePCI && err == nil && left[at]
	})
}

// ownFunctions are the functions that a driver claims, and their IOMMU groups, each with one of them.
type ownFunctions struct {
	view    *View
	driver  string
	claimed map[PCIAddress]bool
	groups  map[string]PCIAddress
}

func (o ownFunctions) add(at PCIAddress) {
	o.claimed[at] = true
	if name := o.view.groupOf(at); name != "" {
		o.groups[name] = at
	}
}

// keepBeside makes problems of the devices of a report that share functions or groups.
func (o ownFunctions) keepBeside(r *Report) {
	r.Devices = slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool {
		shared := o.shared(d)
		if shared != "" {
			r.AddProblem(d.ControlPath.Address().String(), fmt.Errorf("%s, which failed: left as it was", shared))
		}
		return shared != ""
	})
}

// shared says what a device shares with the driver, or "".
func (o ownFunctions) shared(d Device) string {
	for _, at := range d.Addresses() {
		if at.Kind == ControlPathPCI && o.claimed[at.PCI] {
			return fmt.Sprintf("a function of driver %s, too", o.driver)
		}
	}
	for _, p := range d.Deployables {
		for _, key := range p.groups(o.view) {
			if at, found := o.groups[key.name]; found {
				return fmt.Sprintf("group %s with %s of driver %s", key.name, at, o.driver)
			}
		}
	}
	return ""
}
