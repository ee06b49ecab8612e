package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

// A guest that cannot be started with another domain gets its old domain back, so that the next start uses it.
func TestAGuestThatDoesNotStartGetsItsOldDomainBack(t *testing.T) {
	t.Parallel()
	other := domainxml.NewDomain(domainxml.DomainOpts{Name: "other"})
	for name, tt := range map[string]struct {
		spawn     func(t *testing.T, s *site) spawn.Instance // nil: with a GPU
		stopped   bool                                       // before
		operation func(ctx context.Context, s *site, i spawn.Instance) error
		runs      bool // after
	}{
		"hard reboot": {operation: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, other) }},
		"rescue": {operation: func(ctx context.Context, s *site, i spawn.Instance) error {
			_, err := s.ops.Rescue(ctx, i, other)
			return err
		}},
		"unrescue":    {operation: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Unrescue(ctx, i, other) }},
		"rebuild":     {runs: true, operation: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Rebuild(ctx, i, other) }},
		"rebuild off": {stopped: true, operation: func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Rebuild(ctx, i, other) }},
		"take over": {
			spawn: novaVGPU, runs: true,
			operation: func(ctx context.Context, s *site, i spawn.Instance) error { return takeOver(ctx, s, &i) },
		},
	} {
		for _, call := range []string{"start", "define"} {
			for _, fails := range []struct {
				times int // the second one is of the restored guest
				after bool
			}{{1, false}, {1, true}, {2, false}, {2, true}} {
				if tt.stopped && call == "start" {
					continue // it is not started
				}
				bubble(t, fmt.Sprintf("%s, %s, %+v", name, call, fails), func(t *testing.T) {
					s := newSite(t, worldOpts{model: novaVGPUModel()})
					launch := tt.spawn
					if launch == nil {
						launch = func(t *testing.T, s *site) spawn.Instance { return s.spawn(t, "gpu") }
					}
					i := launch(t, s)
					if tt.stopped {
						settled(t, s.ops.Stop(t.Context(), i))
					}
					old := s.guests.saved[placeOf(i)]
					s.guests.fail[call], s.guests.after = fails.times, fails.after
					if err := tt.operation(t.Context(), s, i); !errors.Is(err, errHypervisor) || errors.Is(err, spawn.ErrLeftover) {
						t.Fatalf("got error %v, want only the hypervisor's error", err)
					}
					checkDiff(t, "saved domain (-before +after)", old, s.guests.saved[placeOf(i)])
					s.running(t, i, tt.runs)
					s.sound(t)
				})
			}
		}
	}
}

// A guest may run although its start failed. It is destroyed until it is off.
func TestARestoredGuestIsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		old := s.guests.saved[placeOf(i)]
		s.guests.fail["start"], s.guests.after = 1, true
		s.guests.hook = func(call int) {
			if calls := s.guests.calls; calls[call-1] == "destroy" && slices.Contains(calls, "start") {
				s.guests.fail["destroy"], s.guests.after, s.guests.hook = 1, false, nil
			}
		}
		err := s.ops.HardReboot(t.Context(), i, domainxml.NewDomain(domainxml.DomainOpts{Name: "other"}))
		if !errors.Is(err, errHypervisor) || errors.Is(err, spawn.ErrLeftover) || s.guests.hook != nil {
			t.Errorf("got error %v, want only the hypervisor's error", err)
		}
		checkDiff(t, "saved domain (-before +after)", old, s.guests.saved[placeOf(i)])
		s.running(t, i, false)
		s.sound(t)
	})
}
