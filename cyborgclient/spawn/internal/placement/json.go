package placement

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// reader walks one JSON document once, and reads what it is asked for. What is skipped is
// checked, so that a document that encoding/json refuses is refused here. What it returns
// are parts of the document, without a copy.
type reader struct {
	text  []byte
	at    int
	depth int
	err   error // the first one; ends the walk
}

// maxDepth is that of encoding/json.
const maxDepth = 10000

// fail ends the walk.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("malformed JSON at byte %d: %s", r.at, fmt.Sprintf(format, args...))
	}
}

// next returns the next character that is no space, and 0 at the end and after an error.
func (r *reader) next() byte {
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
func (r *reader) expect(want byte) {
	if got := r.next(); got != want {
		r.unexpected(string(want))
		return
	}
	r.at++
}

func (r *reader) unexpected(wanted string) {
	if r.at >= len(r.text) {
		r.fail("unexpected end, want %s", wanted)
		return
	}
	r.fail("%q, want %s", r.text[r.at], wanted)
}

// end refuses more than the document.
func (r *reader) end() error {
	if r.next(); r.err == nil && r.at < len(r.text) {
		r.fail("%q after the document", r.text[r.at])
	}
	return r.err
}

// null reads a null, if that is the next value.
func (r *reader) null() bool {
	if r.next() != 'n' {
		return false
	}
	r.literal("null")
	return true
}

func (r *reader) literal(want string) {
	if !r.repeats(want) {
		r.unexpected(want)
	}
}

// repeats reads a text, if that comes next.
func (r *reader) repeats(text string) bool {
	if len(r.text)-r.at < len(text) || string(r.text[r.at:r.at+len(text)]) != text {
		return false
	}
	r.at += len(text)
	return true
}

// object reads an object, whose values the function reads by their keys. A null has no
// members.
func (r *reader) object(value func(key []byte)) {
	if r.null() {
		return
	}
	r.members('{', '}', func() {
		key := r.string()
		r.expect(':')
		if r.err == nil {
			value(key)
		}
	})
}

// array reads an array, whose elements the function reads. A null has none.
func (r *reader) array(element func()) {
	if !r.null() {
		r.members('[', ']', element)
	}
}

// members reads what stands between two brackets, separated by commas.
func (r *reader) members(opening, closing byte, member func()) {
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

// string reads a string.
func (r *reader) string() []byte {
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
func (r *reader) quoted(begin int) []byte {
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

// optional reads a string; a null is empty.
func (r *reader) optional() []byte {
	if r.null() {
		return nil
	}
	return r.string()
}

// int reads a whole number; a null is 0.
func (r *reader) int() int {
	if r.null() {
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
func (r *reader) number() {
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
func (r *reader) digits() {
	begin := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	if r.at == begin {
		r.unexpected("a digit")
	}
}

// skip reads any value.
func (r *reader) skip() {
	switch r.next() {
	case '{':
		r.object(func([]byte) { r.skip() })
	case '[':
		r.array(func() { r.skip() })
	case '"':
		r.string()
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
