package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// outcome is the result of one run of a flow.
type outcome struct {
	occurrences []occurrence // in the order of the run
	fired       int          // how many of the faults had an effect
	err         error        // the flow's
	problem     string       // why the case failed; empty if it did not
	summary     string       // the cloud and its last requests, of a failed case
	usage       usage
	actions     map[sim.OperationName][]fault.Action
	changes     map[sim.OperationName]bool
	lost        bool
	unnamed     bool
	leaked      bool
	stuck       bool
	rules       []fault.Rule
	took        time.Duration   // by the flow
	filled      map[string]int  // how many devices of each deployable can be in use
	untouched   map[string]bool // the guests that the flow left as they were
}

// shrink drops what is not needed after a case has ended. The flow's error may reference its cloud.
func (o *outcome) shrink() {
	if o.err != nil {
		o.err = errors.New(o.err.Error())
	}
	o.summary, o.actions, o.changes, o.filled = "", nil, nil, nil
}

// usage is how much the guests of a cloud have.
type usage struct{ guests, accelerators int }

func (u usage) String() string {
	return plural.Count(u.guests, "guest") + " with " + plural.Count(u.accelerators, "bound accelerator")
}

// less reports whether something of what is wanted is missing. More may be left and named.
func (u usage) less(want usage) bool {
	return u.guests != want.guests || u.accelerators < want.accelerators
}

func usageOf(cloud *simcloud.Cloud) usage {
	u := usage{guests: len(cloud.Guests())}
	for _, a := range cloud.Cyborg.ARQs() {
		if a.State == fakecyborg.StateBound {
			u.accelerators++
		}
	}
	return u
}

// run makes one run in its own bubble. A problem fails the test, and the faults are reduced to
// those that cause it.
func (d *drill) run(t *testing.T, rules []fault.Rule, o *outcome) {
	t.Helper()
	*o = d.try(t, rules)
	if o.problem == "" {
		return
	}
	least, shown := d.reduce(t, rules, *o)
	text := shown.problem
	if len(least) < len(rules) {
		text = fmt.Sprintf("drill: %d of %d faults are enough:\n", len(least), len(rules)) + text
	}
	t.Errorf("%s", d.repeat(least)+text+shown.summary)
}

// reduce removes the faults that are not needed to make the run fail.
func (d *drill) reduce(t *testing.T, rules []fault.Rule, o outcome) ([]fault.Rule, outcome) {
	t.Helper()
	for i := 0; i < len(rules) && len(rules) > 1; {
		fewer := slices.Delete(slices.Clone(rules), i, i+1)
		if without := d.try(t, fewer); without.problem != "" {
			rules, o = fewer, without
			continue
		}
		i++
	}
	return rules, o
}

// try makes one run and does not fail the test for the flow's problems.
func (d *drill) try(t *testing.T, rules []fault.Rule) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t, d.Model)
		if d.Setup != nil {
			if err := d.Setup(t.Context(), cloud); err != nil {
				t.Fatalf("drill: setup: %v", err)
			}
		}
		o = d.runOn(t.Context(), cloud, rules)
		if o.problem != "" {
			o.summary = cloud.Summary()
		}
	})
	return o
}

// runOn runs the flow under faults and checks what it leaves.
func (d *drill) runOn(ctx context.Context, cloud *simcloud.Cloud, rules []fault.Rule) outcome {
	before := holdings(cloud)
	faults, seen := cloud.Faults(), &recorder{counts: make(map[occurrence]int)}
	faults.Observe(seen.record)
	o := outcome{rules: rules, actions: make(map[sim.OperationName][]fault.Action)}
	for _, operation := range faults.Describe() {
		o.actions[operation.Name] = operation.Actions
	}
	if err := faults.Set(rules...); err != nil {
		o.problem = fmt.Sprintf("drill: %v\n", err)
		return o
	}
	limited, cancel := context.WithTimeout(ctx, d.Timeout)
	began := time.Now()
	o.err = protected(limited, d.flow, cloud)
	o.took = time.Since(began)
	cancel()
	for _, state := range faults.Rules() {
		if state.Hits > 0 && slices.Contains(rules, state.Rule) { // the flow may have set others
			o.fired++
		}
	}
	faults.Observe(nil) // the flow has ended its goroutines
	faults.Clear()
	o.occurrences, o.changes = d.places(cloud, seen.order)
	time.Sleep(settle)           // virtual
	_ = cloud.Cyborg.Report(ctx) // a failure shows in what it leaves behind
	o.usage, o.untouched = usageOf(cloud), untouched(cloud, before)
	d.check(ctx, cloud, before, &o)
	return o
}

