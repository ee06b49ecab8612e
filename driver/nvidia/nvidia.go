package nvidia

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name       = "nvidia"
	driverName = "NVIDIA" // what the agent finds the driver by
	vendorID   = 0x10de

	classVGA = 0x0300
	class3D  = 0x0302
)

// ErrType is the cause of the problem with a card that does not support the mdev type it
// is configured for.
var ErrType = errors.New("nvidia: unsupported vGPU type")

// Driver finds the NVIDIA GPUs of one host.
type Driver struct {
	config Config
	types  map[driver.PCIAddress]string // mdev type by card
	tree   driver.Tree
}

var (
	_ driver.TreeDriver = (*Driver)(nil)
	_ driver.Claimer    = (*Driver)(nil)
	_ driver.MdevDriver = (*Driver)(nil)
)

// New returns the driver for a host's tree. The error wraps ErrConfig; where the vGPU
// configuration is at fault its text is upstream's.
func New(config Config, tree driver.Tree) (*Driver, error) {
	types, err := config.check()
	if err != nil {
		return nil, err
	}
	return &Driver{config: config, types: types, tree: tree}, nil
}

// Name returns "nvidia".
func (d *Driver) Name() string { return name }

// Tree implements driver.TreeDriver.
func (d *Driver) Tree() driver.Tree { return d.tree }

// Claims implements driver.Claimer: GPUs are told by vendor and class.
func (d *Driver) Claims() []driver.Claim {
	return []driver.Claim{
		{Vendor: vendorID, Class: classVGA, Why: "NVIDIA VGA compatible controller"},
		{Vendor: vendorID, Class: class3D, Why: "NVIDIA 3D controller"},
	}
}

// Discover reports the GPUs present. The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	return d.DiscoverIn(ctx, driver.NewView(d.tree))
}

// DiscoverIn implements driver.TreeDriver.
func (d *Driver) DiscoverIn(ctx context.Context, view driver.Tree) (driver.Report, error) {
	functions, problems, err := driver.PCIFunctions(ctx, view)
	if err != nil {
		return driver.Report{}, fmt.Errorf("nvidia: discover: %w", err)
	}
	v := &visit{Driver: d, view: view, report: driver.Report{Problems: problems}}
	gpus := slices.DeleteFunc(functions, func(f driver.PCIFunction) bool { return !isGPU(f) })
	cards, problems := driver.PCIStates(view, gpus)
	v.report.Problems = append(v.report.Problems, problems...)
	for _, c := range cards {
		if err := ctx.Err(); err != nil {
			return driver.Report{}, fmt.Errorf("nvidia: discover: %w", err)
		}
		v.card(c)
	}
	v.missing(gpus)
	return v.report, nil
}

func isGPU(f driver.PCIFunction) bool {
	return f.Vendor == vendorID && (f.DeviceClass() == classVGA || f.DeviceClass() == class3D)
}

// card is a GPU with what it is used for.
type card = driver.PCIFunctionState

// visit is one discovery under way.
type visit struct {
	*Driver
	view   driver.Tree
	report driver.Report
}

// card decides over one GPU.
func (v *visit) card(c card) {
	typ, divided := v.types[c.Address]
	verdict := v.judge(c, divided)
	switch {
	case len(verdict.Problems) > 0:
		v.report.Problems = append(v.report.Problems, verdict.Problems...)
		return
	case verdict.Refusal != "":
		v.leaveOut(c, verdict.Refusal)
		return
	}
	part := v.whole
	if divided {
		part = func(c card) (driver.Deployable, error) { return v.divided(c, typ) }
	}
	deployable, err := part(c)
	if err != nil {
		v.problem(c, err)
		return
	}
	if deployable.NumAccelerators == 0 {
		v.leaveOut(c, fmt.Sprintf("no instance of vGPU type %s is left, and none exists", typ))
		return
	}
	device := v.device(c, deployable)
	if err := v.config.AddMemory(&device, c.Address); err != nil {
		v.problem(c, err)
		return
	}
	if verdict.Warning != "" {
		v.report.Warnings = append(v.report.Warnings, driver.Warning{Address: c.Address.String(), Driver: name, Reason: verdict.Warning})
	}
	v.report.Devices = append(v.report.Devices, device)
}

