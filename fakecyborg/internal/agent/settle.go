package agent

import (
	"context"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// changeInPlacement makes a change of a deployable in Placement. Who stores the change settles it.
func (c *Conductor) changeInPlacement(ctx context.Context, uuid string, change layout.Change) error {
	if change.Empty() {
		return nil
	}
	if !c.cfg.Quirks {
		c.change(ctx, func(tx store.Tx) { tx.Unsettle(uuid, change.Unsettled()) })
	}
	return c.layout.Change(ctx, change)
}

// settle makes Placement show a deployable as it is stored, unless it does. Reports of the host wait meanwhile.
func (c *Conductor) settle(ctx context.Context, d store.Deployable) error {
	leave, err := c.EnterTurn(ctx, c.deviceOf(d).Host)
	if err != nil {
		return err
	}
	defer leave()
	return c.settleInTurn(ctx, d.UUID)
}

// settleInTurn is settle for who has the turn of the host.
func (c *Conductor) settleInTurn(ctx context.Context, uuid string) error {
	var d store.Deployable
	var device store.Device
	var stored driver.Deployable
	c.db.View(func(tx store.Tx) {
		d, _ = tx.Deployable(uuid)
		device, _ = tx.Device(d.Device)
		stored = tx.Reported(d)
	})
	if d.Unsettled == nil || !d.InPlacement || c.replaced(ctx) {
		return nil
	}
	err := c.layout.Change(ctx, c.rules.Compare(device, device, d, stored, stored))
	if err == nil {
		c.change(ctx, func(tx store.Tx) { tx.Unsettle(uuid, store.Unsettled{}) })
	}
	return err
}

// settleUnread settles the deployables of devices that exist and could not be read.
func (r *report) settleUnread(ctx context.Context, stored []storedDevice, seen discovery) {
	for _, device := range stored {
		if seen.gone(device) || slices.ContainsFunc(seen.devices, func(f found) bool { return f.key == device.key }) {
			continue
		}
		for _, d := range device.deployables {
			if d.Unsettled != nil {
				r.fail(device.key, "update provider "+d.Name, r.c.settleInTurn(ctx, d.UUID))
			}
		}
	}
}
