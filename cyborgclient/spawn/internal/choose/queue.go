package choose

import (
	"cmp"
	"math"
)

const (
	candidatesPerHost = 16 // how many candidates of one host are claimed until the next answer
	maxQueries        = 8  // how often Placement is asked for one claim
)

// Candidate is what a [Queue] reads of an allocation candidate.
type Candidate struct {
	Root        string                    // provider UUID of the compute node
	Allocations map[string]map[string]int // provider UUID -> resource class -> amount
}

// Queue is what one attempt knows of hosts and devices. The candidates themselves are passed to the methods that read them, because
// a caller may change them between two steps.
type Queue struct {
	// Avoided are providers of hosts that are not chosen, Down the names of such hosts.
	Avoided, Down []string

	attempts int             // how many hosts may be claimed on
	hosts    map[string]host // by root
	at       string          // root of the chosen host
	unusable map[string]bool // providers that no other candidate may have

	origin  origin
	limits  Limits
	limit   int               // of the next query
	queries int               // for this claim
	short   map[inventory]int // smallest amount that was refused since the answer
}

// inventory is a resource class of a provider.
type inventory struct{ provider, class string }

// origin says where the candidates are from.
type origin uint8

// The origins.
const (
	given origin = iota // the caller or a handover: Placement is not asked for others
	whole               // an answer with all candidates that there were
	cut                 // an answer with as many as were asked for
)

// New returns the queue of an attempt that may claim on so many hosts.
func New(attempts int) *Queue {
	return &Queue{attempts: attempts, hosts: map[string]host{}, unusable: map[string]bool{}, short: map[inventory]int{}}
}

// Begin says for how many candidates Placement may be asked, beginning with the first limit.
func (q *Queue) Begin(limits Limits) {
	q.limits, q.limit, q.queries = limits, limits.First, 0
}

// Ask begins a query. It returns how many candidates to ask for; 0 for all.
func (q *Queue) Ask() (limit int) {
	q.queries++
	return q.limit
}

// Answered says how many candidates an answer to a query with a limit lists, and which of these can be used. If they are of too few
// hosts, and there may be more, the next limit is to be asked for at once.
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

// Choose says which host is chosen, by its root. Its candidates come first.
func (q *Queue) Choose(root string) {
	q.at = root
	q.move(root, choice)
}

// Close says that a host cannot be used.
func (q *Queue) Close(root string) { q.move(root, closing) }

// GiveUp says that the other candidates of the chosen host are not to be tried.
func (q *Queue) GiveUp() { q.move(q.at, pass) }

// Claimed says that a candidate of the chosen host is claimed.
func (q *Queue) Claimed() {
	q.move(q.at, claim)
	q.queries = 1 // for the present answer
	for root, h := range q.hosts {
		h.refusals = 0
		q.hosts[root] = h
	}
}

// Refused says that the claim of a candidate was refused. The candidates that would be refused as well are not tried; if what was
// refused is not a part of the candidate, those are all of its host.
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
	if r.Reason != Owned { // which was not sent
		h.refusals++
		q.hosts[c.Root] = h
	}
	if !q.isRuledOut(c) || h.refusals >= candidatesPerHost {
		q.move(c.Root, pass)
	}
}

// BindFailed says that devices of the chosen host could not be bound. Other candidates of the host come next, after as many failures
// as hosts may be claimed on other hosts.
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

// Move is what comes next.
type Move uint8

// The moves.
const (
	None  Move = iota // no candidate may be claimed any longer
	Same              // a candidate of the chosen host
	Other             // a candidate of another host, which is to be chosen first
	Query             // Placement is to be asked
)

// Next returns what comes next, and the index of the candidate, if it is one: a candidate of the chosen host, else the first one of
// the next host, else another answer of Placement. It changes nothing.
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

// first returns the index of the first candidate of a host that may be claimed; -1 without one.
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

// Others returns the index of the first candidate that may be claimed of each host that was not claimed on, of as many as may still be.
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

// Claims returns on how many hosts a candidate was claimed.
func (q *Queue) Claims() (n int) {
	for _, h := range q.hosts {
		if h.state == claimed || h.state == reopened {
			n++
		}
	}
	return n
}

// refusing returns how many hosts have refused a claim since the last answer or claim.
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

// Hosts returns of how many hosts candidates are.
func Hosts(candidates []Candidate) int {
	roots := map[string]bool{}
	for _, c := range candidates {
		roots[c.Root] = true
	}
	return len(roots)
}
