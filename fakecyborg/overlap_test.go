package fakecyborg_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
)

// overlapping is a world with two cards of a GPU each, and two requests.
func overlapping(t *testing.T, cfg fakecyborg.Config) (w *world, faults *fault.Set, cards, arqs []string) {
	t.Helper()
	faults = fault.NewSet()
	w = newWorld(t, cfg, []driver.Driver{newHardware("test", gpu("3b", "PGPU", []string{"OWNER_CYBORG"}, "0"), gpu("af", "PGPU", []string{"OWNER_CYBORG"}, "0"))},
		fakecyborg.WithFaults(faults))
	w.profile("gpu", `[{"resources:PGPU":"1"}]`)
	return w, faults, []string{driver.ProviderUUID("cn0_0000:3b:00.0"), driver.ProviderUUID("cn0_0000:af:00.0")}, slices.Concat(w.arqs("gpu"), w.arqs("gpu"))
}

// together sends requests, each a pause after the one before, and returns their statuses in the order of the requests.
func (w *world) together(pause time.Duration, requests ...sent) []int {
	statuses := make([]int, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() {
			time.Sleep(time.Duration(i) * pause)
			reply, err := w.trySend(r)
			if err != nil {
				w.t.Error(err)
			}
			statuses[i] = reply.status
		})
	}
	all.Wait()
	return statuses
}

// Requests that overlap do not see each other under a rule, as upstream without snapshot isolation; without one they do.
func TestOverlappingRequestsDoNotSeeEachOtherUnderARule(t *testing.T) {
	t.Parallel()
	patch := func(body string) sent { return sent{method: "PATCH", path: "/v2/accelerator_requests", body: body} }
	remove := func(query string) sent { return sent{method: "DELETE", path: "/v2/accelerator_requests?" + query} }
	type result struct {
		Statuses []int
		States   states
		Used     int // handles, in the end
		Leaked   int // handles, once all requests are deleted
	}
	tests := map[string]struct {
		bound    bool // the first request is bound to the first card before
		requests func(cards, arqs []string) []sent
		strict   result
		overlaps result
	}{
		"two PATCHes of one instance": {requests: func(cards, arqs []string) []sent {
			return []sent{patch(binding(instanceA, cards[0], arqs[0])), patch(binding(instanceA, cards[1], arqs[1]))}
		}, strict: result{[]int{202, 400}, states{"Bound", "Initial"}, 1, 0}, overlaps: result{[]int{202, 202}, states{"Bound", "Bound"}, 2, 0}},
		"one ARQ is bound twice": {requests: func(cards, arqs []string) []sent {
			return []sent{patch(binding(instanceA, cards[0], arqs[0])), patch(binding(instanceB, cards[1], arqs[0]))}
		}, strict: result{[]int{202, 409}, states{"Bound", "Initial"}, 1, 0}, overlaps: result{[]int{202, 202}, states{"Bound", "Initial"}, 2, 1}},
		"two ARQs and one handle": {requests: func(cards, arqs []string) []sent {
			return []sent{patch(binding(instanceA, cards[0], arqs[0])), patch(binding(instanceB, cards[0], arqs[1]))}
		}, strict: result{[]int{202, 404}, states{"Bound", "BindFailed"}, 1, 0}, overlaps: result{[]int{202, 404}, states{"Bound", "BindFailed"}, 1, 0}},
		"four DELETEs of an instance": {bound: true, requests: func([]string, []string) []sent {
			return slices.Repeat([]sent{remove("instance=" + instanceA)}, 4)
		}, strict: result{[]int{204, 204, 204, 204}, states{"Initial"}, 0, 0}, overlaps: result{[]int{204, 404, 404, 404}, states{"Initial"}, 0, 0}},
		"three DELETEs of an ARQ": {bound: true, requests: func(_, arqs []string) []sent {
			return slices.Repeat([]sent{remove("arqs=" + arqs[0])}, 3)
		}, strict: result{[]int{204, 404, 404}, states{"Initial"}, 0, 0}, overlaps: result{[]int{204, 404, 404}, states{"Initial"}, 0, 0}},
		"a bind and a DELETE of the ARQ": {requests: func(cards, arqs []string) []sent {
			return []sent{patch(binding(instanceA, cards[0], arqs[0])), remove("arqs=" + arqs[0])}
		}, strict: result{[]int{202, 204}, states{"Initial"}, 0, 0}, overlaps: result{[]int{202, 204}, states{"Initial"}, 0, 0}},
		"a DELETE of the ARQ and a bind": {requests: func(cards, arqs []string) []sent {
			return []sent{remove("arqs=" + arqs[0]), patch(binding(instanceA, cards[0], arqs[0]))}
		}, strict: result{[]int{204, 404}, states{"Initial"}, 0, 0}, overlaps: result{[]int{204, 404}, states{"Initial"}, 0, 0}},
		"two unbinds": {bound: true, requests: func(_, arqs []string) []sent {
			return []sent{patch(unbinding(arqs[0])), patch(unbinding(arqs[0]))}
		}, strict: result{[]int{202, 202}, states{"Unbound", "Initial"}, 0, 0}, overlaps: result{[]int{202, 202}, states{"Unbound", "Initial"}, 0, 0}},
	}
	for name, tt := range tests {
		for _, overlaps := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, faults, cards, arqs := overlapping(t, fakecyborg.Config{})
					if tt.bound {
						w.want(w.patch(binding(instanceA, cards[0], arqs[0])), 202, "")
					}
					want := tt.strict
					if overlaps {
						want = tt.overlaps
						settled(t, faults.Set(fault.Rule{Operation: fault.ARQWrite, Action: fault.Delay, Delay: time.Second, Times: -1}))
					}
					statuses := w.together(10*time.Millisecond, tt.requests(cards, arqs)...)
					faults.Clear()
					got := result{Statuses: statuses, States: w.states(), Used: w.used()}
					loaded(t, w.server, dumped(t, w.server)) // a leaked handle is a state, too
					for _, arq := range w.server.ARQs() {
						w.want(w.delete("/v2/accelerator_requests?arqs="+arq.UUID), 204, "")
					}
					got.Leaked = w.used()
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("rule: %t (-want +got):\n%s", overlaps, diff)
					}
				})
			})
		}
	}
}

