// Package ascend finds Huawei's Ascend processors for machine learning in a sysfs tree
// and offers them whole, as PCI devices.
//
// It does not divide them (a card with mediated devices is skipped), does not call npu-smi and
// loads no firmware.
//
// Upstream's driver reports devices that Cyborg cannot use: they have no class and traits, which
// makes the report of the whole host fail, and their names do not contain the host, so two hosts
// collide. This one follows it in type, vendor, board information and the one PCI handle, and
// adds what upstream lacks:
//
//   - The deployable is named HOST_ADDRESS as by upstream's other drivers.
//   - The resource class is CUSTOM_AICHIP: os-resource-classes has no class for such
//     processors, and upstream's drivers without a standard class report CUSTOM_ and the
//     device type (CUSTOM_QAT, CUSTOM_NIC, CUSTOM_SSD).
//   - The traits are CUSTOM_AICHIP_HUAWEI and CUSTOM_AICHIP_PRODUCT_ID_D100, in the form that
//     upstream's drivers for disks and FPGAs use.
//   - The model is taken from the table; upstream leaves it empty.
//   - The driver name of deployables is "ascend", where upstream has "huawei".
//
// The driver claims these ids of vendor 19e5. Upstream's driver searches for d100 only; the
// vendor's installation guides list the others for lspci. Config.ProductIDs replaces the list.
//
//	d100  Ascend 310
//	d500  Ascend 310P
//	d801  Ascend 910
//	d802  Ascend 910B
//
// Functions bound to these kernel drivers are offered: the vendor's devdrv_device_driver,
// vfio-pci, none, and the drivers in Policy.AllowedDrivers.
//
// It follows cyborg/accelerator/drivers/aichip/huawei/ascend.py of Cyborg 2026.2.
//
//	d, err := ascend.New(ascend.Config{Host: "compute1"}, tree)
//	report, err := d.Discover(ctx)
package ascend
