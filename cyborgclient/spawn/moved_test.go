package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// deletions are the operations that free what an instance holds.
func deletions() map[string]func(*spawn.Operations, context.Context, spawn.Instance) error {
	return map[string]func(*spawn.Operations, context.Context, spawn.Instance) error{
		"delete": (*spawn.Operations).Delete, "shelve offload": (*spawn.Operations).ShelveOffload, "local delete": (*spawn.Operations).LocalDelete,
	}
}

// silence makes Cyborg's list of ARQs fail.
func (s *site) silence(t *testing.T) {
	t.Helper()
	s.fail(t, fault.Rule{Operation: fault.ARQList, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
}

// refused checks that a deletion is refused with an error that names a host, and that the guest there keeps its
// resources.
func (s *site) refused(t *testing.T, there spawn.Instance, run func() error) {
	t.Helper()
	before := s.held(there.UUID)
	if err := run(); !errors.Is(err, spawn.ErrMoved) || !strings.Contains(err.Error(), "host "+there.Host) {
		t.Errorf("got %v, want a refusal that names host %s", err, there.Host)
	}
	settled(t, s.cloud.Faults().Set())
	s.running(t, there, true)
	if diff := cmp.Diff(before, s.held(there.UUID)); diff != "" {
		t.Errorf("the allocation of the guest on host %s (-before +after):\n%s", there.Host, diff)
	}
}

// evacuated evacuates an instance for a caller that does not learn the outcome.
func (s *site) evacuated(t *testing.T, i spawn.Instance) spawn.Instance {
	t.Helper()
	s.loseHost(t, i.Host)
	result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
	settled(t, err)
	i.Host = result.Host
	return i
}

// The old host may have a short name, which is unknown to Placement.
func TestADeletionWithAnyNameOfTheOldHostLeavesTheAllocationWhileCyborgIsDown(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		for _, name := range []string{"cn.example.org", "cn"} {
			bubble(t, op+" with "+name, func(t *testing.T) {
				model := simcloud.ScaleModel(2, 2)
				model.Hosts[0].Name, model.Hosts[1].Name = "cn.example.org", "other.example.org"
				s := newSite(t, worldOpts{model: &model})
				i := s.launchOn(t, "cn.example.org", request("gpu"))
				there := s.evacuated(t, i)
				s.guests.down = nil
				s.silence(t)
				i.Host = name
				s.refused(t, there, func() error { return free(s.ops, t.Context(), i) })
			})
		}
	}
}

// For an instance without accelerators only Placement shows the move, with or without Cyborg.
func TestADeletionWithTheOldHostLeavesAGuestWithoutAccelerators(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		for _, silent := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, Cyborg silent: %t", op, silent), func(t *testing.T) {
				s := newSite(t, worldOpts{})
				i := s.spawn(t, "")
				there := s.evacuated(t, i)
				s.guests.down = nil
				if silent {
					s.silence(t)
				}
				s.refused(t, there, func() error { return free(s.ops, t.Context(), i) })
				settled(t, s.ops.Delete(t.Context(), there))
			})
		}
	}
}

// For a flavor without compute resources the host is known from the providers of the devices, not from the providers
// of shared disks.
func TestADeletionWithTheOldHostLeavesAGuestWithoutComputeResources(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		for _, disk := range []string{"0", "20"} {
			for _, shelved := range []bool{false, true} {
				bubble(t, fmt.Sprintf("%s, disk of %s GB, unshelved: %t", op, disk, shelved), func(t *testing.T) {
					s := newSite(t, worldOpts{})
					s.shareDisks(t)
					req := spawn.Request{Instance: instance, Flavor: withoutCompute("gpu")}
					req.Flavor.ExtraSpecs["resources:DISK_GB"] = disk
					i := s.launchOn(t, "cn0", req)
					there := s.evacuated(t, i)
					s.guests.down = nil
					s.silence(t)
					if shelved {
						i.Host, i.ARQs = "", nil
					}
					s.refused(t, there, func() error { return free(s.ops, t.Context(), i) })
					s.silence(t)
					if err := s.ops.Delete(t.Context(), there); !errors.Is(err, spawn.ErrLeftover) || len(s.held(instance)) > 0 {
						t.Errorf("got %v, held %v, want only the ARQs left", err, s.held(instance))
					}
				})
			}
		}
	}
}

