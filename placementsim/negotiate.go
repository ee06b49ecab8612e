package placementsim

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// acceptQuality returns the quality of a media type in an Accept header, from 0 (not
// accepted) to 1. The most specific entry counts.
func acceptQuality(header, mainType, subType string) float64 {
	quality, best := 0.0, -1
	for entry := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(entry, ";")
		specificity := matchRange(strings.ToLower(strings.TrimSpace(name)), mainType, subType)
		if specificity > best {
			best, quality = specificity, qualityOf(params)
		}
	}
	return quality
}

// matchRange compares a media range with a type: -1 no match, higher is more
// specific.
func matchRange(name, mainType, subType string) int {
	switch name {
	case mainType + "/" + subType:
		return 2
	case mainType + "/*":
		return 1
	case "*/*":
		return 0
	}
	return -1
}

func qualityOf(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		key, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}

// errorType is the media type of an error's answer.
func errorType(r *http.Request) string {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return "application/json"
	}
	asHTML := acceptQuality(accept, "text", "html")
	asJSON := acceptQuality(accept, "application", "json")
	switch {
	case asHTML > 0 && asHTML >= asJSON:
		return "text/html"
	case asJSON > 0:
		return "application/json"
	}
	return "text/plain"
}

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

// addition is a name with the microversion that added it.
type addition struct {
	since version
	name  string
}

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
		return 0, &simhttp.Error{Status: http.StatusBadRequest, Text: "Invalid microversion: invalid version string: " + text + "; " + malformation(text)}
	}
	if major != 1 || minor < int(minVersion) || minor > int(maxVersion) {
		return 0, &simhttp.Error{Status: http.StatusNotAcceptable, Text: "Invalid microversion: Unacceptable version header: " + text, Code: versionRange}
	}
	return version(minor), nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// malformation says what Python finds wrong with a version.
func malformation(text string) string {
	for _, part := range strings.SplitN(text, ".", 2) {
		if !digits(part) {
			return "invalid literal for int() with base 10: " + schema.Repr(part)
		}
	}
	return "Version.__new__() missing 1 required positional argument: 'minor'"
}

// getRoot answers the version document.
func getRoot(c *call) error {
	type document struct {
		ID         string     `json:"id"`
		MinVersion string     `json:"min_version"`
		MaxVersion string     `json:"max_version"`
		Status     string     `json:"status"`
		Links      []linkBody `json:"links"`
	}
	c.modified()
	return c.JSON(http.StatusOK, map[string][]document{"versions": {{
		ID: "v1.0", MinVersion: minVersion.String(), MaxVersion: maxVersion.String(), Status: "CURRENT",
		Links: []linkBody{{Rel: "self"}},
	}}})
}
