package fpga

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// base is the common part of the three drivers.
type base struct {
	driver.TreeReader
	// driverName is upstream's name, in deployables and in the traits of functions.
	driverName string
	settings   settings
}

func newBase(driverName string, config Config) (base, error) {
	s, err := config.check()
	return base{driverName: driverName, settings: s}, err
}

// visit is one discovery of one of the drivers.
type visit struct {
	*base
	*driver.PCIScan
	// cards are the physical functions, and the virtual ones whose physical function is
	// not in the tree, as in a guest.
	cards []*driver.Unit
	// unread are the slots with a function that could not be read.
	unread map[driver.PCIAddress]bool
}

// visit scans the functions for which own answers true.
func (b *base) visit(ctx context.Context, view *driver.View, own func(driver.PCIFunction) bool) (*visit, error) {
	scan, err := driver.ScanPCI(ctx, view, b.Name(), b.settings.Policy, own)
	if err != nil {
		return nil, err
	}
	v := &visit{base: b, PCIScan: scan, unread: make(map[driver.PCIAddress]bool)}
	for _, p := range scan.Report.Problems {
		if at, err := driver.ParsePCIAddress(p.Address); err == nil {
			v.unread[slotOf(at)] = true
		}
	}
	for _, u := range scan.Units {
		if u.Physical == nil && !u.ForeignVF && !u.Unreadable {
			v.cards = append(v.cards, u)
		}
	}
	return v, nil
}

// errSlotUnread is the problem of the functions of a partly unreadable slot.
var errSlotUnread = errors.New("another function of the slot could not be read: it is not known which is for the user")

// slotOf is the address without the function.
func slotOf(a driver.PCIAddress) driver.PCIAddress {
	a.Function = 0
	return a
}

// readable returns the readable virtual functions of a card.
func readable(card *driver.Unit) []*driver.Unit {
	return slices.DeleteFunc(slices.Clone(card.Virtual), func(u *driver.Unit) bool { return u.Unreadable })
}

// assignableFunctions returns the functions of a card that guests may have: its virtual
// functions, because the user of the physical function could disable them, or the card itself if
// it has none.
func (v *visit) assignableFunctions(card *driver.Unit, virtual []*driver.Unit, kernelDrivers ...string) []*driver.Unit {
	functions := []*driver.Unit{card}
	if reason := card.Divided(); reason != "" {
		v.LeaveOut(card, "%s", reason)
		functions = slices.Clone(virtual)
	}
	return slices.DeleteFunc(functions, func(u *driver.Unit) bool { return !v.Assignable(u, kernelDrivers...) })
}

// finish adds missing configured cards to the report. The three drivers share one configuration,
// so a card of another driver is not a fault.
func (v *visit) finish(ctx context.Context) (driver.Report, error) {
	functions, _, err := v.View.PCIFunctions(ctx)
	for _, at := range slices.SortedFunc(maps.Keys(v.settings.devices), driver.PCIAddress.Compare) {
		if !slices.ContainsFunc(functions, func(f driver.PCIFunction) bool { return f.Address == at && v.anyFPGA(f) }) {
			v.Report.AddProblem(at.String(), fmt.Errorf("%w: the device is configured, and no FPGA that could be read is at its address", driver.ErrConfig))
		}
	}
	return v.Result(), err
}

// anyFPGA reports whether a function may belong to an FPGA of any driver.
func (v *visit) anyFPGA(f driver.PCIFunction) bool {
	if _, known := v.settings.product(f); known || f.DeviceClass() == classAccelerator {
		return true
	}
	for _, class := range []string{"/fpga", "/fpga_region"} {
		if _, err := v.View.ReadDir(f.Dir() + class); err == nil {
			return true
		}
	}
	return false
}
