package fault_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// recorded returns the records of a set.
func recorded(t fatal, s *fault.Set) (records []sim.Record) {
	for r, err := range s.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func TestASetWithTheSameRecordsFailsAtTheSamePlaces(t *testing.T) {
	t.Parallel()
	subject := rapid.SampledFrom([]string{"a", "b", "c", ""})
	rapid.Check(t, func(t *rapid.T) {
		set := newSet(t, rapid.SliceOfN(anyRule(), 0, 4).Draw(t, "rules")...)
		set.Seed(rapid.Uint64().Draw(t, "seed"))
		for _, s := range rapid.SliceOf(subject).Draw(t, "before") {
			set.Decide("op", s)
		}
		records := recorded(t, set)
		loaded := newSet(t, fault.Rule{Operation: "op", Action: fault.Delay, Delay: 1})
		if err := sim.Replace(t.Context(), loaded, records); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(records, recorded(t, loaded)); diff != "" {
			t.Errorf("records after Replace (-want +got):\n%s", diff)
		}
		for i, s := range rapid.SliceOf(subject).Draw(t, "after") {
			wantRule, want := set.Decide("op", s)
			if rule, hit := loaded.Decide("op", s); hit != want || rule != wantRule {
				t.Errorf("%d. decision, about %q: %v %+v, want %v %+v", i, s, hit, rule, want, wantRule)
			}
		}
		if diff := cmp.Diff(set.Rules(), loaded.Rules()); diff != "" {
			t.Errorf("rules and hits in the end (-want +got):\n%s", diff)
		}
	})
}

func goodRecords() string {
	return `[{"table": "sim.faults", "key": "0000000000", "row": {"position": 0, "rule": {"operation": "op", "action": "drop", "nth": 2, "times": 2}, "hits": 2, "seen": [{"subject": "a", "times": 2}, {"subject": "b", "times": 2}]}},
	{"table": "sim.faults", "key": "0000000001", "row": {"position": 1, "rule": {"operation": "op", "action": "delay", "delay": "1s", "subject": "a"}, "hits": 0}},
	{"table": "sim.faults.seed", "key": "seed", "row": {"seed": 7}}]`
}

func parse(t fatal, text string) (records []sim.Record) {
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		t.Fatal(err)
	}
	return records
}

