// Package devicespec reads Nova's [pci]device_spec: its entries, their hexadecimal ids,
// and the addresses that they name.
//
// It follows nova/pci/devspec.py of Nova 2026.1. An address is a glob of whole fields, or
// an object of regular expressions, which begin at the beginning of the part and need not
// reach its end. The expressions are Go's, so look-around and back-references are refused.
// Differences from Nova: an unknown key of the object is refused, and a domain may be
// above ffff.
package devicespec
