package fpga

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// Intel finds the FPGAs that Intel's kernel driver shows below class/fpga, those whose device
// feature list the kernel shows below class/fpga_region, and those known by their ids.
type Intel struct {
	base
}

var (
	_ driver.Programmer = (*Intel)(nil)
	_ driver.Claimer    = (*Intel)(nil)
)

// NewIntel returns the driver for a host's tree. The error wraps driver.ErrConfig and joins all
// faults.
func NewIntel(config Config, tree driver.Tree) (*Intel, error) {
	b, err := newBase("intel", config)
	if err != nil {
		return nil, err
	}
	d := &Intel{b}
	d.TreeReader = driver.NewTreeReader("intel_fpga", tree, d.discover)
	return d, nil
}

// Claims lists the known ids. Functions below class/fpga and class/fpga_region are the driver's, too.
func (d *Intel) Claims() []driver.Claim { return d.settings.claims(vendorIntel) }

func (d *Intel) discover(ctx context.Context, view *driver.View) (driver.Report, error) {
	v, err := d.boards(ctx, view)
	if err != nil {
		return driver.Report{}, err
	}
	for _, b := range v.boards {
		if !b.fault { // otherwise it was reported already
			v.offerBoard(b)
		}
	}
	return v.finish(ctx)
}

// boards finds the cards with their regions, and decides nothing about them.
func (d *Intel) boards(ctx context.Context, view *driver.View) (*intelVisit, error) {
	containers, problems, err := containersOf(ctx, view)
	if err != nil {
		return nil, fmt.Errorf("%s: discover: %w", d.Name(), err)
	}
	v := &intelVisit{containers: containers}
	v.visit, err = d.visit(ctx, view, func(f driver.PCIFunction) bool {
		// Functions of vendors with their own driver in this package are excluded.
		_, known := d.settings.product(f)
		other := f.Vendor == vendorXilinx || f.Vendor == vendorInspur
		return f.Vendor == vendorIntel && known || len(containers[f.Address]) > 0 && !other
	})
	if err != nil {
		return nil, err
	}
	v.Report.Problems = append(problems, v.Report.Problems...)
	for _, c := range v.cards {
		v.boards = append(v.boards, v.regions(c))
	}
	v.oneProductPerRegionType()
	return v, nil
}

// intelVisit is a visit with the contents of class/fpga.
type intelVisit struct {
	*visit
	containers map[driver.PCIAddress][]container // by function
	boards     []*board
}

// oneProductPerRegionType refuses cards of different products with regions of one type.
// One product may have several PCI ids, and one id several region types.
func (v *intelVisit) oneProductPerRegionType() {
	users := make(map[string][]*board) // the first of each product, by region type
	for _, b := range v.boards {
		for _, r := range b.regions {
			same := func(o *board) bool { return v.productOf(o.PCIFunction) == v.productOf(b.PCIFunction) }
			if r.kind != "" && !slices.ContainsFunc(users[r.kind], same) {
				users[r.kind] = append(users[r.kind], b)
			}
		}
	}
	for _, b := range v.boards {
		product := v.productOf(b.PCIFunction)
		for _, r := range b.regions {
			i := slices.IndexFunc(users[r.kind], func(o *board) bool { return v.productOf(o.PCIFunction) != product })
			if i < 0 || b.fault {
				continue
			}
			o := users[r.kind][i]
			b.fault = true
			v.Problem(b.Unit, fmt.Errorf("%w: %s is that of %s here and of %s at %s", ErrRegionType, r.kind, product, v.productOf(o.PCIFunction), o.Address))
		}
	}
}

// productOf is the name of a product, or the id where no name is known.
func (v *visit) productOf(f driver.PCIFunction) string {
	if p, ok := v.settings.product(f); ok && p.Name != "" {
		return p.Name
	}
	return f.VendorID() + ":" + f.ProductID()
}

// offerBoard reports one card.
func (v *intelVisit) offerBoard(b *board) {
	functions := v.assignableFunctions(b.Unit, b.virtual, "intel-fpga-pci", "dfl-pci")
	if len(functions) == 0 {
		return
	}
	if !b.divided() {
		if !v.forUser(b) {
			return
		}
		for _, r := range b.regions {
			if r.failed != "" {
				v.LeaveOut(b.Unit, "region %d: %s", r.number, r.failed)
				return
			}
		}
	}
	providers, err := v.providers(b, functions)
	if err != nil {
		v.Problem(b.Unit, err)
		return
	}
	v.offer(b.Unit, driver.Device{
		Vendor: "0x" + b.VendorID(), Model: "miss_model_info",
		StdBoardInfo: fmt.Sprintf(`{"product_id": "0x%s"}`, b.ProductID()), VendorBoardInfo: "miss_vb_info",
	}, providers...)
}

