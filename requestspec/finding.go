package requestspec

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says what a [Finding] of [Lint] means for who uses the flavor.
type Severity string

// The severities.
const (
	// SeverityError: servers of the flavor fail, or get other devices than was meant.
	SeverityError Severity = "error"
	// SeverityWarning: something is ignored, or does what its author hardly means.
	SeverityWarning Severity = "warning"
	// SeverityHint: it works, and could be better.
	SeverityHint Severity = "hint"
)

// Finding is one thing that is wrong with a flavor or with a device profile.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is what it is about: flavor "x", or device profile "x" group 0.
	Subject string `json:"subject"`
	// Key and Value are the entry in question; both are empty when the whole
	// group, profile or flavor is meant.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Problem is what is wrong with it.
	Problem string `json:"problem"`
	// Suggestion is what to do about it.
	Suggestion string `json:"suggestion"`
}

// String is the finding in one line.
func (f Finding) String() string {
	text := string(f.Severity) + ": " + f.Subject
	if f.Key != "" {
		text += fmt.Sprintf(" %q", f.Key)
		if f.Value != "" {
			text += fmt.Sprintf("=%q", f.Value)
		}
	}
	return text + ": " + f.Problem + "; " + f.Suggestion
}

// findings collects what is found of one subject.
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

// nearest is the known word that a word was probably meant to be, empty if none
// is close. Blanks, case and separators do not count.
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

// distance is Levenshtein's, capped for words of very different length.
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
