package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestSubjectsAreBounded(t *testing.T) {
	t.Parallel()
	s := NewSet(DeviceGet)
	if err := s.Set(Rule{Operation: DeviceGet, Action: Drop}); err != nil {
		t.Fatal(err)
	}
	s.subjects = maxSubjects - 2
	for i, want := range []bool{true, true, false} {
		if _, hit := s.Decide(DeviceGet, fmt.Sprint(i)); hit != want {
			t.Errorf("subject %d: applies: %t, want %t", i, hit, want)
		}
	}
	if n := len(s.rules[0].seen); n != 2 {
		t.Errorf("%d subjects are counted, want 2", n)
	}
}

func TestRulesAreBounded(t *testing.T) {
	t.Parallel()
	s, rule := NewSet(DeviceGet), Rule{Operation: DeviceGet, Action: Drop}
	many := make([]Rule, maxRules)
	for i := range many {
		many[i] = rule
	}
	if err := s.Set(many...); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(rule); !errors.Is(err, ErrRule) || len(s.Rules()) != maxRules {
		t.Errorf("%d rules, error %v, want ErrRule", len(s.Rules()), err)
	}
	if err := s.Set(rule); err != nil || len(s.Rules()) != 1 {
		t.Errorf("%d rules, error %v, want the one", len(s.Rules()), err)
	}
}
