package choose_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
)

// entry is an event of an attempt. The reference keeps all of them, and reads them from the first to the last for each question.
type entry struct {
	what      string // "begin", "answer", "choose", "close", "claim", "fail", "give up", "refuse"
	root      string
	candidate choose.Candidate
	refusal   choose.Refusal
	devices   []string
	limit     int
	listed    int
}

// history computes the next move in the simplest way.
type history struct {
	attempts int
	limits   choose.Limits
	entries  []entry
}

// since returns the entries after the last one of some kinds.
func (h history) since(kinds ...string) []entry {
	for i := len(h.entries) - 1; i >= 0; i-- {
		if slices.Contains(kinds, h.entries[i].what) {
			return h.entries[i+1:]
		}
	}
	return h.entries
}

// chosen is the root of the host that was chosen from the present answer.
func (h history) chosen() (root string) {
	for _, e := range h.since("answer") {
		if e.what == "choose" {
			root = e.root
		}
	}
	return root
}

// excludes reports whether a refusal, or a bind, says of a candidate that it fails.
func (h history) excludes(c choose.Candidate) bool {
	for _, e := range h.entries {
		if e.what == "fail" && slices.ContainsFunc(e.devices, func(d string) bool { return c.Allocations[d] != nil }) {
			return true
		}
		lasts := e.what == "refuse" && (e.refusal.Reason == choose.Gone || e.refusal.Reason == choose.Owned)
		if lasts && c.Allocations[e.refusal.Provider] != nil {
			return true
		}
	}
	for _, e := range h.since("answer") {
		if e.what != "refuse" || e.refusal.Reason != choose.Short {
			continue
		}
		refused, needed := e.candidate.Allocations[e.refusal.Provider][e.refusal.Class], c.Allocations[e.refusal.Provider][e.refusal.Class]
		if refused > 0 && needed >= refused {
			return true
		}
	}
	return false
}

// isClosed reports whether the host is not tried at all. What was known before the caller chose it does not count.
func (h history) isClosed(root string) (closed bool) {
	refusals, now := 0, history{attempts: h.attempts}
	for _, e := range h.entries {
		now.entries = append(now.entries, e)
		isOf := e.root == root
		switch {
		case e.what == "choose" && isOf:
			closed = false
		case e.what == "answer":
			refusals = 0
			closed = closed && now.closedForGood(root)
		case e.what == "claim":
			refusals = 0
		case e.what == "close" && isOf, e.what == "give up" && isOf:
			closed = true
		case e.what == "refuse" && isOf:
			if e.refusal.Reason != choose.Owned {
				refusals++
			}
			if e.refusal.Reason == choose.Unnamed || refusals >= 16 || !now.excludes(e.candidate) {
				closed = true
			}
		}
	}
	return closed
}

// closedForGood reports whether another answer does not change that the host is closed.
func (h history) closedForGood(root string) (closed bool) {
	for _, e := range h.entries {
		switch {
		case e.root != root:
		case e.what == "choose":
			closed = false
		case e.what == "close", e.what == "refuse" && e.refusal.Reason == choose.Unnamed:
			closed = true
		}
	}
	return closed
}

func (h history) wasClaimed(root string) bool {
	return slices.ContainsFunc(h.entries, func(e entry) bool { return e.what == "claim" && e.root == root })
}

// isRetried reports whether another device of a host that was claimed on is tried: its bind failed for one of the first times.
func (h history) isRetried(root string) (retried bool) {
	failures, seen, claims := 0, map[string]bool{}, 0
	for i, e := range h.entries {
		switch {
		case e.what == "answer":
			retried = false
		case e.what == "fail":
			isNew := slices.ContainsFunc(e.devices, func(d string) bool { return !seen[d] })
			for _, d := range e.devices {
				seen[d] = true
			}
			if e.root == root && isNew {
				failures++
				retried = retried || failures < h.attempts
			}
		case e.root != root:
		case e.what == "claim":
			claims++
			retried = false
		case e.what == "choose":
			retried = true
		case (history{h.attempts, h.limits, h.entries[:i+1]}).isClosed(root):
			retried = false
		}
		retried = retried && claims > 0
	}
	return retried
}

func (h history) claims() (roots []string) {
	for _, e := range h.entries {
		if e.what == "claim" && !slices.Contains(roots, e.root) {
			roots = append(roots, e.root)
		}
	}
	return roots
}

func (h history) refusing() (roots []string) {
	for _, e := range h.since("answer", "claim") {
		if e.what == "refuse" && e.refusal.Reason != choose.Owned && !slices.Contains(roots, e.root) {
			roots = append(roots, e.root)
		}
	}
	return roots
}

func (h history) next(list []choose.Candidate) string {
	mayClaim := func(root string) bool {
		if h.wasClaimed(root) {
			return h.isRetried(root)
		}
		return !h.isClosed(root)
	}
	for i, c := range list {
		if c.Root == h.chosen() && mayClaim(c.Root) && !h.excludes(c) {
			return fmt.Sprint("same ", i)
		}
	}
	mayClaimMore := len(h.claims()) < h.attempts
	for i, c := range list {
		if mayClaimMore && len(h.refusing()) < h.attempts && !h.wasClaimed(c.Root) && !h.isClosed(c.Root) && !h.excludes(c) {
			return fmt.Sprint("other ", i)
		}
	}
	queries, answers := 0, 0
	var last entry
	for _, e := range h.entries {
		switch e.what {
		case "answer":
			queries++
			answers++
			last = e
		case "claim":
			queries = 1
		case "begin":
			queries = 0
		}
	}
	largest := h.limits.All
	if len(list) == 0 && last.limit >= largest {
		largest = h.limits.Most
	}
	larger := last.limit > 0 && last.listed >= last.limit && largest > last.limit
	if mayClaimMore && answers > 0 && queries < 8 && (larger || len(h.refusing()) > 0) {
		return "query"
	}
	return "none"
}

