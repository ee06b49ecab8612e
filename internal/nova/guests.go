package nova

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrGuest is returned for a guest that cannot be stored.
var ErrGuest = errors.New("nova: bad guest")

// Guest is a guest with the devices that its domain passes through. It is immutable.
type Guest struct {
	sim.Guest
	Devices []Device
}

// guestRow is a guest by its UUID.
type guestRow struct {
	UUID   string `json:"uuid"`
	Host   string `json:"host"`
	Domain domain `json:"domain"`
}

func (g guestRow) guest() sim.Guest {
	return sim.Guest{UUID: g.UUID, Host: g.Host, Domain: g.Domain.text}
}

func (g guestRow) check() error {
	if !uuids.Is(g.UUID) || g.UUID != uuids.Canonical(g.UUID) {
		return fmt.Errorf("%w: the UUID %q is not in canonical form", ErrGuest, g.UUID)
	}
	return nil
}

// DefineGuest adds a guest or replaces the one with the same UUID. A bad UUID, and a
// domain that is not XML with the root element domain or has a device of the host twice, which
// libvirt refuses, give ErrGuest.
func (s *Server) DefineGuest(g sim.Guest) error {
	if !uuids.Is(g.UUID) {
		return fmt.Errorf("%w: %q is not a UUID", ErrGuest, g.UUID)
	}
	g.UUID = uuids.Canonical(g.UUID)
	d, err := readDomain(g.Domain)
	if err != nil {
		return fmt.Errorf("%w %s: domain: %w", ErrGuest, g.UUID, err)
	}
	if len(d.twice) > 0 {
		return fmt.Errorf("%w %s: domain: it has the device %s twice", ErrGuest, g.UUID, d.twice[0])
	}
	s.state.db.Update(nil, func(tx *tables.Tx) { s.state.guests.Put(tx, guestRow{g.UUID, g.Host, d}) })
	return nil
}

// RemoveGuest removes a guest and reports whether there was one.
func (s *Server) RemoveGuest(id string) (found bool) {
	id = uuids.Canonical(id)
	s.state.db.Update(nil, func(tx *tables.Tx) {
		_, found = s.state.guests.Get(tx, id)
		s.state.guests.Delete(tx, id)
	})
	return found
}

// Guest returns the guest with a UUID.
func (s *Server) Guest(id string) (g sim.Guest, ok bool) {
	s.state.db.View(func(tx *tables.Tx) {
		var row guestRow
		row, ok = s.state.guests.Get(tx, uuids.Canonical(id))
		g = row.guest()
	})
	return g, ok
}

// Guests returns all guests, sorted by UUID.
func (s *Server) Guests() []Guest {
	var list []Guest
	s.state.db.View(func(tx *tables.Tx) {
		list = make([]Guest, 0, s.state.guests.Len(tx))
		for row := range s.state.guests.All(tx) {
			list = append(list, Guest{row.guest(), row.Domain.devices})
		}
	})
	return list
}

// EachGuest calls yield with the guests, sorted by UUID, until it returns false.
func (s *Server) EachGuest(yield func(sim.Guest) bool) {
	s.state.db.View(func(tx *tables.Tx) {
		s.state.guests.All(tx)(func(row guestRow) bool { return yield(row.guest()) })
	})
}

// CountGuests is the number of guests.
func (s *Server) CountGuests() (n int) {
	s.state.db.View(func(tx *tables.Tx) { n = s.state.guests.Len(tx) })
	return n
}

// GuestsOn lists the UUIDs of the guests of a host, sorted.
func (s *Server) GuestsOn(host string) (guests []string) {
	s.state.db.View(func(tx *tables.Tx) {
		for row := range s.state.guestsByHost.All(tx, host) {
			guests = append(guests, row.UUID)
		}
	})
	return guests
}

// Has reports whether a guest of a host has a device.
func (s *Server) Has(host string, device Device) (has bool) {
	s.state.db.View(func(tx *tables.Tx) {
		for row := range s.state.guestsByHost.All(tx, host) {
			has = has || slices.Contains(row.Domain.devices, device)
		}
	})
	return has
}
