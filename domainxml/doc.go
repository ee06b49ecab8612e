// Package domainxml turns the attach handles of bound accelerator requests into
// libvirt devices, merges them into a domain document, takes them out again, and
// tells what a domain has and lacks.
//
// A PCI handle becomes a managed PCI hostdev, an MDEV handle a mediated device
// hostdev named by the handle's UUID, and a TEST_PCI handle is left out and
// listed, because it has no hardware behind it. Any other handle is an error
// that names its accelerator request: a device that silently stays out of the
// guest is the defect this package exists to prevent. [Options] has the rules of
// released Nova. The handle of a network port becomes a hostdev interface (see
// [Interfaces]) and the port's binding profile.
//
// A domain that exists is never printed again from a parsed form, since that
// would drop comments and elements unknown to the parser: [Merge], [Complete],
// [Remove] and [ReplaceMDEV] splice text in the original bytes. Each does all or
// nothing.
//
// What it deliberately does not do: it never starts, defines or changes a guest,
// creates no mediated device (of whose node device it writes the document), and
// does not look at the host.
//
// Upstream behaviour followed: nova/virt/libvirt/driver.py
// (_guest_add_accel_pci_devices, _get_pci_devices, _get_guest_config for the
// order), nova/virt/libvirt/vif.py (set_config_hw_veb), nova/virt/libvirt/config.py
// (LibvirtConfigGuestHostdevPCI, LibvirtConfigGuestHostdevMDEV) and
// nova/network/neutron.py (the binding profile) of Nova 2026.1, the vGPU
// specifications of Wallaby and 2026.2, and libvirt's src/conf/domain_conf.c and
// src/conf/device_conf.c for how a domain is read.
//
// In short:
//
//	devices, skipped, err := domainxml.Hostdevs(handles)
//	merged, err := domainxml.Merge(domain, devices)
//	diff, err := domainxml.Diff(saved, devices) // diff.Missing, diff.Foreign
package domainxml
