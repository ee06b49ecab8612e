// Package sysfs has the two implementations of driver.Tree: a directory, which may be the
// live /sys or a captured copy, and a tree in memory that reacts to writes as the kernel
// does. Authors of drivers test them on trees in memory, and describe a simulated host
// with the same types.
//
// Trees in memory are generated from a Description: PCI functions with their NUMA nodes,
// IOMMU groups, kernel drivers, virtual functions, mediated device types, disks, clocks,
// and the FPGA class of Intel's driver, and parents of mediated devices off the PCI bus;
// with the links of a kernel. Memory.LayOut writes one into a directory. It
// is not a general sysfs: it has only what drivers of accelerators read, and nothing of
// the newer FPGA classes (dfl).
//
// Dump and Load preserve writes across a restart of the program: for a tree in memory the
// changes, for a directory the recorded writes.
//
// It follows the kernel's Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-vfio-mdev,
// sysfs-ptp, Documentation/ABI/stable/sysfs-block, samples/vfio-mdev/mtty.c, and
// drivers/vfio/mdev, drivers/pci/iov.c for the effects of writes; the FPGA class follows Intel's
// driver outside the kernel, as cyborg/accelerator/drivers/fpga/intel/sysinfo.py of Cyborg 2026.2
// reads it.
//
//	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
//		{Address: "0000:3b:00.0", Vendor: "10de", Product: "1eb8", Class: "0302"},
//	}})
//	vendor, err := tree.ReadFile("bus/pci/devices/0000:3b:00.0/vendor") // "0x10de\n"
package sysfs
