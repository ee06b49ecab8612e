// Package uuids reads UUIDs as OpenStack's services do, by oslo_utils/uuidutils.py. It makes none.
package uuids

import "strings"

const hexDigits = "0123456789abcdefABCDEF"

// Is reports whether a text is a UUID in its usual form, with hyphens. It allocates nothing.
func Is(text string) bool {
	for i := range len(text) {
		allowed := hexDigits
		if i == 8 || i == 13 || i == 18 || i == 23 {
			allowed = "-"
		}
		if strings.IndexByte(allowed, text[i]) < 0 {
			return false
		}
	}
	return len(text) == 36
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
