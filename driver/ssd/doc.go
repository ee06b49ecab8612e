// Package ssd finds the NVMe disks that are configured in a sysfs tree and offers them
// whole, as PCI devices.
//
// It does not erase disks, and offers a disk only if the configuration names it and nothing is stored on it
// as far as the host knows: no partition, no holder such as a volume or an array, no mount and no swap
// (Policy.Mounts), and no file system, volume or partition table that udev has found. Signatures of
// inactive volumes of LVM, ZFS and Ceph are in udev's records only, so a disk without a record is not
// offered. A disk without a kernel driver for disks, for example while a guest has it, does not
// need a record. After a guest has left a partition table on its disk, the disk is not offered
// until it is wiped.
//
// The driver claims class 0108 (Non-Volatile memory controller) of the disks in Config.DeviceSpec and of
// 1bd4, Inspur, the only vendor that upstream's driver reports. Disks bound to these kernel drivers are
// offered: nvme, vfio-pci, none, and the drivers in Policy.AllowedDrivers. A disk with virtual
// functions is skipped, and each virtual function is a deployable of its device.
//
// It follows cyborg/accelerator/drivers/ssd/inspur/driver.py, ssd/base.py and
// ssd/utils.py of Cyborg 2026.2, and compares class and vendor instead of searching the
// text of lspci. The deployables' driver name is "inspur_ssd", where upstream's two Inspur
// drivers share "INSPUR".
//
//	d, err := ssd.New(ssd.Config{Host: "compute1", DeviceSpec: []ssd.Spec{{VendorID: "144d", Address: "0000:3b:*.*"}}}, tree)
//	report, err := d.Discover(ctx)
package ssd
