package schema

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Object is a JSON object that remembers the order in which its keys first appear. A nil one is empty.
type Object struct {
	members []member
	places  map[string]int // nil for an object with few keys, which are compared
}

type member struct {
	key   string
	value any
}

// few is how many keys are compared.
const few = 12

// Len is the number of keys.
func (o *Object) Len() int {
	if o == nil {
		return 0
	}
	return len(o.members)
}

// Get returns the value of a key, nil for one that is not there.
func (o *Object) Get(key string) any {
	value, _ := o.Find(key)
	return value
}

// Find returns the value of a key, if it is there.
func (o *Object) Find(key string) (value any, ok bool) {
	if i := o.place(key); i >= 0 {
		return o.members[i].value, true
	}
	return nil, false
}

// place is where a key is, -1 for one that is not there.
func (o *Object) place(key string) int {
	if o == nil {
		return -1
	}
	if o.places == nil {
		return slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
	}
	if i, ok := o.places[key]; ok {
		return i
	}
	return -1
}

// All iterates over keys and values.
func (o *Object) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for i := 0; i < o.Len() && yield(o.members[i].key, o.members[i].value); i++ {
		}
	}
}

// Set sets the value of a key; a new key is the last.
func (o *Object) Set(key string, value any) {
	if i := o.place(key); i >= 0 {
		o.members[i].value = value
		return
	}
	if o.members == nil {
		o.members = make([]member, 0, 4)
	}
	o.members = append(o.members, member{key, value})
	if o.places == nil && len(o.members) > few {
		o.places = make(map[string]int, 2*few)
		for i, m := range o.members[:few] {
			o.places[m.key] = i
		}
	}
	if o.places != nil {
		o.places[key] = len(o.members) - 1
	}
}

// Texts returns an object whose values are texts, for example from a query string.
func Texts(keys []string, value func(key string) string) *Object {
	o := new(Object)
	for _, key := range keys {
		o.Set(key, value(key))
	}
	return o
}

// Python is a release of Python, whose json module words errors: 11 is 3.11, 0 the oldest.
type Python int

// namesTrailingCommas is the first release with a specific text about a comma before the end of
// an object or a list.
const namesTrailingCommas Python = 13

// Decode is [Python.Decode] of the oldest release.
func Decode(data []byte) (any, error) { return Python(0).Decode(data) }

// Decode reads one JSON document into *Object, []any, string, bool, nil, int64 where a
// number is written as an integer that fits, *big.Int where it does not, and float64
// elsewhere. Numbers without end become the greatest float64, so that nothing after it has
// to compute with them. The error has the text of Python's json module.
func (p Python) Decode(data []byte) (any, error) {
	if err := CheckUTF8(data); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte("\uFEFF")) {
		return nil, syntaxError("Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)")
	}
	d := &decoder{data: data, python: p}
	d.space()
	value, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at < len(data) {
		return nil, d.expected("Extra data", d.at)
	}
	return value, nil
}

// CheckUTF8 returns the error of Python's decoder about data that are not UTF-8.
func CheckUTF8(data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	reason := "invalid continuation byte"
	switch b := data[at]; {
	case b < 0xC2 || b > 0xF4:
		reason = "invalid start byte"
	case !utf8.FullRune(data[at:]):
		reason = "unexpected end of data"
	}
	return syntaxErrorf("'utf-8' codec can't decode byte 0x%02x in position %d: %s", data[at], at, reason)
}

// syntaxError is the text of Python about a document that cannot be read.
type syntaxError string

// Error implements error.
func (e syntaxError) Error() string { return string(e) }

func syntaxErrorf(format string, args ...any) error { return syntaxError(fmt.Sprintf(format, args...)) }

// maxDepth is how deep a document may be nested, as in Python.
const maxDepth = 990

// decoder reads a document from a position on.
type decoder struct {
	data   []byte
	at     int
	python Python
}

// expected is the error about a position.
func (d *decoder) expected(what string, at int) error {
	before := d.data[:min(at, len(d.data))]
	line, column := bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])+1
	return syntaxErrorf("%s: line %d column %d (char %d)", what, line, column, utf8.RuneCount(before))
}

func (d *decoder) space() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// next reports whether the next byte is b, and passes it.
func (d *decoder) next(b byte) bool {
	if d.at < len(d.data) && d.data[d.at] == b {
		d.at++
		return true
	}
	return false
}

func (d *decoder) word(word string, value any) (any, error) {
	if !bytes.HasPrefix(d.data[d.at:], []byte(word)) {
		return nil, d.expected("Expecting value", d.at)
	}
	d.at += len(word)
	return value, nil
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, syntaxError("maximum recursion depth exceeded while decoding a JSON document")
	}
	if d.at == len(d.data) {
		return nil, d.expected("Expecting value", d.at)
	}
	switch d.data[d.at] {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return d.text()
	case 'n':
		return d.word("null", nil)
	case 't':
		return d.word("true", true)
	case 'f':
		return d.word("false", false)
	}
	return d.number()
}

