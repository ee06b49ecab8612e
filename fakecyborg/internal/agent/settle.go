package agent

import (
	"context"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// partOf is a deployable as it is to be in Placement.
func partOf(device store.Device, d store.Deployable, spec driver.Deployable) layout.Part {
	return layout.Part{Device: device, Deployable: d, Spec: spec}
}

// settle makes Placement show a deployable as it is stored. Reports of the host wait.
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
	if c.cfg.Quirks || c.replaced(ctx) {
		return nil
	}
	var part layout.Part
	c.db.View(func(tx store.Tx) {
		d, _ := tx.Deployable(uuid)
		device, _ := tx.Device(d.Device)
		part = partOf(device, d, tx.Reported(d))
	})
	if !part.Deployable.InPlacement {
		return nil
	}
	_, err := c.mirror.Put(ctx, part)
	return err
}
