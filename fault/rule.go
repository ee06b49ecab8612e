package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrRule is matched by every error about an invalid rule.
var ErrRule = errors.New("fault: bad rule")

// When is the time of the failure relative to the change.
type When string

const (
	// Before fails the request without applying it. It is the default.
	Before When = "before"
	// After applies the request and then fails the answer, the case that callers most
	// often handle wrongly.
	After When = "after"
)

// Action is the kind of a failure.
type Action string

const (
	// Status answers Rule.Status (500 if zero) with Rule.Code in the error format of
	// the service.
	Status Action = "status"
	// Drop closes the connection without an answer.
	Drop Action = "drop"
	// Truncate sends the headers and half of the body, then closes the
	// connection. It needs an answer, so it implies After.
	Truncate Action = "truncate"
	// Malformed answers with the real status and a body that is not JSON. It
	// needs an answer, so it implies After.
	Malformed Action = "malformed"
	// Delay waits Rule.Delay on the simulator's clock and then continues; with After,
	// the change is applied before the wait.
	Delay Action = "delay"
	// SlowBody sends status and headers at once and the body in small parts until
	// Rule.Delay has passed, so that the caller may give up within an answer. It needs
	// an answer, so it implies After.
	SlowBody Action = "slow-body"
	// Late closes the connection without an answer and applies the request Rule.Delay
	// later, whether or not its caller has given up. With a Rule.Status a proxy answers
	// that. The request is lost if the service is closed before. A request that changes
	// nothing is dropped.
	Late Action = "late"
	// Proxy answers Rule.Status (502 if zero) with a page of HTML, as a proxy before the
	// service does; with After, the service has applied the request.
	Proxy Action = "proxy"
	// ExpireToken ends the validity of the request's X-Auth-Token before it is checked.
	ExpireToken Action = "expire-token"
	// ExpireServiceToken ends the validity of the request's X-Service-Token before it is
	// checked.
	ExpireServiceToken Action = "expire-service-token"

	// Duplicate forwards an event twice.
	Duplicate Action = "duplicate"
	// Reorder sends the events of a POST of Cyborg in reverse, and forwards an event of Nova after
	// all others of its request, separately. Two reordered events arrive in reverse order.
	Reorder Action = "reorder"
	// Reboot stops the host of the operation, before or after the work, and starts it
	// again after Rule.Delay. The work's caller gets no answer.
	Reboot Action = "reboot"
)

// actionNames lists the actions.
func actionNames() (names []string) {
	for _, a := range []Action{Status, Drop, Truncate, Malformed, Delay, SlowBody, Late, Proxy, ExpireToken, ExpireServiceToken, Duplicate, Reorder, Reboot} {
		names = append(names, string(a))
	}
	return names
}

// needsAnswer reports whether the action changes an answer.
func (a Action) needsAnswer() bool { return a == Truncate || a == Malformed || a == SlowBody }

// needsTime reports whether the action needs Rule.Delay.
func (a Action) needsTime() bool { return a == Delay || a == SlowBody || a == Late || a == Reboot }

// Rule makes an operation fail. The zero Nth and Times mean 1: the first match, once.
// Matches are counted per subject.
type Rule struct {
	// Operation is the name of an operation, such as AllocationsPut, or [OfService] for every
	// request of a service. [Set.Describe] lists the operations of a set.
	Operation sim.OperationName `json:"operation"`
	// Subject restricts the rule to one subject: the first identifier in the request's
	// path. Empty matches every subject, each counted separately.
	Subject string `json:"subject,omitempty"`
	// Nth is the first match that fails, counted from 1.
	Nth int `json:"nth,omitempty"`
	// Times is the number of consecutive matches that fail; -1 means all from Nth on, and
	// so does zero with a Probability.
	Times int `json:"times,omitempty"`
	// Probability is the probability that each of these matches fails, above 0 and up to
	// 1; zero means that all do. For the n-th match of a subject it depends on the seed
	// of the [Set], not on earlier matches.
	Probability float64 `json:"probability,omitempty"`
	// When is Before or After; empty means Before.
	When When `json:"when,omitempty"`
	// Action is the kind of failure.
	Action Action `json:"action"`
	// Status is the HTTP status of Status, Proxy and Late; zero means 500, 502 and no answer.
	Status int `json:"status,omitempty"`
	// Code is the service's error code for the action Status, if its format has one.
	Code string `json:"code,omitempty"`
	// Delay is the duration of Delay, SlowBody, Late and Reboot. In JSON: a Go duration such
	// as "20ms".
	Delay time.Duration `json:"-"`
}

