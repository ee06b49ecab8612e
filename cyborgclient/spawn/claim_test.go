package spawn_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestARefusedClaimMovesOnToTheNextHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 409})
	first := w.beforeClaim(t, "gpu")
	chosen := first.Host
	settled(t, first.Claim(t.Context()))
	if first.Host == chosen {
		t.Errorf("still on host %s", chosen)
	}
	unwindAll(t, first)
	w.cloud.CheckNoLeaks(t)
}

func TestAnExistingAllocationIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	result, err := w.flow.Run(t.Context(), request("gpu"))
	settled(t, err)
	if _, err := w.flow.Run(t.Context(), request("vgpu")); !errors.Is(err, spawn.ErrClaim) {
		t.Errorf("second spawn of the same instance: got error %v, want ErrClaim", err)
	}
	w.checkPromise(t, result, nil) // the first spawn still has all of its resources
}

func TestARunningInstanceKeepsItsAllocation(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"gpu", "two"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{model: raceModel(2, 2)})
			before := w.spawned(t, spawn.Request{Instance: instance, Flavor: plainFlavor()})
			held := w.cloud.Placement.Allocations()

			req := request(profile)
			w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500})
			if _, err := w.flow.AddDevices(t.Context(), req); err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(held, w.cloud.Placement.Allocations()); diff != "" {
				t.Errorf("the unwinding changed what the instance held before (-want +got):\n%s", diff)
			}
			w.cloud.Faults().Clear()

			result, err := w.flow.AddDevices(t.Context(), req)
			settled(t, err)
			if result.Host != before.Host {
				t.Errorf("the accelerator is on %s, the instance on %s", result.Host, before.Host)
			}
			for _, allocation := range held {
				if !slices.Contains(w.cloud.Placement.Allocations(), allocation) {
					t.Errorf("lost: %+v", allocation)
				}
			}
			w.checkPromise(t, result, err)
		})
	}
}

func TestALostCreateLeavesTheARQsOfOtherClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1}})
		// Another agent has made its ARQs and not bound them yet.
		theirs := w.createARQ(t, "gpu")
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After})
		_, err := w.flow.Run(t.Context(), request("gpu"))
		if !errors.Is(err, spawn.ErrLeftover) || len(leftovers(err)) != 3 || len(certainlyLeft(err)) > 0 {
			t.Fatalf("got error %v, want the create and two ARQs as suspects", err)
		}
		if !strings.Contains(err.Error(), theirs) {
			t.Errorf("the suspects are not named: %v", err)
		}
		if got, err := w.cyborg.GetARQ(t.Context(), theirs); err != nil || got.State != cyborgclient.StateInitial {
			t.Errorf("the other agent's ARQ: %v, %v", got, err)
		}
	})
}

func TestOrderChoosesTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	req := request("gpu")
	req.Order = func(candidates []spawn.Candidate) []spawn.Candidate {
		slices.Reverse(candidates)
		return candidates
	}
	result, err := w.flow.Run(t.Context(), req)
	settled(t, err)
	if names := w.cloud.HostNames(); result.Host != names[len(names)-1] {
		t.Errorf("got host %s of %v, want the last", result.Host, names)
	}
	w.checkPromise(t, result, err)

	req.Instance = secondInstance
	req.Order = func([]spawn.Candidate) []spawn.Candidate { return nil }
	if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrNoCandidates) {
		t.Errorf("got error %v, want ErrNoCandidates", err)
	}
	for at, want := range []string{"candidate 1 of", "candidate 2 of"} {
		req.Order = func(all []spawn.Candidate) []spawn.Candidate {
			return slices.Insert(all[:1], at, spawn.Candidate{Root: all[0].Root})
		}
		if _, err := w.flow.Run(t.Context(), req); !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want ErrRequest for %s the list", err, want)
		}
	}
	req.Order = func([]spawn.Candidate) []spawn.Candidate { panic("hook") }
	func() {
		defer func() { _ = recover() }()
		_, _ = w.flow.Run(t.Context(), req)
	}()
	w.cloud.CheckNoLeaks(t)
}

// Placement's response has no host names. The flow knows the name once it has chosen a candidate of the host, and
// sets it in the next response, too.
func TestACandidateHasTheNameOfItsHostOnceItIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{model: raceModel(2, 20)})
	var names [][]string // by answer
	req := request("gpu")
	req.Order = func(all []spawn.Candidate) []spawn.Candidate {
		var hosts []string
		for _, c := range all {
			if !slices.Contains(hosts, c.Host) {
				hosts = append(hosts, c.Host)
			}
		}
		names = append(names, hosts)
		return all
	}
	a, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select))
	if a.Chosen.Host != "cn0" || a.Host != "cn0" {
		t.Errorf("chosen on %q and %q, want cn0", a.Chosen.Host, a.Host)
	}
	for _, c := range a.Candidates {
		if want := map[bool]string{true: "cn0"}[c.Root == a.Chosen.Root]; c.Host != want {
			t.Errorf("a candidate of root %s is of host %q, want %q", c.Root, c.Host, want)
		}
	}
	for _, host := range w.cloud.HostNames() {
		w.rival(t, a, w.cloud.ProviderUUID(host), 2) // more than are tried of one host
	}
	settled(t, a.Claim(t.Context()))
	if diff := cmp.Diff([][]string{{""}, {"cn0", "cn1"}}, names); diff != "" {
		t.Errorf("hosts of the candidates (-want +got):\n%s", diff)
	}
	unwindAll(t, a)
}

// An attempt to attach a device to a running instance was interrupted after its claim.
func TestASecondDeviceIsNotClaimedBesideOneOfAnInterruptedAttempt(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]func() *simcloud.Model{"flat": flatModel, "nested": func() *simcloud.Model { return raceModel(2, 2) }} {
		bubble(t, name, func(t *testing.T) {
			config := spawn.Config{PlacementOrder: true, Compat: spawn.Compat{FlatProviders: name == "flat"}}
			s := newSite(t, worldOpts{model: model(), config: config})
			_, err := s.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
			settled(t, err)
			req := request("gpu")
			a, err := s.flow.BeginAdding(t.Context(), req)
			settled(t, err)
			settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim))
			held := s.held(instance)
			s.connect(t, s.cloud.Provider(t), spawn.WithConfig(config))
			if _, err = s.flow.AddDevices(t.Context(), req); !errors.Is(err, spawn.ErrRequest) || !slices.Equal(held, s.held(instance)) {
				t.Errorf("got error %v, want ErrRequest; the instance held %v, now %v", err, held, s.held(instance))
			}
		})
	}
}
