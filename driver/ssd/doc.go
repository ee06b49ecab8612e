// Package ssd finds NVMe disks of configured vendors in a sysfs tree and gives them to
// guests whole, as PCI devices.
//
// It reads no namespaces, erases nothing and knows nothing of what is stored. A disk that
// the host has mounted, swaps on or has made a volume or an array of is the host's own
// and is left out; the mounts come from Policy.Mounts, and while these are not known a disk
// with partitions counts as in use. A disk that holds a file system without partitions
// shows that nowhere in sysfs, so give the mounts on a host with such disks.
//
// Claimed is class 0108 (Non-Volatile memory controller) of the vendors, by default 1bd4,
// Inspur, whose disks alone upstream's driver reports. Bound kernel drivers that are no
// obstacle: nvme, vfio-pci, none, and those of Policy.AllowedDrivers. A disk with virtual
// functions is left out, and each of them is a deployable of its device.
//
// It follows cyborg/accelerator/drivers/ssd/inspur/driver.py, ssd/base.py and
// ssd/utils.py of Cyborg 2026.2, and compares class and vendor instead of searching the
// text of lspci. The deployables' driver name is "inspur_ssd", where upstream's two Inspur
// drivers share "INSPUR".
//
//	d, err := ssd.New(ssd.Config{Host: "compute1", Vendors: []string{"1bd4", "144d"}}, tree)
//	report, err := d.Discover(ctx)
package ssd
