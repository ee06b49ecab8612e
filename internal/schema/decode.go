package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode reads one JSON document into maps, slices, strings, booleans,
// nil, int64 where a number is written as an integer that fits, and float64
// elsewhere. Numbers without end become the greatest float64, so that nothing
// after it has to compute with them. It accepts what encoding/json does, whose error it
// returns, at a third of the cost.
func Decode(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is not UTF-8")
	}
	r := reader{data: data}
	value, ok := r.value()
	if r.space(); ok && r.at == len(data) {
		return value, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(new(any)); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); errors.Is(err, io.EOF) {
		return nil, errors.New("the document cannot be read")
	}
	return nil, errors.New("extra data after the document")
}

// reader reads a document of valid UTF-8. Its methods report whether it is well-formed so far.
type reader struct {
	data  []byte
	at    int
	depth int
}

// maxDepth is that of encoding/json.
const maxDepth = 10000

// peek returns the next byte, or 0 at the end.
func (r *reader) peek() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

func (r *reader) space() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// next skips space and then a byte, if it is the one.
func (r *reader) next(want byte) bool {
	r.space()
	if r.peek() != want {
		return false
	}
	r.at++
	return true
}

func (r *reader) value() (value any, ok bool) {
	r.space()
	switch r.peek() {
	case '{':
		return r.nested((*reader).object)
	case '[':
		return r.nested((*reader).array)
	case '"':
		return r.text()
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	return r.number()
}

func (r *reader) nested(read func(*reader) (any, bool)) (value any, ok bool) {
	if r.depth++; r.depth > maxDepth {
		return nil, false
	}
	r.at++
	value, ok = read(r)
	r.depth--
	return value, ok
}

func (r *reader) object() (any, bool) {
	object := make(map[string]any)
	if r.next('}') {
		return object, true
	}
	for {
		if r.space(); r.peek() != '"' {
			return nil, false
		}
		name, ok := r.text()
		if !ok || !r.next(':') {
			return nil, false
		}
		if object[name], ok = r.value(); !ok {
			return nil, false
		}
		if r.next('}') {
			return object, true
		}
		if !r.next(',') {
			return nil, false
		}
	}
}

func (r *reader) array() (any, bool) {
	list := []any{}
	if r.next(']') {
		return list, true
	}
	for {
		item, ok := r.value()
		if !ok {
			return nil, false
		}
		list = append(list, item)
		if r.next(']') {
			return list, true
		}
		if !r.next(',') {
			return nil, false
		}
	}
}

func (r *reader) word(want string) bool {
	if !bytes.HasPrefix(r.data[r.at:], []byte(want)) {
		return false
	}
	r.at += len(want)
	return true
}

// text reads a string; the next byte is its quote.
func (r *reader) text() (string, bool) {
	r.at++
	start := r.at
	for ; r.at < len(r.data) && r.data[r.at] >= ' '; r.at++ {
		switch r.data[r.at] {
		case '"':
			text := string(r.data[start:r.at])
			r.at++
			return text, true
		case '\\':
			return r.escaped(start)
		}
	}
	return "", false
}

// escaped reads a string on from its first escape.
func (r *reader) escaped(start int) (string, bool) {
	var b strings.Builder
	b.Write(r.data[start:r.at])
	for r.at < len(r.data) && r.data[r.at] >= ' ' {
		c := r.data[r.at]
		r.at++
		switch c {
		case '"':
			return b.String(), true
		case '\\':
			char, ok := r.escape()
			if !ok {
				return "", false
			}
			b.WriteRune(char)
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// escape reads what follows a backslash. Half a surrogate pair is the replacement character.
func (r *reader) escape() (rune, bool) {
	c := r.peek()
	r.at++
	if c == 'u' {
		char, ok := r.hex()
		if !utf16.IsSurrogate(char) || !ok {
			return char, ok
		}
		rest := *r
		if rest.word(`\u`) {
			second, ok := rest.hex()
			if pair := utf16.DecodeRune(char, second); ok && pair != utf8.RuneError {
				*r = rest
				return pair, true
			}
		}
		return utf8.RuneError, true
	}
	if c == 0 {
		return 0, false
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, false
	}
	return rune("\"\\/\b\f\n\r\t"[i]), true
}

// hex reads four hexadecimal digits.
func (r *reader) hex() (rune, bool) {
	if len(r.data)-r.at < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(r.data[r.at:r.at+4]), 16, 16)
	r.at += 4
	return rune(n), err == nil
}

func (r *reader) digits() bool {
	start := r.at
	for c := r.peek(); '0' <= c && c <= '9'; c = r.peek() {
		r.at++
	}
	return r.at > start
}

func (r *reader) number() (any, bool) {
	start := r.at
	if r.peek() == '-' {
		r.at++
	}
	if r.peek() == '0' {
		r.at++
	} else if !r.digits() {
		return nil, false
	}
	whole := r.at
	if r.peek() == '.' {
		if r.at++; !r.digits() {
			return nil, false
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.at++
		if c := r.peek(); c == '+' || c == '-' {
			r.at++
		}
		if !r.digits() {
			return nil, false
		}
	}
	text := string(r.data[start:r.at])
	if r.at == whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
	}
	f, _ := strconv.ParseFloat(text, 64) // out of range: infinite
	return max(-math.MaxFloat64, min(f, math.MaxFloat64)), true
}
