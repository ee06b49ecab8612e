package simcloud

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// People and programs read the record and its drawing: they have the changes of requests,
// and never a token. GOCYBORG_UPDATE=1 writes the files.
func TestTheRecordOfASpawnIsFrozen(t *testing.T) {
	cloud, err := New(t.Context(), goldenModel(), WithClock(sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))))
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
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

func TestTheVersionOfThePageFollowsTheCommits(t *testing.T) {
	t.Parallel()
	c, err := New(t.Context(), Model{}, WithClock(sim.NewManualClock(time.Unix(0, 0))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := c.version()
	if again := c.version(); again != before {
		t.Errorf("nothing happened: %s, then %s", before, again)
	}
	if err := c.DefineGuest(sim.Guest{UUID: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"}); err != nil {
		t.Fatal(err)
	}
	if after := c.version(); after == before {
		t.Errorf("a guest was defined: still %s", after)
	}
}
