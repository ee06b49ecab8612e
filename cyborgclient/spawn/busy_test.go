package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// An operation on an instance waits for the running one. Called from a hook of that one, it would wait forever.
func TestOneOperationAtATime(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *site, spawn.Instance) error{
		"run": func(ctx context.Context, s *site, _ spawn.Instance) error {
			_, err := s.flow.Run(ctx, request("gpu"))
			return err
		},
		"release":         func(ctx context.Context, s *site, i spawn.Instance) error { return s.flow.Release(ctx, i.UUID) },
		"release devices": func(ctx context.Context, s *site, i spawn.Instance) error { return s.flow.ReleaseDevices(ctx, i.UUID) },
		"delete":          func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Delete(ctx, i) },
		"reboot":          func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, nil) },
	}
	for name, call := range calls {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := spawn.Instance{UUID: instance, Host: "cn0", Flavor: flavor("gpu")}
			req := request("gpu")
			var inside, late, other error
			var waited time.Duration
			done := make(chan struct{})
			req.Hooks.Prepare = func(ctx context.Context, _ *spawn.Attempt) error {
				inside = call(ctx, s, i)
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				late = call(short, s, i)
				go func() {
					began := time.Now()
					other = call(t.Context(), s, i)
					waited = time.Since(began)
					close(done)
				}()
				time.Sleep(time.Minute)
				return errHook
			}
			_, err := s.flow.Run(t.Context(), req)
			<-done
			if !errors.Is(inside, spawn.ErrBusy) || !errors.Is(late, spawn.ErrBusy) || !errors.Is(late, context.DeadlineExceeded) {
				t.Errorf("inside: %v; with a context that ends: %v; want ErrBusy", inside, late)
			}
			if !errors.Is(err, errHook) || errors.Is(other, spawn.ErrBusy) || waited < time.Minute {
				t.Errorf("the spawn: %v; another call waited %s: %v", err, waited, other)
			}
		})
	}
}

// Without a record the flow creates nothing. It still deletes by UUID what it knows from memory. The allocation stays
// and is named, because a late write could match the generation of the next consumer. Without the lock of the
// instance the flow sends no request.
func TestTheStoreOfJournalsFails(t *testing.T) {
	t.Parallel()
	failed := errors.New("no space left on device")
	for name, tt := range map[string]struct {
		fail      func(*journaltest.Shared)
		deletions int
		left      []spawn.LeftoverKind
	}{
		"the store fails":    {func(s *journaltest.Shared) { s.Fail(failed) }, 1, []spawn.LeftoverKind{spawn.LeftoverAllocation}},
		"the answer is lost": {func(s *journaltest.Shared) { s.FailAfter(failed) }, 1, []spawn.LeftoverKind{spawn.LeftoverAllocation}},
		"the right is lost":  {func(s *journaltest.Shared) { s.Lose(instance) }, 0, []spawn.LeftoverKind{spawn.LeftoverARQ, spawn.LeftoverAllocation}},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			shared := journaltest.NewShared(leaseTime)
			w.connect(t, w.cloud.Provider(t), spawn.WithJournal(shared.Agent("agent")))
			a := w.begin(t, instance)
			tt.fail(shared)
			w.cloud.ForgetRequests()
			err := walk(t.Context(), a.Match, a.Bind)
			if binds := w.count(fault.ARQBind); !errors.Is(err, spawn.ErrJournal) || binds > 0 {
				t.Errorf("got %v, %d binds, want ErrJournal and none", err, binds)
			}
			_, left := a.Unwind(t.Context())
			wantKinds(t, left, tt.left...)
			if deletions := w.count(fault.ARQDelete); deletions != tt.deletions {
				t.Errorf("%d deletions, want %d", deletions, tt.deletions)
			}
			for _, l := range left {
				if !errors.Is(l.Err, spawn.ErrJournal) {
					t.Errorf("%v, want ErrJournal", l)
				}
			}
			if puts := w.count(fault.AllocationsPut); puts > 0 {
				t.Errorf("the allocation was changed %d times", puts)
			}
			shared.Fail(nil)
			shared.FailAfter(nil)
			w.connect(t, w.cloud.Provider(t), spawn.WithJournal(shared.Agent("another")), spawn.WithConfig(alone))
			time.Sleep(leaseTime + time.Second)
			recovery, err := w.flow.Recover(t.Context())
			settled(t, err)
			operations, err := recovery.Wait(t.Context())
			settled(t, err)
			for _, o := range operations {
				left := slices.DeleteFunc(o.Leftovers, func(l spawn.Leftover) bool { return l.Kind == spawn.LeftoverCreate }) // its answer was not recorded
				if len(left) > 0 || o.Err != nil {
					t.Errorf("recovered: %+v", o)
				}
			}
			w.cloud.CheckNoLeaks(t)
		})
	}
}

// A spawn whose end could not be recorded fails, because the next process would undo it.
func TestTheEndOfASpawnIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		shared := journaltest.NewShared(leaseTime)
		w.connect(t, w.cloud.Provider(t), spawn.WithJournal(shared.Agent("agent")))
		a := w.begin(t, instance)
		settled(t, walk(t.Context(), a.Match, a.Bind, a.WaitBound))
		shared.Fail(errors.New("no space left on device"))
		if err := a.Compose(t.Context()); !errors.Is(err, spawn.ErrJournal) {
			t.Errorf("got %v, want ErrJournal", err)
		}
		shared.Fail(nil)
		unwindAll(t, a)
		w.cloud.CheckNoLeaks(t)
	})
}

// count returns how many requests of an operation the cloud has received.
func (w *world) count(operation sim.OperationName) (n int) {
	for _, r := range w.cloud.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// recordedStore collects the appended records.
type recordedStore struct {
	journal.Store
	records *bytes.Buffer
}

// Lock implements journal.Store.
func (s recordedStore) Lock(ctx context.Context, instance string) (journal.Journal, error) {
	j, err := s.Store.Lock(ctx, instance)
	return recordedJournal{j, s.records}, err
}

type recordedJournal struct {
	journal.Journal
	records *bytes.Buffer
}

// Append implements journal.Journal.
func (j recordedJournal) Append(ctx context.Context, record []byte) error {
	j.records.Write(record)
	return j.Journal.Append(ctx, record)
}

// A journal is a file on disk, so errors in it do not quote a token.
func TestTheJournalHasNoToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		var text bytes.Buffer
		service, err := w.cloud.ServiceToken(t.Context())
		settled(t, err)
		provider := w.cloud.Provider(t)
		next := provider.HTTPClient.Transport
		provider.HTTPClient.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet || !strings.Contains(req.URL.Path, "/accelerator/") {
				return next.RoundTrip(req)
			}
			return answer(req, http.StatusInternalServerError, fmt.Sprint(req.Header)), nil // as a debugging proxy
		})
		w.connect(t, provider, spawn.WithJournal(recordedStore{journal.NewMemory(), &text}))
		_, err = w.flow.Run(t.Context(), request("gpu"))
		if !errors.Is(err, cyborgclient.ErrReplyLost) {
			t.Errorf("got %v, want ErrReplyLost", err)
		}
		if text.Len() == 0 || strings.Contains(text.String(), service) || strings.Contains(text.String(), provider.Token()) {
			t.Errorf("the journal quotes a token, or nothing:\n%s", text.String())
		}
	})
}
