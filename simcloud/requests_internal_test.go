package simcloud

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// People and programs read the record and its drawing: they have the changes of requests,
// and never a token. GOCYBORG_UPDATE=1 writes the files.
func TestTheRecordOfASpawnIsFrozen(t *testing.T) {
	cloud := Run(t, goldenModel(), WithClock(sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))))
	var tokens []string
	send := func(method, path, body string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("User-Agent", "test")
		r.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(path, "/placement") {
			r.Header.Set("OpenStack-API-Version", "placement 1.36")
		}
		for _, token := range tokens {
			r.Header.Set("X-Auth-Token", token)
			r.Header.Set("X-Service-Token", token)
		}
		w := httptest.NewRecorder()
		if cloud.Handler().ServeHTTP(w, r); w.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		if token := w.Header().Get("X-Subject-Token"); token != "" {
			tokens = append(tokens, token)
		}
	}
	const instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	gpu := ""
	for _, p := range cloud.Placement.ResourceProviders() {
		if _, ok := p.Inventories["PGPU"]; ok {
			gpu = p.UUID
		}
	}
	const arqs = "/accelerator/v2/accelerator_requests"
	send(http.MethodPost, "/identity/v3/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"nova","domain":{"id":"default"},"password":"secret"}}},"scope":{"project":{"name":"service","domain":{"id":"default"}}}}}`)
	send(http.MethodPut, "/placement/allocations/"+instance, fmt.Sprintf(
		`{"allocations":{%q:{"resources":{"PGPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null}`, gpu))
	send(http.MethodPost, arqs, `{"device_profile_name":"gpu"}`)
	send(http.MethodPatch, arqs, fmt.Sprintf(`{%q:[{"path":"/hostname","op":"add","value":"cn0"},{"path":"/device_rp_uuid","op":"add","value":%q},{"path":"/instance_uuid","op":"add","value":%q}]}`,
		cloud.Cyborg.ARQs()[0].UUID, gpu, instance))
	send(http.MethodDelete, arqs+"?instance="+instance, "")
	send(http.MethodDelete, arqs+"?instance="+instance, "")
	send(http.MethodDelete, "/placement/allocations/"+instance, "")
	for name, path := range map[string]string{"get-requests-of-a-spawn": "/_sim/requests", "get-requests-diagram-of-a-spawn": "/_sim/requests/diagram"} {
		got := controlAnswer(t, cloud, http.MethodGet, path, "")
		for _, token := range tokens {
			if strings.Contains(got, token) {
				t.Errorf("%s shows a token", path)
			}
		}
		compareGolden(t, name, got)
	}
}

func TestTheVersionsOfThePageFollowWhatHappens(t *testing.T) {
	t.Parallel()
	clock := sim.NewManualClock(time.Unix(0, 0))
	c := Run(t, goldenModel(), WithClock(clock))
	page := pageCloud{c}
	before := page.Versions()
	for _, step := range []struct {
		name string
		do   func() error
		want string // the sections that change
	}{
		{"nothing", func() error { return nil }, ""},
		{"a guest", func() error { return c.DefineGuest(sim.Guest{UUID: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"}) }, "leaks hosts guests faults"},
		{"a provider", func() error {
			_, err := c.Placement.CreateProvider(placementsim.ResourceProvider{Name: "new"})
			return err
		}, "leaks hosts explain faults"},
		{"accelerator requests", func() error { _, err := c.Cyborg.CreateARQs("gpu", "p"); return err }, "leaks hosts arqs explain faults"},
		{"a fault rule", func() error { return c.Faults().Set(fault.Rule{Operation: "accelerator.arq.bind", Action: fault.Drop}) }, "leaks faults"},
		{"a request", func() error {
			answers(t, c, http.MethodGet, "/placement/", "")
			return nil
		}, "flows faults"},
		{"a misspelt request", func() error {
			answers(t, c, http.MethodGet, "/placement/traits?nmae=a", "")
			return nil
		}, "flows faults unrecognized"},
		{"requests are forgotten", func() error { c.recorder.Reset(); return nil }, "flows faults unrecognized"},
		{"time", func() error { clock.Advance(10 * time.Second); return nil }, "now leaks arqs faults"}, // the clock is a row
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		after := page.Versions()
		var changed []string
		for section, version := range after {
			if version != before[section] {
				changed = append(changed, statuspage.Section(section).String())
			}
		}
		if got := strings.Join(changed, " "); got != step.want {
			t.Errorf("%s: changed %s, want %s", step.name, got, step.want)
		}
		before = after
	}
}

func TestThePageReadsWhatItShows(t *testing.T) {
	t.Parallel()
	c := Run(t, ScaleModel(12, 1))
	hosts := c.HostNames()
	for n := range 30 {
		must(t, c.DefineGuest(sim.Guest{UUID: fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n), Host: hosts[n%12]}))
	}
	page := pageCloud{c}
	for _, q := range []statuspage.Query{
		{Limit: 10}, {Skip: 25, Limit: 10}, {Skip: 40, Limit: 10}, {Text: "00001", Limit: 4}, {Text: hosts[3], Skip: 1, Limit: 9}, {Text: "none", Limit: 9},
	} {
		var want []sim.Guest
		matching := 0
		for _, g := range c.Guests() {
			if strings.Contains(g.UUID+" "+g.Host, q.Text) {
				if matching++; matching > q.Skip && len(want) < q.Limit {
					want = append(want, g)
				}
			}
		}
		got, found := page.Guests(q)
		if diff := cmp.Diff(want, got); diff != "" || found != matching {
			t.Errorf("%+v: %d of %d guests (-want +got):\n%s", q, found, matching, diff)
		}
	}
	if got := page.GuestsOf(hosts[:1])[hosts[0]]; len(got) != 3 || !strings.HasSuffix(got[2], "000024") {
		t.Errorf("guests of %s: %v", hosts[0], got)
	}
	if trees, matching := page.Trees(statuspage.Query{Text: hosts[11], Limit: 100}); matching != 1 || trees[0][0].Name != hosts[11] {
		t.Errorf("the trees of %s: %d of %d", hosts[11], len(trees), matching)
	}
	if leaks, checked, _ := page.Leaks(false); !checked || len(leaks) != len(c.Leaks()) {
		t.Errorf("leaks: %v, %t", leaks, checked)
	}
	for n := range maxCheckedGuests {
		must(t, c.DefineGuest(sim.Guest{UUID: fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", n)}))
	}
	if _, checked, _ := page.Leaks(false); checked {
		t.Error("a large cloud was checked for leaks without a request")
	}
	if _, checked, _ := page.Leaks(true); !checked {
		t.Error("no check was made on request")
	}
}

// Cyborg 10.1 drops devices with OWNER_CYBORG: the page says which.
func TestThePageNamesTheDevicesThatAReleaseDrops(t *testing.T) {
	t.Parallel()
	for release, drops := range map[fakecyborg.Release]bool{fakecyborg.ReleaseZed: false, "2023.1": true, "2023.2": false} {
		model := goldenModel()
		model.Cyborg.Release = release
		page := answers(t, Run(t, model), http.MethodGet, "/_sim/", "")
		if got := strings.Contains(page.Body.String(), "<li>driver: device 0000:3b:00.0: "); got != drops {
			t.Errorf("release %s: a dropped device is shown: %t\n%s", release, got, page.Body)
		}
	}
}
