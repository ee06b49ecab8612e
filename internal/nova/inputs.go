package nova

import "github.com/gocyborg/gocyborg/internal/simhttp"

// inputs is what each operation reads; the schema of the events is closed.
func inputs() map[string]simhttp.Input {
	return map[string]simhttp.Input{opEvents: {Body: []string{
		"events[].name", "events[].server_uuid", "events[].tag", "events[].status",
	}}}
}
