package nova_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/simhttp/inputtest"
	"github.com/gocyborg/gocyborg/sim"
)

func TestWhatIsDeclaredIsRead(t *testing.T) {
	t.Parallel()
	inputtest.Check(t, nova.New(nova.Config{}).Service.Router.Routes(), []inputtest.Case{{
		Method: "POST", Path: "/v2.1/os-server-external-events", Version: "compute 2.82",
		Body: `{"events": [{"name": "accelerator-request-bound", "server_uuid": "` + ready + `", "tag": "` + arq + `", "status": "failed"}]}`,
	}}, func(c inputtest.Case) inputtest.Answer {
		server := nova.New(nova.Config{Seed: 1})
		defer server.Close()
		r := httptest.NewRequest(c.Method, c.Path, strings.NewReader(c.Body))
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set("OpenStack-API-Version", c.Version)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		events := []sim.Event{}
		for _, e := range server.Events() {
			events = append(events, e.Event)
		}
		seen, err := json.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		return inputtest.Answer{Status: w.Code, Seen: fmt.Sprint(w.Body, string(seen))}
	})
}
