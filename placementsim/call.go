package placementsim

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// call is one request on its way through an operation.
type call struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	identity simhttp.Identity
	version  version
	now      time.Time
}

// handle judges a request in the service's order: token, microversion, headers
// of the body, route, and then the operation's own guards.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if s.cors(w, r) {
		return
	}
	if accept := r.Header.Get("Accept"); accept == "" || accept == "*/*" {
		r.Header.Set("Accept", "application/json")
	}
	c := &call{server: s, w: w, r: r, now: s.clock.Now()}
	if !s.isRoot(r) {
		identity, known := simhttp.Identify(r, s.verifier)
		if !known {
			writeUnauthorized(w)
			return
		}
		c.identity = identity
	}
	v, refused := parseVersion(r.Header)
	if refused != nil {
		writeError(w, r, refused, false)
		return
	}
	c.version = v
	w.Header().Set(versionHeader, serviceType+" "+v.String())
	w.Header().Add("Vary", "openstack-api-version")
	if err := c.route(); err != nil {
		c.fail(err)
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

// route checks the body's headers, finds the operation and runs it.
func (c *call) route() error {
	if err := c.checkBodyHeaders(); err != nil {
		return err
	}
	match := simhttp.MatchOf(c.r)
	if match.Route == nil {
		if len(match.Allowed) == 0 {
			return &apiError{status: http.StatusNotFound}
		}
		return c.notAllowed(match.Allowed)
	}
	op := c.server.ops[match.Route.Operation]
	if err := c.guard(op); err != nil {
		return err
	}
	return op.handle(c)
}

func (c *call) notAllowed(allowed []string) error {
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &apiError{status: http.StatusMethodNotAllowed, text: "The method specified is not allowed for this resource."}
}

// checkBodyHeaders refuses a body of unknown type, whatever the route.
func (c *call) checkBodyHeaders() error {
	if text := c.r.Header.Get("Content-Length"); text != "" && !digits(text) {
		return badRequest("content-length header must be an integer")
	}
	if c.r.ContentLength > 0 && c.r.Header.Get("Content-Type") == "" {
		return badRequest("content-type header required when content-length > 0")
	}
	return nil
}

// guard judges microversion, media types and policy of an operation.
func (c *call) guard(op *operation) error {
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
	if op.answers && acceptQuality(c.r.Header.Get("Accept"), "application", "json") == 0 {
		return &apiError{status: http.StatusNotAcceptable, text: "Only application/json is provided"}
	}
	if op.maskLast {
		if err := c.mask(op); err != nil {
			return err
		}
	}
	if !c.allowed(op.rule) {
		return &apiError{status: http.StatusForbidden, text: "Policy does not allow this request to be performed."}
	}
	return nil
}

// mask hides an operation from microversions before its own.
func (c *call) mask(op *operation) error {
	if c.version >= op.since {
		return nil
	}
	return &apiError{status: cmp.Or(op.maskStatus, http.StatusNotFound)}
}

func (c *call) requireJSON() error {
	sent := c.r.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(sent)
	if err != nil {
		mediaType, _, _ = strings.Cut(sent, ";")
		mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	}
	if mediaType == "application/json" {
		return nil
	}
	if sent == "" {
		sent = "None"
	}
	return &apiError{status: http.StatusUnsupportedMediaType, text: "The media type " + sent + " is not supported, use application/json"}
}

// body reads the request body and checks it against a schema.
func (c *call) body(schema string) (any, error) {
	data, err := simhttp.ReadBody(c.r)
	switch {
	case errors.Is(err, simhttp.ErrBodyTooLarge):
		return nil, &apiError{status: http.StatusRequestEntityTooLarge, text: err.Error()}
	case err != nil:
		return nil, badRequest("Malformed JSON: " + err.Error())
	}
	value, err := decodeJSON(data)
	if err != nil {
		return nil, badRequest("Malformed JSON: " + err.Error())
	}
	if err := validate(schema, value); err != nil {
		return nil, badRequest("JSON does not validate: " + err.Error())
	}
	return value, nil
}

// modified sets the caching headers that exist from microversion 1.15 on.
func (c *call) modified(at time.Time) {
	if c.version >= 15 {
		c.w.Header().Set("Cache-Control", "no-cache")
		c.w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	}
}

// location names a new or existing entity, as an absolute URL.
func (c *call) location(path string) {
	scheme := "http"
	if c.r.TLS != nil || c.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	c.w.Header().Set("Location", scheme+"://"+c.r.Host+c.server.prefix+path)
}

func (c *call) json(status int, value any) error {
	writeJSON(c.w, status, value)
	return nil
}

func (c *call) empty(status int) error {
	simhttp.WriteEmpty(c.w, status)
	return nil
}

// writeJSON answers with JSON in which <, > and & are written as they are, as
// Python does: callers search error texts for them.
func writeJSON(w http.ResponseWriter, status int, value any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBytes(w, status, "application/json", bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

func writeText(w http.ResponseWriter, status int, contentType, text string) {
	writeBytes(w, status, contentType, []byte(text))
}

func writeBytes(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller may be gone
}
