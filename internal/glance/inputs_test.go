package glance_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/simhttp/inputtest"
)

// stopped is a clock that stands still.
type stopped struct{ simhttp.Wall }

func (stopped) Now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestWhatIsDeclaredIsRead(t *testing.T) {
	t.Parallel()
	inputtest.Check(t, glance.New(glance.Config{}).Service.Router.Routes(), []inputtest.Case{
		{Method: "GET", Path: "/v2/images?name=a&sort=name:asc&sort_key=name&sort_dir=asc&member_status=all"},
		{Method: "GET", Path: "/v2/images?limit=1"}, {Method: "GET", Path: "/v2/images?accel:x=y"},
		{Method: "POST", Path: "/v2/images", Body: `{"name": "n", "min_disk": 1, "min_ram": 1, "protected": true, "os_hidden": false, "tags": ["t"], "accel:x": "y"}`},
		{Method: "PATCH", Path: "/v2/images/" + imageA, Body: `[{"op": "replace", "path": "/name", "value": "b"}]`},
	}, func(c inputtest.Case) inputtest.Answer {
		server := glance.New(glance.Config{Seed: 1, Clock: stopped{}})
		for _, i := range []glance.Image{{ID: imageA, Name: "a", Properties: map[string]string{"accel:x": "y"}}, {Name: "b"}} {
			if _, err := server.AddImage(i); err != nil {
				t.Fatal(err)
			}
		}
		status, text := client{t, server}.send("admin", c.Method, c.Path, c.Body)
		images, err := json.Marshal(server.Images())
		if err != nil {
			t.Fatal(err)
		}
		return inputtest.Answer{Status: status, Seen: text + string(images)}
	})
}
