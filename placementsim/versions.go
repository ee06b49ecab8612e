package placementsim

import (
	"net/http"
	"strconv"
	"strings"
)

const (
	versionHeader = "Openstack-Api-Version"
	serviceType   = "placement"
)

// version is the minor part of a microversion, the major part being 1.
type version int

const (
	minVersion version = 0
	maxVersion version = 39
)

// String returns the microversion as it is on the wire.
func (v version) String() string { return "1." + strconv.Itoa(int(v)) }

// parseVersion reads the microversion header: absent is the oldest, the last
// entry for the service counts.
func parseVersion(h http.Header) (version, *apiError) {
	text, sent := requestedVersion(h)
	switch {
	case !sent:
		return minVersion, nil
	case text == "latest":
		return maxVersion, nil
	}
	major, minor, ok := splitVersion(text)
	if !ok {
		return 0, &apiError{status: http.StatusBadRequest, text: "invalid version string: " + text}
	}
	if major != 1 || minor < int(minVersion) || minor > int(maxVersion) {
		return 0, &apiError{status: http.StatusNotAcceptable, text: "Unacceptable version header: " + text, versions: true}
	}
	return version(minor), nil
}

// requestedVersion finds what was asked of this service.
func requestedVersion(h http.Header) (text string, sent bool) {
	entries := strings.Split(strings.Join(h.Values(versionHeader), ","), ",")
	for i := len(entries) - 1; i >= 0; i-- {
		fields := strings.Fields(entries[i])
		if len(fields) >= 2 && strings.EqualFold(fields[0], serviceType) {
			return strings.TrimSpace(strings.TrimSpace(entries[i])[len(fields[0]):]), true
		}
	}
	return "", false
}

// splitVersion reads "int.int". Numbers that no service reaches are cut short.
func splitVersion(text string) (major, minor int, ok bool) {
	first, second, found := strings.Cut(text, ".")
	if !found || !digits(first) || !digits(second) {
		return 0, 0, false
	}
	return smallNumber(first), smallNumber(second), true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func smallNumber(s string) int {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 1 << 31
	}
	return int(n)
}

// getRoot answers the version document.
func getRoot(c *call) error {
	type link struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	type document struct {
		ID         string `json:"id"`
		MinVersion string `json:"min_version"`
		MaxVersion string `json:"max_version"`
		Status     string `json:"status"`
		Links      []link `json:"links"`
	}
	c.modified(c.now)
	return c.json(http.StatusOK, map[string][]document{"versions": {{
		ID: "v1.0", MinVersion: minVersion.String(), MaxVersion: maxVersion.String(), Status: "CURRENT",
		Links: []link{{Rel: "self"}},
	}}})
}
