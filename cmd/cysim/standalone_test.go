package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/simcloud"
)

// newKeptStandalone is a Cyborg alone with a state file that is new, before it has begun.
func newKeptStandalone(t *testing.T) *standalone {
	t.Helper()
	kept, err := openCyborgState(filepath.Join(t.TempDir(), "state"), simcloud.Model{}, &simcloud.Agents{})
	must(t, err)
	s := &standalone{kept: kept, faults: fault.NewSet(fault.ARQBind)}
	s.waiting.begin(nil)
	t.Cleanup(func() {
		if err := s.keeper.Load().Close(); err != nil {
			t.Error(err)
		}
		if err := s.kept.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sendRules sends a change of the fault rules in process.
func sendRules(h http.Handler, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/_sim/faults", strings.NewReader(`[{"operation": "accelerator.arq.bind", "action": "drop"}]`)))
	return w
}

// What a request below /_sim/ changed is on the disk before it is answered, as what one of the API did.
func TestACyborgAloneAnswersNoChangeThatIsNotOnTheDisk(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int{http.MethodPut: 200, http.MethodPost: 200, http.MethodDelete: 204} {
		synctest.Test(t, func(t *testing.T) {
			s := newKeptStandalone(t)
			server, err := fakecyborg.New(fakecyborg.Config{})
			must(t, err)
			keeper, err := s.kept.keep(tables.Group{{Name: "sim.faults", Recorded: s.faults}}, s.faults.CommitCounts)
			must(t, err)
			s.keeper.Store(keeper)
			s.api.Store(server)
			must(t, s.faults.Set(fault.Rule{Operation: fault.ARQBind, Action: fault.Drop}))
			release := keeper.Queue.Hold()
			var answer *httptest.ResponseRecorder
			go func() { answer = sendRules(s.control(nil), method) }()
			synctest.Wait()
			if answer != nil {
				t.Errorf("%s was answered %d before the disk had the rules", method, answer.Code)
			}
			release()
			synctest.Wait()
			if answer == nil || answer.Code != want {
				t.Errorf("%s: %+v, want status %d", method, answer, want)
			}
		})
	}
}

// The state that is loaded later replaces what a request has changed.
func TestACyborgAloneTakesNoChangeBeforeItsStateIsLoaded(t *testing.T) {
	t.Parallel()
	s := newKeptStandalone(t)
	if w := sendRules(s.control(nil), http.MethodPut); w.Code != http.StatusServiceUnavailable || len(s.faults.Rules()) > 0 {
		t.Errorf("PUT: %d %s, and %d rules are set", w.Code, w.Body, len(s.faults.Rules()))
	}
	if w := sendRules(s.control(nil), http.MethodGet); w.Code != http.StatusOK {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
}
