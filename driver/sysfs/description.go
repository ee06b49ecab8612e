package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// Description says which hardware a synthetic tree has. The zero value is a machine with
// an empty PCI bus.
type Description struct {
	Devices []PCIDevice `json:"devices"`
	// MdevParents are devices off the PCI bus that mediated devices are made on.
	MdevParents []MdevParent `json:"mdev_parents,omitempty"`
}

// MdevParent describes a device off the PCI bus that mediated devices are made on, such
// as the kernel's samples mtty and mbochs.
type MdevParent struct {
	// Name is the name of the device and of its class: mtty.
	Name  string     `json:"name"`
	Types []MdevType `json:"types"`
	// MixedMdevTypes lets mdevs of several types stand side by side.
	MixedMdevTypes bool `json:"mixed_mdev_types,omitempty"`
}

func (p MdevParent) check() error {
	if err := checkName("name", p.Name); err != nil {
		return err
	}
	if _, err := driver.ParsePCIAddress(p.Name); err == nil {
		return fmt.Errorf("name %q is the name of a PCI function", p.Name)
	}
	if len(p.Types) == 0 {
		return errors.New("no types")
	}
	return checkMdevTypes(p.Types)
}

// PCIDevice describes one physical PCI function. Numbers of hardware are hexadecimal
// text, with or without 0x, as people know them from lspci.
type PCIDevice struct {
	// Address is the place of the function, 0000:3b:00.0.
	Address string `json:"address"`
	// Parent is the address of the bridge the function sits behind, described earlier
	// in the list; empty for a function right below a root bus.
	Parent           string `json:"parent,omitempty"`
	Vendor           string `json:"vendor"`
	Product          string `json:"product"`
	SubsystemVendor  string `json:"subsystem_vendor,omitempty"`
	SubsystemProduct string `json:"subsystem_product,omitempty"`
	// Class has four digits (base class and subclass) or six (and interface).
	Class    string `json:"class"`
	Revision string `json:"revision,omitempty"`
	// Driver is the name of the kernel driver; empty when none is bound.
	Driver string `json:"driver,omitempty"`
	// NUMANode is absent on machines that do not say.
	NUMANode *int `json:"numa_node,omitempty"`
	// IOMMUGroup is absent on machines without an IOMMU. VFs get their own groups, with numbers
	// above the described ones, if their physical function has a group.
	IOMMUGroup *int `json:"iommu_group,omitempty"`
	// BootVGA marks the display the host started with. The file boot_vga exists for
	// every function of class 0300, as in the kernel.
	BootVGA bool `json:"boot_vga,omitempty"`
	// VFs makes the function a physical function of SR-IOV.
	VFs *VFs `json:"vfs,omitempty"`
	// MdevTypes are the mediated device types the function supports. Unless
	// MixedMdevTypes is set, the first mdev made leaves no room for other types, as it
	// is on NVIDIA cards.
	MdevTypes      []MdevType `json:"mdev_types,omitempty"`
	MixedMdevTypes bool       `json:"mixed_mdev_types,omitempty"`
	// Interfaces are the network interfaces of the function.
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Disks are the block devices of the function.
	Disks []Disk `json:"disks,omitempty"`
	// Clocks are the clocks of the precision time protocol that the function has.
	Clocks []Clock `json:"clocks,omitempty"`
	// FPGA is the function as Intel's FPGA driver shows it.
	FPGA *FPGA `json:"fpga,omitempty"`
	// Files are further files below the function's directory: name and content.
	Files map[string]string `json:"files,omitempty"`
}

// VFs describes the virtual functions of a physical one.
type VFs struct {
	// Total is sriov_totalvfs, Enabled the sriov_numvfs the machine starts with.
	Total   int `json:"total"`
	Enabled int `json:"enabled,omitempty"`
	// Offset and Stride place VF n at routing id PF + Offset + n*Stride; 1 by default.
	Offset int `json:"offset,omitempty"`
	Stride int `json:"stride,omitempty"`
	// Product is the product ID of the VFs and defaults to the PF's.
	Product string `json:"product,omitempty"`
	// Driver is bound to each VF.
	Driver string `json:"driver,omitempty"`
	// MdevTypes are supported by each VF, as on NVIDIA's cards of the Ampere series.
	MdevTypes []MdevType `json:"mdev_types,omitempty"`
	// VGPUs are those of each VF without mediated devices, as on NVIDIA's cards since the Ada
	// series and kernel 6.8.
	VGPUs *VGPUCard `json:"vgpus,omitempty"`
}

