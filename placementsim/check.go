package placementsim

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// URL is the endpoint of a Placement for its [Server.Client]. Nothing listens there.
const URL = "http://placement.invalid"

// Run makes a Placement for a test. An error fails the test. Inside a bubble of
// testing/synctest it uses virtual time; it needs no network and no end.
func Run(t sim.TB, cfg Config, opts ...Option) *Server {
	t.Helper()
	s, err := New(cfg, opts...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// Client returns a client that reaches the service in process, whatever host a request names.
// Requests without X-Auth-Token are sent with the token admin.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: asAdmin{simhttp.NewTransport(s)}}
}

// asAdmin adds a token to requests.
type asAdmin struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t asAdmin) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Auth-Token") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Auth-Token", "admin")
	}
	return t.next.RoundTrip(r)
}

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
