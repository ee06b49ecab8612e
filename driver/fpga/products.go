package fpga

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	vendorIntel  = 0x8086
	vendorXilinx = 0x10ee
	vendorInspur = 0x1bd4

	classAccelerator = 0x1200 // processing accelerators
)

// builtinProducts are the cards whose name is known. Upstream knows the first; a virtual
// function has an id of its own.
func builtinProducts() map[string]Product {
	arria := Product{Name: "PAC_ARRIA10", Family: "ARRIA10"}
	d5005 := Product{Name: "PAC_D5005", Family: "STRATIX10"}
	n3000 := Product{Name: "PAC_N3000", Family: "ARRIA10"}
	return map[string]Product{
		"8086:09c4": arria, "8086:09c5": arria,
		"8086:0b2b": d5005, "8086:0b2c": d5005,
		"8086:0b30": n3000,
	}
}

// claims are the ids of a vendor among the products.
func (s *settings) claims(vendor uint16) []driver.Claim {
	var list []driver.Claim
	for _, id := range slices.Sorted(maps.Keys(s.products)) {
		v, _ := strconv.ParseUint(id[:4], 16, 16)
		p, _ := strconv.ParseUint(id[5:], 16, 16) // checked with the configuration
		if uint16(v) == vendor {
			list = append(list, driver.Claim{Vendor: vendor, Product: uint16(p), Why: "FPGA " + s.products[id].Name})
		}
	}
	return list
}
