package placementsim

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

func TestMicroversionNegotiation(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	tests := []struct {
		header   string
		status   int
		version  string
		contains string
	}{
		{"", 200, "placement 1.0", ""},
		{"placement 1.39", 200, "placement 1.39", ""},
		{"PLACEMENT 1.7", 200, "placement 1.7", ""},
		{"placement latest", 200, "placement 1.39", ""},
		{"compute 2.1, placement 1.3, identity 3", 200, "placement 1.3", ""},
		{"placement 1.2, placement 1.3", 200, "placement 1.3", ""},
		{"compute 2.1", 200, "placement 1.0", ""},
		{"1.5", 200, "placement 1.0", ""},
		{"placement pony.horse", 400, "", "invalid version string: pony.horse"},
		{"placement 1.2.3", 400, "", "invalid version string: 1.2.3"},
		{"placement -1.2", 406, "", "Unacceptable version header: -1.2"},
		{"placement 1.-1", 406, "", "Unacceptable version header: 1.-1"},
		{"placement 1.", 400, "", "invalid version string: 1.; invalid literal for int() with base 10: ''"},
		{"placement  1. 0_7", 200, "placement 1.7", ""},
		{"placement 1.40", 406, "", "Unacceptable version header: 1.40"},
		{"placement 1.99999999999999999999", 406, "", "Unacceptable version header: 1.99999999999999999999"},
		{"placement 2.0", 406, "", `"max_version":"1.39","min_version":"1.0"`},
	}
	for _, tt := range tests {
		got := send(t, s, "", "GET", "/resource_classes/VCPU", "", "OpenStack-API-Version", tt.header)
		if tt.status == 200 && tt.version < "placement 1.2" {
			tt.status = 404 // the route is younger
		}
		if got.status != tt.status || got.header.Get("Openstack-Api-Version") != tt.version || !strings.Contains(got.body, tt.contains) {
			t.Errorf("%q: got %d, version %q, body %s", tt.header, got.status, got.header.Get("Openstack-Api-Version"), got.body)
		}
		if id := got.header.Get("X-Openstack-Request-Id"); !strings.HasPrefix(id, "req-") {
			t.Errorf("%q: request id %q", tt.header, id)
		}
	}
}

func TestErrorCodeComesWithMicroversion23(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	for version, want := range map[string]any{"1.22": nil, "1.23": codeUndefined} {
		got := send(t, s, version, "GET", "/nowhere", "")
		if code := got.at(t, "errors", "0", "code"); code != want || got.status != 404 {
			t.Errorf("%s: got status %d, code %v, want 404, %v", version, got.status, code, want)
		}
		if detail, _ := got.at(t, "errors", "0", "detail").(string); !strings.HasPrefix(detail, "The resource could not be found.") {
			t.Errorf("%s: detail %q", version, detail)
		}
	}
}

