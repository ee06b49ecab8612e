package nvidia

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
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
	_ driver.Driver     = (*Driver)(nil)
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

// Discover reports the GPUs present. The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	functions, problems, err := driver.PCIFunctions(ctx, d.tree)
	if err != nil {
		return driver.Report{}, fmt.Errorf("nvidia: discover: %w", err)
	}
	v := &visit{Driver: d, report: driver.Report{Problems: problems}}
	gpus := slices.DeleteFunc(functions, func(f driver.PCIFunction) bool { return !isGPU(f) })
	cards := v.states(gpus)
	v.markVirtual(cards)
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
type card struct {
	driver.PCIFunction
	driver.PCIState
}

// visit is one discovery under way.
type visit struct {
	*Driver
	report driver.Report
}

// states reads the state of each GPU; one that cannot be understood is a problem and
// goes no further.
func (v *visit) states(gpus []driver.PCIFunction) []card {
	cards := make([]card, 0, len(gpus))
	for _, f := range gpus {
		state, problems := driver.ReadPCIState(v.tree, f)
		if len(problems) > 0 {
			v.report.Problems = append(v.report.Problems, problems...)
			continue
		}
		cards = append(cards, card{f, state})
	}
	return cards
}

// markVirtual makes virtual what a physical function names as its own, since captured
// trees may lack the link the other way.
func (v *visit) markVirtual(cards []card) {
	owner := make(map[string]string)
	for _, c := range cards {
		for _, vf := range c.VirtualFunctions {
			owner[vf] = c.Address.String()
		}
	}
	for i := range cards {
		if pf, ok := owner[cards[i].Address.String()]; ok && !cards[i].IsVirtual {
			cards[i].IsVirtual, cards[i].VirtualOf = true, pf
		}
	}
}

// card decides over one GPU.
func (v *visit) card(c card) {
	typ, divided := v.types[c.Address]
	if reason := v.refuse(c, divided); reason != "" {
		v.report.LeftOut = append(v.report.LeftOut, driver.LeftOut{Address: c.Address.String(), Driver: name, Reason: reason})
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
		v.report.LeftOut = append(v.report.LeftOut, driver.LeftOut{Address: c.Address.String(), Driver: name,
			Reason: fmt.Sprintf("no instance of vGPU type %s is left, and none exists", typ)})
		return
	}
	v.report.Devices = append(v.report.Devices, v.device(c, deployable))
}

// problem keeps the file that an error is about.
func (v *visit) problem(c card, err error) {
	p := driver.Problem{Address: c.Address.String(), Err: err}
	if at := new(fileError); errors.As(err, &at) {
		p.File, p.Err = at.file, at.err
	}
	v.report.Problems = append(v.report.Problems, p)
}

// refuse says why a card must not be offered, or "".
func (v *visit) refuse(c card, divided bool) string {
	if c.IsVirtual && v.config.FilterSRIOVVFs {
		return "virtual function, and filter_sriov_vfs is set"
	}
	if reason := c.HostUse(c.PCIFunction); reason != "" {
		return reason
	}
	if divided {
		return "" // the mdev types it has decide
	}
	if c.IsVirtual {
		return "virtual function of " + c.VirtualOf + ": no whole GPU"
	}
	if reason := c.Divided(); reason != "" {
		return reason
	}
	return c.OtherDriver(append([]string{"nvidia", "nouveau"}, v.config.AllowedDrivers...)...)
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

// whole is a GPU given away as one PCI device.
func (d *Driver) whole(c card) (driver.Deployable, error) {
	trait, err := driver.CustomName("NVIDIA", c.ProductID())
	if err != nil {
		return driver.Deployable{}, err
	}
	p := d.deployable(c, "PGPU", trait)
	p.NumAccelerators = 1
	p.AttachHandles = []driver.AttachHandle{{Type: driver.HandlePCI, Info: c.Address.Info()}}
	return p, nil
}

// deployable has everything but the handles.
func (d *Driver) deployable(c card, resourceClass, trait string) driver.Deployable {
	traits := []string{driver.TraitOwnerCyborg, trait}
	for _, extra := range d.config.ExtraTraits {
		if !slices.Contains(traits, extra) {
			traits = append(traits, extra)
		}
	}
	return driver.Deployable{
		Name:       d.config.Host + "_" + c.Address.String(),
		DriverName: driverName,
		Attributes: driver.Attributes(resourceClass, traits...),
	}
}
