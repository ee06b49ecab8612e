package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

func TestRulesAreReadFromAFile(t *testing.T) {
	t.Parallel()
	got, err := fault.ParseRules([]byte(`[{"operation": "a.b", "nth": 2, "action": "delay", "delay": "1m"}, {"operation": "a.c", "action": "drop", "when": "after"}] `))
	if err != nil {
		t.Fatal(err)
	}
	want := []fault.Rule{
		{Operation: "a.b", Nth: 2, Action: fault.Delay, Delay: time.Minute},
		{Operation: "a.c", Action: fault.Drop, When: fault.After},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if got, err := fault.ParseRules([]byte("[]")); err != nil || got == nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

func TestBadListsOfRulesAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":     "not a list of rules",
		"null": "null",
		"{}":   "not a list of rules",
		"[] x": "after top-level value",
		`[{"operation": "a.b", "action": "drop"}, {"operation": "a.b", "action": "paint"}]`: "rule 1",
		`[{"operation": "a.b", "action": "drop", "colour": "red"}]`:                         "colour",
		`[{"operation": "a.b", "action": "slow-body", "delay": "soon"}]`:                    "delay",
		`[{"operation": "a.b", "action": "reboot"}]`:                                        "delay 0s",
		`[{"operation": "a.b", "action": "drop", "probability": 1e-400}]`:                   "probability 1e-400: too close to 0",
		`[{"operation": "a.b", "action": "drop", "probability": -0.01E-999}]`:               "too close to 0",
		`[{"operation": "a.b", "action": "drop", "probability": 1e400}]`:                    "probability",
		`[{"operation": "a.b", "action": "drop", "probability": "0.5"}]`:                    "probability",
	} {
		if rules, err := fault.ParseRules([]byte(text)); !errors.Is(err, fault.ErrRule) || !strings.Contains(err.Error(), want) || rules != nil {
			t.Errorf("%q: %v, %v, want ErrRule with %q", text, rules, err, want)
		}
	}
}

func TestTheObserverSeesEveryDecision(t *testing.T) {
	t.Parallel()
	s := fault.NewSet("a.b")
	var seen []string
	s.Observe(func(operation sim.OperationName, subject string) {
		seen = append(seen, fmt.Sprint(operation, " ", subject, " ", s.Operations()))
	})
	s.Decide("a.b", "1")
	s.Decide("a.c", "2")
	s.Observe(nil)
	s.Decide("a.b", "3")
	if diff := cmp.Diff([]string{"a.b 1 [a.b]", "a.c 2 [a.b]"}, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

// FuzzParseRules reads any text: what is taken makes sense, and reads the same when it
// is written.
func FuzzParseRules(f *testing.F) {
	f.Add([]byte(`[{"operation":"accelerator.arq.bind","nth":1,"when":"after","action":"drop"}]`))
	f.Add([]byte(`[{"operation":"accelerator.agent.call","subject":"cn0","times":-1,"action":"reboot","delay":"5m"}]`))
	f.Add([]byte(`[{"operation":"x","action":"status","status":503,"code":"a.b"},null]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := fault.ParseRules(data)
		if err != nil {
			if !errors.Is(err, fault.ErrRule) {
				t.Fatalf("error %v is no ErrRule", err)
			}
			return
		}
		text, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		again, err := fault.ParseRules(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(rules, again); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	})
}
