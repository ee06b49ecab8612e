package choose_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/choose"
)

// The limits of successive queries while every response has as many candidates as the limit.
func TestTheLimitsOfQueries(t *testing.T) {
	t.Parallel()
	none, one, three := []choose.Candidate{}, []choose.Candidate{{Root: "a"}}, []choose.Candidate{{Root: "a"}, {Root: "b"}, {Root: "c"}}
	for name, tt := range map[string]struct {
		limits choose.Limits
		usable []choose.Candidate
		want   []int
	}{
		"enough hosts":           {choose.Few(1000, 3, 1, 3), three, []int{10}},
		"too few hosts":          {choose.Few(1000, 3, 1, 3), one, []int{10, 40, 160, 640, 1000}},
		"none can be used":       {choose.Few(1000, 3, 1, 3), none, []int{10, 40, 160, 640, 1000, 4000, 16000, 64000}},
		"one host is enough":     {choose.Few(1000, 3, 1, 1), one, []int{10}},
		"no device":              {choose.Few(1000, 3, 0, 3), three, []int{10}},
		"three devices":          {choose.Few(1000, 3, 3, 3), three, []int{60}},
		"many devices":           {choose.Few(1000, 3, 9, 3), three, []int{1000}},
		"one attempt":            {choose.Few(1000, 1, 1, 1), one, []int{2}},
		"all attempts":           {choose.Few(1000, 1000, 1, 1), one, []int{1000}},
		"attempts without end":   {choose.Few(1000, 1<<62, 1, 3), one, []int{1000}},
		"all at once":            {choose.Whole(1000, 3), one, []int{1000}},
		"all at once, none":      {choose.Whole(1000, 3), none, []int{1000, 4000, 16000, 64000}},
		"a number":               {choose.Fixed(7, 3), one, []int{7}},
		"a number, none":         {choose.Fixed(7, 3), none, []int{7}},
		"without a limit":        {choose.Fixed(0, 3), one, []int{0}},
		"without a limit, none":  {choose.Fixed(0, 3), none, []int{0}},
		"few, where all are few": {choose.Few(8, 3, 1, 3), one, []int{8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := choose.New(3)
			q.Begin(tt.limits)
			var got []int
			for limit, again := q.Ask(), true; again && len(got) < 20; {
				got = append(got, limit)
				limit, again = q.Answered(limit, max(limit, 1<<20), tt.usable)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

// A response with fewer candidates than the limit is complete. Another query is useful only after a refused claim.
func TestAWholeAnswerIsAskedForAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	c := choose.Candidate{Root: "a", Allocations: map[string]map[string]int{"gpu": {"PGPU": 1}}}
	q := choose.New(3)
	q.Begin(choose.Few(1000, 3, 1, 3))
	if _, again := q.Answered(q.Ask(), 9, []choose.Candidate{c}); again {
		t.Error("a whole answer is asked for again")
	}
	q.Close("a")
	if move, _ := q.Next([]choose.Candidate{c}); move != choose.None {
		t.Errorf("without a refusal the next move is %d, want none", move)
	}
	q.Refused(c, choose.Refusal{Reason: choose.Busy})
	if move, _ := q.Next([]choose.Candidate{c}); move != choose.Query || q.Ask() != 40 {
		t.Errorf("after a refusal the next move is %d, want a query for 40", move)
	}
}
