package choose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
)

// candidate returns a candidate such as "a1": device 1 of host a, with one of its processors, and a disk that all hosts share.
func candidate(name string) choose.Candidate {
	root := name[:1]
	return choose.Candidate{Root: root, Allocations: map[string]map[string]int{root: {"VCPU": 2}, name: {"PGPU": 1}, "disk": {"DISK_GB": 5}}}
}

func candidates(names string) []choose.Candidate {
	var list []choose.Candidate
	for _, name := range strings.Fields(names) {
		list = append(list, candidate(name))
	}
	return list
}

// device is the provider of a candidate's device.
func device(c choose.Candidate) string {
	for provider, amounts := range c.Allocations {
		if amounts["PGPU"] > 0 {
			return provider
		}
	}
	return ""
}

// happens are the events of the table's steps.
var happens = map[string]func(*choose.Queue, choose.Candidate){
	"choose":  func(q *choose.Queue, c choose.Candidate) { q.Choose(c.Root) },
	"close":   func(q *choose.Queue, c choose.Candidate) { q.Close(c.Root) },
	"claim":   func(q *choose.Queue, _ choose.Candidate) { q.Claimed() },
	"fail":    func(q *choose.Queue, c choose.Candidate) { q.BindFailed([]string{device(c)}) },
	"give up": func(q *choose.Queue, _ choose.Candidate) { q.GiveUp() },
	"taken": func(q *choose.Queue, c choose.Candidate) {
		q.Refused(c, choose.Refusal{Reason: choose.Short, Provider: device(c), Class: "PGPU"})
	},
	"full": func(q *choose.Queue, c choose.Candidate) {
		q.Refused(c, choose.Refusal{Reason: choose.Short, Provider: c.Root, Class: "VCPU"})
	},
	"no disk": func(q *choose.Queue, c choose.Candidate) {
		q.Refused(c, choose.Refusal{Reason: choose.Short, Provider: "disk", Class: "DISK_GB"})
	},
	"no memory": func(q *choose.Queue, c choose.Candidate) { // which is no part of the candidate
		q.Refused(c, choose.Refusal{Reason: choose.Short, Provider: c.Root, Class: "MEMORY_MB"})
	},
	"no b1": func(q *choose.Queue, c choose.Candidate) { // of another candidate
		q.Refused(c, choose.Refusal{Reason: choose.Short, Provider: "b1", Class: "PGPU"})
	},
	"gone": func(q *choose.Queue, c choose.Candidate) {
		q.Refused(c, choose.Refusal{Reason: choose.Gone, Provider: device(c)})
	},
	"owned": func(q *choose.Queue, c choose.Candidate) {
		q.Refused(c, choose.Refusal{Reason: choose.Owned, Provider: device(c)})
	},
	"busy":    func(q *choose.Queue, c choose.Candidate) { q.Refused(c, choose.Refusal{Reason: choose.Busy}) },
	"unnamed": func(q *choose.Queue, c choose.Candidate) { q.Refused(c, choose.Refusal{Reason: choose.Unnamed}) },
}

// next returns the next move in the notation of the table.
func next(q *choose.Queue, list []choose.Candidate) (string, choose.Candidate) {
	switch move, i := q.Next(list); move {
	case choose.Same:
		return device(list[i]), list[i]
	case choose.Other:
		return "other " + device(list[i]), list[i]
	case choose.Query:
		return "query", choose.Candidate{}
	}
	return "none", choose.Candidate{}
}

