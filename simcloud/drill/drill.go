package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Flow is what a drill runs: it gives accelerators to guests of a cloud, takes them away
// or moves them. It defines the guest when it succeeds ([simcloud.Cloud.DefineGuest]) and
// removes the guests that it deletes.
type Flow func(ctx context.Context, cloud *simcloud.Cloud) error

// Config says which faults a drill tries, and on which cloud. The zero value tries every
// single fault on the default model.
type Config struct {
	// Model is the cloud of every run.
	Model simcloud.Model
	// Setup runs before the flow in every run, without faults. It defines the guests that
	// the flow deletes, moves or starts again.
	Setup Flow
	// Names, if set, reports whether what a run left is named: by the flow's error, or by the
	// agent as something that may still be there. What is named may be there until Recover
	// ran; nil: nothing may be left.
	Names func(cloud *simcloud.Cloud, flowErr error, left simcloud.Leak) bool
	// Recover, if set, runs without faults once everything that was delayed has come true. It
	// frees what the flow left, as an agent does after a crash.
	Recover Flow
	// Bystander, if set, is part of the User-Agent of another agent on the cloud: its requests
	// are not made to fail.
	Bystander string
	// Seed selects the samples; zero means 1.
	Seed uint64
	// Singles is how many of the single faults are tried, sampled by the seed; zero means
	// all.
	Singles int
	// Pairs is how many pairs of faults are tried, sampled by the seed; a negative number
	// means all, which are some hundreds for each single fault.
	Pairs int
	// Within, if set, turns on the check of liveness. Once the faults have ended, that is after
	// the time that the flow takes without faults and the delays of the rules, the flow has to
	// return within this virtual time. In the end, after Recover, every device of every host that
	// can be given to an instance after the undisturbed flow can be so again.
	Within time.Duration
	// Faults, if set, are the faults of the only case that is run, to repeat a failure. The
	// environment variable [FaultsVariable] sets them, too.
	Faults []fault.Rule
	// Timeout limits the context of the flow, in virtual time; zero means an hour.
	Timeout time.Duration
}

// settle is how long, in virtual time, a run waits after the flow. Requests that two faults
// delayed end in this time, and an ARQ of a late request is old enough to be an orphan
// (spawn.ReconcileOpts.MinAge). Then the agents report once, as they do every minute, and clean
// up what they could not before.
const settle = 30 * time.Minute

// Run runs a flow again and again, each time with a different fault, and checks after
// every run that nothing is lost, unnamed or leaked. Lost: a guest lacks an accelerator that
// is bound and in its domain XML (handles of type TEST_PCI have no device), a flow that
// succeeded left fewer guests or accelerators than without a fault, or one that failed left a
// new guest. Unnamed: something belongs to no guest, and Config.Names does not know it.
// Leaked: it is still there after Config.Recover, which takes nothing from guests.
//
// Run first runs the flow without faults, twice to see whether it repeats itself, and
// records which requests, events and operations of the hosts occur. A flow in which none
// occurs fails, because the drill would prove nothing. It then makes one run
// for each of these and each way to fail, and after that one for each pair of faults
// (Config.Pairs): the second fault is in something that followed the first, cleaning up
// included. Each run is a parallel subtest with a fresh cloud in a bubble of
// testing/synctest, so waiting costs no time; the flow must not use the network, must
// heed its context, and must have ended its goroutines when it returns. Run itself must
// be called outside a bubble.
//
// A failing case prints the command that repeats it alone, without the faults of a pair that are
// not needed: go test -run with the caller's test, and the faults in [FaultsVariable]. What is not
// the cloud's can fail, too, such as the calls of a hypervisor: register it in Config.Setup
// ([fault.Set.RegisterWork]). With -v the test logs its progress. A
// flow that names the same identifiers in every run, such as an instance's uuid, meets its
// faults at one subject at a time; any other flow at every subject of an operation.
//
// Run returns a summary. A test can use it to check that each of its drills tries something.
func Run(t *testing.T, flow func(ctx context.Context, cloud *simcloud.Cloud) error, config Config) Summary {
	t.Helper()
	if text := os.Getenv(FaultsVariable); text != "" {
		config.Faults = []fault.Rule{}
		if err := json.Unmarshal([]byte(text), &config.Faults); err != nil {
			t.Fatalf("drill: %s: %v", FaultsVariable, err)
		}
	}
	d := newDrill(flow, config)
	d.caller = callerOf(t.Name())
	var undisturbed outcome
	d.run(t, nil, &undisturbed)
	d.want, d.actions, d.changes = &undisturbed.usage, undisturbed.actions, undisturbed.changes
	d.took, d.filled, d.untouched = undisturbed.took, undisturbed.filled, undisturbed.untouched
	if d.Faults != nil {
		if len(d.Faults) == 0 {
			return Summary{}
		}
		var only outcome
		d.run(t, d.Faults, &only)
		return count([]outcome{only})
	}
	var repeated outcome
	d.run(t, nil, &repeated)
	d.repeats = slices.Equal(undisturbed.occurrences, repeated.occurrences)
	singles := d.sampleSingles(undisturbed.occurrences)
	outcomes := d.runAll(t, "single", singles)
	pairs := d.samplePairs(singles, outcomes)
	outcomes = append(outcomes, d.runAll(t, "pair", pairs)...)
	logf(t, "drill: the flow can fail in %s; %s", plural.Count(len(undisturbed.occurrences), "place"), summary(len(singles), len(pairs), outcomes))
	return count(outcomes)
}

