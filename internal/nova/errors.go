package nova

import (
	"cmp"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// writeError answers in Nova's form, in which the key follows from the status. A 401 is
// that of keystonemiddleware in front of Nova.
func writeError(c *simhttp.Call, err error) {
	e := simhttp.AsError(err)
	key, text := "computeFault", e.Text
	switch e.Status {
	case http.StatusUnauthorized:
		c.WriteUnauthorized("/identity")
		return
	case http.StatusBadRequest:
		key = "badRequest"
	case http.StatusForbidden:
		key = "forbidden"
	case http.StatusNotFound:
		key, text = "itemNotFound", cmp.Or(text, "The resource could not be found.")
	case http.StatusMethodNotAllowed:
		key, text = "badMethod", cmp.Or(text, "The method is not allowed for this resource.")
	case http.StatusConflict:
		key = "conflictingRequest"
	case http.StatusRequestEntityTooLarge:
		key = "overLimit"
	case http.StatusUnsupportedMediaType:
		key = "badMediaType"
	case http.StatusServiceUnavailable:
		key = "serviceUnavailable"
	}
	simhttp.WriteJSON(c.W, e.Status, map[string]any{key: map[string]any{"code": e.Status, "message": text}})
}
