package ascend

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name          = "ascend"
	vendorHuawei  = 0x19e5
	resourceClass = "CUSTOM_AICHIP"
	classAccel    = 0x1200
)

// ErrConfig is what every error about the configuration of the driver wraps.
var ErrConfig = errors.New("ascend: bad configuration")

// Config is the configuration of the driver. Upstream has no options for it.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	driver.Policy
	// ProductIDs are the products of vendor 19e5 that are offered, as four hexadecimal
	// digits. Nil means d100, d500, d801 and d802; an empty list offers nothing.
	ProductIDs []string `json:"product_ids,omitempty"`
}

// Driver finds the Ascend processors of one host.
type Driver struct {
	*driver.PCIDriver
}

// New returns the driver for a host's tree. The error wraps ErrConfig and names the
// product.
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
		Kernel:     func(driver.Unit) []string { return []string{"devdrv_device_driver"} },
		Device:     device,
		Attributes: config.AttributesOf(subject),
	}, tree)}, nil
}

// model returns the name of a product, or "".
func model(product uint16) string {
	switch product {
	case 0xd100:
		return "Ascend 310"
	case 0xd500:
		return "Ascend 310P"
	case 0xd801:
		return "Ascend 910"
	case 0xd802:
		return "Ascend 910B"
	}
	return ""
}

func (c Config) claims() ([]driver.Claim, error) {
	products := c.ProductIDs
	if products == nil {
		products = []string{"d100", "d500", "d801", "d802"}
	}
	var list []driver.Claim
	for _, text := range products {
		id, err := driver.ParsePCIID(text)
		if err != nil {
			return nil, fmt.Errorf("%w: product_ids: %w", ErrConfig, err)
		}
		claim := driver.Claim{Vendor: vendorHuawei, Product: id, Why: "Huawei " + cmp.Or(model(id), text+", configured")}
		if slices.ContainsFunc(list, func(o driver.Claim) bool { return o.Product == claim.Product }) {
			return nil, fmt.Errorf("%w: product_ids: %q is there twice", ErrConfig, text)
		}
		list = append(list, claim)
	}
	return list, nil
}

// device describes a processor. The class is in the words of lspci where it is the usual
// one, else in digits.
func device(u driver.Unit) driver.Device {
	class := "Processing accelerators"
	if u.DeviceClass() != classAccel {
		class = fmt.Sprintf("%04x", u.DeviceClass())
	}
	return driver.Device{
		Vendor:       u.VendorID(),
		Model:        model(u.Product),
		Type:         driver.TypeAICHIP,
		StdBoardInfo: fmt.Sprintf(`{"device_id": "%s", "class": "%s"}`, u.ProductID(), class),
	}
}

// subject names virtual functions, which have ids of their own, like their card.
func subject(u driver.Unit) (driver.Subject, error) {
	if u.Physical != nil {
		u.PCIFunction = u.Physical.PCIFunction
	}
	s := driver.Subject{
		Type: driver.TypeAICHIP, Vendor: driver.VendorWord(vendorHuawei), ProductID: u.ProductID(),
		Product: strings.ReplaceAll(model(u.Product), " ", ""), ShippedClass: resourceClass,
	}
	for _, parts := range [][]string{{"AICHIP", s.Vendor}, {"AICHIP", "PRODUCT", "ID", s.ProductID}} {
		trait, err := driver.CustomName(parts...)
		if err != nil {
			return driver.Subject{}, err
		}
		s.Shipped = append(s.Shipped, trait)
	}
	return s, nil
}
