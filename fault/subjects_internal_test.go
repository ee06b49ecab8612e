package fault

import (
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
