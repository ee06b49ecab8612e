package fakecyborg_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/simhttp/inputtest"
)

// stopped is a clock that stands still.
type stopped struct{ simhttp.Wall }

func (stopped) Now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// inputWorld is a new server with two cards, one of them an FPGA, two profiles, an
// attribute, and two requests, the first of them bound.
func inputWorld(t *testing.T, cfg fakecyborg.Config) (w *world, arqs []string, attribute string) {
	t.Helper()
	card := newHardware("test", fpgaCard("FPGA"), gpu("5e", "PGPU", []string{"OWNER_CYBORG"}, "1"))
	w = newWorld(t, cfg, []driver.Driver{card}, withImages(t), fakecyborg.WithClock(stopped{}))
	w.profile("f", `[{"resources:FPGA":"1"}]`)
	w.profile("g", `[{"resources:PGPU":"1"}]`)
	arqs = append(w.arqs("g"), w.arqs("g")...)
	w.want(w.patch(binding(instanceA, driver.ProviderUUID("cn0_0000:5e:00.0"), arqs[0])), 202, "")
	w.want(w.send(sent{method: "POST", path: "/v2/attributes", body: `{"deployable_id": 2, "key": "k", "value": "v"}`}), 201, "")
	for _, a := range w.get("/v2/attributes").list(t, "attributes") {
		if a["key"] == "k" {
			attribute, _ = a["uuid"].(string)
		}
	}
	return w, arqs, attribute
}

// inputState is everything that one can see of a server.
func (w *world) inputState(t *testing.T) string {
	t.Helper()
	state, err := json.Marshal([]any{w.server.ARQs(), w.server.DeviceProfiles(), w.server.Devices(), w.server.Deployables(), w.server.AttachHandles()})
	if err != nil {
		t.Fatal(err)
	}
	return string(state) + w.get("/v2/attributes").text
}

func TestWhatIsDeclaredIsRead(t *testing.T) {
	t.Parallel()
	w, arqs, attribute := inputWorld(t, fakecyborg.Config{})
	get := func(path string) inputtest.Case { return inputtest.Case{Method: "GET", Path: path} }
	remove := func(path string) inputtest.Case { return inputtest.Case{Method: "DELETE", Path: path} }
	patch := `{"` + arqs[1] + `": [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/instance_uuid", "value": "` + instanceB + `"},
		{"op": "add", "path": "/device_rp_uuid", "value": "` + fpgaProvider() + `"}]}`
	region := w.server.Deployables()[slices.IndexFunc(w.server.Deployables(), func(d fakecyborg.Deployable) bool { return d.ProviderUUID == fpgaProvider() })].UUID
	program := `[{"op": "replace", "path": "/program", "value": [{"image_uuid": "` + imageOne + `"}]}]`
	profile := `[{"name": "n", "description": "d", "uuid": "` + unknownID + `", "groups": [{"resources:FPGA": "1"}]}]`
	cases := []inputtest.Case{
		get("/v2/device_profiles?name=f"), {Method: "POST", Path: "/v2/device_profiles", Body: profile}, {Method: "POST", Path: "/v2/device_profiles/x", Body: profile},
		remove("/v2/device_profiles?value=f"),
		get("/v2/accelerator_requests?instance=" + instanceA + "&bind_state=resolved"),
		{Method: "POST", Path: "/v2/accelerator_requests", Body: `{"device_profile_name": "g"}`},
		{Method: "PATCH", Path: "/v2/accelerator_requests", Body: patch}, {Method: "PATCH", Path: "/v2/accelerator_requests/x", Body: patch},
		remove("/v2/accelerator_requests?arqs=" + arqs[1]), remove("/v2/accelerator_requests?instance=" + instanceA),
		{Method: "DELETE", Path: "/v2/accelerator_requests/" + arqs[1] + "?instance=" + instanceA, Refused: true},
		get("/v2/devices?type=GPU"), get("/v2/devices?vendor=0x8086"), get("/v2/devices?hostname=cn1"),
		get("/v2/devices?filters.field=limit&filters.value=1"), get("/v2/devices?filters%5B0%5D.field=limit&filters%5B0%5D.value=1"),
		get("/v2/deployables?filters.field=limit&filters.value=1"), get("/v2/deployables?filters%5B0%5D.field=limit&filters%5B0%5D.value=1"),
		{Method: "PATCH", Path: "/v2/deployables/" + region + "/program", Body: program},
		get("/v2/attributes?deployable_id=2&key=k"), remove("/v2/attributes?uuid=" + attribute),
		{Method: "POST", Path: "/v2/attributes", Body: `{"deployable_id": 2, "key": "a", "value": "b"}`},
	}
	inputtest.Check(t, fakecyborg.InputRoutes(w.server), cases, func(c inputtest.Case) inputtest.Answer {
		w, _, _ := inputWorld(t, fakecyborg.Config{})
		got := w.send(sent{method: c.Method, path: c.Path, body: c.Body, version: "2.1"})
		w.server.Close() // what a bind began comes to its end
		return inputtest.Answer{Status: got.status, Seen: got.text + w.inputState(t)}
	})
}

// What a server reads may depend on its configuration.
func TestTheImageOfARequestIsUnreadUnlessItIsUsed(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		w, _, _ := inputWorld(t, fakecyborg.Config{UseImageUUID: used})
		recorder := simhttp.NewRecorder(10)
		w.client = &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(w.server, recorder))}
		w.want(w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name": "f", "image_uuid": "` + imagePlain + `"}`}), 201, "")
		if got, want := fmt.Sprint(recorder.Exchanges()[0].Unrecognized), map[bool]string{true: "[]", false: "[body image_uuid]"}[used]; got != want {
			t.Errorf("image used: %v: got %s, want %s", used, got, want)
		}
	}
}

func TestAStrictServerSaysSoInItsOwnWords(t *testing.T) {
	t.Parallel()
	w, _, _ := inputWorld(t, fakecyborg.Config{})
	before := w.inputState(t)
	recorder := simhttp.NewRecorder(10)
	recorder.RefusesUnrecognized = true
	strict := &world{t: t, server: w.server, client: &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(w.server, recorder))}}
	got := strict.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name": "f", "device_profile_group_id": 0}`})
	if got.status != http.StatusBadRequest || !strings.HasSuffix(got.fault(), "body device_profile_group_id") {
		t.Errorf("got %d %s", got.status, got.text)
	}
	if after := w.inputState(t); after != before {
		t.Errorf("the refused request changed something: %s", after)
	}
}
