// Package qat finds Intel's QuickAssist accelerators in a sysfs tree and offers them as PCI
// devices: the whole accelerator, or each of its virtual functions.
//
// It does not enable virtual functions, load firmware or configure services.
//
// An accelerator bound to its own kernel driver (c6xx, c6xxvf and so on), to vfio-pci or
// to none is offered; Policy.AllowedDrivers adds others. An accelerator with virtual functions is
// skipped, and each virtual function is a deployable of its device.
//
// These are the ids it claims, all of vendor 8086. Upstream's driver claims 37c8 only. The others
// come from the kernel's drivers, by the name of the constant, for the physical and the virtual
// function (the latter with _VF or IOV in the name):
//
//	family    ids         source in the Linux kernel
//	dh895xcc  0435, 0443  include/linux/pci_ids.h, PCI_DEVICE_ID_INTEL_QAT_DH895XCC
//	c62x      37c8, 37c9  include/linux/pci_ids.h, PCI_DEVICE_ID_INTEL_QAT_C62X
//	c3xxx     19e2, 19e3  include/linux/pci_ids.h, PCI_DEVICE_ID_INTEL_QAT_C3XXX
//	4xxx      4940, 4941  drivers/crypto/intel/qat/qat_common/adf_accel_devices.h, ADF_4XXX_PCI_DEVICE_ID
//	401xx     4942, 4943  the same, ADF_401XX_PCI_DEVICE_ID
//	402xx     4944, 4945  the same, ADF_402XX_PCI_DEVICE_ID
//	420xx     4946, 4947  the same, ADF_420XX_PCI_DEVICE_ID
//	6xxx      4948, 4949  the same, ADF_6XXX_PCI_DEVICE_ID
//
// Families that only Intel's own driver package serves (c4xxx 18a0, 200xx 18ee, d15xx
// 6f54) are not claimed.
//
// It follows cyborg/accelerator/drivers/qat/intel/driver.py and sysinfo.py of Cyborg
// 2026.2: type, class, names and board information. The deployables' driver name is
// "intel_qat", where upstream's three Intel drivers share "intel".
//
//	d, err := qat.New(qat.Config{Host: "compute1"}, tree)
//	report, err := d.Discover(ctx)
package qat