// A rule refuses a write as MariaDB does, before it or once it is done.
func TestARuleRefusesAWriteAsTheDatabaseDoes(t *testing.T) {
	t.Parallel()
	const text = `(pymysql.err.OperationalError) (1020, "Record has changed since last read in table 'extended_accelerator_requests'")`
	for name, tt := range map[string]struct {
		request func(cards, arqs []string) sent // about the first request, which is Bound unless this binds it
		binds   bool
		before  states // of the write
		after   states
	}{
		"bind": {func(cards, arqs []string) sent {
			return sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, cards[0], arqs[0])}
		}, true, states{"Initial", "Initial"}, states{"Bound", "Initial"}},
		"unbind": {func(_, arqs []string) sent {
			return sent{method: "PATCH", path: "/v2/accelerator_requests", body: unbinding(arqs[0])}
		}, false, states{"Bound", "Initial"}, states{"Unbound", "Initial"}},
		"DELETE of an ARQ": {func(_, arqs []string) sent {
			return sent{method: "DELETE", path: "/v2/accelerator_requests?arqs=" + arqs[0]}
		}, false, states{"Bound", "Initial"}, states{"Initial"}},
		"DELETE of an instance": {func([]string, []string) sent {
			return sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA}
		}, false, states{"Bound", "Initial"}, states{"Initial"}},
	} {
		for when, want := range map[fault.When]states{fault.Before: tt.before, fault.After: tt.after} {
			t.Run(name+" "+string(when), func(t *testing.T) {
				t.Parallel()
				w, faults, cards, arqs := overlapping(t, fakecyborg.Config{})
				if !tt.binds {
					w.want(w.patch(binding(instanceA, cards[0], arqs[0])), 202, "")
				}
				settled(t, faults.Set(fault.Rule{Operation: fault.ARQWrite, Action: fault.Status, When: when}))
				w.want(w.send(tt.request(cards, arqs)), 500, text)
				checkStates(t, w, want...)
			})
		}
	}
}

// With the quirks overlapping requests are refused as upstream with MariaDB refuses them, however they overlap.
func TestOverlappingRequestsAreRefusedWithTheQuirks(t *testing.T) {
	t.Parallel()
	w, _, cards, _ := overlapping(t, fakecyborg.Config{UpstreamQuirks: true})
	atOnce := func(requests ...sent) []int { return slices.Sorted(slices.Values(w.together(0, requests...))) }
	for range 100 {
		arq := w.arqs("gpu")[0]
		got := atOnce(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, cards[0], arq)},
			sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, cards[1], arq)})
		if isQuirk := slices.Equal(got, []int{202, 500}) || slices.Equal(got, []int{202, 400}); !isQuirk || w.used() != 1 {
			t.Fatalf("binds: %v, %d handles in use", got, w.used())
		}
		got = atOnce(slices.Repeat([]sent{{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA}}, 4)...)
		if got[0] != 204 || slices.ContainsFunc(got, func(status int) bool { return status != 204 && status != 404 }) || w.used() != 0 {
			t.Fatalf("DELETEs: %v, %d handles in use", got, w.used())
		}
	}
}

// While mediated devices are removed, one after the other, later DELETEs of the instance delete its other requests.
func TestDeletionsOfAnInstanceThatComeTooLate(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, card := vgpuWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, 3, 3)
			w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
			card.dropping = func() { time.Sleep(time.Second) }
			got := w.together(10*time.Millisecond, slices.Repeat([]sent{{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA}}, 3)...)
			if want := either(quirks, []int{204, 204, 204}, []int{404, 404, 204}); !slices.Equal(got, want) || w.used() != 0 || card.present() != 0 {
				t.Errorf("quirks %t: %v, want %v; %d handles in use, %d mediated devices", quirks, got, want, w.used(), card.present())
			}
		})
	}
}
