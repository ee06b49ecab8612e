package fpga

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// simpleCard is a card without further information from the kernel: one
// provider, in the form of upstream's drivers that read what lspci prints.
type simpleCard struct {
	card      *driver.Unit
	functions []*driver.Unit
	count     int // accelerators, fewer than functions where two are one
	subject   driver.Subject
	model     string
	product   string // id
}

// simpleSubject has the names of a card that is one region.
func (v *visit) simpleSubject(vendor string, at driver.PCIAddress, f driver.PCIFunction) driver.Subject {
	s := driver.Subject{
		Type: driver.TypeFPGA, Vendor: vendor, ProductID: f.ProductID(), Product: v.productName(f), ShippedClass: "FPGA",
	}
	if words := v.settings.functionalities(at, 0, nil); len(words) > 0 {
		s.Functionality = words[0]
	}
	return s
}

// productTrait is the trait that upstream makes of a product id.
func productTrait(f driver.PCIFunction) string {
	return "CUSTOM_FPGA_PRODUCT_ID_" + strings.ToUpper(f.ProductID())
}

// simple reports a card.
func (v *visit) simple(c simpleCard) {
	class, traits, err := v.settings.Names(c.subject)
	if err != nil {
		v.Problem(c.card, err)
		return
	}
	at := c.card.Address
	device := driver.Device{
		Vendor: c.card.VendorID(), Model: c.model, Type: driver.TypeFPGA,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "Processing accelerators"}`, c.product),
		VendorBoardInfo: `{"vendor_info": "fpga_vb_info"}`,
		ControlPath:     at.ControlPath(),
		Deployables: []driver.Deployable{{
			Name: v.settings.Host + "_" + at.String(), NumAccelerators: c.count, DriverName: v.driverName,
			Class: class, Traits: traits, AttachHandles: handles(c.functions),
		}},
	}
	if !c.subject.Programmable {
		no := false
		device.Programmable, device.Deployables[0].Programmable = &no, &no
	}
	v.Offer(c.card, device)
}