// One failed response of Placement does not hide the move.
func TestADeletionAsksPlacementAgainWhetherTheInstanceWasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "")
		there := s.evacuated(t, i)
		s.fail(t, fault.Rule{Operation: fault.AllocationsGet, Action: fault.Status, Status: http.StatusServiceUnavailable})
		s.refused(t, there, func() error { return s.ops.LocalDelete(t.Context(), i) })
	})
}

// The caller does not know that an Unshelve has succeeded, and passes the instance without a host.
func TestADeletionWithoutAHostLeavesTheGuestOfAnUnshelve(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		for _, tt := range []struct {
			profile string
			silent  bool // Cyborg
		}{{"gpu", true}, {"", false}, {"", true}} {
			bubble(t, fmt.Sprintf("%s, profile %q, Cyborg silent: %t", op, tt.profile, tt.silent), func(t *testing.T) {
				s := newSite(t, worldOpts{})
				i := s.spawn(t, tt.profile)
				settled(t, s.ops.ShelveOffload(t.Context(), i))
				i.Host, i.ARQs = "", nil
				result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
				settled(t, err)
				there := i
				there.Host = result.Host
				if tt.silent {
					s.silence(t)
				}
				s.refused(t, there, func() error { return free(s.ops, t.Context(), i) })
			})
		}
	}
}

// A host that does not answer may have the guest. If it answers that it does not, as after an interrupted Unshelve,
// the instance is deleted.
func TestADeletionWithoutAHostAsksTheHostOfTheAllocation(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		for _, profile := range []string{"", "gpu"} {
			bubble(t, fmt.Sprintf("%s, profile %q", op, profile), func(t *testing.T) {
				s := newSite(t, worldOpts{})
				i := s.spawn(t, profile)
				there := i
				i.Host = ""
				s.guests.down[there.Host] = true
				before := s.usage(t, i)
				if err := free(s.ops, t.Context(), i); err == nil || errors.Is(err, spawn.ErrLeftover) || !strings.Contains(err.Error(), "host "+there.Host) {
					t.Errorf("got %v, want an error that names host %s", err, there.Host)
				}
				checkDiff(t, "usage (-before +after)", before, s.usage(t, i))
				s.guests.down = nil
				settled(t, s.guests.Destroy(t.Context(), there))
				settled(t, s.guests.Undefine(t.Context(), there))
				settled(t, free(s.ops, t.Context(), i))
				s.sound(t)
			})
		}
	}
}

// full makes Placement refuse every write of an allocation.
func (s *site) full(t *testing.T) {
	t.Helper()
	s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: http.StatusServiceUnavailable, Times: -1})
}

// halfEvacuated evacuates an instance such that its allocation on the old host could not be deleted.
func (s *site) halfEvacuated(t *testing.T, i spawn.Instance) spawn.Instance {
	t.Helper()
	s.loseHost(t, i.Host)
	s.guests.onCall("start", func() { s.full(t) })
	result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
	wantKinds(t, certainlyLeft(err), spawn.LeftoverAllocation)
	s.guests.hook = nil
	settled(t, s.cloud.Faults().Set())
	i.Host, i.ARQs = result.Host, uuidsOf(result.ARQs)
	return i
}

