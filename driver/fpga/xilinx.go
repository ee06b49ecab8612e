package fpga

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// Xilinx finds the accelerator cards of Xilinx. The functions of one slot are one card:
// one to manage it, and one for its user.
type Xilinx struct {
	base
}

var (
	_ driver.Programmer = (*Xilinx)(nil)
	_ driver.Claimer    = (*Xilinx)(nil)
)

// The kernel drivers of Xilinx cards, which distinguish the two kinds of functions.
const (
	managementDriver = "xclmgmt"
	userDriver       = "xocl"
)

func xilinxDrivers() []string { return []string{managementDriver, userDriver} }

// NewXilinx returns the driver for a host's tree. The error wraps driver.ErrConfig and joins all
// faults.
func NewXilinx(config Config, tree driver.Tree) (*Xilinx, error) {
	b, err := newBase("XILINX", config)
	if err != nil {
		return nil, err
	}
	d := &Xilinx{b}
	d.TreeReader = driver.NewTreeReader("xilinx_fpga", tree, d.discover)
	return d, nil
}

// Claims is Xilinx's vendor id with the class of processing accelerators.
func (d *Xilinx) Claims() []driver.Claim {
	return []driver.Claim{{Vendor: vendorXilinx, Class: classAccelerator, Why: "Xilinx processing accelerator"}}
}

func (d *Xilinx) discover(ctx context.Context, view *driver.View) (driver.Report, error) {
	v, err := d.visit(ctx, view, d.Claims()[0].Covers)
	if err != nil {
		return driver.Report{}, err
	}
	for _, s := range v.slotCards() {
		v.slotCard(s)
	}
	return v.finish(ctx)
}

// slotCard is a card of Xilinx: the physical functions of one slot.
type slotCard struct {
	functions []*driver.Unit // in the order of addresses
	// incomplete is set when a function of the slot could not be read.
	incomplete bool
}

func (s slotCard) first() *driver.Unit { return s.functions[0] }

// user is the function for the user of a card: the function bound to Xilinx's user driver, else
// the last. Upstream treats the first as the management function. A single function is the card.
func (s slotCard) user() *driver.Unit {
	for _, c := range s.functions {
		if c.Driver == userDriver {
			return c
		}
	}
	for _, c := range slices.Backward(s.functions) {
		if c.Driver != managementDriver {
			return c
		}
	}
	return s.functions[len(s.functions)-1]
}

// management is the first function that is not the user's, or the only one.
func (s slotCard) management() *driver.Unit {
	user := s.user()
	for _, c := range s.functions {
		if c != user {
			return c
		}
	}
	return user
}

// slotCards gathers the functions of each slot.
func (v *visit) slotCards() []slotCard {
	var list []slotCard
	for _, c := range v.cards {
		i := len(list) - 1
		if i < 0 || slotOf(list[i].first().Address) != slotOf(c.Address) {
			list = append(list, slotCard{incomplete: v.unread[slotOf(c.Address)]})
			i++
		}
		list[i].functions = append(list[i].functions, c)
	}
	return list
}

// slotCard reports one card. The management function is offered by configuration
// only, or when the card has no other.
func (v *visit) slotCard(s slotCard) {
	if s.incomplete {
		v.Problem(s.first(), errSlotUnread)
		return
	}
	user := s.user()
	functions := v.assignableFunctions(user, readable(user), xilinxDrivers()...)
	if len(functions) == 0 {
		return
	}
	count := len(functions)
	for _, c := range s.functions {
		switch {
		case c == user:
		case !v.settings.DoubledHandles:
			v.LeaveOut(c, "management function of a card whose user function is %s", user.Address)
		case user.Divided() != "":
			v.LeaveOut(c, "management function of a card with virtual functions (%d)", count)
		case v.Assignable(c, xilinxDrivers()...):
			functions = append(functions, c)
		default: // one handle of two would leave half of the requests unbound
			v.LeaveOut(user, "user function of a card whose other function %s cannot be assigned with it", c.Address)
			return
		}
	}
	slices.SortFunc(functions, func(a, b *driver.Unit) int { return a.Address.Compare(b.Address) })
	v.offerWhole(s.first(), "Xilinx Corporation Device", user.ProductID(), count, functions, v.xilinxSubject(s))
}

// xilinxSubject names a card by the ids of its functions.
func (v *visit) xilinxSubject(s slotCard) driver.Subject {
	traits := []string{"CUSTOM_FPGA_XILINX"}
	for _, c := range s.functions {
		traits = append(traits, productTrait(c.PCIFunction))
	}
	subject := v.wholeSubject("xilinx", s.first().Address, s.user().PCIFunction)
	subject.Shipped = traits
	subject.Programmable = v.settings.programmable(s.first().Address, 0)
	return subject
}

// Program writes an image to the card at the control path; the deployable does not matter,
// since a card has one. Sysfs does not show the effect, so a tree in memory does not change;
// hardware needs Config.BitstreamLoader. The error wraps ErrNoDevice, ErrPreprogrammed,
// ErrBitstream or ErrNoLoader, or is the error of the loader. Unless the loader has started, it
// matches driver.ErrNotWritten.
func (d *Xilinx) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	plan := func(at driver.PCIAddress) (job, error) { return d.plan(ctx, at, deployable, image) }
	return d.program(path, plan, func(_ driver.PCIAddress, j job) error {
		return d.write(ctx, j, func(programmable) error { return nil })
	})
}

// plan reads the card and finds the function that is programmed.
func (d *Xilinx) plan(ctx context.Context, at driver.PCIAddress, deployable string, image []byte) (job, error) {
	v, err := d.visit(ctx, driver.NewView(d.Tree()), d.Claims()[0].Covers)
	if err != nil {
		return job{}, err
	}
	list := v.slotCards()
	i := slices.IndexFunc(list, func(s slotCard) bool { return s.first().Address == at })
	switch {
	case i < 0 || list[i].incomplete:
		return job{}, fmt.Errorf("%w: no Xilinx card that could be read is there", ErrNoDevice)
	case !d.settings.programmable(at, 0):
		return job{}, fmt.Errorf("%w: the configuration says so", ErrPreprogrammed)
	case len(image) == 0:
		return job{}, fmt.Errorf("%w: it is empty", ErrBitstream)
	}
	management := list[i].management().Address.String()
	return job{Host: d.settings.Host, Deployable: deployable, Vendor: "xilinx", Address: management, image: image}, nil
}
