package ssd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name          = "inspur_ssd"
	vendorInspur  = "1bd4"
	classNVM      = 0x0108
	resourceClass = "CUSTOM_SSD"
)

// ErrConfig is what every error about the configuration of the driver wraps.
var ErrConfig = errors.New("ssd: bad configuration")

// Config is the configuration of the driver. Upstream has no options for it.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	driver.Policy
	// Vendors are the vendors whose disks are offered, as four hexadecimal digits. Nil
	// means 1bd4, Inspur; an empty list offers nothing.
	Vendors []string `json:"vendors,omitempty"`
}

// Driver finds the disks of one host.
type Driver struct {
	*driver.PCIDriver
}

// New returns the driver for a host's tree. The error wraps ErrConfig and names the
// vendor.
func New(config Config, tree driver.Tree) (*Driver, error) {
	if config.Host == "" {
		return nil, fmt.Errorf("%w: no host name", ErrConfig)
	}
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	claims, err := config.claims()
	if err != nil {
		return nil, err
	}
	return &Driver{driver.NewPCIDriver(driver.PCIOffer{
		Driver:     name,
		Host:       config.Host,
		Policy:     config.Policy,
		Claims:     claims,
		Kernel:     func(driver.Unit) []string { return []string{"nvme"} },
		Device:     device,
		Attributes: config.AttributesOf(subject),
	}, tree)}, nil
}

// claims reads the vendors.
func (c Config) claims() ([]driver.Claim, error) {
	vendors := c.Vendors
	if vendors == nil {
		vendors = []string{vendorInspur}
	}
	var list []driver.Claim
	for _, text := range vendors {
		id, err := driver.ParsePCIID(text)
		if err != nil {
			return nil, fmt.Errorf("%w: vendors: %w", ErrConfig, err)
		}
		claim := driver.Claim{Vendor: id, Class: classNVM, Why: "NVMe disks of " + driver.VendorWord(id)}
		if slices.Contains(list, claim) {
			return nil, fmt.Errorf("%w: vendors: %q is there twice", ErrConfig, text)
		}
		list = append(list, claim)
	}
	return list, nil
}

// device is a disk as upstream reports it, from what lspci says.
func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor:          u.VendorID(),
		Model:           strings.TrimSpace(driver.VendorTitle(u.Vendor) + " Device"),
		Type:            driver.TypeSSD,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "Non-Volatile memory controller"}`, u.ProductID()),
		VendorBoardInfo: `{"vendor_info": "ssd_vb_info"}`,
	}
}

func subject(u driver.Unit) (driver.Subject, error) {
	s := driver.Subject{
		Type: driver.TypeSSD, Vendor: driver.VendorWord(u.Vendor), ProductID: u.ProductID(), ShippedClass: resourceClass,
	}
	for _, parts := range [][]string{{"SSD", s.Vendor}, {"SSD", "PRODUCT", "ID", s.ProductID}} {
		trait, err := driver.CustomName(parts...)
		if err != nil {
			return driver.Subject{}, err
		}
		s.Shipped = append(s.Shipped, trait)
	}
	return s, nil
}
