// Package fpga finds the FPGAs of three vendors in a sysfs tree, and programs them.
//
// [Intel] reads what Intel's kernel driver shows below class/fpga: for each PCI function
// a container intel-fpga-dev.N, in it a management engine (intel-fpga-fme.N) for each
// region and a port (intel-fpga-port.N) for each function of the user; and the device feature
// list of the kernel (DFL) below class/fpga_region: regionN, dfl-fme.N and dfl-port.N. [Xilinx]
// joins the functions of one slot into one card. [Inspur] compares vendor and class ids.
//
// If a card has virtual functions, guests get those and never the physical function; otherwise
// they get the card as a whole. A card with one region is one provider with upstream's name. If a
// card has several regions and virtual functions, each region is a provider,
// HOST_ADDRESS_regionN. Its virtual functions are the handles and all loaded functions are
// traits. The three placement modes of the simulated Cyborg then match the Rocky specification: a
// provider for each region below the host (tree), device above region (nested), everything on the
// host (flat).
//
// If a card has several regions, the kernel does not show which virtual function leads to which
// region. The ports of the card are assigned in the order of their numbers, ports_num to each
// region, or the same number to each if the sum of ports_num does not match. If that is not
// possible, the card is a problem until RegionConfig.PCIFunctions is set.
//
// A function may be bound to no kernel driver, to vfio-pci, or to one of its own kind:
// intel-fpga-pci or dfl-pci for Intel, xclmgmt or xocl for Xilinx, none for Inspur.
// Policy.AllowedDrivers adds others.
//
// Placement counts the handles of a provider together. If the handles of a region lead to
// different functions, each handle names its function, and a guest gets the requested function or
// none. The report has a warning about such a region. Config.SeparateFunctions gives each
// function its own provider.
//
// Config.BitstreamLoader is a program that programs cards, for example with the vendor's tool. It
// is run with the argument program and a JSON object on standard input, which docs/drivers.md
// describes, for at most 600 seconds. Afterwards afu_id must show the functions that the image
// names. Without it, only cards of Intel's driver in a tree in memory can be programmed: the
// functions appear in afu_id. An image is a .gbs file, or only its JSON metadata. The kernel does
// not show the functions of other vendors' cards, or of virtual functions that are bound to
// vfio-pci.
//
// A region with a device feature list whose fpga_manager shows that a programming failed, or that
// it is off or held in reset, is skipped. While it is being programmed the card is a problem. One
// without compat_id has a fixed function. If the management engine and the ports of a card are in
// several functions of a slot, the function with the engine is skipped.
//
// It does not load kernel drivers, enable SR-IOV or flash boards. Upstream does not read
// device feature lists.
//
// It follows cyborg/accelerator/drivers/fpga/intel, fpga/xilinx and fpga/inspur of Cyborg
// 2026.2 for names, traits and handles, and the specifications of the Rocky release for
// regions. Unlike upstream it compares ids instead of text, so that disks of Inspur are not
// treated as FPGAs; a Xilinx card has one handle, unless DoubledHandles is set; and a card is
// named after its physical function, also when it has virtual ones.
//
//	d, err := fpga.NewIntel(fpga.Config{Host: "compute1"}, tree)
//	report, err := d.Discover(ctx)
//	err = d.Program(ctx, report.Devices[0].ControlPath, "", image)
package fpga
