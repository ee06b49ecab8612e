package mdev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gocyborg/gocyborg/driver"
)

const name = "mdev"

// Driver offers the mediated devices of one host's parents.
type Driver struct {
	driver.TreeReader
	config  Config
	types   map[string]Type // by parent
	parents []string
}

var (
	_ driver.Claimer    = (*Driver)(nil)
	_ driver.MdevDriver = (*Driver)(nil)
)

// New returns the driver for a host's tree. The error wraps driver.ErrConfig.
func New(config Config, tree driver.Tree) (*Driver, error) {
	types, parents, err := config.check()
	if err != nil {
		return nil, err
	}
	d := &Driver{config: config, types: types, parents: parents}
	d.TreeReader = driver.NewTreeReader(name, tree, d.discover)
	return d, nil
}

// Claims implements driver.Claimer: no PCI function is this driver's.
func (d *Driver) Claims() []driver.Claim { return nil }

// discover reports the configured parents.
func (d *Driver) discover(ctx context.Context, view driver.Tree) (driver.Report, error) {
	var report driver.Report
	for _, parent := range d.parents {
		if err := ctx.Err(); err != nil {
			return driver.Report{}, fmt.Errorf("mdev: discover: %w", err)
		}
		d.parent(view, parent, &report)
	}
	return report, ctx.Err()
}

// parent reports one parent, or what is wrong with it.
func (d *Driver) parent(view driver.Tree, parent string, report *driver.Report) {
	t := d.types[parent]
	capacity, err := driver.ReadMdevCapacity(view, driver.MdevParentTypes(parent), t.Name)
	if p := new(driver.Problem); errors.As(err, p) && errors.Is(err, fs.ErrNotExist) {
		p.Err = fmt.Errorf("%w: configured for type %s: %w", driver.ErrConfig, t.Name, p.Err)
		err = *p
	}
	var device driver.Device
	if err == nil {
		device, err = d.device(parent, t, capacity)
	}
	if err != nil {
		report.AddProblem(parent, err)
		return
	}
	if capacity.Total() == 0 {
		report.LeftOut = append(report.LeftOut, driver.LeftOut{Address: parent, Driver: name,
			Reason: fmt.Sprintf("no instance of type %s is left, and none exists", t.Name)})
		return
	}
	if capacity.Foreign > 0 {
		report.Warnings = append(report.Warnings, driver.Warning{Address: parent, Driver: name,
			Reason: fmt.Sprintf("mediated devices of other types (%d) lower the capacity", capacity.Foreign)})
	}
	report.Devices = append(report.Devices, device)
}

func (d *Driver) device(parent string, t Type, capacity driver.MdevCapacity) (driver.Device, error) {
	trait, err := driver.CustomName("MDEV", t.Name)
	if err != nil {
		return driver.Device{}, err
	}
	class, traits, err := d.config.Names(driver.Subject{
		Type: t.DeviceType, Vendor: parent, Product: t.Name,
		Shipped: []string{driver.TraitOwnerCyborg, trait}, ShippedClass: t.Class,
	})
	path := driver.MdevParent(parent).ControlPath()
	return driver.Device{
		Vendor: parent, Model: capacity.Name, Type: t.DeviceType, ControlPath: path,
		Deployables: []driver.Deployable{{
			Name: d.config.Host + "_" + parent, NumAccelerators: capacity.Total(), DriverName: name, Class: class, Traits: traits,
			AttachHandles: driver.MdevHandles(path, t.Name, capacity.Total()),
		}},
	}, err
}

// CreateMdev makes a mediated device on a parent that is configured for its type; one
// that is there already is no error. Errors are those of driver.MakeMdev, and
// driver.ErrConfig for a parent that is not configured for the type.
func (d *Driver) CreateMdev(ctx context.Context, m driver.Mdev) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if d.types[m.Parent].Name != m.Type {
		return fmt.Errorf("%w: mdev %s: parent %s is not configured for type %s", driver.ErrConfig, m.UUID, m.Parent, m.Type)
	}
	return driver.MakeMdev(ctx, d.Tree(), m)
}

// RemoveMdev removes a mediated device, whatever is configured now; one that is not there
// is no error. Errors are those of driver.DropMdev.
func (d *Driver) RemoveMdev(ctx context.Context, m driver.Mdev) error {
	return driver.DropMdev(ctx, d.Tree(), m)
}