func TestBadRecordsChangeNothing(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("op")
	if err := sim.Replace(t.Context(), set, parse(t, goodRecords())); err != nil {
		t.Fatal(err)
	}
	before := recorded(t, set)
	var counts []string
	for _, r := range before {
		if r.Table == "sim.faults.counts" {
			counts = append(counts, r.Key+" "+string(r.Row))
		}
	}
	// An older state has the counts in the rows of the rules.
	want := []string{`0000000000 a {"position":0,"subject":"a","times":2}`, `0000000000 b {"position":0,"subject":"b","times":2}`}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	tests := []struct{ name, old, new, want string }{
		{"unknown table", `sim.faults.seed`, `sim.fault`, "sim.fault seed: it is repeated, or none of"},
		{"a gap", `"0000000001"`, `"0000000002"`, "sim.faults 0000000002: it is repeated, or none of"},
		{"another position", `"position": 1`, `"position": 2`, "the row's position is 2"},
		{"unknown field", `{"seed"`, `{"sead"`, "sead"},
		{"unknown field of a rule", `"nth"`, `"mth"`, "mth"},
		{"negative seed", `"seed": 7`, `"seed": -7`, "seed"},
		{"unknown operation", `"op", "action": "delay"`, `"po", "action": "delay"`, `sim.faults: rule 1: fault: bad rule: unknown operation "po"`},
		{"impossible action", `"action": "drop"`, `"action": "reboot", "delay": "1s"`, "op cannot reboot"},
		{"bad rule", `"nth": 2`, `"nth": -2`, "nth -2"},
		{"twice", `"b"`, `"a"`, `sim.faults 0000000000: op: subject "a" occurs twice`},
		{"not seen", `"subject": "b", "times": 2`, `"subject": "b", "times": 0`, `subject "b" was seen 0 times`},
		{"another's", `"subject": "a"}, "hits": 0`, `"subject": "a"}, "hits": 0, "seen": [{"subject": "b", "times": 1}]`, `sim.faults 0000000001: op: subject "b" is not the rule's`},
		{"counts of no rule", `{"table": "sim.faults.seed"`, `{"table": "sim.faults.counts", "key": "0000000002 a", "row": {"position": 2, "subject": "a", "times": 1}}, {"table": "sim.faults.seed"`, "sim.faults.counts 0000000002 a: there is no rule at the position 2"},
		{"counts of another subject", `{"table": "sim.faults.seed"`, `{"table": "sim.faults.counts", "key": "0000000001 b", "row": {"position": 1, "subject": "a", "times": 1}}, {"table": "sim.faults.seed"`, `the row is of position 1 and subject "a"`},
		{"counts twice", `{"table": "sim.faults.seed"`, `{"table": "sim.faults.counts", "key": "0000000000 a", "row": {"position": 0, "subject": "a", "times": 1}}, {"table": "sim.faults.seed"`, `subject "a" occurs twice`},
		{"negative hits", `"hits": 2`, `"hits": -2`, "-2 hits"},
		{"too many hits", `"hits": 2`, `"hits": 3`, "3 hits are 1 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(goodRecords(), tt.old, tt.new, 1)
			if text == goodRecords() {
				t.Fatal("nothing was spoiled")
			}
			if err := sim.Replace(t.Context(), set, parse(t, text)); !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want ErrRecords with %q", err, tt.want)
			}
			if diff := cmp.Diff(before, recorded(t, set)); diff != "" {
				t.Fatalf("refused, yet changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Among thousands of subjects, what a request counts is what its commit writes.
func TestCommittedCountsAreComplete(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("op")
	var committed []string
	set.OnCommit(func(changes []sim.RecordChange) {
		committed = nil
		for _, c := range changes {
			committed = append(committed, c.Table+" "+c.Key)
		}
	})
	if err := set.Set(fault.Rule{Operation: "op", Action: fault.Drop, Nth: 2}); err != nil {
		t.Fatal(err)
	}
	for n := range 5000 {
		set.Decide("op", strconv.Itoa(n))
	}
	set.CommitCounts()
	for _, tt := range []struct {
		subject string
		want    []string
	}{
		{"new", []string{"sim.faults.counts 0000000000 new"}},
		{"17", []string{"sim.faults 0000000000", "sim.faults.counts 0000000000 17"}},
	} {
		set.Decide("op", tt.subject)
		set.CommitCounts()
		if diff := cmp.Diff(tt.want, committed); diff != "" {
			t.Errorf("%s: committed (-want +got):\n%s", tt.subject, diff)
		}
	}
}

func TestTheRecordsFollowTheCommits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := fault.NewSet("op")
		rows := make(map[string]any)
		follow := func(changes []sim.RecordChange) {
			for _, c := range changes {
				if rows[c.Table+c.Key] = c.After; c.After == nil {
					delete(rows, c.Table+c.Key)
				}
			}
		}
		set.OnCommit(follow)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				set.Seed(rapid.Uint64().Draw(t, "seed"))
			case 1:
				set.Clear()
			case 2:
				if err := set.Set(rapid.SliceOfN(anyRule(), 0, 4).Draw(t, "rules")...); err != nil {
					t.Skip(err)
				}
			default:
				set.Decide("op", "a")
			}
		}
		set.Seed(1)
		set.CommitCounts()
		want := make(map[string]any)
		for _, r := range recorded(t, set) {
			want[r.Table+r.Key] = string(r.Row)
		}
		for key, row := range rows {
			data, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			rows[key] = string(data)
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Fatalf("records (-set +commits):\n%s", diff)
		}
	})
}
