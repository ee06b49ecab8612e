package driver

import (
	"context"
	"fmt"
	"slices"
)

// PCIDriver is a driver that does nothing but make a PCIOffer. The drivers of such
// devices embed it.
type PCIDriver struct {
	offer PCIOffer
	tree  Tree
}

var (
	_ TreeDriver = (*PCIDriver)(nil)
	_ Claimer    = (*PCIDriver)(nil)
)

// NewPCIDriver returns the driver that makes the offer of a tree.
func NewPCIDriver(offer PCIOffer, tree Tree) *PCIDriver { return &PCIDriver{offer, tree} }

// Name returns the name of the driver.
func (d *PCIDriver) Name() string { return d.offer.Driver }

// Tree returns the tree that the driver looks at.
func (d *PCIDriver) Tree() Tree { return d.tree }

// Claims lists the PCI functions that the driver takes for its own.
func (d *PCIDriver) Claims() []Claim { return slices.Clone(d.offer.Claims) }

// Offer returns what the driver makes; the functions in it are shared.
func (d *PCIDriver) Offer() PCIOffer { return d.offer }

// Discover reports the devices present. The error is that of ctx.
func (d *PCIDriver) Discover(ctx context.Context) (Report, error) {
	return d.DiscoverIn(ctx, NewView(d.tree))
}

// DiscoverIn is Discover on a view of the tree.
func (d *PCIDriver) DiscoverIn(ctx context.Context, view Tree) (Report, error) {
	return d.offer.Discover(ctx, view)
}

// PCIOffer is the way that drivers of PCI functions go which give them away as they are:
// a function whole, or each of its virtual functions for itself. What a driver adds is
// which functions are its own and how they are described.
//
// The rules:
//   - A function is the driver's if one of Claims covers it, or if it is a virtual
//     function of one. A virtual function of somebody else's physical function is not.
//   - A physical function with virtual functions is left out, and each of these is a
//     deployable of its device. One whose physical function is not to be seen, as in a
//     guest, is a device of its own.
//   - Where the kernel tells nothing of SR-IOV, Virtual decides by the ids.
//   - Vet and Policy.Judge decide over each function that would be given away. A refusal
//     goes into Report.LeftOut, a doubt into Report.Warnings.
//   - A function with a problem is not offered; its virtual functions may be.
type PCIOffer struct {
	// Driver is the driver's name, that of deployables, of what is left out and of
	// warnings.
	Driver string
	// Host starts the names of deployables.
	Host   string
	Policy Policy
	// Claims are the functions of the driver.
	Claims []Claim
	// Own narrows the claims down where they are wider than what the driver takes; nil:
	// all that they cover.
	Own func(PCIFunction) bool
	// Virtual tells by their ids whether the first function may be a virtual one of the
	// second. Where the kernel tells nothing of SR-IOV, as in captured trees, a function
	// with such a one on its bus is taken for divided. Nil: the ids tell nothing.
	Virtual func(vf, pf PCIFunction) bool
	// See is shown each function of the driver, whatever becomes of it; it may be nil.
	See func(Unit)
	// Kernel are the kernel drivers of the devices, which are no obstacle. It may depend
	// on the function; nil: none are.
	Kernel func(Unit) []string
	// Vet says why the driver must not offer a function, beside all that Policy.Judge
	// knows, or "". Nil: nothing else matters.
	Vet func(Unit) string
	// Device describes the device of a function. Its control path and its deployables
	// are filled in.
	Device func(Unit) Device
	// Attributes names the class and the traits of a function that is given away.
	Attributes func(Unit) ([]Attribute, error)
	// Info has further fields of the attach handle; nil: there are none.
	Info func(Unit) Info
}

// Unit is a PCI function with what it is used for.
type Unit struct {
	PCIFunction
	PCIState
	// Physical is the physical function of a virtual one, nil where that cannot be seen.
	Physical *Unit

	virtual []*Unit
	doubt   *Unit // what may be a virtual function of it
	trouble bool  // a problem was reported: it cannot be offered
	strange bool  // a virtual function of somebody else's
}

