package simcloud_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// serverList is a nova-api that lists servers and evacuations, two on a page, to the tokens that its cloud knows.
type serverList struct {
	mu      sync.Mutex
	cloud   *simcloud.Cloud
	servers []sim.Guest
	left    []sim.Guest      // servers that were evacuated, with the host that is not back
	answer  http.HandlerFunc // instead of the list; nil: none
	tokens  map[string]bool  // that came
}

func (l *serverList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer != nil {
		l.answer(w, r)
		return
	}
	if l.tokens == nil {
		l.tokens = make(map[string]bool)
	}
	l.tokens[r.Header.Get("X-Auth-Token")] = true
	q := r.URL.Query()
	switch {
	case r.Header.Get("OpenStack-API-Version") != "compute 2.82":
		http.Error(w, "bad", http.StatusBadRequest)
	case r.URL.Path == "/v2.1/servers/detail" && q.Get("all_tenants") == "1":
		writePage(w, "servers", l.servers, q.Get("marker"), func(s sim.Guest, _ int) (id, item string) {
			return s.UUID, fmt.Sprintf(`{"id": %q, "OS-EXT-SRV-ATTR:host": "service", "OS-EXT-SRV-ATTR:hypervisor_hostname": %q}`, s.UUID, s.Host)
		})
	case r.URL.Path == "/v2.1/os-migrations" && q.Get("migration_type") == "evacuation" && q.Get("status") == "done":
		writePage(w, "migrations", l.left, q.Get("marker"), func(s sim.Guest, i int) (id, item string) {
			id = fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", i)
			return id, fmt.Sprintf(`{"uuid": %q, "instance_uuid": %q, "source_compute": "service", "source_node": %q}`, id, s.UUID, s.Host)
		})
	default:
		http.NotFound(w, r)
	}
}

// writePage writes two items of a list of Nova's, from the one after the marker.
func writePage(w http.ResponseWriter, name string, list []sim.Guest, marker string, show func(sim.Guest, int) (id, item string)) {
	first := 0
	var items []string
	for i, s := range list {
		id, item := show(s, i)
		if items = append(items, item); id == marker {
			first = i + 1
		}
	}
	next, links := min(first+2, len(items)), ""
	if next < len(items) {
		links = fmt.Sprintf(`, "%s_links": [{"rel": "next", "href": "http://wrong.invalid/"}]`, name)
	}
	fmt.Fprintf(w, `{%q: [%s]%s}`, name, strings.Join(items[first:next], ","), links)
}

// besideNova is a cloud that asks the list which guests live, and a user of it.
func besideNova(t *testing.T, source simcloud.GuestSource) (*serverList, *simcloud.Cloud, *user) {
	t.Helper()
	list := new(serverList)
	server := httptest.NewServer(list)
	t.Cleanup(server.Close)
	list.cloud = simcloud.Run(t, simcloud.Model{Catalog: map[string]string{"compute": server.URL + "/v2.1"}, GuestsFrom: source})
	must(t, list.cloud.ForwardEventsTo()) // it takes none
	return list, list.cloud, login(t, list.cloud, "admin", "admin")
}

