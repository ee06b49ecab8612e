package simhttp

import (
	"net/http"
	"strconv"
	"strings"
)

// VersionHeader names a service and a microversion, or a list of them: "compute 2.82".
const VersionHeader = "Openstack-Api-Version"

// RequestedVersion is the microversion that the header asks of a service, empty for none.
// The last of several counts.
func RequestedVersion(h http.Header, service string) (text string) {
	for entry := range strings.SplitSeq(strings.Join(h.Values(VersionHeader), ","), ",") {
		entry = strings.TrimSpace(entry)
		if fields := strings.Fields(entry); len(fields) >= 2 && strings.EqualFold(fields[0], service) {
			text = strings.TrimSpace(entry[len(fields[0]):])
		}
	}
	return text
}

// ParseVersion reads two numbers with a dot between them. A number that no service reaches
// is cut short.
func ParseVersion(text string) (major, minor int, ok bool) {
	first, second, found := strings.Cut(text, ".")
	number := func(s string) int {
		if s == "" || strings.Trim(s, "0123456789") != "" {
			found = false
		}
		if n, err := strconv.ParseInt(s, 10, 32); err == nil {
			return int(n)
		}
		return 1 << 31
	}
	major, minor = number(first), number(second)
	return major, minor, found
}
