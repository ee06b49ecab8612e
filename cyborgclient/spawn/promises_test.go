package spawn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
)

// Cyborg sends its events before it answers the PATCH.
func TestTheEventsAreRegisteredBeforeThePatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	registered := -1
	w.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch {
			registered = w.events.Pending()
		}
		return next.RoundTrip(req)
	})
	w.spawned(t, request("mixed"))
	if registered < 1 {
		t.Errorf("%d waits were registered when the PATCH was sent", registered)
	}
}

// A guest with a Bound ARQ without a handle would lack a device.
func TestABoundARQWithoutAHandleIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"attach_handle_type", "attach_handle_info"} {
		bubble(t, field, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			empty := map[string]string{"attach_handle_type": `"attach_handle_type":""`, "attach_handle_info": `"attach_handle_info":{}`}[field]
			w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
				return &rewrite{next: next, method: http.MethodGet, path: "/accelerator_requests", change: func(_ int, body []byte) []byte {
					at := bytes.Index(body, []byte(`"`+field+`":`))
					if at < 0 {
						return body
					}
					end := at + bytes.IndexByte(body[at:], map[string]byte{"attach_handle_type": ',', "attach_handle_info": '}'}[field])
					if field == "attach_handle_info" {
						end++
					}
					return slices.Concat(body[:at], []byte(empty), body[end:])
				}}
			})
			result, err := w.flow.Run(t.Context(), request("gpu"))
			if !errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), "no attach handle") {
				t.Errorf("got %v, error %v; want ErrNotBound without attach handle", result, err)
			}
			w.checkPromise(t, nil, err)
		})
	}
}

// QEMU refuses PCI domains above ffff, as below a VMD, and the address is unknown before the bind: neither the
// candidates nor an unbound ARQ have it. The spawn fails before the guest starts, and nothing leaks.
func TestAHandleInAHighPCIDomainDoesNotLeak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		bound := 0
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return &rewrite{next: next, method: http.MethodGet, path: "/accelerator_requests", change: func(_ int, body []byte) []byte {
				bound += bytes.Count(body, []byte(`"domain":"0000"`))
				return bytes.ReplaceAll(body, []byte(`"domain":"0000"`), []byte(`"domain":"10000"`))
			}}
		})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if !errors.Is(err, domainxml.ErrHandle) || !strings.Contains(err.Error(), `domain: "10000" does not fit in 16 bits`) || !strings.Contains(err.Error(), "compose") || bound == 0 {
			t.Errorf("got %v, error %v; want ErrHandle with the domain (%d handles)", result, err, bound)
		}
		w.checkPromise(t, nil, err)
		if held := w.cloud.Cyborg.ARQs(); len(held) > 0 {
			t.Errorf("ARQs remain: %v", held)
		}
	})
}

// Placement refuses a claim with a conflict if the generation of a provider has changed, which says nothing about its
// capacity, or if the generation of the consumer has changed, which means that another client works on the instance.
func TestConflictsOfGenerations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, detail string
		claims       int
		want         error
	}{
		{"provider", "Inventory and/or allocations changed while attempting to allocate: Another thread concurrently updated the data", 2, nil},
		{"consumer", "consumer generation conflict - expected null but got 1", 1, spawn.ErrClaim},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			var bodies []string
			claims := 0
			w.behind(t, spawn.Config{}, func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if req.Method != http.MethodPut {
					return next.RoundTrip(req)
				}
				body, err := req.GetBody()
				if err != nil {
					return nil, err
				}
				claim, err := io.ReadAll(body)
				if err != nil {
					return nil, err
				}
				bodies = append(bodies, string(claim))
				if claims++; claims > 1 {
					return next.RoundTrip(req)
				}
				return answer(req, http.StatusConflict, fmt.Sprintf(
					`{"errors": [{"status": 409, "title": "Conflict", "detail": %q, "code": "placement.concurrent_update"}]}`, tt.detail)), nil
			})
			result, err := w.flow.Run(t.Context(), request("gpu"))
			if !errors.Is(err, tt.want) || claims != tt.claims {
				t.Errorf("got error %v after %d claims, want %v after %d", err, claims, tt.want, tt.claims)
			}
			if len(slices.Compact(bodies)) != 1 {
				t.Errorf("another claim was tried: %v", bodies)
			}
			w.checkPromise(t, result, err)
		})
	}
}

// Cyborg 2026.2 refuses a project in the request of a user without the role admin.
func TestAServiceUserNamesNoProject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		provider := w.cloud.ServiceProvider(t)
		w.connect(t, provider, spawn.WithServiceProvider(provider))
		w.spawned(t, request("gpu"))
	})
}

// After a handover the instance belongs to the other process, so this flow no longer protects it from a
// reconciliation.
func TestAHandedOverInstanceIsNoRunningAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		a := w.begin(t, instance)
		settled(t, walk(t.Context(), a.Match, a.Bind))
		if running, err := w.flow.Reconcile(t.Context(), w.scope()); err != nil || len(running) > 0 {
			t.Errorf("before the handover: %v, error %v", running, err)
		}
		_, err := a.Handover(t.Context())
		settled(t, err)
		orphans, err := w.flow.Reconcile(t.Context(), w.freeing())
		if err != nil || len(orphans) != 2 {
			t.Errorf("got %v, error %v; want the ARQ and the allocation of an instance without an attempt", orphans, err)
		}
	})
}

// An ARQ that was bound and unbound between the two lists is in use.
func TestReconcileLeavesAnARQThatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		other := w.neighbour(t, spawn.Config{})
		arq := w.spawned(t, request("gpu")).ARQs[0]
		binding := cyborgclient.Binding{ARQ: arq.UUID, Host: arq.Hostname, DeviceRP: arq.DeviceRPUUID, Instance: instance}
		unbind := func() {
			if err := other.cyborg.UnbindARQs(t.Context(), []string{arq.UUID}); err != nil {
				t.Error(err)
			}
		}
		unbind()
		time.Sleep(time.Hour)
		go func() {
			time.Sleep(30 * time.Second)
			if err := other.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{binding}); err != nil {
				t.Error(err)
			}
			unbind()
		}()
		opts := w.freeing()
		opts.Living = allLiving
		if freed, err := w.flow.Reconcile(t.Context(), opts); err != nil || len(freed) > 0 {
			t.Errorf("freed %v, error %v", freed, err)
		}
	})
}

// The bound ARQs of other instances are not attributed to a lost create.
func TestALostCreateLeavesBoundARQs(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{"as they are": "Bound", "in the state before": "Initial"} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			first := w.spawned(t, request("gpu")) // by another agent
			w.through(t, alone, func(next http.RoundTripper) http.RoundTripper {
				ofAll := &rewrite{next: next, method: http.MethodGet, path: "/accelerator_requests", change: func(_ int, body []byte) []byte {
					return bytes.ReplaceAll(body, []byte(`"state":"Bound"`), []byte(`"state":"`+state+`"`))
				}}
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					if req.URL.Query().Has("instance") {
						return next.RoundTrip(req)
					}
					return ofAll.RoundTrip(req)
				})
			})
			w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Drop})
			w.spawned(t, secondInstanceRequest("gpu"))
			if arq, err := w.cyborg.GetARQ(t.Context(), first.ARQs[0].UUID); err != nil || arq.State != cyborgclient.StateBound {
				t.Errorf("the first instance's ARQ: %v, error %v", arq, err)
			}
		})
	}
}
