package nova

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// requestError is a refusal of a whole request; kind is the key that Nova wraps it in.
type requestError struct {
	status        int
	kind, message string
}

func badRequest(message string) *requestError {
	return &requestError{http.StatusBadRequest, "badRequest", message}
}

// writeError answers in Nova's shape.
func writeError(w http.ResponseWriter, status int, kind, message string) {
	simhttp.WriteJSON(w, status, map[string]any{kind: map[string]any{"code": status, "message": message}})
}

// writeUnauthorized answers as keystonemiddleware in front of Nova does.
func writeUnauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Keystone uri="/identity"`)
	simhttp.WriteJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
		"code": http.StatusUnauthorized, "title": "Unauthorized",
		"message": "The request you have made requires authentication.",
	}})
}

func writeFault(w http.ResponseWriter, _ *http.Request, status int, _ string) {
	kind := "computeFault"
	switch status {
	case http.StatusBadRequest:
		kind = "badRequest"
	case http.StatusForbidden:
		kind = "forbidden"
	case http.StatusNotFound:
		kind = "itemNotFound"
	case http.StatusConflict:
		kind = "conflictingRequest"
	case http.StatusServiceUnavailable:
		kind = "serviceUnavailable"
	}
	writeError(w, status, kind, "Failure injected by the simulator.")
}
