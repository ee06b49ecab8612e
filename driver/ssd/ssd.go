package ssd

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

const (
	vendorInspur = 0x1bd4
	classNVM     = 0x0108
)

// Config is the configuration of the driver. Upstream has no options for it.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	driver.Policy
	// Vendors are the vendors whose disks are offered, as four hexadecimal digits. Nil
	// means 1bd4, Inspur; an empty list offers nothing.
	Vendors []string `json:"vendors,omitempty"`
}

// New returns the driver for a host's tree. The error wraps driver.ErrConfig and names the
// vendor.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	vendors, err := pciid.ParseList("vendors", config.Vendors, vendorInspur)
	if err != nil {
		return nil, err
	}
	var claims []driver.Claim
	for _, id := range vendors {
		claims = append(claims, driver.Claim{Vendor: id, Class: classNVM, Why: "NVMe disks of " + pciid.Word(id)})
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "inspur_ssd", Host: config.Host, Policy: config.Policy, Claims: claims,
		KernelDrivers: func(driver.Unit) []string { return []string{"nvme"} },
		Device:        device,
		Subject:       subject,
	}, tree)
}

// device is a disk as upstream reports it, from what lspci says.
func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor:          u.VendorID(),
		Model:           strings.TrimSpace(pciid.Title(u.Vendor) + " Device"),
		Type:            driver.TypeSSD,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "Non-Volatile memory controller"}`, u.ProductID()),
		VendorBoardInfo: `{"vendor_info": "ssd_vb_info"}`,
	}
}

func subject(u driver.Unit) driver.Subject {
	vendor := pciid.Word(u.Vendor)
	return driver.Subject{
		Type: driver.TypeSSD, Vendor: vendor, ProductID: u.ProductID(), ShippedClass: "CUSTOM_SSD",
		Shipped: []string{"CUSTOM_SSD_" + strings.ToUpper(vendor), "CUSTOM_SSD_PRODUCT_ID_" + strings.ToUpper(u.ProductID())},
	}
}
