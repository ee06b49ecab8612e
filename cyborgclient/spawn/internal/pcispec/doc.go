// Package pcispec reads the entries of Nova's [pci]device_spec as far as they name
// devices by their PCI address, and matches addresses against them. Entries that
// name only vendor and product match nothing, because an attach handle does not
// contain these.
//
// It follows nova/pci/devspec.py of Nova 2026.1.
package pcispec
