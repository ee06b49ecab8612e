package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// exists reports whether a leftover of the instance really exists.
func (s *site) exists(l spawn.Leftover) bool {
	for _, arq := range s.cloud.Cyborg.ARQs() {
		if l.Kind == spawn.LeftoverARQ && arq.UUID == l.ID || l.Kind == spawn.LeftoverARQs && arq.InstanceUUID == l.ID {
			return true
		}
	}
	switch l.Kind {
	case spawn.LeftoverAllocation:
		return len(s.held(l.ID)) > 0
	case spawn.LeftoverGuest:
		for guest := range s.guests.saved {
			if guest.instance == l.ID {
				return true
			}
		}
	}
	return false
}

// A leftover is Certain if a read after the last write showed it. The test has refused requests, lost responses and
// silent services.
func TestWhatIsCertainWasRead(t *testing.T) {
	t.Parallel()
	unknown := func(context.Context, string) (bool, error) { return false, nil }
	runs := map[string]func(s *site, ctx context.Context, i spawn.Instance) error{
		"delete":          func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Delete(ctx, i) },
		"local delete":    func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.LocalDelete(ctx, i) },
		"release":         func(s *site, ctx context.Context, i spawn.Instance) error { return s.flow.Release(ctx, i.UUID) },
		"release devices": func(s *site, ctx context.Context, i spawn.Instance) error { return s.flow.ReleaseDevices(ctx, i.UUID) },
		"reconcile": func(s *site, ctx context.Context, i spawn.Instance) error {
			found, err := s.flow.Reconcile(ctx, spawn.ReconcileOpts{Hosts: []string{i.Host}, Living: unknown, Free: true})
			if err == nil {
				return nil
			}
			failed := slices.DeleteFunc(found, func(l spawn.Leftover) bool { return l.Err == nil })
			return &spawn.Error{Instance: i.UUID, Err: err, Leftovers: failed}
		},
		"a spawn that fails": func(s *site, ctx context.Context, i spawn.Instance) error {
			_, err := s.flow.On(failsToStart(spawn.ErrAbort)).Run(ctx, secondInstanceRequest("gpu"))
			return err
		},
	}
	rules := map[string]fault.Rule{
		"refused":                    {Action: fault.Status, Status: 403, Times: -1},
		"done, the answer lost":      {Action: fault.Proxy, Status: 503, When: fault.After, Times: -1},
		"done, the answer lost once": {Action: fault.Drop, When: fault.After},
		"not answered":               {Action: fault.Drop, Times: -1},
	}
	for op, run := range runs {
		for failure, rule := range rules {
			for _, operation := range []sim.OperationName{fault.ARQDelete, fault.ARQList, fault.AllocationsGet, fault.AllocationsPut} {
				for _, again := range []bool{false, true} {
					if again && (failure == "refused" || operation == fault.AllocationsPut || op == "a spawn that fails") {
						continue // as the other, or nothing is sent
					}
					bubble(t, fmt.Sprintf("%s, %s %s, repeated: %t", op, operation, failure, again), func(t *testing.T) {
						s := newSite(t, worldOpts{})
						i := s.spawn(t, "gpu")
						if again { // nothing exists
							settled(t, s.ops.Delete(t.Context(), i))
						}
						rule := rule
						if rule.Operation = operation; op == "a spawn that fails" && operation != fault.ARQDelete {
							rule.Nth = 2 // after the claim
						}
						s.fail(t, rule)
						err := run(s, t.Context(), i)
						var failed *spawn.Error
						if err != nil && !errors.As(err, &failed) {
							t.Fatalf("%T: %v", err, err)
						}
						for _, l := range leftovers(err) {
							exists := s.exists(l)
							isRead := failure == "refused" && (operation == fault.ARQDelete || operation == fault.AllocationsPut)
							if l.Certain && !exists || isRead && exists && !l.Certain {
								t.Errorf("%v: certain %t, exists %t", l, l.Certain, exists)
							}
						}
					})
				}
			}
		}
	}
}
