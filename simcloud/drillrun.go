package simcloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
)

// outcome is what one run of a flow came to.
type outcome struct {
	places  []place // in order of their first occurrence
	met     bool    // every fault took place
	err     error   // the flow's
	problem string  // why the case is wrong; empty if it is not
	scene   string  // the cloud and its last requests, if it is
	holding holding
	routes  map[string]bool
	actions map[string][]fault.Action
}

// holding is how much the guests of a cloud have.
type holding struct{ guests, accelerators int }

// run is one run in a bubble of its own. What is wrong fails the test, with as few of the
// faults as it takes.
func (d *drill) run(t *testing.T, rules []fault.Rule, o *outcome) {
	t.Helper()
	*o = d.try(t, rules)
	if o.problem == "" {
		return
	}
	least, shown := d.least(t, rules, *o)
	text := shown.problem
	if len(least) < len(rules) {
		text = fmt.Sprintf("drill: %d of %d faults do:\n", len(least), len(rules)) + text
	}
	t.Errorf("%s", text+d.again(least)+shown.scene)
}

// least leaves out the faults without which a run is wrong all the same.
func (d *drill) least(t *testing.T, rules []fault.Rule, o outcome) ([]fault.Rule, outcome) {
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

// try is one run that only looks.
func (d *drill) try(t *testing.T, rules []fault.Rule) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud, err := New(t.Context(), d.model)
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer func() {
			if err := cloud.Close(); err != nil {
				t.Errorf("simcloud: close: %v", err)
			}
		}()
		if d.setup != nil {
			if err := d.setup(t.Context(), cloud); err != nil {
				t.Fatalf("drill: setup: %v", err)
			}
		}
		o = d.runOn(t.Context(), cloud, rules)
		if o.problem != "" {
			o.scene = cloud.look().tree() + lastRequests(cloud.Requests())
		}
	})
	return o
}

// runOn disturbs the flow and judges what it leaves.
func (d *drill) runOn(ctx context.Context, cloud *Cloud, rules []fault.Rule) outcome {
	before := cloud.guestSet()
	watch := watchPlaces(cloud.faults)
	o := outcome{routes: cloud.routes(), actions: cloud.actions()}
	if err := cloud.faults.Set(rules...); err != nil {
		o.problem = fmt.Sprintf("drill: %v\n", err)
		return o
	}
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	o.err = protected(limited, d.flow, cloud)
	cancel()
	o.met = !slices.ContainsFunc(cloud.faults.Rules(), func(s fault.State) bool { return s.Hits == 0 })
	cloud.faults.Observe(nil)
	cloud.faults.Clear()
	o.places = watch.places()
	time.Sleep(d.settle)         // virtual
	_ = cloud.Cyborg.Report(ctx) // what does not work is seen by what it leaves
	o.holding = cloud.holding()
	o.problem = d.judge(cloud, before, o)
	return o
}

// errPanic is a flow that panicked.
var errPanic = errors.New("the flow panicked")

// protected makes an error of a panic, so that one run does not end the others.
func protected(ctx context.Context, flow Flow, cloud *Cloud) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack())
		}
	}()
	return flow(ctx, cloud)
}

// judge says what is wrong after a run, or nothing.
func (d *drill) judge(cloud *Cloud, before map[string]bool, o outcome) string {
	var faults []string
	if errors.Is(o.err, errPanic) {
		faults = append(faults, o.err.Error())
	}
	for _, l := range cloud.Leaks() {
		faults = append(faults, l.Text)
	}
	for _, g := range cloud.Guests() {
		if o.err != nil && !before[g.UUID] {
			faults = append(faults, fmt.Sprintf("the flow failed, but the guest %s is on host %s", g.UUID, orNone(g.Host)))
		}
	}
	if o.err == nil && d.want != nil && o.holding != *d.want {
		faults = append(faults, fmt.Sprintf("the flow succeeded, but there are %s instead of %s", o.holding, *d.want))
	}
	if d.want == nil && d.only == nil && o.err != nil {
		faults = append(faults, "the flow fails without any fault")
	}
	if len(faults) == 0 {
		return ""
	}
	result := "succeeded"
	switch {
	case errors.Is(o.err, errPanic):
		result = "panicked"
	case o.err != nil:
		result = "failed: " + o.err.Error()
	}
	return fmt.Sprintf("drill: the flow %s\n  %s\n", result, strings.Join(faults, "\n  "))
}

func (h holding) String() string {
	return fmt.Sprintf("%d guests with %d bound accelerators", h.guests, h.accelerators)
}

func (c *Cloud) holding() holding {
	h := holding{guests: len(c.Guests())}
	for _, a := range c.Cyborg.ARQs() {
		if a.State == fakecyborg.StateBound {
			h.accelerators++
		}
	}
	return h
}

func (c *Cloud) guestSet() map[string]bool {
	set := make(map[string]bool)
	for _, g := range c.Guests() {
		set[g.UUID] = true
	}
	return set
}

// again tells how to repeat a case.
func (d *drill) again(rules []fault.Rule) string {
	if len(rules) == 0 {
		return ""
	}
	file, err := json.Marshal(rules)
	if err != nil {
		return fmt.Sprintf("the faults cannot be written down: %v\n", err)
	}
	lines := make([]string, 0, len(rules))
	for _, r := range rules {
		lines = append(lines, fmt.Sprintf("%#v", r))
	}
	return fmt.Sprintf("as a file for cysim serve --faults:\n  %s\nas an option of the drill:\n  simcloud.DrillFaults(%s)\n",
		file, strings.Join(lines, ", "))
}

// watcher collects what takes place.
type watcher struct {
	mu    sync.Mutex
	seen  map[place]int
	order []place
}

func watchPlaces(faults *fault.Set) *watcher {
	w := &watcher{seen: make(map[place]int)}
	faults.Observe(func(operation, subject string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		p := place{operation: operation, subject: subject}
		w.seen[p]++
		p.nth = w.seen[p]
		w.order = append(w.order, p)
	})
	return w
}

func (w *watcher) places() []place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.order)
}