type ruleJSON struct {
	plainRule
	Delay       string      `json:"delay,omitempty"`
	Probability probability `json:"probability,omitempty"`
}

// probability is a number that is 0 only if it is written as 0. encoding/json reads 1e-400 as 0, with which a rule
// always applies.
type probability float64

// UnmarshalJSON implements json.Unmarshaler.
func (p *probability) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*float64)(p)); err != nil {
		return fmt.Errorf("probability: %w", err)
	}
	digits, _, _ := bytes.Cut(bytes.ToLower(data), []byte("e"))
	if *p == 0 && bytes.ContainsAny(digits, "123456789") {
		return fmt.Errorf("probability %s: too close to 0", data)
	}
	return nil
}

type plainRule Rule

// MarshalJSON writes the rule with its delay as a duration string.
func (r Rule) MarshalJSON() ([]byte, error) {
	wire := ruleJSON{plainRule: plainRule(r), Probability: probability(r.Probability)}
	if r.Delay != 0 {
		wire.Delay = r.Delay.String()
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads a rule and refuses unknown fields; the error matches
// [ErrRule].
func (r *Rule) UnmarshalJSON(data []byte) error {
	var wire ruleJSON
	if err := strictjson.Decode(data, &wire); err != nil {
		return fmt.Errorf("%w: %w", ErrRule, err)
	}
	if wire.Delay != "" {
		delay, err := time.ParseDuration(wire.Delay)
		if err != nil {
			return fmt.Errorf("%w: delay: %w", ErrRule, err)
		}
		wire.plainRule.Delay = delay
	}
	wire.plainRule.Probability = float64(wire.Probability)
	*r = Rule(wire.plainRule)
	return nil
}

// Validate checks the rule; the error matches [ErrRule].
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
	case Status, Drop, Delay, Proxy, Duplicate, Reorder, Reboot:
		return nil
	case Truncate, Malformed, SlowBody:
		if r.When == Before {
			return fmt.Errorf("%w: %s: %s needs an answer, so it cannot be before the change", ErrRule, r.Operation, r.Action)
		}
		return nil
	case Late, ExpireToken, ExpireServiceToken:
		if r.When == After {
			return fmt.Errorf("%w: %s: %s is before the change, so it cannot be after it", ErrRule, r.Operation, r.Action)
		}
		return nil
	}
	return fmt.Errorf("%w: %s: unknown action %q (known: %s)", ErrRule, r.Operation, r.Action, strings.Join(actionNames(), ", "))
}

// Applied reports whether the change is applied before the failure.
func (r Rule) Applied() bool {
	return r.When == After || r.Action.needsAnswer()
}

// limit returns the maximum number of failing matches; negative means all.
func (r Rule) limit() int {
	switch {
	case r.Times != 0:
		return r.Times
	case r.Probability > 0:
		return -1
	}
	return 1
}

// counts reports whether the n-th match, counted from 1, may fail.
func (r Rule) counts(n int) bool {
	first, limit := max(r.Nth, 1), r.limit()
	return n >= first && (limit < 0 || n-first < limit)
}

// ParseRules reads a JSON array of rules. Unknown fields, invalid rules and data after the
// array are errors that match [ErrRule]. [Set.Set] checks the operations.
func ParseRules(data []byte) ([]Rule, error) {
	var texts []json.RawMessage // a rule takes much more, and the first bad one ends the list
	if err := json.Unmarshal(data, &texts); err != nil {
		return nil, fmt.Errorf("%w: not a list of rules: %w", ErrRule, err)
	}
	if texts == nil {
		return nil, fmt.Errorf("%w: null is not a list of rules", ErrRule)
	}
	rules := []Rule{}
	for i, text := range texts {
		var rule Rule
		err := rule.UnmarshalJSON(text)
		if err == nil {
			err = rule.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
