// Package servicetest_test has the tests that the simulated services have in common.
//
// What the routes of a service declare as read ([sim.Route]) is read, and what they do not
// declare is not: each service brings requests that use everything, except for simple routes,
// and a server that is new for each of their variations. A bad state is refused and changes nothing; Cyborg and
// Placement have their own tests for that. The package does not follow any upstream source.
package servicetest_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// stopped is a clock that stands still.
func stopped() sim.Clock { return sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }

// send sends a request as an administrator, after those that precede it, with further headers in pairs, and returns the
// status and the body of the answer.
func send(t testing.TB, service http.Handler, r request, header ...string) answer {
	t.Helper()
	for _, before := range r.after {
		before.version = r.version
		send(t, service, before, header...)
	}
	w := exchange(t, service, r, header...)
	return answer{w.Code, w.Body.String()}
}

// exchange sends a request as [send] does.
func exchange(t testing.TB, service http.Handler, r request, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), r.method, r.path, strings.NewReader(r.body))
	header = append([]string{"X-Auth-Token", "admin", "OpenStack-API-Version", r.version, "Content-Type", cmp.Or(r.media, "application/json")}, header...)
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	service.ServeHTTP(w, req)
	return w
}

// asJSON is what can be seen of a state.
func asJSON(t *testing.T, state ...any) string {
	t.Helper()
	data, err := json.Marshal(state)
	must(t, err)
	return string(data)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
