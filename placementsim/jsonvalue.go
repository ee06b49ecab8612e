package placementsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decodeJSON reads one JSON document into maps, slices, strings, booleans,
// nil, int64 where a number is written as an integer that fits, and float64
// elsewhere. Numbers without end become the greatest float64, so that nothing
// after it has to compute with them.
func decodeJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("extra data after the document")
	}
	return plainNumbers(value), nil
}

func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		return plainNumber(string(v))
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plainNumbers(v[key])
		}
	}
	return value
}

func plainNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64) // out of range: infinite
	return max(-math.MaxFloat64, min(f, math.MaxFloat64))
}

// integer returns a number that a schema has found to be an integer, cut off
// far outside of every limit.
func integer(value any) int64 {
	const far = 1 << 53
	switch v := value.(type) {
	case int64:
		return max(-far, min(v, far))
	case float64:
		return int64(max(-far, min(v, far)))
	}
	return 0
}

func number(value any) float64 {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func object(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

func array(value any) []any {
	a, _ := value.([]any)
	return a
}

func textList(value any) []string {
	list := make([]string, 0, len(array(value)))
	for _, item := range array(value) {
		list = append(list, text(item))
	}
	return list
}

// pythonRepr writes a JSON value as Python would show it: error texts are
// matched against that.
func pythonRepr(value any) string {
	var b strings.Builder
	writeRepr(&b, value)
	return b.String()
}

func writeRepr(b *strings.Builder, value any) {
	switch v := value.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case string:
		writeReprString(b, v)
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(reprFloat(v))
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, item)
		}
		b.WriteByte(']')
	case map[string]any:
		writeReprMap(b, v)
	}
}

func writeReprMap(b *strings.Builder, m map[string]any) {
	b.WriteByte('{')
	for i, key := range sortedKeys(m) {
		if i > 0 {
			b.WriteString(", ")
		}
		writeReprString(b, key)
		b.WriteString(": ")
		writeRepr(b, m[key])
	}
	b.WriteByte('}')
}

func writeReprString(b *strings.Builder, s string) {
	quote := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = `"`
	}
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "'", `\'`)
	if quote == `"` {
		escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	}
	b.WriteString(quote)
	_, _ = escape.WriteString(b, s) // a strings.Builder never fails
	b.WriteString(quote)
}

func reprFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
