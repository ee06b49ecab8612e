package glance

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Config is what a Server can be told.
type Config struct {
	// Seed determines identifiers.
	Seed uint64
}

// Option changes how a Server works.
type Option func(*Server)

// WithClock sets the clock; the machine's by default.
func WithClock(clock sim.Clock) Option { return func(s *Server) { s.clock = clock } }

// WithFaults lets the rules of a set act on requests.
func WithFaults(faults *simhttp.Faults) Option {
	return func(s *Server) { s.service.Faults = faults }
}

// WithTokenVerifier checks tokens; without it the conventions of simhttp.NoAuth hold.
func WithTokenVerifier(v sim.TokenVerifier) Option { return func(s *Server) { s.verifier = v } }

// Server is the image service. It is an http.Handler for /image and the same without
// that prefix, and safe for parallel use.
type Server struct {
	clock    sim.Clock
	verifier sim.TokenVerifier
	service  *simhttp.Service
	ids      *simhttp.IDs

	mu     sync.RWMutex
	images []Image // oldest first
}

var _ http.Handler = (*Server)(nil)

// New returns a server without images.
func New(cfg Config, opts ...Option) *Server {
	s := &Server{clock: sim.Wall{}, ids: simhttp.NewIDs(cfg.Seed, "image")}
	s.service = &simhttp.Service{
		Name: "image", Prefixes: []string{"/image"},
		Canonical: func(path string) string { return strings.TrimRight(path, "/") },
		Router:    simhttp.NewRouter(simhttp.WithInputs(s.routes(), inputs())...), Handler: http.HandlerFunc(s.dispatch),
		WriteFault: func(w http.ResponseWriter, _ *http.Request, status int, code string) {
			writeError(w, status, strings.TrimSpace("injected fault "+code))
		},
		IDs: simhttp.NewIDs(cfg.Seed, "glance"), Refuse: refuseUnread,
	}
	for _, opt := range opts {
		opt(s)
	}
	s.service.Clock = s.clock
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.service.ServeHTTP(w, r) }

// Service is the server as the other simulators wrap themselves, for lists of routes.
func (s *Server) Service() *simhttp.Service { return s.service }

// Operations lists the names that fault rules may use, sorted.
func (s *Server) Operations() []string { return s.service.Router.Operations() }

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

// dispatch judges a request in Glance's order: token, path, method. The version
// documents need no token.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	match := simhttp.MatchOf(r)
	if match.Route != nil && match.Route.Operation == "image.versions.list" {
		match.Route.Handler(w, r)
		return
	}
	id, ok := simhttp.Identify(r, s.verifier)
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", base(r)))
		simhttp.WriteJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
			"code": http.StatusUnauthorized, "title": "Unauthorized", "message": "The request you have made requires authentication.",
		}})
	case match.Route == nil && len(match.Allowed) > 0:
		w.Header().Set("Allow", strings.Join(match.Allowed, ", "))
		writeError(w, http.StatusMethodNotAllowed, "The method "+r.Method+" is not allowed for this resource.")
	case match.Route == nil:
		writeError(w, http.StatusNotFound, "The resource could not be found.")
	default:
		match.Route.Handler(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	}
}

type identityKey struct{}

// caller is who sent the request.
func caller(r *http.Request) simhttp.Identity {
	id, _ := r.Context().Value(identityKey{}).(simhttp.Identity)
	return id
}

// writeError answers in Glance's HTML.
func writeError(w http.ResponseWriter, status int, text string) {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	body := fmt.Sprintf("<html>\n <head>\n  <title>%s</title>\n </head>\n <body>\n  <h1>%s</h1>\n  %s<br /><br />\n\n\n\n </body>\n</html>",
		title, title, html.EscapeString(text))
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the caller may be gone
}

// base is the root of the service as the client named it.
func base(r *http.Request) string {
	scheme := "http"
	if forwarded := r.Header.Get("X-Forwarded-Proto"); forwarded == "https" || forwarded == "" && r.TLS != nil {
		scheme = "https"
	}
	mount := ""
	if path := r.URL.EscapedPath(); path == "/image" || strings.HasPrefix(path, "/image/") {
		mount = "/image"
	}
	return scheme + "://" + r.Host + mount
}

// listVersions answers the list of APIs, of which there is one. Glance says 300 where no
// version was chosen.
func listVersions(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		simhttp.WriteJSON(w, status, map[string]any{"versions": []any{map[string]any{
			"id": "v2.9", "status": "CURRENT",
			"links": []map[string]string{{"rel": "self", "href": base(r) + "/v2/"}},
		}}})
	}
}