// TestServersOfANovaLive: what belongs to a server that Nova lists, on any page, is no leak; what belongs to another instance
// is one.
func TestServersOfANovaLive(t *testing.T) {
	t.Parallel()
	list, cloud, u := besideNova(t, simcloud.GuestsFromNova)
	var spawned []spawned
	for n := range 2 {
		s := u.spawn(n+1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
		cloud.RemoveGuest(s.uuid)
		spawned = append(spawned, s)
	}
	list.servers = []sim.Guest{
		{UUID: "aaaaaaaa-0000-4000-8000-000000000001"}, {UUID: spawned[0].uuid, Host: spawned[0].host}, {UUID: "aaaaaaaa-0000-4000-8000-000000000002"},
		{UUID: "aaaaaaaa-0000-4000-8000-000000000003"}, {UUID: strings.ToUpper(spawned[1].uuid), Host: spawned[1].host},
	}
	cloud.CheckNoLeaks(t)
	list.servers[4].Host = "cn7"
	if leaks := cloud.Leaks(); len(leaks) != 1 || leaks[0].Kind != simcloud.LeakGuest || !strings.Contains(leaks[0].Text, "runs on host cn7") {
		t.Errorf("on another host: %+v", leaks)
	}
	list.servers = list.servers[:4]
	leaks := cloud.Leaks()
	if len(leaks) != 2 || leaks[0].Kind != simcloud.LeakARQ || leaks[1].Kind != simcloud.LeakAllocation || leaks[1].Subject != spawned[1].uuid ||
		!strings.Contains(leaks[0].Text, "neither a server of Nova's nor a registered guest") {
		t.Errorf("without the last server: %+v", leaks)
	}
}

// TestAnEvacuatedServerIsNoLeak: Nova makes the requests of a server that an administrator evacuates the
// administrator's, while the allocation still counts for the owner.
func TestAnEvacuatedServerIsNoLeak(t *testing.T) {
	t.Parallel()
	list, cloud, u := besideNova(t, simcloud.GuestsFromNova)
	s := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
	var claim placementsim.Claim
	for _, a := range cloud.Placement.Allocations() {
		if a.Consumer == s.uuid {
			claim.Allocations = append(claim.Allocations, a)
		}
	}
	claim.Consumer, claim.Project, claim.User = s.uuid, cloud.ProjectID("demo"), "owner"
	must(t, cloud.Placement.Claim(claim))
	list.servers = []sim.Guest{{UUID: s.uuid, Host: s.host}}
	if leaks := cloud.Leaks(); len(leaks) != 1 || !strings.Contains(leaks[0].Text, "counts for project") {
		t.Errorf("of a guest that is registered: %+v", leaks)
	}
	cloud.RemoveGuest(s.uuid)
	cloud.CheckNoLeaks(t)
}

// TestAHostThatIsNotBackKeepsAllocations: Nova keeps the allocations of an evacuated server on the host that it
// left until that is back, which is no leak; afterwards it is.
func TestAHostThatIsNotBackKeepsAllocations(t *testing.T) {
	t.Parallel()
	list, cloud, u := besideNova(t, simcloud.GuestsFromNova)
	s := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
	cloud.RemoveGuest(s.uuid)
	for _, r := range cloud.Cyborg.ARQs() {
		must(t, cloud.Cyborg.DeleteARQs(t.Context(), r.UUID))
	}
	list.servers = []sim.Guest{{UUID: s.uuid, Host: "cn7"}}
	for name, tt := range map[string]struct {
		left []sim.Guest
		want int
	}{
		"not back": {[]sim.Guest{{UUID: "aaaaaaaa-0000-4000-8000-000000000001", Host: "cn1"}, {UUID: s.uuid, Host: "cn7"}, {UUID: strings.ToUpper(s.uuid), Host: s.host}}, 0},
		"back":     {nil, 1}, "of another host": {[]sim.Guest{{UUID: s.uuid, Host: "cn7"}}, 1},
		"of another server": {[]sim.Guest{{UUID: "aaaaaaaa-0000-4000-8000-000000000001", Host: s.host}}, 1},
	} {
		list.left = tt.left
		leaks := cloud.Leaks()
		if len(leaks) != tt.want || len(leaks) > 0 && !strings.Contains(leaks[0].Text, "has allocated PGPU:1 on provider") {
			t.Errorf("%s: leaks %+v", name, leaks)
		}
	}
}

// TestARegisteredServerHasADomain: a guest that is registered, too, is checked as any, on the host that Nova says.
func TestARegisteredServerHasADomain(t *testing.T) {
	t.Parallel()
	list, cloud, u := besideNova(t, simcloud.GuestsFromNova)
	s := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
	list.servers = []sim.Guest{{UUID: s.uuid, Host: s.host}}
	cloud.CheckNoLeaks(t)
	must(t, cloud.DefineGuest(sim.Guest{UUID: s.uuid, Host: "cn1", Domain: "<domain/>"}))
	if leaks := cloud.Leaks(); len(leaks) != 1 || !strings.Contains(leaks[0].Text, "is not in the guest's domain XML") {
		t.Errorf("leaks: %+v", leaks)
	}
}

// TestANovaThatDoesNotAnswerIsNoLeak: each way of failing is an error, and nothing is called a leak.
func TestANovaThatDoesNotAnswerIsNoLeak(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused":       {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"forbidden": {}}`, http.StatusForbidden) }, "403 Forbidden"},
		"token refused": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusUnauthorized) }, "401 Unauthorized"},
		"down": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no server", http.StatusServiceUnavailable)
		}, "503 Service Unavailable"},
		"another JSON":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"versions": []}`) }, "not a list of servers"},
		"no JSON":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not the JSON expected"},
		"no evacuations": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"servers": []}`) }, "list the evacuations: the answer is not a list of migrations"},
		"no id":          {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"servers": [{}]}`) }, "has no id"},
		"connection cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"servers": [{"id": "aaaaaaaa-0000-4000-8000-000000000001"}], "servers_links": [{}]}`)
		}, "ends with it"},
		"second page": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("marker") {
				http.Error(w, "", http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, `{"servers": [{"id": "aaaaaaaa-0000-4000-8000-000000000001"}], "servers_links": [{}]}`)
		}, "marker="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, cloud, u := besideNova(t, "")
			u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
			list.answer = tt.answer
			if status, text := ask(t, cloud, "GET", "/_sim/leaks?guests_from=nova", ""); status != http.StatusBadGateway || !strings.Contains(text, "request to Nova failed: list the ") || !strings.Contains(text, tt.want) {
				t.Errorf("got %d %s", status, text)
			}
			if status, text := ask(t, cloud, "GET", "/_sim/leaks", ""); status != http.StatusOK || !strings.Contains(text, `"leaks":[]`) {
				t.Errorf("with registered guests: %d %s", status, text)
			}
		})
	}
	list, cloud, u := besideNova(t, simcloud.GuestsFromNova)
	u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
	list.answer = http.NotFound
	if leaks := cloud.Leaks(); len(leaks) != 1 || leaks[0].Kind != simcloud.LeakHost || leaks[0].Subject != "nova" {
		t.Errorf("leaks: %+v", leaks)
	}
}

