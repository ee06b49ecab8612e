package fault_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// Clients choose subjects. Whatever they are, the state of the rules can be loaded, and its
// keys fit into a state file.
func TestSubjectsOfAnyKindAreCounted(t *testing.T) {
	t.Parallel()
	s := fault.NewSet(fault.DeviceGet)
	rule := fault.Rule{Operation: fault.DeviceGet, Action: fault.Drop, Nth: 2}
	if err := s.Set(rule); err != nil {
		t.Fatal(err)
	}
	subjects := []string{"", "short", "\xfe", "\xff", strings.Repeat("a", 40_000), strings.Repeat("a", 40_001), "\x00"}
	for _, subject := range subjects {
		if _, hit := s.Decide(fault.DeviceGet, subject); hit {
			t.Errorf("%.10q: the first match fails", subject)
		}
	}
	records, err := tables.Collect(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if len(r.Key) > 300 {
			t.Errorf("a key of %d bytes", len(r.Key))
		}
	}
	loaded := fault.NewSet(fault.DeviceGet)
	commit, err := loaded.Prepare(records)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	again, err := tables.Collect(loaded)
	if diff := cmp.Diff(records, again); err != nil || diff != "" {
		t.Errorf("the state that was loaded (-want +got): %v\n%s", err, diff)
	}
	for _, subject := range subjects {
		if _, hit := loaded.Decide(fault.DeviceGet, subject); !hit {
			t.Errorf("%.10q: the second match does not fail", subject)
		}
	}
}

// The time to set rules is linear in their number. The longest list that fits into a request took
// a minute and a half, in which no request was answered.
func BenchmarkSet(b *testing.B) {
	for _, n := range []int{1000, 90_000} {
		rules := make([]fault.Rule, n)
		for i := range rules {
			rules[i] = fault.Rule{Operation: fault.DeviceGet, Action: fault.Drop, Nth: 1 + i%500}
		}
		b.Run(fmt.Sprint("rules=", n), func(b *testing.B) {
			for b.Loop() {
				if err := fault.NewSet(fault.DeviceGet).Set(rules...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
