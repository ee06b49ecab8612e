package simcloud

import "github.com/gocyborg/gocyborg/driver/sysfs"

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
	// Disks are the block devices of the function.
	Disks []Disk `json:"disks,omitempty"`
	// Clocks are the clocks of the precision time protocol that the function has.
	Clocks []PTPClock `json:"clocks,omitempty"`
	// FPGA is what Intel's FPGA driver shows of the function.
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

// Disk describes a disk of a PCI function.
type Disk struct {
	// Name is that of the block device: nvme0n1, sda, vda.
	Name string `json:"name"`
	// Major and Minor are the number of the device, 259:0 in its file dev.
	Major int `json:"major"`
	Minor int `json:"minor"`
	// Partitions are those of the disk, with the same Major.
	Partitions []Partition `json:"partitions,omitempty"`
	// Holders are block devices made of the whole disk: dm-0, md127.
	Holders []string `json:"holders,omitempty"`
}

// Partition describes one partition of a disk.
type Partition struct {
	// Name is that of the block device: nvme0n1p1, sda1.
	Name  string `json:"name"`
	Minor int    `json:"minor"`
	// Holders are block devices made of the partition: dm-0, md127.
	Holders []string `json:"holders,omitempty"`
}

// PTPClock describes a precision time protocol clock of a PCI function.
type PTPClock struct {
	// Name is that of the class device, ptp0.
	Name string `json:"name"`
	// ClockName is what the kernel driver calls it, the content of clock_name.
	ClockName string `json:"clock_name"`
}

// FPGA describes what Intel's FPGA driver shows of a PCI function: a management engine
// per region and a port per function of the user.
type FPGA struct {
	// Dev is N of class/fpga/intel-fpga-dev.N. The ports moved to virtual functions get
	// numbers of their own, above all those described.
	Dev int `json:"dev"`
	// InterfaceID is the type of the only region, 32 hexadecimal digits; its management
	// engine has the number of the device.
	InterfaceID string `json:"interface_id,omitempty"`
	// Regions are the regions of an FPGA with several.
	Regions []FPGARegion `json:"regions,omitempty"`
	Ports   []FPGAPort   `json:"ports,omitempty"`
}

// FPGARegion is one partial reconfiguration region: intel-fpga-fme.N/pr/interface_id.
type FPGARegion struct {
	// Number is N of intel-fpga-fme.N.
	Number int `json:"number"`
	// InterfaceID is the type of the region, 32 hexadecimal digits.
	InterfaceID string `json:"interface_id"`
}

// FPGAPort is the place of one function: intel-fpga-port.N/afu_id.
type FPGAPort struct {
	// Number is N of intel-fpga-port.N.
	Number int `json:"number"`
	// AFUID is the function loaded at the start, 32 hexadecimal digits.
	AFUID string `json:"afu_id,omitempty"`
	// VF is the virtual function that the port belongs to while that exists, counted
	// from 1; 0 leaves it with the physical function.
	VF int `json:"vf,omitempty"`
}

// MdevParent describes a device off the PCI bus that mediated devices are made on, such
// as the kernel's samples mtty and mbochs.
type MdevParent struct {
	// Name is that of the device and of its class: mtty.
	Name  string     `json:"name"`
	Types []MdevType `json:"types"`
	// MixedMdevTypes lets mdevs of several types stand side by side.
	MixedMdevTypes bool `json:"mixed_mdev_types,omitempty"`
}

// description is what driver/sysfs generates a tree of.
func description(devices []PCIDevice, parents ...MdevParent) sysfs.Description {
	var d sysfs.Description
	for _, p := range devices {
		d.Devices = append(d.Devices, p.described())
	}
	for _, p := range parents {
		d.MdevParents = append(d.MdevParents, sysfs.MdevParent{
			Name: p.Name, Types: mdevTypes(p.Types), MixedMdevTypes: p.MixedMdevTypes,
		})
	}
	return d
}

func (d PCIDevice) described() sysfs.PCIDevice {
	q := sysfs.PCIDevice{
		Address: d.Address, Parent: d.Parent, Vendor: d.Vendor, Product: d.Product,
		SubsystemVendor: d.SubsystemVendor, SubsystemProduct: d.SubsystemProduct,
		Class: d.Class, Revision: d.Revision, Driver: d.Driver,
		NUMANode: d.NUMANode, IOMMUGroup: d.IOMMUGroup, BootVGA: d.BootVGA,
		MdevTypes: mdevTypes(d.MdevTypes), MixedMdevTypes: d.MixedMdevTypes, Files: d.Files,
		FPGA: d.FPGA.described(),
	}
	if v := d.VFs; v != nil {
		q.VFs = &sysfs.VFs{
			Total: v.Total, Enabled: v.Enabled, Offset: v.Offset, Stride: v.Stride,
			Product: v.Product, Driver: v.Driver, MdevTypes: mdevTypes(v.MdevTypes),
		}
	}
	for _, i := range d.Interfaces {
		q.Interfaces = append(q.Interfaces, sysfs.Interface(i))
	}
	for _, disk := range d.Disks {
		q.Disks = append(q.Disks, disk.described())
	}
	for _, c := range d.Clocks {
		q.Clocks = append(q.Clocks, sysfs.Clock(c))
	}
	return q
}

func (d Disk) described() sysfs.Disk {
	q := sysfs.Disk{Name: d.Name, Major: d.Major, Minor: d.Minor, Holders: d.Holders}
	for _, p := range d.Partitions {
		q.Partitions = append(q.Partitions, sysfs.Partition(p))
	}
	return q
}

func (g *FPGA) described() *sysfs.FPGA {
	if g == nil {
		return nil
	}
	q := &sysfs.FPGA{Dev: g.Dev, InterfaceID: g.InterfaceID}
	for _, r := range g.Regions {
		q.Regions = append(q.Regions, sysfs.FPGARegion(r))
	}
	for _, p := range g.Ports {
		q.Ports = append(q.Ports, sysfs.FPGAPort(p))
	}
	return q
}

func mdevTypes(types []MdevType) []sysfs.MdevType {
	var list []sysfs.MdevType
	for _, t := range types {
		list = append(list, sysfs.MdevType(t))
	}
	return list
}
