package nvidia

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name       = "nvidia"
	driverName = "NVIDIA" // what the agent finds the driver by
	vendorID   = 0x10de

	classVGA = 0x0300
	class3D  = 0x0302
)

// Driver finds the NVIDIA GPUs of one host.
type Driver struct {
	driver.TreeReader
	config Config
	types  map[string]string // mdev type by address of the card
}

var (
	_ driver.Claimer    = (*Driver)(nil)
	_ driver.MdevDriver = (*Driver)(nil)
)

// New returns the driver for a host's tree. The error wraps driver.ErrConfig; where the vGPU
// configuration is at fault its text is upstream's.
func New(config Config, tree driver.Tree) (*Driver, error) {
	types, err := config.check()
	if err != nil {
		return nil, err
	}
	d := &Driver{config: config, types: types}
	d.TreeReader = driver.NewTreeReader(name, tree, d.discover)
	return d, nil
}

// Claims implements driver.Claimer: GPUs are known by vendor and class.
func (d *Driver) Claims() []driver.Claim {
	return []driver.Claim{
		{Vendor: vendorID, Class: classVGA, Why: "NVIDIA VGA compatible controller"},
		{Vendor: vendorID, Class: class3D, Why: "NVIDIA 3D controller"},
	}
}

func (d *Driver) discover(ctx context.Context, view driver.Tree) (driver.Report, error) {
	scan, err := driver.ScanPCI(ctx, view, name, d.config.Policy, isGPU)
	if err != nil {
		return driver.Report{}, err
	}
	for _, u := range scan.Units {
		if isGPU(u.PCIFunction) && !u.Unreadable {
			d.card(scan, u)
		}
	}
	d.reportMissing(scan)
	return scan.Result(), nil
}

func isGPU(f driver.PCIFunction) bool {
	return f.Vendor == vendorID && (f.DeviceClass() == classVGA || f.DeviceClass() == class3D)
}

// card reports one GPU, or why it must not be offered.
func (d *Driver) card(scan *driver.PCIScan, u *driver.Unit) {
	typ, divided := d.types[u.Address.String()]
	switch {
	case u.IsVirtual && d.config.FilterSRIOVVFs:
		scan.LeaveOut(u, "virtual function, and filter_sriov_vfs is set")
	case divided:
		d.offerDivided(scan, u, typ)
	case u.IsVirtual:
		scan.LeaveOut(u, "virtual function of %s: no whole GPU", u.VirtualOf)
	case scan.Assignable(u, "nvidia", "nouveau"):
		s := subject(u.PCIFunction)
		s.ShippedClass, s.Shipped = "PGPU", []string{driver.TraitOwnerCyborg, "CUSTOM_NVIDIA_" + strings.ToUpper(u.ProductID())}
		d.offer(scan, u, s, []driver.AttachHandle{{Type: driver.HandlePCI, Info: u.Address.Info()}})
	}
}

// offerDivided reports a GPU divided into mediated devices of one type.
func (d *Driver) offerDivided(scan *driver.PCIScan, u *driver.Unit, typ string) {
	if reason := d.config.HostUse(u.PCIFunction, u.PCIState); reason != "" {
		scan.LeaveOut(u, "%s", reason)
		return
	}
	dir := u.Dir() + "/" + driver.MdevTypesDir
	capacity, err := driver.ReadMdevCapacity(scan.Tree, dir, typ)
	if err != nil {
		scan.Problem(u, err)
		return
	}
	// The type's part of the trait is the second word of its name: T4-1B of "GRID T4-1B".
	// A name of one word counts as a whole.
	words := strings.Fields(capacity.Name)
	s := subject(u.PCIFunction)
	s.VGPUType = words[min(1, len(words)-1)]
	trait, err := driver.CustomName("NVIDIA", u.ProductID(), s.VGPUType)
	if err != nil {
		scan.Problem(u, driver.Problem{File: dir + "/" + typ + "/name", Err: err})
		return
	}
	if capacity.Total() == 0 {
		scan.LeaveOut(u, "no instance of vGPU type %s is left, and none exists", typ)
		return
	}
	s.ShippedClass, s.Shipped = "VGPU", []string{driver.TraitOwnerCyborg, trait}
	if d.offer(scan, u, s, driver.MdevHandles(u.Address.ControlPath(), typ, capacity.Total())) && capacity.Foreign > 0 {
		scan.Warn(u, "mediated devices of other types (%d) lower the capacity", capacity.Foreign)
	}
}

// offer reports a GPU with its handles.
func (d *Driver) offer(scan *driver.PCIScan, u *driver.Unit, s driver.Subject, handles []driver.AttachHandle) bool {
	class, traits, err := d.config.Names(s)
	if err != nil {
		scan.Problem(u, err)
		return false
	}
	controller := "VGA compatible controller" // the class as lspci writes it
	if u.DeviceClass() == class3D {
		controller = "3D controller"
	}
	scan.Offer(u, driver.Device{
		Vendor:          u.VendorID(),
		Model:           model(u.Product),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "%s"}`, u.ProductID(), controller),
		VendorBoardInfo: `{"vendor_info": "gpu_vb_info"}`,
		ControlPath:     u.Address.ControlPath(),
		Deployables: []driver.Deployable{{
			Name:            d.config.Host + "_" + u.Address.String(),
			NumAccelerators: len(handles),
			DriverName:      driverName,
			Class:           class,
			Traits:          traits,
			AttachHandles:   handles,
		}},
	})
	return true
}

// subject is what the names of a card are made of.
func subject(f driver.PCIFunction) driver.Subject {
	return driver.Subject{Type: driver.TypeGPU, Vendor: name, Product: family(f.Product), ProductID: f.ProductID()}
}

// reportMissing reports the cards that are configured for vGPUs and are not there. One
// that has a problem already is there.
func (d *Driver) reportMissing(scan *driver.PCIScan) {
	known := make(map[string]bool)
	for _, u := range scan.Units {
		known[u.Address.String()] = true
	}
	for _, p := range scan.Report.Problems {
		known[p.Address] = true
	}
	for _, address := range slices.Sorted(maps.Keys(d.types)) {
		if !known[address] {
			scan.Report.AddProblem(address, fmt.Errorf("%w: configured for vGPU type %s, and no NVIDIA GPU is at this address", driver.ErrConfig, d.types[address]))
		}
	}
}

// CreateMdev makes a mediated device on a card that is configured for its type; one that
// is there already is no error. Errors are those of driver.MakeMdev, and driver.ErrConfig
// for a card that is not configured for the type.
func (d *Driver) CreateMdev(ctx context.Context, m driver.Mdev) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if d.types[m.Parent] != m.Type {
		return fmt.Errorf("%w: mdev %s: card %s is not configured for vGPU type %s", driver.ErrConfig, m.UUID, m.Parent, m.Type)
	}
	return driver.MakeMdev(ctx, d.Tree(), m)
}

// RemoveMdev removes a mediated device, whatever is configured now; one that is not there
// is no error. Errors are those of driver.DropMdev.
func (d *Driver) RemoveMdev(ctx context.Context, m driver.Mdev) error {
	return driver.DropMdev(ctx, d.Tree(), m)
}
