package keystone

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// unauthorized is all that Keystone says of any failed authentication, unless it runs with
// insecure_debug: unknown user, wrong password and missing role look alike.
func unauthorized() error {
	return simhttp.Refuse(http.StatusUnauthorized, "The request you have made requires authentication.")
}

func forbidden(policy string) error {
	return simhttp.Refuse(http.StatusForbidden, "You are not authorized to perform the requested action: %s.", policy)
}

func notFound(kind, id string) error {
	return simhttp.Refuse(http.StatusNotFound, "Could not find %s: %s.", kind, id)
}

// malformed is Keystone's ValidationError: what was expected, and where.
func malformed(attribute, target string) error {
	return simhttp.Refuse(http.StatusBadRequest, "Expecting to find %s in %s. The server could not comply with the request "+
		"since it is either malformed or otherwise incorrect. The client is assumed to be in error.", attribute, target)
}

// writeError answers in Keystone's form.
func writeError(c *simhttp.Call, err error) {
	e := simhttp.AsError(err)
	text := e.Text
	switch {
	case e.Status == http.StatusUnauthorized:
		c.W.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", c.BaseURL()+"/identity/v3"))
	case text == "" && e.Status == http.StatusNotFound:
		text = "The resource could not be found."
	case text == "" && e.Status == http.StatusMethodNotAllowed:
		text = "The method is not allowed for the requested URL."
	}
	simhttp.WriteJSON(c.W, e.Status, map[string]any{"error": map[string]any{
		"code": e.Status, "message": strings.TrimSpace(text + " " + e.Code), "title": http.StatusText(e.Status),
	}})
}
