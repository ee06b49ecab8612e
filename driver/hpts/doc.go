// Package hpts finds cards for high precision time synchronization in a sysfs tree and
// offers them whole, as PCI devices.
//
// Such cards have no PCI class of their own, so only what is configured is offered: pairs
// of vendor and product, or a vendor alone, by default 1cf2 (ZTE). A vendor alone selects its
// functions of the classes that such cards have (00, 05, 07, 08, 11, 12, 13 and ff). These
// exclude disks and network cards of that vendor.
//
// The clock of a network interface belongs to the interface and is never offered, even if it is
// configured. Clocks that the kernel knows and that are not offered, for this reason or because
// they are not configured, are listed as left out. Clocks without a PCI function, such as a
// hypervisor's, are ignored. The driver neither reads nor sets the time, and does not see whether
// a program of the host is using a clock.
//
// Functions bound to these kernel drivers are offered: the card's own driver, which made its
// clock, vfio-pci, none, and the drivers in Policy.AllowedDrivers.
//
// It reads class/ptp/*/clock_name and the link device next to it. The model is the name of the
// clock. While a guest has the card there is no clock, and the model is the name of the vendor.
// Type, class and trait follow the specifications of the Rocky release that name such cards
// (CUSTOM_ACCELERATOR_HPTS, CUSTOM_HPTS_ZTE); no release of Cyborg ships a driver for them. The
// rest follows cyborg/accelerator/drivers/ssd of Cyborg 2026.2.
//
//	d, err := hpts.New(hpts.Config{Host: "compute1", Devices: []hpts.Spec{
//		{VendorID: "1cf2"}, {VendorID: "1d9b", ProductID: "0400"},
//	}}, tree)
//	report, err := d.Discover(ctx)
package hpts
