// Package pci offers the PCI functions that an operator lists by vendor, product and
// address, under the resource class CUSTOM_PCI.
//
// A whitelist entry admits a function with any kernel driver. Bridges, the display of the
// host, functions whose network interface is up or in another network namespace, and
// physical functions with virtual functions or mediated devices are never offered, and are
// listed as left out.
//
// It follows cyborg/accelerator/drivers/pci/base.py, pci/pci.py and
// cyborg/accelerator/common/utils of Cyborg 2026.2, and the whitelist of Nova's
// nova/pci/devspec.py from which that was taken: an address is a glob of whole fields or
// an object of regular expressions. The expressions are Go's, so look-around and
// back-references are refused; unknown fields of an entry are refused, too, because a
// misspelt vendor_id would otherwise admit every device of the host. As upstream, an
// entry with the address of a physical function does not admit its virtual functions.
//
//	whitelist, err := pci.ParseWhitelist(`{"vendor_id": "8086", "product_id": "1520"}`)
//	d, err := pci.New(pci.Config{Host: "compute1", PassthroughWhitelist: whitelist}, tree)
//	report, err := d.Discover(ctx)
package pci
