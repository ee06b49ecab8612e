package servicetest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/sim"
)

func TestNovaInputs(t *testing.T) {
	t.Parallel()
	config := nova.Config{Seed: 1, Flavors: []nova.Flavor{{Name: "a", VCPUs: 2, MemoryMB: 1, RootGB: 2}, {Name: "b", VCPUs: 1, MemoryMB: 2, RootGB: 1}, {Name: "c", VCPUs: 3}}}
	requests := []request{{
		method: "POST", path: "/v2.1/os-server-external-events", version: "compute 2.82",
		body: `{"events": [{"name": "accelerator-request-bound", "server_uuid": "` + instanceA + `", "tag": "` + unknownID + `", "status": "failed"}]}`,
	}}
	_, after, _ := strings.Cut(send(t, nova.New(config), get("/v2.1/flavors?sort_key=name&limit=1")).seen, "marker=")
	marker, _, _ := strings.Cut(after, "&")
	for _, list := range []string{"/v2.1/flavors", "/v2.1/flavors/detail"} {
		requests = append(requests,
			get(list+"?sort_key=name&sort_dir=desc&limit=1"), get(list+"?sort_key=name&marker="+marker), get(list+"?is_public=false"), get(list+"?minRam=2"), get(list+"?minDisk=2"))
	}
	check(t, nova.New(config).Routes(), requests, func(r request) answer {
		server := nova.New(config)
		defer server.Close()
		got := send(t, server, r)
		var events []sim.Event
		for _, e := range server.Events() {
			events = append(events, e.Event)
		}
		got.seen += asJSON(t, events)
		return got
	})
}

// fullNova is a server with a guest and an event of each fate, and its state.
func fullNova(t testing.TB) (*nova.Server, string) {
	t.Helper()
	faults := fault.NewSet()
	s := nova.New(nova.Config{Seed: 3, StrictInstances: true, Faults: faults})
	t.Cleanup(s.Close)
	must(t, faults.Set(
		fault.Rule{Operation: fault.ExternalEventForward, Subject: "late", Action: fault.Delay, Delay: 10 * time.Minute, Times: -1},
		fault.Rule{Operation: fault.ExternalEventForward, Subject: "lost", Action: fault.Drop, Times: -1},
	))
	s.HandleEvents(http.NotFoundHandler())
	must(t, s.DefineGuest(sim.Guest{UUID: instanceA, Host: "cn0", Domain: "<domain/>"}))
	var events []string
	for _, e := range [][2]string{{instanceA, "late"}, {instanceA, "lost"}, {instanceA, "x"}, {unknownID, "y"}} {
		events = append(events, `{"name": "accelerator-request-bound", "server_uuid": "`+e[0]+`", "tag": "`+e[1]+`"}`)
	}
	send(t, s, request{
		method: "POST", path: "/v2.1/os-server-external-events", version: "compute 2.82", body: `{"events": [` + strings.Join(events, ", ") + `]}`,
	})
	return s, dump(t, s.State())
}

func TestNovaStates(t *testing.T) {
	t.Parallel()
	s, before := fullNova(t)
	replaced := replacer(t, before)
	checkBadStates(t, s.State(), []badState{
		{"unknown table", replaced(`"compute.guests"`, `"compute.servers"`), "compute.servers"},
		{"unknown field", replaced(`"domain"`, `"xml"`), `unknown field "xml"`},
		{"guest under another key", replaced(`"key": "aaaa`, `"key": "2222`), "the row's key is aaaa"},
		{"guest without uuid", strings.ReplaceAll(before, instanceA, ""), "is not a UUID"},
		{"guest with a bad domain", replaced(`\u003cdomain/\u003e`, `\u003cguest/\u003e`), "not domain"},
		{"event above the sequence", replaced(`"last": 4`, `"last": 2`), "the sequence events is at 2 only"},
		{"event of no server", replaced(`"server_uuid": "`, `"server_uuid": "x`), `server_uuid "xaaaa`},
		{"event of no name", replaced(`"name": "accelerator-request-bound"`, `"name": ""`), "name or status is missing"},
		{"code", replaced(`"code": 404`, `"code": 600`), "code 600"},
		{"refused and to be forwarded", replaced(`"code": 404,`, `"code": 404, "forward_at": "2026-01-01T00:00:00Z",`), "it was refused"},
		{"time out of range", replaced(`"forward_at": "`, `"forward_at": "9999-12-31T23:59:59-12:00", "problems": [], "forwarded": [], "tag": "`), "repeated"},
	})
}

func FuzzNovaState(f *testing.F) {
	_, state := fullNova(f)
	f.Add(`[]`)
	f.Add(state)
	f.Fuzz(func(t *testing.T, text string) { checkLoad(t, nova.New(nova.Config{}).State(), text) })
}
