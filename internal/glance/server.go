package glance

import (
	"cmp"
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
	// Faults are the rules that act on requests; nil means no rules.
	Faults *fault.Set
	// Verifier checks tokens; if nil, callers identify themselves (simhttp.Call.Authenticate).
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
	cfg.Clock = cmp.Or[sim.Clock](cfg.Clock, simhttp.Wall{})
	s := &Server{cfg: cfg, state: newState()}
	s.Service = &simhttp.Service{
		Name: "image", Prefixes: []string{"/image"},
		Canonical: func(path string) string { return strings.TrimRight(path, "/") },
		Router:    simhttp.NewRouter(s.routes()...), Handler: s.serve,
		WriteError: writeError, Clock: cfg.Clock, Verifier: cfg.Verifier, Faults: cfg.Faults, IDs: simhttp.NewIDs(cfg.Seed, "glance"),
	}
	return s
}

// routes says what each operation reads. In a list every key is a field or a property to search
// by, except Glance's sort keys, which are ignored here. In an image every member is a field or a
// property.
func (s *Server) routes() []simhttp.Route {
	const (
		get   = http.MethodGet
		image = "/v2/images/{id}"
	)
	list := simhttp.Input{Query: []string{"*", "!sort", "!sort_key", "!sort_dir", "!member_status"}}
	create := simhttp.Input{Body: []string{"*"}}
	update := simhttp.Input{Body: []string{"[].op", "[].path", "[].value", "[].add", "[].remove", "[].replace"}}
	return []simhttp.Route{
		{Operation: fault.ImageVersionsList, Method: get, Pattern: "", Handler: listVersions(http.StatusMultipleChoices)},
		{Operation: fault.ImageVersionsList, Method: get, Pattern: "/versions", Handler: listVersions(http.StatusOK)},
		{Operation: fault.ImageVersionsList, Method: get, Pattern: "/v2", Handler: listVersions(http.StatusMultipleChoices)},
		{Operation: fault.ImageList, Method: get, Pattern: "/v2/images", Handler: s.listImages, Input: list},
		{Operation: fault.ImageCreate, Method: http.MethodPost, Pattern: "/v2/images", Handler: s.createImage, Input: create},
		{Operation: fault.ImageGet, Method: get, Pattern: image, Handler: s.getImage},
		{Operation: fault.ImageUpdate, Method: http.MethodPatch, Pattern: image, Handler: s.patchImage, Input: update},
		{Operation: fault.ImageDelete, Method: http.MethodDelete, Pattern: image, Handler: s.deleteImage},
		{Operation: fault.ImageTagPut, Method: http.MethodPut, Pattern: image + "/tags/{tag}", Handler: s.putTag},
		{Operation: fault.ImageTagDelete, Method: http.MethodDelete, Pattern: image + "/tags/{tag}", Handler: s.deleteTag},
		{Operation: fault.ImageFileGet, Method: get, Pattern: image + "/file", Handler: s.getFile},
		{Operation: fault.ImageFilePut, Method: http.MethodPut, Pattern: image + "/file", Handler: s.putFile, Input: simhttp.Input{Data: true}},
		{Operation: fault.ImageSchemaGet, Method: get, Pattern: "/v2/schemas/image", Handler: getSchema},
	}
}

// serve checks a call in Glance's order: token, path, method. The version documents need
// no token.
func (s *Server) serve(c *simhttp.Call) error {
	if c.Route == nil || c.Route.Operation != fault.ImageVersionsList {
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
		title, title, html.EscapeString(text)) // the caller may have disconnected
}

// listVersions answers the list of APIs, which has one entry. Glance answers 300 if no version was chosen.
func listVersions(status int) simhttp.Handler {
	return func(c *simhttp.Call) error {
		return c.JSON(status, map[string]any{"versions": []any{map[string]any{
			"id": "v2.9", "status": "CURRENT",
			"links": []map[string]string{{"rel": "self", "href": c.BaseURL() + c.Mount + "/v2/"}},
		}}})
	}
}
