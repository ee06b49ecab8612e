package keystone

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// unauthorized is the answer to a failed authentication: unknown user, wrong password and missing role look alike, unless
// Keystone runs with insecure_debug.
func unauthorized() error {
	return simhttp.Refuse(http.StatusUnauthorized, "The request you have made requires authentication.")
}

func forbidden(action string) error {
	return simhttp.Refuse(http.StatusForbidden, "You are not authorized to perform the requested action: %s.", action)
}

func notFound(kind, id string) error {
	return simhttp.Refuse(http.StatusNotFound, "Could not find %s: %s.", kind, id)
}

const malformedText = "The server could not comply with the request " +
	"since it is either malformed or otherwise incorrect. The client is assumed to be in error."

// malformed is Keystone's ValidationError: what was expected, and where.
func malformed(attribute, target string) error {
	return simhttp.Refuse(http.StatusBadRequest, "Expecting to find %s in %s. %s", attribute, target, malformedText)
}

// methodError is a refusal of an authentication method (AuthPluginException). Its body has the member identity.
type methodError struct {
	error
	identity methodIdentity
}

type methodIdentity struct {
	Methods []string `json:"methods,omitempty"`
}

// Unwrap returns the refusal.
func (e methodError) Unwrap() error { return e.error }

func refuseMethod(text string, methods ...string) error {
	return methodError{simhttp.Refuse(http.StatusUnauthorized, "%s", text), methodIdentity{methods}}
}

// writeError answers in Keystone's form.
func writeError(c *simhttp.Call, err error) {
	e := simhttp.AsError(err)
	if e.Text == "" && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		writeUnrouted(c, e.Status)
		return
	}
	if e.Status == http.StatusUnauthorized {
		c.W.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", c.BaseURL()+"/identity/v3"))
	}
	body := map[string]any{"code": e.Status, "message": strings.TrimSpace(e.Text + " " + e.Code), "title": http.StatusText(e.Status)}
	var method methodError
	if errors.As(err, &method) {
		body["identity"] = method.identity
	}
	simhttp.WriteJSON(c.W, e.Status, map[string]any{"error": body})
}

// pageTexts are Werkzeug's texts for statuses.
var pageTexts = map[int]string{
	http.StatusNotFound:         "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.",
	http.StatusMethodNotAllowed: "The method is not allowed for the requested URL.",
}

// writeUnrouted answers a request that no route takes, as Flask does: Flask-RESTful refuses a
// method with its own body, everything else is a page.
func writeUnrouted(c *simhttp.Call, status int) {
	text := pageTexts[status]
	if isResource := !isVersionPath(c); status == http.StatusMethodNotAllowed && isResource {
		simhttp.WriteJSON(c.W, status, map[string]any{"message": text})
		return
	}
	simhttp.WriteBody(c.W, status, "text/html; charset=utf-8", fmt.Appendf(nil,
		"<!doctype html>\n<html lang=en>\n<title>%d %[2]s</title>\n<h1>%[2]s</h1>\n<p>%[3]s</p>\n", status, http.StatusText(status), text))
}

// isVersionPath reports the paths of the version documents.
func isVersionPath(c *simhttp.Call) bool {
	path := trimSlashes(strings.TrimPrefix(c.URL.EscapedPath(), c.Mount))
	return path == "" || path == "/v3"
}
