package requestspec

import (
	"fmt"

	"github.com/gocyborg/gocyborg/internal/terminal"
)

// Severity is the severity of a [Finding].
type Severity string

// The severities.
const (
	// SeverityError: servers of the flavor fail or get unintended devices.
	SeverityError Severity = "error"
	// SeverityWarning: an entry is ignored or has an unlikely effect.
	SeverityWarning Severity = "warning"
	// SeverityHint: the entry works and can be improved.
	SeverityHint Severity = "hint"
)

// Finding is a mistake in a flavor or in a device profile.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is the flavor, profile or group: flavor "x", device profile "x" group 0.
	Subject string `json:"subject"`
	// Key and Value are the wrong entry; both are empty for the whole subject.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Problem describes the mistake.
	Problem string `json:"problem"`
	// Suggestion describes the correction.
	Suggestion string `json:"suggestion"`
}

// String returns the finding in one line. Line ends and other control characters of the entry are
// written as in JSON; Problem and Suggestion have them as they are.
func (f Finding) String() string {
	text := string(f.Severity) + ": " + f.Subject
	if f.Key != "" {
		text += fmt.Sprintf(" %q", f.Key)
		if f.Value != "" {
			text += fmt.Sprintf("=%q", f.Value)
		}
	}
	return terminal.Line(text + ": " + f.Problem + "; " + f.Suggestion)
}

// findings collects the findings of one subject.
type findings struct {
	subject string
	list    []Finding
}

func (f *findings) add(severity Severity, key, value, problem, suggestion string) {
	f.list = append(f.list, Finding{Severity: severity, Subject: f.subject, Key: key, Value: value, Problem: problem, Suggestion: suggestion})
}

func (f *findings) fail(key, value, problem, suggestion string) {
	f.add(SeverityError, key, value, problem, suggestion)
}

func (f *findings) warn(key, value, problem, suggestion string) {
	f.add(SeverityWarning, key, value, problem, suggestion)
}
