package glance

import (
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Config is the configuration of a Server.
type Config struct {
	// Seed determines identifiers.
	Seed uint64
	// Clock is the machine's if nil.
	Clock sim.Clock
	// Faults are the rules that act on requests; nil has none.
	Faults *fault.Set
	// Verifier checks tokens; if nil, the conventions of simhttp.NoAuth hold.
	Verifier sim.TokenVerifier
}

// Server is the image service. It is an http.Handler for /image and the same without
// that prefix, and safe for parallel use.
type Server struct {
	*simhttp.Service
	cfg   Config
	state state
}

var _ http.Handler = (*Server)(nil)

// New returns a server without images.
func New(cfg Config) *Server {
	if cfg.Clock == nil {
		cfg.Clock = sim.Wall{}
	}
	s := &Server{cfg: cfg, state: newState()}
	s.Service = &simhttp.Service{
		Name: "image", Prefixes: []string{"/image"},
		Canonical: func(path string) string { return strings.TrimRight(path, "/") },
		Router:    simhttp.NewRouter(simhttp.WithInputs(s.routes(), inputs())...), Handler: s.serve,
		WriteError: writeError, Clock: cfg.Clock, Faults: cfg.Faults, IDs: simhttp.NewIDs(cfg.Seed, "glance"),
	}
	return s
}

func (s *Server) routes() []simhttp.Route {
	return []simhttp.Route{
		{Operation: "image.versions.list", Method: http.MethodGet, Pattern: "", Handler: listVersions(http.StatusMultipleChoices)},
		{Operation: "image.versions.list", Method: http.MethodGet, Pattern: "/versions", Handler: listVersions(http.StatusOK)},
		{Operation: "image.versions.list", Method: http.MethodGet, Pattern: "/v2", Handler: listVersions(http.StatusMultipleChoices)},
		{Operation: "image.image.list", Method: http.MethodGet, Pattern: "/v2/images", Handler: s.listImages},
		{Operation: "image.image.create", Method: http.MethodPost, Pattern: "/v2/images", Handler: s.createImage},
		{Operation: "image.image.get", Method: http.MethodGet, Pattern: "/v2/images/{id}", Handler: s.getImage},
		{Operation: "image.image.update", Method: http.MethodPatch, Pattern: "/v2/images/{id}", Handler: s.patchImage},
		{Operation: "image.image.delete", Method: http.MethodDelete, Pattern: "/v2/images/{id}", Handler: s.deleteImage},
		{Operation: "image.file.get", Method: http.MethodGet, Pattern: "/v2/images/{id}/file", Handler: s.getFile},
		{Operation: "image.file.put", Method: http.MethodPut, Pattern: "/v2/images/{id}/file", Handler: s.putFile},
		{Operation: "image.schema.get", Method: http.MethodGet, Pattern: "/v2/schemas/image", Handler: getSchema},
	}
}

// serve checks a call in Glance's order: token, path, method. The version documents need
// no token.
func (s *Server) serve(c *simhttp.Call) error {
	if c.Route == nil || c.Route.Operation != "image.versions.list" {
		if err := c.Authenticate(s.cfg.Verifier); err != nil {
			return err
		}
	}
	return c.Dispatch()
}

// writeError answers in Glance's HTML. A 401 is that of keystonemiddleware in front of it.
func writeError(c *simhttp.Call, err error) {
	e := simhttp.AsError(err)
	text := strings.TrimSpace(e.Text + " " + e.Code)
	switch {
	case e.Status == http.StatusUnauthorized:
		c.WriteUnauthorized(c.BaseURL() + c.Mount)
		return
	case text == "" && e.Status == http.StatusNotFound:
		text = "The resource could not be found."
	case text == "" && e.Status == http.StatusMethodNotAllowed:
		text = "The method " + c.Method + " is not allowed for this resource."
	}
	title := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	c.W.Header().Set("Content-Type", "text/html; charset=UTF-8")
	c.W.WriteHeader(e.Status)
	_, _ = fmt.Fprintf(c.W, "<html>\n <head>\n  <title>%s</title>\n </head>\n <body>\n  <h1>%s</h1>\n  %s<br /><br />\n\n\n\n </body>\n</html>",
		title, title, html.EscapeString(text)) // the caller may be gone
}

// listVersions answers the list of APIs, of which there is one. Glance says 300 where no
// version was chosen.
func listVersions(status int) simhttp.Handler {
	return func(c *simhttp.Call) error {
		return c.JSON(status, map[string]any{"versions": []any{map[string]any{
			"id": "v2.9", "status": "CURRENT",
			"links": []map[string]string{{"rel": "self", "href": c.BaseURL() + c.Mount + "/v2/"}},
		}}})
	}
}
