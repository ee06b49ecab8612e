// Package mdev offers mediated devices of any parent below class/mdev_bus: PCI functions, such
// as a GPU of Intel's, and devices that a kernel module makes, such as mtty, the sample of a serial
// port that the kernel comes with. So mediated devices can be tried on a machine without an
// accelerator, from discovery to the guest's XML.
//
// A type must be one for vfio-pci: a domain cannot have devices of others. Package nvidia is for NVIDIA's cards, whose
// traits name the product. It loads no kernel modules.
//
// Upstream's drivers know PCI parents only, of NVIDIA's. A handle of another parent has no PCI address, so that Nova 34 cannot
// create or find its device. Capacity, handles and the life of a mediated
// device follow cyborg/accelerator/drivers/gpu/utils.py and cyborg/agent/manager.py of
// Cyborg 2026.2; the options are named after Nova's [devices] enabled_mdev_types and
// [mdev_TYPE] device_addresses and mdev_class.
//
//	d, err := mdev.New(mdev.Config{Host: "compute1", EnabledMdevTypes: []mdev.Type{
//		{Name: "mtty-2", Parents: []string{"mtty"}, Class: "CUSTOM_MTTY"},
//	}}, tree)
//	report, err := d.Discover(ctx)
package mdev
