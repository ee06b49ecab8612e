package placementsim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// writers lets eight goroutines send requests until each has sent n.
func writers(n int, write func(worker, i int)) {
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range n {
				write(worker, i)
			}
		})
	}
	wg.Wait()
}

func TestOfConcurrentWritersOfOneGenerationOneWins(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	start, err := s.ResourceProvider(rp1)
	must(t, err)
	for round := range 20 {
		var won, lost atomic.Int64
		body := fmt.Sprintf(`{"resource_provider_generation":%d,"inventories":{"VCPU":{"total":%d}}}`, start.Generation+round, 8+round)
		writers(1, func(int, int) {
			switch got := send(t, s, "1.39", "PUT", "/resource_providers/"+rp1+"/inventories", body); {
			case got.status == http.StatusOK:
				won.Add(1)
			case got.status == http.StatusConflict && got.at(t, "errors", "0", "code") == "placement.concurrent_update":
				lost.Add(1)
			default:
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
		if won.Load() != 1 || lost.Load() != 7 {
			t.Fatalf("round %d: %d won and %d lost, want 1 and 7", round, won.Load(), lost.Load())
		}
	}
}

func TestOfConcurrentWritersOfOneConsumerNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	var won atomic.Int64
	writers(25, func(_, i int) {
		generation := "null"
		if now := send(t, s, "1.39", "GET", "/allocations/"+con, ""); now.at(t, "consumer_generation") != nil {
			generation = fmt.Sprint(now.at(t, "consumer_generation"))
		}
		body := fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":%d}}},"project_id":"p","user_id":"u","consumer_generation":%s,"consumer_type":"T"}`, rp1, 1+i%8, generation)
		switch got := send(t, s, "1.39", "PUT", "/allocations/"+con, body); got.status {
		case http.StatusNoContent:
			won.Add(1)
		case http.StatusConflict:
		default:
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
	if got := send(t, s, "1.39", "GET", "/allocations/"+con, "").at(t, "consumer_generation"); got != float64(won.Load()) {
		t.Errorf("the consumer's generation is %v after %d writes", got, won.Load())
	}
}

func TestConcurrentAnswersDoNotMix(t *testing.T) {
	t.Parallel()
	s := worked(t)
	queries := []string{
		"resources=VCPU:1", "resources=VCPU:1,FPGA:1", "resources=MEMORY_MB:512&resources_1=MEMORY_MB:768&group_policy=none&limit=2",
		"resources=DISK_GB:1", "resources=VCPU:1&limit=1", "resources_A=FPGA:1&resources_B=FPGA:1&group_policy=isolate",
	}
	ask := func(query string) string {
		return send(t, s, "1.39", "GET", "/allocation_candidates?"+query, "").body
	}
	want := make([]string, len(queries))
	for i, query := range queries {
		want[i] = ask(query)
		for k := range i {
			if want[i] == want[k] {
				t.Fatalf("%s and %s have the same answer", queries[i], queries[k])
			}
		}
	}
	writers(60, func(worker, i int) {
		k := (worker + i) % len(queries)
		if got := ask(queries[k]); got != want[k] {
			t.Errorf("%s: got %s, want %s", queries[k], got, want[k])
		}
	})
}

func TestConcurrentWritersLeaveAConsistentState(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	writers(60, func(worker, i int) {
		consumer := fmt.Sprintf("%08d-0000-4000-8000-00000000000%d", i%3, worker%4) // two workers share one
		host := fmt.Sprintf("%08d-0000-4000-8000-0000000000ff", worker)
		requests := []turn{
			{method: "PUT", path: "/allocations/" + consumer, body: fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":%d}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`, rp1, 1+worker%3)},
			{method: "POST", path: "/allocations", body: fmt.Sprintf(`{"%s":{"allocations":{"%s":{"resources":{"FPGA":1}}},"project_id":"p","user_id":"u","consumer_generation":1,"consumer_type":"T"}}`, consumer, rp2)},
			{method: "GET", path: "/allocation_candidates?resources=VCPU:1,FPGA:1"},
			{method: "DELETE", path: "/allocations/" + consumer},
			{method: "POST", path: "/resource_providers", body: `{"name":"` + host + `","uuid":"` + host + `","parent_provider_uuid":"` + rp1 + `"}`},
			{method: "PUT", path: "/resource_providers/" + host, body: `{"name":"` + host + `","parent_provider_uuid":null}`},
			{method: "DELETE", path: "/resource_providers/" + host},
		}
		for _, r := range requests {
			if got := send(t, s, "1.39", r.method, r.path, r.body); got.status >= 500 || got.status == http.StatusBadRequest {
				t.Errorf("%s %s: got %d %s", r.method, r.path, got.status, got.body)
			}
		}
	})
	used := make(map[string]int)
	for _, a := range s.Allocations() {
		used[a.Provider+a.Class] += a.Used
	}
	providers := s.ResourceProviders()
	if len(providers) != 2 {
		t.Errorf("%d providers remain, want 2", len(providers))
	}
	for _, p := range providers {
		for class, inventory := range p.Inventories {
			if got := s.Usage(p.UUID, class); got != used[p.UUID+class] || got > inventory.Total {
				t.Errorf("%s %s: used %d of %d, allocated %d", p.Name, class, got, inventory.Total, used[p.UUID+class])
			}
			delete(used, p.UUID+class)
		}
	}
	if len(used) > 0 {
		t.Errorf("allocations without inventory: %v", used)
	}
}

// Claims of a database without snapshot isolation do not see each other between check and write; the consumers' generations
// are still compared. In virtual time the statuses are the same in every run.
func TestOverlappingClaimsExceedAnInventoryUnderARuleOnly(t *testing.T) {
	t.Parallel()
	write := func(action fault.Action, when fault.When, delay time.Duration) []fault.Rule {
		return []fault.Rule{{Operation: fault.AllocationsWrite, Action: action, When: when, Delay: delay, Times: -1}}
	}
	tests := map[string]struct {
		rules    []fault.Rule
		apart    time.Duration // each claim after the one before
		post     bool
		consumer string // of all claims; empty: one each
		statuses []int
		used     int
	}{
		"strict":                      {nil, 0, false, "", []int{204, 204, 409, 409}, 2},
		"at once":                     {write(fault.Delay, "", time.Second), 0, false, "", []int{204, 204, 204, 204}, 4},
		"at once, POST":               {write(fault.Delay, "", time.Second), 0, true, "", []int{204, 204, 204, 204}, 4},
		"three of four overlap":       {write(fault.Delay, "", time.Second), 600 * time.Millisecond, false, "", []int{204, 204, 204, 409}, 3},
		"none overlap":                {write(fault.Delay, "", time.Second), 2 * time.Second, false, "", []int{204, 204, 409, 409}, 2},
		"the answers are late":        {write(fault.Delay, fault.After, time.Second), 0, false, "", []int{204, 204, 409, 409}, 2},
		"of one consumer":             {write(fault.Delay, "", time.Second), 0, false, con, []int{204, 409, 409, 409}, 1},
		"refused by the database":     {write(fault.Status, "", 0), 0, false, "", []int{500, 500, 500, 500}, 0},
		"refused once it was written": {write(fault.Status, fault.After, 0), 0, false, "", []int{409, 409, 500, 500}, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				faults := fault.NewSet(Operations()...)
				s := newServer(t, Config{}, WithFaults(faults))
				seed := []turn{
					{method: "POST", path: "/resource_providers", body: `{"name":"gpu","uuid":"` + rp1 + `"}`},
					{method: "PUT", path: "/resource_providers/" + rp1 + "/inventories", body: `{"resource_provider_generation":0,"inventories":{"PGPU":{"total":2}}}`},
				}
				for _, r := range seed {
					send(t, s, "1.39", r.method, r.path, r.body)
				}
				must(t, faults.Set(tt.rules...))
				statuses := make([]int, 4)
				var claims sync.WaitGroup
				for i := range statuses {
					claims.Go(func() {
						time.Sleep(time.Duration(i) * tt.apart)
						consumer := fmt.Sprintf("cccccccc-cccc-4ccc-8ccc-%012d", i)
						if tt.consumer != "" {
							consumer = tt.consumer
						}
						method, path := "PUT", "/allocations/"+consumer
						body := `{"allocations":{"` + rp1 + `":{"resources":{"PGPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`
						if tt.post {
							method, path, body = "POST", "/allocations", `{"`+consumer+`":`+body+`}`
						}
						statuses[i] = send(t, s, "1.39", method, path, body).status
					})
				}
				claims.Wait()
				if tt.apart == 0 {
					slices.Sort(statuses)
				}
				if diff := cmp.Diff(tt.statuses, statuses); diff != "" {
					t.Errorf("statuses (-want +got):\n%s", diff)
				}
				s.CheckUsage(t, rp1, "PGPU", tt.used)
			})
		})
	}
}

// A client that gives up does not take a claim back that is about to be written.
func TestAClaimIsWrittenAfterItsClientDisconnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet(Operations()...)
		s := seeded(t, Config{}, WithFaults(faults))
		must(t, faults.Set(fault.Rule{Operation: fault.AllocationsWrite, Action: fault.Delay, Delay: time.Minute}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://placement.example/allocations/"+con,
			strings.NewReader(`{"allocations":{"`+rp1+`":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null}`))
		must(t, err)
		r.Header = http.Header{"X-Auth-Token": {"admin"}, "Openstack-Api-Version": {"placement 1.28"}, "Content-Type": {"application/json"}}
		if _, err := simhttp.NewTransport(s).RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.CheckUsage(t, rp1, "VCPU", 0)
		time.Sleep(2 * time.Minute)
		s.CheckUsage(t, rp1, "VCPU", 1)
	})
}
