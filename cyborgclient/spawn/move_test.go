package spawn_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/placementsim"
)

// launchOn is launch on a host.
func (s *site) launchOn(t *testing.T, host string, req spawn.Request) spawn.Instance {
	t.Helper()
	req.Order = onHost(s.world, host)
	result, err := s.flow.Run(t.Context(), req)
	settled(t, err)
	i := spawn.InstanceOf(req, result)
	settled(t, s.guests.Define(t.Context(), i, result.Domain))
	settled(t, s.guests.Start(t.Context(), i))
	return i
}

// checkMoved checks that an instance runs on a host and holds nothing of others.
func (s *site) checkMoved(t *testing.T, i spawn.Instance, result *spawn.Result, host string) {
	t.Helper()
	if result.Host != host {
		t.Errorf("on host %s, want %s", result.Host, host)
	}
	i.Host = result.Host
	s.running(t, i, true)
	for _, held := range s.held(i.UUID) {
		if !strings.HasPrefix(held, host) {
			t.Errorf("it still holds %s", held)
		}
	}
	s.sound(t)
}

// An instance that was evacuated once may still hold resources of the host of before. When its
// host is lost, it is moved to neither of the two.
func TestASecondEvacuationLeavesEveryOldHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hold func(t *testing.T, s *site, earlier string)
		want int // of the hosts below
	}{
		"both hosts":    {func(t *testing.T, s *site, earlier string) { s.alsoOn(t, earlier) }, 2},
		"the lost host": {func(*testing.T, *site, string) {}, 0},
		"the earlier host": {func(t *testing.T, s *site, earlier string) {
			s.write(t, []placementsim.Allocation{{Consumer: instance, Provider: s.cloud.ProviderUUID(earlier), Class: "VCPU", Used: 2}})
		}, 2},
	} {
		for _, hosts := range [][]string{{"cn0", "cn1", "cn2"}, {"cn1", "cn0", "cn2"}, {"cn2", "cn1", "cn0"}} { // earlier, lost, new
			for profile, req := range map[string]spawn.Request{"gpu": request("gpu"), "": {Instance: instance, Flavor: plainFlavor()}} {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, worldOpts{model: raceModel(3, 1)})
					i := s.launchOn(t, hosts[1], req)
					tt.hold(t, s, hosts[0])
					s.loseHost(t, hosts[1])
					rank := func(c spawn.Candidate) int { // the lost host, the earlier one, the new one
						return slices.IndexFunc([]string{hosts[1], hosts[0], hosts[2]}, func(host string) bool { return c.Root == s.cloud.ProviderUUID(host) })
					}
					result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{Order: func(c []spawn.Candidate) []spawn.Candidate {
						slices.SortStableFunc(c, func(a, b spawn.Candidate) int { return rank(a) - rank(b) })
						return c
					}})
					if err != nil {
						t.Fatalf("%s, %v, profile %q: %v", name, hosts, profile, err)
					}
					s.checkMoved(t, i, result, hosts[tt.want])
				})
			}
		}
	}
}

// The short name of a host is no name of a provider. A host that turns out to be the lost one gets
// no guest.
func TestAnEvacuationToTheLostHostIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := raceModel(2, 1)
		model.Hosts[1].Name = "cn1.example.com"
		s := newSite(t, worldOpts{model: model})
		i := s.launchOn(t, "cn1.example.com", request("gpu"))
		s.write(t, []placementsim.Allocation{{Consumer: instance, Provider: s.cloud.ProviderUUID("cn0"), Class: "VCPU", Used: 2}})
		s.loseHost(t, i.Host)
		i.Host = "cn1"
		s.guests.down["cn1"] = true
		before := s.cloud.Cyborg.ARQs()
		_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		if !errors.Is(err, spawn.ErrRequest) || !strings.Contains(err.Error(), "on another host than cn1") {
			t.Errorf("got %v, want ErrRequest", err)
		}
		if diff := cmp.Diff(before, s.cloud.Cyborg.ARQs()); diff != "" {
			t.Errorf("ARQs (-before +after):\n%s", diff)
		}
	})
}