func TestRequestsAreJudgedInTheServicesOrder(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	tests := []struct {
		name, version, method, path, body string
		header                            []string
		status                            int
		contains                          string
	}{
		{"root needs no token", "", "GET", "/", "", []string{"X-Auth-Token", ""}, 200, `"max_version":"1.39"`},
		{"no token comes before a bad version", "x", "GET", "/traits", "", []string{"X-Auth-Token", ""}, 401, `"code":"401 Unauthorized"`},
		{"body without type comes before an unknown route", "", "POST", "/nowhere", "{}", []string{"Content-Type", ""}, 400, "content-type header required"},
		{"trailing slash is unknown", "", "GET", "/resource_providers/", "", nil, 404, "could not be found"},
		{"double slash is unknown", "", "GET", "//resource_providers", "", nil, 404, "could not be found"},
		{"HEAD is no GET", "", "HEAD", "/resource_providers", "", nil, 405, ""},
		{"a malformed Accept accepts everything", "1.0", "GET", "/resource_providers", "", []string{"Accept", "bad"}, 200, "resource_providers"},
		{"a range with a parameter accepts nothing", "1.0", "GET", "/resource_providers", "", []string{"Accept", "application/json;charset=utf-8"}, 406, "Only application/json is provided"},
		{"a quality of one digit", "1.0", "GET", "/resource_providers", "", []string{"Accept", "application/json;q=0.1, text/html;q=0"}, 200, "resource_providers"},
		{"capitals are another media type", "1.0", "POST", "/resource_providers", `{"name":"y"}`, []string{"Content-Type", "APPLICATION/JSON; a=b"}, 415, "The media type APPLICATION/JSON is not supported, use application/json"},
		{"an empty token is a user without a name", "1.0", "GET", "/resource_providers", "", []string{"X-Auth-Token", " "}, 403, "Policy does not allow placement:resource_providers:list to be performed."},
		{"the text about system scope is the rule", "1.39", "DELETE", "/traits/CUSTOM_X", "", []string{"OpenStack-System-Scope", "all"}, 403, `\n\n placement:traits:delete  `},
		{"an encoded path", "1.0", "GET", "/resource%5Fproviders/" + strings.ReplaceAll(rp1, "-", "%2D"), "", nil, 200, rp1},
		{"a line break at the end of a path", "1.39", "GET", "/traits/COMPUTE_NODE%0A", "", nil, 204, ""},
		{"a path that is not ASCII", "1.39", "GET", "/traits/CUSTOM_%C3%A9", "", nil, 404, `No such trait(s): CUSTOM_Ã©.`},
		{"an encoded slash", "1.0", "GET", "/resource_providers%2F" + rp1 + "%2Finventories", "", nil, 200, "VCPU"},
		{"a query that is not UTF-8", "1.39", "GET", "/resource_providers?name=ab%ffc", "", nil, 400, "Invalid query string parameters: 'utf-8' codec can't decode byte 0xff in position 2: invalid start byte"},
		{"the policy reads the query of usages first", "1.39", "GET", "/usages?x=%e2%28", "", nil, 500, "'utf-8' codec can't decode byte 0xe2 in position 0: invalid continuation byte"},
		{"405 names the method", "", "PATCH", "/resource_providers", "", nil, 405, "The method PATCH is not allowed for this resource."},
		{"microversion mask comes before the media type", "1.5", "PUT", "/resource_providers/" + rp1 + "/traits", "x", []string{"Content-Type", "text/plain"}, 404, ""},
		{"media type comes before the mask for aggregates", "1.0", "PUT", "/resource_providers/" + rp1 + "/aggregates", "x", []string{"Content-Type", "text/plain"}, 415, "The media type text/plain is not supported, use application/json"},
		{"accept", "1.0", "GET", "/resource_providers", "", []string{"Accept", "text/plain"}, 406, "Only application/json is provided"},
		{"charset is ignored", "1.0", "POST", "/resource_providers", `{"name":"x"}`, []string{"Content-Type", "application/json; charset=utf-8"}, 201, ""},
		{"policy comes before lookup", "1.0", "GET", "/resource_providers/nope", "", []string{"X-Auth-Token", "demo"}, 403, "Forbidden"},
		{"lookup comes before the body", "1.0", "PUT", "/resource_providers/nope", "{", nil, 404, "No resource provider with uuid nope found"},
		{"delete all inventories before 1.5", "1.4", "DELETE", "/resource_providers/" + rp1 + "/inventories", "", nil, 405, "The method DELETE"},
		{"html where html is wanted", "", "GET", "/nowhere", "", []string{"Accept", "text/html"}, 404, "<h1>404 Not Found</h1>"},
		{"text where nothing else is wanted", "", "GET", "/nowhere", "", []string{"Accept", "image/png"}, 404, "404 Not Found\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := send(t, s, tt.version, tt.method, tt.path, tt.body, tt.header...)
			if got.status != tt.status || !strings.Contains(got.body, tt.contains) {
				t.Errorf("got %d %s, want %d with %q", got.status, got.body, tt.status, tt.contains)
			}
		})
	}
}

