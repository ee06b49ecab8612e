package fault_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
)

func dumped(t fatal, s *fault.Set) []byte {
	data, err := s.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A set that was loaded goes on as the one that was dumped.
func TestALoadedSetGoesOnFailingAtTheSamePlaces(t *testing.T) {
	t.Parallel()
	subject := rapid.SampledFrom([]string{"a", "b", "c", ""})
	rapid.Check(t, func(t *rapid.T) {
		set := fault.NewSet("op", "other")
		set.Seed(rapid.Uint64().Draw(t, "seed"))
		if err := set.Set(rapid.SliceOfN(anyRule(), 0, 4).Draw(t, "rules")...); err != nil {
			t.Fatal(err)
		}
		for _, s := range rapid.SliceOf(subject).Draw(t, "before") {
			set.Decide("op", s)
		}
		data := dumped(t, set)
		loaded := fault.NewSet("op")
		if err := loaded.Set(fault.Rule{Operation: "op", Action: fault.Delay, Delay: 1}); err != nil {
			t.Fatal(err)
		}
		if err := loaded.Load(data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), string(dumped(t, loaded))); diff != "" {
			t.Errorf("the dump of what was loaded (-want +got):\n%s", diff)
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

const goodDump = `{"schema_version": 1, "seed": 7, "rules": [
	{"rule": {"operation": "op", "action": "drop", "nth": 2, "times": 2}, "hits": 2, "seen": [{"subject": "a", "times": 2}, {"subject": "b", "times": 2}]},
	{"rule": {"operation": "op", "action": "delay", "delay": "1s", "subject": "a"}, "hits": 0}]}`

func TestABadDumpChangesNothing(t *testing.T) {
	t.Parallel()
	set := fault.NewSet("op")
	if err := set.Load([]byte(goodDump)); err != nil {
		t.Fatal(err)
	}
	before := dumped(t, set)
	tests := []struct{ name, old, new, want string }{
		{"cut off", `"rules"`, "", "invalid character"},
		{"trailing data", `"hits": 0}]}`, `"hits": 0}]} {}`, "something follows"},
		{"version", `"schema_version": 1`, `"schema_version": 2`, "schema_version 2, want 1"},
		{"unknown field", `"seed"`, `"sead"`, "sead"},
		{"unknown field of a rule", `"nth"`, `"mth"`, "mth"},
		{"negative seed", `"seed": 7`, `"seed": -7`, "seed"},
		{"unknown operation", `"op", "action": "delay"`, `"po", "action": "delay"`, `rule 1: fault: bad rule: unknown operation "po"`},
		{"impossible action", `"action": "drop"`, `"action": "reboot", "delay": "1s"`, "op cannot reboot"},
		{"bad rule", `"nth": 2`, `"nth": -2`, "nth -2"},
		{"twice", `"b"`, `"a"`, `rule 0: op: subject "a" is there twice`},
		{"not met", `"subject": "b", "times": 2`, `"subject": "b", "times": 0`, `subject "b" was met 0 times`},
		{"another's", `"subject": "a"}, "hits": 0`, `"subject": "a"}, "hits": 0, "seen": [{"subject": "b", "times": 1}]`, `rule 1: op: subject "b" is not the rule's`},
		{"negative hits", `"hits": 2`, `"hits": -2`, "-2 hits"},
		{"too many hits", `"hits": 2`, `"hits": 3`, "3 hits are 1 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(goodDump, tt.old, tt.new, 1)
			if text == goodDump {
				t.Fatal("nothing was spoiled")
			}
			if err := set.Load([]byte(text)); !errors.Is(err, fault.ErrDump) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want ErrDump with %q", err, tt.want)
			}
			if !bytes.Equal(before, dumped(t, set)) {
				t.Fatal("refused, yet changed")
			}
		})
	}
}

// Whoever adds a field to the state decides here whether it is part of a dump.
func TestEveryFieldOfTheStateIsInTheDumpOrDerived(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"mu": "a lock", "operations": "told by the simulator", "observe": "the program's", // not dumped
		"seed": "dumped", "rules": "dumped",
	}
	wantRule := map[string]string{"rule": "dumped", "key": "derived", "seen": "dumped", "hits": "dumped"}
	set := reflect.TypeFor[fault.Set]()
	rules, _ := set.FieldByName("rules")
	for _, tt := range []struct {
		state reflect.Type
		known map[string]string
	}{{set, want}, {rules.Type.Elem().Elem(), wantRule}} {
		for i := range tt.state.NumField() {
			if name := tt.state.Field(i).Name; tt.known[name] == "" {
				t.Errorf("field %s of %s is neither dumped nor known as derived", name, tt.state)
			}
		}
		if tt.state.NumField() != len(tt.known) {
			t.Errorf("%s has %d fields, want %d", tt.state, tt.state.NumField(), len(tt.known))
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(goodDump))
	f.Add([]byte(`{"schema_version": 1}`))
	f.Add([]byte(`{"schema_version": 1, "rules": [{"rule": {"operation": "op", "action": "drop", "probability": 0.5, "times": 9223372036854775807}, "hits": 1, "seen": [{"subject": "", "times": 9223372036854775807}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set := fault.NewSet("op")
		if err := set.Set(fault.Rule{Operation: "op", Action: fault.Drop}); err != nil {
			t.Fatal(err)
		}
		before := dumped(t, set)
		if err := set.Load(data); err != nil {
			if !errors.Is(err, fault.ErrDump) || !bytes.Equal(before, dumped(t, set)) {
				t.Fatalf("%v, or the set was changed", err)
			}
			return
		}
		once := dumped(t, set)
		if err := set.Load(once); err != nil {
			t.Fatalf("its own dump: %v", err)
		}
		if twice := dumped(t, set); !bytes.Equal(once, twice) {
			t.Fatalf("dumps differ:\n%s\n%s", once, twice)
		}
		set.Decide("op", "a")
	})
}
