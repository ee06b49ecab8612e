package drill

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// occurrence is something in a run that can be made to fail: the nth time that an
// operation acts on a subject.
type occurrence struct {
	operation, subject string
	nth                int
}

// everyKind lists the ways to fail, without operation and subject. A delay is longer than
// the timeouts of Nova and Cyborg, 300 and 60 seconds.
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

// away is how long a host, or its agent, is gone: short enough that a flow which tries to
// clean up for a while succeeds.
const away = 5 * time.Second

// failures lists the ways in which an occurrence can fail. The subject is named only if it
// is the same in every run.
//
// Agents are silent for a while and not for good, because nothing can be cleaned up on the
// host of a silent agent. A flow that has to stand more stops the host itself
// ([simcloud.Cloud.StopHost]).
func (d *drill) failures(o occurrence) []fault.Rule {
	var rules []fault.Rule
	for _, rule := range everyKind() {
		rule.Operation, rule.Nth = o.operation, o.nth
		if d.repeats {
			rule.Subject = o.subject
		}
		if strings.HasPrefix(o.operation, "accelerator.agent.") && rule.Action == fault.Drop {
			rule.Delay = away
		}
		if d.possible(rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// possible reports whether an operation can fail in a way. Only requests tell one status
// from another; of other operations one status stands for all.
func (d *drill) possible(r fault.Rule) bool {
	actions := d.actions[r.Operation]
	isRequest := slices.Contains(actions, fault.Malformed)
	return slices.Contains(actions, r.Action) && (isRequest || r.Action != fault.Status || r.Status == http.StatusInternalServerError)
}

// sampleSingles makes a case of each occurrence and way to fail, or of Config.Singles.
func (d *drill) sampleSingles(occurrences []occurrence) [][]fault.Rule {
	var cases [][]fault.Rule
	for _, o := range d.distinct(occurrences) {
		for _, r := range d.failures(o) {
			cases = append(cases, []fault.Rule{r})
		}
	}
	return d.sample("singles", cases, d.Singles)
}

// distinct leaves out the occurrences that the same rule would match.
func (d *drill) distinct(occurrences []occurrence) []occurrence {
	if d.repeats {
		return occurrences
	}
	var list []occurrence
	for _, o := range occurrences {
		o.subject = ""
		if !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return list
}

// samplePairs joins single faults with the occurrences of their runs. Single faults that
// failed alone are in no pair.
func (d *drill) samplePairs(singles [][]fault.Rule, outcomes []outcome) [][]fault.Rule {
	if d.Pairs == 0 {
		return nil
	}
	var all [][]fault.Rule
	for i, single := range singles {
		if outcomes[i].problem != "" {
			continue
		}
		first := single[0]
		for _, o := range d.distinct(outcomes[i].occurrences) {
			if o.operation == first.Operation && o.nth == max(first.Nth, 1) && (first.Subject == "" || first.Subject == o.subject) {
				continue // the first fault itself
			}
			for _, second := range d.failures(o) {
				all = append(all, []fault.Rule{first, second})
			}
		}
	}
	return d.sample("pairs", all, d.Pairs)
}

// sample shuffles the cases and returns the first n; all of them, in order, unless n is
// positive and less than their number. It depends on the seed and the purpose only.
func (d *drill) sample(purpose string, cases [][]fault.Rule, n int) [][]fault.Rule {
	if n <= 0 || n >= len(cases) {
		return cases
	}
	random := rand.New(rand.NewPCG(d.Seed, uint64(len(purpose))))
	random.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	return cases[:n]
}

// caseName names a subtest by its faults.
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
