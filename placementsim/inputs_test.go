package placementsim

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/simhttp/inputtest"
)

// stopped is a clock that stands still.
type stopped struct{ simhttp.Wall }

func (stopped) Now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// inputWorld is a new server with a tree of two providers and one consumer.
func inputWorld(t *testing.T) *Server {
	t.Helper()
	s := newServer(t, Config{Seed: 1}, WithClock(stopped{}))
	for _, turn := range []turn{
		{method: "POST", path: "/resource_providers", body: `{"name": "root", "uuid": "` + rp1 + `"}`, status: 200},
		{method: "POST", path: "/resource_providers", body: `{"name": "child", "uuid": "` + rp2 + `", "parent_provider_uuid": "` + rp1 + `"}`, status: 200},
		{method: "PUT", path: "/resource_providers/" + rp1 + "/inventories", body: `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`, status: 200},
		{method: "PUT", path: "/resource_providers/" + rp2 + "/inventories", body: `{"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 8}}}`, status: 200},
		{method: "PUT", path: "/traits/CUSTOM_A", status: 201},
		{method: "PUT", path: "/resource_classes/CUSTOM_OLD", status: 201},
		{method: "PUT", path: "/resource_providers/" + rp2 + "/traits", body: `{"resource_provider_generation": 1, "traits": ["CUSTOM_A"]}`, status: 200},
		{method: "PUT", path: "/resource_providers/" + rp1 + "/aggregates", body: `{"resource_provider_generation": 1, "aggregates": ["` + agg + `"]}`, status: 200},
		{method: "PUT", path: "/allocations/" + con, body: `{"allocations": {"` + rp1 + `": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`, status: 204},
	} {
		turn.version = "1.39"
		converse(t, s, turn)
	}
	return s
}

func TestWhatIsDeclaredIsRead(t *testing.T) {
	t.Parallel()
	const claim = `"allocations": {"` + rp2 + `": {"resources": {"VGPU": 1}, "generation": 3}}, "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE", "mappings": {"": ["` + rp2 + `"]}`
	const inventory = `"total": 4, "reserved": 1, "min_unit": 1, "max_unit": 2, "step_size": 1, "allocation_ratio": 1.0`
	one := "/resource_providers/" + rp1
	get := func(path string) inputtest.Case { return inputtest.Case{Method: "GET", Path: path, Version: "1.39"} }
	write := func(method, path, body string) inputtest.Case {
		return inputtest.Case{Method: method, Path: path, Body: body, Version: "1.39"}
	}
	at := func(version string, c inputtest.Case) inputtest.Case { c.Version = version; return c }
	inputtest.Check(t, (&Server{}).router().Routes(), []inputtest.Case{
		get("/resource_providers?name=root"), get("/resource_providers?uuid=" + rp1), get("/resource_providers?member_of=" + agg),
		get("/resource_providers?resources=VCPU:1"), get("/resource_providers?in_tree=" + rp1 + "&name=root"), get("/resource_providers?required=CUSTOM_A"),
		write("POST", "/resource_providers", `{"name": "n", "uuid": "`+rp3+`", "parent_provider_uuid": "`+rp1+`"}`),
		write("PUT", "/resource_providers/"+rp2, `{"name": "n", "parent_provider_uuid": "`+rp1+`"}`),
		write("POST", one+"/inventories", `{"resource_class": "DISK_GB", `+inventory+`}`),
		write("PUT", one+"/inventories", `{"resource_provider_generation": 3, "inventories": {"VCPU": {`+inventory+`}}}`),
		write("PUT", one+"/inventories/VCPU", `{"resource_provider_generation": 3, `+inventory+`}`),
		write("PUT", one+"/aggregates", `{"resource_provider_generation": 3, "aggregates": []}`),
		at("1.18", write("PUT", one+"/aggregates", `["`+agg+`"]`)),
		write("PUT", one+"/traits", `{"resource_provider_generation": 3, "traits": ["CUSTOM_A"]}`),
		get("/traits?name=startswith:CUSTOM_"), get("/traits?associated=true"),
		write("POST", "/resource_classes", `{"name": "CUSTOM_NEW"}`),
		at("1.6", write("PUT", "/resource_classes/CUSTOM_OLD", `{"name": "CUSTOM_NEW"}`)),
		write("PUT", "/allocations/"+con2, `{`+claim+`}`),
		at("1.11", write("PUT", "/allocations/"+con2, `{"allocations": [{"resource_provider": {"uuid": "`+rp2+`"}, "resources": {"VGPU": 1}}], "project_id": "p", "user_id": "u"}`)),
		write("POST", "/allocations", `{"`+con2+`": {`+claim+`}}`),
		get("/allocation_candidates?resources=VCPU:1&required=!CUSTOM_A&member_of=" + agg + "&in_tree=" + rp1),
		get("/allocation_candidates?resources_A=VCPU:1&resources_B=VGPU:1&required_B=CUSTOM_A&member_of_A=" + agg + "&in_tree_B=" + rp1 + "&group_policy=none&limit=1&root_required=!CUSTOM_A&same_subtree=_A,_B"),
		get("/usages?project_id=p&user_id=u&consumer_type=INSTANCE"),
		write("POST", "/reshaper", `{"inventories": {"`+rp1+`": {"resource_provider_generation": 3, "inventories": {"VCPU": {`+inventory+`}}}}, "allocations": {}}`),
	}, func(c inputtest.Case) inputtest.Answer {
		s := inputWorld(t)
		got := send(t, s, c.Version, c.Method, c.Path, c.Body)
		return inputtest.Answer{Status: got.status, Seen: got.body + rowsOf(s)}
	})
}

// rowsOf are the rows of a service as text.
func rowsOf(s *Server) string {
	var text strings.Builder
	for _, c := range s.state.Rows() {
		fmt.Fprintln(&text, c.Table, c.Key, c.After)
	}
	return text.String()
}

// The body of the PUT of a resource class is read until it only ensures that there is one.
func TestUnreadDependsOnTheMicroversion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"1.6": "", "1.7": "body", "1.39": "body"} {
		recorder := simhttp.NewRecorder(10)
		server := simhttp.Recording(inputWorld(t), recorder)
		send(t, server, version, http.MethodPut, "/resource_classes/CUSTOM_OLD?a=1", `{"name": "CUSTOM_NEW"}`)
		got := fmt.Sprint(recorder.Exchanges()[0].Unrecognized)
		if want := strings.TrimSpace("[query a " + want); got != want+"]" {
			t.Errorf("at %s: got %s, want %s]", version, got, want)
		}
	}
}

func TestStrictPlacementSaysSoInItsOwnWords(t *testing.T) {
	t.Parallel()
	recorder := simhttp.NewRecorder(10)
	recorder.RefusesUnrecognized = true
	server := inputWorld(t)
	before := rowsOf(server)
	got := send(t, simhttp.Recording(server, recorder), "1.39", http.MethodDelete, "/resource_providers/"+rp2+"?force=1", "")
	text := fmt.Sprint(got.at(t, "errors", "0", "detail"))
	if got.status != http.StatusBadRequest || !strings.Contains(text, "query force") || got.at(t, "errors", "0", "code") != codeUndefined {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if after := rowsOf(server); after != before {
		t.Errorf("the refused request changed something:\n%s", after)
	}
}
