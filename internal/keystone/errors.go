package keystone

import (
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// textUnauthorized is all that Keystone says of any failed authentication, unless it
// runs with insecure_debug: unknown user, wrong password and missing role look alike.
const textUnauthorized = "The request you have made requires authentication."

// requestError is a refusal with the status it is answered with.
type requestError struct {
	status  int
	message string
}

// Error implements error.
func (e *requestError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.message) }

func unauthorized() *requestError {
	return &requestError{http.StatusUnauthorized, textUnauthorized}
}

// malformed is Keystone's ValidationError: what was expected, and where.
func malformed(attribute, target string) *requestError {
	return &requestError{http.StatusBadRequest, fmt.Sprintf("Expecting to find %s in %s. The server could not comply with the request "+
		"since it is either malformed or otherwise incorrect. The client is assumed to be in error.", attribute, target)}
}

// writeError answers in Keystone's shape.
func writeError(w http.ResponseWriter, r *http.Request, status int, message string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", baseURL(r)+"/identity/v3"))
	}
	simhttp.WriteJSON(w, status, map[string]any{"error": map[string]any{
		"code": status, "message": message, "title": http.StatusText(status),
	}})
}

func writeFault(w http.ResponseWriter, r *http.Request, status int, _ string) {
	writeError(w, r, status, "Failure injected by the simulator.")
}
