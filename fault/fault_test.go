package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

func TestDecideCountsEachSubjectOnItsOwn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rule fault.Rule
		want string // one letter per call of Decide: x fails, . passes
	}{
		{"first by default", fault.Rule{Operation: "op", Action: fault.Drop}, "x..x.."},
		{"second", fault.Rule{Operation: "op", Action: fault.Drop, Nth: 2}, ".x..x."},
		{"two from the second", fault.Rule{Operation: "op", Action: fault.Drop, Nth: 2, Times: 2}, ".xx.xx"},
		{"always", fault.Rule{Operation: "op", Action: fault.Drop, Times: -1}, "xxxxxx"},
		{"one subject", fault.Rule{Operation: "op", Action: fault.Drop, Subject: "b", Times: -1}, "...xxx"},
		{"another operation", fault.Rule{Operation: "other", Action: fault.Drop, Times: -1}, "......"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := newSet(t, tt.rule)
			got := ""
			for _, subject := range []string{"a", "a", "a", "b", "b", "b"} {
				if _, hit := set.Decide("op", subject); hit {
					got += "x"
				} else {
					got += "."
				}
			}
			if got != tt.want {
				t.Errorf("decisions: got %s, want %s", got, tt.want)
			}
		})
	}
}

// A rule for a service applies to each request of it, and not to its background work or to another service.
func TestARuleForAService(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("arq.bind", "arq.list", "device.list")
	set.RegisterWork(fault.Operation{Name: "arq.report", Subject: "the host", Actions: []fault.Action{fault.Status}})
	if err := set.Set(fault.Rule{Operation: fault.OfService("arq.list"), Action: fault.Proxy, Status: 503, Times: -1}); err != nil {
		t.Fatal(err)
	}
	services := []fault.Operation{{Name: "arq.*", Subject: "the first identifier in the path"}, {Name: "device.*", Subject: "the first identifier in the path"}}
	if diff := cmp.Diff(services, set.Services(), cmpopts.IgnoreFields(fault.Operation{}, "Actions")); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	got := map[sim.OperationName]bool{}
	for _, operation := range set.Operations() {
		_, got[operation] = set.Decide(operation, "a")
	}
	want := map[sim.OperationName]bool{"arq.bind": true, "arq.list": true, "arq.report": false, "device.list": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what fails (-want +got):\n%s", diff)
	}
}

func TestAnUnknownOperationSuggestsTheClosestName(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("arq.bind", "arq.list")
	set.RegisterWork(fault.Operation{Name: "work.report"})
	for name, want := range map[sim.OperationName]string{
		"arq.bnd": `unknown operation "arq.bnd", did you mean arq.bind?`, "bind": `unknown operation "bind", did you mean arq.bind?`, "arq": `unknown operation "arq", did you mean arq.*?`,
		"work.*": `unknown operation "work.*"`, "*": `unknown operation "*"`, "device.*": `unknown operation "device.*"`,
	} {
		err := set.Set(fault.Rule{Operation: name, Action: fault.Drop})
		if !errors.Is(err, fault.ErrRule) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want ErrRule with %s", name, err, want)
		}
	}
}

func TestSetRefusesBadRulesAndKeepsTheOldOnes(t *testing.T) {
	t.Parallel()
	good := fault.Rule{Operation: "op", Action: fault.Status, Status: 503}
	bad := []fault.Rule{
		{},
		{Operation: "nope", Action: fault.Drop},
		{Operation: "op"},
		{Operation: "op", Action: "explode"},
		{Operation: "op", Action: fault.Drop, Nth: -1},
		{Operation: "op", Action: fault.Drop, Times: -2},
		{Operation: "op", Action: fault.Drop, When: "during"},
		{Operation: "op", Action: fault.Status, Status: 200},
		{Operation: "op", Action: fault.Delay},
		{Operation: "op", Action: fault.Delay, Delay: -time.Second},
		{Operation: "op", Action: fault.Truncate, When: fault.Before},
		{Operation: "op", Action: fault.SlowBody},
		{Operation: "op", Action: fault.SlowBody, Delay: time.Second, When: fault.Before},
		{Operation: "op", Action: fault.Late},
		{Operation: "op", Action: fault.ExpireToken, When: fault.After},
		{Operation: "op", Action: fault.Proxy, Status: 302},
		{Operation: "op", Action: fault.Late, Delay: time.Second, When: fault.After},
		{Operation: "op", Action: fault.Duplicate},
		{Operation: "op", Action: fault.Reboot, Delay: time.Second},
	}
	for i, rule := range bad {
		set := newSet(t, good)
		if err := set.Set(good, rule); !errors.Is(err, fault.ErrRule) {
			t.Errorf("rule %d: got error %v, want ErrRule", i, err)
		}
		if diff := cmp.Diff([]fault.State{{Rule: good}}, set.Rules()); diff != "" {
			t.Errorf("rule %d: the refused set changed the rules (-want +got):\n%s", i, diff)
		}
	}
}

