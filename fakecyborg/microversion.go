package fakecyborg

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// The headers of the negotiation.
const (
	headerVersion = "OpenStack-API-Version"
	headerMinimum = "OpenStack-API-Minimum-Version"
	headerMaximum = "OpenStack-API-Maximum-Version"
	serviceType   = "accelerator"
)

// requestedMinor is the requested minor version, 0 for none. The error is a refusal; ranged reports
// whether it comes with the headers of the supported range.
func (r release) requestedMinor(h http.Header) (minor int, ranged bool, err error) {
	major, minor, err := r.requestedVersion(h)
	if err != nil {
		return 0, false, err
	}
	problem := ""
	switch {
	case major != 2:
		problem = fmt.Sprintf("Mutually exclusive versions requested. Version %d.%d requested but", major, minor)
	case minor < 0 || minor > r.MaxMinor:
		problem = fmt.Sprintf("Version %d.%d was requested but the minor version is", major, minor)
	default:
		return minor, true, nil
	}
	return 0, true, notAcceptable(
		fmt.Sprintf("%s not supported by this service. The supported version range is: [2.0, 2.%d].", problem, r.MaxMinor))
}

// requestedVersion reads the requested version as the release does (cyborg/api/controllers/base.py). A release that reads both
// forms refuses a header that names other services only, too: it reads it as a version alone. The others take any
// text without numbers for 2.0.
func (r release) requestedVersion(h http.Header) (major, minor int, err error) {
	named, alone := simhttp.RequestedVersion(h, serviceType), strings.Join(h.Values(headerVersion), ",")
	asked := map[headerForm]string{prefixed: named, bare: alone, eitherForm: cmp.Or(named, alone)}[r.RequestHeader]
	asked = strings.ToLower(strings.TrimSpace(asked))
	switch {
	case len(h.Values(headerVersion)) == 0, asked == "" && r.RequestHeader != eitherForm:
		return 2, 0, nil
	case asked == "latest":
		return 2, r.MaxMinor, nil
	}
	invalid := notAcceptable("Invalid value for OpenStack-API-Version header")
	if r.RequestHeader == eitherForm {
		before, after, _ := strings.Cut(asked, ".")
		major, err1 := store.ParseInteger(before)
		minor, err2 := store.ParseInteger(after)
		if err1 != nil || err2 != nil {
			return 0, 0, invalid
		}
		return major, minor, nil
	}
	var numbers []int
	for part := range strings.SplitSeq(asked, ".") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil {
			return 2, 0, nil
		}
		numbers = append(numbers, int(n))
	}
	if len(numbers) != 2 {
		return 0, 0, invalid
	}
	return numbers[0], numbers[1], nil
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
	if s.release.AnswerHeader == prefixed {
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
	v2 := s.document("v2", s.requestURL(c)+"/accelerator/v2")
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
