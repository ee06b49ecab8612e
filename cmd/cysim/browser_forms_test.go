//go:build browser

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

const waitALittle = `
document.head.append(Object.assign(document.createElement("link"), {rel: "stylesheet", href: "slow.css"}));
`

// checkDOM checks what a page has and what it lacks.
func checkDOM(t *testing.T, dom string, wanted map[string]bool) {
	t.Helper()
	for text, want := range wanted {
		if strings.Contains(dom, text) != want {
			t.Errorf("the page has %q: %t, want %t", text, !want, want)
		}
	}
}

// The page opens the section of a bind that fails.
func TestThePageOpensABindThatFails(t *testing.T) {
	const instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--clouds-yaml", clouds)
	token, service := login(t, clouds, "sim").Token(), login(t, clouds, "sim-svc").Token()
	dom := chromium(t, "--dump-dom", acting(t, served.env["CYSIM_URL"]+"/_sim/", waitALittle, func() {
		failBind(t, served.env["CYSIM_URL"]+"/accelerator/v2/accelerator_requests", token, service, instance)
	}))
	checkDOM(t, dom, map[string]bool{
		"BindFailed: 1</a>": true, "Failed binds": true, `open=""><summary>Failed binds`: true, "of instance <code>" + instance: true,
	})
}

// failBind binds an accelerator request to a provider that is not there.
func failBind(t *testing.T, arqs, token, service, instance string) {
	t.Helper()
	headers := []string{"X-Auth-Token: " + token, "X-Service-Token: " + service}
	_, made := reply(t, http.MethodPost, arqs, `{"device_profile_name": "gpu"}`, headers...)
	arq := regexp.MustCompile(`"uuid": *"([-0-9a-f]{36})"`).FindStringSubmatch(made)
	if arq == nil {
		t.Fatalf("no request for an accelerator was made: %s", made)
	}
	reply(t, http.MethodPatch, arqs, fmt.Sprintf(`{%q: [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/instance_uuid", "value": %q},
		{"op": "add", "path": "/device_rp_uuid", "value": "11111111-6a0e-4d0b-9f0c-1f6a53c2b001"}]}`, arq[1], instance), headers...)
}

func TestFaultsAndClockAreSetInTheBrowser(t *testing.T) {
	for name, tt := range map[string]struct {
		act  string
		want map[string]bool
	}{
		"set": {`
const form = document.querySelector('form.fields');
form.elements.operation.value = "accelerator.arq.bind";
form.elements.operation.dispatchEvent(new Event("change", {bubbles: true}));
form.elements.action.value = "status";
form.elements.status.value = "503";
form.requestSubmit();
`, map[string]bool{`{"operation":"accelerator.arq.bind","action":"status","status":503}`: true, "No fault rule is set": false}},
		"incomplete": {`
document.querySelector('form.fields').requestSubmit();
`, map[string]bool{"No fault rule is set": true}},
		"advanced": {`
document.querySelector('input[name="by"]').form.requestSubmit();
`, map[string]bool{"1970-01-01 00:01:": true}},
	} {
		t.Run(name, func(t *testing.T) {
			page := start(t, "serve", "--manual-clock").env["CYSIM_URL"] + "/_sim/"
			put(t, "POST", page+"clock", `{"now": "1970-01-01T00:00:00Z"}`)
			chromium(t, "--dump-dom", acting(t, page, "if (!location.hash) {"+tt.act+"}", nil))
			dom := chromium(t, "--dump-dom", page)
			checkDOM(t, strings.ReplaceAll(dom, "&quot;", `"`), tt.want)
		})
	}
}

