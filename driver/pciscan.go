package driver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver/internal/parallel"
)

// Unit is a PCI function with its state and its relatives by SR-IOV.
type Unit struct {
	PCIFunction
	PCIState
	// Physical is the physical function of a virtual one. It is nil where the tree does not
	// have it, as in a guest, and for the virtual functions of another driver's function.
	Physical *Unit
	// Virtual are the virtual functions of a physical one, in the order of addresses.
	// It includes unreadable ones.
	Virtual []*Unit
	// Unreadable is set when a problem with the function was reported: it is not offered, since its use is not known.
	Unreadable bool
	// ForeignVF is set for a virtual function whose physical function is in the tree and is not one of the driver's.
	ForeignVF bool
}

// PCIScan is one discovery by a driver of PCI functions: the functions that are the
// driver's, related to each other, and the report so far.
type PCIScan struct {
	// View is the view that is read.
	View *View
	// Units are the driver's functions and their virtual functions, in the order of addresses.
	Units  []*Unit
	Report Report

	driver string
	policy Policy
	own    func(PCIFunction) bool
	units  map[PCIAddress]*Unit
}

// ScanPCI reads the functions for which own answers true, and the virtual functions that these name, with any
// ids. Captured trees may lack the links of either side, so a virtual function belongs to the physical
// function that its physfn link leads to, and to one whose virtfn link leads to it; where the two disagree,
// the function is a problem. The error is the error of ctx, or of an unreadable bus.
func ScanPCI(ctx context.Context, view *View, driver string, policy Policy, own func(PCIFunction) bool) (*PCIScan, error) {
	functions, problems, err := view.PCIFunctions(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: discover: %w", driver, err)
	}
	s := &PCIScan{View: view, Report: Report{Problems: problems}, driver: driver, policy: policy, own: own, units: make(map[PCIAddress]*Unit)}
	onBus := make(map[string]bool, len(functions))
	for _, p := range problems {
		onBus[p.Address] = true
	}
	for _, f := range functions {
		onBus[f.Address.String()] = true
	}
	s.read(functions, own)
	owners := make(map[PCIAddress]*Unit)
	for _, pf := range s.Units {
		for _, name := range pf.VirtualFunctions {
			if at, err := ParsePCIAddress(name); err == nil {
				owners[at] = pf
			}
		}
	}
	s.read(functions, func(f PCIFunction) bool { return owners[f.Address] != nil })
	slices.SortFunc(s.Units, func(a, b *Unit) int { return a.Address.Compare(b.Address) })
	s.relate(owners, onBus)
	s.inferVirtual(functions)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: discover: %w", driver, err)
	}
	return s, nil
}

// read adds the functions that are wanted and not read yet.
func (s *PCIScan) read(functions []PCIFunction, wanted func(PCIFunction) bool) {
	functions = slices.DeleteFunc(slices.Clone(functions), func(f PCIFunction) bool { return s.units[f.Address] != nil || !wanted(f) })
	parallel.ForEach(len(functions), func(i int) { s.View.PCIState(functions[i]) })
	for _, f := range functions {
		u := &Unit{PCIFunction: f}
		var problems []Problem
		u.PCIState, problems = s.View.PCIState(f)
		u.Unreadable = len(problems) > 0
		s.Report.Problems = append(s.Report.Problems, problems...)
		s.units[f.Address] = u
		s.Units = append(s.Units, u)
	}
}

