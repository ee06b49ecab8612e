package driver

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

const (
	mdevTypesDir = "mdev_supported_types" // with one directory per mediated device type
	maxVFs       = 1<<16 - 1
	classVGA     = 0x0300

	baseDisplay     = 0x03
	baseAccelerator = 0x12
	driverVFIO      = "vfio-pci"
)

// PCIState says what a PCI function is used for at present.
type PCIState struct {
	// Driver is the kernel driver bound, empty when none is.
	Driver string
	// VirtualOf names the physical function of a virtual one. IsVirtual is set for a
	// virtual function, also when the link to the physical one could not be read.
	VirtualOf string
	IsVirtual bool
	// VirtualFunctions are the names of the functions that virtfn links lead to.
	VirtualFunctions []string
	// NumVFs is sriov_numvfs, 0 where that file is absent.
	NumVFs int
	// BootVGA is nil where the kernel does not say.
	BootVGA *bool
	// MdevTypes are the names below mdev_supported_types.
	MdevTypes []string
	// Mdevs are the mediated devices on the function. Type is empty for a device that is not below a type.
	Mdevs []Mdev
	// HasVGPUTypes is set for a virtual function that is given the type of a vGPU. It must keep its
	// kernel driver.
	HasVGPUTypes bool
	// Interfaces are the network interfaces of the function, InterfacesUp the ones that an
	// administrator has set up. InterfacesHidden is set if all are in other network namespaces,
	// for example of containers.
	Interfaces, InterfacesUp []string
	InterfacesHidden         bool
	// IOMMUGroup is nil on a machine without an IOMMU.
	IOMMUGroup *int
	// TotalVFs is sriov_totalvfs, 0 where that file is absent.
	TotalVFs int
	// Disks are the block devices that the function drives.
	Disks []Disk
}

func (v *View) readState(f PCIFunction) (PCIState, []Problem) {
	r := &stateReader{tree: v, function: f}
	entries, err := v.ReadDir(f.Dir())
	if err != nil {
		r.problem("", err)
		return r.state, r.problems
	}
	r.checkAlias()
	if r.blocks, err = v.blocks(); err != nil {
		r.problems = append(r.problems, problemOf(f.Address.String(), err))
	}
	var disks []string
	for _, e := range entries {
		r.entry(e.Name())
		disks = append(disks, r.ownDisks(e.Name())...)
	}
	r.disks(disks)
	return r.state, r.problems
}

// stateReader gathers a PCIState.
type stateReader struct {
	tree     *View
	function PCIFunction
	blocks   blocks
	state    PCIState
	problems []Problem
}

func (r *stateReader) path(name string) string { return path.Join(r.function.Dir(), name) }

func (r *stateReader) problem(name string, err error) {
	r.problemAt(r.path(name), err)
}

func (r *stateReader) problemAt(name string, err error) {
	r.problems = append(r.problems, Problem{Address: r.function.Address.String(), File: name, Err: file.Cause(err)})
}

// checkAlias notices an entry of the bus that leads to another function: it would be
// offered under two addresses.
func (r *stateReader) checkAlias() {
	target, err := r.tree.Readlink(r.function.Dir())
	switch {
	case file.Unread(err):
		r.problem("", err)
	case err == nil && path.Base(target) != r.function.Address.String():
		r.problem("", fmt.Errorf("%w: the link leads to %q", ErrGarbled, target))
	}
}

func (r *stateReader) entry(name string) {
	s := &r.state
	switch {
	case name == "driver":
		s.Driver = r.link(name)
	case name == "physfn":
		s.IsVirtual, s.VirtualOf = true, r.link(name)
	case strings.HasPrefix(name, "virtfn"):
		s.VirtualFunctions = append(s.VirtualFunctions, r.link(name))
	case name == "sriov_numvfs":
		s.NumVFs = r.count(name, maxVFs)
	case name == "sriov_totalvfs":
		s.TotalVFs = r.count(name, maxVFs)
	case name == "iommu_group":
		r.iommuGroup(name)
	case name == "boot_vga":
		on := r.count(name, 1) == 1
		s.BootVGA = &on
	case name == "net": // this directory is there in every namespace
		r.interfaces(name)
		s.InterfacesHidden = len(s.Interfaces) == 0
	case strings.HasPrefix(name, "virtio"): // such a device is between function and interface
		r.interfaces(name + "/net")
	case name == vgpuDir:
		s.HasVGPUTypes = true
	case name == mdevTypesDir:
		r.mdevTypes()
	case uuid.Validate(name) == nil && !slices.ContainsFunc(s.Mdevs, func(m Mdev) bool { return m.UUID == name }):
		s.Mdevs = append(s.Mdevs, Mdev{UUID: name, Parent: r.function.Address.String()})
	}
}

