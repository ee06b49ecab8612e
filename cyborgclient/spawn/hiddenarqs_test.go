package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// agentModel is a model with an agent of the project service, without the role admin, and an owner of instances.
// Cyborg shows each user only the ARQs of its own project.
func agentModel(model simcloud.Model) *simcloud.Model {
	model.Cyborg.UpstreamQuirks = true
	model.Users = append(model.Users,
		simcloud.User{Name: "agent", Roles: map[string][]string{"service": {"service", "member"}}},
		simcloud.User{Name: "owner", Roles: map[string][]string{"owners": {"member", "service"}}})
	return &model
}

// On a flat host the compute node's provider has the inventory of the device.
func TestHiddenARQsOfAFlatHostAreNoSuccess(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(context.Context, *spawn.Flow) error{
		"release":         func(ctx context.Context, f *spawn.Flow) error { return f.Release(ctx, instance) },
		"release devices": func(ctx context.Context, f *spawn.Flow) error { return f.ReleaseDevices(ctx, instance) },
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: agentModel(*flatModel())})
			config := spawn.WithConfig(spawn.Config{PlacementOrder: true, Compat: spawn.Compat{FlatProviders: true}})
			s.connect(t, s.cloud.Provider(t), config)
			_, err := s.flow.Run(t.Context(), request("gpu"))
			settled(t, err)
			s.connect(t, s.provider(t, "agent"), config)
			if err := free(t.Context(), s.flow); !errors.Is(err, spawn.ErrHidden) {
				t.Errorf("got %v, held %v, want ErrHidden", err, s.held(instance))
			}
		})
	}
}

// shareDisks moves the disks of all hosts to a provider that shares them.
func (s *site) shareDisks(t *testing.T) {
	t.Helper()
	const aggregate = "5a1e0000-0000-4000-8000-000000000002"
	_, err := s.cloud.Placement.CreateProvider(placementsim.ResourceProvider{
		Name: "storage", Traits: []string{"MISC_SHARES_VIA_AGGREGATE"}, Inventories: map[string]placementsim.Inventory{"DISK_GB": {Total: 100}},
		Aggregates: []string{aggregate},
	})
	settled(t, err)
	for _, host := range s.cloud.HostNames() {
		node, err := s.cloud.Placement.ResourceProvider(s.cloud.ProviderUUID(host))
		settled(t, err)
		delete(node.Inventories, "DISK_GB")
		settled(t, s.cloud.Placement.SetInventory(node.UUID, node.Inventories))
		settled(t, s.cloud.Placement.SetAggregates(node.UUID, aggregate))
	}
}

// The owner of an instance would not see the ARQs that an agent of another project makes for it.
func TestAnAgentOfAnotherProjectAddsNoDevice(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*testing.T, *site, spawn.Instance) error{
		"running": func(t *testing.T, s *site, i spawn.Instance) error {
			req := request("gpu")
			req.Domain = []byte(s.guests.saved[placeOf(i)])
			_, err := s.flow.AddDevices(t.Context(), req)
			return err
		},
		"evacuate": func(t *testing.T, s *site, i spawn.Instance) error {
			s.loseHost(t, i.Host)
			i.Flavor = flavor("gpu")
			_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
			return err
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: agentModel(simcloud.DefaultModel())})
			s.logIn(t, "owner")
			i := s.spawn(t, "")
			s.logIn(t, "agent")
			if err := add(t, s, i); !errors.Is(err, spawn.ErrRequest) || len(s.cloud.Cyborg.ARQs()) > 0 {
				t.Errorf("got %v, and ARQs %v, want ErrRequest", err, s.cloud.Cyborg.ARQs())
			}
		})
	}
}

// The first deletion deletes the only ARQ that shows to an agent of another project that Cyborg hides no ARQs.
func TestADeletionWhereCyborgHidesNothingIsRepeated(t *testing.T) {
	t.Parallel()
	all := releases()
	all["reconcile"] = func(s *site, ctx context.Context, i spawn.Instance) error {
		err := errors.Join(s.guests.Destroy(ctx, i), s.guests.Undefine(ctx, i))
		if err == nil {
			_, err = s.flow.Reconcile(ctx, s.freeing())
		}
		return err
	}
	for op, free := range all {
		for _, release := range []fakecyborg.Release{fakecyborg.Release20262, fakecyborg.ReleaseZed} {
			bubble(t, fmt.Sprintf("%s, release %s", op, release), func(t *testing.T) {
				model := agentModel(simcloud.DefaultModel())
				model.Cyborg.UpstreamQuirks, model.Cyborg.Release = false, release
				s := newSite(t, worldOpts{model: model})
				i := s.spawn(t, "gpu")
				s.logIn(t, "agent")
				s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
				if err := free(s, t.Context(), i); !errors.Is(err, spawn.ErrLeftover) || len(s.cloud.Cyborg.ARQs()) > 0 {
					t.Errorf("got %v, want the allocation as a leftover", err)
				}
				settled(t, s.cloud.Faults().Set())
				settled(t, free(s, t.Context(), i))
				i.ProjectID = s.cloud.ProjectID("admin")
				settled(t, free(s, t.Context(), i))
			})
		}
	}
}

