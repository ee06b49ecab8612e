package simcloud

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// Flow is what a drill runs: something that gives accelerators to guests of a cloud,
// takes them away, or moves them. Whatever it plays of Nova it does on the cloud: it
// defines the guest when it succeeds ([Cloud.DefineGuest]) and removes the guests that
// it deletes.
type Flow func(ctx context.Context, cloud *Cloud) error

// DrillOption changes how [Drill] works.
type DrillOption func(*drill)

// DrillModel is the world of every run; the default is that of [DefaultModel].
func DrillModel(m Model) DrillOption { return func(d *drill) { d.model = m } }

// DrillSetup is done before the flow in every run, without faults: the guests that are
// to be deleted, moved or started again by the flow.
func DrillSetup(setup Flow) DrillOption { return func(d *drill) { d.setup = setup } }

// DrillSeed decides which faults are sampled; the default is 1.
func DrillSeed(seed uint64) DrillOption { return func(d *drill) { d.seed = seed } }

// DrillSingles is how many of the single faults are tried, sampled by the seed. The
// default, and any negative number, is all of them.
func DrillSingles(n int) DrillOption { return func(d *drill) { d.singles = n } }

// DrillPairs is how many pairs of faults are tried, sampled by the seed. A negative number
// is all of them: each single fault with each way to fail of all that took place in its
// run, which are some hundreds for each. The default is none.
func DrillPairs(n int) DrillOption { return func(d *drill) { d.pairs = n } }

// DrillKinds are the ways in which each request is made to fail: rules without
// operation, subject and count. The default is each action, before and after the change
// where both are possible. A kind that an operation cannot fail in is passed over, and
// an agent that drops something is silent for five seconds if the kind has no delay: for
// good, nobody could clean up on its host.
func DrillKinds(kinds ...fault.Rule) DrillOption { return func(d *drill) { d.kinds = kinds } }

// DrillFaults makes one run, with these faults: that of a failing case, to look at it.
func DrillFaults(rules ...fault.Rule) DrillOption { return func(d *drill) { d.only = rules } }

// DrillTimeout is how long the flow's context lasts, in the virtual time of the run. The
// default is an hour.
func DrillTimeout(timeout time.Duration) DrillOption {
	return func(d *drill) { d.timeout = timeout }
}

// DrillSettle is how long, in virtual time, a run waits after the flow before the cloud
// is judged, so that what two faults delayed can come to its end. The default is twenty
// minutes. Then the agents report once, as they do every minute: they tidy up what they
// could not before.
func DrillSettle(settle time.Duration) DrillOption { return func(d *drill) { d.settle = settle } }

// Drill runs a flow again and again, each time with something else failing, and checks
// after every run what users of accelerators rely on: a flow that succeeded left every
// guest with all of its accelerators, bound and in its domain XML (handles of type
// TEST_PCI have no device), and as many guests and accelerators as without a fault; a
// flow that failed left nothing that no guest owns, and no guest that was not there
// before.
//
// It runs the flow undisturbed, twice to see whether it repeats itself, and watches which requests, events and operations of
// the hosts take place, then once for each of these and each kind of fault, then with
// pairs of faults ([DrillPairs]): the second is one of what took place after the first,
// cleaning up included. Each run is a parallel subtest with a fresh cloud in a bubble of
// testing/synctest, so waiting costs no time; the flow must not use the network, must
// heed its context, and must have ended its goroutines when it returns. Drill itself must
// be called outside a bubble.
//
// A case that fails shows its faults as a file for cysim serve --faults, and as a line
// for [DrillFaults]; those of a pair that it does not take are left out. With -v the test
// tells how far it has come. A flow that gives the cloud the same identifiers in every run, such
// as an instance's uuid, is disturbed at one subject at a time; any other one at every
// subject of an operation alike.
func Drill(t *testing.T, flow func(ctx context.Context, cloud *Cloud) error, opts ...DrillOption) {
	t.Helper()
	d := &drill{flow: flow, seed: 1, singles: -1, kinds: everyKind(), timeout: time.Hour, settle: 20 * time.Minute}
	for _, opt := range opts {
		opt(d)
	}
	var undisturbed outcome
	d.run(t, d.only, &undisturbed)
	if len(d.only) > 0 {
		return
	}
	d.want, d.routes, d.actions = &undisturbed.holding, undisturbed.routes, undisturbed.actions
	var again outcome
	d.run(t, nil, &again)
	d.repeats = slices.Equal(undisturbed.places, again.places)
	singles := d.sampleSingles(undisturbed.places)
	outcomes := d.runAll(t, "single", singles)
	pairs := d.samplePairs(singles, outcomes)
	outcomes = append(outcomes, d.runAll(t, "pair", pairs)...)
	t.Logf("drill: %d places where the flow can fail; %s", len(undisturbed.places), d.summary(len(singles), len(pairs), outcomes))
}

// drill is what the options make.
type drill struct {
	flow    Flow
	model   Model
	setup   Flow
	seed    uint64
	singles int
	pairs   int
	kinds   []fault.Rule
	only    []fault.Rule
	timeout time.Duration
	settle  time.Duration
	want    *holding        // what the undisturbed flow leaves; nil before it ran
	routes  map[string]bool // the operations that are requests
	actions map[string][]fault.Action
	repeats bool // the flow names the same subjects in every run
}

// runAll makes one parallel subtest of each case and returns their outcomes, in order.
func (d *drill) runAll(t *testing.T, group string, cases [][]fault.Rule) []outcome {
	outcomes := make([]outcome, len(cases))
	if len(cases) == 0 {
		return outcomes
	}
	t.Logf("drill: %d %s faults on %d cores", len(cases), group, runtime.GOMAXPROCS(0))
	done := progress{all: len(cases), tell: func(n, bad int) {
		t.Logf("drill: %d of %d %s faults tried, %d cases are wrong", n, len(cases), group, bad)
	}}
	t.Run(group, func(t *testing.T) {
		for i, rules := range cases {
			t.Run(caseName(rules), func(t *testing.T) {
				t.Parallel()
				d.run(t, rules, &outcomes[i])
				done.add(outcomes[i].problem != "")
			})
		}
	})
	return outcomes
}

// progress tells after each tenth of the cases how many are done.
type progress struct {
	all  int
	tell func(done, bad int)

	mu        sync.Mutex
	done, bad int
}

func (p *progress) add(bad bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if bad {
		p.bad++
	}
	const parts = 10
	if p.done*parts/p.all > (p.done-1)*parts/p.all {
		p.tell(p.done, p.bad)
	}
}

// summary counts what happened.
func (d *drill) summary(singles, pairs int, outcomes []outcome) string {
	var succeeded, failed, unmet, bad int
	for _, o := range outcomes {
		switch {
		case o.problem != "":
			bad++
		case o.err != nil:
			failed++
		default:
			succeeded++
		}
		if !o.met {
			unmet++
		}
	}
	return fmt.Sprintf("%d single faults and %d pairs: the flow succeeded %d times and failed cleanly %d times, %d cases are wrong; "+
		"in %d cases not all faults were met", singles, pairs, succeeded, failed, bad, unmet)
}
