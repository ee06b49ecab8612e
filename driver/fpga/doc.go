// Package fpga finds the FPGAs of three vendors in a sysfs tree, and programs them.
//
// [Intel] reads what Intel's kernel driver shows below class/fpga: for each PCI function
// a container intel-fpga-dev.N, in it a management engine (intel-fpga-fme.N) for each
// region and a port (intel-fpga-port.N) for each function of the user; and the device feature
// list of the kernel (DFL) below class/fpga_region: regionN, dfl-fme.N and dfl-port.N. [Xilinx]
// joins the functions of one slot into one card. [Inspur] compares vendor and class ids.
//
// Guests get the virtual functions of a card where it has any, and then
// never the physical one; else the card as a whole. A card with one region is one
// provider, named as upstream names it. Of one with several regions and virtual functions
// each region is a provider, HOST_ADDRESS_regionN, in which its virtual functions are the
// handles and all loaded functions are traits. So the three placement modes of the
// simulated Cyborg come out as the Rocky specification has them: a provider for each
// region below the host (tree), device above region (nested), everything on the host
// (flat).
//
// Which virtual function leads to which region of several, the kernel does not say. The
// ports of a card are taken in the order of their numbers, as many for each region as its
// ports_num says, or the same number for each when those do not add up. Where that is
// not possible, the card is a problem until RegionConfig.PCIFunctions is set.
//
// A function may be bound to no kernel driver, to vfio-pci, or to one of its own kind:
// intel-fpga-pci or dfl-pci for Intel's, xclmgmt or xocl for those of Xilinx, none for
// Inspur's. Policy.AllowedDrivers adds others.
//
// Placement counts the handles of a provider together. Where handles of a region lead to different
// functions each handle names its own, and a guest gets the function that it asked for, or none.
// Such a region has a warning in the report, and Config.SeparateFunctions keeps the functions apart.
//
// Config.BitstreamLoader is a program that programs cards, such as with the vendor's tool: it
// is run with the argument program and a JSON object on standard input, which docs/drivers.md
// describes, for at most 600 seconds. Afterwards afu_id has to show the functions that the image
// names. Without it, cards of Intel's driver in a tree in memory can be programmed: the functions
// show in afu_id. An image is a .gbs file, or its JSON metadata alone. The kernel shows nothing of
// the functions of other vendors' cards; and it does not show those of virtual functions that are
// bound to vfio-pci.
//
// A region with a device feature list whose fpga_manager shows that a programming failed, or
// that it is off or held in reset, is left out. While it is being programmed the card is a problem.
// One without compat_id has a fixed function. Of a card whose management engine and ports are in
// several functions of a slot, that with the engine is left out.
//
// It does not load kernel drivers, enable SR-IOV or flash boards. Upstream does not read
// device feature lists.
//
// It follows cyborg/accelerator/drivers/fpga/intel, fpga/xilinx and fpga/inspur of Cyborg
// 2026.2 for names, traits and handles, and the specifications of the Rocky release for
// regions. Unlike upstream it compares ids instead of text, so that disks of Inspur's are
// no FPGAs; a Xilinx card has one handle, unless DoubledHandles is set; and the name of a
// card is that of its physical function, also when it has virtual ones.
//
//	d, err := fpga.NewIntel(fpga.Config{Host: "compute1"}, tree)
//	report, err := d.Discover(ctx)
//	err = d.Program(ctx, report.Devices[0].ControlPath, "", image)
package fpga
