package placementsim

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/webob"
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

// escaped is an error that leaves a handler of the service as an exception, and not as an answer: what answers it knows
// nothing of the header Vary.
type escaped struct{ error }

// Unwrap returns the error itself.
func (e escaped) Unwrap() error { return e.error }

// answered is the error about something that does not exist where a handler of the service answers it.
func answered(err error) error {
	var refused *engine.Error
	if errors.As(err, &refused) && refused.Kind == engine.ErrNotFound {
		answer := fromEngine(refused)
		return &answer
	}
	return err
}

// escapes reports whether an error leaves a handler of the service as an exception.
func escapes(err error) bool {
	var e escaped
	return errors.As(err, &e) || errors.Is(err, engine.ErrNotFound)
}

// dropVary removes what [Server.serve] has added to the header Vary.
func dropVary(h http.Header) {
	h["Vary"] = slices.DeleteFunc(h["Vary"], func(value string) bool { return value == varyByVersion })
	if len(h["Vary"]) == 0 {
		delete(h, "Vary")
	}
}

func badRequest(text string) error { return &simhttp.Error{Status: http.StatusBadRequest, Text: text} }

func badQuery(text string) error {
	return badRequest("Invalid query string parameters: " + text)
}

// fromEngine converts the error of a transition to an answer.
func fromEngine(e *engine.Error) simhttp.Error {
	answer := simhttp.Error{Status: http.StatusConflict, Text: e.Text}
	switch e.Kind {
	case engine.ErrNotFound:
		answer.Status = http.StatusNotFound
	case engine.ErrConflict:
	case engine.ErrConcurrentUpdate:
		answer.Code = codeConcurrentUpdate
	case engine.ErrInventoryInUse:
		answer.Code = codeInventoryInUse
	case engine.ErrDuplicateName:
		answer.Code = codeDuplicateName
	case engine.ErrProviderInUse:
		answer.Code = codeProviderInUse
	case engine.ErrParentInUse:
		answer.Code = codeCannotDeleteParent
	default:
		answer.Status = http.StatusBadRequest
	}
	return answer
}

// prefixed prepends words to the text of an engine error of a kind.
func prefixed(err error, kind error, prefix string) error {
	var refused *engine.Error
	if !errors.As(err, &refused) || !errors.Is(err, kind) {
		return err
	}
	return &engine.Error{Kind: refused.Kind, Text: prefix + refused.Text, Names: refused.Names}
}

// versionRange marks the one error that names the supported versions, and no code.
const versionRange = "version range"

type errorBody struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	RequestID  string `json:"request_id"`
	MaxVersion string `json:"max_version,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
}

// writeError answers in the representation that the caller accepts. A 401 is that of keystonemiddleware in
// front of Placement, or of its "noauth2".
func (s *Server) writeError(c *simhttp.Call, err error) {
	e := simhttp.AsError(err)
	var refused *engine.Error
	switch {
	case errors.As(err, &refused):
		e = fromEngine(refused)
	case e.Status == http.StatusUnauthorized && s.service.Verifier != nil:
		c.WriteUnauthorized(c.BaseURL())
		return
	case e.Status == http.StatusUnauthorized:
		writeUnauthorized(c)
		return
	case e.Status == http.StatusMethodNotAllowed && c.W.Header().Get("Allow") != "":
		e.Text = "The method specified is not allowed for this resource."
	}
	v, bad := parseVersion(c.Header)
	if bad == nil && c.W.Header().Get(versionHeader) == "" { // refused before the negotiation
		c.W.Header().Set(versionHeader, serviceType+" "+v.String())
	}
	if escapes(err) {
		dropVary(c.W.Header())
		if e.Status == http.StatusInternalServerError {
			c.W.Header().Del(versionHeader)
		}
	}
	page := webob.Page{Request: c.Request, Status: e.Status, Detail: e.Text, NoHeader: "None"}
	if c.Method == http.MethodHead {
		writeText(c.W, e.Status, "text/html; charset=UTF-8", "")
		return
	}
	switch errorType(c.Request) {
	case "text/html":
		writeText(c.W, e.Status, "text/html; charset=UTF-8", page.HTML())
		return
	case "text/plain":
		writeText(c.W, e.Status, "text/plain; charset=UTF-8", page.Plain())
		return
	}
	body := errorBody{Status: e.Status, Title: http.StatusText(e.Status), Detail: page.Line(), RequestID: c.W.Header().Get(simhttp.RequestIDHeader)}
	switch {
	case e.Code == versionRange:
		body.MaxVersion, body.MinVersion = maxVersion.String(), minVersion.String()
	case bad == nil && v >= sinceErrorCode:
		body.Code = cmp.Or(e.Code, codeUndefined)
	}
	simhttp.WriteJSON(c.W, e.Status, map[string][]errorBody{"errors": {body}})
}

// writeUnauthorized answers the 401 of "noauth2", whose body differs from all other errors.
func writeUnauthorized(c *simhttp.Call) {
	if c.Method == http.MethodHead {
		writeText(c.W, http.StatusUnauthorized, "text/html; charset=UTF-8", "")
		return
	}
	simhttp.WriteJSON(c.W, http.StatusUnauthorized, map[string]string{
		"message": "This server could not verify that you are authorized to access the document you requested. Either you supplied the wrong " +
			"credentials (e.g., bad password), or your browser does not understand how to supply the credentials required.<br /><br />\n\n\n",
		"code":  "401 Unauthorized",
		"title": "Unauthorized",
	})
}
