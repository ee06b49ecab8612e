package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

// silentAgent imitates a Cyborg whose agent for mediated devices does not answer: a deletion waits for it for a
// minute at the first mediated device, and does not process the ARQs after that.
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

// A deletion or an unwinding with a silent agent frees everything except the mediated devices.
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
				_, err = s.flow.On(failsToStart(errHook)).Run(t.Context(), request("mixed"))
			case "delete":
				err = s.ops.Delete(t.Context(), s.spawn(t, "mixed"))
			default:
				err = s.flow.Release(t.Context(), s.spawn(t, "mixed").UUID)
			}
			left := mdevs()
			if diff := cmp.Diff(left, leftARQs(err)); diff != "" || len(left) != 1 {
				t.Errorf("%s: error %v; leftover ARQs (-want +got):\n%s", operation, err, diff)
			}
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != 1 {
				t.Errorf("%s: %d ARQs remain, want only the ARQ of the mediated device", operation, len(arqs))
			}
		})
	}
}

// When a host starts, Cyborg's agent may be the last service that comes up. A reconciliation does not wait for it
// once per ARQ.
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

// manyVGPUs has a profile with several vGPUs and a whole GPU.
func manyVGPUs(vgpus int) *simcloud.Model {
	model := simcloud.DefaultModel()
	n := slices.IndexFunc(model.DeviceProfiles, func(p simcloud.DeviceProfile) bool { return p.Name == "vgpu" })
	vgpu := maps.Clone(model.DeviceProfiles[n].Groups[0])
	vgpu["resources:VGPU"] = fmt.Sprint(vgpus)
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "many", Groups: []map[string]string{vgpu, {"resources:PGPU": "1"}}})
	return &model
}

// The deletion of each mediated device may wait for an agent that does not answer. Resources that need no agent are
// freed, and the instance is evacuated.
func TestManyMediatedDevicesOfASilentAgentKeepNothingElse(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*spawn.Operations, context.Context, spawn.Instance) error{
		"delete": (*spawn.Operations).Delete, "local delete": (*spawn.Operations).LocalDelete, "shelve offload": (*spawn.Operations).ShelveOffload,
		"evacuate": func(o *spawn.Operations, ctx context.Context, i spawn.Instance) error {
			result, err := o.Evacuate(ctx, i, spawn.MoveOpts{})
			if result == nil {
				return fmt.Errorf("not evacuated: %w", err)
			}
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: manyVGPUs(10)})
			i := s.spawn(t, "many")
			isMediated := func(arq cyborgclient.ARQ) bool { return arq.AttachHandleType == cyborgclient.HandleMDEV }
			mdevs := uuidsOf(slices.DeleteFunc(s.arqs(t, i), func(arq cyborgclient.ARQ) bool { return !isMediated(arq) }))
			s.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
				return silentAgent{t, next, func() []string { return mdevs }}
			})
			s.renew(t)
			if name == "evacuate" {
				s.loseHost(t, i.Host)
			}
			err := run(s.ops, t.Context(), i)
			if diff := cmp.Diff(mdevs, leftARQs(err)); diff != "" || len(mdevs) != 10 || !errors.Is(err, spawn.ErrLeftover) || strings.Contains(err.Error(), "not evacuated") {
				t.Errorf("%s: got %v; leftover ARQs (-want +got):\n%s", name, err, diff)
			}
			left := s.arqs(t, i)
			if name == "evacuate" {
				left = slices.DeleteFunc(left, func(arq cyborgclient.ARQ) bool { return arq.Hostname != i.Host })
			}
			checkDiff(t, name+": ARQs (-want +got)", mdevs, uuidsOf(left))
			if held := s.held(instance); slices.ContainsFunc(held, func(text string) bool { return strings.HasPrefix(text, i.Host) }) {
				t.Errorf("%s: it holds %v", name, held)
			}
		})
	}
}