func (v *visit) leaveOut(c card, reason string) {
	v.report.LeftOut = append(v.report.LeftOut, driver.LeftOut{Address: c.Address.String(), Driver: name, Reason: reason})
}

// problem keeps the file that an error is about.
func (v *visit) problem(c card, err error) {
	p := driver.Problem{Address: c.Address.String(), Err: err}
	if at := new(fileError); errors.As(err, &at) {
		p.File, p.Err = at.file, at.err
	}
	v.report.Problems = append(v.report.Problems, p)
}

// judge says why a card must not be offered, or what is doubtful about it.
func (v *visit) judge(c card, divided bool) driver.Verdict {
	if c.IsVirtual && v.config.FilterSRIOVVFs {
		return driver.Verdict{Refusal: "virtual function, and filter_sriov_vfs is set"}
	}
	if divided { // the mdev types it has decide
		return v.judgeDivided(c)
	}
	if c.IsVirtual {
		return driver.Verdict{Refusal: "virtual function of " + c.VirtualOf + ": no whole GPU"}
	}
	return v.config.Judge(v.view, c.PCIFunction, c.PCIState, "nvidia", "nouveau")
}

// judgeDivided notes mediated devices of types that are not configured: they take
// instances away, on most cards all that are left.
func (v *visit) judgeDivided(c card) driver.Verdict {
	verdict := driver.Verdict{Refusal: v.config.HostUse(c.PCIFunction, c.PCIState)}
	foreign := 0
	for _, m := range c.Mdevs {
		if m.Type != v.types[c.Address] {
			foreign++
		}
	}
	if foreign > 0 {
		verdict.Warning = fmt.Sprintf("mediated devices of other types (%d) lower the capacity", foreign)
	}
	return verdict
}

// missing reports the cards that are configured for vGPUs and are not there. One that has
// a problem already is there.
func (v *visit) missing(gpus []driver.PCIFunction) {
	known := make(map[string]bool)
	for _, f := range gpus {
		known[f.Address.String()] = true
	}
	for _, p := range v.report.Problems {
		known[p.Address] = true
	}
	for _, address := range slices.SortedFunc(maps.Keys(v.types), driver.PCIAddress.Compare) {
		if !known[address.String()] {
			v.report.Problems = append(v.report.Problems, driver.Problem{Address: address.String(),
				Err: fmt.Errorf("%w: configured for vGPU type %s, and no NVIDIA GPU is at this address", ErrConfig, v.types[address])})
		}
	}
}

// device puts a deployable into the device it belongs to.
func (d *Driver) device(c card, deployable driver.Deployable) driver.Device {
	return driver.Device{
		Vendor:          c.VendorID(),
		Model:           model(c.Product),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "%s"}`, c.ProductID(), controller(c)),
		VendorBoardInfo: `{"vendor_info": "gpu_vb_info"}`,
		ControlPath:     c.Address.ControlPath(),
		Deployables:     []driver.Deployable{deployable},
	}
}

// controller is the class as lspci writes it.
func controller(c card) string {
	if c.DeviceClass() == class3D {
		return "3D controller"
	}
	return "VGA compatible controller"
}

// subject is what the names of a card are made of.
func (d *Driver) subject(c card, class string, shippedTrait string) driver.Subject {
	return driver.Subject{
		Type: driver.TypeGPU, Vendor: name, Product: family(c.Product), ProductID: c.ProductID(),
		Shipped: []string{driver.TraitOwnerCyborg, shippedTrait}, ShippedClass: class,
	}
}

// whole is a GPU given away as one PCI device.
func (d *Driver) whole(c card) (driver.Deployable, error) {
	trait, err := driver.CustomName("NVIDIA", c.ProductID())
	if err != nil {
		return driver.Deployable{}, err
	}
	p, err := d.deployable(c, d.subject(c, "PGPU", trait))
	p.NumAccelerators = 1
	p.AttachHandles = []driver.AttachHandle{{Type: driver.HandlePCI, Info: c.Address.Info()}}
	return p, err
}

// deployable has everything but the handles.
func (d *Driver) deployable(c card, subject driver.Subject) (driver.Deployable, error) {
	attributes, err := d.config.Attributes(subject)
	return driver.Deployable{
		Name:       d.config.Host + "_" + c.Address.String(),
		DriverName: driverName,
		Attributes: attributes,
	}, err
}
