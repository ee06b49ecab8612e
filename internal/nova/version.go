package nova

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	headerVersion       = "OpenStack-API-Version"
	headerLegacyVersion = "X-OpenStack-Nova-API-Version"
)

func versionText(minor int) string { return "2." + strconv.Itoa(minor) }

// The lowest microversion, and the microversions that added kinds of event.
const (
	minMinor           = 1
	minorVolume        = 51
	minorPower         = 76
	minorAccelerator   = 82
	minorVolumeReimage = 93
)

// versionNumber is the form of a microversion.
var versionNumber = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

// negotiate reads the newer header first, which lists versions of several services, then
// the older one; without either the lowest version holds.
func (s *Server) negotiate(c *simhttp.Call) error {
	maxMinor := s.cfg.Release.maxMinor
	text := simhttp.RequestedVersion(c.Header, "compute")
	if text == "" {
		text = strings.TrimSpace(c.Header.Get(headerLegacyVersion))
	}
	switch text {
	case "":
		c.Minor = minMinor
	case "latest":
		c.Minor = maxMinor
	default:
		if !versionNumber.MatchString(text) {
			return simhttp.Refuse(http.StatusBadRequest, "API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", text)
		}
		major, minor, _ := simhttp.ParseVersion(text)
		if major != 2 || minor < minMinor || minor > maxMinor {
			return simhttp.Refuse(http.StatusNotAcceptable, "Version %s is not supported by the API. Minimum is %s and maximum is %s.",
				text, versionText(minMinor), versionText(maxMinor))
		}
		c.Minor = minor
	}
	c.W.Header().Set(headerVersion, "compute "+versionText(c.Minor))
	c.W.Header().Set(headerLegacyVersion, versionText(c.Minor))
	c.W.Header().Set("Vary", headerVersion+", "+headerLegacyVersion)
	return nil
}

func (s *Server) versionBody(c *simhttp.Call) map[string]any {
	return map[string]any{
		"id": "v2.1", "status": "CURRENT", "updated": "2013-07-23T11:33:21Z",
		"version": versionText(s.cfg.Release.maxMinor), "min_version": versionText(minMinor),
		"links": []map[string]string{{"rel": "self", "href": c.BaseURL() + c.Mount + "/v2.1/"}},
	}
}

// getVersion answers the document of API 2.1.
func (s *Server) getVersion(c *simhttp.Call) error {
	body := s.versionBody(c)
	body["media-types"] = []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}}
	return c.JSON(http.StatusOK, map[string]any{"version": body})
}

// listVersions answers the list of APIs, which has one entry.
func (s *Server) listVersions(c *simhttp.Call) error {
	return c.JSON(http.StatusOK, map[string]any{"versions": []any{s.versionBody(c)}})
}
