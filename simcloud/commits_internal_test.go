package simcloud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// committed keeps the states after each commit of a cloud. After kill -9 its state file has one of them.
type committed struct {
	mu     sync.Mutex
	rows   map[[2]string]sim.Record
	states [][]sim.Record
}

func (s *committed) add(t *testing.T, changes []sim.RecordChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		at := [2]string{c.Table, c.Key}
		if c.After == nil {
			delete(s.rows, at)
			continue
		}
		row, err := json.Marshal(c.After)
		if err != nil {
			t.Error(err)
		}
		s.rows[at] = sim.Record{Table: c.Table, Key: c.Key, Row: row}
	}
	s.states = append(s.states, slices.SortedFunc(maps.Values(s.rows), func(a, b sim.Record) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Key, b.Key))
	}))
}

func TestEveryCommitLeavesAStateThatCanBeLoaded(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]fakecyborg.Config{
		"tree": {}, "flat": {PlacementMode: fakecyborg.ModeFlat}, "in the background": {AsyncBind: true, BindingStates: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cloud, ctx := Run(t, Model{Cyborg: cfg}), t.Context()
				seen := committed{rows: make(map[[2]string]sim.Record)}
				for r, err := range cloud.state.Records() {
					must(t, err)
					seen.rows[[2]string{r.Table, r.Key}] = r
				}
				cloud.state.OnCommit(func(changes []sim.RecordChange) { seen.add(t, changes) })
				// Failed requests are not cleaned up, as with an agent that is killed.
				for n, d := range cloud.Cyborg.Deployables() {
					profile := "of-" + d.ResourceClass()
					_, _ = cloud.Cyborg.CreateDeviceProfile(profile, []map[string]string{{"resources:" + d.ResourceClass(): "1"}})
					arqs, err := cloud.Cyborg.CreateARQs(profile, cloud.ProjectID("admin"))
					must(t, err)
					_ = cloud.Cyborg.Bind(ctx, fakecyborg.Binding{
						ARQ: arqs[0].UUID, Host: d.Hostname, Provider: d.ProviderUUID, Instance: fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
					})
				}
				time.Sleep(time.Minute)
				for _, rules := range [][]fault.Rule{
					{{Operation: fault.MdevCreate, Action: fault.Status}, {Operation: fault.MdevRemove, Action: fault.Status}},
					{{Operation: fault.DeviceFind, Action: fault.Drop}},
					{},
				} {
					must(t, cloud.faults.Set(rules...))
					_ = cloud.StopHost("cn0")
					_ = cloud.StartHost(ctx, "cn0")
					for i, a := range cloud.Cyborg.ARQs() {
						if i%2 == 0 {
							_ = cloud.Cyborg.Unbind(ctx, a.UUID)
						} else {
							_ = cloud.Cyborg.DeleteARQs(ctx, a.UUID)
						}
					}
					_ = cloud.Cyborg.Report(ctx)
				}
				for _, d := range cloud.Cyborg.Devices() {
					_ = cloud.Cyborg.SetDeviceStatus(ctx, d.UUID, fakecyborg.StatusMaintaining)
				}
				synctest.Wait()
				for _, records := range seen.states {
					if _, err := cloud.prepare(document{records: records}); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}
