// Package mdev offers mediated devices of parents that are not on the PCI bus: devices
// that a kernel module makes below class/mdev_bus, such as mtty, the sample of a serial
// port that the kernel comes with. So mediated devices can be tried on a machine without an
// accelerator, from discovery to the guest's XML.
//
// It does not touch parents on the PCI bus; package nvidia is for cards that are divided into
// vGPUs. It loads no kernel modules.
//
// Upstream's drivers know PCI parents only. Capacity, handles and the life of a mediated
// device follow cyborg/accelerator/drivers/gpu/utils.py and cyborg/agent/manager.py of
// Cyborg 2026.2; the options are named after Nova's [devices] enabled_mdev_types and
// [mdev_TYPE] device_addresses and mdev_class.
//
//	d, err := mdev.New(mdev.Config{Host: "compute1", EnabledMdevTypes: []mdev.Type{
//		{Name: "mtty-2", Parents: []string{"mtty"}, Class: "CUSTOM_MTTY"},
//	}}, tree)
//	report, err := d.Discover(ctx)
package mdev
