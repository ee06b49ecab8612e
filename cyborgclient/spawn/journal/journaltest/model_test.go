package journaltest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal/journaltest"
)

// TestSharedModel compares random operations of three agents with a list of all that has happened.
func TestSharedModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(t *rapid.T) { newModel(t).run(t) })
	})
}

// noDeadline hides the Deadline of a test, which panics in a bubble.
type noDeadline struct{ testing.TB }

var (
	errRequest = errors.New("request lost")
	errAnswer  = errors.New("answer lost")
)

// happening is one thing that happened to a journal.
type happening struct {
	at       time.Time
	instance string
	what     string // locked, renewed, released, lost, appended, cleared
	holder   int    // the number of a Lock, 0 if it does not matter
	record   string
	until    time.Time // of locked and renewed
}

// model is a history. All that a store shows is computed from it.
type model struct {
	shared  *journaltest.Shared
	agents  map[string]journal.Store
	failing map[string]error // what the calls of an agent fail with
	held    []holder
	history []happening
	locks   int
}

// holder is a Journal that a Lock returned, and what the model knows of it.
type holder struct {
	journal.Journal
	agent, instance string
	number          int
	dead            bool
}

func newModel(*rapid.T) *model {
	m := &model{shared: journaltest.NewShared(leaseTime), agents: make(map[string]journal.Store), failing: make(map[string]error)}
	for _, name := range []string{"a", "b", "c"} {
		m.agents[name] = m.shared.Agent(name)
	}
	return m
}

func (m *model) run(t *rapid.T) {
	t.Repeat(map[string]func(*rapid.T){
		"lock":    m.lock,
		"append":  func(t *rapid.T) { m.change(t, "appended") },
		"clear":   func(t *rapid.T) { m.change(t, "cleared") },
		"renew":   func(t *rapid.T) { m.change(t, "renewed") },
		"release": m.release,
		"sleep": func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds"))*time.Second + time.Millisecond)
		},
		"kill": m.kill,
		"lose": func(t *rapid.T) {
			instance := drawInstance(t)
			m.shared.Lose(instance)
			if now := m.state(instance); now.holder != 0 {
				m.add(happening{instance: instance, what: "lost", holder: now.holder})
			}
		},
		"fail": m.fail,
		"":     m.check,
	})
}

func drawInstance(t *rapid.T) string {
	return rapid.SampledFrom([]string{"i", "j"}).Draw(t, "instance")
}

func drawAgent(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "agent")
}

func (m *model) add(h happening) {
	h.at = time.Now()
	m.history = append(m.history, h)
}

// state is what a journal is after a history.
type state struct {
	holder    int // 0: it is free
	until     time.Time
	records   []string
	abandoned time.Time
}

// state goes through the history of an instance until now.
func (m *model) state(instance string) state {
	var s state
	expire := func(now time.Time) {
		if s.holder != 0 && !now.Before(s.until) {
			s.holder = 0
			if len(s.records) > 0 {
				s.abandoned = s.until
			}
		}
	}
	for _, h := range m.history {
		if h.instance != instance {
			continue
		}
		expire(h.at)
		switch h.what {
		case "locked":
			s.holder, s.until = h.holder, h.until
		case "renewed":
			s.until = h.until
		case "released":
			s.holder = 0
		case "lost":
			s.until = h.at
		case "appended":
			s.records = append(s.records, h.record)
		case "cleared":
			s.records, s.abandoned = nil, time.Time{}
		}
	}
	expire(time.Now())
	return s
}

