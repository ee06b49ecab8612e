package placementsim

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// accept is what an Accept header accepts.
type accept []mediaRange

// mediaRange is a type such as text/html, text/* or */*, in lower case, with its quality from 0 (not accepted) to 1.
type mediaRange struct {
	name    string
	quality float64
}

const (
	token       = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	tokenOrText = "(?:" + token + `|"(?:[\t !#-\[\]-~\x{80}-\x{ff}]|\\[\t -~\x{80}-\x{ff}])*")`
)

var (
	mediaName   = regexp.MustCompile("^" + token + "/" + token + "$")
	mediaParam  = regexp.MustCompile("^" + token + "=" + tokenOrText + "$")
	mediaWeight = regexp.MustCompile(`^[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$`)
	acceptExt   = regexp.MustCompile("^" + token + "(?:=" + tokenOrText + ")?$")
)

// readAccept reads an Accept header as the service's library does. A range with a parameter is valid and accepts nothing that is
// offered here; a malformed header accepts everything.
func readAccept(header string) accept {
	everything := accept{{"*/*", 1}}
	var a accept
	for entry := range strings.SplitSeq(header, ",") {
		if entry = strings.Trim(entry, " \t"); entry == "" {
			continue
		}
		name, rest, more := strings.Cut(entry, ";")
		r := mediaRange{strings.ToLower(strings.TrimRight(name, " \t")), 1}
		if !mediaName.MatchString(r.name) {
			return everything
		}
		weighed, offered := false, true
		for param := ""; more; {
			param, rest, more = strings.Cut(rest, ";")
			param = strings.Trim(param, " \t")
			weight := mediaWeight.FindStringSubmatch(param)
			switch {
			case weighed && acceptExt.MatchString(param):
			case !weighed && weight != nil:
				weighed = true
				r.quality, _ = strconv.ParseFloat(strings.TrimSuffix(weight[1], "."), 64) // its form was checked
			case !weighed && mediaParam.MatchString(param) && !strings.EqualFold(param[:2], "q="):
				offered = false
			default:
				return everything
			}
		}
		if offered {
			a = append(a, r)
		}
	}
	return a
}

// quality returns the quality of a media type, from 0 (not accepted) to 1. The most specific range counts.
func (a accept) quality(mainType, subType string) float64 {
	for _, name := range []string{mainType + "/" + subType, mainType + "/*", "*/*"} {
		if i := slices.IndexFunc(a, func(r mediaRange) bool { return r.name == name }); i >= 0 {
			return a[i].quality
		}
	}
	return 0
}

// errorType is the media type of an error's answer.
func errorType(r *http.Request) string {
	header := r.Header.Get("Accept")
	if header == "" {
		return "application/json"
	}
	accepted := readAccept(header)
	asHTML, asJSON := accepted.quality("text", "html"), accepted.quality("application", "json")
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
	major, minor, err := readVersion(text)
	if err != nil {
		return 0, err
	}
	if major != 1 || minor < int64(minVersion) || minor > int64(maxVersion) {
		return 0, &simhttp.Error{Status: http.StatusNotAcceptable, Text: "Invalid microversion: Unacceptable version header: " + text, Code: versionRange}
	}
	return version(minor), nil
}

// readVersion reads the two numbers of a microversion, as Python's int reads numbers.
func readVersion(text string) (major, minor int64, err error) {
	malformed := func(reason string) (int64, int64, error) {
		return 0, 0, badRequest("Invalid microversion: invalid version string: " + text + "; " + reason)
	}
	numbers := make([]int64, 0, 2)
	for _, part := range strings.SplitN(text, ".", 2) {
		n, ok := schema.ParseInt(part)
		if !ok {
			return malformed("invalid literal for int() with base 10: " + schema.Repr(part))
		}
		numbers = append(numbers, integer(n))
	}
	if len(numbers) < 2 {
		return malformed("Version.__new__() missing 1 required positional argument: 'minor'")
	}
	return numbers[0], numbers[1], nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
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