// The process that continues a handover has another token. An ARQ that Cyborg does not show to it may still be bound.
func TestTheARQsOfAHandoverAreDeletedOrNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		isolated bool
		release  fakecyborg.Release
		user     string // of the process that continues
		set      bool   // its token, whose project is unknown
		waits    bool   // it waits for the ARQs first
		left     bool
	}{
		"hidden":                    {isolated: true, user: "agent", left: true},
		"hidden, waited for":        {isolated: true, user: "agent", waits: true, left: true},
		"hidden, set token":         {isolated: true, user: "agent", set: true, left: true},
		"service token":             {user: "agent"},
		"service token, waited for": {user: "agent", waits: true},
		"service token, set token":  {user: "agent", set: true},
		"Zed":                       {release: fakecyborg.ReleaseZed, user: "agent"},
		"admin":                     {isolated: true, user: "admin"},
		"admin, set token":          {isolated: true, user: "admin", set: true},
		"own project":               {isolated: true, user: "owner"},
	} {
		bubble(t, name, func(t *testing.T) {
			model := agentModel(simcloud.DefaultModel())
			model.Cyborg.UpstreamQuirks, model.Cyborg.Release = tt.isolated, tt.release
			s := newSite(t, worldOpts{model: model})
			s.logIn(t, "owner")
			h, err := parseHandover(s.conduct(t, request("gpu")))
			settled(t, err)
			provider := s.provider(t, tt.user)
			if tt.set {
				provider = withSetToken(t, provider)
			}
			s.connect(t, provider)
			a, err := s.flow.Resume(t.Context(), h, nil)
			settled(t, err)
			if tt.waits {
				_ = a.WaitBound(t.Context())
			}
			want := []spawn.LeftoverKind{}
			if tt.left {
				want = append(want, spawn.LeftoverARQ)
			}
			for range 2 {
				_, left := a.Unwind(t.Context())
				wantKinds(t, left, want...)
			}
			if arqs := s.cloud.Cyborg.ARQs(); tt.left != (len(arqs) == 1) || len(s.held(instance)) > 0 {
				t.Errorf("got ARQs %v, held %v", arqs, s.held(instance))
			}
		})
	}
}

// An ARQ that Cyborg showed once is not hidden: a 404 after a lost response to its deletion means that it was
// deleted.
func TestAnARQOfAHandoverThatWasShownIsNotHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceSite(t, true)
		h, err := parseHandover(s.conduct(t, request("gpu")))
		settled(t, err)
		s.connect(t, withSetToken(t, s.cloud.Provider(t)))
		a, err := s.flow.Resume(t.Context(), h, nil)
		settled(t, err)
		s.fail(t, fault.Rule{Operation: fault.ARQDelete, Times: -1, Action: fault.Drop, When: fault.After})
		_, left := a.Unwind(t.Context())
		wantKinds(t, left, spawn.LeftoverARQ)
		settled(t, s.cloud.Faults().Set())
		unwindAll(t, a)
	})
}

// Cyborg may be upgraded to a release that hides the ARQs of other projects.
func TestThatCyborgHidesNothingIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceSite(t, false)
		i := s.spawn(t, "gpu")
		s.logIn(t, "agent")
		s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
		wantKinds(t, certainlyLeft(s.flow.Release(t.Context(), i.UUID)), spawn.LeftoverAllocation)
		time.Sleep(time.Hour)
		if err := s.flow.Release(t.Context(), i.UUID); !errors.Is(err, spawn.ErrHidden) {
			t.Errorf("got %v, want ErrHidden", err)
		}
	})
}

// The token of an administrator has deleted an ARQ of the instance. To the token of the agent the other ARQ is hidden.
func TestWhatAnotherTokenDeletedDoesNotShowThatNothingIsHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceSite(t, true)
		i := s.spawn(t, "gpu")
		s.loseHost(t, i.Host)
		i.Flavor = flavor("gpu")
		_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		held := s.held(i.UUID)
		agent, err := s.flow.Cyborg().ForProvider(s.provider(t, "agent"))
		settled(t, err)
		if err := s.flow.As(agent).Release(t.Context(), i.UUID); !errors.Is(err, spawn.ErrHidden) {
			t.Errorf("got %v, want ErrHidden", err)
		}
		if diff := cmp.Diff(held, s.held(i.UUID)); diff != "" || len(s.cloud.Cyborg.ARQs()) != 1 {
			t.Errorf("ARQs %v; allocation changed (-before +after):\n%s", s.cloud.Cyborg.ARQs(), diff)
		}
	})
}

// Cyborg shows the ARQ of an instance, and hides an unbound ARQ of another project that it had before.
func TestADeletionNamesTheARQThatIsHiddenBesideAnother(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		bubble(t, op, func(t *testing.T) {
			s := serviceSite(t, true)
			i := s.spawn(t, "gpu") // of the project admin
			old := s.arqs(t, i)[0]
			settled(t, s.cloud.Cyborg.Unbind(t.Context(), old.UUID))
			made, err := s.cloud.Cyborg.CreateARQs("gpu", s.cloud.ProjectID("agent"))
			settled(t, err)
			settled(t, s.cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: made[0].UUID, Host: old.Hostname, Provider: old.DeviceRPUUID, Instance: i.UUID}))
			s.logIn(t, "agent")
			if err := free(s.ops, t.Context(), i); !slices.Equal(leftARQs(err), i.ARQs) || len(s.cloud.Cyborg.ARQs()) != 1 {
				t.Errorf("got %v, want an error that names ARQ %s; left are %v", err, i.ARQs, s.cloud.Cyborg.ARQs())
			}
			if err := free(s.ops, t.Context(), i); err == nil {
				t.Error("the second deletion succeeds")
			}
		})
	}
}

// The project of an instance that was created without one is known from its ARQs, even after they and the allocation
// were deleted.
func TestADeletionInTheProjectOfTheTokenIsRepeated(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		bubble(t, op, func(t *testing.T) {
			s := serviceSite(t, true)
			s.logIn(t, "agent")
			i := s.spawn(t, "mixed")
			for range 2 {
				s.logIn(t, "agent") // another process
				settled(t, free(s.ops, t.Context(), i))
			}
			if left := s.cloud.Cyborg.ARQs(); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}
