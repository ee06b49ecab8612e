// Package uuids reads UUIDs as OpenStack's services do, by oslo_utils/uuidutils.py. It makes none.
package uuids

import "strings"

// Is reports whether a text is a UUID in its usual form, with hyphens.
func Is(text string) bool {
	return len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' && Like(text)
}

// Like reports whether Python's uuid module would read the text, as oslo.utils asks
// it: with or without hyphens, braces and "urn:uuid:".
func Like(text string) bool {
	d := digits(text)
	return len(d) == 32 && strings.Trim(d, "0123456789abcdefABCDEF") == ""
}

// Canonical is a UUID in lower case with hyphens. Any other text is returned as it is.
func Canonical(text string) string {
	if !Like(text) {
		return text
	}
	d := strings.ToLower(digits(text))
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

func digits(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "urn:", ""), "uuid:", "")
	return strings.ReplaceAll(strings.Trim(text, "{}"), "-", "")
}
