// Package domainxml turns the attach handles of bound accelerator requests into
// libvirt hostdev devices, merges them into a domain document, and reads back
// which devices a domain has.
//
// A PCI handle becomes a managed PCI hostdev, an MDEV handle a mediated device
// hostdev named by the handle's UUID, and a TEST_PCI handle is left out and
// listed, because it has no hardware behind it. Any other handle is an error
// that names its accelerator request: a device that silently stays out of the
// guest is the defect this package exists to prevent.
//
// What it deliberately does not do: it never starts, defines or edits a domain,
// creates no mediated device, and does not look at the host. It never prints a
// user's document again from a parsed form, since that would drop comments and
// elements unknown to the parser; [Merge] splices text into the original bytes.
//
// Upstream behaviour followed: nova/virt/libvirt/driver.py
// (_guest_add_accel_pci_devices, _get_pci_devices), nova/virt/libvirt/config.py
// (LibvirtConfigGuestHostdevPCI, LibvirtConfigGuestHostdevMDEV) of Nova 2026.1,
// and libvirt's src/conf/domain_conf.c and src/conf/device_conf.c for how a
// domain is read.
//
// In short:
//
//	devices, skipped, err := domainxml.Hostdevs(handles)
//	merged, err := domainxml.Merge(domain, devices)
package domainxml
