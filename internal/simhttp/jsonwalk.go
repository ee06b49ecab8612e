package simhttp

import (
	"encoding/json"
	"strings"
)

// walker goes through the text of a JSON value, of which json.Valid has been asked: that
// bounds the depth, too. It never goes beyond the end.
type walker struct {
	data []byte
	at   int
}

// peek skips white space and returns the byte that comes next, 0 at the end.
func (w *walker) peek() byte {
	for w.at < len(w.data) {
		switch c := w.data[w.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			w.at++
		default:
			return c
		}
	}
	return 0
}

// skip goes past a value and returns where it began.
func (w *walker) skip() (start int) {
	first := w.peek()
	start = w.at
	switch first {
	case '"':
		w.text()
	case '{', '[':
		w.compound()
	default:
		for w.at < len(w.data) && !strings.ContainsRune(" \t\n\r,]}", rune(w.data[w.at])) {
			w.at++
		}
	}
	return start
}

// compound goes past an object or an array without recursion.
func (w *walker) compound() {
	for depth := 0; w.at < len(w.data); {
		switch w.data[w.at] {
		case '"':
			w.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		w.at++
		if depth == 0 {
			return
		}
	}
}

// text goes past a string and returns it with its quotes.
func (w *walker) text() []byte {
	start := w.at
	for w.at++; w.at < len(w.data); w.at++ {
		switch w.data[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return w.data[start:w.at]
		}
	}
	w.at = len(w.data)
	return w.data[start:]
}

// object calls visit for each member, which has to go past its value.
func (w *walker) object(visit func(key string)) {
	w.at++
	for w.peek() == '"' {
		visit(unquoted(w.text()))
	}
	w.at++
}

// array calls visit for each item, which has to go past it.
func (w *walker) array(visit func(index int)) {
	w.at++
	for i := 0; ; i++ {
		if next := w.peek(); next == ']' || next == 0 {
			break
		}
		visit(i)
	}
	w.at++
}

// unquoted is the text of a JSON string.
func unquoted(quoted []byte) string {
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return ""
	}
	return text
}
