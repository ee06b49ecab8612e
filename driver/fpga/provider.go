package fpga

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// provider is a part of a card that becomes a resource provider.
type provider struct {
	name         string         // after the host's name
	functions    []*driver.Unit // its attach handles
	units        int            // fewer than functions where two are one accelerator
	subjects     []driver.Subject
	programmable bool
	hidden       bool                           // a function shows nothing
	leads        map[driver.PCIAddress][]string // what each function leads to, if not all to the same
}

// offer reports a card with its providers, if there are any.
func (v *visit) offer(card *driver.Unit, device driver.Device, providers ...provider) {
	if len(providers) == 0 {
		return
	}
	device.Type, device.ControlPath, device.Programmable = driver.TypeFPGA, card.Address.ControlPath(), new(bool)
	for _, p := range providers {
		class, traits, err := v.settings.Names(p.subjects...)
		if err != nil {
			v.Problem(card, err)
			return
		}
		part := driver.Deployable{
			Name: v.settings.Host + "_" + p.name, NumAccelerators: p.units, DriverName: v.driverName, Class: class, Traits: traits, Hidden: p.hidden,
		}
		for _, f := range p.functions {
			part.AttachHandles = append(part.AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: f.Address.Info(), Functions: p.leads[f.Address]})
		}
		if p.programmable {
			device.Programmable = nil
		} else {
			part.Programmable = new(bool)
		}
		device.Deployables = append(device.Deployables, part)
	}
	v.Offer(card, device)
}

// offerWhole reports a card without further information from the kernel: one provider, in
// the form of upstream's drivers that read what lspci prints. Product is an id.
func (v *visit) offerWhole(card *driver.Unit, model, product string, units int, functions []*driver.Unit, subject driver.Subject) {
	v.offer(card, driver.Device{
		Vendor: card.VendorID(), Model: model,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "Processing accelerators"}`, product),
		VendorBoardInfo: `{"vendor_info": "fpga_vb_info"}`,
	}, provider{name: card.Address.String(), functions: functions, units: units, subjects: []driver.Subject{subject}, programmable: subject.Programmable})
}

// wholeSubject has the names of a card that is one region.
func (v *visit) wholeSubject(vendor string, at driver.PCIAddress, f driver.PCIFunction) driver.Subject {
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
