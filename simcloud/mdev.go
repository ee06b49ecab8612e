package simcloud

import (
	"cmp"
	"context"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// CreateMdev creates a mediated device on a host, as an agent of yours does where Cyborg's
// does not, and like it treats an existing device as success. The error matches [ErrHost], or
// is an error of the hardware.
func (c *Cloud) CreateMdev(ctx context.Context, host string, m driver.Mdev) error {
	on := c.machine(host)
	if on == nil {
		return c.noHost(host)
	}
	defer c.hardware.commit(on)
	return on.createMdev(ctx, m)
}

func (m *machine) createMdev(ctx context.Context, mdev driver.Mdev) error {
	if m.tree != nil {
		return driver.NewMdevParents(m.tree, map[string]string{mdev.Parent: mdev.Type}).CreateMdev(ctx, mdev)
	}
	return m.verbatim.CreateMdev(ctx, mdev)
}

// DefineMdev creates a mediated device on a host, as [Cloud.CreateMdev] does, and defines it in libvirt, which creates it again
// when the host starts, as Nova 34 does. Cyborg's agent removes the device with its request and not the definition: one that
// outlives the request is a leak. The errors are those of CreateMdev; after an error nothing is defined.
func (c *Cloud) DefineMdev(ctx context.Context, host string, m driver.Mdev) error {
	if err := c.CreateMdev(ctx, host, m); err != nil {
		return err
	}
	c.hardware.define(c.machine(host), func(list []driver.Mdev) []driver.Mdev {
		list = append(slices.DeleteFunc(list, func(other driver.Mdev) bool { return other.UUID == m.UUID }), m)
		slices.SortFunc(list, func(a, b driver.Mdev) int { return cmp.Compare(a.UUID, b.UUID) })
		return list
	})
	return nil
}

// RemoveMdev removes a mediated device from a host, and its definition. One that is missing is not an error. The error
// matches [ErrHost], or is an error of the hardware.
func (c *Cloud) RemoveMdev(ctx context.Context, host, uuid string) error {
	on := c.machine(host)
	if on == nil {
		return c.noHost(host)
	}
	is := func(m driver.Mdev) bool { return m.UUID == uuid }
	c.hardware.define(on, func(list []driver.Mdev) []driver.Mdev { return slices.DeleteFunc(list, is) })
	mdevs, err := on.mdevs()
	n := slices.IndexFunc(mdevs, is)
	if err != nil || n < 0 {
		return err
	}
	defer c.hardware.commit(on)
	if on.tree != nil {
		return driver.NewMdevParents(on.tree, nil).RemoveMdev(ctx, mdevs[n])
	}
	return on.verbatim.RemoveMdev(ctx, mdevs[n])
}

// DefinedMdevs lists the mediated devices that libvirt creates when a host starts, ordered by uuid. The error matches [ErrHost].
func (c *Cloud) DefinedMdevs(host string) ([]driver.Mdev, error) {
	on := c.machine(host)
	if on == nil {
		return nil, c.noHost(host)
	}
	return slices.Clone(c.hardware.defined(on)), nil
}

// autostart creates the defined mediated devices of a host that starts. As with libvirt, a device
// without a free instance is skipped.
func (c *Cloud) autostart(ctx context.Context, m *machine) {
	defined := c.hardware.defined(m)
	if len(defined) == 0 {
		return
	}
	for _, mdev := range defined {
		_ = m.createMdev(ctx, mdev)
	}
	c.hardware.commit(m)
}
