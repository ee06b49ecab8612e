package engine

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/internal/collation"
)

// Large searches take turns, small ones and writes in between do not wait for their memory.
func TestLargeSearchesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, collation.Exact, start())
		for i := range 30 {
			name, parent := fmt.Sprint("p", i), ""
			if i > 0 {
				parent = "p0"
			}
			must(t, created(s.CreateProvider(NewProvider{UUID: name, Name: name, Parent: parent}, start())))
			must(t, created(s.SetInventories(name, nil, map[string]Inventory{"VCPU": {Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, AllocationRatio: 1}}, InventoryWrite{})))
		}
		search := func(groups int) int {
			var q CandidateQuery
			for i := range groups {
				q.Groups = append(q.Groups, Group{Suffix: fmt.Sprint("_", i), Resources: []ClassAmount{{Class: "VCPU", Amount: 1}}})
			}
			answer, err := s.Answer(q)
			if err != nil {
				t.Error(err)
			}
			return len(answer.Requests)
		}
		for range largeSearches {
			s.large <- struct{}{} // as large searches do
		}
		done := make(chan int, 1)
		go func() { done <- search(3) }()
		synctest.Wait()
		if found := search(2); found != 900 {
			t.Errorf("a small search found %d candidates, want 900", found)
		}
		select {
		case <-done:
			t.Fatal("a large search did not wait")
		default:
		}
		<-s.large
		if found := <-done; found != 27_000 {
			t.Errorf("a large search found %d candidates, want 27000", found)
		}
		if len(s.large) != largeSearches-1 {
			t.Errorf("%d turns are taken after the search, want %d", len(s.large), largeSearches-1)
		}
	})
}
