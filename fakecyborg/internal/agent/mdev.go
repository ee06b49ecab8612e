package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// deviceOf names the device of a handle that needs its agent.
func deviceOf(w store.HandleWork) string {
	if w.Handle.Type == driver.HandleMDEV {
		return "mediated device"
	}
	return "vGPU"
}

// createDevice creates the device of a handle on its host: a mediated device, whose UUID is the handle's, or the vGPU
// of a virtual function. Foreign is set if the function already has a vGPU that Cyborg did not create.
func (c *Conductor) createDevice(ctx context.Context, w store.HandleWork) (foreign bool, err error) {
	if w.Handle.Type == driver.HandleMDEV {
		return false, c.changeMdev(ctx, fault.MdevCreate, w, driver.MdevDriver.CreateMdev)
	}
	var exists atomic.Bool // also of a driver that is not waited for any longer
	err = c.changeVGPU(ctx, fault.VGPUSet, w, func(ctx context.Context, d driver.VGPUDriver, v driver.VGPU) error {
		err := d.SetVGPU(ctx, v, w.Again)
		exists.Store(errors.Is(err, fs.ErrExist))
		return err
	})
	return exists.Load(), err
}

// removeDevice removes the device of a handle. A missing device is not an error.
func (c *Conductor) removeDevice(ctx context.Context, w store.HandleWork) error {
	if w.Handle.Type == driver.HandleMDEV {
		return c.changeMdev(ctx, fault.MdevRemove, w, driver.MdevDriver.RemoveMdev)
	}
	return c.changeVGPU(ctx, fault.VGPUClear, w, func(ctx context.Context, d driver.VGPUDriver, v driver.VGPU) error {
		return d.ClearVGPU(ctx, v)
	})
}

func (c *Conductor) changeMdev(ctx context.Context, operation sim.OperationName, w store.HandleWork,
	change func(driver.MdevDriver, context.Context, driver.Mdev) error,
) error {
	m, err := w.Handle.Mdev(w.UUID)
	if err == nil {
		err = c.callAgent(ctx, w.Host, w.Driver, operation, w.UUID, mdevLimit, func(ctx context.Context, d driver.Driver) error {
			agent, ok := d.(driver.MdevDriver)
			if !ok {
				return fmt.Errorf("driver %s does not create mediated devices", d.Name())
			}
			return logMdev(ctx, d, m, operation == fault.MdevCreate, func() error { return change(agent, ctx, m) })
		})
	}
	if err != nil {
		return store.Refuse(store.Internal, "%s: host %s, mediated device %s: %v", operation, w.Host, w.UUID, err)
	}
	return nil
}

// logMdev calls do and logs whether the mediated device was created or removed, as its host shows
// it, or else by the error.
func logMdev(ctx context.Context, d driver.Driver, m driver.Mdev, create bool, do func() error) error {
	log := simhttp.ChangeLogOf(ctx)
	if log == nil {
		return do()
	}
	before, known := mdevExists(d, m)
	err := do()
	after, _ := mdevExists(d, m)
	if !known {
		before, after = !create, create == (err == nil)
	}
	if after != before {
		change := sim.Change{Kind: "mediated_device", ID: m.UUID, What: m.Type + " on " + m.Parent, Action: sim.Deleted}
		if after {
			change.Action = sim.Created
		}
		log.Add(change)
	}
	return err
}

// mdevExists reports whether a mediated device is on its host, if that can be known.
func mdevExists(d driver.Driver, m driver.Mdev) (exists, known bool) {
	switch d := d.(type) {
	case driver.Machine:
		return slices.ContainsFunc(d.Mdevs(), func(other driver.Mdev) bool { return other.UUID == m.UUID }), true
	case driver.TreeDriver:
		_, err := d.Tree().Readlink(m.Dir())
		return err == nil, true
	}
	return false, false
}
