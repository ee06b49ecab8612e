package fakecyborg

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/pythonjson"
	"github.com/gocyborg/gocyborg/internal/simhttp"
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
	accept, title := c.Header.Get("Accept"), http.StatusText(status)
	switch {
	case strings.Contains(accept, "application/json"):
		s.writeWrapped(c.W, status, fmt.Sprintf(`{"code": %d, "title": %s, "description": %s}`, status, pythonjson.Text(title), pythonjson.Text(detail)))
	case strings.Contains(accept, "html") || strings.Contains(accept, "*/*"):
		writeMessage(c.W, status, fmt.Sprintf("<html>\n <head>\n  <title>%d %s</title>\n </head>\n <body>\n  <h1>%d %s</h1>\n  %s\n </body>\n</html>",
			status, title, status, title, explanation(c.Request, status, html.EscapeString(detail))))
	default:
		text := strings.NewReplacer("\n", " ", "<br />", "\n").Replace(explanation(c.Request, status, detail))
		writeMessage(c.W, status, fmt.Sprintf("%d %s\n\n%s", status, title, text))
	}
}

// explanation is webob's text for a status, which quotes the request.
func explanation(r *http.Request, status int, detail string) string {
	switch status {
	case http.StatusMethodNotAllowed:
		return "The method " + r.Method + " is not allowed for this resource. <br /><br />\n" + detail
	case http.StatusNotAcceptable:
		return "The resource could not be generated that was acceptable to your browser\n(content of type " + cmp.Or(r.Header.Get("Accept"), "${HTTP_ACCEPT}") + ". <br /><br />\n" + detail
	}
	text := "The resource could not be found."
	if status == http.StatusBadRequest {
		text = "The server could not comply with the request since it is either malformed or otherwise incorrect."
	}
	return text + "<br /><br />\n" + detail + "\n\n"
}
