package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrRule is matched by every error about a rule that cannot be used.
var ErrRule = errors.New("fault: bad rule")

// When tells on which side of the change the failure happens.
type When string

const (
	// Before fails the request without applying it. It is the default.
	Before When = "before"
	// After applies the request and then spoils the answer: the case that
	// callers get wrong most often.
	After When = "after"
)

// Action is what the caller is to notice.
type Action string

const (
	// Status answers Rule.Status (500 if zero) with Rule.Code in the error
	// dialect of the service.
	Status Action = "status"
	// Drop closes the connection without an answer.
	Drop Action = "drop"
	// Truncate sends the headers and half of the body, then closes the
	// connection. It needs an answer, so it implies After.
	Truncate Action = "truncate"
	// Malformed answers with the real status and a body that is not JSON. It
	// needs an answer, so it implies After.
	Malformed Action = "malformed"
	// Delay waits Rule.Delay on the simulator's clock, then goes on as if
	// nothing had happened; with After, the change is applied before the wait.
	Delay Action = "delay"
	// SlowBody sends status and headers at once and the body little by little, so
	// that its end comes after Rule.Delay. It needs an answer, so it implies
	// After; the caller may give up in the middle of an answer that it took for
	// good.
	SlowBody Action = "slow-body"

	// Duplicate does something twice: an event is passed on a second time right
	// after the first.
	Duplicate Action = "duplicate"
	// Reorder does something last: an event is passed on after all others of its
	// request, and by itself. Of two reordered ones the later comes first.
	Reorder Action = "reorder"
	// Reboot lets the host of the operation go down at that moment, before or
	// after the work, and come up again after Rule.Delay. The work's caller hears
	// that nobody answers.
	Reboot Action = "reboot"
)

// needsAnswer reports whether the action spoils an answer, so that there must be
// one first.
func (a Action) needsAnswer() bool { return a == Truncate || a == Malformed || a == SlowBody }

// needsTime reports whether the action makes no sense without Rule.Delay.
func (a Action) needsTime() bool { return a == Delay || a == SlowBody || a == Reboot }

// Rule is one way to fail. The zero Nth and Times mean 1: the first match,
// once. Counting is per subject.
type Rule struct {
	// Operation is the stable name of an operation, such as
	// "placement.allocations.put"; every simulator lists its own.
	Operation string `json:"operation"`
	// Subject restricts the rule to one subject: the first identifier in the
	// request's path. Empty matches every subject, each counted on its own.
	Subject string `json:"subject,omitempty"`
	// Nth is the first match that fails, counted from 1.
	Nth int `json:"nth,omitempty"`
	// Times is how many matches in a row fail; -1 means all from Nth on, and so
	// does zero with a Probability.
	Times int `json:"times,omitempty"`
	// Probability is how likely each of these matches is to fail, above 0 and up to
	// 1; zero means that all do. What becomes of the n-th match of a subject depends
	// on the seed of the [Set] and on nothing that comes before.
	Probability float64 `json:"probability,omitempty"`
	// When tells whether the change is applied; empty means Before.
	When When `json:"when,omitempty"`
	// Action is what the caller notices.
	Action Action `json:"action"`
	// Status is the HTTP status of the action Status; zero means 500.
	Status int `json:"status,omitempty"`
	// Code is the service's own error code for the action Status, where its
	// dialect has one.
	Code string `json:"code,omitempty"`
	// Delay is how long the action Delay waits, the body of SlowBody takes, and
	// the host of Reboot is away. In JSON: a Go duration such as "20ms".
	Delay time.Duration `json:"-"`
}

type ruleJSON struct {
	plainRule
	Delay string `json:"delay,omitempty"`
}

type plainRule Rule

// MarshalJSON writes the rule with its delay as a duration string.
func (r Rule) MarshalJSON() ([]byte, error) {
	wire := ruleJSON{plainRule: plainRule(r)}
	if r.Delay != 0 {
		wire.Delay = r.Delay.String()
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads a rule and refuses unknown fields; the error matches
// [ErrRule].
func (r *Rule) UnmarshalJSON(data []byte) error {
	var wire ruleJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&wire); err != nil {
		return fmt.Errorf("%w: %w", ErrRule, err)
	}
	if wire.Delay != "" {
		delay, err := time.ParseDuration(wire.Delay)
		if err != nil {
			return fmt.Errorf("%w: delay: %w", ErrRule, err)
		}
		wire.plainRule.Delay = delay
	}
	*r = Rule(wire.plainRule)
	return nil
}

// Validate tells whether the rule makes sense; the error matches [ErrRule].
func (r Rule) Validate() error {
	switch {
	case r.Operation == "":
		return fmt.Errorf("%w: no operation", ErrRule)
	case r.Nth < 0:
		return fmt.Errorf("%w: %s: nth %d is negative", ErrRule, r.Operation, r.Nth)
	case r.Times < -1:
		return fmt.Errorf("%w: %s: times %d (at least 1, or -1 for always)", ErrRule, r.Operation, r.Times)
	case !(r.Probability >= 0 && r.Probability <= 1): // not a number is neither
		return fmt.Errorf("%w: %s: probability %g (above 0, at most 1)", ErrRule, r.Operation, r.Probability)
	case r.When != "" && r.When != Before && r.When != After:
		return fmt.Errorf("%w: %s: when %q (before or after)", ErrRule, r.Operation, r.When)
	case r.Status != 0 && (r.Status < 400 || r.Status > 599):
		return fmt.Errorf("%w: %s: status %d (400 to 599)", ErrRule, r.Operation, r.Status)
	case r.Delay < 0, r.Action.needsTime() && r.Delay == 0:
		return fmt.Errorf("%w: %s: delay %s", ErrRule, r.Operation, r.Delay)
	}
	return r.validateAction()
}

func (r Rule) validateAction() error {
	switch r.Action {
	case Status, Drop, Delay, Duplicate, Reorder, Reboot:
		return nil
	case Truncate, Malformed, SlowBody:
		if r.When == Before {
			return fmt.Errorf("%w: %s: %s needs an answer, so it cannot be before the change", ErrRule, r.Operation, r.Action)
		}
		return nil
	}
	return fmt.Errorf("%w: %s: unknown action %q", ErrRule, r.Operation, r.Action)
}

// Applied reports whether the change is applied before the failure.
func (r Rule) Applied() bool {
	return r.When == After || r.Action.needsAnswer()
}

// limit is how many matches may fail; negative means all.
func (r Rule) limit() int {
	switch {
	case r.Times != 0:
		return r.Times
	case r.Probability > 0:
		return -1
	}
	return 1
}

// counts reports whether the n-th match, counted from 1, is one of those that may
// fail.
func (r Rule) counts(n int) bool {
	first, limit := max(r.Nth, 1), r.limit()
	return n >= first && (limit < 0 || n-first < limit)
}
