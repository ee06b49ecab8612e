package statuspage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/sim"
)

// id is the n-th UUID of a kind.
func id(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }

// spawned is the record of a spawn: from candidates to the deletion, with or without a global request ID. Nova
// sends none to Cyborg.
func spawned(n int, global bool) []sim.Exchange {
	server, arq := id(1, n), id(2, n)
	list := []sim.Exchange{
		{Operation: "placement.allocation_candidates.list", Path: fmt.Sprintf("/placement/candidates%d", n)},
		{Operation: "placement.allocations.put", Subject: server, Path: "/placement/allocations/" + server, Changes: []sim.Change{
			{Action: sim.Created, Kind: "consumer", ID: server}, {Action: sim.Created, Kind: "allocation", ID: server + "/" + id(9, 9) + "/PGPU"},
			{Action: sim.Changed, Kind: "resource_provider", ID: id(9, 9)},
		}},
		{Operation: "accelerator.arq.create", Path: fmt.Sprintf("/create%d", n), Changes: []sim.Change{{Action: sim.Created, Kind: "accelerator_request", ID: arq, What: "of device profile gpu"}}},
		{Operation: "accelerator.arq.bind", Path: fmt.Sprintf("/bind%d", n), Changes: []sim.Change{
			{Action: sim.Changed, Kind: "accelerator_request", ID: arq, What: "hostname none -> cn0, instance_uuid none -> " + server + ", device_rp_uuid none -> " + id(9, 9)},
		}},
		{Operation: "compute.external_events.create", Path: fmt.Sprintf("/event%d", n), From: "cyborg", Changes: []sim.Change{
			{Action: sim.Created, Kind: "event", ID: "0", What: "accelerator-request-bound completed for instance " + server + ", tag " + arq},
		}},
		{Operation: "accelerator.arq.list", Path: fmt.Sprintf("/poll%d", n), Query: "instance=" + server},
		{Operation: "accelerator.arq.delete", Path: fmt.Sprintf("/delete%d", n), Query: "arqs=" + arq},
	}
	for i := range list {
		list[i].Service, _, _ = strings.Cut(string(list[i].Operation), ".")
		list[i].Method, list[i].Status, list[i].Started = "GET", 200, start
		if global && list[i].From == "" {
			list[i].GlobalRequestID = "req-" + server
		}
	}
	return list
}

// interleave takes one request of each list, round-robin.
func interleave(lists ...[]sim.Exchange) (all []sim.Exchange) {
	for i := range lists[0] {
		for _, list := range lists {
			all = append(all, list[i])
		}
	}
	return all
}

func TestParallelSpawnsAreIndependent(t *testing.T) {
	t.Parallel()
	w := &world{requests: interleave(spawned(1, true), spawned(2, false), spawned(3, true))}
	flows := strings.Split(show(t, w, "?part=flows"), "<h3 ")[1:]
	if len(flows) != 4 { // the candidates of one spawn without an ID are of no story
		t.Fatalf("%d flows, want 4", len(flows))
	}
	for i, n := range []int{3, 2, 1} {
		wanted, unwanted := []string{"Instance <code>" + id(1, n) + "</code>", "?flows=" + id(1, n) + "#flows"}, []string{}
		for _, step := range []string{"create", "bind", "event", "poll", "delete"} {
			wanted = append(wanted, fmt.Sprintf("/%s%d", step, n))
			unwanted = append(unwanted, fmt.Sprintf("/%s%d", step, n%3+1))
		}
		if n != 2 {
			wanted = append(wanted, fmt.Sprintf("/candidates%d", n))
		}
		checkTexts(t, fmt.Sprintf("flow %d", i), flows[i], wanted, unwanted)
	}
	checkTexts(t, "the rest", flows[3], []string{"/candidates2", "1 request from"}, []string{"Instance", "/candidates1"})
}

func TestAStoryIsFoundByInstanceRequestOrText(t *testing.T) {
	t.Parallel()
	both := interleave(spawned(1, true), spawned(2, false))
	moved := sim.Exchange{Service: "placement", Operation: "placement.allocations.post", Path: "/move", Changes: []sim.Change{{Kind: "consumer", ID: id(1, 1)}, {Kind: "consumer", ID: id(1, 2)}}}
	w := &world{requests: append(both, moved)}
	steps := func(n int, names ...string) (list []string) {
		for _, name := range names {
			list = append(list, fmt.Sprintf("/%s%d", name, n))
		}
		return list
	}
	for _, tt := range []struct {
		text             string
		wanted, unwanted []string
	}{
		{id(1, 1), append(steps(1, "candidates", "create", "bind", "event", "poll", "delete"), "/move"), steps(2, "candidates", "create", "bind", "event", "poll", "delete")},
		{id(2, 1), steps(1, "candidates", "create", "bind", "event", "poll", "delete"), append(steps(2, "create", "bind"), "/move")},
		{id(1, 2), append(steps(2, "create", "bind", "event", "poll", "delete"), "/move"), steps(1, "candidates", "create")},
		{id(9, 9), append(steps(1, "bind"), steps(2, "bind")...), steps(1, "create", "poll")},
		{"nothing", []string{"There are no such requests."}, []string{"/bind"}},
	} {
		checkTexts(t, tt.text, show(t, w, "?part=flows&flows="+tt.text), tt.wanted, tt.unwanted)
	}
}

// A spawn has requests for accelerators and allocations before its instance runs: what it holds counts as in a check, and
// the page says that it has just changed. Where time does not pass, nothing is in progress for ever.
func TestLeaksThatHaveJustChanged(t *testing.T) {
	t.Parallel()
	w := &world{leaks: []statuspage.Leak{{Subject: id(2, 1), Text: "of a spawn"}, {Subject: id(2, 7), Text: "of nothing"}}, requests: spawned(1, true)[:4]}
	for _, tt := range []struct {
		name   string
		age    time.Duration
		manual bool
		recent string
	}{
		{"in progress", 29 * time.Second, false, " 1 of them changed in the last 30 seconds: a spawn"},
		{"with a manual clock", 29 * time.Second, true, ""},
		{"later", 31 * time.Second, false, ""},
	} {
		w.manual = tt.manual
		for i := range w.requests {
			w.requests[i].Started = start.Add(-tt.age)
		}
		wanted := []string{"<p>2 leaks." + tt.recent, "<li>of nothing</li>"}
		if tt.recent == "" {
			wanted = append(wanted, "<li>of a spawn</li>")
		} else {
			wanted = append(wanted, `<li class="recent">of a spawn (changed at 11:59:31)</li>`)
		}
		checkTexts(t, tt.name, show(t, w, "?part=leaks"), wanted, []string{"Nothing leaked"})
	}
}

func TestFailedBindsAreAboveTheList(t *testing.T) {
	t.Parallel()
	w := large()
	for n := range 7 {
		w.arqs = append(w.arqs, fakecyborg.ARQ{UUID: fmt.Sprint("failed", n), State: fakecyborg.StateBindFailed, InstanceUUID: fmt.Sprint("server", n), Hostname: "cn9", Failure: "no <handle>"})
	}
	checkTexts(t, "the section", show(t, w, "?part=arqs"), []string{
		`data-news="failed6" open`, "<code>failed6</code> of instance <code>server6</code> on cn9: no &lt;handle&gt;", "<code>failed2</code>", "?flows=server6#flows",
	}, []string{"<code>failed1</code>"})
}
