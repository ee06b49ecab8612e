// Package uuids reads UUIDs as OpenStack's services do, by oslo_utils/uuidutils.py. It does not
// generate UUIDs.
package uuids

import "strings"

const hexDigits = "0123456789abcdefABCDEF"

// Is reports whether a text is a UUID in its usual form, with hyphens. It allocates nothing.
func Is(text string) bool {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return false
	}
	hyphens := 0
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		case c == '-':
			hyphens++
		default:
			return false
		}
	}
	return hyphens == 4
}

// IsRequestID reports whether a text is a request ID as oslo.middleware accepts it: "req-" and a UUID in lower case.
func IsRequestID(text string) bool {
	id, ok := strings.CutPrefix(text, "req-")
	return ok && Is(id) && strings.ToLower(id) == id
}

// Like reports whether Python's uuid module would read the text, as oslo.utils asks
// it: with or without hyphens, braces and "urn:uuid:".
func Like(text string) bool {
	if Is(text) {
		return true
	}
	d := digits(text)
	return len(d) == 32 && strings.Trim(d, hexDigits) == ""
}

// Canonical is a UUID in lower case with hyphens. Any other text is returned as it is.
func Canonical(text string) string {
	switch {
	case Is(text):
		return strings.ToLower(text)
	case !Like(text):
		return text
	}
	d := strings.ToLower(digits(text))
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

func digits(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "urn:", ""), "uuid:", "")
	return strings.ReplaceAll(strings.Trim(text, "{}"), "-", "")
}
