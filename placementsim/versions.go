package placementsim

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	versionHeader = simhttp.VersionHeader
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
func parseVersion(h http.Header) (version, error) {
	text := simhttp.RequestedVersion(h, serviceType)
	switch text {
	case "":
		return minVersion, nil
	case "latest":
		return maxVersion, nil
	}
	major, minor, ok := simhttp.ParseVersion(text)
	if !ok {
		return 0, &simhttp.Error{Status: http.StatusBadRequest, Text: "invalid version string: " + text}
	}
	if major != 1 || minor < int(minVersion) || minor > int(maxVersion) {
		return 0, &simhttp.Error{Status: http.StatusNotAcceptable, Text: "Unacceptable version header: " + text, Code: versionRange}
	}
	return version(minor), nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
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
	return c.JSON(http.StatusOK, map[string][]document{"versions": {{
		ID: "v1.0", MinVersion: minVersion.String(), MaxVersion: maxVersion.String(), Status: "CURRENT",
		Links: []link{{Rel: "self"}},
	}}})
}
