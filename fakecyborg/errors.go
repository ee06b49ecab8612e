package fakecyborg

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// kind is the class of a refusal; the server turns it into a status.
type kind int

const (
	kindInvalid    kind = iota // 400
	kindNotFound               // 404
	kindForbidden              // 403
	kindVersion                // 406
	kindMediaType              // 415
	kindConflict               // 409
	kindUncoded                // 400, or upstream's 500 for an exception without a code
	kindBadState               // 409, or upstream's 500
	kindNoReferent             // 404, or upstream's 500
	kindServer                 // 500
)

// refusal is an error in Cyborg's own words.
type refusal struct {
	kind kind
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(k kind, format string, args ...any) error {
	return &refusal{kind: k, text: fmt.Sprintf(format, args...)}
}

func badPatch(format string, args ...any) error {
	return refuse(kindInvalid, "Couldn't apply patch. Reason: "+format, args...)
}

// status is the status of a refusal; quirks restores the exceptions to which
// upstream gives no status, so that they become 500.
func (r *refusal) status(quirks bool) int {
	switch r.kind {
	case kindNotFound:
		return http.StatusNotFound
	case kindForbidden:
		return http.StatusForbidden
	case kindVersion:
		return http.StatusNotAcceptable
	case kindMediaType:
		return http.StatusUnsupportedMediaType
	case kindConflict:
		return http.StatusConflict
	case kindServer:
		return http.StatusInternalServerError
	case kindInvalid:
		return http.StatusBadRequest
	}
	if quirks {
		return http.StatusInternalServerError
	}
	switch r.kind {
	case kindBadState:
		return http.StatusConflict
	case kindNoReferent:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// routingError is a refusal that is found before a handler runs: unacceptable version or
// media type. Unknown paths and wrong methods are answered in the same form.
type routingError struct {
	status int
	detail string
}

func (e *routingError) Error() string { return e.detail }

// writeError answers with a refusal of a handler: JSON within JSON, as WSME's
// fault becomes a string in the wrapper of upstream's parsable-error hook.
func (s *Server) writeError(c *simhttp.Call, err error) {
	var routing *routingError
	var general *simhttp.Error
	var r *refusal
	switch {
	case errors.Is(err, errUnresolved):
		writeWrapped(c.W, http.StatusLocked, "null")
	case errors.As(err, &routing):
		writeRouting(c, routing.status, routing.detail)
	case errors.As(err, &r):
		writeFault(c.W, r.status(s.cfg.UpstreamQuirks), err.Error())
	case !errors.As(err, &general):
		writeFault(c.W, http.StatusInternalServerError, err.Error())
	case general.Status == http.StatusUnauthorized:
		c.WriteUnauthorized(c.BaseURL())
	case general.Text == "":
		writeRouting(c, general.Status, "")
	default:
		writeFault(c.W, general.Status, strings.TrimSpace(general.Text+" "+general.Code))
	}
}

func writeFault(w http.ResponseWriter, status int, text string) {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	writeWrapped(w, status, jsonText(struct {
		Code  string  `json:"faultcode"`
		Text  string  `json:"faultstring"`
		Debug *string `json:"debuginfo"`
	}{code, text, nil}))
}

// writeWrapped puts a text into the outer error body.
func writeWrapped(w http.ResponseWriter, status int, text string) {
	simhttp.WriteJSON(w, status, struct {
		Message string `json:"error_message"`
	}{text})
}

// writeRouting answers an error that is found before a handler runs: unknown
// path, wrong method, unacceptable version. Its inner form follows Accept.
func writeRouting(c *simhttp.Call, status int, detail string) {
	accept := c.Header.Get("Accept")
	title := http.StatusText(status)
	switch {
	case strings.Contains(accept, "application/json"):
		writeWrapped(c.W, status, jsonText(struct {
			Code        int    `json:"code"`
			Title       string `json:"title"`
			Description string `json:"description"`
		}{status, title, detail}))
	case accept == "" || strings.Contains(accept, "html") || strings.Contains(accept, "*/*"):
		writeWrapped(c.W, status, fmt.Sprintf("<html>\n <head>\n  <title>%d %s</title>\n </head>\n <body>\n  <h1>%d %s</h1>\n  %s<br /><br />\n%s\n\n\n </body>\n</html>",
			status, title, status, title, explanation(status), html.EscapeString(detail)))
	default:
		writeWrapped(c.W, status, fmt.Sprintf("%d %s\n\n%s\n\n%s\n\n", status, title, explanation(status), detail))
	}
}

// explanation is webob's standing text for a status.
func explanation(status int) string {
	switch status {
	case http.StatusNotFound:
		return "The resource could not be found."
	case http.StatusMethodNotAllowed:
		return "The method is not allowed for this resource."
	case http.StatusNotAcceptable:
		return "The resource could not be generated that was acceptable to your browser (content of type text/plain)."
	}
	return ""
}

// jsonText encodes plain values, which cannot fail.
func jsonText(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
