package spawn_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// The ARQs that another client has made and not bound yet have no instance.
func TestAReleaseLeavesTheARQsOfAListWithoutItsFilter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		if _, err := w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"}); err != nil {
			t.Fatal(err)
		}
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.URL.Query().Has("instance") {
					req.URL.RawQuery = ""
				}
				return next.RoundTrip(req)
			})
		})
		err := w.flow.Release(t.Context(), instance)
		if arqs := w.cloud.Cyborg.ARQs(); err == nil || len(arqs) != 1 {
			t.Errorf("got error %v; there are %d ARQs, want the other client's", err, len(arqs))
		}
	})
}
