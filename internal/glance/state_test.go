package glance_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// ticking is a clock that moves on by a second each time it is looked at.
type ticking struct{ now time.Time }

func (c *ticking) Now() time.Time {
	c.now = c.now.Add(time.Second)
	return c.now
}

func (c *ticking) Wait(context.Context, time.Duration) error { return nil }

// newTicking is a server whose clock starts at a time.
func newTicking(now time.Time) (*glance.Server, *ticking) {
	clock := &ticking{now}
	return glance.New(glance.Config{Seed: 5, Clock: clock}), clock
}

// dumped is the state of a server.
func dumped(t rapid.TB, s *glance.Server) []sim.Record {
	t.Helper()
	records, err := tables.Collect(s.State())
	must(t, err)
	return records
}

// withoutRequestID is a header without the one thing that no state has.
func withoutRequestID(h http.Header) http.Header {
	h = h.Clone()
	h.Del(simhttp.RequestIDHeader)
	return h
}

// answered is all that a client sees of an answer.
func answered(t rapid.TB, s *glance.Server, token, method, path, body string) string {
	t.Helper()
	res, text := ask(t, s, token, mediaOf(method), method, path, body)
	return fmt.Sprint(res.StatusCode, withoutRequestID(res.Header), text)
}

// call draws a random request about the images that there are.
func call(rt *rapid.T, s *glance.Server) (token, method, path, body string) {
	token = rapid.SampledFrom([]string{"admin", "anna:p1", "otto:p2"}).Draw(rt, "token")
	id := imageA
	if images := s.Images(); len(images) > 0 {
		id = images[rapid.IntRange(0, len(images)-1).Draw(rt, "image")].ID
	}
	path = "/v2/images/" + id
	switch rapid.IntRange(0, 6).Draw(rt, "call") {
	case 0:
		return token, "POST", "/v2/images", `{"name":"` + rapid.StringMatching(`[a-z<>&é]{0,3}`).Draw(rt, "name") + `","tags":["a","b"],"disk_format":"raw","container_format":"bare","accel:function_id":"f","visibility":"` +
			rapid.SampledFrom([]string{"public", "shared", "private", "secret"}).Draw(rt, "visibility") + `"}`
	case 1:
		return token, "POST", "/v2/images", `{"id":"` + imageA + `"}`
	case 2:
		return token, "PUT", path + "/file", string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "data"))
	case 3:
		return token, "PATCH", path, rapid.SampledFrom([]string{
			`[{"op":"add","path":"/accel:bitstream_id","value":"b"}]`, `[{"op":"remove","path":"/accel:function_id"}]`, `[{"op":"replace","path":"/name","value":null}]`,
		}).Draw(rt, "patch")
	case 4:
		return token, "DELETE", path, ""
	case 5:
		return token, "GET", path + "/file", ""
	}
	return token, "GET", rapid.SampledFrom([]string{"/v2/images", "/v2/images?limit=1&accel:function_id=f", path}).Draw(rt, "path"), ""
}

func TestALoadedServiceBehavesLikeTheOriginal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s, clock := newTicking(time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600)))
		for range rapid.IntRange(0, 20).Draw(rt, "before") {
			answered(rt, s, "admin", "GET", "/v2/images", "")
			token, method, path, body := call(rt, s)
			answered(rt, s, token, method, path, body)
		}
		other, _ := newTicking(clock.now)
		once := dumped(rt, s)
		must(rt, sim.Replace(t.Context(), other.State(), once))
		if diff := cmp.Diff(once, dumped(rt, other)); diff != "" {
			rt.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "after") {
			token, method, path, body := call(rt, s)
			if diff := cmp.Diff(answered(rt, s, token, method, path, body), answered(rt, other, token, method, path, body)); diff != "" {
				rt.Fatalf("%s %s (-kept +loaded):\n%s", method, path, diff)
			}
		}
		for _, image := range s.Images() {
			for _, path := range []string{"", "/file"} {
				path = "/v2/images/" + image.ID + path
				if diff := cmp.Diff(answered(rt, s, "admin", "GET", path, ""), answered(rt, other, "admin", "GET", path, "")); diff != "" {
					rt.Fatalf("GET %s (-kept +loaded):\n%s", path, diff)
				}
			}
		}
		if diff := cmp.Diff(dumped(rt, s), dumped(rt, other)); diff != "" {
			rt.Fatalf("dumps after the same calls (-kept +loaded):\n%s", diff)
		}
	})
}

func TestAnImageWithoutDataStaysApartFromOneWithNone(t *testing.T) {
	t.Parallel()
	s, other := glance.New(glance.Config{}), glance.New(glance.Config{})
	for _, image := range []glance.Image{{Name: "gzip", Data: []byte{0, 1, 0xff}}, {Name: "queued"}, {Name: "empty", Data: []byte{}}} {
		addImage(t, s, image)
	}
	must(t, sim.Replace(t.Context(), other.State(), dumped(t, s)))
	var got []string
	for _, i := range other.Images() {
		got = append(got, fmt.Sprint(i.Name, i.Data == nil, i.Data))
	}
	if diff := cmp.Diff([]string{"gzipfalse [0 1 255]", "queuedtrue []", "emptyfalse []"}, got); diff != "" {
		t.Errorf("name, without data, data (-want +got):\n%s", diff)
	}
}
