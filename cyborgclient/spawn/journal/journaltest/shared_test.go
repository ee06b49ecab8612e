package journaltest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

const leaseTime = 30 * time.Second

func TestSharedConforms(t *testing.T) {
	var shared *journaltest.Shared
	journaltest.Run(t, journaltest.Subject{
		Open: func(*testing.T) journal.Store {
			shared = journaltest.NewShared(leaseTime)
			return shared.Agent("first")
		},
		Restart: func(*testing.T, journal.Store) journal.Store {
			shared.Kill("first")
			return shared.Agent("first")
		},
		Join: func(*testing.T, journal.Store) journal.Store { return shared.Agent("second") },
		In:   synctest.Test,
	})
}

// shared has two agents; the first holds the journal of instance i with the record a.
type shared struct {
	*journaltest.Shared
	first, second journal.Store
	held          journal.Journal
	begun         time.Time
}

func inBubble(t *testing.T, test func(*testing.T, shared)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := shared{Shared: journaltest.NewShared(leaseTime), begun: time.Now()}
		s.first, s.second = s.Agent("first"), s.Agent("second")
		s.held = lock(t, s.first)
		add(t, s.held, "a")
		test(t, s)
	})
}

func lock(t *testing.T, store journal.Store) journal.Journal {
	t.Helper()
	j, err := store.Lock(t.Context(), "i")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func add(t *testing.T, j journal.Journal, record string) {
	t.Helper()
	if err := j.Append(t.Context(), []byte(record)); err != nil {
		t.Fatal(err)
	}
}

// found is what a holder sees, with times since the first Lock.
type found struct {
	Records   []string
	At        time.Duration
	Abandoned time.Duration // 0: it was not
}

func (s shared) found(j journal.Journal) found {
	f := found{At: time.Since(s.begun)}
	for _, r := range j.Records() {
		f.Records = append(f.Records, string(r))
	}
	if at := j.Abandoned(); !at.IsZero() {
		f.Abandoned = at.Sub(s.begun)
	}
	return f
}

// TestTakenOver shows when another agent gets a journal, and that the first one has lost it by then.
func TestTakenOver(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, s shared)
		want found
	}{
		{"released", func(_ *testing.T, s shared) { s.held.Release() }, found{[]string{"a"}, 0, 0}},
		{"killed", func(_ *testing.T, s shared) { s.Kill("first") }, found{[]string{"a"}, leaseTime, leaseTime}},
		{"killed and started again", func(_ *testing.T, s shared) {
			s.Kill("first")
			s.Agent("first")
		}, found{[]string{"a"}, leaseTime, leaseTime}},
		{"renewed and killed", func(t *testing.T, s shared) {
			time.Sleep(20 * time.Second)
			if err := s.held.Renew(t.Context()); err != nil {
				t.Error(err)
			}
			s.Kill("first")
		}, found{[]string{"a"}, 20*time.Second + leaseTime, 20*time.Second + leaseTime}},
		{"renewed while another waits", func(t *testing.T, s shared) {
			go func() {
				time.Sleep(20 * time.Second)
				if err := s.held.Renew(t.Context()); err != nil {
					t.Error(err)
				}
			}()
		}, found{[]string{"a"}, 20*time.Second + leaseTime, 20*time.Second + leaseTime}},
		{"lost", func(_ *testing.T, s shared) {
			time.Sleep(time.Second)
			s.Lose("i")
		}, found{[]string{"a"}, time.Second, time.Second}},
		{"released without a connection", func(_ *testing.T, s shared) {
			s.Fail(errors.New("no route to host"), "first")
			s.held.Release()
		}, found{[]string{"a"}, leaseTime, leaseTime}},
		{"cleared and killed", func(t *testing.T, s shared) {
			if err := s.held.Clear(t.Context()); err != nil {
				t.Error(err)
			}
			s.Kill("first")
		}, found{nil, leaseTime, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s shared) {
				c.end(t, s)
				next := lock(t, s.second)
				if diff := cmp.Diff(c.want, s.found(next)); diff != "" {
					t.Errorf("the second agent finds (-want +got):\n%s", diff)
				}
				if err := s.held.Append(t.Context(), []byte("late")); err == nil {
					t.Error("the first agent added a record")
				}
				s.held.Release() // not the right of the second
				add(t, next, "b")
			})
		})
	}
}

// TestUntilIsTheHolders shows that a holder sees the end of its right before the store ends it, and learns of an
// earlier end from its next call.
func TestUntilIsTheHolders(t *testing.T) {
	inBubble(t, func(t *testing.T, s shared) {
		s.Lose("i")
		if want := s.begun.Add(leaseTime); !s.held.Until().Equal(want) {
			t.Errorf("Until: %v, want %v", s.held.Until(), want)
		}
		if err := s.held.Renew(t.Context()); !errors.Is(err, journal.ErrLost) {
			t.Errorf("Renew: %v, want ErrLost", err)
		}
	})
}

// TestKilledWhileWaiting ends the Lock of a killed agent.
func TestKilledWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, s shared) {
		result := make(chan error)
		go func() {
			_, err := s.second.Lock(t.Context(), "i")
			result <- err
		}()
		synctest.Wait()
		s.Kill("second")
		if err := <-result; err == nil || time.Since(s.begun) != 0 {
			t.Errorf("got %v after %v, want an error at once", err, time.Since(s.begun))
		}
		if _, err := s.second.Unfinished(t.Context()); err == nil {
			t.Error("Unfinished of a killed agent succeeds")
		}
	})
}

// TestFailing shows what calls do whose request or answer is lost.
func TestFailing(t *testing.T) {
	lost := errors.New("connection reset")
	calls := map[string]func(context.Context, shared) error{
		"Lock": func(ctx context.Context, s shared) error {
			_, err := s.first.Lock(ctx, "j")
			return err
		},
		"Unfinished": func(ctx context.Context, s shared) error {
			_, err := s.first.Unfinished(ctx)
			return err
		},
		"Append": func(ctx context.Context, s shared) error { return s.held.Append(ctx, []byte("b")) },
		"Clear":  func(ctx context.Context, s shared) error { return s.held.Clear(ctx) },
		"Renew":  func(ctx context.Context, s shared) error { return s.held.Renew(ctx) },
	}
	for _, c := range []struct {
		name string
		fail func(s shared, err error)
		want map[string][]string // records afterwards
	}{
		{"before", func(s shared, err error) { s.Fail(err) }, map[string][]string{"Append": {"a"}, "Clear": {"a"}}},
		{"after, of one agent", func(s shared, err error) { s.FailAfter(err, "first") }, map[string][]string{"Append": {"a", "b"}, "Clear": nil}},
	} {
		for name, call := range calls {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s shared) {
					c.fail(s, lost)
					if err := call(t.Context(), s); !errors.Is(err, lost) {
						t.Errorf("got %v, want %v", err, lost)
					}
					c.fail(s, nil)
					s.held.Release()
					got := s.found(lock(t, s.second)).Records
					want, ok := c.want[name]
					if !ok {
						want = []string{"a"}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("records (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}
