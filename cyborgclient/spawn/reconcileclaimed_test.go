package spawn_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// Another process unshelves the instance while Placement does not answer Reconcile, which frees what the instance had before.
func TestReconcileLeavesConcurrentClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		s.crash(t, instance, 5) // leaves an allocation alone
		s.logIn(t, "admin")
		other, began := s.ops, false
		s.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
			if began || !strings.Contains(req.URL.Path, "/allocations/") || req.Method == http.MethodGet {
				return next.RoundTrip(req)
			}
			began = true
			_, err := other.Unshelve(t.Context(), spawn.Instance{UUID: instance, Flavor: flavor("mixed")}, spawn.MoveOpts{})
			settled(t, err)
			return answer(req, http.StatusServiceUnavailable, `{}`), nil
		})
		orphans, err := s.flow.Reconcile(t.Context(), s.freeing())
		settled(t, err)
		if len(orphans) > 0 || len(s.held(instance)) == 0 {
			t.Errorf("freed %v, the instance holds %v", orphans, s.held(instance))
		}
		s.sound(t)
	})
}
