package ledger_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

var (
	errStore  = errors.New("the disk is full")
	errRemote = errors.New("no answer")
)

// on is an amount of one resource of a provider.
func on(provider string, amount int) placement.Resources {
	return placement.Resources{provider: {"VCPU": amount}}
}

func at(generation int) *int { return &generation }

func open(t testing.TB, b *ledger.Book, instance string) *ledger.Journal {
	t.Helper()
	j, err := b.Open(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func newClaim() *ledger.Effect {
	return &ledger.Effect{Kind: ledger.Claim, ID: "i", Amount: &ledger.Amount{Project: "p", User: "u"}}
}

func newARQ(id string) *ledger.Effect {
	return &ledger.Effect{Kind: ledger.ARQ, ID: id, ARQ: &cyborgclient.ARQ{UUID: id}}
}

func newGuest(holds ...int) *ledger.Effect {
	return &ledger.Effect{Kind: ledger.Guest, ID: "i", Host: "h", Holds: holds}
}

func newCreate() *ledger.Effect {
	return &ledger.Effect{Kind: ledger.Create, ID: "profile", Origin: &ledger.Origin{Project: "p", Missing: 1}}
}

func newMdev(id string, holds ...int) *ledger.Effect {
	return &ledger.Effect{Kind: ledger.Mdev, ID: id, ARQ: &cyborgclient.ARQ{UUID: id}, Holds: holds}
}

// answers returns what a request returns.
func answers(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// removes returns the answer to a removal: the errors of those that remain.
func removes(failed map[*ledger.Effect]error) func(context.Context) map[*ledger.Effect]error {
	return func(context.Context) map[*ledger.Effect]error { return failed }
}

func lost() error { return &placement.Error{Status: 500} }

func refused() error { return &placement.Error{Status: 409} }

// row has the fields of an effect that a test compares.
type row struct {
	Kind  ledger.Kind
	ID    string
	State ledger.State
}

func rows(effects []*ledger.Effect) []row {
	list := []row{}
	for _, e := range effects {
		list = append(list, row{e.Kind, e.ID, e.State})
	}
	return list
}

func check[T any](t testing.TB, what string, got, want T, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateErrors(), cmpopts.EquateEmpty())...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// bubble runs one case in virtual time.
func bubble(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, run)
	})
}

// restart returns what a new process reads of an instance: its journal, and the book.
func restart(t testing.TB, store journal.Store) (*ledger.Book, *ledger.Journal) {
	t.Helper()
	b := ledger.NewBook(nil, store)
	return b, open(t, b, "i")
}

// fakeUndoer removes effects with its functions, or at once without them.
type fakeUndoer struct {
	undo func(ctx context.Context, effects []*ledger.Effect)
	look func(e *ledger.Effect) (bool, error)
}

func (u fakeUndoer) Undo(ctx context.Context, effects []*ledger.Effect) { u.undo(ctx, effects) }

func (u fakeUndoer) Look(_ context.Context, e *ledger.Effect) (bool, error) {
	if u.look == nil {
		return false, nil
	}
	return u.look(e)
}

// unwinding is an Unwinding that uses one function for all kinds, and notes what happens.
type unwinding struct {
	ledger.Unwinding
	fake   *fakeUndoer
	calls  [][]string
	kinds  []ledger.Kind
	pauses []time.Duration
	errs   []error
}

func newUnwinding(j *ledger.Journal, answer func(e *ledger.Effect) error) *unwinding {
	u := &unwinding{fake: &fakeUndoer{}}
	u.Undoers = map[ledger.Kind]ledger.Undoer{}
	u.fake.undo = func(ctx context.Context, effects []*ledger.Effect) {
		var ids []string
		for _, e := range effects {
			ids = append(ids, string(e.Kind)+" "+e.ID)
		}
		u.calls = append(u.calls, ids)
		j.Remove(ctx, slices.Clone(effects), func(context.Context) map[*ledger.Effect]error {
			failed := map[*ledger.Effect]error{}
			for _, e := range effects {
				failed[e] = answer(e)
			}
			return failed
		})
	}
	for _, kind := range []ledger.Kind{
		ledger.Claim, ledger.Part, ledger.Consumer, ledger.Create, ledger.ARQ, ledger.Listed, ledger.Binding, ledger.Mdev, ledger.NovaMdev, ledger.Guest, ledger.Program, ledger.Power,
	} {
		u.Undoers[kind] = u.fake
	}
	u.Patience, u.Limit = 20*time.Second, 7*time.Second
	u.Begin = func(kind ledger.Kind) { u.kinds = append(u.kinds, kind) }
	u.Pause = func(pause time.Duration, err error) { u.pauses, u.errs = append(u.pauses, pause), append(u.errs, err) }
	return u
}

// ignoreLate ignores fields that only the package reads.
var ignoreLate = cmpopts.IgnoreUnexported(ledger.Amount{}, ledger.Effect{})

// departures are the ways in which a function does not return.
func departures() map[string]func() {
	return map[string]func(){"panic": func() { panic("callback") }, "Goexit": runtime.Goexit}
}

// depart runs a function that does not return, and checks that the panic or Goexit continues.
func depart(t *testing.T, way string, run func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if recovered := recover(); returned || way == "panic" && recovered != "callback" {
				t.Errorf("%s: returned %t, recovered %v", way, returned, recovered)
			}
		}()
		run()
		returned = true
	}()
	<-done
}
