package fpga

import (
	"cmp"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	vendorIntel  = 0x8086
	vendorXilinx = 0x10ee
	vendorInspur = 0x1bd4

	classAccelerator = 0x1200 // processing accelerators
)

// productID are the numbers that a function is known by.
type productID struct{ vendor, product uint16 }

// builtinProducts are the cards whose name is known. Upstream knows the first; a virtual
// function has an id of its own.
func builtinProducts() map[productID]Product {
	arria := Product{Name: "PAC_ARRIA10", Family: "ARRIA10"}
	d5005 := Product{Name: "PAC_D5005", Family: "STRATIX10"}
	n3000 := Product{Name: "PAC_N3000", Family: "ARRIA10"}
	return map[productID]Product{
		{vendorIntel, 0x09c4}: arria, {vendorIntel, 0x09c5}: arria,
		{vendorIntel, 0x0b2b}: d5005, {vendorIntel, 0x0b2c}: d5005,
		{vendorIntel, 0x0b30}: n3000,
	}
}

// claims are the ids of a vendor among the products.
func (s *settings) claims(vendor uint16) []driver.Claim {
	var list []driver.Claim
	for id, p := range s.products {
		if id.vendor == vendor {
			list = append(list, driver.Claim{Vendor: vendor, Product: id.product, Why: "FPGA " + p.Name})
		}
	}
	slices.SortFunc(list, func(a, b driver.Claim) int { return cmp.Compare(a.Product, b.Product) })
	return list
}
