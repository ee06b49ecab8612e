package qat

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name          = "intel_qat"
	vendorIntel   = 0x8086
	resourceClass = "CUSTOM_QAT"
)

// ErrConfig is what every error about the configuration of the driver wraps.
var ErrConfig = errors.New("qat: bad configuration")

// Config is the configuration of the driver. Upstream has no options for it.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host; upstream takes the name of
	// the operating system).
	Host string `json:"host"`
	driver.Policy
}

// Driver finds the QuickAssist accelerators of one host.
type Driver struct {
	*driver.PCIDriver
}

// New returns the driver for a host's tree. The error wraps ErrConfig.
func New(config Config, tree driver.Tree) (*Driver, error) {
	if config.Host == "" {
		return nil, fmt.Errorf("%w: no host name", ErrConfig)
	}
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &Driver{driver.NewPCIDriver(driver.PCIOffer{
		Driver: name,
		Host:   config.Host,
		Policy: config.Policy,
		Claims: claims(),
		Virtual: func(vf, pf driver.PCIFunction) bool {
			return slices.ContainsFunc(families(), func(f family) bool { return vf.Product == f.virtual && pf.Product == f.physical })
		},
		Kernel: func(u driver.Unit) []string { return familyOf(u).kernel },
		Device: device,
		Attributes: func(u driver.Unit) ([]driver.Attribute, error) {
			return config.Attributes(subject(u))
		},
	}, tree)}, nil
}

// device is an accelerator as upstream reports it.
func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor:          "0x" + u.VendorID(),
		Model:           "miss_model_info",
		Type:            driver.TypeQAT,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "0x%s"}`, u.ProductID()),
		VendorBoardInfo: "miss_vb_info",
	}
}

// subject names a physical function and the virtual ones of it alike. Upstream's driver
// reports no traits.
func subject(u driver.Unit) driver.Subject {
	f := familyOf(u)
	return driver.Subject{
		Type: driver.TypeQAT, Vendor: driver.VendorWord(vendorIntel), Product: f.word, ProductID: fmt.Sprintf("%04x", f.physical),
		ShippedClass: resourceClass,
	}
}
