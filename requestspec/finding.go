package requestspec

import (
	"fmt"
	"slices"
	"strings"

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

// nearest returns the known word that is most similar to word, or "" if none is.
// Spaces, case and separators are ignored.
func nearest(word string, known []string) string {
	best, least := "", 3
	for _, candidate := range known {
		if d := distance(squash(word), squash(candidate)); d < least && d*3 <= len(squash(candidate)) {
			best, least = candidate, d
		}
	}
	return best
}

// squash keeps the letters and digits of a word.
func squash(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(word))
}

// distance is the Levenshtein distance, estimated for words of very different length.
func distance(a, b string) int {
	if abs := max(len(a), len(b)) - min(len(a), len(b)); abs > 3 {
		return abs
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
