package placementsim

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("%d providers are left, want 2", len(providers))
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
