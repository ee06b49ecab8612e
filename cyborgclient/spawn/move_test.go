package spawn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// launchOn is launch on the given host.
func (s *site) launchOn(t *testing.T, host string, req spawn.Request) spawn.Instance {
	t.Helper()
	req.Order = onHost(s.world, host)
	result, err := s.starts().Run(t.Context(), req)
	settled(t, err)
	return spawn.InstanceOf(req, result)
}

// checkMoved checks that an instance runs on a host and has no allocation on other hosts.
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

// An instance that was evacuated may still have an allocation on its source host. If its new host is lost, too, it is
// moved to neither of the two.
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

// An instance of a flavor without compute resources holds only devices.
func TestASecondEvacuationLeavesTheOldHostOfADevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: raceModel(3, 2)})
		i := s.launchOn(t, "cn1", spawn.Request{Instance: instance, Flavor: withoutCompute("gpu")})
		held := slices.DeleteFunc(s.cloud.Placement.Allocations(), func(a placementsim.Allocation) bool { return a.Consumer != instance })
		for _, p := range s.cloud.Placement.ResourceProviders() {
			if strings.HasPrefix(p.Name, "cn0_") && len(held) == 1 {
				held = append(held, placementsim.Allocation{Consumer: instance, Provider: p.UUID, Class: held[0].Class, Used: 1})
			}
		}
		s.write(t, held)
		s.loseHost(t, i.Host)
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{Order: onHost(s.world, "cn0")})
		if !errors.Is(err, spawn.ErrNoCandidates) {
			t.Errorf("got %v, %v, want ErrNoCandidates", result, err)
		}
		result, err = s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		s.checkMoved(t, i, result, "cn2")
	})
}

// No resource provider has the short name of a host. A host that turns out to be the lost host gets no guest.
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
		checkDiff(t, "ARQs (-before +after)", before, s.cloud.Cyborg.ARQs())
	})
}

// MoveOpts.Down may have short host names, and so may the instance.
func TestAHostThatIsDownByItsShortNameIsNotChosen(t *testing.T) {
	t.Parallel()
	for _, hosts := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			model := raceModel(hosts, 1)
			for n := range model.Hosts {
				model.Hosts[n].Name += ".example.com"
			}
			s := newSite(t, worldOpts{model: model})
			i := s.launchOn(t, "cn0.example.com", request("gpu"))
			s.loseHost(t, i.Host)
			opts := spawn.MoveOpts{Down: []string{"cn1"}, Order: func(c []spawn.Candidate) []spawn.Candidate {
				down := slices.IndexFunc(c, func(c spawn.Candidate) bool { return c.Root == s.cloud.ProviderUUID("cn1.example.com") })
				c[0], c[down] = c[down], c[0]
				return c
			}}
			result, err := s.ops.Evacuate(t.Context(), i, opts)
			if hosts == 2 {
				if !errors.Is(err, spawn.ErrNoCandidates) || !strings.Contains(err.Error(), "host cn1.example.com: the host is down") {
					t.Errorf("got %v, want ErrNoCandidates", err)
				}
				return
			}
			settled(t, err)
			s.checkMoved(t, i, result, "cn2.example.com")
		})
	}
}

// The lost host has more candidates than one request returns.
func TestAnEvacuationFindsAHostAmongManyCandidates(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1000} { // of the caller
		synctest.Test(t, func(t *testing.T) {
			model := raceModel(2, 12)
			model.DeviceProfiles[1] = simcloud.DeviceProfile{Name: "four", Groups: slices.Repeat(model.DeviceProfiles[0].Groups, 4)}
			s := newSite(t, worldOpts{model: model})
			i := s.launchOn(t, "cn0", request("four"))
			s.loseHost(t, i.Host)
			result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{Options: requestspec.Options{Limit: limit}})
			if err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
			s.checkMoved(t, i, result, "cn1")
		})
	}
}

// threeHosts is the default model with a third host like the second.
func threeHosts() *simcloud.Model {
	model := simcloud.DefaultModel()
	third := model.Hosts[1]
	third.Name, third.Devices, third.Providers = "cn2", nil, nil
	model.Hosts = append(model.Hosts, third)
	return &model
}

// evacuatedVGPU returns an instance with a vGPU that was evacuated from a host that is down. Its ARQ on that host
// still exists.
func evacuatedVGPU(t *testing.T, s *site) (before, moved spawn.Instance) {
	t.Helper()
	before = s.spawn(t, "vgpu")
	old := s.arqs(t, before)
	s.loseHost(t, before.Host)
	result, err := s.ops.Evacuate(t.Context(), before, spawn.MoveOpts{})
	onlyMdev(t, err, old)
	s.guests.calls = nil
	return before, spawn.InstanceOf(request("vgpu"), result)
}

// leftARQs are the ARQs that an error names.
func leftARQs(err error) (left []string) {
	for _, l := range leftovers(err) {
		if l.Kind == spawn.LeftoverARQ {
			left = append(left, l.ID)
		}
	}
	slices.Sort(left)
	return left
}

