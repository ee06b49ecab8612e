package inputtest_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/sim"
)

func TestNova(t *testing.T) {
	t.Parallel()
	check(t, nova.New(nova.Config{}).Routes(), []request{{
		method: "POST", path: "/v2.1/os-server-external-events", version: "compute 2.82",
		body: `{"events": [{"name": "accelerator-request-bound", "server_uuid": "` + instanceA + `", "tag": "` + unknownID + `", "status": "failed"}]}`,
	}}, func(r request) answer {
		server := nova.New(nova.Config{Seed: 1})
		defer server.Close()
		got := send(t, server, r)
		var events []sim.Event
		for _, e := range server.Events() {
			events = append(events, e.Event)
		}
		got.seen += asJSON(t, events)
		return got
	})
}
