package glance_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/internal/glance"
)

func TestAnImageWithoutTagsHasAnEmptyListOfThem(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	if text := c.want(201, "admin", "POST", "/image/v2/images", `{"id":"`+imageA+`"}`); !strings.Contains(text, `"tags":[]`) {
		t.Errorf("created: %s", text)
	}
}

func TestTagsComeAndGo(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const one = "/image/v2/images/" + imageA
	c.want(201, "admin", "POST", "/image/v2/images", `{"id":"`+imageA+`","tags":["b","b"]}`)
	c.want(204, "admin", "PUT", one+"/tags/a", "")
	c.want(204, "admin", "PUT", one+"/tags/a", "")
	if text := c.want(200, "admin", "GET", one, ""); !strings.Contains(text, `"tags":["a","b"]`) {
		t.Errorf("with a tag: %s", text)
	}
	c.want(204, "admin", "DELETE", one+"/tags/b", "")
	c.want(404, "admin", "DELETE", one+"/tags/b", "")
	if text := c.want(200, "admin", "GET", one, ""); !strings.Contains(text, `"tags":["a"]`) {
		t.Errorf("without one: %s", text)
	}
}

func TestAProtectedImageStays(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const one = "/image/v2/images/" + imageA
	c.want(201, "admin", "POST", "/image/v2/images", `{"id":"`+imageA+`","protected":true,"min_disk":3}`)
	if text := c.want(403, "admin", "DELETE", one, ""); !strings.Contains(text, "Image "+imageA+" is protected and cannot be deleted.") {
		t.Errorf("refusal: %s", text)
	}
	if text := c.want(200, "admin", "PATCH", one, `[{"op":"replace","path":"/protected","value":false}]`); !strings.Contains(text, `"protected":false`) || !strings.Contains(text, `"min_disk":3`) {
		t.Errorf("unprotected: %s", text)
	}
	c.want(204, "admin", "DELETE", one, "")
	if text := c.want(404, "admin", "DELETE", one, ""); !strings.Contains(text, "Failed to find image "+imageA+" to delete") {
		t.Errorf("deleted again: %s", text)
	}
	if text := c.want(404, "admin", "GET", one, ""); !strings.Contains(text, "No image found with ID "+imageA) {
		t.Errorf("deleted: %s", text)
	}
}

func TestFiltersOfTimeAndKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01
		c := newClient(t)
		for _, image := range []glance.Image{{Name: "old", Data: []byte("four")}, {Name: "hidden", Hidden: true}, {Name: "kept", Protected: true}} {
			addImage(t, c.server, image)
			time.Sleep(time.Hour)
		}
		for query, want := range map[string]string{
			"":                                            "kept old",
			"?os_hidden=true":                             "hidden",
			"?protected=true":                             "kept",
			"?protected=False":                            "old",
			"?created_at=2000-01-01T00:00:00Z":            "old",
			"?created_at=eq:2000-01-01T00:00:00":          "old",
			"?created_at=neq:2000-01-01T00:00:00Z":        "kept",
			"?created_at=gt:2000-01-01T00:00:00Z":         "kept",
			"?created_at=gte:2000-01-01":                  "kept old",
			"?updated_at=lt:2000-01-01T02:00:00Z":         "old",
			"?created_at=lte:2000-01-01T02:00:00%2B00:00": "kept old",
			"?size_min=4":                                 "old",
			"?size_min=5":                                 "",
			"?size_max=4":                                 "old",
			"?size_max=3":                                 "",
			"?visibility=all":                             "kept old",
			"?visibility=private":                         "",
		} {
			if got := strings.Join(c.names("demo", query), " "); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
	})
}

func TestMediaTypesOfPatches(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.want(201, "admin", "POST", "/image/v2/images", `{"id":"`+imageA+`","name":"a","x":"1"}`)
	const old = "application/openstack-images-v2.0-json-patch"
	for _, tt := range []struct {
		media, body string
		want        int
		text        string
	}{
		{"application/json", `[]`, 415, ""},
		{"", `[]`, 415, ""},
		{old, `[{"replace":"/name","value":"b"},{"add":"/y","value":"2"},{"remove":"/x"}]`, 200, `"name":"b"`},
		{old + "; charset=utf-8", `[{"replace":"/y","value":"3"}]`, 200, `"y":"3"`},
		{old, `[{"add":"/name","value":"c"}]`, 409, "Property name already present."},
		{old, `[{"add":"/y","remove":"/y","value":"c"}]`, 400, "only one member"},
		{old, `[{"op":"add","path":"/z","value":"c"}]`, 400, "exactly one member"},
		{patch, `[{"add":"/z","value":"c"}]`, 400, "Unable to find `op`"},
	} {
		res, text := ask(t, c.server, "admin", tt.media, "PATCH", "/v2/images/"+imageA, tt.body)
		if res.StatusCode != tt.want || !strings.Contains(text, tt.text) || (tt.want == 415) != (res.Header.Get("Accept-Patch") != "") {
			t.Errorf("%s %s: %d %s, want %d with %q", tt.media, tt.body, res.StatusCode, text, tt.want, tt.text)
		}
	}
}