// The first host is back and still has the old guest, which keeps its ARQ.
func TestAnotherEvacuationLeavesTheFirstGuestItsDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: threeHosts()})
		before, moved := evacuatedVGPU(t, s)
		want := uuidsOf(s.arqs(t, moved)) // of both hosts
		settled(t, s.cloud.StartHost(t.Context(), before.Host))
		delete(s.guests.down, before.Host)
		s.loseHost(t, moved.Host)
		result, err := s.ops.Evacuate(t.Context(), moved, spawn.MoveOpts{Order: onHost(s.world, "cn2")})
		if diff := cmp.Diff(want, leftARQs(err)); diff != "" || result == nil || !strings.Contains(err.Error(), "the guest on host "+before.Host+" may use it") {
			t.Errorf("got a result: %t, and %v; leftover ARQs (-want +got):\n%s", result != nil, err, diff)
		}
		if left := uuidsOf(s.arqs(t, moved)); len(left) != 3 {
			t.Errorf("ARQs %v, want one on each of the three hosts", left)
		}
	})
}

func uuidsOf(arqs []cyborgclient.ARQ) (uuids []string) {
	for _, arq := range arqs {
		uuids = append(uuids, arq.UUID)
	}
	slices.Sort(uuids)
	return uuids
}

// An offloaded instance has no host. Only the caller knows that the host of one of its ARQs, which may still have its
// guest, is down.
func TestAnEvacuatedVGPUIsUnshelvedWhileItsFirstHostIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: threeHosts()})
		before, moved := evacuatedVGPU(t, s)
		if err := s.ops.ShelveOffload(t.Context(), moved); !errors.Is(err, spawn.ErrLeftover) {
			t.Fatalf("offload: %v", err)
		}
		stuck := s.arqs(t, moved)
		moved.Host, moved.ARQs = "", nil
		result, err := s.ops.Unshelve(t.Context(), moved, spawn.MoveOpts{})
		if result != nil || err == nil || !strings.Contains(err.Error(), before.Host) {
			t.Errorf("got a result: %t, and %v; want an error that names host %s", result != nil, err, before.Host)
		}
		result, err = s.ops.Unshelve(t.Context(), moved, spawn.MoveOpts{Down: []string{before.Host}})
		if result == nil {
			t.Fatal(err)
		}
		onlyMdev(t, err, stuck)
		again := spawn.InstanceOf(request("vgpu"), result)
		s.running(t, again, true)
		settled(t, s.ops.HardReboot(t.Context(), again, nil))
		settled(t, s.cloud.StartHost(t.Context(), before.Host))
		settled(t, s.cyborg.DeleteARQs(t.Context(), uuidsOf(stuck)))
		s.checkMoved(t, again, result, again.Host)
	})
}

// The bind begins with the ARQs that were found after a lost create. They are not used on the next host.
func TestFoundARQsToBindBesideAreNotKept(t *testing.T) {
	t.Parallel()
	for _, rebind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			config := alone
			config.Compat.Rebind = rebind
			model := threeHosts()
			model.Hosts = append(model.Hosts, model.Hosts[2])
			model.Hosts[3].Name = "cn3"
			s := newSite(t, worldOpts{model: model, config: config})
			before, moved := evacuatedVGPU(t, s)
			if err := s.ops.ShelveOffload(t.Context(), moved); !errors.Is(err, spawn.ErrLeftover) {
				t.Fatalf("offload: %v", err)
			}
			stuck := s.arqs(t, moved)
			moved.Host, moved.ARQs = "", nil
			s.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After, Times: 1})
			result, err := s.ops.Unshelve(t.Context(), moved, spawn.MoveOpts{Down: []string{before.Host}})
			if result == nil {
				t.Fatal(err)
			}
			onlyMdev(t, err, stuck)
			s.running(t, spawn.InstanceOf(request("vgpu"), result), true)
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != len(stuck)+len(result.ARQs) {
				t.Errorf("ARQs %v, want the old one and the ARQ of the result", arqs)
			}
		})
	}
}

// Every operation with the source host of an evacuation is refused, even if the new host does not answer, because the
// guest there has the newer ARQ.
func TestAnOldARQIsNotEvidenceOfTheHost(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*site, context.Context, spawn.Instance) error{
		"delete":         func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Delete(ctx, i) },
		"local delete":   func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.LocalDelete(ctx, i) },
		"shelve offload": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.ShelveOffload(ctx, i) },
		"evacuate": func(s *site, ctx context.Context, i spawn.Instance) error {
			_, err := s.ops.Evacuate(ctx, i, spawn.MoveOpts{})
			return err
		},
	} {
		for _, answers := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, worldOpts{model: threeHosts()})
				before, moved := evacuatedVGPU(t, s)
				s.guests.down = map[string]bool{moved.Host: !answers}
				usage := s.usage(t, before)
				err := run(s, t.Context(), before)
				if err == nil || errors.Is(err, spawn.ErrMoved) != answers || !strings.Contains(err.Error(), moved.Host) {
					t.Errorf("%s: got %v, want a refusal that names host %s", name, err, moved.Host)
				}
				if diff := cmp.Diff(usage, s.usage(t, before)); diff != "" || slices.Contains(s.guests.calls, "destroy") {
					t.Errorf("%s: calls %v, usage (-before +after):\n%s", name, s.guests.calls, diff)
				}
				s.running(t, moved, true)
			})
		}
	}
}

