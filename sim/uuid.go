package sim

import "strings"

// IsUUID reports whether a text is a UUID in its usual form, with hyphens.
func IsUUID(text string) bool {
	return len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' && IsUUIDLike(text)
}

// IsUUIDLike reports whether Python's uuid module would read the text, as oslo.utils asks
// it: with or without hyphens, braces and "urn:uuid:".
func IsUUIDLike(text string) bool {
	digits := uuidDigits(text)
	return len(digits) == 32 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// CanonicalUUID is a UUID in lower case with hyphens. Any other text is returned as it is.
func CanonicalUUID(text string) string {
	if !IsUUIDLike(text) {
		return text
	}
	d := strings.ToLower(uuidDigits(text))
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

func uuidDigits(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "urn:", ""), "uuid:", "")
	return strings.ReplaceAll(strings.Trim(text, "{}"), "-", "")
}
