package drill

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// occurrence is something in a run that can be made to fail: the nth time that an
// operation acts on a subject.
type occurrence struct {
	operation sim.OperationName
	subject   string
	nth       int
}

// everyKind lists the ways to fail, without operation and subject. A delay is longer than
// the timeouts of Nova and Cyborg, 300 and 60 seconds. A late request is applied while its
// caller cleans up, soon after that, or long after that.
func everyKind() []fault.Rule {
	return []fault.Rule{
		{Action: fault.Status, Status: http.StatusInternalServerError},
		{Action: fault.Status, Status: http.StatusConflict},
		{Action: fault.Status, Status: http.StatusInternalServerError, When: fault.After},
		{Action: fault.Proxy, Status: http.StatusServiceUnavailable},
		{Action: fault.Proxy, Status: http.StatusGatewayTimeout, When: fault.After},
		{Action: fault.Drop},
		{Action: fault.Drop, When: fault.After},
		{Action: fault.Truncate},
		{Action: fault.Malformed},
		{Action: fault.Delay, Delay: 7 * time.Minute},
		{Action: fault.Delay, Delay: 7 * time.Minute, When: fault.After},
		{Action: fault.SlowBody, Delay: 7 * time.Minute},
		{Action: fault.Late, Delay: 20 * time.Millisecond},
		{Action: fault.Late, Delay: 5 * time.Second},
		{Action: fault.Late, Delay: 7 * time.Minute},
		{Action: fault.ExpireToken},
		{Action: fault.ExpireServiceToken},
		{Action: fault.Duplicate},
		{Action: fault.Reorder},
		{Action: fault.Reboot, Delay: away},
		{Action: fault.Reboot, Delay: away, When: fault.After},
	}
}

// away is how long a host or its agent is down. A flow that retries its cleanup for a while succeeds.
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
		if strings.HasPrefix(string(o.operation), "accelerator.agent.") && rule.Action == fault.Drop {
			rule.Delay = away
		}
		if d.possible(rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// possible reports whether an operation can fail in a way, and differently from all others.
// Only requests have other statuses than 500; a status after the change is a proxy's. Only
// what changes something can be late, and only Cyborg reads service tokens.
func (d *drill) possible(r fault.Rule) bool {
	actions := d.actions[r.Operation]
	isRequest := slices.Contains(actions, fault.Malformed)
	switch {
	case !slices.Contains(actions, r.Action):
		return false
	case r.Action == fault.Status:
		return isRequest && r.When != fault.After || !isRequest && r.Status == http.StatusInternalServerError
	case r.Action == fault.Late:
		return d.changes[r.Operation]
	case r.Action == fault.ExpireToken:
		return !strings.HasPrefix(string(r.Operation), "identity.")
	case r.Action == fault.ExpireServiceToken:
		return strings.HasPrefix(string(r.Operation), "accelerator.")
	}
	return true
}

// sampleSingles makes a case of each occurrence and way to fail, or of Config.Singles.
func (d *drill) sampleSingles(occurrences []occurrence) [][]fault.Rule {
	var cases [][]fault.Rule
	for _, o := range d.distinct(occurrences) {
		for _, r := range d.failures(o) {
			cases = append(cases, []fault.Rule{r})
		}
	}
	return sample(d, "singles", cases, d.Singles)
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
	var all []pair
	for i, single := range singles {
		if outcomes[i].problem != "" {
			continue
		}
		first := single[0]
		for n, o := range d.distinct(outcomes[i].occurrences) {
			if o.operation == first.Operation && o.nth == max(first.Nth, 1) && (first.Subject == "" || first.Subject == o.subject) {
				continue // the first fault itself
			}
			for kind := range d.failures(o) {
				all = append(all, pair{i, n, kind})
			}
		}
	}
	var cases [][]fault.Rule
	for _, p := range sample(d, "pairs", all, d.Pairs) {
		o := d.distinct(outcomes[p.single].occurrences)[p.occurrence]
		cases = append(cases, []fault.Rule{singles[p.single][0], d.failures(o)[p.kind]})
	}
	return cases
}

// pair is a single fault and a second one, by the positions of the occurrence in its run and
// of the way to fail. There are too many to write them out.
type pair struct{ single, occurrence, kind int }

// sample shuffles the cases and returns the first n; all of them, in order, unless n is
// positive and less than their number. It depends on the seed and the purpose only.
func sample[T any](d *drill, purpose string, cases []T, n int) []T {
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
		switch r.Action {
		case fault.Status, fault.Proxy:
			part += fmt.Sprint(r.Status)
		case fault.Late:
			part += r.Delay.String()
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
