package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// An admin's token lists the ARQs of all projects. ExclusiveProject is about its own.
func TestALostCreateLeavesTheARQsOfOtherProjects(t *testing.T) {
	t.Parallel()
	for _, applied := range []fault.When{fault.Before, fault.After} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{config: spawn.Config{MaxAttempts: 1, ExclusiveProject: true}})
			theirs, err := w.cloud.Cyborg.CreateARQs("gpu", w.cloud.ProjectID("demo"))
			if err != nil {
				t.Fatal(err)
			}
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop, When: applied})
			if _, err := w.flow.Run(t.Context(), request("gpu")); err == nil || len(certainlyLeft(err)) > 0 {
				t.Errorf("got error %v, want one without leftovers", err)
			}
			if left := w.cloud.Cyborg.ARQs(); len(left) != 1 || left[0].UUID != theirs[0].UUID {
				t.Errorf("got ARQs %v, want only that of the other project", left)
			}
		})
	}
}

// A provider whose caller has set the token does not tell the project and the role of the token.
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
			known, err := w.cloud.ProviderClient(t.Context(), tt.user)
			settled(t, err)
			set, err := openstack.NewClient(known.IdentityEndpoint)
			settled(t, err)
			set.HTTPClient, set.EndpointLocator = known.HTTPClient, known.EndpointLocator
			set.SetToken(known.Token())
			w.connect(t, set, spawn.WithConfig(spawn.Config{Compat: tt.compat}))
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
			result, err := w.flow.Run(t.Context(), req)
			settled(t, err)
			if got := result.ARQs[0].ProjectID; got != req.ProjectID {
				t.Errorf("%+v: the ARQ is of project %s, want %s", tt, got, req.ProjectID)
			}
			w.checkPromise(t, result, nil)
		})
	}
}
