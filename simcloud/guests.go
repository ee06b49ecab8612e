package simcloud

import (
	"github.com/gocyborg/gocyborg/sim"
)

// DefineGuest adds a guest or replaces the one of its UUID. The error is for a bad UUID
// and for a domain that is not XML or not a domain.
func (c *Cloud) DefineGuest(g sim.Guest) error { return c.compute.DefineGuest(g) }

// RemoveGuest forgets a guest; one that is not there is none already.
func (c *Cloud) RemoveGuest(uuid string) { c.compute.RemoveGuest(uuid) }

// Guests lists the guests, sorted by UUID.
func (c *Cloud) Guests() []sim.Guest { return c.compute.Guests() }

// ReceivedEvents lists the newest events that the compute endpoint was sent, in order.
func (c *Cloud) ReceivedEvents() []sim.ReceivedEvent { return c.compute.Events() }
