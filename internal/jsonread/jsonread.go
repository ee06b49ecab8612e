package jsonread

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Reader walks one JSON document once, and reads selected parts. It also checks skipped parts: a
// document that encoding/json refuses is refused here. It returns parts of the document, without
// a copy. After an error it returns zero values, until End.
type Reader struct {
	text  []byte
	at    int
	depth int
	err   error // the first one; ends the walk
}

// maxDepth is that of encoding/json.
const maxDepth = 10000

// New returns the reader of a document.
func New(text []byte) Reader { return Reader{text: text} }

// Since returns the document from a position on, up to where the reader is.
func (r *Reader) Since(begin int) []byte { return r.text[begin:r.at] }

// fail ends the walk.
func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("malformed JSON at byte %d: %s", r.at, fmt.Sprintf(format, args...))
	}
}

// Begin skips spaces and returns the position of the next value.
func (r *Reader) Begin() int {
	r.next()
	return r.at
}

// next returns the next non-space character, and 0 at the end and after an error.
func (r *Reader) next() byte {
	if r.err != nil {
		return 0
	}
	if r.at < len(r.text) && r.text[r.at] > ' ' {
		return r.text[r.at]
	}
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
		case 0:
			r.fail("unexpected character")
			return 0
		default:
			return c
		}
	}
	return 0
}

// expect reads one character, which may follow spaces.
func (r *Reader) expect(want byte) {
	if got := r.next(); got != want {
		r.unexpected(string(want))
		return
	}
	r.at++
}

func (r *Reader) unexpected(wanted string) {
	if r.at >= len(r.text) {
		r.fail("unexpected end, want %s", wanted)
		return
	}
	r.fail("%q, want %s", r.text[r.at], wanted)
}

// End refuses more than the document.
func (r *Reader) End() error {
	if r.next(); r.err == nil && r.at < len(r.text) {
		r.fail("%q after the document", r.text[r.at])
	}
	return r.err
}

// Null reads a null, if that is the next value.
func (r *Reader) Null() bool {
	if r.next() != 'n' {
		return false
	}
	r.literal("null")
	return true
}

func (r *Reader) literal(want string) {
	if !r.Repeats(want) {
		r.unexpected(want)
	}
}

// Repeats reads a text, if that comes next.
func (r *Reader) Repeats(text string) bool {
	if len(r.text)-r.at < len(text) || string(r.text[r.at:r.at+len(text)]) != text {
		return false
	}
	r.at += len(text)
	return true
}

// Object reads an object, whose values the function reads by their keys. A null has no
// members.
func (r *Reader) Object(value func(key []byte)) {
	if r.Null() {
		return
	}
	r.members('{', '}', func() {
		key := r.String()
		r.expect(':')
		if r.err == nil {
			value(key)
		}
	})
}

// Array reads an array, whose elements the function reads. A null has no elements.
func (r *Reader) Array(element func()) {
	if !r.Null() {
		r.members('[', ']', element)
	}
}

// members reads the items between two brackets, separated by commas.
func (r *Reader) members(opening, closing byte, member func()) {
	r.expect(opening)
	if r.depth++; r.depth > maxDepth {
		r.fail("exceeded the depth of %d", maxDepth)
	}
	if r.next() == closing {
		r.at, r.depth = r.at+1, r.depth-1
		return
	}
	for r.err == nil {
		member()
		switch r.next() {
		case ',':
			r.at++
		case closing:
			r.at, r.depth = r.at+1, r.depth-1
			return
		default:
			r.unexpected("a comma or " + string(closing))
		}
	}
}

// String reads a string.
func (r *Reader) String() []byte {
	if r.next() != '"' {
		r.unexpected("a string")
		return nil
	}
	r.at++
	for begin := r.at; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[begin : r.at-1]
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return r.quoted(begin - 1)
		}
	}
	r.unexpected("the end of a string")
	return nil
}

// quoted reads a string that is not plain ASCII.
func (r *Reader) quoted(begin int) []byte {
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '"':
			r.at++
			var text string
			if err := json.Unmarshal(r.text[begin:r.at], &text); err != nil {
				r.fail("%v", err)
			}
			return []byte(text)
		case '\\':
			r.at++
		}
	}
	r.at = len(r.text)
	r.unexpected("the end of a string")
	return nil
}

// Optional reads a string; a null is empty.
func (r *Reader) Optional() []byte {
	if r.Null() {
		return nil
	}
	return r.String()
}

// Int reads a whole number; a null is 0.
func (r *Reader) Int() int {
	if r.Null() {
		return 0
	}
	begin := r.at
	r.number()
	if r.err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(r.text[begin:r.at]))
	if err != nil {
		r.at = begin
		r.fail("the number %.40s is not a whole one, or too large", r.text[begin:])
	}
	return n
}

// number reads a number.
func (r *Reader) number() {
	if r.next() == '-' {
		r.at++
	}
	if r.at < len(r.text) && r.text[r.at] == '0' {
		r.at++
	} else {
		r.digits()
	}
	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		r.digits()
	}
	if r.at < len(r.text) && (r.text[r.at] == 'e' || r.text[r.at] == 'E') {
		r.at++
		if r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		r.digits()
	}
}

// digits reads at least one digit.
func (r *Reader) digits() {
	begin := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	if r.at == begin {
		r.unexpected("a digit")
	}
}

// Skip reads any value.
func (r *Reader) Skip() {
	switch r.next() {
	case '{':
		r.Object(func([]byte) { r.Skip() })
	case '[':
		r.Array(func() { r.Skip() })
	case '"':
		r.String()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}
