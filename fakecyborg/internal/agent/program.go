package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// errUnwritten is the reason why upstream keeps a request BindStarted: the image is on the card, but the trait of its
// function cannot be created.
var errUnwritten = errors.New("the function's trait was refused")

// Program writes an image to a region. A region in use is refused, unless RuntimeProgramming is on and the project
// uses it; upstream does not check. Denied is the error for a caller who may not program regions of other projects,
// or nil.
func (c *Conductor) Program(ctx context.Context, d store.Deployable, id, project string, denied error) error {
	ctx = c.forState(ctx)
	image := store.Image{ID: id}
	if !c.cfg.Quirks {
		var err error
		if image, err = c.DescribeImage(ctx, id); err != nil {
			return c.programFailed(d, id, err)
		}
	}
	ctx, end := c.work.Detach(ctx)
	defer end()
	var l store.Lease
	var err error
	c.change(ctx, func(tx store.Tx) {
		// the project may have lost the region since the caller was authorized
		switch {
		case c.cfg.RuntimeProgramming && tx.OwnedBy(d.UUID, project):
			l, err = tx.ClaimForOwner(d, image)
		case denied != nil:
			err = denied
		default:
			l, err = tx.ClaimUnused(d, image)
		}
	})
	if err != nil {
		return err
	}
	if c.cfg.Quirks {
		return c.program(ctx, d, image.ID, newWriting()) // and does not store it
	}
	return c.write(ctx, l, image, true)
}

// programForBind writes the image of a bind to the region of its handle, unless the region has it.
func (c *Conductor) programForBind(ctx context.Context, b store.Bind) error {
	image, err := c.findImage(ctx, b.Bitstream)
	if err != nil {
		return store.Refuse(store.Internal, "ARQ %s: %v", b.ARQ, err)
	}
	var l store.Lease
	var needed bool
	c.change(ctx, func(tx store.Tx) { l, needed, err = tx.ClaimForBind(b, image) })
	if err != nil || !needed {
		return err
	}
	return c.write(ctx, l, image, !c.cfg.Quirks || b.Bitstream.IsFunction())
}

// write writes an image to a claimed region, and with its function the trait in the store and in
// Placement. If it fails after it has begun to write, the region has no function, in both.
func (c *Conductor) write(ctx context.Context, l store.Lease, image store.Image, withFunction bool) error {
	w := newWriting()
	d, err := store.Find(c.db, func(tx store.Tx) (store.Deployable, error) { return tx.Deployable(l.Deployable) })
	if err == nil {
		err = c.program(ctx, d, image.ID, w)
	}
	begun, goesOn := w.begun.Load(), w.goesOn()
	if err == nil && withFunction {
		err = c.publishFunction(ctx, d, image)
	}
	lost := false
	c.update(ctx, func(tx store.Tx) {
		lost = tx.Lost(l)
		switch {
		case err == nil && !lost:
			tx.EndProgramming(l, c.now())
		case begun:
			tx.Spoil(l, c.now())
		}
		if !goesOn {
			tx.Unclaim(l)
		}
	})
	if goesOn {
		c.unclaimAfter(ctx, l, w.ended)
	}
	if err == nil && lost {
		err = c.programFailed(d, image.ID, errors.New("the host was restarted during the write"))
	}
	if err != nil && begun {
		_ = c.settle(ctx, d) // or the next report does
	}
	return err
}

// writing is a call of a driver's Program, which may continue after its caller has given up.
type writing struct {
	begun atomic.Bool
	ended chan struct{} // closed when the driver has returned
}

func newWriting() *writing { return &writing{ended: make(chan struct{})} }

// goesOn reports whether the driver has not returned yet.
func (w *writing) goesOn() bool {
	select {
	case <-w.ended:
		return false
	default:
		return w.begun.Load()
	}
}

// unclaimAfter ends the lease of a region when its driver has returned. Until then no request gets the region.
func (c *Conductor) unclaimAfter(ctx context.Context, l store.Lease, ended <-chan struct{}) {
	c.work.Start(func(closing context.Context) {
		select {
		case <-ended:
			c.change(ctx, func(tx store.Tx) { tx.Unclaim(l) })
		case <-closing.Done():
		}
	})
}