// Discover looks at a tree, which is best a view of one. The error is that of ctx.
func (o PCIOffer) Discover(ctx context.Context, tree Tree) (Report, error) {
	s := &survey{PCIOffer: o, tree: tree, units: make(map[PCIAddress]*Unit)}
	functions, problems, err := PCIFunctions(ctx, tree)
	if err != nil {
		return Report{}, fmt.Errorf("%s: discover: %w", o.Driver, err)
	}
	s.report.Problems = problems
	s.take(functions)
	s.relate(functions)
	for _, u := range s.order {
		if err := ctx.Err(); err != nil {
			return Report{}, fmt.Errorf("%s: discover: %w", o.Driver, err)
		}
		if u.strange {
			continue
		}
		if s.See != nil {
			s.See(*u)
		}
		if u.Physical == nil {
			s.offer(u)
		}
	}
	return s.report, nil
}

// survey is one discovery under way.
type survey struct {
	PCIOffer
	tree   Tree
	units  map[PCIAddress]*Unit
	order  []*Unit // by address
	report Report
}

func (s *survey) claims(f PCIFunction) bool {
	return slices.ContainsFunc(s.Claims, func(c Claim) bool { return c.Covers(f) }) && (s.Own == nil || s.Own(f))
}

// take reads the state of all functions that the driver claims, and of the virtual
// functions that these name.
func (s *survey) take(functions []PCIFunction) {
	named := make(map[string]bool)
	readAhead(s.tree, slices.DeleteFunc(slices.Clone(functions), func(f PCIFunction) bool { return !s.claims(f) }))
	for _, f := range functions {
		if !s.claims(f) {
			continue
		}
		for _, name := range s.read(f).VirtualFunctions {
			named[name] = true
		}
	}
	virtual := slices.DeleteFunc(slices.Clone(functions), func(f PCIFunction) bool {
		return s.units[f.Address] != nil || !named[f.Address.String()]
	})
	readAhead(s.tree, virtual)
	for _, f := range virtual {
		s.read(f)
	}
	slices.SortFunc(s.order, func(a, b *Unit) int { return a.Address.Compare(b.Address) })
}

func (s *survey) read(f PCIFunction) *Unit {
	u := &Unit{PCIFunction: f}
	var problems []Problem
	u.PCIState, problems = ReadPCIState(s.tree, f)
	u.trouble = len(problems) > 0
	s.report.Problems = append(s.report.Problems, problems...)
	s.units[f.Address] = u
	s.order = append(s.order, u)
	return u
}

// relate finds the physical function of each virtual one. Captured trees may lack the
// link to it, so one that names a function as its own counts as well.
func (s *survey) relate(functions []PCIFunction) {
	owner := make(map[string]*Unit)
	for _, u := range s.order {
		for _, name := range u.VirtualFunctions {
			owner[name] = u
		}
	}
	present := make(map[string]bool, len(functions))
	for _, f := range functions {
		present[f.Address.String()] = true
	}
	for _, u := range s.order {
		if pf := owner[u.Address.String()]; pf != nil && u.VirtualOf == "" {
			u.IsVirtual, u.VirtualOf = true, pf.Address.String()
		}
	}
	for _, u := range s.order {
		if u.IsVirtual {
			s.attach(u, present)
		}
	}
	if s.Virtual != nil {
		for _, u := range s.order {
			u.doubt = s.doubtful(u)
		}
	}
}

// doubtful finds what may be a virtual function of a function, when no link and no count
// tells.
func (s *survey) doubtful(pf *Unit) *Unit {
	if pf.IsVirtual || pf.TotalVFs > 0 || len(pf.virtual) > 0 {
		return nil
	}
	for _, u := range s.order {
		near := u.Address.Domain == pf.Address.Domain && u.Address.Bus == pf.Address.Bus
		if near && !u.IsVirtual && s.Virtual(u.PCIFunction, pf.PCIFunction) {
			return u
		}
	}
	return nil
}

