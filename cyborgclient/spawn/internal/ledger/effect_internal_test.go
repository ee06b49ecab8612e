package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/internal/session"
)

var states = []State{none, Sent, Done, Found, Refused, Unknown, Undoing, Left, Foreign, Undone}

// allowed has a row for each state, and a column for each one that may follow it.
var allowed = strings.Fields(`
	none:    =SDF....O.
	sent:    .=D.RU....
	done:    .S=..UXLOG
	found:   .S.=RUXLOG
	refused: .S..=.....
	unknown: .SD..=XLOG
	undoing: .....U=LOG
	left:    .S...UX=OG
	foreign: ......X.=G
	undone:  .........=
`)

func isAllowed(from, to State) bool { return allowed[2*from+1][to] != '.' }

func TestNamesOfStates(t *testing.T) {
	t.Parallel()
	for i, s := range states {
		if want := allowed[2*i]; s.String()+":" != want || int(s) != i {
			t.Errorf("state %d is %q, want %q", s, s, want)
		}
	}
}

// reach calls a function, and returns the state that the effect has then and whether the function panicked.
func reach(e *Effect, call func()) (state State, panics bool) {
	defer func() {
		panics = recover() != nil
		state = e.State
	}()
	call()
	return e.State, false
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	for _, from := range states {
		for _, to := range states {
			earlier := time.Now().Add(-time.Hour)
			e := &Effect{Kind: Guest, ID: "i", State: from, Err: errNoReturn, changed: earlier}
			state, panics := reach(e, func() { e.to(to, nil) })
			switch {
			case !isAllowed(from, to):
				if !panics || state != from || e.Err == nil {
					t.Errorf("%s -> %s: panics %t, is %s", from, to, panics, state)
				}
			case panics || state != to || e.Err != nil || e.Changed().Equal(earlier) != (from == to):
				t.Errorf("%s -> %s: panics %t, is %s since %v", from, to, panics, state, e.Changed())
			}
		}
		if got, want := (&Effect{State: from}).Pending(), from != none && from != Refused && from != Undone; got != want {
			t.Errorf("%s: Pending is %t", from, got)
		}
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "ledger: guest i cannot become sent: it is undone"; got != want {
			t.Errorf("panic: %s", got)
		}
	}()
	(&Effect{Kind: Guest, ID: "i", State: Undone}).to(Sent, nil)
}

// Each method of a journal goes through the table of transitions.
func TestMethodsMakeAllowedTransitions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type call struct {
		name string
		next State // the first one
		run  func(j *Journal, e *Effect)
	}
	calls := []call{
		{"Adopt", Done, func(j *Journal, e *Effect) { j.Adopt(e) }},
		{"Take", Found, func(j *Journal, e *Effect) { j.Take(e) }},
		{"Note", Foreign, func(j *Journal, e *Effect) { j.Note(e, nil) }},
		{"Remove", Undoing, func(j *Journal, e *Effect) {
			j.Remove(ctx, []*Effect{e}, func(context.Context) map[*Effect]error { return nil })
		}},
	}
	for _, err := range []error{nil, &placement.Error{Status: 409}, &placement.Error{Status: 500}} {
		send := func(context.Context) error { return err }
		calls = append(calls,
			call{fmt.Sprint("Do ", err), Sent, func(j *Journal, e *Effect) { _ = j.Do(ctx, e, send) }},
			call{fmt.Sprint("Claim ", err), Sent, func(j *Journal, e *Effect) { _ = j.Claim(ctx, e, placement.Resources{"a": {"VCPU": 1}}, nil, send) }},
			call{fmt.Sprint("Release ", err), Undoing, func(j *Journal, e *Effect) { j.Release(ctx, e, nil, Undone, send) }},
		)
	}
	for _, state := range states {
		calls = append(calls, call{"Settle", state, func(j *Journal, e *Effect) { j.Settle(e, state, nil) }})
	}
	for _, c := range calls {
		for _, from := range states {
			j, err := NewBook(nil, nil).Open(ctx, "i")
			if err != nil {
				t.Fatal(err)
			}
			e := &Effect{Kind: Claim, ID: "i", Seq: 1, State: from, Amount: &Amount{}, journal: j}
			state, panics := reach(e, func() { c.run(j, e) })
			if panics == isAllowed(from, c.next) || panics && state != from {
				t.Errorf("%s of an effect that is %s: panics %t, is %s", c.name, from, panics, state)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	answer := func(status int) error { return fmt.Errorf("claim: %w", &placement.Error{Status: status}) }
	const amounts, creates, bindings, others = 0, 1, 2, 3
	groups := [][]Kind{amounts: {Claim, Part, Consumer}, creates: {Create, Program}, bindings: {Binding}, others: {ARQ, Listed, Mdev, NovaMdev, Guest, Power}}
	for _, c := range []struct {
		name string
		err  error
		want [4]State
	}{
		{"nil", nil, [4]State{Done, Done, Done, Done}},
		{"400", answer(http.StatusBadRequest), [4]State{Refused, Refused, Done, Unknown}},
		{"401", answer(http.StatusUnauthorized), [4]State{Refused, Refused, Done, Unknown}},
		{"403", answer(http.StatusForbidden), [4]State{Refused, Refused, Done, Unknown}},
		{"404", answer(http.StatusNotFound), [4]State{Refused, Refused, Done, Unknown}},
		{"408", answer(http.StatusRequestTimeout), [4]State{Unknown, Refused, Done, Unknown}},
		{"409", answer(http.StatusConflict), [4]State{Refused, Refused, Done, Unknown}},
		{"500", answer(http.StatusInternalServerError), [4]State{Unknown, Refused, Done, Unknown}},
		{"503", answer(http.StatusServiceUnavailable), [4]State{Unknown, Refused, Done, Unknown}},
		{"no answer", context.DeadlineExceeded, [4]State{Unknown, Refused, Done, Unknown}},
		{"a lost reply", fmt.Errorf("create: %w", cyborgclient.ErrReplyLost), [4]State{Unknown, Unknown, Unknown, Unknown}},
		{"no token", fmt.Errorf("create: %w", session.ErrNoToken), [4]State{Refused, Refused, Done, Unknown}},
		{"a hook", errors.New("libvirt: no domain"), [4]State{Unknown, Refused, Done, Unknown}},
	} {
		for group, kinds := range groups {
			for _, kind := range kinds {
				if got := outcome(kind, c.err); got != c.want[group] {
					t.Errorf("%s of a %s: got %s, want %s", c.name, kind, got, c.want[group])
				}
			}
		}
	}
}