// A rule that is done does not fire again when another rule is added or removed. The saved set is
// then equal to a set that never had the other rule.
func TestRulesKeepTheirCountsWhenOthersChange(t *testing.T) {
	t.Parallel()
	once := fault.Rule{Operation: "arq.bind", Action: fault.Drop}
	often := fault.Rule{Operation: "arq.list", Action: fault.Status, Times: -1}
	chance := fault.Rule{Operation: "arq.list", Action: fault.Drop, Probability: 0.5}
	s := fault.NewSet("arq.bind", "arq.list")
	for _, rule := range []fault.Rule{once, chance, chance} {
		if err := s.Add(rule); err != nil {
			t.Fatal(err)
		}
	}
	fires := func(operation sim.OperationName) bool { _, found := s.Decide(operation, "a"); return found }
	if !fires("arq.bind") {
		t.Fatal("the rule does not fire")
	}
	if err := s.Add(often, fault.Rule{Operation: "nope", Action: fault.Drop}); !errors.Is(err, fault.ErrRule) {
		t.Errorf("a bad rule: %v", err)
	}
	if err := s.Add(often); err != nil || fires("arq.bind") || !fires("arq.list") {
		t.Errorf("after an addition: %v, want only the new rule to fire", err)
	}
	if s.Remove(fault.Rule{Operation: "arq.bind", Action: fault.Status}) || !s.Remove(chance) || !s.Remove(often) {
		t.Error("removed a rule that is not set, or not one that is")
	}
	if got := s.Rules(); len(got) != 2 || got[0].Hits != 1 || got[0].Rule != once || got[1].Rule != chance || fires("arq.bind") {
		t.Errorf("after a removal: %+v", got)
	}
	again := fault.NewSet("arq.bind", "arq.list")
	if err := sim.Replace(t.Context(), again, recorded(t, s)); err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		subject := fmt.Sprint(n)
		_, want := s.Decide("arq.list", subject)
		if _, got := again.Decide("arq.list", subject); got != want {
			t.Errorf("subject %d: fires %t from the records, %t in the set", n, got, want)
		}
	}
}

func TestAnOperationTakesItsOwnActionsOnly(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("request", "work")
	work := fault.Operation{Name: "work", Subject: "the host", Actions: []fault.Action{fault.Drop, fault.Reboot}}
	set.RegisterWork(work)
	set.Register("work") // a name says less than a description
	for _, tt := range []struct {
		rule fault.Rule
		good bool
	}{
		{fault.Rule{Operation: "work", Action: fault.Drop}, true},
		{fault.Rule{Operation: "work", Action: fault.Reboot, Delay: time.Minute}, true},
		{fault.Rule{Operation: "work", Action: fault.Reboot}, false},
		{fault.Rule{Operation: "work", Action: fault.Status}, false},
		{fault.Rule{Operation: "request", Action: fault.SlowBody, Delay: time.Second}, true},
		{fault.Rule{Operation: "request", Action: fault.Reorder}, false},
	} {
		err := set.Set(tt.rule)
		if (err == nil) != tt.good || err != nil && !errors.Is(err, fault.ErrRule) {
			t.Errorf("%+v: got error %v, want none: %v", tt.rule, err, tt.good)
		}
	}
	request := fault.Operation{Name: "request", Subject: "the first identifier in the path", Actions: fault.NewSet("request").Describe()[0].Actions}
	if diff := cmp.Diff([]fault.Operation{request, work}, set.Describe()); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	set.Describe()[1].Actions[0] = fault.Status // a copy
	if err := set.Set(fault.Rule{Operation: "work", Action: fault.Status}); !errors.Is(err, fault.ErrRule) {
		t.Errorf("got error %v, want ErrRule", err)
	}
}

func TestRuleJSONRoundTrip(t *testing.T) {
	t.Parallel()
	want := fault.Rule{Operation: "op", Subject: "s", Nth: 2, Times: -1, When: fault.After, Action: fault.Delay, Delay: 20 * time.Millisecond}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got fault.Rule
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("round trip of %s (-want +got):\n%s", data, diff)
	}
	for _, text := range []string{`{"operation":"op","acton":"drop"}`, `{"delay":"soon"}`, `[]`} {
		if err := json.Unmarshal([]byte(text), new(fault.Rule)); !errors.Is(err, fault.ErrRule) {
			t.Errorf("%s: got error %v, want ErrRule", text, err)
		}
	}
}

func ExampleSet_Decide() {
	faults := fault.NewSet(fault.ARQBind)
	err := faults.Set(fault.Rule{Operation: fault.ARQBind, Nth: 2, Action: fault.Status, Status: 503})
	fmt.Println(err)
	for range 3 {
		rule, hit := faults.Decide(fault.ARQBind, "")
		fmt.Println(hit, rule.Status)
	}
	fmt.Println(faults.Rules()[0].Hits)
	// Output:
	// <nil>
	// false 0
	// true 503
	// false 0
	// 1
}

func TestAPausedSetFailsNothingAndKeepsItsRules(t *testing.T) {
	t.Parallel()
	var s fault.Set
	s.Register(fault.ARQBind)
	if err := s.Set(fault.Rule{Operation: fault.ARQBind, Action: fault.Drop, Nth: 2}); err != nil {
		t.Fatal(err)
	}
	fails := func() bool { _, hit := s.Decide(fault.ARQBind, "x"); return hit }
	first, outer := fails(), s.Pause()
	inner := s.Pause()
	paused := fails()
	inner()
	still := fails()
	outer()
	if resumed := fails(); first || paused || still || !resumed {
		t.Errorf("failed %t, paused %t and %t, resumed %t; want only the last, which is the second that counts", first, paused, still, resumed)
	}
	if n := len(s.Rules()); n != 1 {
		t.Errorf("%d rules, want 1", n)
	}
}
