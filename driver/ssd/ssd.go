package ssd

import (
	"fmt"
	"slices"
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
	// DeviceSpec names the disks that are offered ([nvme] device_spec). Without any, nothing is.
	DeviceSpec []Spec `json:"device_spec,omitempty"`
}

// New returns the driver for a host's tree. The error wraps driver.ErrConfig and names the
// entry. The driver claims what the entries name, and the disks of Inspur.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	claims := []driver.Claim{{Vendor: vendorInspur, Class: classNVM, Why: "NVMe disks of " + pciid.Word(vendorInspur)}}
	var named []matcher
	for i, spec := range config.DeviceSpec {
		m, err := spec.matcher()
		if err != nil {
			return nil, fmt.Errorf("%w: device_spec entry %d: %w", driver.ErrConfig, i, err)
		}
		named = append(named, m)
		claims = append(claims, driver.Claim{Vendor: m.vendor, Product: m.product, Class: classNVM, Why: fmt.Sprintf("device_spec entry %d", i)})
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "inspur_ssd", Host: config.Host, Policy: config.Policy, Claims: claims,
		KernelDrivers: func(driver.Unit) []string { return []string{"nvme"} },
		Vet: func(u driver.Unit) string {
			if !slices.ContainsFunc(named, func(m matcher) bool { return m.matches(u) }) {
				return "no entry of device_spec names the disk"
			}
			return ""
		},
		Device:  device,
		Subject: subject,
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
