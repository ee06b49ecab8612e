package ledger_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// world is Placement, with one consumer: the obvious model. It knows what other clients have written for the consumer.
type world struct {
	held       placement.Resources
	generation *int
	others     placement.Resources
	late       []placement.Allocation // requests of ours that will arrive
}

// put replaces the allocation, as Placement does: it compares the generations, and a consumer without resources is deleted.
func (w *world) put(change placement.Allocation) error {
	if (w.generation == nil) != (change.Generation == nil) || w.generation != nil && *w.generation != *change.Generation {
		return refused()
	}
	w.held = placement.Clone(change.Resources)
	next := 1
	if w.generation != nil {
		next = *w.generation + 1
	}
	if w.generation = &next; len(w.held) == 0 {
		w.generation = nil
	}
	return nil
}

// read returns the allocation.
func (w *world) read() placement.Allocation {
	return placement.Allocation{Resources: placement.Clone(w.held), Generation: w.generation}
}

// otherPut is a write of another client, which keeps what it has read.
func (w *world) otherPut(added placement.Resources) {
	w.others = placement.Add(w.others, added)
	_ = w.put(placement.Allocation{Resources: placement.Add(w.held, added), Generation: w.generation})
}

// otherReplace deletes the consumer and creates it on another host. What is under way is for a consumer that no longer exists.
func (w *world) otherReplace() {
	w.others, w.late = on("elsewhere", 1), nil
	w.generation = nil
	_ = w.put(placement.Allocation{Resources: w.others})
}

// arrive applies the late requests.
func (w *world) arrive() {
	for _, change := range w.late {
		_ = w.put(change)
	}
	w.late = nil
}

// request sends a change of ours as the draw says.
func (w *world) request(change placement.Allocation, fate string) error {
	switch fate {
	case "applied":
		return w.put(change)
	case "applied, reply lost":
		_ = w.put(change)
	case "late":
		w.late = append(w.late, change)
	case "refused":
		return refused()
	}
	return lost()
}

// release is the rule by which the flow releases a claim.
func release(ctx context.Context, w *world, j *ledger.Journal, e *ledger.Effect, fate func() string) {
	held := w.read()
	shown, rest := e.In(held)
	if shown == ledger.Present {
		j.Seen(e, held)
	}
	next := ledger.Undone
	switch {
	case shown == ledger.Absent:
		j.Settle(e, ledger.Undone, nil)
		return
	case shown == ledger.Others:
		j.Settle(e, ledger.Foreign, errRemote)
		return
	case shown == ledger.Awaited && len(held.Resources) == 0:
		j.Settle(e, ledger.Unknown, nil)
		return
	case shown == ledger.Awaited && len(rest) == 0:
		next = ledger.Unknown
	case e.State == ledger.Undoing && time.Since(e.Changed()) < ledger.LateWindow:
		return
	}
	j.Release(ctx, e, held.Generation, next, func(context.Context) error {
		return w.request(placement.Allocation{Resources: rest, Generation: held.Generation}, fate())
	})
}

// Claims with lost replies, late arrivals and other clients' writes: an undoing never takes what another client has written, and what
// may be ours and remains is named.
func TestUndoingClaimsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := script(rapid.SliceOfN(rapid.IntRange(0, 11), 0, 60).Draw(rt, "script"))
		var problem string
		synctest.Test(t, func(*testing.T) { problem = undoClaims(&s) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// script is what happens: each choice takes the next number.
type script []int

func (s *script) choose(n int) int {
	if len(*s) == 0 {
		return 0
	}
	next := (*s)[0]
	*s = (*s)[1:]
	return next % n
}

func (s *script) fate() string {
	return []string{"applied", "applied", "applied, reply lost", "lost", "late", "refused"}[s.choose(6)]
}

// undoClaims runs a script and says what is wrong.
func undoClaims(s *script) string {
	w := &world{held: placement.Resources{}, others: placement.Resources{}}
	if s.choose(2) == 1 {
		_ = w.put(placement.Allocation{Resources: on("node", 2)})
		w.others = on("node", 2)
	}
	port := func() {
		if len(w.held) > 0 {
			w.otherPut(on("nic", 1))
		}
	}
	j, err := ledger.NewBook(nil, nil).Open(context.Background(), "i")
	if err != nil {
		return err.Error()
	}
	defer j.End()
	e := newClaim()
	e.Amount.Before = maps.Clone(w.held)
	for range 1 + s.choose(3) {
		held := w.read()
		added := on([]string{"a", "b", "node"}[s.choose(3)], 1+s.choose(2))
		wanted := placement.Add(e.Amount.Before, added)
		if held.Generation != nil && len(e.Amount.Added) > 0 { // the next host: the flow reads whether the claim is still its own
			if shown, rest := e.In(held); shown != ledger.Present || !placement.Equal(rest, e.Amount.Before) {
				break
			}
		} else if !placement.Equal(held.Resources, e.Amount.Before) {
			break
		}
		fate := s.fate()
		err := j.Claim(context.Background(), e, added, held.Generation, func(context.Context) error {
			return w.request(placement.Allocation{Resources: wanted, Generation: held.Generation}, fate)
		})
		if s.choose(4) == 1 {
			port()
		}
		if err != nil && !placement.Refused(err) {
			break
		}
	}
	if s.choose(10) == 1 && len(w.held) > 0 {
		w.otherReplace()
	}
	ctx := context.Background()
	u := newUnwinding(j, succeeds)
	u.fake.undo = func(ctx context.Context, effects []*ledger.Effect) {
		switch s.choose(8) {
		case 1:
			w.arrive()
		case 2:
			port()
		}
		for _, e := range effects {
			release(ctx, w, j, e, s.fate)
		}
	}
	u.fake.look = func(e *ledger.Effect) (bool, error) {
		shown, _ := e.In(w.read())
		return shown == ledger.Present, nil
	}
	j.Undo(ctx, u.Unwinding)
	w.arrive()
	switch {
	case !placement.Contains(w.held, w.others):
		return fmt.Sprintf("the claim is %s: %v is held, and other clients have %v", e.State, w.held, w.others)
	case !e.Pending() && !placement.Equal(w.held, w.others):
		return fmt.Sprintf("the claim is %s: %v is held, and other clients have only %v", e.State, w.held, w.others)
	}
	return ""
}