// Errors that leave the service's handlers as exceptions have no Vary, and errors of HEAD are pages.
func TestHeadersOfErrors(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	const html, asJSON, vary = "text/html; charset=UTF-8", "application/json", "openstack-api-version"
	for _, tt := range []struct{ method, path, token, vary, kind string }{
		{"GET", "/nowhere", "admin", "", asJSON},
		{"GET", "/resource_providers/" + rp3, "admin", "", asJSON},
		{"GET", "/resource_providers/" + rp3 + "/inventories", "admin", vary, asJSON},
		{"DELETE", "/resource_providers/" + rp3 + "/inventories/VCPU", "admin", "", asJSON},
		{"DELETE", "/resource_providers/" + rp1 + "/inventories/FPGA", "admin", vary, asJSON},
		{"DELETE", "/resource_providers/" + rp3, "admin", vary, asJSON},
		{"GET", "/resource_classes/NOPE", "admin", "", asJSON},
		{"GET", "/traits/NOPE", "admin", vary, asJSON},
		{"DELETE", "/allocations/" + con, "admin", vary, asJSON},
		{"GET", "/traits", "demo", "", asJSON},
		{"GET", "/resource_providers?x=1", "admin", vary, asJSON},
		{"PATCH", "/traits", "admin", vary, asJSON},
		{"HEAD", "/traits", "admin", vary, html},
		{"HEAD", "/nowhere", "admin", "", html},
		{"GET", "/usages?x=%ff", "admin", "", asJSON},
	} {
		got := send(t, s, "1.39", tt.method, tt.path, "", "X-Auth-Token", tt.token)
		if got.status < 400 || got.header.Get("Vary") != tt.vary || got.header.Get("Content-Type") != tt.kind {
			t.Errorf("%s %s: got %d, Vary %q, Content-Type %q, want %q, %q", tt.method, tt.path, got.status, got.header.Get("Vary"), got.header.Get("Content-Type"), tt.vary, tt.kind)
		}
		if got.status == 500 && got.header.Get("Openstack-Api-Version") != "" {
			t.Errorf("%s %s: an exception has a microversion", tt.method, tt.path)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	const usages = "/usages?project_id=p"
	tests := []struct {
		policy       Policy
		method, path string
		header       []string
		status       int
	}{
		{"default", "GET", "/traits", []string{"X-Auth-Token", "x", "X-Roles", "service"}, 200},
		{"default", "GET", "/traits", []string{"X-Auth-Token", "x", "X-Roles", "member,reader"}, 403},
		{"default", "GET", "/traits", []string{"X-Roles", "member"}, 403},
		{"default", "GET", "/traits", []string{"OpenStack-System-Scope", "all"}, 403},
		{"default", "GET", "/", []string{"OpenStack-System-Scope", "all"}, 200},
		{"default", "GET", usages, []string{"X-Auth-Token", "x:p", "X-Roles", "reader"}, 200},
		{"default", "GET", usages, []string{"X-Auth-Token", "x:p", "X-Project-Id", "q", "X-Roles", "reader"}, 403},
		{"default", "GET", usages, []string{"X-Auth-Token", "x:p", "X-Roles", "member"}, 403},
		{"default", "POST", "/reshaper", nil, 400},
		{"secure", "POST", "/reshaper", nil, 403},
		{"secure", "POST", "/reshaper", []string{"X-Roles", "service"}, 400},
		{"open", "GET", "/traits", []string{"X-Auth-Token", "nobody"}, 200},
		{"open", "GET", "/traits", []string{"X-Auth-Token", ""}, 401},
	}
	for _, tt := range tests {
		s := newServer(t, Config{Policy: tt.policy})
		body := ""
		if tt.method == "POST" {
			body = "{}"
		}
		if got := send(t, s, "1.39", tt.method, tt.path, body, tt.header...); got.status != tt.status {
			t.Errorf("%s: %s %s %q: got %d, want %d", tt.policy, tt.method, tt.path, tt.header, got.status, tt.status)
		}
	}
}

type verifier map[string]http.Header

func (v verifier) VerifyToken(token string) (http.Header, error) {
	if h, ok := v[token]; ok {
		return h, nil
	}
	return nil, errors.New("no such token")
}

func TestTokenVerifierReplacesTheConventions(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{}, WithTokenVerifier(verifier{
		"t-admin": {"X-Roles": {"member,admin"}}, "t-demo": {"X-Roles": {"member"}},
	}))
	for token, want := range map[string]int{"t-admin": 200, "t-demo": 403, "admin": 401, "": 401} {
		if got := send(t, s, "1.39", "GET", "/traits", "", "X-Auth-Token", token, "X-Roles", "admin"); got.status != want {
			t.Errorf("token %q: got %d, want %d", token, got.status, want)
		}
	}
}

// Behind Keystone it is keystonemiddleware that refuses tokens, those of services on every route but the first.
func TestTokensAreRefusedAsByKeystonemiddleware(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{}, WithTokenVerifier(verifier{"t-admin": {"X-Roles": {"admin"}}, "t-demo": {"X-Roles": {"member"}}}))
	for _, tt := range []struct {
		path, token, service string
		want                 int
	}{
		{"/traits", "stale", "", 401},
		{"/traits", "", "", 401},
		{"/traits", "t-admin", "stale", 401},
		{"/nowhere", "t-admin", "stale", 401},
		{"/traits", "t-admin", "t-demo", 200}, // service_token_roles_required is false by default
		{"/traits", "t-admin", "t-admin", 200},
		{"/", "", "stale", 200},
	} {
		got := send(t, s, "1.39", "GET", tt.path, "", "X-Auth-Token", tt.token, "X-Service-Token", tt.service)
		if got.status != tt.want {
			t.Errorf("%+v: got %d", tt, got.status)
		}
		if tt.want == http.StatusUnauthorized && (got.at(t, "error", "title") != "Unauthorized" || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Keystone uri=")) {
			t.Errorf("%+v: got %v %s", tt, got.header, got.body)
		}
	}
}