// The form of a fault offers the actions of the operation that is chosen and the operations that are searched, and stays
// as it was filled in when it was refused, also where the section would be updated.
func TestTheFormOfAFaultInTheBrowser(t *testing.T) {
	const choose = `
const form = document.querySelector("form.fields"), search = document.querySelector('input[name="operations"]');
search.value = "arq bind";
search.dispatchEvent(new Event("input", {bubbles: true}));
form.elements.operation.value = "accelerator.arq.bind";
form.elements.operation.dispatchEvent(new Event("change", {bubbles: true}));
`
	for name, tt := range map[string]struct {
		act  string
		want map[string]bool
	}{
		"chosen": {choose + `document.title = Array.from(form.elements.action.options, (o) => o.value) + "; " +
	Array.from(form.elements.operation.options).filter((o) => o.value && !o.hidden).map((o) => o.value) + "; " + form.querySelectorAll("optgroup:not([hidden])").length;`, map[string]bool{
			"<title>,status,drop,truncate,malformed,delay,slow-body,late,proxy,expire-token,expire-service-token; accelerator.arq.bind; 1</title>": true,
		}},
		"refused": {`if (!location.hash) {` + choose + `form.elements.action.value = "delay"; form.elements.times.value = "7"; form.requestSubmit(); } else {` + waitALittle + `}`, map[string]bool{
			`<a href="#fault-delay">Delay</a>: enter a duration such as 20ms, which the action delay needs`: true, `value="7"`: true,
			`selected="">accelerator.arq.bind</option>`: true, `selected="">delay</option>`: true, "No fault rule is set": true, "Behind: operations": true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dom := chromium(t, "--dump-dom", acting(t, start(t, "serve").env["CYSIM_URL"]+"/_sim/", tt.act, nil))
			checkDOM(t, dom, tt.want)
		})
	}
}

// pageAt is what the page shows of a query in a cloud of a size.
type pageAt struct {
	query url.Values
	want  map[string]bool
}

func TestThePageOfEightHosts(t *testing.T) {
	testPages(t, 8, []pageAt{
		{nil, map[string]bool{"<h3>cn0</h3>": true, "<h3>cn7</h3>": true, "Nothing leaked.": true, " of 8<": false, "checked on request": false}},
		{url.Values{"hosts": {"cn7"}}, map[string]bool{"<h3>cn7</h3>": true, "<h3>cn6</h3>": false, "Show all": true}},
		{url.Values{"flavor": {"accel.gpu"}}, map[string]bool{"8 of 8 hosts are candidates": true, "host cn7: candidate": true}},
		{url.Values{"query": {"resources=PGPU:9"}}, map[string]bool{"0 of 8 hosts are candidates": true, "host cn7: ": true}},
	})
}

// A page of ten thousand hosts is as long as one of a hundred, and finds any of them.
func TestThePageOfTenThousandHosts(t *testing.T) {
	testPages(t, 10_000, []pageAt{
		{nil, map[string]bool{
			"1 to 100 of 10000": true, "10000 hosts: ": true, ">cn99</a>": true, ">cn100</a>": false, "checked on request": true,
		}},
		{url.Values{"hosts": {"cn9999"}}, map[string]bool{"<h3>cn9999</h3>": true, "cn9999_0000:17:00.0": true, ">cn1</a>": false}},
		{url.Values{"profile": {"gpu"}}, map[string]bool{"10000 of 10000 hosts are candidates": true, "host cn99: candidate": true, "host cn100: candidate": false}},
		{url.Values{"query": {"resources=PGPU:9"}, "explain": {"cn9999:"}}, map[string]bool{"0 of 10000 hosts are candidates": true, "host cn9999: ": true, "host cn9998: ": false}},
	})
}

func testPages(t *testing.T, hosts int, pages []pageAt) {
	t.Helper()
	cloud := simcloud.Run(t, simcloud.ScaleModel(hosts, 8))
	server := httptest.NewServer(cloud.Handler())
	defer server.Close()
	for _, tt := range pages {
		t.Run(tt.query.Encode(), func(t *testing.T) {
			address := server.URL + "/_sim/?" + tt.query.Encode()
			if _, html := get(t, address, ""); len(html) > 400_000 {
				t.Errorf("the page has %d bytes", len(html))
			}
			checkDOM(t, chromium(t, "--dump-dom", address), tt.want)
		})
	}
}
