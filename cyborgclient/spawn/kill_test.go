package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
)

func TestNothingLeaksWhenTheCallerCancels(t *testing.T) {
	t.Parallel()
	const requests = 8 // of one spawn
	for n := int64(1); n <= requests; n++ {
		for _, when := range []string{"before", "after"} {
			bubble(t, fmt.Sprintf("%s request %d", when, n), func(t *testing.T) {
				w := newWorld(t, worldOpts{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				i := &interceptor{n: n}
				hook := func(*http.Request) { cancel() }
				if when == "before" {
					i.before = hook
				} else {
					i.after = hook
				}
				w.intercept(t, i, alone)
				result, err := w.flow.Run(ctx, request("mixed"))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v after %d requests, want Canceled", err, i.seen.Load())
				}
				w.checkPromise(t, result, err)
			})
		}
	}
}

func TestUnwindAfterEachStepLeavesNothing(t *testing.T) {
	t.Parallel()
	steps := []func(*spawn.Attempt, context.Context) error{
		(*spawn.Attempt).ReadProfile, (*spawn.Attempt).BuildRequest, (*spawn.Attempt).FindCandidates,
		(*spawn.Attempt).Select, (*spawn.Attempt).Claim, (*spawn.Attempt).CreateARQs, (*spawn.Attempt).Match,
		(*spawn.Attempt).Bind, (*spawn.Attempt).WaitBound, (*spawn.Attempt).Compose,
	}
	for n := range len(steps) + 1 {
		t.Run(fmt.Sprintf("%d steps", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{})
			attempt, err := w.flow.Begin(t.Context(), request("mixed"))
			settled(t, err)
			for _, step := range steps[:n] {
				settled(t, step(attempt, t.Context()))
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // the unwinding has a context of its own
			if _, leftovers := attempt.Unwind(ctx); len(leftovers) > 0 {
				t.Errorf("leftovers: %v", leftovers)
			}
			w.cloud.CheckNoLeaks(t)
			if undone, leftovers := attempt.Unwind(ctx); len(undone)+len(leftovers) > 0 {
				t.Errorf("a second unwinding did something: %v %v", undone, leftovers)
			}
		})
	}
}

func TestStepsCalledTooEarlyAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	guests := &guestFuncs{start: func(context.Context, sim.Guest) error {
		t.Error("a guest without a domain was started")
		return nil
	}}
	attempt, err := w.flow.On(guests).Begin(t.Context(), request("gpu"))
	settled(t, err)
	settled(t, attempt.ReadProfile(t.Context()))
	for i, step := range []func(context.Context) error{
		attempt.FindCandidates, attempt.Select, attempt.Claim, attempt.CreateARQs, attempt.Match, attempt.Bind, attempt.WaitBound, attempt.StartGuest,
	} {
		if err := step(t.Context()); !errors.Is(err, spawn.ErrOrder) {
			t.Errorf("step %d: got error %v, want ErrOrder", i, err)
		}
	}
	w.cloud.CheckNoLeaks(t)
}
