package spawn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Nova's host and its compute node, which Cyborg has, may be the short and the whole name
// of one host.
func TestAHostMayBeNamedShortOrWhole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		node, host string
		same       bool
	}{
		{"cn0.example.com", "cn0", true},
		{"cn0", "cn0.example.com", true},
		{"cn0.example.com", "cn0.example.org", false},
		{"cn0.example.com", "cn1", false},
		{"cn0", "cn", false},
		{"cn0.example.com", "cn0.", false},
	} {
		bubble(t, tt.node+" "+tt.host, func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Hosts = model.Hosts[:1]
			model.Hosts[0].Name = tt.node
			s := newSite(t, worldOpts{model: &model})
			i := s.spawn(t, "mixed")
			s.guests.rename(i, tt.host)
			i.Host = tt.host
			fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "fresh"})
			for name, run := range map[string]func() error{
				"hard reboot": func() error { return s.ops.HardReboot(t.Context(), i, nil) },
				"rebuild":     func() error { return s.ops.Rebuild(t.Context(), i, fresh) },
				"stop, start": func() error { return errors.Join(s.ops.Stop(t.Context(), i), s.ops.Start(t.Context(), i)) },
			} {
				err := run()
				switch {
				case tt.same && err != nil:
					t.Errorf("%s: %v", name, err)
				case !tt.same && (!errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), "bound to host "+tt.node+", not "+tt.host)):
					t.Errorf("%s: error %v, want ErrNotBound with both names", name, err)
				}
			}
		})
	}
}
