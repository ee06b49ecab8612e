package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// An admin's token lists the ARQs of all projects. ExclusiveProject applies only to its own project.
func TestALostCreateLeavesTheARQsOfOtherProjects(t *testing.T) {
	t.Parallel()
	for _, applied := range []fault.When{fault.Before, fault.After} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
			theirs, err := w.cloud.Cyborg.CreateARQs("gpu", w.cloud.ProjectID("demo"))
			settled(t, err)
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: applied})
			if _, err := w.flow.Run(t.Context(), request("gpu")); err == nil || len(certainlyLeft(err)) > 0 {
				t.Errorf("got error %v, want one without leftovers", err)
			}
			if left := w.cloud.Cyborg.ARQs(); len(left) != 1 || left[0].UUID != theirs[0].UUID {
				t.Errorf("got ARQs %v, want only the ARQ of the other project", left)
			}
		})
	}
}

// If the caller has set the token of the provider client, the project and the roles of the token are unknown.
func TestTheARQsOfASetTokenGetTheProjectOfTheInstance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		user, owner string // of the token, and of the project
		compat      spawn.Compat
	}{
		{"admin", "demo", spawn.Compat{}}, {"admin", "demo", spawn.Compat{Rebind: true}}, {"admin", "admin", spawn.Compat{}}, {"nova", "nova", spawn.Compat{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.connect(t, withSetToken(t, w.provider(t, tt.user)), spawn.WithConfig(spawn.Config{Compat: tt.compat}))
			req := request("gpu")
			req.ProjectID, req.UserID = w.cloud.ProjectID(tt.owner), "u"
			first := tt.compat.Rebind
			req.Hooks.Claim = func(context.Context, *spawn.Attempt) error {
				if !first {
					return nil
				}
				first = false
				return errHook
			}
			result := w.spawned(t, req)
			if got := result.ARQs[0].ProjectID; got != req.ProjectID {
				t.Errorf("%+v: the ARQ is of project %s, want %s", tt, got, req.ProjectID)
			}
		})
	}
}

// serviceSite is a site whose flows may use the token of an agent in the project service without the role admin. With
// isolation Cyborg shows it only the ARQs of that project, as released Cyborgs do even with a service token.
func serviceSite(t *testing.T, isolated bool) *site {
	t.Helper()
	model := simcloud.DefaultModel()
	model.Cyborg.UpstreamQuirks = isolated
	model.Users = append(model.Users, simcloud.User{Name: "agent", Roles: map[string][]string{"service": {"service", "member"}}})
	return newSite(t, worldOpts{model: &model})
}

// logIn gives the site a flow with the token of a user.
func (s *site) logIn(t *testing.T, user string) {
	t.Helper()
	s.connect(t, s.provider(t, user))
	s.renew(t)
}

// releases are the operations that free an instance or its devices.
func releases() map[string]func(*site, context.Context, spawn.Instance) error {
	all := map[string]func(*site, context.Context, spawn.Instance) error{
		"release":         func(s *site, ctx context.Context, i spawn.Instance) error { return s.flow.Release(ctx, i.UUID) },
		"release devices": func(s *site, ctx context.Context, i spawn.Instance) error { return s.flow.ReleaseDevices(ctx, i.UUID) },
	}
	for op, free := range deletions() {
		all[op] = func(s *site, ctx context.Context, i spawn.Instance) error { return free(s.ops, ctx, i) }
	}
	return all
}

func TestHiddenARQsOfAnotherProjectAreNoSuccess(t *testing.T) {
	t.Parallel()
	for op, free := range releases() {
		for _, down := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, Cyborg down: %t", op, down), func(t *testing.T) {
				s := serviceSite(t, true)
				i := s.spawn(t, "gpu") // of the project admin
				before := s.usage(t, i)
				s.logIn(t, "agent")
				if down {
					s.fail(t, fault.Rule{Operation: fault.ARQList, Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable})
				}
				err := free(s, t.Context(), i)
				isNamed := err != nil && strings.Contains(err.Error(), s.cloud.ProjectID("admin"))
				if err == nil || !down && (!errors.Is(err, spawn.ErrHidden) || !isNamed) {
					t.Errorf("got %v, want a refusal that names the project", err)
				}
				settled(t, s.cloud.Faults().Set())
				s.logIn(t, "admin")
				checkDiff(t, "usage (-before +after)", before, s.usage(t, i))
				s.running(t, i, true)
				settled(t, free(s, t.Context(), i))
				if arqs := s.cloud.Cyborg.ARQs(); len(arqs) > 0 {
					t.Errorf("with the token of an admin %v remain", arqs)
				}
			})
		}
	}
}

// The caller names the project of an instance without an allocation.
func TestHiddenARQsAreNoSuccessWithoutAnAllocation(t *testing.T) {
	t.Parallel()
	for op, free := range deletions() {
		bubble(t, op, func(t *testing.T) {
			s := serviceSite(t, true)
			i := s.spawn(t, "gpu")
			i.ProjectID = s.cloud.ProjectID("admin")
			settled(t, s.cloud.Placement.Release(i.UUID))
			s.logIn(t, "agent")
			if err := free(s.ops, t.Context(), i); !errors.Is(err, spawn.ErrHidden) || len(s.guests.calls) > 0 {
				t.Errorf("got %v after %v, want a refusal", err, s.guests.calls)
			}
		})
	}
}

