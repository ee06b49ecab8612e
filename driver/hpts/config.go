package hpts

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

const vendorZTE = "1cf2"

// Config is the configuration of the driver. Upstream has no such driver.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	driver.Policy
	// Devices are the cards that are offered. Nil means vendor 1cf2, ZTE; an empty list
	// offers nothing.
	Devices []Spec `json:"devices,omitempty"`
}

// Spec is one kind of card.
type Spec struct {
	// VendorID is four hexadecimal digits.
	VendorID string `json:"vendor_id"`
	// ProductID is four hexadecimal digits and matches functions of any class. Empty or "*" means
	// all products of the vendor whose class is possible for such a card.
	ProductID string `json:"product_id,omitempty"`
}

// claims reads the list.
func (c Config) claims() ([]driver.Claim, error) {
	devices := c.Devices
	if devices == nil {
		devices = []Spec{{VendorID: vendorZTE}}
	}
	var list []driver.Claim
	for i, d := range devices {
		claim, err := d.claim()
		if err != nil {
			return nil, fmt.Errorf("%w: devices entry %d: %w", driver.ErrConfig, i, err)
		}
		if slices.Contains(list, claim) {
			return nil, fmt.Errorf("%w: devices entry %d: %s appears twice", driver.ErrConfig, i, claim.Why)
		}
		list = append(list, claim)
	}
	return list, nil
}

func (s Spec) claim() (driver.Claim, error) {
	vendor, err := pciid.Parse(s.VendorID)
	if err != nil {
		return driver.Claim{}, fmt.Errorf("vendor_id: %w", err)
	}
	claim := driver.Claim{Vendor: vendor, Why: "time cards of " + pciid.Word(vendor)}
	if s.ProductID == "" || s.ProductID == "*" {
		return claim, nil
	}
	if claim.Product, err = pciid.Parse(s.ProductID); err != nil {
		return driver.Claim{}, fmt.Errorf("product_id: %w", err)
	}
	claim.Why = fmt.Sprintf("time card %04x:%04x", vendor, claim.Product)
	return claim, nil
}

// ofTime reports whether a time card may have this class, for a vendor that is
// configured without products.
func ofTime(f driver.PCIFunction) bool {
	switch f.DeviceClass() >> 8 {
	case 0x00, // from before there were classes
		0x05,             // memory, as many FPGA designs present themselves
		0x07,             // communication
		0x08,             // system peripherals, timers among them
		0x11,             // signal processing: communication synchronizers
		0x12, 0x13, 0xff: // accelerators, instrumentation, unassigned
		return true
	}
	return false
}
