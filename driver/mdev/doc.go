// Package mdev offers mediated devices of any parent below class/mdev_bus: PCI functions, such as
// an Intel GPU, and devices of a kernel module, such as mtty, the kernel's sample of a serial
// port. With mtty, mediated devices can be tried on a machine without an accelerator, from
// discovery to the guest's XML.
//
// A type must be for vfio-pci: a domain cannot have devices of other types. The package loads no
// kernel modules. For NVIDIA's cards, whose traits name the product, use package nvidia.
//
// Upstream's drivers support only NVIDIA's PCI parents. A handle of a parent off the PCI bus has
// no PCI address, so Nova 34 cannot create or find its device. Capacity, handles and the life of
// a mediated device follow cyborg/accelerator/drivers/gpu/utils.py and cyborg/agent/manager.py of
// Cyborg 2026.2; the options are named after Nova's [devices] enabled_mdev_types and [mdev_TYPE]
// device_addresses and mdev_class.
//
//	d, err := mdev.New(mdev.Config{Host: "compute1", EnabledMdevTypes: []mdev.Type{
//		{Name: "mtty-2", Parents: []string{"mtty"}, Class: "CUSTOM_MTTY"},
//	}}, tree)
//	report, err := d.Discover(ctx)
package mdev
