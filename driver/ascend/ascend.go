package ascend

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

const (
	vendorHuawei = 0x19e5
	classAccel   = 0x1200
)

// Config is the configuration of the driver. Upstream has no options for it.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	driver.Policy
	// ProductIDs are the products of vendor 19e5 that are offered, as four hexadecimal
	// digits. Nil means d100, d500, d801 and d802; an empty list offers nothing.
	ProductIDs []string `json:"product_ids,omitempty"`
}

// New returns the driver for a host's tree. The error wraps driver.ErrConfig and names the
// product.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	products, err := pciid.ParseList("product_ids", config.ProductIDs, 0xd100, 0xd500, 0xd801, 0xd802)
	if err != nil {
		return nil, err
	}
	var claims []driver.Claim
	for _, id := range products {
		title := cmp.Or(model(id), fmt.Sprintf("%04x, configured", id))
		claims = append(claims, driver.Claim{Vendor: vendorHuawei, Product: id, Why: "Huawei " + title})
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "ascend", Host: config.Host, Policy: config.Policy, Claims: claims,
		KernelDrivers: func(driver.Unit) []string { return []string{"devdrv_device_driver"} },
		Device:        device,
		Subject:       subject,
	}, tree)
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
func subject(u driver.Unit) driver.Subject {
	card := u.Card()
	return driver.Subject{
		Type: driver.TypeAICHIP, Vendor: "huawei", ProductID: card.ProductID(),
		Product: strings.ReplaceAll(model(card.Product), " ", ""), ShippedClass: "CUSTOM_AICHIP",
		Shipped: []string{"CUSTOM_AICHIP_HUAWEI", "CUSTOM_AICHIP_PRODUCT_ID_" + strings.ToUpper(card.ProductID())},
	}
}
