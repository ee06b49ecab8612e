package spawn_test

import (
	"context"
	"errors"
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

func TestA404OfAnIngressLeavesTheARQsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		away := false
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if away && req.Method == http.MethodDelete {
					return answer(req, http.StatusNotFound, "default backend - 404"), nil
				}
				return next.RoundTrip(req)
			})
		})
		req := request("gpu")
		req.Hooks.Prepare = func(context.Context, *spawn.Attempt) error {
			away = true
			return errors.New("no network")
		}
		_, err := w.flow.Run(t.Context(), req)
		left, arqs := certainlyLeft(err), w.cloud.Cyborg.ARQs()
		if len(left) != 1 || len(arqs) != 1 || left[0].ID != arqs[0].UUID {
			t.Errorf("got error %v; left are %v, named %v", err, arqs, left)
		}
	})
}
