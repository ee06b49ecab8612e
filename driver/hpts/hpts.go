package hpts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

const (
	name        = "hpts"
	baseNetwork = 0x02
	baseBridge  = 0x06
)

// New returns the driver for a host's tree. The error wraps driver.ErrConfig and names the
// entry.
func New(config Config, tree driver.Tree) (*driver.PCIDriver, error) {
	claims, err := config.claims()
	if err != nil {
		return nil, err
	}
	return driver.NewPCIDriver(driver.PCISpec{
		Driver: name, Host: config.Host, Policy: config.Policy, Claims: claims,
		Own: func(f driver.PCIFunction) bool {
			return ofTime(f) || slices.ContainsFunc(claims, func(c driver.Claim) bool { return c.Product != 0 && c.Covers(f) })
		},
		Subject: subject,
		Prepare: prepare,
	}, tree)
}

// prepare completes the description with the clocks that the kernel knows at present.
func prepare(ctx context.Context, view *driver.View, spec *driver.PCISpec) error {
	functions, _, err := view.PCIFunctions(ctx)
	if err != nil {
		return err
	}
	known, problems, err := clocks(ctx, view)
	if err != nil {
		return err
	}
	spec.KernelDrivers = func(u driver.Unit) []string {
		if len(of(known, u.Address)) > 0 {
			return []string{u.Driver}
		}
		return nil
	}
	spec.Vet = func(u driver.Unit) string { return vet(u, of(known, u.Address)) }
	spec.Device = func(u driver.Unit) driver.Device { return device(u, of(known, u.Address)) }
	spec.Finish = func(scan *driver.PCIScan) {
		scan.Report.Problems = append(scan.Report.Problems, problems...)
		for _, c := range known {
			if !slices.ContainsFunc(scan.Units, func(u *driver.Unit) bool { return u.Address == c.address }) {
				c.leaveOut(scan, functions)
			}
		}
	}
	return nil
}

// leaveOut says why a clock of a function that is not the driver's is not offered.
func (c clock) leaveOut(scan *driver.PCIScan, functions []driver.PCIFunction) {
	u := &driver.Unit{PCIFunction: driver.PCIFunction{Address: c.address}}
	i := slices.IndexFunc(functions, func(f driver.PCIFunction) bool { return f.Address == c.address })
	switch {
	case i < 0: // the function has a problem, or was removed
		scan.Problem(u, driver.Problem{File: clockDir + "/" + c.name + "/device",
			Err: fmt.Errorf("%w: the link leads to no PCI function that could be read", driver.ErrGarbled)})
	case functions[i].DeviceClass()>>8 == baseNetwork:
		scan.LeaveOut(u, "clock %s belongs to a network card", c.title())
	default:
		scan.LeaveOut(u, "clock %s: vendor and product %s:%s are not configured", c.title(), functions[i].VendorID(), functions[i].ProductID())
	}
}

// title is the name of the class device, and what its driver calls it.
func (c clock) title() string {
	if c.called == "" {
		return c.name
	}
	return fmt.Sprintf("%s (%s)", c.name, c.called)
}

// vet says why a configured function must not be offered, or "".
func vet(u driver.Unit, known []clock) string {
	switch base := u.DeviceClass() >> 8; {
	case base == baseNetwork || len(u.Interfaces) > 0:
		return "a network card: its clock goes where its interface goes"
	case base == baseBridge:
		return "a bridge cannot be given to a guest"
	}
	for _, c := range known {
		if c.called == "" {
			return "the name of its clock " + c.name + " could not be read"
		}
	}
	return ""
}

// device describes a card.
func device(u driver.Unit, known []clock) driver.Device {
	model := strings.TrimSpace(pciid.Title(u.Vendor) + " Device")
	if len(known) > 0 {
		model = known[0].called
	}
	return driver.Device{
		Vendor:          u.VendorID(),
		Model:           model,
		Type:            driver.TypeHPTS,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": null}`, u.ProductID()),
		VendorBoardInfo: `{"vendor_info": "hpts_vb_info"}`,
	}
}

func subject(u driver.Unit) driver.Subject {
	vendor := pciid.Word(u.Vendor)
	return driver.Subject{
		Type: driver.TypeHPTS, Vendor: vendor, ProductID: u.ProductID(), ShippedClass: "CUSTOM_ACCELERATOR_HPTS",
		Shipped: []string{"CUSTOM_HPTS_" + strings.ToUpper(vendor)},
	}
}
