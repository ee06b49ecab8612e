package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

var errKilled = errors.New("the agent was killed")

// Shared is a store that several agents use, each through its own view, like a server on the network. A right is a
// lease: it ends after a time unless it is renewed. The holder of an expired lease cannot change the journal.
type Shared struct {
	lease time.Duration

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when a right or an agent ends
	journals map[string]*sharedJournal
	agents   []*agent
}

// sharedJournal is the journal of an instance. The pointer to the lease of its holder is its fencing token.
type sharedJournal struct {
	records   [][]byte
	holder    *lease
	abandoned time.Time
}

// lease is a right, until a time. It is released if no journal has it as its holder.
type lease struct{ until time.Time }

// NewShared returns an empty store whose rights last for lease unless they are renewed.
func NewShared(lease time.Duration) *Shared {
	return &Shared{lease: lease, changed: make(chan struct{}), journals: make(map[string]*sharedJournal)}
}

// Agent returns the store as a new process of the agent sees it.
func (s *Shared) Agent(name string) journal.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &agent{shared: s, name: name}
	s.agents = append(s.agents, a)
	return a
}

// Kill ends the processes of an agent: every store that [Shared.Agent] has returned for the name until now fails.
// Their leases expire by themselves.
func (s *Shared) Kill(name string) {
	s.each([]string{name}, func(a *agent) { a.killed = errKilled })
}

// Fail makes calls fail with err and without effect, until it is called with nil. It applies to the current processes of
// the named agents, or of all.
func (s *Shared) Fail(err error, agents ...string) {
	s.each(agents, func(a *agent) { a.unsent = err })
}

// FailAfter makes calls fail with err after their effect, as if the response was lost, until it is called with nil. A
// Lock does not wait in this case. It applies to the current processes of the named agents, or of all.
func (s *Shared) FailAfter(err error, agents ...string) {
	s.each(agents, func(a *agent) { a.unanswered = err })
}

func (s *Shared) each(names []string, do func(*agent)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		if len(names) == 0 || slices.Contains(names, a.name) {
			do(a)
		}
	}
	s.wake()
}

// Lose ends the right to the journal of an instance now. Its holder gets ErrLost from its next call.
func (s *Shared) Lose(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.journals[instance]; j != nil && j.holder != nil && time.Now().Before(j.holder.until) {
		j.holder.until = time.Now()
		s.wake()
	}
}

// wake wakes waiting callers. It is called with the store locked.
func (s *Shared) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// take gives the right to a journal, or returns when the current one ends. It is called with the store locked.
func (s *Shared) take(instance string) (held *lease, busy time.Time) {
	j := s.journals[instance]
	if j == nil {
		j = &sharedJournal{}
		s.journals[instance] = j
	}
	if j.holder != nil {
		if time.Now().Before(j.holder.until) {
			return nil, j.holder.until
		}
		if len(j.records) > 0 {
			j.abandoned = j.holder.until
		}
	}
	j.holder = &lease{time.Now().Add(s.lease)}
	return j.holder, time.Time{}
}

// agent is a process that uses a shared store. Its calls return its errors.
type agent struct {
	shared                     *Shared
	name                       string
	killed, unsent, unanswered error
}

// call runs do with the store locked.
func (a *agent) call(ctx context.Context, name string, do func() error) error {
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	for _, err := range []error{ctx.Err(), a.killed, a.unsent} {
		if err != nil {
			return fmt.Errorf("journal: %s, agent %s: %w", name, a.name, err)
		}
	}
	err := do()
	if err == nil {
		err = a.unanswered
	}
	if err != nil {
		return fmt.Errorf("journal: %s, agent %s: %w", name, a.name, err)
	}
	return nil
}

func (a *agent) Lock(ctx context.Context, instance string) (journal.Journal, error) {
	for {
		var j *agentJournal
		var busy time.Time
		var changed chan struct{}
		err := a.call(ctx, "lock instance "+instance, func() error {
			var held *lease
			if held, busy = a.shared.take(instance); held != nil {
				found := a.shared.journals[instance]
				j = &agentJournal{
					agent: a, instance: instance, held: held, until: held.until,
					records: slices.Clone(found.records), abandoned: found.abandoned,
				}
			}
			changed = a.shared.changed
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case j != nil:
			return j, nil
		}
		end := time.NewTimer(time.Until(busy))
		select {
		case <-end.C:
		case <-changed:
		case <-ctx.Done():
		}
		end.Stop()
	}
}

func (a *agent) Unfinished(ctx context.Context) (instances []string, err error) {
	err = a.call(ctx, "unfinished", func() error {
		for instance, j := range a.shared.journals {
			if len(j.records) > 0 && (j.holder == nil || !time.Now().Before(j.holder.until)) {
				instances = append(instances, instance)
			}
		}
		slices.Sort(instances)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return instances, nil
}

type agentJournal struct {
	agent     *agent
	instance  string
	held      *lease
	records   [][]byte
	abandoned time.Time

	mu    sync.Mutex
	until time.Time // as far as the agent knows
}

func (j *agentJournal) Records() [][]byte    { return j.records }
func (j *agentJournal) Abandoned() time.Time { return j.abandoned }

func (j *agentJournal) Until() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.until
}

// call runs do on the journal, if the right to it has not ended.
func (j *agentJournal) call(ctx context.Context, name string, do func(*sharedJournal)) error {
	return j.agent.call(ctx, name+", instance "+j.instance, func() error {
		found := j.agent.shared.journals[j.instance]
		if found == nil || found.holder != j.held || !time.Now().Before(j.held.until) {
			return journal.ErrLost
		}
		do(found)
		return nil
	})
}

func (j *agentJournal) Append(ctx context.Context, record []byte) error {
	return j.call(ctx, "append", func(found *sharedJournal) {
		found.records = append(found.records, append([]byte{}, record...))
	})
}

func (j *agentJournal) Clear(ctx context.Context) error {
	return j.call(ctx, "clear", func(found *sharedJournal) { found.records, found.abandoned = nil, time.Time{} })
}

func (j *agentJournal) Renew(ctx context.Context) error {
	until := time.Now().Add(j.agent.shared.lease)
	err := j.call(ctx, "renew", func(*sharedJournal) { j.held.until = until })
	if err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.until = until
	}
	return err
}

// Release leaves the right to run out by itself if the call fails.
func (j *agentJournal) Release() {
	_ = j.call(context.Background(), "release", func(found *sharedJournal) {
		found.holder = nil
		if len(found.records) == 0 {
			delete(j.agent.shared.journals, j.instance)
		}
		j.agent.shared.wake()
	})
}
