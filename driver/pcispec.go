package driver

import (
	"context"
	"fmt"
	"slices"
)

// PCISpec describes a driver of PCI functions that guests get as they are: a function as a whole, or each of its
// virtual functions. What a driver adds is which functions are its own and how they are described.
//
// The rules:
//   - A function is the driver's if one of Claims covers it, or if it is a virtual
//     function of one. A virtual function of another driver's function is skipped.
//   - A physical function with virtual functions is skipped, and each of these is a deployable of
//     its device. A virtual function whose physical function is not in the tree, as in a guest,
//     is a separate device. With Separate each function is one.
//   - Where the tree has no information on SR-IOV, VirtualIDs decides.
//   - Vet and PCIScan.Assignable decide about each function that would be offered.
//   - A function with a problem is not offered; its virtual functions may be.
//   - A driver without Claims and Own reads nothing.
type PCISpec struct {
	// Driver is the driver's name in deployables, skipped devices and warnings.
	Driver string
	// Host starts the names of deployables.
	Host   string
	Policy Policy
	// Claims select the functions of the driver.
	Claims []Claim
	// Own narrows the claims down where they are wider than what the driver takes; nil: all that they cover.
	Own func(PCIFunction) bool
	// Separate offers each function of the driver by itself. A virtual function is the
	// driver's if Claims and Own say so, independent of its physical function.
	Separate bool
	// VirtualIDs reports by their ids and kernel drivers whether the first function may be a virtual one of the
	// second. Where the tree has no information on SR-IOV, as in some captures, a function with
	// such a virtual function on its bus is skipped, and so is a GPU next to another with its id.
	// It may be nil.
	VirtualIDs func(vf, pf Unit) bool
	// KernelDrivers are the kernel drivers of a device of this kind; nil means no drivers.
	KernelDrivers func(Unit) []string
	// Vet returns why the driver must not offer a function, in addition to the checks of
	// PCIScan.Assignable, or "". It may be nil.
	Vet func(Unit) string
	// Divide offers a function in parts, as mediated devices, and answers true; false is
	// for one that is to be offered whole. It may be nil.
	Divide func(*PCIScan, *Unit) bool
	// Device describes the device of a function. Its control path and its deployables are filled in.
	Device func(Unit) Device
	// Subject returns the parts of the names of class and traits of a function. The unit is the
	// function offered; its device is named after Unit.Card.
	Subject func(Unit) Subject
	// Complete changes the deployable of a function; it may be nil.
	Complete func(Unit, *Deployable)
	// Prepare is called before each discovery and completes the description with what it
	// reads from the tree. It may be nil.
	Prepare func(ctx context.Context, view *View, spec *PCISpec) error
	// Finish is called after each discovery and may add to the report. It may be nil.
	Finish func(*PCIScan)

	functions []PCIFunction // of the tree, during a discovery
}

// Card is the physical function of a virtual one, else the function itself.
func (u Unit) Card() PCIFunction {
	if u.Physical != nil {
		return u.Physical.PCIFunction
	}
	return u.PCIFunction
}

// PCIDriver is the driver that a PCISpec describes.
type PCIDriver struct {
	TreeReader
	claims []Claim
}

var _ Claimer = (*PCIDriver)(nil)

// NewPCIDriver returns the driver of a tree. The error wraps ErrConfig.
func NewPCIDriver(spec PCISpec, tree Tree) (*PCIDriver, error) {
	if err := spec.Policy.CheckConfig(spec.Host); err != nil {
		return nil, err
	}
	return &PCIDriver{NewTreeReader(spec.Driver, tree, spec.discover), spec.Claims}, nil
}

// Claims lists the PCI functions of the driver.
func (d *PCIDriver) Claims() []Claim { return slices.Clone(d.claims) }

