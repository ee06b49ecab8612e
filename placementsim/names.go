package placementsim

import (
	"regexp"
	"strings"
)

var (
	customName   = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
	dashedUUID   = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	consumerType = regexp.MustCompile(`^([A-Z0-9_]+|unknown|all.*)$`)
)

// maxName is the longest name of a trait or resource class.
const maxName = 255

// isUUIDLike reports whether Python's uuid module would read the text: with or
// without dashes, in any case, in braces, with a urn prefix.
func isUUIDLike(s string) bool { return len(bareUUID(s)) == 32 && isHex(bareUUID(s)) }

func bareUUID(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "urn:", ""), "uuid:", "")
	return strings.ReplaceAll(strings.Trim(s, "{}"), "-", "")
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// canonicalUUID writes a uuid in lower case with dashes.
func canonicalUUID(s string) string {
	s = strings.ToLower(bareUUID(s))
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
