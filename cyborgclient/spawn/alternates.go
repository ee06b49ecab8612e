package spawn

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"regexp"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// candidatesPerHost is how many candidates of one host are tried.
const candidatesPerHost = 16

// alternates yields the chosen candidate, then the other candidates of its host, then
// those of the next hosts, each marked as tried, as far as the refusals so far do not
// rule them out.
func (a *Attempt) alternates(refused *refusals) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		for next, more := *a.Chosen, true; more; next, more = a.nextHost() {
			a.tried[next.Root] = true
			if !yield(next) {
				return
			}
			left := candidatesPerHost - 1
			for _, c := range a.Candidates {
				if c.Root != next.Root || left == 0 || refused.ruleOut(c) {
					continue
				}
				left--
				if !yield(c) {
					return
				}
			}
		}
	}
}

// refusals are the refused claims of one step. Another client has taken a device since
// the candidates were listed, so that every candidate with it would be refused as well.
type refusals struct {
	room  map[inventory]int // smallest refused amount
	hosts map[string]bool   // roots that are not tried further
	names []string          // of the hosts, in order
	tries map[string]int    // by the name of the host
	err   error             // the last one
	owner error             // the last conflict of owners
}

type inventory struct{ provider, class string }

func newRefusals() *refusals {
	return &refusals{room: map[inventory]int{}, hosts: map[string]bool{}, tries: map[string]int{}}
}

// missingInventory matches the refusal of a claim: "Unable to create allocation for
// 'PGPU' on resource provider '<uuid>'".
var missingInventory = regexp.MustCompile(`for '([A-Z0-9_]+)' on resource provider '([0-9a-f-]{36})'`)

// refusedInventory is what a claim was refused for, if Placement names it.
func refusedInventory(err error) (missing inventory, named bool) {
	if placement.StatusOf(err) != http.StatusConflict {
		return inventory{}, false
	}
	found := missingInventory.FindStringSubmatch(placement.DetailOf(err))
	if found == nil {
		return inventory{}, false
	}
	return inventory{provider: found[2], class: found[1]}, true
}

// add adds a refusal. It reports false when no other candidate may succeed: a conflict of
// the consumer fails on every host (nova/scheduler/client/report.py), and so does what is
// no conflict. When Placement does not name what is missing, the next host is tried.
func (r *refusals) add(host string, c Candidate, err error) bool {
	r.err = err
	if r.tries[host]++; r.tries[host] == 1 {
		r.names = append(r.names, host)
	}
	missing, named := refusedInventory(err)
	var conflict *OwnerConflictError
	switch {
	case errors.As(err, &conflict):
		r.owner = err
		for class := range c.Allocations[conflict.provider] {
			r.room[inventory{conflict.provider, class}] = 1
		}
	case placement.StatusOf(err) != http.StatusConflict || placement.ConsumerConflict(err):
		return false
	case named:
		r.room[missing] = min(cmp.Or(r.room[missing], math.MaxInt), c.Allocations[missing.provider][missing.class])
	default:
		r.hosts[c.Root] = true
	}
	return true
}

// ruleOut reports whether a candidate would be refused.
func (r *refusals) ruleOut(c Candidate) bool {
	if r.hosts[c.Root] {
		return true
	}
	for provider, resources := range c.Allocations {
		for class, amount := range resources {
			if least, refused := r.room[inventory{provider, class}]; refused && amount >= least {
				return true
			}
		}
	}
	return false
}

// text is for the decision of a step that has succeeded in the end.
func (r *refusals) text() string {
	switch {
	case r.err == nil:
		return ""
	case r.owner != nil:
		return "; not claimed before: " + r.owner.Error()
	}
	return "; other instances were faster on " + r.hostsText()
}

// hostsText names the hosts with the number of candidates that were refused.
func (r *refusals) hostsText() string {
	hosts := make([]string, len(r.names))
	for i, name := range r.names {
		hosts[i] = name + " (" + count(r.tries[name], "candidate") + ")"
	}
	return strings.Join(hosts, ", ")
}

// cause is the error of a claim without success. It matches ErrClaim when Placement
// refused it, or nothing was sent.
func (r *refusals) cause() error {
	switch {
	case r.owner != nil && r.err != r.owner:
		return fmt.Errorf("%w on %s: %w; %w", ErrClaim, r.hostsText(), r.owner, r.err)
	case r.owner != nil || placement.Refused(r.err):
		return fmt.Errorf("%w on %s: %w", ErrClaim, r.hostsText(), r.err)
	}
	return r.err
}
