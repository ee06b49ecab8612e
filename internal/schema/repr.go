package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Repr writes a JSON value as Python would show it: error texts are
// matched against that.
func Repr(value any) string {
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
		b.WriteString(ReprFloat(v))
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
	for i, key := range slices.Sorted(maps.Keys(m)) {
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

// ReprFloat writes a float as Python would.
func ReprFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// ReprList writes texts as Python would, separated by commas.
func ReprList(list []string) string {
	shown := make([]string, 0, len(list))
	for _, item := range list {
		shown = append(shown, Repr(item))
	}
	return strings.Join(shown, ", ")
}