func (r *stateReader) link(name string) string {
	target, err := r.tree.Readlink(r.path(name))
	if err != nil {
		r.problem(name, err)
		return ""
	}
	return path.Base(target)
}

func (r *stateReader) iommuGroup(name string) {
	text := r.link(name)
	if text == "" {
		return
	}
	group, err := strconv.Atoi(text)
	if err != nil || group < 0 {
		r.problem(name, garbled(text))
		return
	}
	r.state.IOMMUGroup = &group
}

func (r *stateReader) count(name string, limit int) int {
	n, err := r.tree.ReadCount(r.path(name), limit)
	if err != nil {
		r.problem(name, err)
	}
	return n
}

// list returns the names in a directory; one that is not there is empty.
func (r *stateReader) list(name string) []string {
	names, err := r.tree.Names(r.path(name))
	if err != nil {
		r.problem(name, err)
	}
	return names
}

// interfaces looks for interfaces that an administrator has set up; a device of one is
// in the host's use even while its cable is out.
func (r *stateReader) interfaces(dir string) {
	for _, name := range r.list(dir) {
		r.state.Interfaces = append(r.state.Interfaces, name)
		file := dir + "/" + name + "/flags"
		text, err := r.tree.ReadText(r.path(file)) // without it the interface went to another network namespace
		number, _ := strings.CutPrefix(text, "0x")
		flags, parseErr := parseHex(number, 8)
		if err == nil && parseErr != nil {
			err = garbled(text)
		}
		if err != nil {
			r.problem(file, err)
			continue
		}
		if flags&1 != 0 { // IFF_UP
			r.state.InterfacesUp = append(r.state.InterfacesUp, name)
		}
	}
}

// mdevTypes gathers the types and the devices made of them.
func (r *stateReader) mdevTypes() {
	s := &r.state
	s.MdevTypes = r.list(mdevTypesDir)
	for _, typ := range s.MdevTypes {
		for _, id := range r.list(mdevTypesDir + "/" + typ + "/devices") {
			m := Mdev{UUID: id, Parent: r.function.Address.String(), Type: typ}
			s.Mdevs = slices.DeleteFunc(s.Mdevs, func(o Mdev) bool { return o.UUID == id })
			s.Mdevs = append(s.Mdevs, m)
		}
	}
}

// hostUse says why the function is in the host's own use, or "". The display the host
// started with is boot_vga 1; where that file is absent, any VGA controller with a driver other
// than VFIO's is assumed to be it, unless it is a virtual function. A network interface that is
// up is in use, and so is a disk that is mounted or part of a volume or an array. Sysfs does not
// show every file system; Policy.HostUse knows the other mounts.
func (s PCIState) hostUse(f PCIFunction) string {
	switch {
	case s.BootVGA != nil && *s.BootVGA:
		return "the host's own display: boot_vga is 1"
	case s.BootVGA == nil && !s.IsVirtual && f.DeviceClass() == classVGA && s.Driver != "" && !isVFIO(s.Driver):
		return fmt.Sprintf("presumably the display of the host: a VGA controller bound to driver %s, and no boot_vga file", s.Driver)
	case len(s.InterfacesUp) > 0:
		return fmt.Sprintf("in use by the host: network interface %s is up", strings.Join(s.InterfacesUp, ", "))
	}
	for _, d := range s.Disks {
		if holder := d.held(); holder != "" {
			return "in use by the host: " + holder
		}
	}
	return ""
}

// Divided says why the function cannot be offered as a whole, or "": virtual
// functions or mediated devices exist on it, which would be taken from their users.
func (s PCIState) Divided() string {
	switch vfs := max(s.NumVFs, len(s.VirtualFunctions)); {
	case vfs > 0:
		return fmt.Sprintf("physical function with virtual functions enabled (%d)", vfs)
	case len(s.Mdevs) > 0:
		return fmt.Sprintf("has mediated devices (%d), including %s", len(s.Mdevs), s.Mdevs[0].UUID)
	}
	return ""
}

// otherDriver returns why the bound driver prevents the function from being offered, or "". No
// driver, vfio-pci, its variants and the allowed drivers do not prevent it.
func (s PCIState) otherDriver(allowed []string) string {
	if s.Driver == "" || isVFIO(s.Driver) || slices.Contains(allowed, s.Driver) {
		return ""
	}
	return fmt.Sprintf("bound to driver %s, which is not among the allowed ones", s.Driver)
}
