package verbatim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
)

// Name is the driver's name.
const Name = "verbatim"

// Driver reports the devices that it was given. It is safe for parallel use.
type Driver struct {
	devices []driver.Device

	mu    sync.Mutex
	mdevs map[string]driver.Mdev // by uuid
}

var (
	_ driver.Driver     = (*Driver)(nil)
	_ driver.MdevDriver = (*Driver)(nil)
)

// New returns a driver that reports copies of the devices, which are judged
// when they are reported and not here.
func New(devices []driver.Device) *Driver {
	return &Driver{devices: clone(devices), mdevs: make(map[string]driver.Mdev)}
}

func clone(devices []driver.Device) []driver.Device {
	copies := make([]driver.Device, len(devices))
	for i, device := range devices {
		copies[i] = device.Clone()
	}
	return copies
}

// Name returns "verbatim".
func (d *Driver) Name() string { return Name }

// Discover reports the devices. The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	if err := ctx.Err(); err != nil {
		return driver.Report{}, err
	}
	return driver.Report{Devices: clone(d.devices)}, nil
}

// CreateMdev notes a mediated device; one that is there already is no error.
// A name that could not stand in sysfs matches [driver.ErrHandle].
func (d *Driver) CreateMdev(ctx context.Context, m driver.Mdev) error {
	if err := cmp.Or(ctx.Err(), m.Validate()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mdevs[m.UUID] = m
	return nil
}

// RemoveMdev forgets a mediated device; one that is not there is no error.
func (d *Driver) RemoveMdev(ctx context.Context, m driver.Mdev) error {
	if err := cmp.Or(ctx.Err(), m.Validate()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mdevs, m.UUID)
	return nil
}

// Mdevs lists the mediated devices that are there now, ordered by uuid.
func (d *Driver) Mdevs() []driver.Mdev {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.mdevs), func(a, b driver.Mdev) int { return cmp.Compare(a.UUID, b.UUID) })
}
