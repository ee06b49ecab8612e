package nova

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/sim"
)

// ErrGuest is returned for a guest that cannot be kept.
var ErrGuest = errors.New("nova: bad guest")

// DefineGuest adds a guest or replaces the one of the same UUID. A bad UUID, and a
// domain that is not XML with the root element domain, give ErrGuest.
func (s *Server) DefineGuest(g sim.Guest) error {
	g, err := checkedGuest(g)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guests[g.UUID] = g
	return nil
}

// checkedGuest returns the guest with its UUID in canonical form.
func checkedGuest(g sim.Guest) (sim.Guest, error) {
	id, err := uuid.Parse(g.UUID)
	if err != nil || len(g.UUID) != len(id.String()) {
		return g, fmt.Errorf("%w: %q is not a UUID", ErrGuest, g.UUID)
	}
	g.UUID = id.String()
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

// RemoveGuest forgets a guest and reports whether there was one.
func (s *Server) RemoveGuest(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.guests[CanonicalUUID(id)]
	delete(s.guests, CanonicalUUID(id))
	return found
}

// Guest returns the guest of a UUID.
func (s *Server) Guest(id string) (sim.Guest, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g, ok := s.guests[CanonicalUUID(id)]
	return g, ok
}

// Guests returns all guests, sorted by UUID.
func (s *Server) Guests() []sim.Guest {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sortedGuests()
}

// sortedGuests expects the lock held.
func (s *Server) sortedGuests() []sim.Guest {
	list := make([]sim.Guest, 0, len(s.guests))
	for _, g := range s.guests {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b sim.Guest) int { return cmp.Compare(a.UUID, b.UUID) })
	return list
}

// CanonicalUUID is the form that guests are kept under: lower case, with hyphens. What is
// no UUID stays as it is and is found nowhere.
func CanonicalUUID(id string) string {
	if parsed, err := uuid.Parse(id); err == nil {
		return parsed.String()
	}
	return id
}