// TestTheTokenForNovaIsRenewed: a token that was revoked is replaced at once.
func TestTheTokenForNovaIsRenewed(t *testing.T) {
	t.Parallel()
	list, cloud, _ := besideNova(t, simcloud.GuestsFromNova)
	cloud.CheckNoLeaks(t)
	refused := 0
	list.answer = func(w http.ResponseWriter, r *http.Request) {
		if refused++; refused == 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"servers": [], "migrations": []}`)
	}
	cloud.CheckNoLeaks(t)
	if refused != 3 || len(list.tokens) != 1 || list.tokens[""] {
		t.Errorf("%d requests, tokens %d", refused, len(list.tokens))
	}
}

func TestTheSourceOfGuestsIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"guests_from": "libvirt"}`: `guests_from: "libvirt" is not "nova"`, `{"guests_from": "nova"}`: "guests_from: the catalog names no compute service",
	} {
		if _, err := simcloud.ParseModel([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v", text, err)
		}
	}
	cloud := simcloud.Run(t)
	for source, want := range map[string]int{"nova": http.StatusConflict, "libvirt": http.StatusBadRequest, "": http.StatusOK} {
		if status, text := ask(t, cloud, "GET", "/_sim/leaks?guests_from="+source, ""); status != want {
			t.Errorf("%q: %d %s", source, status, text)
		}
	}
}