// leavesGuest checks that a deletion does not touch a guest on another host and its part of the allocation, and names
// both.
func (s *site) leavesGuest(t *testing.T, there spawn.Instance, run func() error) {
	t.Helper()
	part := slices.DeleteFunc(s.held(instance), func(line string) bool { return !strings.HasPrefix(line, there.Host) })
	err := run()
	wantKinds(t, certainlyLeft(err), spawn.LeftoverGuest, spawn.LeftoverAllocation)
	if err == nil || !strings.Contains(err.Error(), "on host "+there.Host) {
		t.Errorf("got %v, want an error that names host %s", err, there.Host)
	}
	s.running(t, there, true)
	if diff := cmp.Diff(part, s.held(instance)); diff != "" {
		t.Errorf("the part of the allocation on host %s, which has the guest (-part +after):\n%s", there.Host, diff)
	}
}

func TestADeletionWithTheOldHostWhoseAllocationIsLeftLeavesTheGuest(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		for _, cleared := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, old guest removed: %t", op, cleared), func(t *testing.T) {
				s := newSite(t, worldOpts{})
				i := s.spawn(t, "")
				there := s.halfEvacuated(t, i)
				s.refused(t, there, func() error { return free(s.ops, t.Context(), i) })
				if cleared || op == "local delete" {
					delete(s.guests.saved, placeOf(i)) // the old host is back, and has removed it
				}
				s.guests.down = nil
				s.leavesGuest(t, there, func() error { return free(s.ops, t.Context(), i) })
				settled(t, s.ops.Delete(t.Context(), there))
				s.sound(t)
			})
		}
	}
}

// Placement is down while the deletion locates the instance, and up again before it deletes the allocation.
func TestADeletionDuringAnOutageOfPlacementKeepsTheAllocationOfAGuestElsewhere(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		bubble(t, op, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "")
			there := s.evacuated(t, i)
			s.guests.down = nil
			s.fail(t, fault.Rule{Operation: fault.AllocationsGet, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
			time.AfterFunc(45*time.Second, func() { _ = s.cloud.Faults().Set() })
			if err := free(s.ops, t.Context(), i); !errors.Is(err, spawn.ErrLeftover) || len(s.held(instance)) == 0 {
				t.Errorf("got %v, held %v, want the allocation as a leftover", err, s.held(instance))
			}
			s.running(t, there, true)
		})
	}
}

// On a full cloud an evacuation with unknown outcome holds the devices that its repetition would need.
func TestAnEvacuationOnAFullCloudSaysWhatTheInstanceHolds(t *testing.T) {
	t.Parallel()
	newFull := func(t *testing.T) (*site, spawn.Instance) {
		model := simcloud.ScaleModel(2, 1)
		s := newSite(t, worldOpts{model: &model})
		return s, s.spawn(t, "gpu")
	}
	bubble(t, "a guest", func(t *testing.T) {
		s, i := newFull(t)
		there := s.evacuated(t, i)
		s.refused(t, there, func() error { _, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{}); return err })
	})
	bubble(t, "a claim", func(t *testing.T) {
		s, i := newFull(t)
		s.loseHost(t, i.Host)
		s.fail(t, fault.Rule{Operation: fault.DeployableList, Times: -1, Action: fault.Drop},
			fault.Rule{Operation: fault.AllocationsPut, Nth: 2, Times: -1, Action: fault.Drop})
		_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		wantKinds(t, certainlyLeft(err), spawn.LeftoverAllocation)
		settled(t, s.cloud.Faults().Set())
		s.restart(t) // a new process knows nothing of what the error named
		s.renew(t)
		_, err = s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		const other = "cn1"
		if !errors.Is(err, spawn.ErrNoCandidates) || !strings.Contains(err.Error(), "holds resources of host "+other) {
			t.Errorf("got %v, want ErrNoCandidates with the host of the claim", err)
		}
		_, err = s.flow.Reconcile(t.Context(), freeingAll(other))
		settled(t, err)
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		s.guests.down = nil
		settled(t, s.guests.Undefine(t.Context(), i))
		s.running(t, spawn.InstanceOf(request("gpu"), result), true)
		s.sound(t)
	})
}
