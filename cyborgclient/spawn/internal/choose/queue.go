package choose

import (
	"cmp"
	"math"
)

const (
	candidatesPerHost = 16 // maximum of refused claims on one host until the next response
	maxQueries        = 8  // maximum of queries for one claim
)

// Candidate is the part of an allocation candidate that a [Queue] reads.
type Candidate struct {
	Root        string                    // provider UUID of the compute node
	Allocations map[string]map[string]int // provider UUID -> resource class -> amount
}

// Queue records what one attempt knows about hosts and devices. The candidates are passed to the methods that read
// them, because a caller may change them between two steps.
type Queue struct {
	attempts int             // maximum number of hosts with a claim
	hosts    map[string]host // by root
	at       string          // root of the chosen host
	unusable map[string]bool // providers that rule out a candidate

	origin  origin
	limits  Limits
	limit   int               // of the next query
	queries int               // for this claim
	short   map[inventory]int // smallest amount that was refused since the last response
}

// inventory is a resource class of a provider.
type inventory struct{ provider, class string }

// origin is where the candidates come from.
type origin uint8

// The origins.
const (
	given origin = iota // the caller or a handover: Placement is not queried
	whole               // a response with all candidates
	cut                 // a response that was limited
)

// New returns the queue of an attempt that may claim on the given number of hosts.
func New(attempts int) *Queue {
	return &Queue{attempts: attempts, hosts: map[string]host{}, unusable: map[string]bool{}, short: map[inventory]int{}}
}

// Begin sets the limits of queries to Placement.
func (q *Queue) Begin(limits Limits) {
	q.limits, q.limit, q.queries = limits, limits.First, 0
}

// Ask begins a query and returns its limit; 0 means all candidates.
func (q *Queue) Ask() (limit int) {
	q.queries++
	return q.limit
}

// Answered reports a response to a query with a limit: the number of candidates, and the usable ones. If these are on
// too few hosts, and there may be more, it returns the next limit and true.
func (q *Queue) Answered(limit, listed int, usable []Candidate) (next int, again bool) {
	q.limit, q.origin = q.limits.after(limit, usable), whole
	if listed >= limit && q.limit > limit { // a limit of 0 is not raised
		q.origin = cut
	}
	q.at, q.short = "", map[inventory]int{}
	for root, h := range q.hosts {
		q.hosts[root] = host{h.state.after(answer), 0, h.failures}
	}
	return q.limit, q.origin == cut && Hosts(usable) < q.limits.Hosts
}

// Choose sets the chosen host, by its root. Its candidates come first.
func (q *Queue) Choose(root string) {
	q.at = root
	q.move(root, choice)
}

// Close marks a host as unusable.
func (q *Queue) Close(root string) { q.move(root, closing) }

// GiveUp excludes the other candidates on the chosen host.
func (q *Queue) GiveUp() { q.move(q.at, pass) }

// Claimed reports that a candidate on the chosen host was claimed.
func (q *Queue) Claimed() {
	q.move(q.at, claim)
	q.queries = 1 // for the present response
	for root, h := range q.hosts {
		h.refusals = 0
		q.hosts[root] = h
	}
}

// Refused reports that the claim of a candidate was refused. Candidates that would also be refused are ruled out. If
// the refused resource is not part of the candidate, these are all candidates on its host.
func (q *Queue) Refused(c Candidate, r Refusal) {
	switch r.Reason {
	case Short:
		if amount := c.Allocations[r.Provider][r.Class]; amount > 0 {
			of := inventory{r.Provider, r.Class}
			q.short[of] = min(cmp.Or(q.short[of], math.MaxInt), amount)
		}
	case Gone, Owned:
		q.unusable[r.Provider] = true
	case Unnamed:
		q.move(c.Root, closing)
	}
	h := q.hosts[c.Root]
	if r.Reason != Owned { // an owned device is not sent
		h.refusals++
		q.hosts[c.Root] = h
	}
	if !q.isRuledOut(c) || h.refusals >= candidatesPerHost {
		q.move(c.Root, pass)
	}
}

// BindFailed reports that devices on the chosen host could not be bound. Other candidates on the host come next,
// until the number of failures reaches the number of hosts that may be claimed on.
func (q *Queue) BindFailed(devices []string) {
	known := len(q.unusable)
	for _, device := range devices {
		q.unusable[device] = true
	}
	if len(q.unusable) == known {
		return
	}
	h := q.hosts[q.at]
	h.failures++
	q.hosts[q.at] = h
	if h.failures < q.attempts {
		q.move(q.at, failure)
	}
}

func (q *Queue) move(root string, e event) {
	h := q.hosts[root]
	h.state = h.state.after(e)
	q.hosts[root] = h
}

// Move is the next action of an attempt.
type Move uint8

// The moves.
const (
	None  Move = iota // no candidate remains
	Same              // claim a candidate on the chosen host
	Other             // choose another host, and claim a candidate there
	Query             // query Placement
)

// Next returns the next action, and the index of the candidate, if any: one on the chosen host, else the first one on
// the next host, else another query. It changes nothing.
func (q *Queue) Next(candidates []Candidate) (Move, int) {
	if i := q.first(candidates, q.at); i >= 0 {
		return Same, i
	}
	if others := q.Others(candidates); len(others) > 0 && q.refusing() < q.attempts {
		return Other, others[0]
	}
	if q.origin != given && q.queries < maxQueries && q.Claims() < q.attempts && (q.origin == cut || q.refusing() > 0) {
		return Query, 0
	}
	return None, 0
}

// first returns the index of the first candidate on a host that may be claimed, or -1.
func (q *Queue) first(candidates []Candidate, root string) int {
	if state := q.hosts[root].state; state != open && state != reopened {
		return -1
	}
	for i, c := range candidates {
		if c.Root == root && !q.isRuledOut(c) {
			return i
		}
	}
	return -1
}

// Others returns the index of the first claimable candidate on each host without a claim, for as many hosts as may
// still be claimed on.
func (q *Queue) Others(candidates []Candidate) []int {
	var first []int
	seen, most := map[string]bool{}, q.attempts-q.Claims()
	for i, c := range candidates {
		if len(first) < most && !seen[c.Root] && q.hosts[c.Root].state == open && !q.isRuledOut(c) {
			seen[c.Root] = true
			first = append(first, i)
		}
	}
	return first
}

// Claims returns the number of hosts on which a candidate was claimed.
func (q *Queue) Claims() (n int) {
	for _, h := range q.hosts {
		if h.state == claimed || h.state == reopened {
			n++
		}
	}
	return n
}

// refusing returns the number of hosts that have refused a claim since the last response or claim.
func (q *Queue) refusing() (n int) {
	for _, h := range q.hosts {
		if h.refusals > 0 {
			n++
		}
	}
	return n
}

// isRuledOut reports whether the claim of a candidate would be refused, or its device not bound.
func (q *Queue) isRuledOut(c Candidate) bool {
	for provider, resources := range c.Allocations {
		if q.unusable[provider] {
			return true
		}
		for class, amount := range resources {
			if least, refused := q.short[inventory{provider, class}]; refused && amount >= least {
				return true
			}
		}
	}
	return false
}

// Hosts returns the number of hosts of candidates.
func Hosts(candidates []Candidate) int {
	roots := map[string]bool{}
	for _, c := range candidates {
		roots[c.Root] = true
	}
	return len(roots)
}
