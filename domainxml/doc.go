// Package domainxml converts the attach handles of bound accelerator requests to
// libvirt devices, merges them into a domain document, removes them, and compares a
// domain with the devices it should have.
//
// A PCI handle becomes a PCI hostdev, managed unless the handle says otherwise, an MDEV handle a mediated device
// hostdev with the handle's UUID, and a TEST_PCI handle, which has no hardware, is
// skipped and listed. Any other handle is an error that names its accelerator
// request, so a guest never starts without one of its devices. The handle of a
// network port becomes a hostdev interface (see [Interfaces]) and the port's binding
// profile.
//
// [Merge], [Complete], [Remove] and [ReplaceMDEV] edit the original text, since
// printing a parsed domain would lose comments and elements unknown to the parser.
// They return the edited copy or an error. Complete also gives devices that are already present
// the aliases of their requests. When a request moves to another device, a later call recognizes
// the old one.
//
// The package does not start, define or change guests, create mediated devices (it
// writes the document of their node devices), or read the host.
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
