package domainxml

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// canonicalUUID returns the lower-case form with dashes of a UUID in any case, with or
// without dashes.
func canonicalUUID(text string) (string, error) {
	digits := text
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		digits = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	return dashed(digits, text)
}

// lenientUUID accepts what libvirt's virUUIDParse accepts: 32 hexadecimal digits in any
// case, with dashes and spaces anywhere between them.
func lenientUUID(text string) (string, error) {
	return dashed(strings.NewReplacer("-", "", " ", "").Replace(text), text)
}

func dashed(digits, original string) (string, error) {
	if _, err := hex.DecodeString(digits); err != nil || len(digits) != 32 {
		return "", fmt.Errorf("%q is not a UUID", shortened(original))
	}
	d := strings.ToLower(digits)
	return strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "-"), nil
}
