package spawn_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// spawnAndRelease spawns an instance, waits, and releases it.
func spawnAndRelease(t *testing.T, cloud *simcloud.Cloud, flow *spawn.Flow, age time.Duration) {
	t.Helper()
	result, err := flow.Run(t.Context(), request("gpu"))
	settled(t, err)
	settled(t, cloud.DefineGuest(sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}))
	time.Sleep(age)
	cloud.RemoveGuest(result.Instance)
	settled(t, flow.Release(t.Context(), result.Instance))
	cloud.CheckNoLeaks(t)
}

// An agent runs for months; its tokens, the service's included, last an hour.
func TestAnAgentOutlivesItsTokens(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{2 * time.Hour, 24 * time.Hour} {
		bubble(t, age.String(), func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			spawnAndRelease(t, w.cloud, w.flow, age)
			spawnAndRelease(t, w.cloud, w.flow, 0)
		})
	}
}

func TestAServiceTokenThatExpiresBeforeTheUsersIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		service := cloud.ServiceProvider(t)
		time.Sleep(50 * time.Minute)
		spawnAndRelease(t, cloud, flowOf(t, cloud.Provider(t), service), 15*time.Minute)
	})
}

// The restored Keystone rejects the tokens as unknown, and then issues the same tokens again.
func TestAFlowOutlivesTheRestoreOfItsCloud(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	state, err := cloud.Dump()
	settled(t, err)
	flow := flowOf(t, cloud.Provider(t), cloud.ServiceProvider(t))
	settled(t, cloud.Load(state))
	spawnAndRelease(t, cloud, flow, 0)
}

// flowOf makes a flow that polls.
func flowOf(t *testing.T, provider, service *gophercloud.ProviderClient) *spawn.Flow {
	t.Helper()
	flow, err := spawn.NewFromProvider(provider, spawn.WithServiceProvider(service))
	settled(t, err)
	return flow
}

// If the project of the token is unknown, as for a token that the caller has set, the project and the user come from
// the request.
func TestATokenWithoutAProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.connect(t, withSetToken(t, w.cloud.Provider(t)))
	for _, owner := range [][2]string{{"", ""}, {"p", ""}, {"", "u"}, {"p", "u"}} {
		req := request("gpu")
		req.ProjectID, req.UserID = owner[0], owner[1]
		whole := owner[0] != "" && owner[1] != ""
		a, err := w.flow.Begin(t.Context(), req)
		if whole != (err == nil) || !whole && !errors.Is(err, spawn.ErrRequest) {
			t.Errorf("project %q and user %q: got error %v", owner[0], owner[1], err)
		}
		if err == nil {
			a.Unwind(t.Context())
		}
	}
}