// publishFunction sets the function's trait in the store and in Placement. Reports of the host wait until it returns.
func (c *Conductor) publishFunction(ctx context.Context, d store.Deployable, image store.Image) error {
	host := c.deviceOf(d).Host
	leave, err := c.enterTurn(ctx, host)
	if err != nil {
		return c.programFailed(d, image.ID, err)
	}
	defer leave()
	if c.replaced(ctx) {
		return c.programFailed(d, image.ID, errReplaced)
	}
	device := c.deviceOf(d)
	shown := c.readBack(ctx, device, d.Name)
	var spec driver.Deployable
	var region store.Region
	c.db.View(func(tx store.Tx) {
		row, gone := tx.Deployable(d.UUID)
		if gone != nil {
			err = errors.New("the deployable vanished during the write")
			return
		}
		d = row
		spec, region, err = tx.PlanFunction(row, image, shown)
	})
	if err != nil {
		return c.programFailed(d, image.ID, err)
	}
	if err := c.changeFunction(ctx, device, d, spec); err != nil {
		if c.cfg.Quirks {
			err = errors.Join(errUnwritten, err)
		}
		return err
	}
	c.update(ctx, func(tx store.Tx) { tx.SetFunction(d.UUID, spec, region, shown, c.now()) })
	return nil
}

// readBack returns what the driver reports for a region after a write, or nil for nothing. While a guest has the
// card, a report does not show whether the driver reads the function from the card. Upstream's drivers read nothing.
func (c *Conductor) readBack(ctx context.Context, device store.Device, name string) *driver.Deployable {
	h, d, err := c.driverOf(device.Host, device.Driver)
	if err != nil || c.cfg.Quirks {
		return nil
	}
	for _, found := range h.guard.DiscoverAll(ctx, []driver.Driver{d})[0].Devices {
		for _, deployable := range found.Deployables {
			if deployable.Name == name && !deployable.Hidden {
				return &deployable
			}
		}
	}
	return nil
}

func (c *Conductor) deviceOf(d store.Deployable) store.Device {
	device, _ := store.Find(c.db, func(tx store.Tx) (store.Device, error) { return tx.Device(d.Device) })
	return device
}

// changeFunction changes the provider's traits.
func (c *Conductor) changeFunction(ctx context.Context, device store.Device, d store.Deployable, spec driver.Deployable) error {
	if c.cfg.Placement == nil {
		return nil
	}
	_, err := c.cfg.Placement.Parent(ctx, device.Host) // upstream asks
	if err == nil {
		_, err = c.mirror.Put(ctx, partOf(device, d, spec))
	}
	if err != nil {
		return store.Refuse(store.Internal, "FPGA programming: deployable %s: tell Placement the function: %v", d.Name, err)
	}
	return nil
}

func (c *Conductor) programFailed(d store.Deployable, image string, err error) error {
	kind := store.Internal
	var refused *store.Refusal
	if errors.As(err, &refused) {
		kind = refused.Kind
	}
	device := c.deviceOf(d)
	return store.Refuse(kind, "FPGA programming failed: host %s, device %s, image %s: %v", device.Host, device.ControlPath.Key(), image, err)
}

// program reads the image and has the driver write it to the region. Upstream looks its Xilinx driver up by a name that it does
// not have.
func (c *Conductor) program(ctx context.Context, d store.Deployable, image string, w *writing) error {
	device := c.deviceOf(d)
	if c.cfg.Quirks && d.DriverName == "XILINX" {
		return c.programFailed(d, image, errors.New("no driver has the name XILINX"))
	}
	err := c.callAgent(ctx, device.Host, device.Driver, fault.DeployableWrite, d.Name, programLimit, func(ctx context.Context, found driver.Driver) error {
		programmer, ok := found.(driver.Programmer)
		if !ok {
			return fmt.Errorf("driver %s cannot program devices", found.Name())
		}
		data, err := c.readImage(ctx, image)
		if err != nil {
			return err
		}
		defer close(w.ended)
		w.begun.Store(true)
		err = programmer.Program(ctx, device.ControlPath.Reported(), d.Name, data)
		switch {
		case err == nil:
			simhttp.ChangeLogOf(ctx).Add(sim.Change{Action: sim.Changed, Kind: "region", ID: d.Name, What: "image " + image + " written"})
		case errors.Is(err, driver.ErrNotWritten):
			w.begun.Store(false)
		}
		return err
	})
	if err != nil {
		return c.programFailed(d, image, err)
	}
	return nil
}

