package simcloud

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// place is one thing that took place in a run and can be made to fail: the nth
// occurrence of an operation on a subject.
type place struct {
	operation, subject string
	nth                int
}

// everyKind is each way to fail. A delay is longer than the timeouts of Nova and Cyborg,
// 300 and 60 seconds; a host is back before a flow has to give up cleaning up.
func everyKind() []fault.Rule {
	return []fault.Rule{
		{Action: fault.Status, Status: http.StatusInternalServerError},
		{Action: fault.Status, Status: http.StatusServiceUnavailable},
		{Action: fault.Status, Status: http.StatusConflict},
		{Action: fault.Status, Status: http.StatusInternalServerError, When: fault.After},
		{Action: fault.Drop},
		{Action: fault.Drop, When: fault.After},
		{Action: fault.Truncate},
		{Action: fault.Malformed},
		{Action: fault.Delay, Delay: 7 * time.Minute},
		{Action: fault.Delay, Delay: 7 * time.Minute, When: fault.After},
		{Action: fault.SlowBody, Delay: 7 * time.Minute},
		{Action: fault.Duplicate},
		{Action: fault.Reorder},
		{Action: fault.Reboot, Delay: away},
		{Action: fault.Reboot, Delay: away, When: fault.After},
	}
}

// away is how long a host, or its agent, is gone: so short a time that a flow which tries
// to clean up for a while succeeds.
const away = 5 * time.Second

// fitted is a kind as it is tried with an operation. Nobody can clean up on a host whose
// agent is silent for good, and that nothing is left behind is more than can be asked of
// anybody then: so agents are silent for a while. A flow that is to stand more stops the
// host itself ([Cloud.StopHost]).
func fitted(kind fault.Rule, operation string) fault.Rule {
	if strings.HasPrefix(operation, "accelerator.agent.") && kind.Action == fault.Drop && kind.Delay == 0 {
		kind.Delay = away
	}
	kind.Operation = operation
	return kind
}

// possible reports whether an operation can fail in a way. What is no request has no
// status of its own, so that one stands for all.
func (d *drill) possible(r fault.Rule) bool {
	if !slices.Contains(d.actions[r.Operation], r.Action) {
		return false
	}
	return d.routes[r.Operation] || r.Action != fault.Status || r.Status == http.StatusInternalServerError
}

// actions are what can happen to each operation.
func (c *Cloud) actions() map[string][]fault.Action {
	actions := make(map[string][]fault.Action)
	for _, o := range c.faults.Describe() {
		actions[o.Name] = o.Actions
	}
	return actions
}

// routes are the operations that are requests.
func (c *Cloud) routes() map[string]bool {
	routes := make(map[string]bool)
	for _, r := range c.otherRoutes() {
		routes[r.Operation] = true
	}
	for _, r := range slices.Concat(c.identity.Service().Router.Routes(), c.compute.Service().Router.Routes(), c.images.Service().Router.Routes()) {
		routes[r.Operation] = true
	}
	return routes
}

// sampleSingles makes a case of each place and kind, or of as many as are wanted.
func (d *drill) sampleSingles(places []place) [][]fault.Rule {
	var cases [][]fault.Rule
	for _, p := range d.distinct(places) {
		for _, r := range d.failures(p) {
			cases = append(cases, []fault.Rule{r})
		}
	}
	if d.singles >= 0 && d.singles < len(cases) {
		d.random("singles").Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = cases[:d.singles]
	}
	return cases
}

// failures are the ways in which a place can fail. The subject is named only if it is the
// same in every run.
func (d *drill) failures(p place) []fault.Rule {
	subject := ""
	if d.repeats {
		subject = p.subject
	}
	var rules []fault.Rule
	for _, kind := range d.kinds {
		kind = fitted(kind, p.operation)
		kind.Subject, kind.Nth = subject, p.nth
		if d.possible(kind) {
			rules = append(rules, kind)
		}
	}
	return rules
}

// distinct leaves out the places that the same rule would disturb.
func (d *drill) distinct(places []place) []place {
	if d.repeats {
		return places
	}
	var list []place
	for _, p := range places {
		p.subject = ""
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// samplePairs joins single faults with what took place in their runs. Those that are
// wrong alone are in no pair.
func (d *drill) samplePairs(singles [][]fault.Rule, outcomes []outcome) [][]fault.Rule {
	if d.pairs == 0 {
		return nil
	}
	var all [][]fault.Rule
	for i, single := range singles {
		if outcomes[i].problem != "" {
			continue
		}
		for _, p := range d.distinct(outcomes[i].places) {
			if p.operation == single[0].Operation && p.nth == max(single[0].Nth, 1) && (single[0].Subject == "" || single[0].Subject == p.subject) {
				continue // that is the first fault itself
			}
			for _, second := range d.failures(p) {
				all = append(all, []fault.Rule{single[0], second})
			}
		}
	}
	if d.pairs > 0 && d.pairs < len(all) {
		d.random("pairs").Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:d.pairs]
	}
	return all
}

// random is the same for a seed and a purpose, whatever was drawn before.
func (d *drill) random(purpose string) *rand.Rand {
	return rand.New(rand.NewPCG(d.seed, uint64(len(purpose))))
}

// caseName tells the faults in the name of a subtest.
func caseName(rules []fault.Rule) string {
	parts := make([]string, 0, len(rules))
	for _, r := range rules {
		when := r.When
		if r.Applied() {
			when = fault.After
		}
		part := fmt.Sprintf("%s#%d:%s", r.Operation, max(r.Nth, 1), r.Action)
		if r.Action == fault.Status {
			part += fmt.Sprint(r.Status)
		}
		if r.Subject != "" {
			part += "@" + r.Subject
		}
		if when != "" {
			part += ":" + string(when)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "+")
}
