package placementsim

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// call is one request on its way through an operation.
type call struct {
	*simhttp.Call
	server  *Server
	version version
	now     time.Time
}

// PathValue is the value of a variable of the path. As in WSGI, each of its bytes is a character.
func (c *call) PathValue(name string) string {
	value := c.Call.PathValue(name)
	if !strings.ContainsFunc(value, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return value
	}
	var b strings.Builder
	for i := range len(value) {
		b.WriteRune(rune(value[i]))
	}
	return b.String()
}

// varyByVersion is the header by which an answer depends on the microversion.
const varyByVersion = "openstack-api-version"

// serve checks a request in the service's order: token, microversion, headers
// of the body, route, and then the operation's own guards.
func (s *Server) serve(c *simhttp.Call) error {
	if s.cors(c) {
		return c.Empty(http.StatusOK)
	}
	if accept := c.Header.Get("Accept"); accept == "" || accept == "*/*" {
		c.Header.Set("Accept", "application/json")
	}
	if !s.isRoot(c.Request) {
		if err := c.Authenticate(s.service.Verifier); err != nil {
			return err
		}
	}
	v, err := parseVersion(c.Header)
	if err != nil {
		return err
	}
	c.Minor = int(v)
	c.W.Header().Set(versionHeader, serviceType+" "+v.String())
	c.W.Header().Add("Vary", varyByVersion)
	if err := checkBodyHeaders(c); err != nil {
		return escaped{err}
	}
	if c.Route == nil && len(c.Allowed) == 0 {
		return escaped{&simhttp.Error{Status: http.StatusNotFound}}
	}
	return c.Dispatch()
}

// handler runs an operation behind its guards.
func (s *Server) handler(op operation) simhttp.Handler {
	return func(sent *simhttp.Call) error {
		c := &call{Call: sent, server: s, version: version(sent.Minor), now: s.now()}
		if err := c.guard(op); err != nil {
			return err
		}
		return op.handle(c)
	}
}

// isRoot reports whether the request is for the version document, the one path
// that needs no token.
func (s *Server) isRoot(r *http.Request) bool {
	path := r.URL.Path
	if s.prefix != "" && path != "/" {
		rest, found := strings.CutPrefix(path, s.prefix)
		return found && (rest == "" || rest == "/")
	}
	return path == "/"
}

// checkBodyHeaders refuses a body of unknown type on every route.
func checkBodyHeaders(c *simhttp.Call) error {
	if text := c.Header.Get("Content-Length"); text != "" && !digits(text) {
		return badRequest("content-length header must be an integer")
	}
	if c.ContentLength > 0 && c.Header.Get("Content-Type") == "" {
		return badRequest("content-type header required when content-length > 0")
	}
	return nil
}

// guard checks microversion, media types and policy of an operation.
func (c *call) guard(op operation) error {
	if !op.maskLast {
		if err := c.mask(op); err != nil {
			return err
		}
	}
	if op.reads && (op.bodyUntil == 0 || c.version < op.bodyUntil) {
		if err := c.requireJSON(); err != nil {
			return err
		}
	}
	if op.answers && readAccept(c.Header.Get("Accept")).quality("application", "json") == 0 {
		return &simhttp.Error{Status: http.StatusNotAcceptable, Text: "Only application/json is provided"}
	}
	if op.maskLast {
		if err := c.mask(op); err != nil {
			return err
		}
	}
	return c.authorize(op)
}

// mask hides an operation from microversions before its own.
func (c *call) mask(op operation) error {
	if c.version >= op.since {
		return nil
	}
	return &simhttp.Error{Status: cmp.Or(op.maskStatus, http.StatusNotFound)}
}

func (c *call) requireJSON() error {
	mediaType, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";")
	if mediaType == "application/json" {
		return nil
	}
	return &simhttp.Error{Status: http.StatusUnsupportedMediaType, Text: "The media type " + cmp.Or(mediaType, "None") + " is not supported, use application/json"}
}

// body reads a request body that is an object of the schema of a name.
func (c *call) body(name string) (*schema.Object, error) {
	value, err := c.anyBody(name)
	return object(value), err
}

// bodyAbout is body for a request about a provider, whose absence is reported first.
func (c *call) bodyAbout(provider, name string) (*schema.Object, error) {
	if _, err := c.server.state.Inspect(provider); err != nil {
		return nil, err
	}
	return c.body(name)
}

// generationIn returns the generation of the provider in a body.
func generationIn(body *schema.Object) *int {
	generation := int(integer(body.Get("resource_provider_generation")))
	return &generation
}

// anyBody reads a request body and checks it against the schema of a name.
func (c *call) anyBody(name string) (any, error) {
	data, err := simhttp.ReadBody(c.Request)
	switch {
	case errors.Is(err, simhttp.ErrBodyTooLarge):
		return nil, &simhttp.Error{Status: http.StatusRequestEntityTooLarge, Text: err.Error()}
	case err != nil:
		return nil, badRequest("Malformed JSON: " + err.Error())
	}
	value, err := c.server.release.python.Decode(data)
	if err != nil {
		return nil, badRequest("Malformed JSON: " + err.Error())
	}
	if err := c.server.schemas.Validate(name, value); err != nil {
		return nil, badRequest("JSON does not validate: " + err.Error())
	}
	return value, nil
}

// sinceCacheHeaders is the microversion that added caching headers.
const sinceCacheHeaders version = 15

// noCache sets the caching header of an answer without a time.
func (c *call) noCache() {
	if c.version >= sinceCacheHeaders {
		c.W.Header().Set("Cache-Control", "no-cache")
	}
}

// modified sets the caching headers with the latest of the times, or with the present time without any.
func (c *call) modified(times ...time.Time) {
	if c.version < sinceCacheHeaders {
		return
	}
	at := c.now
	if len(times) > 0 {
		at = slices.MaxFunc(times, time.Time.Compare)
	}
	c.noCache()
	c.W.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
}

// done answers 204, or returns the error of a transition.
func (c *call) done(err error) error {
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}

// location names a new or existing entity, as an absolute URL.
func (c *call) location(path string) { c.W.Header().Set("Location", c.BaseURL()+c.server.prefix+path) }

func writeText(w http.ResponseWriter, status int, contentType, text string) {
	simhttp.WriteBody(w, status, contentType, []byte(text))
}
