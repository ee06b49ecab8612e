package simhttp

import (
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// Faults are the rules that a Service fails by, under the name by which services that
// have no other business with the package fault can take them.
type Faults = fault.Set

// Passing is the work of passing something on, for [fault.Set.RegisterWork]; subject
// says what the subject of a rule is compared with.
func Passing(name, subject string) fault.Operation {
	return fault.Operation{
		Name: name, Subject: subject,
		Actions: []fault.Action{fault.Status, fault.Drop, fault.Delay, fault.Duplicate, fault.Reorder},
	}
}

// Outcome is what a fault rule makes of something that a service does beside answering
// requests. The zero value is that it goes well.
type Outcome struct {
	// Lost: it does not happen, and nobody is told.
	Lost bool
	// Failed: it comes to a bad end.
	Failed bool
	// Twice: it happens a second time.
	Twice bool
	// Last: it happens after everything else of the same request.
	Last bool
	// Delay is how much later it happens.
	Delay time.Duration
}

// Decide asks the service's rules about something that it does beside requests: delay
// puts it off, status makes it fail, duplicate and reorder do it twice or last, any other
// action loses it.
func (s *Service) Decide(operation, subject string) Outcome {
	rule, hit := s.Faults.Decide(operation, subject)
	if !hit {
		return Outcome{}
	}
	switch rule.Action {
	case fault.Delay:
		return Outcome{Delay: rule.Delay}
	case fault.Status:
		return Outcome{Failed: true}
	case fault.Duplicate:
		return Outcome{Twice: true}
	case fault.Reorder:
		return Outcome{Last: true}
	}
	return Outcome{Lost: true}
}