var moves = map[choose.Move]string{choose.Same: "same ", choose.Other: "other ", choose.Query: "query", choose.None: "none"}

// drawCandidates draws candidates of up to five hosts, some with two devices.
func drawCandidates(t *rapid.T) []choose.Candidate {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) choose.Candidate {
		root := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "root")
		c := choose.Candidate{Root: root, Allocations: map[string]map[string]int{root: {"VCPU": 2}}}
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 20), 1, 2, rapid.ID).Draw(t, "devices") {
			c.Allocations[fmt.Sprint(root, n)] = map[string]int{"PGPU": rapid.IntRange(1, 2).Draw(t, "amount")}
		}
		if rapid.Bool().Draw(t, "shares") {
			c.Allocations["disk"] = map[string]int{"DISK_GB": 5}
		}
		return c
	}), 0, 40).Draw(t, "candidates")
}

func drawRefusal(t *rapid.T, c choose.Candidate) choose.Refusal {
	var providers []string
	for provider := range c.Allocations {
		providers = append(providers, provider)
	}
	slices.Sort(providers)
	r := choose.Refusal{Reason: rapid.SampledFrom([]choose.Reason{
		choose.Busy, choose.Short, choose.Short, choose.Short, choose.Short, choose.Gone, choose.Owned, choose.Unnamed,
	}).Draw(t, "reason")}
	switch r.Reason {
	case choose.Short, choose.Gone, choose.Owned:
		r.Provider = rapid.SampledFrom(append(providers, "disk", "other")).Draw(t, "provider")
		r.Class = rapid.SampledFrom([]string{"VCPU", "PGPU", "PGPU", "DISK_GB"}).Draw(t, "class")
	}
	return r
}

func devices(c choose.Candidate) (list []string) {
	for provider, amounts := range c.Allocations {
		if amounts["PGPU"] > 0 {
			list = append(list, provider)
		}
	}
	slices.Sort(list)
	return list
}

// An attempt follows the moves with random outcomes, and sometimes the caller chooses another host. The moves agree
// with a reference. Besides, no candidate is claimed twice from one response, no device is claimed again after a
// failed bind, and no more hosts are tried than attempts.
func TestTheMovesMatchAReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempts := rapid.IntRange(1, 4).Draw(t, "attempts")
		q, h := choose.New(attempts), history{attempts: attempts, limits: choose.Few(40, attempts, 1, attempts)}
		list := drawCandidates(t)
		var refused []choose.Candidate // from this answer
		broken := map[string]bool{}
		isFree := true // the caller has chosen no host himself
		note := func(e entry) { h.entries = append(h.entries, e) }
		answer := func() {
			list, refused = drawCandidates(t), nil
			limit := q.Ask()
			e := entry{what: "answer", limit: limit, listed: rapid.SampledFrom([]int{0, limit}).Draw(t, "listed")}
			q.Answered(limit, e.listed, list)
			note(e)
		}
		if rapid.Bool().Draw(t, "Placement answers") {
			q.Begin(h.limits)
			answer()
		}
		for range 60 {
			move, i := q.Next(list)
			got := moves[move]
			if move == choose.Same || move == choose.Other {
				got += fmt.Sprint(i)
			}
			if want := h.next(list); got != want {
				t.Fatalf("next is %q, want %q after %+v of %+v", got, want, h.entries, list)
			}
			switch move {
			case choose.None: // the caller begins again
				q.Begin(h.limits)
				note(entry{what: "begin"})
				answer()
				continue
			case choose.Query:
				answer()
				continue
			case choose.Other:
				root := list[i].Root
				if rapid.IntRange(0, 5).Draw(t, "down") == 0 {
					q.Close(root)
					note(entry{what: "close", root: root})
					continue
				}
				if rapid.IntRange(0, 20).Draw(t, "caller") == 0 {
					root, isFree = rapid.SampledFrom(list).Draw(t, "chosen").Root, false
				}
				q.Choose(root)
				note(entry{what: "choose", root: root})
				continue
			}
			c := list[i]
			for _, d := range devices(c) {
				if broken[d] {
					t.Fatalf("device %s is claimed again", d)
				}
			}
			if slices.ContainsFunc(refused, func(r choose.Candidate) bool { return fmt.Sprint(r) == fmt.Sprint(c) }) && isFree {
				t.Fatalf("candidate %v is claimed twice", c)
			}
			switch rapid.SampledFrom([]string{"refuse", "refuse", "refuse", "refuse", "claim", "give up", "close"}).Draw(t, "outcome") {
			case "refuse":
				refused = append(refused, c)
				r := drawRefusal(t, c)
				q.Refused(c, r)
				note(entry{what: "refuse", root: c.Root, candidate: c, refusal: r})
			case "close":
				q.Close(c.Root)
				note(entry{what: "close", root: c.Root})
			case "give up":
				q.GiveUp()
				note(entry{what: "give up", root: c.Root})
			case "claim":
				q.Claimed()
				note(entry{what: "claim", root: c.Root})
				if n := len(h.claims()); n != q.Claims() || n > attempts && isFree {
					t.Fatalf("%d claims, counted as %d, of at most %d", n, q.Claims(), attempts)
				}
				failed := rapid.SliceOfDistinct(rapid.SampledFrom(devices(c)), rapid.ID).Draw(t, "failed")
				q.BindFailed(failed)
				note(entry{what: "fail", root: c.Root, devices: failed})
				for _, d := range failed {
					broken[d] = true
				}
			}
			if n := len(h.refusing()); n > attempts && isFree {
				t.Fatalf("%d hosts have refused, of at most %d", n, attempts)
			}
		}
	})
}
