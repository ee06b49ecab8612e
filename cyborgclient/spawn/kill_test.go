package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// operations are those that one spawn uses, and which use of each is to fail.
// The second list of ARQs is only made after a wait.
var operations = []struct {
	name sim.OperationName
	nth  int
	slow bool // bind after a delay
}{
	{fault.DeviceProfileList, 1, false},
	{fault.AllocationCandidatesList, 1, false},
	{fault.ResourceProviderList, 1, false},
	{fault.AllocationsGet, 1, false},
	{fault.AllocationsPut, 1, false},
	{fault.ARQCreate, 1, false},
	{fault.ARQBind, 1, false},
	{fault.ARQBind, 1, true},
	{fault.ExternalEventsCreate, 1, false},
	{fault.ExternalEventsCreate, 1, true},
	{fault.ARQList, 1, false},
	{fault.ARQList, 1, true},
	{fault.ARQList, 2, true},
}

// kinds are the ways in which one request fails. Delays are longer than the
// caller waits.
var kinds = []fault.Rule{
	{Action: fault.Status, Status: 500},
	{Action: fault.Status, Status: 503},
	{Action: fault.Status, Status: 403},
	{Action: fault.Status, Status: 409},
	{Action: fault.Status, Status: 500, When: fault.After},
	{Action: fault.Status, Status: 503, When: fault.After},
	{Action: fault.Drop},
	{Action: fault.Drop, When: fault.After},
	{Action: fault.Truncate},
	{Action: fault.Malformed},
	{Action: fault.Delay, Delay: time.Hour},
	{Action: fault.Delay, Delay: time.Hour, When: fault.After},
}

// callerTimeout is longer than the binding timeout and shorter than the
// delays.
const callerTimeout = 20 * time.Minute

func killName(rule fault.Rule) string {
	when := rule.When
	if when == "" {
		when = fault.Before
	}
	if rule.Applied() {
		when = fault.After
	}
	return fmt.Sprintf("%s#%d/%s_%s_%d", rule.Operation, rule.Nth, rule.Action, when, rule.Status)
}

func TestDrillNothingLeaksWhicheverRequestFails(t *testing.T) {
	t.Parallel()
	for i, operation := range operations {
		for _, rule := range sampleOf(kinds, i) {
			rule.Operation, rule.Nth = operation.name, operation.nth
			var opts worldOpts
			name := killName(rule)
			if operation.slow {
				opts.model, name = slowModel(30*time.Second), "slow bind/"+name
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { runWithFaults(t, opts, "mixed", rule) })
			})
		}
	}
}

func TestDrillNothingLeaksWhenTheUnwindingFailsOnceToo(t *testing.T) {
	t.Parallel()
	unwinding := []sim.OperationName{fault.ARQDelete, fault.AllocationsPut, fault.ARQList, fault.AllocationsGet}
	for _, first := range []fault.Rule{
		{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After},
		{Operation: fault.ARQBind, Action: fault.Status, Status: 500, When: fault.After},
		{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After},
	} {
		for i, operation := range unwinding {
			for _, second := range sampleOf(kinds, i) {
				if second.Status == 403 || second.Action == fault.Delay {
					continue // refused for good, or beyond any patience: see the leftovers test
				}
				second.Operation = operation
				t.Run(string(first.Operation)+"/"+killName(second), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { runWithFaults(t, worldOpts{}, "gpu", first, second) })
				})
			}
		}
	}
}

// sampleOf is every step-th rule, another choice for each i.
func sampleOf(rules []fault.Rule, i int) []fault.Rule {
	var sample []fault.Rule
	for n := i % step; n < len(rules); n += step {
		sample = append(sample, rules[n])
	}
	return sample
}

func runWithFaults(t *testing.T, opts worldOpts, profile string, rules ...fault.Rule) {
	t.Helper()
	opts.config.ExclusiveProject = true // so that nothing at all may be left
	w := newWorld(t, opts)
	if err := w.cloud.Faults().Set(rules...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), callerTimeout)
	defer cancel()
	result, err := w.flow.Run(ctx, request(profile))
	for _, state := range w.cloud.Faults().Rules() {
		if state.Hits == 0 && len(rules) == 1 {
			t.Errorf("the fault never struck: %+v", state.Rule)
		}
	}
	w.cloud.Faults().Clear()
	w.checkPromise(t, result, err)
	if len(certainlyLeft(err)) > 0 {
		t.Errorf("reported as left behind although nothing is: %v", err)
	}
}

func TestNothingLeaksWhenTheCallerCancels(t *testing.T) {
	t.Parallel()
	const requests = 8 // of one spawn
	for n := int64(1); n <= requests; n++ {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s request %d", when, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
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
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range steps[:n] {
				if err := step(attempt, t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // the unwinding has a context of its own
			if _, leftovers := attempt.Unwind(ctx); len(leftovers) > 0 {
				t.Errorf("left behind: %v", leftovers)
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
	if err != nil {
		t.Fatal(err)
	}
	if err := attempt.ReadProfile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, step := range []func(context.Context) error{
		attempt.FindCandidates, attempt.Select, attempt.Claim, attempt.CreateARQs, attempt.Match, attempt.Bind, attempt.WaitBound, attempt.StartGuest,
	} {
		if err := step(t.Context()); !errors.Is(err, spawn.ErrOrder) {
			t.Errorf("step %d: got error %v, want ErrOrder", i, err)
		}
	}
	w.cloud.CheckNoLeaks(t)
}
