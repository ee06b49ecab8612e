package fakecyborg_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// What a server reads may depend on its configuration.
func TestTheImageOfARequestIsUnreadUnlessItIsUsed(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		w := newWorld(t, fakecyborg.Config{UseImageUUID: used}, nil, withImages(t))
		w.profile("f", `[{"resources:FPGA":"1"}]`)
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
	w := fakeWorld(t, fakecyborg.Config{})
	w.fakeProfile("f", 1)
	w.arqs("f")
	before := dumped(t, w.server)
	recorder := simhttp.NewRecorder(10)
	recorder.RefusesUnrecognized = true
	strict := &world{t: t, server: w.server, client: &http.Client{Transport: simhttp.NewTransport(simhttp.Recording(w.server, recorder))}}
	got := strict.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name": "f", "device_profile_group_id": 0}`})
	if got.status != http.StatusBadRequest || !strings.HasSuffix(got.fault(), "body device_profile_group_id") {
		t.Errorf("got %d %s", got.status, got.text)
	}
	if after := dumped(t, w.server); !bytes.Equal(after, before) {
		t.Errorf("the refused request changed something: %s", after)
	}
}
