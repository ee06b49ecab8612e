package placementsim

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// CheckUsage fails the test, showing all providers, unless exactly want of the
// class is allocated on the provider, named by uuid.
func (s *Server) CheckUsage(t sim.TB, provider, class string, want int) {
	t.Helper()
	p, err := s.ResourceProvider(provider)
	if err != nil {
		t.Errorf("placement: usage of %s on %s: no such provider, want %d; the providers are:\n%s", class, provider, want, s.describe())
		return
	}
	if got := s.Usage(provider, class); got != want {
		t.Errorf("placement: usage of %s on %s (%s): got %d, want %d; the providers are:\n%s", class, p.Name, provider, got, want, s.describe())
	}
}

// CheckNoAllocations fails the test, showing them and all providers, if the
// consumer has allocations.
func (s *Server) CheckNoAllocations(t sim.TB, consumer string) {
	t.Helper()
	var held []string
	for _, a := range s.Allocations() {
		if a.Consumer == consumer {
			held = append(held, fmt.Sprintf("  %d of %s on %s\n", a.Used, a.Class, a.Provider))
		}
	}
	if held != nil {
		t.Errorf("placement: consumer %s has allocations:\n%sthe providers are:\n%s", consumer, strings.Join(held, ""), s.describe())
	}
}
