package glance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	imageA  = "aaaaaaaa-0000-4000-8000-000000000001"
	unknown = "99999999-0000-4000-8000-000000000000"
)

// client speaks to a server as a user of a project.
type client struct {
	t      *testing.T
	server *glance.Server
}

func newClient(t *testing.T) client {
	t.Helper()
	return client{t, glance.New(glance.Config{Seed: 1})}
}

// must stops a test at an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request. The token is "user:project"; admin may do everything.
func ask(t rapid.TB, s *glance.Server, token, media, method, path, body string) (res *http.Response, text string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://sim.invalid"+path, strings.NewReader(body))
	must(t, err)
	for name, value := range map[string]string{"X-Auth-Token": token, "Content-Type": media} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err = simhttp.NewTransport(s).RoundTrip(req)
	must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(data)
}

func addImage(t *testing.T, s *glance.Server, image glance.Image) {
	t.Helper()
	_, err := s.AddImage(image)
	must(t, err)
}

const patch = "application/openstack-images-v2.1-json-patch"

// mediaOf is the media type of the requests of a method.
func mediaOf(method string) string {
	if method == "PATCH" {
		return patch
	}
	return ""
}

func (c client) send(token, method, path, body string) (status int, text string) {
	c.t.Helper()
	res, text := ask(c.t, c.server, token, mediaOf(method), method, path, body)
	return res.StatusCode, text
}

func (c client) want(status int, token, method, path, body string) string {
	c.t.Helper()
	got, text := c.send(token, method, path, body)
	if got != status {
		c.t.Errorf("%s %s: got %d %s, want %d", method, path, got, text, status)
	}
	return text
}

