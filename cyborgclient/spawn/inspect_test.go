package spawn_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// A caller that only knows the source host of an evacuation inspects the instance and deletes it on its new host.
func TestInspectShowsWhereAnInstanceIs(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"gpu", ""} {
		bubble(t, "profile "+profile, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			old := s.spawn(t, profile)
			s.loseHost(t, old.Host)
			result, err := s.ops.Evacuate(t.Context(), old, spawn.MoveOpts{})
			settled(t, err)
			s.guests.down = nil
			var moved *spawn.MovedError
			if err := s.ops.Delete(t.Context(), old); !errors.As(err, &moved) || moved.Host != result.Host {
				t.Errorf("got %v, want a MovedError with host %s", err, result.Host)
			}
			now, err := s.ops.Inspect(t.Context(), spawn.Instance{UUID: old.UUID, Flavor: old.Flavor})
			settled(t, err)
			want := spawn.Instance{UUID: old.UUID, Flavor: old.Flavor, Host: result.Host, ProjectID: s.cloud.ProjectID("admin")}
			for _, arq := range result.ARQs {
				want.ARQs = append(want.ARQs, arq.UUID)
			}
			if diff := cmp.Diff(want, now); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			settled(t, s.ops.Delete(t.Context(), now))
			settled(t, s.guests.Undefine(t.Context(), old)) // as nova-compute does when its host is back
			s.cloud.CheckNoLeaks(t)
		})
	}
}

func TestInspectOfAnInstanceWithoutAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		settled(t, s.ops.ShelveOffload(t.Context(), i))
		i, err := s.ops.Inspect(t.Context(), i)
		if err != nil || i.Host != "" || len(i.ARQs) > 0 {
			t.Errorf("got %v, error %v", i, err)
		}
	})
}

// Two hosts have a guest with the UUID of the instance.
func TestInspectNamesTheHostsOfTwoGuests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		old := s.spawn(t, "")
		s.halfEvacuated(t, old)
		s.guests.down = nil
		_, err := s.ops.Inspect(t.Context(), old)
		const want = "spawn: instance " + instance + ": the instance may be on each of hosts [cn0 cn1]"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// The caller passes the source host of an evacuation, which has already removed its guest.
func TestOperationsOnAGuestThatHasMoved(t *testing.T) {
	t.Parallel()
	for op, run := range map[string]func(*spawn.Operations, context.Context, spawn.Instance) error{
		"stop": (*spawn.Operations).Stop, "soft delete": (*spawn.Operations).SoftDelete, "shelve": (*spawn.Operations).Shelve,
		"start": (*spawn.Operations).Start, "restore": (*spawn.Operations).Restore,
	} {
		for _, profile := range []string{"gpu", ""} {
			bubble(t, op+", profile "+profile, func(t *testing.T) {
				s := newSite(t, worldOpts{})
				old := s.spawn(t, profile)
				now := s.evacuated(t, old)
				s.guests.down = nil
				settled(t, s.guests.Undefine(t.Context(), old))
				s.refused(t, now, func() error { return run(s.ops, t.Context(), old) })
			})
		}
	}
}

// An instance without a host has no guest, so no hypervisor is called.
func TestADeletionOfAnInstanceOnNoHost(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		bubble(t, op, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "gpu")
			settled(t, s.ops.ShelveOffload(t.Context(), i))
			i.Host, i.ARQs, s.guests.calls = "", nil, nil
			settled(t, free(s.ops, t.Context(), i))
			if len(s.guests.calls) > 0 {
				t.Errorf("calls of the hypervisor: %v", s.guests.calls)
			}
		})
	}
}

// A guest that is not on its host may run on one that does not answer.
func TestAStopDoesNotSucceedWhileTheGuestMayRunElsewhere(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(*testing.T, *site, string){
		"the new host is silent": func(_ *testing.T, s *site, host string) { s.guests.down = map[string]bool{host: true} },
		"Cyborg and Placement are silent": func(t *testing.T, s *site, _ string) {
			s.guests.down = nil
			s.fail(t, fault.Rule{Operation: fault.ARQList, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable},
				fault.Rule{Operation: fault.AllocationsGet, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
		},
	} {
		for _, profile := range []string{"gpu", ""} {
			bubble(t, name+", profile "+profile, func(t *testing.T) {
				s := newSite(t, worldOpts{})
				old := s.spawn(t, profile)
				now := s.evacuated(t, old)
				s.guests.down = nil
				settled(t, s.guests.Undefine(t.Context(), old))
				silence(t, s, now.Host)
				if err := s.ops.Stop(t.Context(), old); err == nil {
					t.Errorf("no error, and the guest runs on host %s", now.Host)
				}
			})
		}
	}
}
