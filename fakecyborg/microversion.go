package fakecyborg

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// The headers of the negotiation.
const (
	headerVersion = "OpenStack-API-Version"
	headerMinimum = "OpenStack-API-Minimum-Version"
	headerMaximum = "OpenStack-API-Maximum-Version"
	serviceType   = "accelerator"
)

// versionNumber is the form of a microversion.
var versionNumber = regexp.MustCompile(`^([1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

// requestedMinor is the requested minor version, 0 for none. The error is a refusal; ranged reports
// whether it comes with the headers of the supported range. A release that checks versions
// refuses a header that names other services only, too: it reads it with the deprecated parser,
// which takes a version alone.
func (r release) requestedMinor(h http.Header) (minor int, ranged bool, err error) {
	highest, text := r.MaxMinor, simhttp.RequestedVersion(h, serviceType)
	if text == "" && r.ChecksVersion {
		text = strings.Join(h.Values(headerVersion), ",")
	}
	text = strings.ToLower(strings.TrimSpace(text))
	switch text {
	case "":
		return 0, true, nil
	case "latest":
		return highest, true, nil
	}
	switch readable := versionNumber.MatchString(text); {
	case !readable && !r.ChecksVersion:
		return 0, true, nil
	case !readable:
		return 0, false, notAcceptable("Invalid value for OpenStack-API-Version header")
	}
	problem := ""
	major, minor, _ := simhttp.ParseVersion(text)
	switch {
	case major != 2:
		problem = fmt.Sprintf("Mutually exclusive versions requested. Version %s requested but", text)
	case minor > highest:
		problem = fmt.Sprintf("Version %s was requested but the minor version is", text)
	default:
		return minor, true, nil
	}
	return 0, true, notAcceptable(
		fmt.Sprintf("%s not supported by this service. The supported version range is: [2.0, 2.%d].", problem, highest))
}

// negotiate sets the version headers and the minor version, or refuses with 406.
func (s *Server) negotiate(c *simhttp.Call) error {
	minor, ranged, err := s.release.requestedMinor(c.Header)
	if ranged {
		c.W.Header().Set("Vary", headerVersion)
		c.W.Header().Set(headerMinimum, "2.0")
		c.W.Header().Set(headerMaximum, fmt.Sprintf("2.%d", s.release.MaxMinor))
	}
	if err != nil {
		return err
	}
	c.Minor = minor
	served := fmt.Sprintf("2.%d", minor)
	if s.release.NamesService {
		served = serviceType + " " + served
	}
	c.W.Header().Set(headerVersion, served)
	return nil
}

// clearVersion removes the headers again: an unknown path is answered before
// upstream's version hook could set them.
func clearVersion(h http.Header) {
	for _, name := range []string{"Vary", headerVersion, headerMinimum, headerMaximum} {
		h.Del(name)
	}
}

// versionDocument is the description of API v2, bare as upstream answers it.
type versionDocument struct {
	ID     string `json:"id"`
	Links  []link `json:"links"`
	Max    string `json:"max_version"`
	Min    string `json:"min_version"`
	Status string `json:"status"`
}

func (s *Server) document(id, href string) versionDocument {
	return versionDocument{
		ID: id, Links: []link{{href, "self"}},
		Max: fmt.Sprintf("2.%d", s.release.MaxMinor), Min: "2.0", Status: "CURRENT",
	}
}

// getRoot lists the versions. Its links never use the configured endpoint, and
// name the version v2 where the version's own document says v2.0.
func (s *Server) getRoot(c *simhttp.Call) error {
	v2 := s.document("v2", c.BaseURL()+"/accelerator/v2")
	return c.JSON(http.StatusOK, struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Versions    []versionDocument `json:"versions"`
		Default     versionDocument   `json:"default_version"`
	}{
		Name: "OpenStack Cyborg API",
		Description: "Cyborg is the OpenStack project for lifecycle management of hardware accelerators," +
			" such as GPUs,FPGAs, AI chips, security accelerators, etc.",
		Versions: []versionDocument{v2}, Default: v2,
	})
}

func (s *Server) getVersion(c *simhttp.Call) error {
	return c.JSON(http.StatusOK, s.document("v2.0", s.links(c).base+"/accelerator/v2/"))
}
