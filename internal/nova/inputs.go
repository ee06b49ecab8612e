package nova

import (
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// inputs tells what each operation reads; the schema of the events is closed.
func inputs() map[string]simhttp.Input {
	return map[string]simhttp.Input{opEvents: {Body: []string{
		"events[].name", "events[].server_uuid", "events[].tag", "events[].status",
	}}}
}

// refuseUnread refuses a request of which something is not read.
func refuseUnread(w http.ResponseWriter, _ *http.Request, detail string) {
	writeError(w, http.StatusBadRequest, "badRequest", detail)
}
