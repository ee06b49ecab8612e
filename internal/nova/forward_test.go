package nova_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
)

// Every event is forwarded as its rule says, regardless of the rules of other events: lost ones
// never, duplicated ones twice in a row, reordered ones at the end and backwards.
func TestEachEventIsPassedOnAsItsRuleSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		box, faults := &inbox{}, fault.NewSet()
		server := nova.New(nova.Config{Faults: faults})
		defer server.Close()
		server.HandleEvents(box)
		var rules []fault.Rule
		var bodies, want, last []string
		for i := range rapid.IntRange(1, 8).Draw(rt, "events") {
			tag := fmt.Sprint("tag", i)
			action := rapid.SampledFrom([]fault.Action{"", fault.Drop, fault.Status, fault.Duplicate, fault.Reorder}).Draw(rt, "action")
			bodies = append(bodies, event(ready, `,"tag":"`+tag+`"`))
			line := "accelerator-request-bound 1111 " + tag + " completed"
			switch action {
			case "":
				want = append(want, line)
				continue
			case fault.Status:
				want = append(want, "accelerator-request-bound 1111 "+tag+" failed")
			case fault.Duplicate:
				want = append(want, line, line)
			case fault.Reorder:
				last = append(last, line)
			}
			rules = append(rules, fault.Rule{Operation: fault.ExternalEventForward, Subject: tag, Action: action})
		}
		must(rt, faults.Set(rules...))
		post(t, server, events(bodies...))
		slices.Reverse(last)
		if diff := cmp.Diff(append(want, last...), box.got()); diff != "" {
			rt.Fatalf("passed on (-want +got):\n%s", diff)
		}
	})
}