// No ARQs are hidden if the instance has no accelerators or belongs to the token's project, or if Cyborg shows the
// ARQs of all projects.
func TestWhatIsNotHiddenIsFreed(t *testing.T) {
	t.Parallel()
	for op, free := range releases() {
		for name, tt := range map[string]struct {
			isolated bool
			user     string // of the spawn
			profile  string
		}{
			"without accelerators": {true, "admin", ""}, "own project": {true, "agent", "gpu"}, "not isolated": {false, "admin", "gpu"},
		} {
			bubble(t, op+", "+name, func(t *testing.T) {
				s := serviceSite(t, tt.isolated)
				s.logIn(t, tt.user)
				i := s.spawn(t, tt.profile)
				s.logIn(t, "agent")
				settled(t, free(s, t.Context(), i))
				if arqs := s.cloud.Cyborg.ARQs(); len(arqs) > 0 || op != "release devices" && len(s.held(instance)) > 0 {
					t.Errorf("left are %v and %v", arqs, s.held(instance))
				}
			})
		}
	}
}

// An interrupted attempt has claimed a device and created no ARQ.
func TestAClaimWithoutARQsIsReleasedInItsProject(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"admin", "agent"} {
		bubble(t, user, func(t *testing.T) {
			s := serviceSite(t, true)
			s.logIn(t, user)
			settled(t, s.beforeClaim(t, "gpu").Claim(t.Context()))
			s.logIn(t, user) // another process
			settled(t, s.flow.Release(t.Context(), instance))
			s.sound(t)
		})
	}
}

// A reconciliation with a token that does not show the ARQ keeps the allocation, whose device is in use.
func TestAReconciliationLeavesTheAllocationOfHiddenARQs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceSite(t, true)
		_, err := s.flow.Run(t.Context(), request("gpu")) // without a guest
		settled(t, err)
		before := s.held(instance)
		s.logIn(t, "agent")
		orphans, err := s.flow.Reconcile(t.Context(), s.freeing())
		if len(orphans) != 1 || orphans[0].Kind != spawn.LeftoverAllocation || !errors.Is(orphans[0].Err, spawn.ErrHidden) || !errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got %v, error %v; want the allocation, which was not freed", orphans, err)
		}
		checkDiff(t, "the allocation (-before +after)", before, s.held(instance))
		s.logIn(t, "admin")
		_, err = s.flow.Reconcile(t.Context(), s.freeing())
		settled(t, err)
		s.sound(t)
	})
}

// withSetToken is a provider whose caller has set the token.
func withSetToken(t *testing.T, known *gophercloud.ProviderClient) *gophercloud.ProviderClient {
	t.Helper()
	set, err := openstack.NewClient(known.IdentityEndpoint)
	settled(t, err)
	set.HTTPClient, set.EndpointLocator = known.HTTPClient, known.EndpointLocator
	set.SetToken(known.Token())
	return set
}

// Cyborg shows a token without the role admin the ARQs of its own project only. The ARQs of an instance of another
// project stay bound if it is moved, or if its devices are released.
func TestATokenThatShowsNoARQsOfAnInstanceChangesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  bool // the token, whose project is unknown
		want error
		run  func(*testing.T, *site, spawn.Instance) error
	}{
		"evacuate":               {false, spawn.ErrRequest, evacuateBy(flavor("gpu"))},
		"evacuate, set token":    {true, spawn.ErrHidden, evacuateBy(flavor("gpu"))},
		"evacuate, plain flavor": {false, spawn.ErrRequest, evacuateBy(plainFlavor())},
		"unshelve": {false, spawn.ErrHidden, func(t *testing.T, s *site, i spawn.Instance) error {
			settled(t, errors.Join(s.guests.Destroy(t.Context(), i), s.guests.Undefine(t.Context(), i))) // as after one that could not be undone
			i.Host, i.ARQs = "", nil
			_, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serviceSite(t, true)
			i := s.spawn(t, "gpu") // of the project admin
			provider := s.provider(t, "agent")
			if tt.set {
				provider, i.ProjectID, i.UserID = withSetToken(t, provider), s.cloud.ProjectID("admin"), "u"
			}
			s.connect(t, provider)
			s.renew(t)
			held, arqs := s.held(instance), s.cloud.Cyborg.ARQs()
			if err := tt.run(t, s, i); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), s.cloud.ProjectID("admin")) {
				t.Errorf("%s: got %v, want %v", name, err, tt.want)
			}
			checkDiff(t, name+": allocation (-before +after)", held, s.held(instance))
			checkDiff(t, name+": ARQs (-before +after)", arqs, s.cloud.Cyborg.ARQs())
		})
	}
}

func evacuateBy(f requestspec.Flavor) func(*testing.T, *site, spawn.Instance) error {
	return func(t *testing.T, s *site, i spawn.Instance) error {
		s.loseHost(t, i.Host)
		if i.Flavor = f; f.Name == plainFlavor().Name {
			i.ARQs = nil
		}
		_, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		return err
	}
}

// If an administrator does not know the project of an instance, its new ARQs still get that project.
func TestAnEvacuatedInstanceKeepsItsProject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		req := request("gpu")
		req.ProjectID, req.UserID = s.cloud.ProjectID("demo"), "u"
		i := s.launchOn(t, "cn0", req)
		s.loseHost(t, i.Host)
		i.ProjectID, i.UserID = "", ""
		result, err := s.ops.Evacuate(t.Context(), i, spawn.MoveOpts{})
		settled(t, err)
		if got := s.arqs(t, i)[0].ProjectID; got != req.ProjectID {
			t.Errorf("the ARQ is of project %s, want %s", got, req.ProjectID)
		}
		s.checkMoved(t, i, result, result.Host)
	})
}
