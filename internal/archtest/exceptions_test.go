package archtest

import "fmt"

// Exception lets one finding of one rule stand, with the reason.
type Exception struct {
	// Rule is the name of the rule: mutex, unlock, row, context, error, receiver
	// or twice; of Writes recorded, once, state or outcome.
	Rule string
	// Subject is what the finding is about, as its text begins.
	Subject string
	// Reason says why the rule does not hold here.
	Reason string
}

// except removes the findings that an exception names, and reports exceptions
// that name none.
func (r Rules) except(findings []Finding) []Finding {
	used := make(map[Exception]bool)
	var left []Finding
	for _, f := range findings {
		e, ok := r.exceptionFor(f)
		if !ok {
			left = append(left, f)
			continue
		}
		used[e] = true
	}
	for _, e := range r.Exceptions {
		if !used[e] {
			left = append(left, Finding{Position: e.Subject, Text: fmt.Sprintf("the exception from rule %q is not needed", e.Rule)})
		}
	}
	return left
}

func (r Rules) exceptionFor(f Finding) (Exception, bool) {
	for _, e := range r.Exceptions {
		if e.Rule == f.rule && e.Subject == f.subject {
			return e, true
		}
	}
	return Exception{}, false
}
