package spawn_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// Another process unshelves or evacuates an instance between any two requests of an operation. It keeps what it
// claimed, and the operation fails.
func TestAnOperationLeavesConcurrentClaims(t *testing.T) {
	t.Parallel()
	type operation func(context.Context, *spawn.Operations, spawn.Instance, spawn.MoveOpts) error
	unshelve := func(ctx context.Context, o *spawn.Operations, i spawn.Instance, opts spawn.MoveOpts) error {
		i.Host, i.ARQs = "", nil
		_, err := o.Unshelve(ctx, i, opts)
		return err
	}
	evacuation := func(ctx context.Context, o *spawn.Operations, i spawn.Instance, opts spawn.MoveOpts) error {
		_, err := o.Evacuate(ctx, i, opts)
		return err
	}
	localDelete := func(ctx context.Context, o *spawn.Operations, i spawn.Instance, _ spawn.MoveOpts) error {
		return o.LocalDelete(ctx, i)
	}
	for _, tt := range []struct {
		name, profile   string
		run, concurrent operation
		isLost          bool // the host, or else the instance is shelved
	}{
		{"unshelve", "gpu", unshelve, unshelve, false},
		{"unshelve without accelerators", "", unshelve, unshelve, false},
		{"delete without accelerators", "", localDelete, evacuation, true},
		{"delete of a shelved instance", "gpu", func(ctx context.Context, o *spawn.Operations, i spawn.Instance, opts spawn.MoveOpts) error {
			i.Host, i.ARQs = "", nil
			return localDelete(ctx, o, i, opts)
		}, unshelve, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for n, more := int64(1), true; more; n++ {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, worldOpts{model: raceModel(3, 4)})
					req := request(tt.profile)
					if tt.profile == "" {
						req.Flavor.ExtraSpecs = nil
					}
					i := s.launchOn(t, "cn1", req)
					if tt.isLost {
						s.loseHost(t, "cn1")
					} else {
						settled(t, s.ops.ShelveOffload(t.Context(), i))
					}
					other := *s.world
					other.connect(t, s.cloud.Provider(t))
					ops, err := other.flow.On(s.guests).Operations()
					settled(t, err)
					more = false
					var first error
					s.intercept(t, &interceptor{n: n, before: func(*http.Request) {
						more = true
						first = tt.concurrent(t.Context(), ops, i, spawn.MoveOpts{Order: onHost(s.world, "cn2")})
					}}, spawn.Config{PlacementOrder: true})
					s.renew(t)
					err = tt.run(t.Context(), s.ops, i, spawn.MoveOpts{Order: onHost(s.world, "cn0")})
					_, runs := s.guests.runs[place{i.UUID, "cn2"}]
					if !more || first != nil || !runs {
						return
					}
					if err == nil {
						t.Errorf("before request %d: both operations succeed", n)
					}
					if len(s.held(i.UUID)) == 0 {
						t.Errorf("before request %d: the guest runs without an allocation: %v", n, err)
					}
					if tt.profile != "" && len(s.arqs(t, i)) == 0 {
						t.Errorf("before request %d: the guest runs without its ARQ: %v", n, err)
					}
				})
			}
		})
	}
}
