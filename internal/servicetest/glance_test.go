package servicetest_test

import (
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/glance"
)

func TestGlanceInputs(t *testing.T) {
	t.Parallel()
	const patch = "application/openstack-images-v"
	check(t, glance.New(glance.Config{}).Routes(), []request{
		get("/v2/images?name=a&sort=name:asc&sort_key=name&sort_dir=asc&member_status=all"),
		get("/v2/images?limit=1"), get("/v2/images?accel:x=y"),
		{method: "POST", path: "/v2/images", body: `{"name": "n", "min_disk": 1, "min_ram": 1, "protected": true, "os_hidden": false, "tags": ["t"], "accel:x": "y"}`},
		{method: "PATCH", path: "/v2/images/" + bitstream, media: patch + "2.1-json-patch", body: `[{"op": "replace", "path": "/name", "value": "b"}]`},
		{method: "PATCH", path: "/v2/images/" + bitstream, media: patch + "2.0-json-patch", body: `[{"replace": "/name", "value": "b"}]`},
		{method: "PATCH", path: "/v2/images/" + bitstream, media: patch + "2.0-json-patch", body: `[{"add": "/accel:z", "value": "b"}]`},
		{method: "PATCH", path: "/v2/images/" + bitstream, media: patch + "2.0-json-patch", body: `[{"remove": "/accel:x"}]`},
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

// fullGlance is a server with an image of each kind, and its state.
func fullGlance(t testing.TB) (*glance.Server, string) {
	t.Helper()
	s := glance.New(glance.Config{Seed: 5, Clock: stopped()})
	for _, i := range []glance.Image{
		{ID: bitstream, Name: "gzip", Owner: "p1", Visibility: "shared", Tags: []string{"a"}, Properties: map[string]string{"accel:function_id": "f"}, Data: []byte{0, 1, 0xff}},
		{Name: "queued"},
		{Name: "empty", Data: []byte{}},
	} {
		_, err := s.AddImage(i)
		must(t, err)
	}
	return s, dump(t, s.State())
}

func TestGlanceStates(t *testing.T) {
	t.Parallel()
	s, before := fullGlance(t)
	second := s.Images()[1].ID
	replaced := replacer(t, before)
	checkBadStates(t, s.State(), []badState{
		{"unknown table", replaced(`"image.images"`, `"image.pictures"`), "image.pictures"},
		{"unknown field", replaced(`"owner"`, `"holder"`), `unknown field "holder"`},
		{"duplicate id", strings.Replace(before, second, bitstream, 1), "has the same"},
		{"no uuid", replaced(`"id": "`+bitstream, `"id": "gzip`), `id "gzip"`},
		{"visibility", replaced(`"shared"`, `"secret"`), `visibility "secret"`},
		{"a property with the name of a field", replaced(`"accel:function_id"`, `"size"`), `property "size"`},
		{"data that is no base64", replaced(`"data": "`, `"data": "?`), "illegal base64"},
		{"other data", replaced(`"data": "AAH/"`, `"data": "AAH+"`), "the SHA-256 does not match the data"},
		{"active without data", replaced(`"status": "queued"`, `"status": "active"`), "does not fit its data"},
		{"another size", replaced(`"size": 3`, `"size": 4`), "there are no data with its SHA-256 and size"},
		{"above the sequence", replaced(`"last": 3`, `"last": 1`), "the sequence images is at 1 only"},
		{"no time", replaced(`"created_at": "2026-01-01T00:00:00Z"`, `"created_at": "0001-01-01T00:00:00Z"`), "created_at is missing"},
		{"year", replaced(`"updated_at": "2026-01-01T00:00:00Z"`, `"updated_at": "9999-12-31T23:00:00-05:00"`), "year 10000"},
	})
}

func FuzzGlanceState(f *testing.F) {
	_, state := fullGlance(f)
	f.Add(`[]`)
	f.Add(state)
	f.Fuzz(func(t *testing.T, text string) { checkLoad(t, glance.New(glance.Config{}).State(), text) })
}
