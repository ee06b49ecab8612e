package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// The unbound ARQs of another client have no instance.
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

// The responses come from an ingress without a backend and from a proxy in maintenance.
func TestTheAnswerOfAProxyLeavesTheARQsNamed(t *testing.T) {
	t.Parallel()
	for status, page := range map[int]string{http.StatusNotFound: "default backend - 404", http.StatusOK: "<html>Down for maintenance.</html>"} {
		bubble(t, fmt.Sprint(status), func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			away := false
			w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					if away && req.Method == http.MethodDelete {
						return answer(req, status, page), nil
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
			for _, err := range []error{err, w.flow.Release(t.Context(), instance)} {
				left, arqs := certainlyLeft(err), w.cloud.Cyborg.ARQs()
				if len(left) != 1 || len(arqs) != 1 || left[0].ID != arqs[0].UUID {
					t.Errorf("got error %v; left are %v, named %v", err, arqs, left)
				}
			}
		})
	}
}

// An operator has unbound the ARQ, so only the caller knows that it belongs to the instance.
func TestTheAnswerOfAProxyLeavesAnUnboundARQNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		settled(t, s.cyborg.UnbindARQs(t.Context(), i.ARQs))
		s.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.URL.Path, i.ARQs[0]) {
					return answer(req, http.StatusNotFound, "default backend - 404"), nil
				}
				return next.RoundTrip(req)
			})
		})
		s.renew(t)
		err := s.ops.Delete(t.Context(), i)
		if left := leftovers(err); len(left) != 1 || left[0].ID != i.ARQs[0] || left[0].Certain {
			t.Errorf("got error %v, want one that names ARQ %s, of %v", err, i.ARQs[0], s.cloud.Cyborg.ARQs())
		}
	})
}

func TestAnAnswerOfAProxyIsNoEmptyAllocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		if _, err := w.flow.Run(t.Context(), request("gpu")); err != nil {
			t.Fatal(err)
		}
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if strings.Contains(req.URL.Path, "/allocations/") {
					return answer(req, http.StatusOK, `{"message": "Down for maintenance."}`), nil
				}
				return next.RoundTrip(req)
			})
		})
		err := w.flow.Release(t.Context(), instance)
		if left := leftovers(err); len(left) != 1 || left[0].Kind != spawn.LeftoverAllocation || left[0].Certain {
			t.Errorf("got error %v; named %v, want the allocation", err, left)
		}
	})
}

// The error page of a web application firewall says nothing about the microversions of Placement, which still
// supports the groups of flavors and forbidden traits.
func TestA406OfAFirewallDoesNotMakePlacementOld(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"GET /placement/allocation_candidates", "GET /placement/allocations/", "PUT /placement/allocations/", "GET /placement/resource_providers"} {
		bubble(t, page, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			refused := false
			w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					if !refused && strings.HasPrefix(req.Method+" "+req.URL.Path, page) {
						refused = true
						return answer(req, http.StatusNotAcceptable, "<html>Not Acceptable!</html>"), nil
					}
					return next.RoundTrip(req)
				})
			})
			result, err := w.flow.Run(t.Context(), request("gpu"))
			w.checkPromise(t, result, err)
			w.cloud.ForgetRequests()
			req := request("gpu")
			req.Instance = secondInstance
			result, err = w.flow.Run(t.Context(), req)
			w.checkPromise(t, result, err)
			want := map[string]string{"GET allocation_candidates": "1.36", "GET allocations": "1.38", "PUT allocations": "1.38", "GET resource_providers": "1.36"}
			got := map[string]string{}
			for _, r := range w.cloud.Requests() {
				if rest, of := strings.CutPrefix(r.Path, "/placement/"); of {
					resource, _, _ := strings.Cut(rest, "/")
					got[r.Method+" "+resource] = r.Microversion
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || !refused {
				t.Errorf("microversions (-want +got):\n%s", diff)
			}
		})
	}
}

// nginx (proxy_next_upstream) repeats a PUT on the next worker if the first one dies before it responds.
func TestAClaimThatAProxyRepeatedIsNamed(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			req := request("gpu")
			if running {
				if _, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: plainFlavor()}); err != nil {
					t.Fatal(err)
				}
			}
			w.through(t, alone, func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
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
			})
			run := w.flow.Run
			if running {
				run = w.flow.AddDevices
			}
			_, err := run(t.Context(), req)
			var failure *spawn.Error
			if !errors.As(err, &failure) || !errors.Is(err, spawn.ErrClaim) || len(failure.Leftovers) != 1 ||
				failure.Leftovers[0].Kind != spawn.LeftoverAllocation || failure.Leftovers[0].Certain {
				t.Errorf("running: %v: got error %v, want the allocation as a suspect", running, err)
			}
		})
	}
}

func TestRetryFuncOfTheProviderDoesNotRepeatAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		provider := w.cloud.Provider(t)
		reads, writes := 0, 0
		provider.RetryFunc = func(_ context.Context, method, _ string, _ *gophercloud.RequestOpts, err error, n uint) error {
			if method == http.MethodGet {
				reads++
			} else {
				writes++
			}
			if n < 3 && !gophercloud.ResponseCodeIs(err, http.StatusConflict) {
				return nil
			}
			return err
		}
		w.connect(t, provider)
		w.fail(t, fault.Rule{Operation: fault.AllocationCandidatesList, Action: fault.Status, Status: http.StatusInternalServerError},
			fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if reads == 0 || writes > 0 {
			t.Errorf("%d reads and %d writes may be repeated, want reads only", reads, writes)
		}
		w.checkPromise(t, result, err)
	})
}
