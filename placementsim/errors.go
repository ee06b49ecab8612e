package placementsim

import (
	"errors"
	"html"
	"net/http"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// The error codes of the service, sent from microversion 1.23.
const (
	codeUndefined          = "placement.undefined_code"
	codeConcurrentUpdate   = "placement.concurrent_update"
	codeInventoryInUse     = "placement.inventory.inuse"
	codeDuplicateName      = "placement.duplicate_name"
	codeProviderInUse      = "placement.resource_provider.inuse"
	codeCannotDeleteParent = "placement.resource_provider.cannot_delete_parent"
	codeProviderNotFound   = "placement.resource_provider.not_found"
	codeDuplicateKey       = "placement.query.duplicate_key"
	codeBadValue           = "placement.query.bad_value"
	codeMissingValue       = "placement.query.missing_value"
)

// sinceErrorCode is the microversion that added code to error bodies.
const sinceErrorCode version = 23

// apiError is an answer in the service's error dialect.
type apiError struct {
	status   int
	code     string // empty: codeUndefined
	text     string // the specific part of the detail
	versions bool   // tells the supported versions, and no code
}

// Error implements error.
func (e *apiError) Error() string { return e.text }

func badRequest(text string) *apiError { return &apiError{status: http.StatusBadRequest, text: text} }

func badQuery(text string) *apiError {
	return badRequest("Invalid query string parameters: " + text)
}

// fromEngine turns a refused transition into an answer.
func fromEngine(e *engine.Error) *apiError {
	answer := &apiError{status: http.StatusConflict, text: e.Text}
	switch e.Kind {
	case engine.ErrNotFound:
		answer.status = http.StatusNotFound
	case engine.ErrConflict:
	case engine.ErrConcurrentUpdate:
		answer.code = codeConcurrentUpdate
	case engine.ErrInventoryInUse:
		answer.code = codeInventoryInUse
	case engine.ErrDuplicateName:
		answer.code = codeDuplicateName
	case engine.ErrProviderInUse:
		answer.code = codeProviderInUse
	case engine.ErrParentInUse:
		answer.code = codeCannotDeleteParent
	default:
		answer.status = http.StatusBadRequest
	}
	return answer
}

// prefixed puts words before the text of a refused transition of a kind.
func prefixed(err error, kind error, prefix string) error {
	var refused *engine.Error
	if !errors.As(err, &refused) || !errors.Is(err, kind) {
		return err
	}
	return &engine.Error{Kind: refused.Kind, Text: prefix + refused.Text, Names: refused.Names}
}

// fail answers an error.
func (c *call) fail(err error) {
	var refused *engine.Error
	var answer *apiError
	switch {
	case errors.As(err, &answer):
	case errors.As(err, &refused):
		answer = fromEngine(refused)
	default:
		answer = &apiError{status: http.StatusInternalServerError, text: err.Error()}
	}
	writeError(c.w, c.r, answer, c.version >= sinceErrorCode)
}

// writeFault answers an injected failure.
func (s *Server) writeFault(w http.ResponseWriter, r *http.Request, status int, code string) {
	v, refused := parseVersion(r.Header)
	if refused == nil {
		w.Header().Set(versionHeader, serviceType+" "+v.String())
	}
	writeError(w, r, &apiError{status: status, code: code, text: "injected fault"}, v >= sinceErrorCode)
}

type errorBody struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	RequestID  string `json:"request_id"`
	MaxVersion string `json:"max_version,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
}

// writeError answers in the representation that the caller accepts.
func writeError(w http.ResponseWriter, r *http.Request, e *apiError, withCode bool) {
	detail := explanation(r, e) + "\n\n " + e.text + "  "
	title := http.StatusText(e.status)
	switch errorType(r) {
	case "text/html":
		writeText(w, e.status, "text/html; charset=UTF-8", htmlPage(e.status, title, detail))
		return
	case "text/plain":
		writeText(w, e.status, "text/plain; charset=UTF-8", strconv.Itoa(e.status)+" "+title+"\n\n"+detail+"\n")
		return
	}
	body := errorBody{Status: e.status, Title: title, Detail: detail, RequestID: simhttp.RequestIDOf(r)}
	switch {
	case e.versions:
		body.MaxVersion, body.MinVersion = maxVersion.String(), minVersion.String()
	case withCode && e.code == "":
		body.Code = codeUndefined
	case withCode:
		body.Code = e.code
	}
	writeJSON(w, e.status, map[string][]errorBody{"errors": {body}})
}

// explanation is the general part of an error's detail.
func explanation(r *http.Request, e *apiError) string {
	switch e.status {
	case http.StatusBadRequest:
		return "The server could not comply with the request since it is either malformed or otherwise incorrect."
	case http.StatusForbidden:
		return "Access was denied to this resource."
	case http.StatusNotFound:
		return "The resource could not be found."
	case http.StatusMethodNotAllowed:
		return "The method " + r.Method + " is not allowed for this resource."
	case http.StatusNotAcceptable:
		return "The resource could not be generated that was acceptable to your browser."
	case http.StatusConflict:
		return "There was a conflict when trying to complete your request."
	case http.StatusRequestEntityTooLarge:
		return "The body of your request was too large for this server."
	case http.StatusUnsupportedMediaType:
		return "The request media type is not supported by this server."
	case http.StatusInternalServerError:
		return "The server has either erred or is incapable of performing the requested operation."
	case http.StatusServiceUnavailable:
		return "The server is currently unavailable. Please try again at a later time."
	}
	return http.StatusText(e.status)
}

func htmlPage(status int, title, detail string) string {
	heading := html.EscapeString(strconv.Itoa(status) + " " + title)
	text := strings.ReplaceAll(html.EscapeString(detail), "\n\n", "<br /><br />\n")
	return "<html>\n <head>\n  <title>" + heading + "</title>\n </head>\n <body>\n  <h1>" + heading +
		"</h1>\n  " + text + "\n </body>\n</html>"
}

// writeUnauthorized answers 401, whose body is of another shape than that of
// all other errors.
func writeUnauthorized(w http.ResponseWriter) {
	writeJSON(w, http.StatusUnauthorized, map[string]string{
		"message": "The request you have made requires authentication.",
		"code":    "401 Unauthorized",
		"title":   "Unauthorized",
	})
}