// The source host of an evacuation is back and resumes its guests. The old guest, whose ARQ Cyborg could not delete,
// would run in addition to the guest on the new host.
func TestTheHostOfBeforeAnEvacuationDoesNotStartTheGuest(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*site, context.Context, spawn.Instance) error{
		"host reboot": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.ResumeAfterHostReboot(ctx, i) },
		"start":       func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Start(ctx, i) },
		"hard reboot": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, nil) },
	} {
		for _, known := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, worldOpts{})
				before, moved := evacuatedVGPU(t, s)
				if !known {
					before.ARQs = nil
				}
				settled(t, s.cloud.StartHost(t.Context(), before.Host))
				s.guests.down = nil
				usage := s.usage(t, moved)
				if err := run(s, t.Context(), before); !errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), "host "+moved.Host) {
					t.Errorf("%s, known %t: got %v, want an error that names host %s", name, known, err, moved.Host)
				}
				checkDiff(t, name+": usage (-before +after)", usage, s.usage(t, moved))
				s.running(t, before, false)
				s.running(t, moved, true)
			})
		}
	}
}

// The agent of the new host is silent, so Cyborg shows the ARQ as unknown. The guest runs.
func TestASilentAgentIsNotEvidenceOfAMissingGuest(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*site, context.Context, spawn.Instance) error{
		"delete":         func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.Delete(ctx, i) },
		"local delete":   func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.LocalDelete(ctx, i) },
		"shelve offload": func(s *site, ctx context.Context, i spawn.Instance) error { return s.ops.ShelveOffload(ctx, i) },
		"evacuate": func(s *site, ctx context.Context, i spawn.Instance) error {
			_, err := s.ops.Evacuate(ctx, i, spawn.MoveOpts{})
			return err
		},
		"unshelve": func(s *site, ctx context.Context, i spawn.Instance) error {
			i.Host, i.ARQs = "", nil
			_, err := s.ops.Unshelve(ctx, i, spawn.MoveOpts{})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := threeHosts()
			model.Cyborg.BindingStates = true
			s := newSite(t, worldOpts{model: model})
			before := s.spawn(t, "gpu")
			s.loseHost(t, before.Host)
			result, err := s.ops.Evacuate(t.Context(), before, spawn.MoveOpts{})
			settled(t, err)
			moved := spawn.InstanceOf(request("gpu"), result)
			settled(t, s.cloud.StartHost(t.Context(), before.Host))
			s.guests.down = nil
			settled(t, s.cloud.StopHost(moved.Host)) // only Cyborg's agent
			time.Sleep(time.Minute)
			usage := s.usage(t, moved)
			if usage.ARQs[0].State != "unknown" {
				t.Fatalf("the ARQ is %s", usage.ARQs[0].State)
			}
			if err := run(s, t.Context(), before); !errors.Is(err, spawn.ErrMoved) || !strings.Contains(err.Error(), moved.Host) {
				t.Errorf("%s: got %v, want a refusal that names host %s", name, err, moved.Host)
			}
			checkDiff(t, name+": usage (-before +after)", usage, s.usage(t, moved))
			s.running(t, moved, true)
		})
	}
}

// The source host of an evacuation is back, and still has the old guest with the ARQ of its mediated device. The
// instance is deleted. The error names the old guest and its ARQ, which are freed later.
func TestADeletionNamesAGuestThatAnEvacuationLeft(t *testing.T) {
	t.Parallel()
	for name, free := range deletions() {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			before, moved := evacuatedVGPU(t, s)
			settled(t, s.cloud.StartHost(t.Context(), before.Host))
			s.guests.down = nil
			stuck := slices.DeleteFunc(s.arqs(t, before), func(arq cyborgclient.ARQ) bool { return arq.Hostname != before.Host })
			err := free(s.ops, t.Context(), moved)
			wantKinds(t, certainlyLeft(err), spawn.LeftoverGuest, spawn.LeftoverARQ)
			if diff := cmp.Diff(uuidsOf(stuck), leftARQs(err)); diff != "" || !errors.Is(err, spawn.ErrLeftover) || !strings.Contains(err.Error(), "guest on host "+before.Host) {
				t.Errorf("%s: got %v; leftover ARQs (-want +got):\n%s", name, err, diff)
			}
			if left := uuidsOf(s.arqs(t, moved)); !slices.Equal(left, uuidsOf(stuck)) || len(s.held(instance)) > 0 {
				t.Errorf("%s: left are ARQs %v and %v, want %v", name, left, s.held(instance), stuck)
			}
			if _, there := s.guests.saved[placeOf(before)]; !there {
				t.Errorf("%s: the guest on host %s, which the caller did not name, is removed", name, before.Host)
			}
			if name == "local delete" {
				delete(s.guests.saved, placeOf(moved)) // as nova-compute removes it
				delete(s.guests.runs, placeOf(moved))
			}
			settled(t, s.ops.Delete(t.Context(), before)) // with the host of the old guest
			s.sound(t)
		})
	}
}