func (s PCISpec) discover(ctx context.Context, view *View) (Report, error) {
	if len(s.Claims) == 0 && s.Own == nil {
		return Report{}, ctx.Err()
	}
	if s.Prepare != nil {
		if err := s.Prepare(ctx, view, &s); err != nil {
			return Report{}, fmt.Errorf("%s: discover: %w", s.Driver, err)
		}
	}
	scan, err := ScanPCI(ctx, view, s.Driver, s.Policy, s.owns)
	if err != nil {
		return Report{}, err
	}
	if s.functions, _, err = view.PCIFunctions(ctx); err != nil {
		return Report{}, err
	}
	for _, u := range scan.Units {
		if s.Separate && s.owns(u.PCIFunction) || !s.Separate && u.Physical == nil && !u.ForeignVF {
			s.offer(scan, u)
		}
	}
	if s.Finish != nil {
		s.Finish(scan)
	}
	return scan.Result(), nil
}

func (s PCISpec) owns(f PCIFunction) bool {
	return slices.ContainsFunc(s.Claims, func(c Claim) bool { return c.Covers(f) }) && (s.Own == nil || s.Own(f))
}

// offer reports a physical function, or its virtual ones.
func (s PCISpec) offer(scan *PCIScan, u *Unit) {
	assigned := []*Unit{u}
	if len(u.Virtual) > 0 && !s.Separate {
		assigned = u.Virtual
		scan.LeaveOut(u, "physical function with virtual functions (%d), which are offered instead", len(assigned))
	}
	var deployables []Deployable
	for _, part := range assigned {
		if s.assignable(scan, part) {
			if d, err := s.deployable(*part); err != nil {
				scan.Problem(part, err)
			} else {
				deployables = append(deployables, d)
			}
		}
	}
	if len(deployables) == 0 {
		return
	}
	device := s.Device(*u)
	device.ControlPath, device.Deployables = u.Address.ControlPath(), deployables
	scan.Offer(u, device)
}

// assignable reports whether one function can be offered whole, and otherwise why not.
func (s PCISpec) assignable(scan *PCIScan, u *Unit) bool {
	if u.Unreadable {
		return false
	}
	if vf := s.suspectVF(scan, u); vf != nil {
		scan.LeaveOut(u, "probably divided: on its bus is %s, a virtual function of such a device, without a link to its physical function", vf.Address)
		return false
	}
	if s.Vet != nil {
		if reason := s.Vet(*u); reason != "" {
			scan.LeaveOut(u, "%s", reason)
			return false
		}
	}
	if s.Divide != nil && s.Divide(scan, u) {
		return false
	}
	if u.HasVGPUTypes {
		scan.LeaveOut(u, "virtual function with vGPU types, which must keep its kernel driver")
		return false
	}
	var kernel []string
	if s.KernelDrivers != nil {
		kernel = s.KernelDrivers(*u)
	}
	return scan.Assignable(u, kernel...)
}

// suspectVF finds what may be a virtual function of a function when the tree has neither
// links nor counts. It need not be the driver's.
func (s PCISpec) suspectVF(scan *PCIScan, pf *Unit) *Unit {
	if pf.IsVirtual || pf.TotalVFs > 0 || len(pf.Virtual) > 0 {
		return nil
	}
	for _, f := range s.functions {
		beside := f.besides(pf.PCIFunction)
		if f.Address == pf.Address || f.Address.Domain != pf.Address.Domain || f.Address.Bus != pf.Address.Bus || !beside && s.VirtualIDs == nil {
			continue
		}
		u := Unit{PCIFunction: f}
		u.PCIState, _ = scan.View.PCIState(f)
		if !u.IsVirtual && (beside || s.VirtualIDs(u, *pf)) {
			return &u
		}
	}
	return nil
}

func (s PCISpec) deployable(u Unit) (Deployable, error) {
	class, traits, err := s.Policy.Names(s.Subject(u))
	d := Deployable{
		Name:            s.Host + "_" + u.Address.String(),
		NumAccelerators: 1,
		DriverName:      s.Driver,
		Class:           class,
		Traits:          traits,
		AttachHandles:   []AttachHandle{{Type: HandlePCI, Info: u.Address.Info()}},
	}
	if s.Complete != nil {
		s.Complete(u, &d)
	}
	return d, err
}
