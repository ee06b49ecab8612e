package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLines limits the lines of an error.
const maxLines = 10

// report writes the error and returns the exit status for it.
func report(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "cysim: %s\n", strings.Join(linesOf(err), "\n  "))
	if found := new(statusError); errors.As(err, &found) {
		return found.status
	}
	return StatusFailed
}

// linesOf returns the text of an error in one line. If the error joins several ([errors.Join]), their texts follow in a line
// each, without what all of them begin with, which is in the first line. There are at most ten lines.
func linesOf(err error) []string {
	joined := joinedIn(err)
	if joined == nil {
		return []string{OneLine(err.Error())}
	}
	before, after, _ := strings.Cut(err.Error(), joined.Error())
	problems := textsOf(joined)
	common := commonPart(problems)
	for i := range problems {
		problems[i] = problems[i][len(common):]
	}
	if len(problems) > maxLines-1 {
		const shown = maxLines - 2
		problems = append(problems[:shown], fmt.Sprintf("... and %d more", len(problems)-shown))
	}
	first := strings.TrimSuffix(strings.TrimSpace(before+common), ":") + after
	return append([]string{OneLine(first) + ":"}, problems...)
}

// list is an error that consists of others.
type list interface {
	error
	Unwrap() []error
}

// joinedIn finds the outermost error in the tree of an error that joins two or more, or returns nil.
func joinedIn(err error) list {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case list:
		if isJoined(e) {
			return e
		}
		for _, part := range e.Unwrap() {
			if found := joinedIn(part); found != nil {
				return found
			}
		}
	case interface{ Unwrap() error }:
		return joinedIn(e.Unwrap())
	}
	return nil
}

// isJoined reports whether the text of an error is those of two or more others, in a line each.
func isJoined(e list) bool {
	parts := e.Unwrap()
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.Error()
	}
	return len(parts) > 1 && e.Error() == strings.Join(texts, "\n")
}

// textsOf returns the texts of what an error joins, each in one line.
func textsOf(e list) (texts []string) {
	for _, part := range e.Unwrap() {
		if inner, ok := part.(list); ok && isJoined(inner) { //nolint:errorlint // it walks the tree itself
			texts = append(texts, textsOf(inner)...)
		} else {
			texts = append(texts, OneLine(part.Error()))
		}
	}
	return texts
}

// commonPart returns what all texts begin with, up to the last colon.
func commonPart(texts []string) string {
	first, last := slices.Min(texts), slices.Max(texts)
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	const colon = ": "
	if end := strings.LastIndex(first[:n], colon); end >= 0 {
		return first[:end+len(colon)]
	}
	return ""
}

// OneLine joins the lines of a text.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