// forUser reports whether a function is for the user. It is not if it manages a card and another
// function of its slot is for the user; then forUser adds the reason to the report. A function
// that a guest has shows no port, and one without a kernel driver shows no engine.
func (v *intelVisit) forUser(b *board) bool {
	if b.IsVirtual {
		return true
	}
	var manager, user *board
	unread := v.unread[slotOf(b.Address)]
	for _, o := range v.boards {
		switch {
		case o == b || slotOf(o.Address) != slotOf(b.Address):
			continue
		case o.manages:
			manager = o
		case user == nil || o.serves:
			user = o
		}
		unread = unread || o.fault
	}
	switch {
	case b.manages && user != nil:
		v.LeaveOut(b.Unit, "management function of a card whose user function is %s", user.Address)
	case b.manages && !b.serves:
		v.LeaveOut(b.Unit, "management function of a card that shows no port")
	case !b.manages && (b.serves || manager != nil) || user == nil && !unread:
		return true
	case unread:
		v.Problem(b.Unit, errSlotUnread)
	default:
		v.LeaveOut(b.Unit, "no function of the slot shows a management engine: it is not known which is for the user")
	}
	return false
}

// providers is one for a card that is offered as a whole or has one region, else one for
// each region, or with SeparateFunctions one for each function.
func (v *intelVisit) providers(b *board, functions []*driver.Unit) ([]provider, error) {
	if !b.divided() {
		programmable := slices.ContainsFunc(b.regions, func(r region) bool { return v.settings.fixed(b, r) == "" })
		return []provider{v.provider(b, b.Address.String(), programmable, functions, b.regions...)}, nil
	}
	if b.unclear != nil {
		return nil, b.unclear
	}
	for _, f := range functions {
		if !slices.ContainsFunc(b.regions, func(r region) bool { return r.reachedBy(f.Address) }) {
			v.LeaveOut(f, "devices.regions.pci_functions of %s has it in no region", b.Address)
		}
	}
	var list []provider
	for _, r := range b.regions {
		if r.failed != "" {
			v.LeaveOut(b.Unit, "region %d: %s", r.number, r.failed)
			continue
		}
		inside := slices.DeleteFunc(slices.Clone(functions), func(f *driver.Unit) bool { return !r.reachedBy(f.Address) })
		if len(inside) == 0 {
			v.LeaveOut(b.Unit, "region %d: no PCI function that a guest could have leads to it", r.number)
			continue
		}
		list = append(list, v.regionProviders(b, r, inside)...)
	}
	return list, nil
}

// regionProviders are those of one region of a divided card.
func (v *intelVisit) regionProviders(b *board, r region, inside []*driver.Unit) []provider {
	programmable := v.settings.fixed(b, r) == ""
	var list []provider
	var addresses []driver.PCIAddress
	for _, f := range inside {
		addresses = append(addresses, f.Address)
		list = append(list, v.provider(b, f.Address.String(), programmable && r.reached() == 1, []*driver.Unit{f}, r.only(f.Address)))
	}
	if v.settings.SeparateFunctions {
		return list
	}
	part := r.only(addresses...)
	if reason := part.mixed(); reason != "" {
		v.Warn(b.Unit, "region %d: %s; separate_functions keeps them apart", r.number, reason)
	}
	name := b.Address.String()
	if len(b.regions) > 1 {
		name += fmt.Sprintf("_region%d", r.number)
	}
	p := v.provider(b, name, programmable, inside, part)
	if part.mixed() != "" {
		p.leads = make(map[driver.PCIAddress][]string, len(inside))
		for _, f := range inside {
			for _, id := range part.only(f.Address).functions() {
				trait, _ := v.settings.TraitShape.FunctionTrait("intel", id) // ids are hexadecimal
				p.leads[f.Address] = append(p.leads[f.Address], trait)
			}
		}
	}
	return []provider{p}
}

// provider describes each of the regions in a provider, once for each functionality it has.
func (v *intelVisit) provider(b *board, name string, programmable bool, functions []*driver.Unit, regions ...region) provider {
	p := provider{name: name, functions: functions, units: len(functions), programmable: programmable}
	p.hidden = slices.ContainsFunc(functions, func(f *driver.Unit) bool { return len(v.containers[f.Address]) == 0 })
	for _, r := range regions {
		loaded := r.functions()
		subject := driver.Subject{
			Type: driver.TypeFPGA, Vendor: "intel", ProductID: b.ProductID(), Product: v.productName(b.PCIFunction),
			Region: r.kind, Functions: loaded, Programmable: programmable,
			Shipped: v.shipped(b, r.kind, loaded), ShippedClass: "FPGA",
		}
		words := v.settings.functionalities(b.Address, r.number, loaded)
		if len(words) == 0 {
			words = []string{""}
		}
		for _, subject.Functionality = range words {
			p.subjects = append(p.subjects, subject)
		}
	}
	return p
}

// productName is the family in the shape whose traits name families, else the product.
func (b *base) productName(f driver.PCIFunction) string {
	p, _ := b.settings.product(f)
	if b.settings.TraitShape == driver.ShapeRockyScheduling {
		return p.Family
	}
	return p.Name
}

// shipped are the traits of upstream's driver.
func (v *intelVisit) shipped(b *board, kind string, functions []string) []string {
	traits := []string{"CUSTOM_FPGA_INTEL"}
	if p, ok := v.settings.product(b.PCIFunction); ok {
		if trait, err := driver.CustomName("FPGA", "INTEL", p.Name); err == nil { // checked with the configuration
			traits = append(traits, trait)
		}
	}
	name := func(trait string, _ error) { traits = append(traits, trait) } // ids are hexadecimal
	for _, id := range functions {
		name(driver.ShapeShipped.FunctionTrait("intel", id))
	}
	if kind != "" {
		name(driver.ShapeShipped.RegionTrait("intel", kind))
	}
	return traits
}
