package pythonjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
)

// Object is an object as json.dumps writes it with sorted keys, in ASCII. Upstream's drivers write the
// information of control paths and handles so, and its conductor compares it as it is.
func Object(fields map[string]string) string {
	pairs := make([]string, 0, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		pairs = append(pairs, Text(key)+": "+Text(fields[key]))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// Text is a text as json.dumps writes it, in ASCII.
func Text(value string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // texts always encode
	var ascii strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case r < 0x7f:
			ascii.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return ascii.String()
}
