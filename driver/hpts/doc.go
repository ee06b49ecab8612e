// Package hpts finds cards for high precision time synchronization in a sysfs tree and
// offers them whole, as PCI devices.
//
// Such cards have no PCI class of their own, so only what is configured is offered: pairs
// of vendor and product, or a vendor alone, by default 1cf2 (ZTE). A vendor alone stands
// for its functions of the classes that such cards come in (00, 05, 07, 08, 11, 12, 13 and
// ff), which a disk or a network card of that vendor is not.
//
// The clock of a network interface is never offered, whatever is configured: it belongs
// to the interface. Clocks that the kernel knows and that are not offered for that or
// because nothing of the kind is configured are listed as left out. Clocks without a
// PCI function, such as those of a hypervisor, are ignored. The driver neither reads nor
// sets the time, and does not see whether a program of the host is using a clock.
//
// Functions bound to these kernel drivers are offered: the one that made a clock of the card, since
// that is the card's own, vfio-pci, none, and those of Policy.AllowedDrivers.
//
// It reads class/ptp/*/clock_name and the link device beside it. The model is the name of
// the clock; while a guest has the card, there is none, and the vendor's name stands for
// it. Type, class and trait are those of the specifications of the Rocky release that
// name such cards (CUSTOM_ACCELERATOR_HPTS, CUSTOM_HPTS_ZTE); no release of Cyborg ships a
// driver for them. The rest follows cyborg/accelerator/drivers/ssd of Cyborg 2026.2.
//
//	d, err := hpts.New(hpts.Config{Host: "compute1", Devices: []hpts.Spec{
//		{VendorID: "1cf2"}, {VendorID: "1d9b", ProductID: "0400"},
//	}}, tree)
//	report, err := d.Discover(ctx)
package hpts
