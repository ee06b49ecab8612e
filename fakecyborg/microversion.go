package fakecyborg

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
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

// versionNumber is a microversion as the header may give it.
var versionNumber = regexp.MustCompile(`^([1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

// versionRefusal is a 406 with its text; ranged ones tell the supported range
// in headers.
type versionRefusal struct {
	text   string
	ranged bool
}

// parseVersion reads the header's value: "accelerator 2.N" or "accelerator
// latest", alone or in a list with other services, and the deprecated form
// without the service type. Nothing means 2.0.
func parseVersion(value string, maxMinor int) (minor int, bad *versionRefusal) {
	text := strings.ToLower(versionText(value))
	switch text {
	case "":
		return 0, nil
	case "latest":
		return maxMinor, nil
	}
	match := versionNumber.FindStringSubmatch(text)
	if match == nil {
		return 0, &versionRefusal{text: "Invalid value for OpenStack-API-Version header"}
	}
	supported := fmt.Sprintf("supported by this service. The supported version range is: [2.0, 2.%d].", maxMinor)
	minor, err := strconv.Atoi(match[2])
	switch {
	case match[1] != "2":
		return 0, &versionRefusal{fmt.Sprintf("Mutually exclusive versions requested. Version %s requested but not %s", text, supported), true}
	case err != nil || minor > maxMinor:
		return 0, &versionRefusal{fmt.Sprintf("Version %s was requested but the minor version is not %s", text, supported), true}
	}
	return minor, nil
}

// versionText is the version meant for this service. A value that names other
// services only is judged as a whole, and so is refused: upstream falls back to
// the deprecated parser.
func versionText(value string) string {
	for entry := range strings.SplitSeq(value, ",") {
		service, version, found := strings.Cut(strings.TrimSpace(entry), " ")
		if found && strings.EqualFold(service, serviceType) {
			return strings.TrimSpace(version)
		}
	}
	return strings.TrimSpace(value)
}

// negotiate sets the version headers and the minor version, or refuses with 406.
func (s *Server) negotiate(c *simhttp.Call) error {
	highest := s.cfg.maxMinor()
	minor, bad := parseVersion(strings.Join(c.Header.Values(headerVersion), ","), highest)
	if bad != nil && !bad.ranged && s.cfg.zed() {
		minor, bad = 0, nil // older releases take what they cannot read for nothing
	}
	if bad == nil || bad.ranged {
		c.W.Header().Set("Vary", headerVersion)
		c.W.Header().Set(headerMinimum, "2.0")
		c.W.Header().Set(headerMaximum, fmt.Sprintf("2.%d", highest))
	}
	if bad != nil {
		return &routingError{http.StatusNotAcceptable, bad.text}
	}
	c.Minor = minor
	c.W.Header().Set(headerVersion, fmt.Sprintf("%s 2.%d", serviceType, minor))
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
		Max: fmt.Sprintf("2.%d", s.cfg.maxMinor()), Min: "2.0", Status: "CURRENT",
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
	return c.JSON(http.StatusOK, s.document("v2.0", s.linksOf(c).base+"/accelerator/v2/"))
}