// Summary counts what a drill has tried.
type Summary struct {
	// Runs is the number of runs with a fault or a pair of faults.
	Runs int
	// Fired is the number of faults in these runs that had an effect. A fault has no effect if
	// the run does not reach its operation, because of another fault or by chance.
	Fired int
}

func count(outcomes []outcome) Summary {
	sum := Summary{Runs: len(outcomes)}
	for _, o := range outcomes {
		sum.Fired += o.fired
	}
	return sum
}

// logf logs progress if enabled. In the log of a failing test it would hide the failure.
func logf(t *testing.T, format string, args ...any) {
	t.Helper()
	if testing.Verbose() {
		t.Logf(format, args...)
	}
}

// drill is a configured drill with what its first runs showed.
type drill struct {
	Config
	flow      Flow
	want      *usage                               // what the undisturbed flow leaves; nil before it ran
	actions   map[sim.OperationName][]fault.Action // what can happen to each operation
	changes   map[sim.OperationName]bool           // the requests other than GET, by operation
	repeats   bool                                 // the flow names the same subjects in every run
	took      time.Duration                        // by the undisturbed flow
	filled    map[string]int                       // how many devices of each deployable can be in use after it
	untouched map[string]bool                      // the guests that it leaves as they were
	caller    caller
}

func newDrill(flow Flow, config Config) *drill {
	if config.Seed == 0 {
		config.Seed = 1
	}
	if config.Timeout == 0 {
		config.Timeout = time.Hour
	}
	return &drill{Config: config, flow: flow}
}

// runAll makes one parallel subtest of each case and returns their outcomes, in order.
func (d *drill) runAll(t *testing.T, group string, cases [][]fault.Rule) []outcome {
	outcomes := make([]outcome, len(cases))
	if len(cases) == 0 {
		return outcomes
	}
	logf(t, "drill: %d %s faults on %s", len(cases), group, plural.Count(runtime.GOMAXPROCS(0), "core"))
	done := progress{all: len(cases), report: func(n, failed int) {
		logf(t, "drill: %d of %d %s faults tried, %d failed", n, len(cases), group, failed)
	}}
	t.Run(group, func(t *testing.T) {
		for i, rules := range cases {
			t.Run(caseName(rules), func(t *testing.T) {
				t.Parallel()
				d.run(t, rules, &outcomes[i])
				done.add(outcomes[i].problem != "")
				outcomes[i].shrink()
			})
		}
	})
	return outcomes
}

// progress reports after each tenth of the cases how many are done and how many failed.
type progress struct {
	all    int
	report func(done, failed int)

	mu           sync.Mutex
	done, failed int
}

func (p *progress) add(failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if failed {
		p.failed++
	}
	const parts = 10
	if p.done*parts/p.all > (p.done-1)*parts/p.all {
		p.report(p.done, p.failed)
	}
}

// summary counts the outcomes.
func summary(singles, pairs int, outcomes []outcome) string {
	var succeeded, unwound, unfired, failed, lost, unnamed, leaked, stuck int
	for _, o := range outcomes {
		switch {
		case o.problem != "":
			failed++
		case o.err != nil:
			unwound++
		default:
			succeeded++
		}
		for count, counts := range map[*int]bool{&unfired: o.fired < len(o.rules), &lost: o.lost, &unnamed: o.unnamed, &leaked: o.leaked, &stuck: o.stuck} {
			if counts {
				*count++
			}
		}
	}
	return fmt.Sprintf("%s and %s: the flow succeeded %s and failed cleanly %s, %d failed (%d lost, %d unnamed, %d leaked, %d stuck); %s in which a fault never fired",
		plural.Count(singles, "single fault"), plural.Count(pairs, "pair"), plural.Count(succeeded, "time"), plural.Count(unwound, "time"),
		failed, lost, unnamed, leaked, stuck, plural.Count(unfired, "case"))
}
