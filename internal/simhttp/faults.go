package simhttp

import (
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// Faults are the rules that a Service fails by, under the name by which services that
// have no other business with the package fault can take them.
type Faults = fault.Set

// Outcome is what a fault rule makes of something that a service does beside answering
// requests. The zero value is that it goes well.
type Outcome struct {
	// Lost: it does not happen, and nobody is told.
	Lost bool
	// Failed: it comes to a bad end.
	Failed bool
	// Delay is how much later it happens.
	Delay time.Duration
}

// Decide asks the service's rules about something that it does beside requests: the
// action delay puts it off, status makes it fail, any other loses it.
func (s *Service) Decide(operation, subject string) Outcome {
	rule, hit := s.Faults.Decide(operation, subject)
	switch {
	case !hit:
		return Outcome{}
	case rule.Action == fault.Delay:
		return Outcome{Delay: rule.Delay}
	case rule.Action == fault.Status:
		return Outcome{Failed: true}
	}
	return Outcome{Lost: true}
}
