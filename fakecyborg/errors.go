package fakecyborg

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/pythonjson"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/webob"
)

// routingError is a refusal that is found before a handler runs: unacceptable version or media
// type. Unknown paths and wrong methods are answered in the same form.
type routingError struct {
	status int
	text   string
}

// Error implements error.
func (e *routingError) Error() string { return e.text }

func notAcceptable(text string) error { return &routingError{http.StatusNotAcceptable, text} }

// writeError answers with a refusal of a handler. Upstream's parsable-error hook wraps WSME's fault, as
// JSON or as a text that holds JSON.
func (s *Server) writeError(c *simhttp.Call, err error) {
	var routing *routingError
	var refusal *store.Refusal
	e := simhttp.AsError(err)
	switch {
	case errors.Is(err, errUnresolved):
		s.writeWrapped(c.W, http.StatusLocked, "null")
	case errors.As(err, &routing):
		s.writeRouting(c, routing.status, routing.text)
	case errors.As(err, new(wrongScope)):
		s.writeWrapped(c.W, http.StatusForbidden, faultText("Server", err.Error()))
	case errors.As(err, &refusal):
		s.writeFault(c.W, refusal.Kind.Status(s.cfg.UpstreamQuirks), e.Text)
	case e.Status == http.StatusUnauthorized:
		c.WriteUnauthorized(s.authURI(c))
	case e.Text == "":
		s.writeRouting(c, e.Status, "")
	default:
		s.writeFault(c.W, e.Status, strings.TrimSpace(e.Text+" "+e.Code))
	}
}

// authURI returns the address of Keystone: the verifier's, if it has one, or else the address of
// the server, which is then part of a cloud.
func (s *Server) authURI(c *simhttp.Call) string {
	if v, ok := s.verifier.(interface{ AuthURI() string }); ok {
		return v.AuthURI()
	}
	return c.BaseURL()
}

func (s *Server) writeFault(w http.ResponseWriter, status int, text string) {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	s.writeWrapped(w, status, faultText(code, text))
}

// faultText is WSME's fault.
func faultText(code, text string) string {
	return fmt.Sprintf(`{"faultcode": "%s", "faultstring": %s, "debuginfo": null}`, code, pythonjson.Text(text))
}

// writeWrapped puts JSON into the outer error body, as Python writes it: clients show it as a text.
func (s *Server) writeWrapped(w http.ResponseWriter, status int, inner string) {
	if s.release.ErrorMessage == errorObject {
		writeMessage(w, status, json.RawMessage(inner))
		return
	}
	writeMessage(w, status, inner)
}

func writeMessage(w http.ResponseWriter, status int, message any) {
	simhttp.WriteJSON(w, status, struct {
		Message any `json:"error_message"`
	}{message})
}

// writeRouting answers an error that is found before a handler runs: unknown
// path, wrong method, unacceptable version. Its inner form follows Accept, as webob's errors do.
func (s *Server) writeRouting(c *simhttp.Call, status int, detail string) {
	accept, page := c.Header.Get("Accept"), webob.Page{Request: c.Request, Status: status, Detail: detail, NoHeader: "${HTTP_ACCEPT}"}
	switch {
	case strings.Contains(accept, "application/json"):
		title := pythonjson.Text(http.StatusText(status))
		s.writeWrapped(c.W, status, fmt.Sprintf(`{"code": %d, "title": %s, "description": %s}`, status, title, pythonjson.Text(detail)))
	case strings.Contains(accept, "html") || strings.Contains(accept, "*/*"):
		writeMessage(c.W, status, page.HTML())
	default:
		writeMessage(c.W, status, page.Plain())
	}
}