func TestNewRefusesAnUnknownPolicy(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Policy: "lax"}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "lax") {
		t.Errorf("got error %v", err)
	}
}

func TestCachingHeadersComeWithMicroversion15(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	for _, path := range []string{
		"/", "/resource_providers", "/resource_providers/" + rp1, "/resource_providers/" + rp1 + "/inventories",
		"/resource_providers/" + rp1 + "/inventories/VCPU", "/resource_providers/" + rp1 + "/usages",
		"/resource_providers/" + rp1 + "/aggregates", "/resource_providers/" + rp1 + "/traits",
		"/resource_providers/" + rp1 + "/allocations", "/traits", "/traits/HW_CPU_X86_AVX", "/resource_classes",
		"/resource_classes/VCPU", "/usages?project_id=p", "/allocations/" + con, "/allocation_candidates?resources=VCPU:1",
	} {
		before, after := send(t, s, "1.14", "GET", path, ""), send(t, s, "1.15", "GET", path, "")
		if before.status >= 300 || before.header.Get("Cache-Control")+before.header.Get("Last-Modified") != "" {
			t.Errorf("%s at 1.14: %d %v", path, before.status, before.header)
		}
		if _, err := http.ParseTime(after.header.Get("Last-Modified")); err != nil || after.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s at 1.15: %d %v", path, after.status, after.header)
		}
	}
}

func TestBodyOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	body := `{"name":"` + strings.Repeat("x", simhttp.MaxBody) + `"}`
	got := send(t, s, "1.39", "PUT", "/resource_providers/"+rp1, body)
	if got.status != http.StatusRequestEntityTooLarge || got.at(t, "errors", "0", "title") != "Request Entity Too Large" {
		t.Errorf("got %d %.200s", got.status, got.body)
	}
}

func TestPrefixIsInLinksAndLocations(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{}, WithPrefix("/placement/"))
	got := send(t, s, "1.20", "POST", "/placement/resource_providers", `{"name":"a","uuid":"`+rp1+`"}`)
	if want := "http://placement.example/placement/resource_providers/" + rp1; got.header.Get("Location") != want {
		t.Errorf("location: got %q, want %q", got.header.Get("Location"), want)
	}
	if href := got.at(t, "links", "0", "href"); href != "/placement/resource_providers/"+rp1 {
		t.Errorf("self link: got %v", href)
	}
	for path, want := range map[string]int{"/placement": 200, "/placement/": 200, "/": 200, "/placement/traits": 401, "/placement//": 401} {
		if got := send(t, s, "1.39", "GET", path, "", "X-Auth-Token", ""); got.status != want {
			t.Errorf("%s without token: got %d, want %d", path, got.status, want)
		}
	}
}

func TestLinksGrowWithTheMicroversion(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	for version, want := range map[string]int{"1.0": 3, "1.1": 4, "1.6": 5, "1.11": 6, "1.39": 6} {
		links, _ := send(t, s, version, "GET", "/resource_providers/"+rp1, "").at(t, "links").([]any)
		if len(links) != want {
			t.Errorf("%s: got %d links, want %d", version, len(links), want)
		}
	}
}

