package spawn_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// headerGlobalRequestID is the header that identifies the record of a request.
const headerGlobalRequestID = "X-Openstack-Request-Id"

// patchLog counts the PATCHes of ARQs that were sent while another PATCH of the same ARQ was under way: on databases without
// snapshot isolation both may be applied.
type patchLog struct {
	mu      sync.Mutex
	arqs    map[*simcloud.Cloud]map[string][]string // UUIDs by global request ID
	overlap int
}

// logging records the ARQs of each PATCH.
func (l *patchLog) logging(cloud *simcloud.Cloud, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodPatch || req.Body == nil {
			return next.RoundTrip(req)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		var patches map[string]json.RawMessage
		_ = json.Unmarshal(body, &patches) // the keys of other PATCHes are not ARQs
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		id := "req-" + uuid.NewString()
		req.Header.Set(headerGlobalRequestID, id)
		l.mu.Lock()
		if l.arqs == nil {
			l.arqs = map[*simcloud.Cloud]map[string][]string{}
		}
		if l.arqs[cloud] == nil {
			l.arqs[cloud] = map[string][]string{}
		}
		for arq := range patches {
			l.arqs[cloud][id] = append(l.arqs[cloud][id], arq)
		}
		l.mu.Unlock()
		return next.RoundTrip(req)
	})
}

// end counts the overlaps at the end of a run. A late request is under way until it takes effect.
func (l *patchLog) end(cloud *simcloud.Cloud) {
	requests := cloud.Requests()
	l.mu.Lock()
	defer l.mu.Unlock()
	until := map[string]time.Time{} // by ARQ
	for _, r := range requests {    // in the order in which they began
		if r.Operation != fault.ARQBind {
			continue
		}
		overlaps := false
		for _, arq := range l.arqs[cloud][r.GlobalRequestID] {
			overlaps = overlaps || r.Started.Before(until[arq])
			if end := r.Started.Add(r.Duration); end.After(until[arq]) {
				until[arq] = end
			}
		}
		if overlaps {
			l.overlap++
		}
	}
	delete(l.arqs, cloud)
}

// count returns the number so far.
func (l *patchLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overlap
}

// The log counts a PATCH that is sent while one of the same ARQ is late, and no other.
func TestThePatchLogCountsWhatOverlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		s := newStage()
		agent, err := s.newAgent(t.Context(), w.cloud, administrators, "")
		settled(t, err)
		var arqs []string
		for range 2 {
			created, err := agent.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
			settled(t, err)
			arqs = append(arqs, created[0].UUID)
		}
		w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Late, Delay: time.Minute})
		_ = agent.cyborg.UnbindARQs(t.Context(), arqs[:1]) // late
		_ = agent.cyborg.UnbindARQs(t.Context(), arqs[1:])
		_ = agent.cyborg.UnbindARQs(t.Context(), arqs) // overlaps
		time.Sleep(2 * time.Minute)
		_ = agent.cyborg.UnbindARQs(t.Context(), arqs)
		s.patches.end(w.cloud)
		if n := s.patches.count(); n != 1 {
			t.Errorf("%d requests overlapped, want 1", n)
		}
	})
}
