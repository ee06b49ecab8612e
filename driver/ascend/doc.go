// Package ascend finds Huawei's Ascend processors for machine learning in a sysfs tree
// and offers them whole, as PCI devices.
//
// It does not divide them (a card that carries mediated devices is left out), does not
// call npu-smi and loads no firmware.
//
// Upstream's driver reports devices that Cyborg cannot use: without class and traits, by
// which the report of the whole host fails, and named without the host, so that two hosts
// collide. This one follows it in type, vendor, board information and the one PCI handle,
// and adds what upstream lacks:
//
//   - The deployable is named HOST_ADDRESS like those of upstream's other drivers.
//   - The resource class is CUSTOM_AICHIP: os-resource-classes has no class for such
//     processors, and upstream's drivers without a standard class report CUSTOM_ and the
//     device type (CUSTOM_QAT, CUSTOM_NIC, CUSTOM_SSD).
//   - The traits are CUSTOM_AICHIP_HUAWEI and CUSTOM_AICHIP_PRODUCT_ID_D100, in the form that
//     upstream's drivers for disks and FPGAs use.
//   - The model is that of the table; upstream leaves it empty.
//   - The driver name of deployables is "ascend", where upstream has "huawei".
//
// The driver claims these ids of vendor 19e5. Upstream's driver searches for d100 only; the
// others are those that the vendor's installation guides list for lspci.
// Config.ProductIDs replaces the list.
//
//	d100  Ascend 310
//	d500  Ascend 310P
//	d801  Ascend 910
//	d802  Ascend 910B
//
// Functions bound to these kernel drivers are offered: devdrv_device_driver, the vendor's own,
// vfio-pci, none, and those of Policy.AllowedDrivers.
//
// It follows cyborg/accelerator/drivers/aichip/huawei/ascend.py of Cyborg 2026.2.
//
//	d, err := ascend.New(ascend.Config{Host: "compute1"}, tree)
//	report, err := d.Discover(ctx)
package ascend
