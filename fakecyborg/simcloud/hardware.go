package simcloud

import "github.com/gocyborg/gocyborg/internal/sysfs"

// PCIDevice describes one physical PCI function of a synthetic host. Numbers of hardware
// are hexadecimal text, with or without 0x, as people know them from lspci.
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
	// NUMANode and IOMMUGroup are absent on machines that have neither.
	NUMANode   *int `json:"numa_node,omitempty"`
	IOMMUGroup *int `json:"iommu_group,omitempty"`
	// BootVGA marks the display the host started with.
	BootVGA bool `json:"boot_vga,omitempty"`
	// VFs makes the function a physical function of SR-IOV.
	VFs *VFs `json:"vfs,omitempty"`
	// MdevTypes are the mediated device types the function supports. Unless
	// MixedMdevTypes is set, the first mdev made leaves no room for other types.
	MdevTypes      []MdevType `json:"mdev_types,omitempty"`
	MixedMdevTypes bool       `json:"mixed_mdev_types,omitempty"`
	// Interfaces are the network interfaces of the function.
	Interfaces []Interface `json:"interfaces,omitempty"`
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
	// Product is the product id of the VFs; that of the physical function by default.
	Product string `json:"product,omitempty"`
	// Driver is bound to each VF.
	Driver string `json:"driver,omitempty"`
	// MdevTypes are supported by each VF.
	MdevTypes []MdevType `json:"mdev_types,omitempty"`
}

// MdevType describes one directory below mdev_supported_types.
type MdevType struct {
	// Type is the directory's name, nvidia-222.
	Type string `json:"type"`
	// Name is what people call it, GRID T4-1B.
	Name string `json:"name"`
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

// description is what internal/sysfs generates a tree of.
func description(devices []PCIDevice) sysfs.Description {
	var d sysfs.Description
	for _, p := range devices {
		q := sysfs.PCIDevice{
			Address: p.Address, Parent: p.Parent, Vendor: p.Vendor, Product: p.Product,
			SubsystemVendor: p.SubsystemVendor, SubsystemProduct: p.SubsystemProduct,
			Class: p.Class, Revision: p.Revision, Driver: p.Driver,
			NUMANode: p.NUMANode, IOMMUGroup: p.IOMMUGroup, BootVGA: p.BootVGA,
			MdevTypes: mdevTypes(p.MdevTypes), MixedMdevTypes: p.MixedMdevTypes, Files: p.Files,
		}
		if p.VFs != nil {
			q.VFs = &sysfs.VFs{
				Total: p.VFs.Total, Enabled: p.VFs.Enabled, Offset: p.VFs.Offset, Stride: p.VFs.Stride,
				Product: p.VFs.Product, Driver: p.VFs.Driver, MdevTypes: mdevTypes(p.VFs.MdevTypes),
			}
		}
		for _, i := range p.Interfaces {
			q.Interfaces = append(q.Interfaces, sysfs.Interface(i))
		}
		d.Devices = append(d.Devices, q)
	}
	return d
}

func mdevTypes(types []MdevType) []sysfs.MdevType {
	var list []sysfs.MdevType
	for _, t := range types {
		list = append(list, sysfs.MdevType(t))
	}
	return list
}