var errPanic = errors.New("the flow panicked")

// protected turns a panic into an error, so that the other runs continue.
func protected(ctx context.Context, flow Flow, cloud *simcloud.Cloud) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack())
		}
	}()
	return flow(ctx, cloud)
}

// holding is a guest with its bound accelerator requests, their devices, and its allocation. It
// is comparable.
type holding struct {
	guest sim.Guest
	has   string
}

// holdings returns the holdings of all guests, by UUID.
func holdings(cloud *simcloud.Cloud) map[string]holding {
	has := make(map[string][]string)
	for _, a := range cloud.Cyborg.ARQs() {
		if a.State == fakecyborg.StateBound {
			has[a.InstanceUUID] = append(has[a.InstanceUUID], a.UUID+" "+a.AttachHandleUUID)
		}
	}
	for _, a := range cloud.Placement.Allocations() {
		has[a.Consumer] = append(has[a.Consumer], fmt.Sprint(a.Class, ":", a.Used)) // a report may move it to another provider
	}
	all := make(map[string]holding)
	for _, g := range cloud.Guests() {
		slices.Sort(has[g.UUID])
		all[g.UUID] = holding{g, strings.Join(has[g.UUID], ", ")}
	}
	return all
}

// untouched are the guests that are as they were before, with all that they had.
func untouched(cloud *simcloud.Cloud, before map[string]holding) map[string]bool {
	same := make(map[string]bool, len(before))
	for uuid, now := range holdings(cloud) {
		if before[uuid] == now {
			same[uuid] = true
		}
	}
	return same
}

// checkUntouched reports guests that were removed or changed although the flow without faults
// does not touch them. Guests whose UUIDs differ between runs are only counted.
func (d *drill) checkUntouched(cloud *simcloud.Cloud, before map[string]holding, o *outcome) (problems []string) {
	same := untouched(cloud, before)
	for _, uuid := range slices.Sorted(maps.Keys(before)) {
		if d.untouched[uuid] && !same[uuid] {
			problems = append(problems, fmt.Sprintf("guest %s was removed or changed, or its devices were; the flow without faults does not touch it", uuid))
		}
	}
	if len(problems) == 0 && len(same) < len(d.untouched) {
		problems = append(problems, fmt.Sprintf("%s of the setup left alone, want %d as without faults", plural.Count(len(same), "guest"), len(d.untouched)))
	}
	o.lost = o.lost || len(problems) > 0
	return problems
}

// check reports what is wrong after a run, if anything.
func (d *drill) check(ctx context.Context, cloud *simcloud.Cloud, before map[string]holding, o *outcome) {
	var problems []string
	if errors.Is(o.err, errPanic) {
		problems = append(problems, o.err.Error())
	}
	for _, g := range cloud.Guests() {
		if _, known := before[g.UUID]; o.err != nil && !known {
			o.lost = true
			problems = append(problems, fmt.Sprintf("the flow failed, but the guest %s is on host %q", g.UUID, g.Host))
		}
	}
	if d.misses(o, o.usage) {
		o.lost = true
		problems = append(problems, fmt.Sprintf("the flow succeeded, but left %s instead of %s", o.usage, *d.want))
	}
	if d.want == nil && o.err != nil {
		problems = append(problems, "the flow fails without any fault")
	}
	if d.want == nil && len(o.occurrences) == 0 {
		problems = append(problems, "the flow sends no requests to the cloud: the drill proves nothing")
	}
	problems = append(problems, d.checkLeaks(ctx, cloud, o)...)
	problems = append(problems, d.checkUntouched(cloud, before, o)...)
	problems = append(problems, d.checkEnd(ctx, cloud, o)...)
	for _, host := range cloud.HostNames() {
		problems = append(problems, checkWrites(host, cloud.Written(host))...)
	}
	if len(problems) == 0 {
		return
	}
	result := "succeeded"
	switch {
	case errors.Is(o.err, errPanic):
		result = "panicked"
	case o.err != nil:
		result = "failed: " + o.err.Error()
	}
	o.problem = fmt.Sprintf("drill: the flow %s\n  %s\n", result, strings.Join(problems, "\n  "))
}

