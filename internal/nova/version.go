package nova

import (
	"context"
	"fmt"
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

// version is a microversion of API 2.
type version struct{ minor int }

func (v version) String() string { return "2." + strconv.Itoa(v.minor) }

// The microversions served, and those that allowed further kinds of event.
const (
	minMinor           = 1
	maxMinor           = 96
	minorVolume        = 51
	minorPower         = 76
	minorAccelerator   = 82
	minorVolumeReimage = 93
)

var versionText = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

// requestedVersion reads the newer header first, which lists versions of several
// services, then the older one; without either the lowest version holds.
func requestedVersion(h http.Header) (version, *requestError) {
	text := ""
	for item := range strings.SplitSeq(strings.Join(h.Values(headerVersion), ","), ",") {
		if name, number, ok := strings.Cut(strings.TrimSpace(item), " "); ok && strings.EqualFold(name, "compute") {
			text = strings.TrimSpace(number)
		}
	}
	if text == "" {
		text = strings.TrimSpace(h.Get(headerLegacyVersion))
	}
	switch text {
	case "":
		return version{minMinor}, nil
	case "latest":
		return version{maxMinor}, nil
	}
	return parseVersion(text)
}

func parseVersion(text string) (version, *requestError) {
	parts := versionText.FindStringSubmatch(text)
	if parts == nil {
		return version{}, badRequest("API Version String " + text + " is of invalid format. Must be of format MajorNum.MinorNum.")
	}
	minor, err := strconv.Atoi(parts[2])
	if err != nil || parts[1] != "2" || minor < minMinor || minor > maxMinor {
		return version{}, &requestError{http.StatusNotAcceptable, "computeFault", fmt.Sprintf(
			"Version %s is not supported by the API. Minimum is %s and maximum is %s.", text, version{minMinor}, version{maxMinor})}
	}
	return version{minor}, nil
}

// call is what is known of a request before its handler runs.
type call struct {
	id      simhttp.Identity
	version version
}

type callKey struct{}

func withCall(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(r *http.Request) call {
	c, _ := r.Context().Value(callKey{}).(call)
	return c
}

func versionBody(r *http.Request) map[string]any {
	scheme := "http"
	if forwarded := r.Header.Get("X-Forwarded-Proto"); forwarded == "https" || forwarded == "" && r.TLS != nil {
		scheme = "https"
	}
	mount := ""
	if path := r.URL.EscapedPath(); path == "/compute" || strings.HasPrefix(path, "/compute/") {
		mount = "/compute"
	}
	return map[string]any{
		"id": "v2.1", "status": "CURRENT", "updated": "2013-07-23T11:33:21Z",
		"version": version{maxMinor}.String(), "min_version": version{minMinor}.String(),
		"links": []map[string]string{{"rel": "self", "href": scheme + "://" + r.Host + mount + "/v2.1/"}},
	}
}

// getVersion answers the document of API 2.1.
func getVersion(w http.ResponseWriter, r *http.Request) {
	body := versionBody(r)
	body["media-types"] = []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}}
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"version": body})
}

// listVersions answers the list of APIs, of which there is one.
func listVersions(w http.ResponseWriter, r *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, map[string]any{"versions": []any{versionBody(r)}})
}