func (m *model) lock(t *rapid.T) {
	name, instance := drawAgent(t), drawInstance(t)
	patience := time.Duration(rapid.IntRange(1, 40).Draw(t, "patience")) * time.Second
	before, begun := m.state(instance), time.Now()
	if before.until.Sub(begun) == patience {
		patience++ // which of two things at one time comes first is not defined
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := m.agents[name].Lock(ctx, instance)
	var want error
	var wait time.Duration
	switch fails := m.failing[name]; {
	case before.holder == 0 || fails != nil:
		want = fails
	case before.until.Sub(begun) >= patience:
		wait, want = patience, context.DeadlineExceeded
	default:
		wait = before.until.Sub(begun)
	}
	if !errors.Is(err, want) || (err == nil) != (want == nil) || time.Since(begun) != wait {
		t.Fatalf("Lock: %v after %v, want %v after %v", err, time.Since(begun), want, wait)
	}
	if want != nil && (before.holder != 0 || !errors.Is(want, errAnswer)) {
		return
	}
	m.locks++
	now := m.state(instance)
	m.add(happening{instance: instance, what: "locked", holder: m.locks, until: time.Now().Add(leaseTime)})
	if err != nil {
		return
	}
	if diff := cmp.Diff(now.records, strings(j.Records())); diff != "" {
		t.Fatalf("records (-want +got):\n%s", diff)
	}
	if !j.Abandoned().Equal(now.abandoned) || !j.Until().Equal(time.Now().Add(leaseTime)) {
		t.Fatalf("abandoned %v until %v, want %v until %v", j.Abandoned(), j.Until(), now.abandoned, time.Now().Add(leaseTime))
	}
	m.held = append(m.held, holder{j, name, instance, m.locks, false})
}

func strings(records [][]byte) (list []string) {
	for _, r := range records {
		list = append(list, string(r))
	}
	return list
}

// drawHolder returns any that there was, those that have lost their right too.
func (m *model) drawHolder(t *rapid.T) holder {
	if len(m.held) == 0 {
		t.Skip("no holder")
	}
	return m.held[rapid.IntRange(0, len(m.held)-1).Draw(t, "holder")]
}

// change calls Append, Clear or Renew.
func (m *model) change(t *rapid.T, what string) {
	h := m.drawHolder(t)
	record := fmt.Sprint(len(m.history))
	before := m.state(h.instance)
	var err error
	switch what {
	case "appended":
		err = h.Append(t.Context(), []byte(record))
	case "cleared":
		err = h.Clear(t.Context())
	case "renewed":
		err = h.Renew(t.Context())
	}
	fails := m.failing[h.agent]
	switch {
	case h.dead:
		if err == nil {
			t.Fatalf("%s by a dead agent", what)
		}
		return
	case errors.Is(fails, errRequest):
		if !errors.Is(err, errRequest) {
			t.Fatalf("%s: %v, want %v", what, err, errRequest)
		}
		return
	case before.holder != h.number:
		if !errors.Is(err, journal.ErrLost) {
			t.Fatalf("%s: %v, want ErrLost", what, err)
		}
		return
	case !errors.Is(err, fails) || (err == nil) != (fails == nil):
		t.Fatalf("%s: %v, want %v", what, err, fails)
	}
	m.add(happening{instance: h.instance, what: what, record: record, until: time.Now().Add(leaseTime)})
}

func (m *model) release(t *rapid.T) {
	h := m.drawHolder(t)
	h.Release()
	if m.state(h.instance).holder == h.number && !h.dead && !errors.Is(m.failing[h.agent], errRequest) {
		m.add(happening{instance: h.instance, what: "released"})
	}
}

func (m *model) kill(t *rapid.T) {
	name := drawAgent(t)
	m.shared.Kill(name)
	if _, err := m.agents[name].Unfinished(t.Context()); err == nil {
		t.Fatal("a killed agent lists journals")
	}
	m.agents[name] = m.shared.Agent(name)
	delete(m.failing, name)
	for i := range m.held {
		m.held[i].dead = m.held[i].dead || m.held[i].agent == name
	}
}

func (m *model) fail(t *rapid.T) {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID[string]).Draw(t, "agents")
	err := rapid.SampledFrom([]error{nil, nil, errRequest, errAnswer}).Draw(t, "error")
	var before, after error
	switch {
	case errors.Is(err, errRequest):
		before = err
	case errors.Is(err, errAnswer):
		after = err
	}
	m.shared.Fail(before, names...)
	m.shared.FailAfter(after, names...)
	for name := range m.agents {
		if len(names) == 0 || slices.Contains(names, name) {
			m.failing[name] = err
		}
	}
}

// check compares Unfinished.
func (m *model) check(t *rapid.T) {
	var want []string
	for _, instance := range []string{"i", "j"} {
		if s := m.state(instance); s.holder == 0 && len(s.records) > 0 {
			want = append(want, instance)
		}
	}
	for name, store := range m.agents {
		got, err := store.Unfinished(t.Context())
		if fails := m.failing[name]; fails != nil {
			if !errors.Is(err, fails) {
				t.Fatalf("Unfinished: %v, want %v", err, fails)
			}
			continue
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Unfinished: %q, %v, want %q", got, err, want)
		}
	}
}