// checkLeaks says what is lost or unnamed, and what leaks after the recovery.
func (d *drill) checkLeaks(ctx context.Context, cloud *simcloud.Cloud, o *outcome) (problems []string) {
	for _, l := range cloud.Leaks() {
		switch {
		case l.Kind == simcloud.LeakGuest:
			o.lost = true
			problems = append(problems, l.Text)
		case d.Names == nil:
			o.leaked = true
			problems = append(problems, l.Text)
		case !d.Names(cloud, o.err, l):
			o.unnamed = true
			problems = append(problems, "unnamed: "+l.Text)
		}
	}
	if d.Recover == nil {
		return problems
	}
	if err := protected(ctx, d.Recover, cloud); err != nil {
		problems = append(problems, "the recovery failed: "+err.Error())
	}
	for _, l := range cloud.Leaks() {
		switch {
		case l.Kind != simcloud.LeakGuest:
			o.leaked = true
		case slices.Contains(problems, l.Text):
			continue
		default:
			o.lost = true
		}
		problems = append(problems, "after the recovery: "+l.Text)
	}
	if left := usageOf(cloud); d.misses(o, left) && !d.misses(o, o.usage) {
		o.lost = true
		problems = append(problems, fmt.Sprintf("the recovery left %s instead of %s", left, *d.want))
	}
	return problems
}

// misses reports whether something is missing of what a flow that succeeded leaves.
func (d *drill) misses(o *outcome, left usage) bool {
	return o.err == nil && d.want != nil && left.less(*d.want)
}

// writable are the only files that a driver writes: they make and remove mediated devices, and set the
// types of vGPUs.
var writable = regexp.MustCompile(`^class/mdev_bus/[^/]+/mdev_supported_types/[^/]+/(create|devices/UUID/remove)$|` +
	`^bus/pci/devices/[0-9a-f:.]+/nvidia/current_vgpu_type$`)

// checkWrites says which files of a host should not have been written.
func checkWrites(host string, names []string) (problems []string) {
	for _, name := range names {
		if !writable.MatchString(name) {
			problems = append(problems, fmt.Sprintf("a driver of host %s wrote %s", host, name))
		}
	}
	return problems
}

// recorder collects the occurrences of a run.
type recorder struct {
	mu     sync.Mutex
	counts map[occurrence]int // by operation and subject
	order  []occurrence
}

func (r *recorder) record(operation sim.OperationName, subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := occurrence{operation: operation, subject: subject}
	r.counts[o]++
	o.nth = r.counts[o]
	r.order = append(r.order, o)
}

// places lists the occurrences that may fail, and which operations are requests that change
// something.
func (d *drill) places(cloud *simcloud.Cloud, seen []occurrence) (places []occurrence, changes map[sim.OperationName]bool) {
	counts, spared := make(map[occurrence]int), make(map[occurrence]bool)
	changes = make(map[sim.OperationName]bool)
	for _, r := range cloud.Requests() {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			changes[r.Operation] = true
		}
		o := occurrence{operation: r.Operation, subject: r.Subject}
		counts[o]++
		o.nth = counts[o]
		if d.Bystander != "" && strings.Contains(r.From, d.Bystander) {
			spared[o] = true
		}
	}
	for _, o := range seen {
		if !spared[o] {
			places = append(places, o)
		}
	}
	return places, changes
}
