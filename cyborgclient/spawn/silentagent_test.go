package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// silentAgent is a Cyborg whose agent of the mediated devices does not answer: a deletion waits a minute for
// it when it comes to one, and does not come to the ARQs after that.
type silentAgent struct {
	t     *testing.T
	next  http.RoundTripper
	mdevs func() []string // ARQs
}

// RoundTrip implements http.RoundTripper.
func (a silentAgent) RoundTrip(req *http.Request) (*http.Response, error) {
	if arqCall(a.t, req) != "delete" {
		return a.next.RoundTrip(req)
	}
	query := req.URL.Query()
	arqs := strings.Split(query.Get("arqs"), ",")
	n := slices.IndexFunc(arqs, func(arq string) bool { return slices.Contains(a.mdevs(), arq) })
	if n < 0 {
		return a.next.RoundTrip(req)
	}
	if n > 0 {
		before := req.Clone(req.Context())
		query.Set("arqs", strings.Join(arqs[:n], ","))
		before.URL.RawQuery = query.Encode()
		if resp, err := a.next.RoundTrip(before); err != nil || resp.StatusCode != http.StatusNoContent {
			return resp, err
		}
	}
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-time.After(time.Minute):
		return answer(req, http.StatusInternalServerError, `{"error_message": "{\"faultcode\": \"Server\", \"faultstring\": \"Timed out\"}"}`), nil
	}
}

// Of several devices a silent agent keeps its mediated ones, and nothing else, in a deletion and in an unwinding.
func TestASilentAgentKeepsOnlyItsMediatedDevices(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"delete", "unwind", "release"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			mdevs := func() (list []string) {
				for _, arq := range s.cloud.Cyborg.ARQs() {
					if arq.AttachHandleType == string(cyborgclient.HandleMDEV) {
						list = append(list, arq.UUID)
					}
				}
				return list
			}
			s.through(t, spawn.Config{MaxAttempts: 1}, func(next http.RoundTripper) http.RoundTripper { return silentAgent{t, next, mdevs} })
			s.renew(t)
			var err error
			switch operation {
			case "unwind":
				req := request("mixed")
				req.Hooks.Start = func(context.Context, *spawn.Result) error { return errors.New("it does not start") }
				_, err = s.flow.Run(t.Context(), req)
			case "delete":
				err = s.ops.Delete(t.Context(), s.spawn(t, "mixed"))
			default:
				err = s.flow.Release(t.Context(), s.spawn(t, "mixed").UUID)
			}
			left := mdevs()
			if diff := cmp.Diff(left, leftARQs(err)); diff != "" || len(left) != 1 {
				t.Errorf("%s: error %v; ARQs left behind (-want +got):\n%s", operation, err, diff)
			}
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != 1 {
				t.Errorf("%s: %d ARQs are left, want that of the mediated device", operation, len(arqs))
			}
		})
	}
}

// At the start of a host Cyborg's agent may be the last to come. Nothing waits for it once for each ARQ.
func TestAReconciliationWaitsOnceForASilentAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		const orphans = 4
		for n := range orphans {
			req := request("vgpu")
			req.Instance = fmt.Sprintf("%s%d", instance[:len(instance)-1], n)
			_, err := s.flow.Run(t.Context(), req)
			settled(t, err)
		}
		arqs, err := s.cyborg.ListARQs(t.Context(), cyborgclient.ListARQsOpts{})
		settled(t, err)
		mdevs := uuidsOf(arqs)
		s.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return silentAgent{t, next, func() []string { return mdevs }}
		})
		began := time.Now()
		found, err := s.flow.Reconcile(t.Context(), s.freeing())
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		for _, l := range found {
			if (l.Kind == spawn.LeftoverARQ) != (l.Err != nil) {
				t.Errorf("%s %s: %v", l.Kind, l.ID, l.Err)
			}
		}
		if len(found) != 2*orphans || !errors.Is(err, spawn.ErrLeftover) {
			t.Errorf("%d found, %v", len(found), err)
		}
		s.restart(t)
		_, err = s.flow.Reconcile(t.Context(), s.freeing())
		settled(t, err)
		s.sound(t)
	})
}