// relate puts each virtual function below its physical one.
func (s *PCIScan) relate(owners map[PCIAddress]*Unit, onBus map[string]bool) {
	for _, u := range s.Units {
		u.IsVirtual = u.IsVirtual || owners[u.Address] != nil
	}
	for _, u := range s.Units {
		if u.IsVirtual {
			s.attach(u, owners[u.Address], onBus)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(owners), PCIAddress.Compare) {
		if s.units[at] != nil {
			continue
		}
		pf := owners[at]
		missing := &Unit{PCIFunction: PCIFunction{Address: at}, Physical: pf, Unreadable: true}
		if !onBus[at.String()] {
			s.Problem(missing, Problem{File: missing.Dir(), Err: fmt.Errorf("virtual function of %s: it is not on the bus", pf.Address)})
		}
		pf.Virtual = append(pf.Virtual, missing)
	}
	for _, u := range s.Units {
		slices.SortFunc(u.Virtual, func(a, b *Unit) int { return a.Address.Compare(b.Address) })
	}
}

// inferVirtual marks the units without a link to a physical function that are virtual ones by their place.
func (s *PCIScan) inferVirtual(functions []PCIFunction) {
	first := slices.DeleteFunc(slices.Clone(functions), func(f PCIFunction) bool { return f.Address.Function != 0 || !f.isGPU() })
	for _, u := range s.Units {
		if u.IsVirtual || u.TotalVFs > 0 || !u.isGPU() {
			continue
		}
		at := slices.IndexFunc(first, func(pf PCIFunction) bool { return u.besides(pf) && s.mayBeDivided(pf) })
		if at >= 0 {
			u.IsVirtual, u.VirtualOf = true, first[at].Address.String()
		}
	}
}

// besides reports whether a function of a GPU or accelerator has the address of a virtual
// function of another function with the same id. NVIDIA's and Intel's virtual functions have the
// id of their card. A card is the first function of its own bus; on bus 0 there are several
// cards, each in its own slot.
func (f PCIFunction) besides(pf PCIFunction) bool {
	a, b := f.Address, pf.Address
	return f.isGPU() && f.DeviceClass() == pf.DeviceClass() && f.Vendor == pf.Vendor && f.Product == pf.Product &&
		a != b && a.Domain == b.Domain && a.Bus == b.Bus && b.Function == 0 && (b.Device == 0 || b.Bus == 0 && a.Device == b.Device)
}

// isGPU reports whether a function is a display or an accelerator.
func (f PCIFunction) isGPU() bool {
	return slices.Contains([]uint16{baseDisplay, baseAccelerator}, f.DeviceClass()>>8)
}

// mayBeDivided reports whether a function is not known to have no virtual functions.
func (s *PCIScan) mayBeDivided(f PCIFunction) bool {
	state, _ := s.View.PCIState(f)
	return !state.IsVirtual && (state.TotalVFs == 0 || state.NumVFs > 0)
}

// attach relates one virtual function. Owner is the function whose link leads to it, or nil.
func (s *PCIScan) attach(u, owner *Unit, onBus map[string]bool) {
	garbledLink := func(format string, args ...any) {
		s.Problem(u, Problem{File: u.Dir() + "/physfn", Err: fmt.Errorf("%w: the link leads to "+format, append([]any{ErrGarbled}, args...)...)})
	}
	pf := owner
	switch {
	case owner == nil && u.VirtualOf == "": // the link is a problem already
		return
	case owner == nil:
		at, err := ParsePCIAddress(u.VirtualOf)
		if err != nil {
			garbledLink("%q", u.VirtualOf)
			return
		}
		if pf = s.units[at]; pf == nil {
			u.ForeignVF = onBus[u.VirtualOf]
			return
		}
	case u.VirtualOf == "":
		u.VirtualOf = owner.Address.String()
	case u.VirtualOf != owner.Address.String():
		garbledLink("%q, and %s names the function its own", u.VirtualOf, owner.Address)
	}
	if pf.IsVirtual {
		garbledLink("%s, which is a virtual function itself", pf.Address)
		return
	}
	u.Physical = pf
	pf.Virtual = append(pf.Virtual, u)
	if name := u.Address.String(); !slices.Contains(pf.VirtualFunctions, name) {
		pf.VirtualFunctions = append(slices.Clip(pf.VirtualFunctions), name)
	}
}

// Problem reports an error about a function. The error may be a Problem that names a file.
func (s *PCIScan) Problem(u *Unit, err error) {
	s.Report.AddProblem(u.Address.String(), err)
	u.Unreadable = true
}

// LeaveOut reports why a function is not offered.
func (s *PCIScan) LeaveOut(u *Unit, format string, args ...any) {
	s.Report.LeftOut = append(s.Report.LeftOut, Notice{Address: u.Address.String(), Driver: s.driver, Reason: fmt.Sprintf(format, args...)})
}

// Warn reports what may keep a guest from starting with a function that is offered.
func (s *PCIScan) Warn(u *Unit, format string, args ...any) {
	s.Report.Warnings = append(s.Report.Warnings, Notice{Address: u.Address.String(), Driver: s.driver, Reason: fmt.Sprintf(format, args...)})
}

// Assignable reports whether a function can be given to a guest as a whole, and otherwise adds the reason to the
// report: its PCI domain is above ffff, the host uses it, it has virtual functions or mediated
// devices, a kernel driver is bound that is neither among kernelDrivers, the drivers of this kind
// of device, nor allowed by the policy, or its IOMMU group cannot be assigned to guests. A
// machine without an IOMMU is a warning.
func (s *PCIScan) Assignable(u *Unit, kernelDrivers ...string) bool {
	if u.Unreadable {
		return false
	}
	reason := cmp.Or(u.Address.unreachable(), s.policy.HostUse(u.PCIFunction, u.PCIState), u.Divided(), s.sharedDisk(u),
		u.otherDriver(slices.Concat(kernelDrivers, s.policy.AllowedDrivers)))
	if reason != "" {
		s.LeaveOut(u, "%s", reason)
		return false
	}
	reason, doubt, err := s.View.isolation(u.PCIFunction, u.PCIState)
	switch {
	case err != nil:
		s.Problem(u, err)
	case reason != "":
		s.LeaveOut(u, "%s", reason)
	case doubt != "":
		s.Warn(u, "%s", doubt)
	}
	return err == nil && reason == ""
}

// sharedDisk says why a function that is not the only path to a disk is not offered, or "".
func (s *PCIScan) sharedDisk(u *Unit) string {
	for _, d := range u.Disks {
		for _, o := range s.Units {
			if o != u && slices.ContainsFunc(o.Disks, func(other Disk) bool { return other.Name == d.Name }) {
				return fmt.Sprintf("disk %s is reached through %s, too", d.Name, o.Address)
			}
		}
	}
	return ""
}

// Offer adds a device to the report, with the local memory that the policy has for the function it is at.
func (s *PCIScan) Offer(u *Unit, d Device) {
	if err := s.policy.AddMemory(&d, u.Address); err != nil {
		s.Problem(u, err)
		return
	}
	s.Report.Devices = append(s.Report.Devices, d)
}

// Result returns the report. It leaves out the driver's functions that nothing was said of: virtual functions of
// another driver's function, and functions of a card that is not offered.
func (s *PCIScan) Result() Report {
	mentioned := s.Report.Addresses()
	for _, u := range s.Units {
		switch {
		case mentioned[u.Address.String()] || !s.own(u.PCIFunction):
		case u.ForeignVF:
			s.LeaveOut(u, "virtual function of %s, which is not a device of this driver or could not be read", u.VirtualOf)
		case u.Physical != nil:
			s.LeaveOut(u, "virtual function of %s, which is not offered", u.Physical.Address)
		case len(u.Virtual) > 0:
			s.LeaveOut(u, "physical function, and none of its virtual functions (%d) is offered", len(u.Virtual))
		default:
			s.LeaveOut(u, "another function of its card is not offered")
		}
	}
	return s.Report
}