// attach puts a virtual function below its physical one.
func (s *survey) attach(u *Unit, present map[string]bool) {
	address, err := ParsePCIAddress(u.VirtualOf)
	pf := s.units[address]
	switch {
	case err != nil: // a link that could not be read is a problem already
		if u.VirtualOf != "" {
			s.problem(u, "physfn", fmt.Errorf("%w: the link leads to %q", ErrGarbled, u.VirtualOf))
		}
	case pf == nil:
		u.strange = present[u.VirtualOf]
	case pf.IsVirtual:
		s.problem(u, "physfn", fmt.Errorf("%w: the link leads to %s, which is a virtual function itself", ErrGarbled, u.VirtualOf))
	default:
		u.Physical = pf
		pf.virtual = append(pf.virtual, u)
	}
}

func (s *survey) problem(u *Unit, file string, err error) {
	p := Problem{Address: u.Address.String(), Err: err}
	if file != "" {
		p.File = u.Dir() + "/" + file
	}
	s.report.Problems = append(s.report.Problems, p)
	u.trouble = true
}

// add notes problems of the IOMMU group, some of which may be known from the bus.
func (s *survey) add(problems []Problem) {
	for _, p := range problems {
		if !slices.ContainsFunc(s.report.Problems, func(o Problem) bool { return o.Error() == p.Error() }) {
			s.report.Problems = append(s.report.Problems, p)
		}
	}
}

// offer reports a physical function, or its virtual ones.
func (s *survey) offer(u *Unit) {
	parts := []*Unit{u}
	if len(u.virtual) > 0 {
		parts = u.virtual
		s.leaveOut(u, fmt.Sprintf("physical function with virtual functions (%d), which are offered instead", len(parts)))
	}
	var deployables []Deployable
	for _, part := range parts {
		if d, ok := s.deployable(part); ok {
			deployables = append(deployables, d)
		}
	}
	if len(deployables) == 0 {
		return
	}
	device := s.Device(*u)
	device.ControlPath, device.Deployables = u.Address.ControlPath(), deployables
	if err := s.Policy.AddMemory(&device, u.Address); err != nil {
		s.problem(u, "", err)
		return
	}
	s.report.Devices = append(s.report.Devices, device)
}

func (s *survey) leaveOut(u *Unit, reason string) {
	s.report.LeftOut = append(s.report.LeftOut, LeftOut{Address: u.Address.String(), Driver: s.Driver, Reason: reason})
}

// deployable is one function given away. It is not ok when the function must not be.
func (s *survey) deployable(u *Unit) (Deployable, bool) {
	if u.trouble {
		return Deployable{}, false
	}
	warning, ok := s.admits(u)
	if !ok {
		return Deployable{}, false
	}
	attributes, err := s.Attributes(*u)
	if err != nil {
		s.problem(u, "", err)
		return Deployable{}, false
	}
	if warning != "" {
		s.report.Warnings = append(s.report.Warnings, Warning{Address: u.Address.String(), Driver: s.Driver, Reason: warning})
	}
	handle := AttachHandle{Type: HandlePCI, Info: u.Address.Info()}
	if s.Info != nil {
		for key, value := range s.Info(*u) {
			handle.Info[key] = value
		}
	}
	return Deployable{
		Name:            s.Host + "_" + u.Address.String(),
		NumAccelerators: 1,
		DriverName:      s.Driver,
		Attributes:      attributes,
		AttachHandles:   []AttachHandle{handle},
	}, true
}

// admits decides over one function and writes down why not.
func (s *survey) admits(u *Unit) (warning string, ok bool) {
	refusal := ""
	if u.doubt != nil {
		refusal = fmt.Sprintf("taken for divided: on its bus is %s, a virtual function of such ones, and nothing tells whose", u.doubt.Address)
	} else if s.Vet != nil {
		refusal = s.Vet(*u)
	}
	if refusal != "" {
		s.leaveOut(u, refusal)
		return "", false
	}
	var kernel []string
	if s.Kernel != nil {
		kernel = s.Kernel(*u)
	}
	v := s.Policy.Judge(s.tree, u.PCIFunction, u.PCIState, kernel...)
	if s.add(v.Problems); slices.ContainsFunc(v.Problems, func(p Problem) bool { return p.Address == u.Address.String() }) {
		return "", false
	}
	if v.Refusal != "" {
		s.leaveOut(u, v.Refusal)
		return "", false
	}
	return v.Warning, true
}
