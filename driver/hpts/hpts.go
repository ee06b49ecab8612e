package hpts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name          = "hpts"
	resourceClass = "CUSTOM_ACCELERATOR_HPTS"
	baseNetwork   = 0x02
	baseBridge    = 0x06
)

// Driver finds the time cards of one host.
type Driver struct {
	*driver.PCIDriver
}

// New returns the driver for a host's tree. The error wraps ErrConfig and names the
// entry.
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
		Driver: name,
		Host:   config.Host,
		Policy: config.Policy,
		Claims: claims,
		Own: func(f driver.PCIFunction) bool {
			return ofTime(f) || slices.ContainsFunc(claims, func(c driver.Claim) bool { return c.Product != 0 && c.Covers(f) })
		},
		Attributes: config.AttributesOf(subject),
	}, tree)}, nil
}

// Discover reports the cards present. The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	return d.DiscoverIn(ctx, driver.NewView(d.Tree()))
}

// DiscoverIn is Discover on a view of the tree.
func (d *Driver) DiscoverIn(ctx context.Context, view driver.Tree) (driver.Report, error) {
	known, problems, err := clocks(ctx, view)
	if err != nil {
		return driver.Report{}, fmt.Errorf("hpts: discover: %w", err)
	}
	mine := make(map[driver.PCIAddress]bool)
	offer := d.Offer()
	offer.See = func(u driver.Unit) { mine[u.Address] = true }
	offer.Kernel = func(u driver.Unit) []string {
		if len(of(known, u.Address)) > 0 {
			return []string{u.Driver}
		}
		return nil
	}
	offer.Vet = func(u driver.Unit) string { return vet(u, of(known, u.Address)) }
	offer.Device = func(u driver.Unit) driver.Device { return device(u, of(known, u.Address)) }
	report, err := offer.Discover(ctx, view)
	if err != nil {
		return driver.Report{}, err
	}
	report.Problems = append(report.Problems, problems...)
	return d.others(ctx, view, report, slices.DeleteFunc(known, func(c clock) bool { return mine[c.address] }))
}

// others lists the clocks of functions that are not the driver's.
func (d *Driver) others(ctx context.Context, view driver.Tree, report driver.Report, list []clock) (driver.Report, error) {
	functions, _, err := driver.PCIFunctions(ctx, view)
	if err != nil {
		return driver.Report{}, fmt.Errorf("hpts: discover: %w", err)
	}
	for _, c := range list {
		i := slices.IndexFunc(functions, func(f driver.PCIFunction) bool { return f.Address == c.address })
		if i < 0 { // the function has a problem, or none is there any more
			report.Problems = append(report.Problems, driver.Problem{Address: c.address.String(), File: clockDir + "/" + c.name + "/device",
				Err: fmt.Errorf("%w: the link leads to no PCI function that could be read", driver.ErrGarbled)})
			continue
		}
		why := fmt.Sprintf("clock %s: vendor and product %s:%s are not configured", c.title(), functions[i].VendorID(), functions[i].ProductID())
		if functions[i].DeviceClass()>>8 == baseNetwork {
			why = fmt.Sprintf("clock %s is that of a network card", c.title())
		}
		report.LeftOut = append(report.LeftOut, driver.LeftOut{Address: c.address.String(), Driver: name, Reason: why})
	}
	return report, nil
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
			return "the name of its clock " + c.name + " could not be understood"
		}
	}
	return ""
}

// device describes a card.
func device(u driver.Unit, known []clock) driver.Device {
	model := strings.TrimSpace(driver.VendorTitle(u.Vendor) + " Device")
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

func subject(u driver.Unit) (driver.Subject, error) {
	s := driver.Subject{
		Type: driver.TypeHPTS, Vendor: driver.VendorWord(u.Vendor), ProductID: u.ProductID(), ShippedClass: resourceClass,
	}
	trait, err := driver.CustomName("HPTS", s.Vendor)
	s.Shipped = []string{trait}
	return s, err
}