func TestSameSeedSameIdentifiers(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) []string {
		s := newServer(t, Config{Seed: seed})
		var ids []string
		for _, name := range []string{"a", "b"} {
			got := send(t, s, "1.39", "POST", "/resource_providers", `{"name":"`+name+`"}`)
			ids = append(ids, got.header.Get("X-Openstack-Request-Id"), fmt.Sprint(got.at(t, "uuid")))
		}
		return ids
	}
	if diff := cmp.Diff(run(1), run(1)); diff != "" {
		t.Errorf("same seed (-first +second):\n%s", diff)
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("another seed makes the same identifiers")
	}
}

func TestFaultsAnswerInTheDialect(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet(Operations()...)
	must(t, faults.Set(
		fault.Rule{Operation: fault.AllocationsPut, Nth: 1, Action: fault.Status, Status: 409, Code: codeConcurrentUpdate},
		fault.Rule{Operation: fault.AllocationsPut, Nth: 2, When: fault.After, Action: fault.Status, Status: 503},
	))
	var seen []sim.Exchange
	s := seeded(t, Config{}, WithFaults(faults), WithObserver(func(e sim.Exchange) { seen = append(seen, e) }))
	const body = `{"allocations":{"` + rp1 + `":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null}`
	got := send(t, s, "1.28", "PUT", "/allocations/"+con, body)
	if got.status != 409 || got.at(t, "errors", "0", "code") != codeConcurrentUpdate {
		t.Errorf("before: got %d %s", got.status, got.body)
	}
	s.CheckUsage(t, rp1, "VCPU", 0)
	got = send(t, s, "1.28", "PUT", "/allocations/"+con, body)
	if got.status != 503 {
		t.Errorf("after: got %d %s", got.status, got.body)
	}
	s.CheckUsage(t, rp1, "VCPU", 1)
	if len(seen) != 2 || seen[0].Operation != fault.AllocationsPut || seen[0].Subject != con || seen[1].Microversion != "1.28" || seen[1].Fault != "status" {
		t.Errorf("observed %+v", seen)
	}
}

func TestEveryOperationHasARouteOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, op := range operations() {
		key := op.method + " " + op.pattern
		if seen[key] || op.handle == nil {
			t.Errorf("%s: %s is there twice or does nothing", op.name, key)
		}
		seen[key] = true
	}
	if got := len(Operations()); got != len(operations()) { // the root has two spellings, and a claim has a write
		t.Errorf("%d operations for %d routes", got, len(operations()))
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const origin = "http://valid.example.com"
	with, without := newServer(t, Config{CORSOrigin: origin}), newServer(t, Config{})
	tests := []struct {
		name, method, origin string
		server               *Server
		status               int
		allowed              string
	}{
		{"preflight", "OPTIONS", origin, with, 200, origin},
		{"preflight of another origin", "OPTIONS", "http://evil.example.com", with, 200, ""},
		{"request", "GET", origin, with, 200, origin},
		{"request of another origin", "GET", "http://evil.example.com", with, 200, ""},
		{"preflight without CORS", "OPTIONS", origin, without, 405, ""},
	}
	for _, tt := range tests {
		got := send(t, tt.server, "", tt.method, "/", "", "Origin", tt.origin, "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-auth-token")
		if got.status != tt.status || got.header.Get("Access-Control-Allow-Origin") != tt.allowed {
			t.Errorf("%s: got %d, %v", tt.name, got.status, got.header)
		}
		if headers := got.header.Get("Access-Control-Allow-Headers"); tt.method == "OPTIONS" && (headers != "") != (tt.allowed != "") {
			t.Errorf("%s: allowed headers %q", tt.name, headers)
		}
	}
}

func TestAnswersOverARealSocket(t *testing.T) {
	t.Parallel()
	srv := live(t, seeded(t, Config{}))
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "DELETE /resource_providers/%s HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\nConnection: close\r\n\r\n", rp2)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent || resp.Header.Get("Content-Type") != "" || resp.ContentLength != 0 {
		t.Errorf("got %d, %v, length %d", resp.StatusCode, resp.Header, resp.ContentLength)
	}
}
