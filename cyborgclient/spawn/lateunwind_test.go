package spawn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// unwindAll unwinds an attempt and checks that nothing remains.
func unwindAll(t *testing.T, a *spawn.Attempt) {
	t.Helper()
	if _, left := a.Unwind(t.Context()); len(left) > 0 {
		t.Errorf("leftovers: %v", left)
	}
}

// handOver runs an attempt up to its handover and returns the attempts of both processes.
func (w *world) handOver(t *testing.T, req spawn.Request) (conductor, compute *spawn.Attempt) {
	t.Helper()
	conductor, err := w.flow.Begin(t.Context(), req)
	settled(t, err)
	return conductor, w.handedOver(t, conductor)
}

// handedOver runs an attempt up to its handover and returns the attempt of the compute side.
func (w *world) handedOver(t *testing.T, conductor *spawn.Attempt) (compute *spawn.Attempt) {
	t.Helper()
	data := conducted(t, conductor)
	w.restart(t)
	compute, err := w.resume(t, data)
	settled(t, err)
	w.restart(t)
	return compute
}

// notTaken checks that an unwinding did not touch the allocation of a later attempt, and named it. A handover names
// the later ARQs, too.
func (w *world) notTaken(t *testing.T, held []string, left []spawn.Leftover) {
	t.Helper()
	left = slices.DeleteFunc(slices.Clone(left), func(l spawn.Leftover) bool { return l.Kind == spawn.LeftoverARQ && !l.Certain })
	wantKinds(t, left, spawn.LeftoverAllocation)
	if len(left) > 0 && (left[0].Certain || left[0].Err == nil) {
		t.Errorf("leftovers: %+v, want a suspect with its cause", left[0])
	}
	if diff := cmp.Diff(held, w.held(instance)); diff != "" {
		t.Errorf("allocation (-before +after):\n%s", diff)
	}
}

// A consumer that is created again starts with the same generation, and the same candidate may be claimed again. Only
// the ARQs show that the allocation belongs to a later attempt.
func TestALateUnwindLeavesTheAllocationOfALaterAttempt(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *world) (late *spawn.Attempt){
		"a handover that was given up": func(t *testing.T, w *world) *spawn.Attempt {
			conductor, compute := w.handOver(t, request("gpu"))
			unwindAll(t, conductor)
			return compute
		},
		"an attempt whose instance another agent released": func(t *testing.T, w *world) *spawn.Attempt {
			a := w.begin(t, instance)
			settled(t, walk(t.Context(), a.Match, a.Bind))
			w.restart(t)
			settled(t, w.flow.Release(t.Context(), instance))
			return a
		},
		"an attempt without ARQs yet": func(t *testing.T, w *world) *spawn.Attempt {
			a := w.beginCreate(t, instance)
			w.restart(t)
			settled(t, w.flow.Release(t.Context(), instance))
			return a
		},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			late := begin(t, w)
			result, err := w.flow.Run(t.Context(), request("gpu"))
			settled(t, err)
			held := w.held(instance)
			for range 2 {
				_, left := late.Unwind(t.Context())
				w.notTaken(t, held, left)
			}
			w.checkPromise(t, result, nil)
		})
	}
}

// The later attempt has the same host with other devices, or no ARQs yet.
func TestALateUnwindTakesOnlyWhatIsLikeItsClaim(t *testing.T) {
	t.Parallel()
	bubble(t, "more resources", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		a := w.begin(t, instance)
		w.restart(t)
		settled(t, w.flow.Release(t.Context(), instance))
		req := request("gpu")
		req.Flavor.VCPUs++
		result, err := w.flow.Run(t.Context(), req)
		settled(t, err)
		held := w.held(instance)
		_, left := a.Unwind(t.Context())
		w.notTaken(t, held, left)
		w.checkPromise(t, result, nil)
	})
	bubble(t, "an older generation", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
		settled(t, err)
		conductor, err := w.flow.BeginAdding(t.Context(), request("gpu"))
		settled(t, err)
		compute := w.handedOver(t, conductor)
		same := w.cloud.Placement.Allocations()
		unwindAll(t, conductor)
		w.write(t, same) // the claim of a later attempt
		held := w.held(instance)
		_, left := compute.Unwind(t.Context())
		w.notTaken(t, held, left)
	})
}

func TestARescheduleLeavesTheAllocationOfAnotherAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		slow := w.flow
		w.restart(t)
		req := request("gpu")
		var result *spawn.Result
		req.Hooks.Claim = func(ctx context.Context, _ *spawn.Attempt) (err error) {
			settled(t, w.flow.Release(ctx, instance))
			result, err = w.flow.Run(ctx, request("gpu"))
			settled(t, err)
			return errHook
		}
		_, err := slow.Run(t.Context(), req)
		if !errors.Is(err, spawn.ErrClaim) || result == nil {
			t.Fatalf("got %v, want ErrClaim", err)
		}
		wantKinds(t, failureOf(t, err).Leftovers, spawn.LeftoverAllocation)
		w.checkPromise(t, result, nil)
	})
}

// If another agent has released the claim, the instance was deleted, and gets no devices of the next host.
func TestARescheduleLeavesAnInstanceThatWasReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		slow := w.flow
		w.restart(t)
		req := request("gpu")
		req.Hooks.Claim = func(ctx context.Context, _ *spawn.Attempt) error {
			settled(t, w.flow.Release(ctx, instance))
			return errHook
		}
		result, err := slow.Run(t.Context(), req)
		if !errors.Is(err, spawn.ErrClaim) || errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("got %v, want ErrClaim", err)
		}
		w.checkPromise(t, result, err)
	})
}

// Two agents attach a device to a running instance. The agent whose bind is refused releases its own device.
func TestARefusedAttachmentLeavesTheDeviceOfAnotherAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: raceModel(1, 2)})
		_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
		settled(t, err)
		req := request("gpu")
		a, err := w.flow.BeginAdding(t.Context(), req)
		settled(t, err)
		settled(t, walk(t.Context(), a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select))
		w.restart(t)
		b, err := w.flow.BeginAdding(t.Context(), req)
		settled(t, err)
		settled(t, walk(t.Context(), b.ReadProfile, b.BuildRequest, b.FindCandidates, b.Select))
		settled(t, walk(t.Context(), a.Claim, a.CreateARQs, a.Match))
		settled(t, walk(t.Context(), b.Claim, b.CreateARQs, b.Match, b.Bind, b.WaitBound, b.Compose))
		result := b.Result()
		if err := a.Bind(t.Context()); err == nil {
			t.Fatal("the second bind is accepted")
		}
		unwindAll(t, a)
		w.checkPromise(t, result, nil)
	})
}