// SetStatus enables or disables a device, in Placement first. The effects of a failed change in Placement are undone,
// at once or by the next report. Upstream stores the status first, uses the deployable whose number equals the
// device's, and loses max_unit.
func (c *Conductor) SetStatus(ctx context.Context, uuid, status string) error {
	find := func() (store.Device, error) {
		return store.Find(c.db, func(tx store.Tx) (store.Device, error) { return tx.Device(uuid) })
	}
	d, err := find()
	if err != nil {
		return err
	}
	leave, err := c.enterTurn(ctx, d.Host) // a report would otherwise meet half of the change
	if err != nil {
		return err
	}
	defer leave()
	if d, err = find(); err != nil { // it may have changed before this turn
		return err
	}
	ctx, end := c.work.Detach(ctx)
	defer end()
	if c.cfg.Quirks && c.cfg.Layout != store.LayoutFlat { // upstream has no flat hosts, which that would wipe
		return c.setStatusAsUpstream(ctx, d, status)
	}
	for _, either := range []string{store.StatusEnabled, store.StatusMaintaining} { // an earlier Cyborg may have disabled it
		c.mirror.Doubt(ctx, c.partsOf(d, either)...)
	}
	if _, err := c.mirror.Put(ctx, c.partsOf(d, status)...); err != nil {
		_, _ = c.mirror.Put(ctx, c.partsOf(d, d.Status)...) // or the next report does
		return store.Refuse(store.Internal, "Device %s: set status %s: %v", uuid, status, err)
	}
	c.update(ctx, func(tx store.Tx) { tx.SetDeviceStatus(uuid, status, c.now()) })
	return nil
}

// partsOf are the deployables of a device with a status.
func (c *Conductor) partsOf(d store.Device, status string) (parts []layout.Part) {
	d.Status = status
	c.db.View(func(tx store.Tx) {
		for _, deployable := range tx.DeviceDeployables(d.UUID) {
			parts = append(parts, partOf(d, deployable, tx.Reported(deployable)))
		}
	})
	return parts
}

// setStatusAsUpstream imitates three defects: the status is stored before Placement accepts it, the
// deployable is the one with the device's number, whatever device it is of, and its inventory loses
// max_unit.
func (c *Conductor) setStatusAsUpstream(ctx context.Context, d store.Device, status string) error {
	var spec driver.Deployable
	var provider string
	found := false
	c.update(ctx, func(tx store.Tx) {
		tx.SetDeviceStatus(d.UUID, status, c.now())
		var deployable store.Deployable
		if deployable, found = tx.DeployableByID(d.ID); found {
			spec, provider = tx.Reported(deployable), deployable.Provider
		}
	})
	switch {
	case !found:
		return store.Refuse(store.Internal, "list index out of range")
	case spec.Class == "": // a user deleted the attribute, and the name of upstream's error is wrong
		return store.Refuse(store.Internal, "module 'cyborg.accelerator.common.exception' has no attribute 'ResourceNotFound'")
	case c.cfg.Placement == nil:
		return nil
	}
	inventory := store.Inventory{Class: spec.Class, Total: spec.NumAccelerators}
	if status == store.StatusMaintaining {
		inventory.Reserved = inventory.Total
	}
	if err := c.cfg.Placement.OverwriteInventory(ctx, provider, inventory); err != nil {
		return store.Refuse(store.Internal, "%v", err)
	}
	return nil
}

// partOf is a deployable as it is to be in Placement.
func partOf(device store.Device, d store.Deployable, spec driver.Deployable) layout.Part {
	return layout.Part{Device: device, Deployable: d, Spec: spec}
}

// settle makes Placement show a deployable as it is stored. Reports of the host wait.
func (c *Conductor) settle(ctx context.Context, d store.Deployable) error {
	leave, err := c.enterTurn(ctx, c.deviceOf(d).Host)
	if err != nil {
		return err
	}
	defer leave()
	if c.replaced(ctx) {
		return nil
	}
	var part layout.Part
	c.db.View(func(tx store.Tx) {
		d, _ := tx.Deployable(d.UUID)
		device, _ := tx.Device(d.Device)
		part = partOf(device, d, tx.Reported(d))
	})
	if !part.Deployable.InPlacement() {
		return nil
	}
	_, err = c.mirror.Put(ctx, part)
	return err
}
