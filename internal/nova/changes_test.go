package nova_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/sim"
)

func TestAcceptedEventsAreNoted(t *testing.T) {
	t.Parallel()
	server := strictServer(t)
	var last sim.Exchange
	server.Service.Observe = func(e sim.Exchange) { last = e }
	post(t, server, events(event(noHost, `,"tag":"a"`)))
	if len(last.Changes) != 0 {
		t.Errorf("a refused event is noted: %v", last.Changes)
	}
	post(t, server, events(event(ready, `,"tag":"p","status":"completed"`), event(noHost, `,"tag":"a"`), event(ready, `,"tag":"q","status":"failed"`)))
	want := []sim.Change{
		{Action: "created", Kind: "event", ID: "1", What: "accelerator-request-bound completed for instance " + ready + ", tag p"},
		{Action: "created", Kind: "event", ID: "3", What: "accelerator-request-bound failed for instance " + ready + ", tag q"},
	}
	if diff := cmp.Diff(want, last.Changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, c := range want {
		at := []int{1, 3}[i]
		if got := server.Events()[at]; *got.Tag != c.What[len(c.What)-1:] {
			t.Errorf("event %d is %+v", at, got)
		}
	}
	if post(t, server, `{"events":[]}`); len(last.Changes) != 0 {
		t.Errorf("a bad body is noted: %v", last.Changes)
	}
}