func TestLifeCycleOfAnImage(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const one = "/image/v2/images/" + imageA
	text := c.want(201, "admin", "POST", "/image/v2/images", `{"id":"`+imageA+`","name":"gzip","visibility":"public","disk_format":"raw","container_format":"bare","tags":["fpga"],"accel:function_id":"f1","min_disk":0}`)
	var made map[string]any
	must(t, json.Unmarshal([]byte(text), &made))
	for key, want := range map[string]any{
		"id": imageA, "name": "gzip", "status": "queued", "accel:function_id": "f1", "size": nil, "owner": "admin", "file": "/v2/images/" + imageA + "/file",
	} {
		if made[key] != want {
			t.Errorf("%s: got %v, want %v", key, made[key], want)
		}
	}
	c.want(204, "admin", "GET", one+"/file", "")
	c.want(204, "admin", "PUT", one+"/file", "bits")
	c.want(409, "admin", "PUT", one+"/file", "other bits")
	if got := c.want(200, "demo", "GET", one+"/file", ""); got != "bits" {
		t.Errorf("data %q", got)
	}
	c.want(200, "admin", "PATCH", one, `[{"op":"replace","path":"/name","value":"gzip 2"},{"op":"add","path":"/accel:bitstream_name","value":"g"},{"op":"remove","path":"/accel:function_id"}]`)
	text = c.want(200, "demo", "GET", one, "")
	for _, part := range []string{`"name":"gzip 2"`, `"accel:bitstream_name":"g"`, `"status":"active"`, `"size":4`, `"checksum":"cc411e6c13670e52124629b8ac83f7d0"`, `"os_hash_algo":"sha512"`, `"os_hash_value":"648774e3a279`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	if strings.Contains(text, "function_id") {
		t.Errorf("the property is still there: %s", text)
	}
	c.want(403, "demo", "DELETE", one, "")
	c.want(204, "admin", "DELETE", one, "")
	c.want(404, "admin", "GET", one, "")
}

func TestDataHaveTheirChecksum(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	addImage(t, c.server, glance.Image{ID: imageA, Data: []byte("bits")})
	res, _ := ask(t, c.server, "admin", "", "GET", "/v2/images/"+imageA+"/file", "")
	if got := res.Header.Get("Content-MD5"); got != "cc411e6c13670e52124629b8ac83f7d0" {
		t.Errorf("Content-MD5 %q", got)
	}
}

// names lists the images that a token finds.
func (c client) names(token, query string) (names []string) {
	c.t.Helper()
	var body struct {
		Images []struct{ Name string } `json:"images"`
	}
	must(c.t, json.Unmarshal([]byte(c.want(200, token, "GET", "/v2/images"+query, "")), &body))
	for _, i := range body.Images {
		names = append(names, i.Name)
	}
	return names
}

func TestSearch(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, image := range []glance.Image{
		{Name: "one", Properties: map[string]string{"accel:function_id": "f1"}, Data: []byte("x")},
		{Name: "two", Properties: map[string]string{"accel:function_id": "f2"}, Tags: []string{"new"}},
		{Name: "hidden", Visibility: "private", Owner: "p1", Properties: map[string]string{"accel:function_id": "f1"}},
	} {
		addImage(t, c.server, image)
	}
	for _, tt := range []struct{ token, query, want string }{
		{"admin", "", "hidden two one"},
		{"demo", "", "two one"},
		{"u:p1", "?accel:function_id=f1", "hidden one"},
		{"demo", "?accel:function_id=f1", "one"},
		{"demo", "?accel%3Afunction_id=f1", "one"},
		{"demo", "?accel:function_id=f3", ""},
		{"demo", "?name=two", "two"},
		{"demo", "?name=in:one,two&status=active", "one"},
		{"demo", "?tag=new", "two"},
		{"demo", "?limit=1", "two"},
		{"demo", "?no_such=x", ""},
	} {
		if got := strings.Join(c.names(tt.token, tt.query), " "); got != tt.want {
			t.Errorf("%s as %s: %q, want %q", tt.query, tt.token, got, tt.want)
		}
	}
}

func TestPagesFollowEachOther(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for i := range 60 {
		addImage(t, c.server, glance.Image{Name: fmt.Sprint(i)})
	}
	seen, path := 0, "/v2/images"
	for path != "" {
		var body struct {
			Images []struct{ Name string } `json:"images"`
			Next   string                  `json:"next"`
		}
		must(t, json.Unmarshal([]byte(c.want(200, "demo", "GET", path, "")), &body))
		for _, i := range body.Images {
			if want := fmt.Sprint(59 - seen); i.Name != want {
				t.Fatalf("image %d is %s, want %s", seen, i.Name, want)
			}
			seen++
		}
		path = body.Next
	}
	if seen != 60 {
		t.Errorf("%d images on all pages", seen)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	addImage(t, c.server, glance.Image{ID: imageA})
	for _, tt := range []struct {
		status                    int
		token, method, path, body string
	}{
		{401, "", "GET", "/v2/images", ""},
		{404, "demo", "GET", "/v2/images/" + unknown, ""},
		{404, "demo", "GET", "/v2/images/" + unknown + "/file", ""},
		{404, "demo", "GET", "/v2/nothing", ""},
		{405, "demo", "PUT", "/v2/images", ""},
		{400, "demo", "GET", "/v2/images?limit=x", ""},
		{400, "demo", "GET", "/v2/images?marker=" + unknown, ""},
		{400, "demo", "POST", "/v2/images", "{bad"},
		{400, "demo", "POST", "/v2/images", `{"id":"x"}`},
		{400, "demo", "POST", "/v2/images", `{"visibility":"everywhere"}`},
		{403, "demo", "POST", "/v2/images", `{"status":"active"}`},
		{403, "demo", "POST", "/v2/images", `{"os_glance_x":"active"}`},
		{400, "demo", "POST", "/v2/images", `{"disk_format":"floppy"}`},
		{400, "demo", "POST", "/v2/images", `{"container_format":"box"}`},
		{400, "demo", "POST", "/v2/images", `{"protected":"yes"}`},
		{400, "demo", "POST", "/v2/images", `{"min_disk":-1}`},
		{400, "demo", "GET", "/v2/images?created_at=soon", ""},
		{400, "demo", "GET", "/v2/images?created_at=near:2026-01-01", ""},
		{400, "demo", "GET", "/v2/images?size_min=x", ""},
		{400, "demo", "GET", "/v2/images?visibility=x", ""},
		{400, "demo", "GET", "/v2/images?protected=x", ""},
		{400, "demo", "GET", "/v2/images?limit=-1", ""},
		{404, "admin", "PUT", "/v2/images/" + unknown + "/tags/x", ""},
		{404, "admin", "DELETE", "/v2/images/" + imageA + "/tags/x", ""},
		{403, "demo", "PUT", "/v2/images/" + imageA + "/tags/x", ""},
		{400, "admin", "PUT", "/v2/images/" + imageA + "/tags/" + strings.Repeat("x", 256), ""},
		{400, "demo", "POST", "/v2/images", `{"accel:function_id":7}`},
		{400, "demo", "POST", "/v2/images", `{"":"x"}`},
		{409, "demo", "POST", "/v2/images", `{"id":"` + imageA + `"}`},
		{403, "demo", "PATCH", "/v2/images/" + imageA, `[]`},
		{400, "admin", "PATCH", "/v2/images/" + imageA, `{}`},
		{400, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"test","path":"/name"}]`},
		{400, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"add","path":"name","value":"x"}]`},
		{403, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"add","path":"/checksum","value":"x"}]`},
		{403, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"remove","path":"/checksum"}]`},
		{403, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"remove","path":"/name"}]`},
		{400, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"add","path":"/name"}]`},
		{400, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"add","path":"/a/b","value":"x"}]`},
		{409, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"remove","path":"/x"}]`},
		{409, "admin", "PATCH", "/v2/images/" + imageA, `[{"op":"replace","path":"/x","value":"y"}]`},
		{403, "demo", "PUT", "/v2/images/" + imageA + "/file", "x"},
	} {
		c.want(tt.status, tt.token, tt.method, tt.path, tt.body)
	}
	if got := len(c.server.Images()); got != 1 || c.server.Images()[0].Name != "" {
		t.Errorf("something was stored: %v", c.server.Images())
	}
	for _, i := range []glance.Image{{ID: "x"}, {Properties: map[string]string{"status": "x"}}, {Name: strings.Repeat("x", 256)}} {
		if _, err := c.server.AddImage(i); !errors.Is(err, glance.ErrImage) {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

func TestVersionsNeedNoToken(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for path, want := range map[string]int{"/image": 300, "/image/": 300, "/image/versions": 200, "/image/v2/": 300, "/": 300} {
		mount := ""
		if strings.HasPrefix(path, "/image") {
			mount = "/image"
		}
		if got := c.want(want, "", "GET", path, ""); !strings.Contains(got, `"href":"http://sim.invalid`+mount+`/v2/"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := c.want(200, "demo", "GET", "/image/v2/schemas/image", ""); !strings.Contains(got, `"additionalProperties":{"type":"string"}`) {
		t.Errorf("schema: %s", got)
	}
}
