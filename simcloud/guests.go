package simcloud

import (
	"time"

	"github.com/gocyborg/gocyborg/internal/nova"
)

// Guest is an instance as the host sees it. Whoever plays Nova defines and removes the
// guests; the leak check judges by them.
type Guest struct {
	// UUID is the instance's.
	UUID string `json:"uuid"`
	// Host is where it runs; empty while it is not scheduled.
	Host string `json:"host"`
	// Domain is its libvirt XML; empty while it has none.
	Domain string `json:"domain"`
}

// DefineGuest adds a guest or replaces the one of its UUID. The error is for a bad UUID
// and for a domain that is not XML or not a domain.
func (c *Cloud) DefineGuest(g Guest) error { return c.compute.DefineGuest(nova.Guest(g)) }

// RemoveGuest forgets a guest; one that is not there is none already.
func (c *Cloud) RemoveGuest(uuid string) { c.compute.RemoveGuest(uuid) }

// Guests lists the guests, sorted by UUID.
func (c *Cloud) Guests() []Guest {
	list := []Guest{}
	for _, g := range c.compute.Guests() {
		list = append(list, Guest(g))
	}
	return list
}

// ReceivedEvent is an event that the compute endpoint was sent.
type ReceivedEvent struct {
	Name       string  `json:"name"`
	ServerUUID string  `json:"server_uuid"`
	Tag        *string `json:"tag"` // nil: sent without one
	Status     string  `json:"status"`
	// Code is what the sender was told: 200, 400, 404 or 422.
	Code int       `json:"code"`
	At   time.Time `json:"at"`
	// Forwarded are the places that it was passed on to, Problems what went wrong
	// where it could not be.
	Forwarded []string `json:"forwarded,omitempty"`
	Problems  []string `json:"problems,omitempty"`
}

// ReceivedEvents lists the newest events that the compute endpoint was sent, in order.
func (c *Cloud) ReceivedEvents() []ReceivedEvent {
	list := []ReceivedEvent{}
	for _, e := range c.compute.Events() {
		list = append(list, ReceivedEvent{
			Name: e.Name, ServerUUID: e.ServerUUID, Tag: e.Tag, Status: e.Status,
			Code: e.Code, At: e.At, Forwarded: e.Forwarded, Problems: e.Problems,
		})
	}
	return list
}