func (d *decoder) object(depth int) (any, error) {
	d.at++
	o := new(Object)
	if d.space(); d.next('}') {
		return o, nil
	}
	for {
		if d.at == len(d.data) || d.data[d.at] != '"' {
			return nil, d.expected("Expecting property name enclosed in double quotes", d.at)
		}
		key, err := d.text()
		if err != nil {
			return nil, err
		}
		if d.space(); !d.next(':') {
			return nil, d.expected("Expecting ':' delimiter", d.at)
		}
		d.space()
		value, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.Set(key, value)
		if d.space(); d.next('}') {
			return o, nil
		}
		if err := d.comma('}', "object"); err != nil {
			return nil, err
		}
	}
}

func (d *decoder) array(depth int) (any, error) {
	d.at++
	list := []any{}
	if d.space(); d.next(']') {
		return list, nil
	}
	for {
		value, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if d.space(); d.next(']') {
			return list, nil
		}
		if err := d.comma(']', "array"); err != nil {
			return nil, err
		}
	}
}

// comma passes a comma that is not the last thing of an object or an array, and the blanks behind it.
func (d *decoder) comma(end byte, of string) error {
	at := d.at
	if !d.next(',') {
		return d.expected("Expecting ',' delimiter", at)
	}
	if d.space(); d.python >= namesTrailingCommas && d.at < len(d.data) && d.data[d.at] == end {
		return d.expected("Illegal trailing comma before end of "+of, at)
	}
	return nil
}

func (d *decoder) text() (string, error) {
	open := d.at
	d.at++
	start := d.at
	var b []byte // nil while there is no escape
	for d.at < len(d.data) {
		switch c := d.data[d.at]; {
		case c == '"':
			d.at++
			if b == nil {
				return string(d.data[start : d.at-1]), nil
			}
			return string(append(b, d.data[start:d.at-1]...)), nil
		case c < ' ':
			return "", d.expected("Invalid control character at", d.at)
		case c == '\\':
			b = append(b, d.data[start:d.at]...)
			var err error
			if b, err = d.escape(b, open); err != nil {
				return "", err
			}
			start = d.at
		default:
			d.at++
		}
	}
	return "", d.expected("Unterminated string starting at", open)
}

// escape appends the character of an escape sequence in the text that begins at open.
func (d *decoder) escape(b []byte, open int) ([]byte, error) {
	if d.at+1 >= len(d.data) {
		return nil, d.expected("Unterminated string starting at", open)
	}
	c := d.data[d.at+1]
	if c == 'u' {
		return d.unicodeEscape(b)
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return nil, d.expected(`Invalid \escape`, d.at)
	}
	d.at += 2
	return append(b, "\"\\/\b\f\n\r\t"[i]), nil
}

func (d *decoder) unicodeEscape(b []byte) ([]byte, error) {
	r, ok := d.hex(d.at + 2)
	if !ok {
		return nil, d.expected(`Invalid \uXXXX escape`, d.at+1)
	}
	d.at += 6
	if utf16.IsSurrogate(r) && d.at+1 < len(d.data) && d.data[d.at] == '\\' && d.data[d.at+1] == 'u' {
		if second, ok := d.hex(d.at + 2); ok {
			if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
				d.at += 6
				r = pair
			}
		}
	}
	return utf8.AppendRune(b, r), nil
}

// hex reads four hexadecimal digits.
func (d *decoder) hex(at int) (rune, bool) {
	if at+4 >= len(d.data) { // a quote has to follow
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.data[at:at+4]), 16, 32)
	return rune(n), err == nil
}

// maxDigits is the length of the longest integer that Python reads.
const maxDigits = 4300

func (d *decoder) number() (any, error) {
	start := d.at
	end := start
	digits := func() bool {
		first := end
		for end < len(d.data) && d.data[end] >= '0' && d.data[end] <= '9' {
			end++
		}
		return end > first
	}
	if d.data[end] == '-' {
		end++
	}
	if end < len(d.data) && d.data[end] == '0' {
		end++
	} else if !digits() {
		return nil, d.expected("Expecting value", start)
	}
	d.at = end
	if end < len(d.data) && d.data[end] == '.' {
		if end++; digits() {
			d.at = end
		}
	}
	whole := d.at
	if end = whole; end < len(d.data) && (d.data[end] == 'e' || d.data[end] == 'E') {
		end++
		if end < len(d.data) && (d.data[end] == '+' || d.data[end] == '-') {
			end++
		}
		if digits() {
			d.at = end
		}
	}
	return plainNumber(string(d.data[start:d.at]))
}

func plainNumber(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if strings.ContainsAny(text, ".eE") {
		f, _ := strconv.ParseFloat(text, 64) // out of range: infinite
		return max(-math.MaxFloat64, min(f, math.MaxFloat64)), nil
	}
	if count := len(strings.TrimPrefix(text, "-")); count > maxDigits {
		return nil, syntaxErrorf("Exceeds the limit (%d digits) for integer string conversion: value has %d digits; use sys.set_int_max_str_digits() to increase the limit", maxDigits, count)
	}
	n, _ := new(big.Int).SetString(text, 10) // digits only
	return n, nil
}
