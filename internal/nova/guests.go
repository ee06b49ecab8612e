package nova

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrGuest is returned for a guest that cannot be stored.
var ErrGuest = errors.New("nova: bad guest")

// DefineGuest adds a guest or replaces the one with the same UUID. A bad UUID, and a
// domain that is not XML with the root element domain, give ErrGuest.
func (s *Server) DefineGuest(g sim.Guest) error {
	g, err := checkedGuest(g)
	if err != nil {
		return err
	}
	s.state.db.Update(nil, func(tx *tables.Tx) { s.state.guests.Put(tx, g) })
	return nil
}

// checkedGuest returns the guest with its UUID in canonical form.
func checkedGuest(g sim.Guest) (sim.Guest, error) {
	if !uuids.Is(g.UUID) {
		return g, fmt.Errorf("%w: %q is not a UUID", ErrGuest, g.UUID)
	}
	g.UUID = strings.ToLower(g.UUID)
	if g.Domain != "" {
		if err := checkDomain(g.Domain); err != nil {
			return g, fmt.Errorf("%w %s: domain: %w", ErrGuest, g.UUID, err)
		}
	}
	return g, nil
}

// checkDomain reads the text to its end.
func checkDomain(text string) error {
	dec := xml.NewDecoder(strings.NewReader(text))
	root := ""
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok && root == "" {
			root = start.Name.Local
		}
	}
	if root != "domain" {
		return fmt.Errorf("its root element is %q, not domain", root)
	}
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
	s.state.db.View(func(tx *tables.Tx) { g, ok = s.state.guests.Get(tx, uuids.Canonical(id)) })
	return g, ok
}

// Guests returns all guests, sorted by UUID.
func (s *Server) Guests() (list []sim.Guest) {
	s.state.db.View(func(tx *tables.Tx) { list = slices.AppendSeq([]sim.Guest{}, s.state.guests.All(tx)) })
	return list
}