// Each step has the expected move and the event after it. A truncated response has as many candidates as the limit.
func TestWhatComesNext(t *testing.T) {
	t.Parallel()
	many := ""
	for n := range 20 {
		many += fmt.Sprintf("a%02d ", n)
	}
	type step struct{ next, then string }
	for name, tt := range map[string]struct {
		attempts int
		list     string
		origin   string // "": the caller's
		steps    []step
	}{
		"the first host": {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "claim"}, {"other b1", ""}}},
		"the next device of the host, else the next host": {3, "a1 b1 a2 c1", "", []step{
			{"other a1", "choose"}, {"a1", "taken"}, {"a2", "taken"}, {"other b1", "choose"}, {"b1", "claim"}, {"other c1", ""},
		}},
		"a host without processors": {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "full"}, {"other b1", ""}}},
		"a disk that all share":     {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "no disk"}, {"none", ""}}},
		"not a part of it":          {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "no memory"}, {"other b1", ""}}},
		"a part of another one":     {3, "a1 a2 b1 b2", "", []step{{"other a1", "choose"}, {"a1", "no b1"}, {"other b1", ""}}},
		"a busy host":               {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "busy"}, {"other b1", ""}}},
		"without a name":            {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "unnamed"}, {"other b1", ""}}},
		"a device that was removed": {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "gone"}, {"a2", ""}}},
		"a device of Nova's":        {3, "a1 a2 b1", "", []step{{"other a1", "choose"}, {"a1", "owned"}, {"a2", ""}}},
		"a host that is down":       {3, "a1 a2 b1", "", []step{{"other a1", "close"}, {"other b1", ""}}},
		"16 candidates of a host": {3, many + "b1", "", slices.Concat([]step{{"other a00", "choose"}}, func() (s []step) {
			for n := range 16 {
				s = append(s, step{fmt.Sprintf("a%02d", n), "taken"})
			}
			return append(s, step{"other b1", ""})
		}())},
		"as many hosts as attempts": {2, "a1 b1 c1", "", []step{
			{"other a1", "choose"}, {"a1", "taken"}, {"other b1", "choose"}, {"b1", "taken"}, {"none", ""},
		}},
		"a refusal is no attempt": {2, "a1 b1 c1 d1", "", []step{
			{"other a1", "choose"}, {"a1", "taken"}, {"other b1", "choose"}, {"b1", "claim"}, {"other c1", "choose"}, {"c1", "taken"},
			{"other d1", "choose"}, {"d1", "claim"}, {"none", ""},
		}},
		"a card of Nova's is no attempt": {1, "a1 b1", "", []step{{"other a1", "choose"}, {"a1", "owned"}, {"other b1", ""}}},

		"another device after a bind": {3, "a1 b1 a2", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"a2", "choose"}, {"a2", "claim"}, {"", "fail"}, {"other b1", ""},
		}},
		"as many devices as attempts": {2, "a1 a2 a3 b1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"a2", "choose"}, {"a2", "claim"}, {"", "fail"}, {"other b1", ""},
		}},
		"a failure that is reported twice": {3, "a1 a2 a3 b1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"", "fail"}, {"a2", "claim"}, {"", "fail"}, {"a3", ""},
		}},
		"a broken device after a refusal": {3, "a1 a2 a3 b1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"a2", "choose"}, {"a2", "taken"}, {"a3", ""},
		}},
		"a refused device after a bind": {3, "a1 a2 a3 b1", "", []step{
			{"other a1", "choose"}, {"a1", "taken"}, {"a2", "claim"}, {"", "fail"}, {"a3", ""},
		}},
		"another step after a bind": {3, "a1 a2 a3 b1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"a2", "choose"}, {"a2", "claim"}, {"other b1", ""},
		}},
		"a host without an agent": {3, "a1 a2 b1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"a2", "give up"}, {"other b1", ""},
		}},
		"a host that is down after a bind": {3, "a1 a2 b1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"a2", "close"}, {"other b1", ""},
		}},
		"no host after the last": {1, "a1 a2 b1", "cut", []step{{"other a1", "choose"}, {"a1", "claim"}, {"none", ""}}},

		"claimed again by the caller": {3, "a1 a2", "", []step{{"other a1", "choose"}, {"a1", "claim"}, {"", "choose"}, {"a1", ""}}},
		"and refused": {2, "a1 b1 c1", "", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"other b1", "choose"}, {"b1", "claim"}, {"", "choose"}, {"b1", "taken"}, {"none", ""},
		}},

		"a whole answer":           {3, "a1", "whole", []step{{"other a1", "choose"}, {"a1", "claim"}, {"none", ""}}},
		"a cut answer":             {3, "a1", "cut", []step{{"other a1", "choose"}, {"a1", "claim"}, {"query", ""}}},
		"after a refusal":          {3, "a1", "whole", []step{{"other a1", "choose"}, {"a1", "taken"}, {"query", ""}}},
		"after a card of Nova's":   {3, "a1", "whole", []step{{"other a1", "choose"}, {"a1", "owned"}, {"none", ""}}},
		"after enough refusals":    {1, "a1 b1", "whole", []step{{"other a1", "choose"}, {"a1", "taken"}, {"query", ""}}},
		"after refusal and claim":  {2, "a1 a2", "whole", []step{{"other a1", "choose"}, {"a1", "taken"}, {"a2", "claim"}, {"none", ""}}},
		"a refusal of a given one": {3, "a1", "", []step{{"other a1", "choose"}, {"a1", "taken"}, {"none", ""}}},
		"a refusal is forgotten":   {3, "a1 b1", "whole", []step{{"other a1", "choose"}, {"a1", "taken"}, {"", "answer"}, {"other a1", ""}}},
		"a busy host is tried":     {3, "a1 b1", "whole", []step{{"other a1", "choose"}, {"a1", "busy"}, {"", "answer"}, {"other a1", ""}}},
		"a removed device is not":  {3, "a1 b1", "whole", []step{{"other a1", "choose"}, {"a1", "gone"}, {"", "answer"}, {"other b1", ""}}},
		"a host without a name":    {3, "a1 b1", "whole", []step{{"other a1", "choose"}, {"a1", "unnamed"}, {"", "answer"}, {"other b1", ""}}},
		"a closed host is not":     {3, "a1 b1", "whole", []step{{"other a1", "close"}, {"", "answer"}, {"other b1", ""}}},
		"a claimed host is not":    {3, "a1 a2 b1", "whole", []step{{"other a1", "choose"}, {"a1", "claim"}, {"", "answer"}, {"other b1", ""}}},
		"nor a device of it": {3, "a1 a2 b1", "whole", []step{
			{"other a1", "choose"}, {"a1", "claim"}, {"", "fail"}, {"", "answer"}, {"other b1", ""},
		}},
		"eight queries": {3, "a1", "whole", slices.Concat(
			slices.Repeat([]step{{"other a1", "choose"}, {"a1", "taken"}, {"query", "answer"}}, 7),
			[]step{{"other a1", "choose"}, {"a1", "taken"}, {"none", ""}})},
		"eight queries for each claim": {2, "a1 b1", "whole", slices.Concat(
			[]step{
				{"other a1", "choose"}, {"a1", "taken"}, {"other b1", "choose"}, {"b1", "taken"}, {"query", "answer"},
				{"other a1", "choose"}, {"a1", "claim"}, {"other b1", "choose"}, {"b1", "taken"}, {"query", "answer"},
			},
			slices.Repeat([]step{{"other b1", "choose"}, {"b1", "taken"}, {"query", "answer"}}, 6),
			[]step{{"other b1", "choose"}, {"b1", "taken"}, {"none", ""}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, list := choose.New(tt.attempts), candidates(tt.list)
			answer := func() {
				limit := q.Ask()
				q.Answered(limit, map[string]int{"cut": limit}[tt.origin], list)
			}
			if tt.origin != "" {
				q.Begin(choose.Few(1000, tt.attempts, 1, tt.attempts))
				answer()
			}
			var last choose.Candidate
			for n, step := range tt.steps {
				if step.next != "" {
					got, at := next(q, list)
					if got != step.next {
						t.Fatalf("step %d of %d: %s, want %s", n+1, len(tt.steps), got, step.next)
					}
					last = at
				}
				switch step.then {
				case "":
				case "answer":
					answer()
				default:
					happens[step.then](q, last)
				}
			}
		})
	}
}

// The others are of each host the first one that may be claimed, for a handover.
func TestTheOthers(t *testing.T) {
	t.Parallel()
	q, list := choose.New(4), candidates("a1 a2 b1 b2 c1 d1 d2 e1 f1")
	q.Choose("b")
	happens["gone"](q, candidate("b1"))
	q.Choose("a")
	q.Claimed()
	happens["close"](q, candidate("c1"))
	var got []string
	for _, i := range q.Others(list) {
		got = append(got, device(list[i]))
	}
	if want := []string{"b2", "d1", "e1"}; !slices.Equal(got, want) || q.Claims() != 1 {
		t.Errorf("others %v after %d claims, want %v after 1", got, q.Claims(), want)
	}
}
