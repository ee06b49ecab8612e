package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

// ErrStore is matched by errors of the store of journals. No new request is sent after such an error.
var ErrStore = errors.New("the journal of the operation failed")

// record is one entry of a stored journal. It contains the effects that changed since the previous entry.
type record struct {
	Effects []*Effect `json:"effects,omitempty"`
	Mark    Mark      `json:"mark,omitempty"`
}

// Mark is a point that an operation has reached.
type Mark string

// The marks.
const (
	Committed  Mark = "committed"   // its effects belong to the instance
	HandedOver Mark = "handed over" // another process continues it
	Ended      Mark = "ended"       // the effects of this record remain, or may appear
)

// MarshalText returns the name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a state.
func (s *State) UnmarshalText(text []byte) error {
	for state := Sent; state <= Undone; state++ {
		if state.String() == string(text) {
			*s = state
			return nil
		}
	}
	return fmt.Errorf("unknown state %q", text)
}

// storedEffect is an effect in JSON.
type storedEffect struct {
	plainEffect
	Err     string    `json:"error,omitempty"`
	Changed time.Time `json:"changed"`
	Late    *int      `json:"late,omitempty"`
}

type plainEffect Effect // without methods

// MarshalJSON writes what UnmarshalJSON reads.
func (e *Effect) MarshalJSON() ([]byte, error) {
	stored := storedEffect{plainEffect: plainEffect(*e), Changed: e.changed}
	if e.Err != nil {
		stored.Err = e.Err.Error()
	}
	if e.Amount != nil {
		stored.Late = e.Amount.late
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads an effect of an earlier process.
func (e *Effect) UnmarshalJSON(data []byte) error {
	var stored storedEffect
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*e = Effect(stored.plainEffect)
	e.changed = stored.Changed
	if stored.Err != "" {
		e.Err = errors.New(stored.Err)
	}
	if e.Amount != nil {
		e.Amount.late = stored.Late
	}
	return e.check()
}

// check rejects an effect that no operation writes.
func (e *Effect) check() error {
	var isAmount, isARQ, isCreate bool
	switch e.Kind {
	case Claim, Part, Consumer:
		isAmount = true
	case ARQ, Mdev:
		isARQ = true
	case Create:
		isCreate = true
	case Listed, Binding, NovaMdev, Guest, Program, Power:
	default:
		return fmt.Errorf("effect %d is of the unknown kind %q", e.Seq, e.Kind)
	}
	switch {
	case e.Seq < 1, e.State == none, isAmount != (e.Amount != nil), isARQ != (e.ARQ != nil), isCreate != (e.Origin != nil):
		return fmt.Errorf("effect %d of kind %q in state %q is incomplete", e.Seq, e.Kind, e.State)
	case e.Guard > Unbound:
		return fmt.Errorf("effect %d has the unknown guard %d", e.Seq, e.Guard)
	}
	return nil
}

// check rejects a record that no operation writes.
func (r *record) check() error {
	switch r.Mark {
	case "", Committed, HandedOver, Ended:
	default:
		return fmt.Errorf("unknown mark %q", r.Mark)
	}
	if slices.Contains(r.Effects, nil) {
		return errors.New("an effect is null")
	}
	return nil
}

// write appends the changed effects to the stored journal. It continues when the caller's context ends.
func (j *Journal) write(ctx context.Context, mark Mark) error {
	return j.writeBefore(ctx, mark, defaultLimit)
}

// writeBefore is write before a request that takes up to limit. If the lock could expire during the request, it is
// renewed first.
func (j *Journal) writeBefore(ctx context.Context, mark Mark, limit time.Duration) error {
	if j.stored == nil {
		return nil
	}
	data, err := j.encode(mark)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultLimit)
	defer cancel()
	if until := j.stored.Until(); !until.IsZero() && time.Until(until) < defaultLimit+limit {
		err = j.stored.Renew(ctx)
	}
	if err == nil {
		err = j.stored.Append(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("%w: instance %s: %w", ErrStore, j.Instance, err)
	}
	j.written, j.changed = j.written+1, nil
	return nil
}

// encode returns a record of the changed effects.
func (j *Journal) encode(mark Mark) ([]byte, error) {
	j.book.mu.Lock()
	defer j.book.mu.Unlock()
	return json.Marshal(record{Effects: j.changed, Mark: mark})
}

// read applies the records of an earlier process, or of a process that lost its lock. Requests that were in progress
// become Unknown.
func (j *Journal) read(stored journal.Journal) (found []*Effect, err error) {
	effects := map[int]*Effect{}
	var mark Mark
	for n, data := range stored.Records() {
		var r record
		err := json.Unmarshal(data, &r)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: instance %s: record %d: %w", ErrStore, j.Instance, n+1, err)
		}
		if mark == HandedOver || r.Mark == Ended {
			clear(effects)
		}
		for _, e := range r.Effects {
			effects[e.Seq] = e
		}
		if mark = r.Mark; mark == Committed {
			for seq, e := range effects {
				if e.State == Done {
					delete(effects, seq)
				}
			}
		}
	}
	j.mark = mark
	for _, e := range effects {
		if e.Instance = j.Instance; e.Pending() || e.isUncertain() {
			e.journal = j
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(x, y *Effect) int { return x.Seq - y.Seq })
	if mark != HandedOver && mark != Ended {
		for _, e := range found {
			e.interrupt(stored.Abandoned())
		}
	}
	return found, nil
}

// interrupt records that the process that sent a request has ended. The request may still be applied.
func (e *Effect) interrupt(at time.Time) {
	if !at.IsZero() && (e.State == Sent || e.State == Undoing) {
		e.changed = at
	}
	if e.State != Sent {
		return
	}
	if e.State = Unknown; e.Amount != nil {
		e.Amount.answered(Unknown)
	}
}
