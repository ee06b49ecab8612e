package ascend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
	products, err := pciid.ParseList("product_ids", config.ProductIDs, slices.Sorted(maps.Keys(models))...)
	if err != nil {
		return nil, err
	}
	var claims []driver.Claim
	for _, id := range products {
		title := cmp.Or(models[id], fmt.Sprintf("%04x, configured", id))
		claims = append(claims, driver.Claim{Vendor: vendorHuawei, Product: id, Why: "Huawei " + title})
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: "ascend", Host: config.Host, Policy: config.Policy, Claims: claims,
		KernelDrivers: func(driver.Unit) []string { return []string{"devdrv_device_driver"} },
		Device:        device,
		Subject:       subject,
	}, tree)
}

// models are the names of the products, which are claimed unless others are configured.
var models = map[uint16]string{0xd100: "Ascend 310", 0xd500: "Ascend 310P", 0xd801: "Ascend 910", 0xd802: "Ascend 910B"}

// device describes a processor. The class is in the words of lspci where it is the usual
// one, else in digits.
func device(u driver.Unit) driver.Device {
	class := "Processing accelerators"
	if u.DeviceClass() != classAccel {
		class = fmt.Sprintf("%04x", u.DeviceClass())
	}
	return driver.Device{
		Vendor:       u.VendorID(),
		Model:        models[u.Product],
		Type:         driver.TypeAICHIP,
		StdBoardInfo: fmt.Sprintf(`{"device_id": "%s", "class": "%s"}`, u.ProductID(), class),
	}
}

// subject names virtual functions after their card, although they have their own ids.
func subject(u driver.Unit) driver.Subject {
	card := u.Card()
	return driver.Subject{
		Type: driver.TypeAICHIP, Vendor: "huawei", ProductID: card.ProductID(),
		Product: strings.ReplaceAll(models[card.Product], " ", ""), ShippedClass: "CUSTOM_AICHIP",
		Shipped: []string{"CUSTOM_AICHIP_HUAWEI", "CUSTOM_AICHIP_PRODUCT_ID_" + strings.ToUpper(card.ProductID())},
	}
}
