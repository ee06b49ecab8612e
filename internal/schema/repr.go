package schema

import (
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Repr writes a JSON value as Python would show it: error texts are
// matched against that.
func Repr(value any) string {
	return string(appendRepr(nil, value, (*Object).All))
}

// sorted iterates over keys and values in the order of the keys.
func (o *Object) sorted() iter.Seq2[string, any] {
	members := slices.SortedFunc(slices.Values(o.members), func(a, b member) int { return strings.Compare(a.key, b.key) })
	return (&Object{members: members}).All()
}

// appendRepr shows the keys of objects in the order given.
func appendRepr(b []byte, value any, order func(*Object) iter.Seq2[string, any]) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "None"...)
	case bool:
		if v {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case string:
		return appendReprText(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case *big.Int:
		return v.Append(b, 10)
	case float64:
		return append(b, ReprFloat(v)...)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendRepr(b, item, order)
		}
		return append(b, ']')
	case *Object:
		b = append(b, '{')
		first := true
		for key, item := range order(v) {
			if !first {
				b = append(b, ", "...)
			}
			first = false
			b = append(appendReprText(b, key), ": "...)
			b = appendRepr(b, item, order)
		}
		return append(b, '}')
	}
	return b
}

func appendReprText(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r < 0x100:
			b = append(b, `\x`...)
			b = appendHex(b, r, 2)
		case r < 0x10000:
			b = append(b, `\u`...)
			b = appendHex(b, r, 4)
		default:
			b = append(b, `\U`...)
			b = appendHex(b, r, 8)
		}
	}
	return append(b, quote)
}

func appendHex(b []byte, r rune, width int) []byte {
	text := strconv.FormatInt(int64(r), 16)
	b = append(b, strings.Repeat("0", width-len(text))...)
	return append(b, text...)
}

// ReprFloat writes a float as Python would.
func ReprFloat(f float64) string {
	format := byte('e')
	if size := math.Abs(f); size == 0 || size >= 1e-4 && size < 1e16 {
		format = 'f'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// ReprList writes texts as Python would, separated by commas.
func ReprList(list []string) string {
	var b []byte
	for i, item := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendReprText(b, item)
	}
	return string(b)
}

// pretty writes a value as Python's pprint does in 72 columns.
func (p printer) pretty(value any) string {
	p.value(value, 0, 0, 0)
	return string(p.out)
}

const prettyWidth = 72

// printer lays out values: on one line if they fit, else an item a line.
type printer struct {
	order func(*Object) iter.Seq2[string, any] // of the keys of objects
	out   []byte
}

// value writes a value that begins at a column and leaves room for what follows it.
func (p *printer) value(value any, column, room, level int) {
	line := appendRepr(nil, value, p.order)
	if utf8.RuneCount(line) > prettyWidth-column-room {
		switch v := value.(type) {
		case *Object:
			p.object(v, column, room, level+1)
			return
		case []any:
			p.list(v, column, room, level+1)
			return
		case string:
			p.text(v, column, room, level+1)
			return
		}
	}
	p.out = append(p.out, line...)
}

// roomFor is the room for an item on its line. The last item may use the room of the whole; the
// others need room for a comma.
func roomFor(i, count, room int) int {
	if i == count-1 {
		return room + 1
	}
	return 1
}

func (p *printer) newLine(column int) {
	p.out = append(p.out, '\n')
	p.out = append(p.out, strings.Repeat(" ", column)...)
}

func (p *printer) object(o *Object, column, room, level int) {
	p.out = append(p.out, '{')
	i := 0
	for key, item := range p.order(o) {
		if i > 0 {
			p.out = append(p.out, ',')
			p.newLine(column + 1)
		}
		shown := appendReprText(nil, key)
		p.out = append(append(p.out, shown...), ": "...)
		p.value(item, column+1+utf8.RuneCount(shown)+2, roomFor(i, o.Len(), room), level)
		i++
	}
	p.out = append(p.out, '}')
}

func (p *printer) list(list []any, column, room, level int) {
	p.out = append(p.out, '[')
	for i, item := range list {
		if i > 0 {
			p.out = append(p.out, ',')
			p.newLine(column + 1)
		}
		p.value(item, column+1, roomFor(i, len(list), room), level)
	}
	p.out = append(p.out, ']')
}

// text breaks a text at blanks.
func (p *printer) text(s string, column, room, level int) {
	outermost := level == 1
	if outermost {
		column++
		room++
	}
	chunks := chunksOf(s, column, room)
	if len(chunks) == 1 {
		p.out = append(p.out, chunks[0]...)
		return
	}
	if outermost {
		p.out = append(p.out, '(')
	}
	for i, chunk := range chunks {
		if i > 0 {
			p.newLine(column)
		}
		p.out = append(p.out, chunk...)
	}
	if outermost {
		p.out = append(p.out, ')')
	}
}

// chunksOf are the parts of a text that fit, shown.
func chunksOf(s string, column, room int) []string {
	var chunks []string
	width := func(text string) int { return utf8.RuneCountInString(Repr(text)) }
	lines := strings.SplitAfter(s, "\n")
	if last := len(lines) - 1; last > 0 && lines[last] == "" {
		lines = lines[:last]
	}
	for i, line := range lines {
		most := prettyWidth - column
		end := most
		if i == len(lines)-1 {
			end -= room
		}
		if width(line) <= end {
			chunks = append(chunks, Repr(line))
			continue
		}
		words := wordsOf(line)
		current := ""
		for j, word := range words {
			if j == len(words)-1 {
				most = end
			}
			if current != "" && width(current+word) > most {
				chunks = append(chunks, Repr(current))
				current = ""
			}
			current += word
		}
		chunks = append(chunks, Repr(current))
	}
	return chunks
}

// wordsOf splits a line after each run of blanks.
func wordsOf(line string) []string {
	var words []string
	start, blank := 0, false
	for i, r := range line {
		space := unicode.IsSpace(r)
		if blank && !space {
			words = append(words, line[start:i])
			start = i
		}
		blank = space
	}
	return append(words, line[start:])
}
