package mdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const name = "mdev"

// Driver offers the mediated devices of one host's parents.
type Driver struct {
	driver.TreeReader
	driver.MdevParents
	config  Config
	types   map[string]Type // by parent
	parents []string
}

var _ driver.Claimer = (*Driver)(nil)

// New returns the driver for a host's tree. The error wraps driver.ErrConfig.
func New(config Config, tree driver.Tree) (*Driver, error) {
	types, parents, err := config.check()
	if err != nil {
		return nil, err
	}
	names := make(map[string]string)
	for parent, t := range types {
		names[parent] = t.Name
	}
	d := &Driver{config: config, types: types, parents: parents, MdevParents: driver.NewMdevParents(tree, names)}
	d.TreeReader = driver.NewTreeReader(name, tree, d.discover)
	return d, nil
}

// Claims implements driver.Claimer: no PCI function belongs to this driver by its vendor or
// class; only configured ones are reported.
func (d *Driver) Claims() []driver.Claim { return nil }

// discover reports the configured parents.
func (d *Driver) discover(ctx context.Context, view *driver.View) (driver.Report, error) {
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
func (d *Driver) parent(view *driver.View, parent string, report *driver.Report) {
	t := d.types[parent]
	capacity, err := d.Capacity(view, driver.ParseAddress(parent))
	if p := new(driver.Problem); errors.As(err, p) && errors.Is(err, fs.ErrNotExist) {
		p.Err = fmt.Errorf("%w: configured for type %s: %w", driver.ErrConfig, t.Name, p.Err)
		err = *p
	}
	var device driver.Device
	if err == nil {
		device, err = d.device(view, parent, t, capacity)
	}
	if err != nil {
		report.AddProblem(parent, err)
		return
	}
	if len(capacity.Handles) == 0 {
		report.LeftOut = append(report.LeftOut, driver.Notice{Address: parent, Driver: name,
			Reason: fmt.Sprintf("type %s has no available instance", t.Name)})
		return
	}
	if capacity.Foreign > 0 {
		report.Warnings = append(report.Warnings, driver.Notice{Address: parent, Driver: name,
			Reason: fmt.Sprintf("mediated devices of other types (%d) lower the capacity", capacity.Foreign)})
	}
	report.Devices = append(report.Devices, device)
}

func (d *Driver) device(view *driver.View, parent string, t Type, capacity driver.MdevCapacity) (driver.Device, error) {
	trait, err := driver.CustomName("MDEV", t.Name)
	if err != nil {
		return driver.Device{}, err
	}
	vendor, err := vendorOf(view, parent)
	if err != nil {
		return driver.Device{}, err
	}
	class, traits, err := d.config.Names(driver.Subject{
		Type: t.DeviceType, Vendor: vendor, Product: t.Name,
		Shipped: []string{driver.TraitOwnerCyborg, trait}, ShippedClass: t.Class,
	})
	path := driver.ParseAddress(parent).ControlPath()
	return driver.Device{
		Vendor: vendor, Model: cmp.Or(capacity.Name, t.Name), Type: t.DeviceType, ControlPath: path,
		Deployables: []driver.Deployable{{
			Name: d.config.Host + "_" + parent, NumAccelerators: len(capacity.Handles), DriverName: name, Class: class, Traits: traits,
			AttachHandles: capacity.Handles,
		}},
	}, err
}

// vendorOf is the vendor of a parent: the id of a PCI function, and the name of any other.
func vendorOf(view *driver.View, parent string) (string, error) {
	address, err := driver.ParsePCIAddress(parent)
	if err != nil {
		return parent, nil
	}
	name := driver.PCIFunction{Address: address}.Dir() + "/vendor"
	id, err := view.ReadText(name)
	if err != nil {
		return "", driver.Problem{File: name, Err: err}
	}
	return strings.TrimPrefix(id, "0x"), nil
}
