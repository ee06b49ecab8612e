package inputtest_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/glance"
)

func TestGlance(t *testing.T) {
	t.Parallel()
	check(t, glance.New(glance.Config{}).Routes(), []request{
		get("/v2/images?name=a&sort=name:asc&sort_key=name&sort_dir=asc&member_status=all"),
		get("/v2/images?limit=1"), get("/v2/images?accel:x=y"),
		{method: "POST", path: "/v2/images", body: `{"name": "n", "min_disk": 1, "min_ram": 1, "protected": true, "os_hidden": false, "tags": ["t"], "accel:x": "y"}`},
		{method: "PATCH", path: "/v2/images/" + bitstream, body: `[{"op": "replace", "path": "/name", "value": "b"}]`},
	}, func(r request) answer {
		server := glance.New(glance.Config{Seed: 1, Clock: stopped()})
		for _, i := range []glance.Image{{ID: bitstream, Name: "a", Properties: map[string]string{"accel:x": "y"}}, {Name: "b"}} {
			_, err := server.AddImage(i)
			must(t, err)
		}
		got := send(t, server, r)
		got.seen += asJSON(t, server.Images())
		return got
	})
}