// MdevType describes one directory below mdev_supported_types.
type MdevType struct {
	// Type is the directory's name, nvidia-35.
	Type string `json:"type"`
	// Name is the display name, GRID T4-1B. The types of some parents, such as Intel's GPUs, do not have one.
	Name string `json:"name,omitempty"`
	// AvailableInstances is how many the empty function can hold.
	AvailableInstances int `json:"available_instances"`
	// DeviceAPI is vfio-pci by default.
	DeviceAPI   string `json:"device_api,omitempty"`
	Description string `json:"description,omitempty"`
}

// Interface describes a network interface.
type Interface struct {
	Name string `json:"name"`
	MAC  string `json:"mac,omitempty"`
	Up   bool   `json:"up,omitempty"`
}

// identity is the data that the kernel reads from the configuration space of a function.
type identity struct {
	vendor, product, subVendor, subProduct, class, revision uint32
}

func (d PCIDevice) identity() (identity, error) {
	var id identity
	class := trimHex(d.Class)
	if len(class) == 4 {
		class += "00"
	}
	fields := []struct {
		name, text string
		digits     int
		value      *uint32
	}{
		{"vendor", d.Vendor, 4, &id.vendor},
		{"product", d.Product, 4, &id.product},
		{"subsystem_vendor", cmp.Or(d.SubsystemVendor, "0000"), 4, &id.subVendor},
		{"subsystem_product", cmp.Or(d.SubsystemProduct, "0000"), 4, &id.subProduct},
		{"class", class, 6, &id.class},
		{"revision", cmp.Or(d.Revision, "00"), 2, &id.revision},
	}
	for _, f := range fields {
		var err error
		if *f.value, err = parseHex(f.name, f.text, f.digits); err != nil {
			return id, err
		}
	}
	return id, nil
}

// parseHex reads exactly so many hexadecimal digits, with or without 0x before them.
func parseHex(name, text string, digits int) (uint32, error) {
	text = trimHex(text)
	v, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) != digits {
		return 0, fmt.Errorf("%s %q is not %d hexadecimal digits", name, text, digits)
	}
	return uint32(v), nil
}

func trimHex(text string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
}

// check finds the first fault of one device that does not depend on the others.
func (d PCIDevice) check() error {
	errs := []error{checkOptionalName("driver", d.Driver)}
	for _, i := range d.Interfaces {
		errs = append(errs, checkName("interface name", i.Name))
	}
	for _, disk := range d.Disks {
		errs = append(errs, disk.check())
	}
	for _, c := range d.Clocks {
		errs = append(errs, checkName("clock name", c.Name))
	}
	errs = append(errs, d.FPGA.check(d.VFs))
	for name := range d.Files {
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\x00\n") {
			errs = append(errs, fmt.Errorf("file name %q is not a relative path", name))
		}
	}
	if d.IOMMUGroup != nil && *d.IOMMUGroup < 0 {
		errs = append(errs, fmt.Errorf("iommu_group %d is negative", *d.IOMMUGroup))
	}
	return cmp.Or(append(errs, checkMdevTypes(d.MdevTypes), d.VFs.check())...)
}

func checkName(what, name string) error {
	if !file.IsName(name) {
		return fmt.Errorf("%s %q is not a file name", what, name)
	}
	return nil
}

func checkOptionalName(what, name string) error {
	if name == "" {
		return nil
	}
	return checkName(what, name)
}

const maxVFs = 256 // of one physical function; the hardware's own limit is 65535

func (v *VFs) check() error {
	if v == nil {
		return nil
	}
	if v.Total < 1 || v.Total > maxVFs || v.Enabled < 0 || v.Enabled > v.Total {
		return fmt.Errorf("vfs: total %d, enabled %d, want 1 <= total <= %d and 0 <= enabled <= total", v.Total, v.Enabled, maxVFs)
	}
	if v.Offset < 0 || v.Stride < 0 {
		return fmt.Errorf("vfs: offset %d, stride %d, want none negative", v.Offset, v.Stride)
	}
	if v.Product != "" {
		if _, err := parseHex("vfs: product", v.Product, 4); err != nil {
			return err
		}
	}
	return cmp.Or(checkOptionalName("vfs: driver", v.Driver), checkMdevTypes(v.MdevTypes), v.VGPUs.check())
}

func checkMdevTypes(types []MdevType) error {
	for i, t := range types {
		if err := checkName("mdev type", t.Type); err != nil {
			return err
		}
		if t.AvailableInstances < 0 {
			return fmt.Errorf("mdev type %q: available_instances %d is negative", t.Type, t.AvailableInstances)
		}
		if slices.ContainsFunc(types[:i], func(o MdevType) bool { return o.Type == t.Type }) {
			return fmt.Errorf("mdev type %q twice", t.Type)
		}
	}
	return nil
}
