package spawn_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// The unbound ARQs of another client have no instance.
func TestAReleaseLeavesTheARQsOfAListWithoutItsFilter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		_, err := w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
		settled(t, err)
		w.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
			if req.URL.Query().Has("instance") {
				req.URL.RawQuery = ""
			}
			return next.RoundTrip(req)
		})
		err = w.flow.Release(t.Context(), instance)
		if arqs := w.cloud.Cyborg.ARQs(); err == nil || len(arqs) != 1 {
			t.Errorf("got error %v; there are %d ARQs, want the other client's", err, len(arqs))
		}
	})
}

// nginx (proxy_next_upstream) repeats a PUT on the next worker if the first one dies before it responds.
func TestAClaimThatAProxyRepeatedIsNamed(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			req := request("gpu")
			if running {
				_, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()})
				settled(t, err)
			}
			w.behind(t, alone, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if req.Method != http.MethodPut {
					return next.RoundTrip(req)
				}
				body, err := io.ReadAll(req.Body)
				if err != nil {
					return nil, err
				}
				for range 2 {
					req.Body = io.NopCloser(strings.NewReader(string(body)))
					res, err := next.RoundTrip(req)
					if err != nil || res.StatusCode == http.StatusConflict {
						return res, err
					}
					res.Body.Close()
				}
				return nil, errors.New("the second PUT is accepted")
			})
			run := w.flow.Run
			if running {
				run = w.flow.AddDevices
			}
			_, err := run(t.Context(), req)
			wantKinds(t, leftovers(err), spawn.LeftoverAllocation)
			if !errors.Is(err, spawn.ErrClaim) || len(certainlyLeft(err)) > 0 {
				t.Errorf("running: %v: got error %v, want the allocation as a suspect", running, err)
			}
		})
	}
}
