package verbatim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
)

// Driver reports given devices. It is safe for concurrent use.
type Driver struct {
	devices []driver.Device

	mu     sync.Mutex
	mdevs  map[string]driver.Mdev // by uuid
	images map[string][]byte      // by control path
}

var (
	_ driver.Driver     = (*Driver)(nil)
	_ driver.MdevDriver = (*Driver)(nil)
	_ driver.Programmer = (*Driver)(nil)
	_ driver.Machine    = (*Driver)(nil)
)

// New returns a driver that reports copies of the devices, which are not
// validated here.
func New(devices []driver.Device) *Driver {
	return &Driver{devices: clone(devices), mdevs: make(map[string]driver.Mdev), images: make(map[string][]byte)}
}

func clone(devices []driver.Device) []driver.Device {
	copies := make([]driver.Device, len(devices))
	for i, device := range devices {
		copies[i] = device.Clone()
	}
	return copies
}

// Name returns "verbatim".
func (d *Driver) Name() string { return "verbatim" }

// Discover reports the devices. The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	if err := ctx.Err(); err != nil {
		return driver.Report{}, err
	}
	return driver.Report{Devices: clone(d.devices)}, nil
}

// CreateMdev records a mediated device; an existing device is not an error. The error for a name
// that is not valid in sysfs matches [driver.ErrHandle].
func (d *Driver) CreateMdev(ctx context.Context, m driver.Mdev) error {
	if err := cmp.Or(ctx.Err(), m.Validate()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mdevs[m.UUID] = m
	return nil
}

// RemoveMdev forgets a mediated device; a missing device is not an error.
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

// Program records the image that was written to an FPGA. If the control path is not an FPGA's, or
// ctx has ended, the error matches [driver.ErrNotWritten].
func (d *Driver) Program(ctx context.Context, path driver.ControlPath, _ string, image []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("verbatim: program: %w: %w", driver.ErrNotWritten, err)
	}
	if !d.hasFPGA(path.Key()) {
		return fmt.Errorf("verbatim: program: %w: no FPGA is at %s", driver.ErrNotWritten, path.Key())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.images[path.Key()] = slices.Clone(image)
	return nil
}

// hasFPGA says whether an FPGA is at the control path of a key.
func (d *Driver) hasFPGA(key string) bool {
	return slices.ContainsFunc(d.devices, func(device driver.Device) bool {
		return device.Type == driver.TypeFPGA && device.ControlPath.Key() == key
	})
}

// Reboot does what a restart of the host does: it removes mediated devices.
func (d *Driver) Reboot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.mdevs)
}
