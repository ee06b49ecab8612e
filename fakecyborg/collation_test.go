package fakecyborg_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// The answers of Cyborg 17 on MariaDB 11.8, and what it answers to unknown names.
func TestNamesCompareAsInTheDatabase(t *testing.T) {
	t.Parallel()
	const uuid = "eeeeeeee-0000-4000-8000-000000000005"
	for _, tt := range []struct {
		name          string
		before        func(w *world) sent // what the request is about
		mysql, binary int                 // status
		found         int                 // of a list, with MariaDB; a binary collation does none of this
	}{
		{"a second profile", func(w *world) sent {
			w.fakeProfile("fake", 1)
			return sent{method: "POST", path: "/v2/device_profiles", body: `[{"name":"FAKE","groups":[{"resources:FPGA":"1"}]}]`}
		}, 409, 201, 0},
		{"a second UUID", func(w *world) sent {
			w.want(w.postProfile(`[{"name":"a","uuid":"`+uuid+`","groups":[{"resources:FPGA":"1"}]}]`), 201, "")
			return sent{method: "POST", path: "/v2/device_profiles", body: `[{"name":"b","uuid":"` + strings.ToUpper(uuid) + `","groups":[{"resources:FPGA":"1"}]}]`}
		}, 409, 201, 0},
		{"a profile by its name", func(w *world) sent {
			w.fakeProfile("fake", 1)
			return sent{method: "GET", path: "/v2/device_profiles/F%C3%81KE%20", version: "2.2"}
		}, 200, 404, 0},
		{"a profile by its UUID", func(w *world) sent {
			w.want(w.postProfile(`[{"name":"a","uuid":"`+strings.ToUpper(uuid)+`","groups":[{"resources:FPGA":"1"}]}]`), 201, "")
			return sent{method: "GET", path: "/v2/device_profiles/" + uuid}
		}, 200, 404, 0},
		{"a list of profiles by name", func(w *world) sent { // is filtered in Python
			w.fakeProfile("fake", 1)
			return sent{method: "GET", path: "/v2/device_profiles?name=FAKE"}
		}, 200, 200, 0},
		{"a deletion of a profile", func(w *world) sent {
			w.fakeProfile("fake", 1)
			return sent{method: "DELETE", path: "/v2/device_profiles?value=FAKE"}
		}, 204, 404, 0},
		{"requests of a profile", func(w *world) sent {
			w.fakeProfile("fake", 1)
			return sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"FAKE"}`}
		}, 201, 404, 1},
		{"a request", func(w *world) sent {
			return sent{method: "GET", path: "/v2/accelerator_requests/" + strings.ToUpper(oneARQ(w))}
		}, 200, 404, 0},
		{"a bind of a request", func(w *world) sent { // Python searches for the patch
			return sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), strings.ToUpper(oneARQ(w)))}
		}, 400, 404, 0},
		{"a bind to a provider", func(w *world) sent {
			return sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, strings.ToUpper(fakeProvider()), oneARQ(w))}
		}, 202, 404, 0},
		{"requests of an instance", func(w *world) sent { // are filtered in Python
			w.want(w.patch(binding(instanceA, fakeProvider(), oneARQ(w))), 202, "")
			return sent{method: "GET", path: "/v2/accelerator_requests?instance=" + strings.ToUpper(instanceA)}
		}, 200, 200, 0},
		{"an unbind of a request", func(w *world) sent {
			arq := oneARQ(w)
			w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
			return sent{method: "PATCH", path: "/v2/accelerator_requests", body: fmt.Sprintf(`{%q:[{"path":"/hostname","op":"remove"}]}`, strings.ToUpper(arq))}
		}, 202, 404, 0},
		{"a deletion of a request", func(w *world) sent {
			return sent{method: "DELETE", path: "/v2/accelerator_requests?arqs=" + strings.ToUpper(oneARQ(w))}
		}, 204, 404, 0},
		{"a device", func(w *world) sent {
			return sent{method: "GET", path: "/v2/devices/" + strings.ToUpper(w.server.Devices()[0].UUID)}
		}, 200, 404, 0},
		{"devices of a type", func(*world) sent { return sent{method: "GET", path: "/v2/devices?type=fpga"} }, 200, 200, 1},
		{"devices of a host", func(*world) sent { return sent{method: "GET", path: "/v2/devices?hostname=C%C5%830%20"} }, 200, 200, 1},
		{"a deployable", func(w *world) sent {
			return sent{method: "GET", path: "/v2/deployables/" + strings.ToUpper(w.server.Deployables()[0].UUID)}
		}, 200, 404, 0},
		{"deployables of a name", func(*world) sent {
			return sent{method: "GET", path: "/v2/deployables?filters.field=name&filters.value=CN0_fakedevice"}
		}, 200, 200, 1},
		{"attributes of a key", func(*world) sent { return sent{method: "GET", path: "/v2/attributes?key=RC"} }, 200, 200, 1},
		{"an attribute", func(w *world) sent {
			return sent{method: "DELETE", path: "/v2/attributes/" + strings.ToUpper(w.server.Attributes()[0].UUID)}
		}, 204, 404, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for collation, want := range map[sim.Collation]struct{ status, found int }{"": {tt.mysql, tt.found}, sim.CollationBinary: {tt.binary, 0}} {
				w := fakeWorld(t, fakecyborg.Config{Collation: collation})
				got := w.send(tt.before(w))
				if got.status != want.status {
					t.Errorf("collation %q: got %d %s, want %d", collation, got.status, got.fault(), want.status)
				}
				if n := strings.Count(got.text, `{"uuid"`); tt.found > 0 && got.status < 300 && n != want.found {
					t.Errorf("collation %q: got %s, want %d", collation, got.text, want.found)
				}
			}
		})
	}
}

func TestARequestOfAProjectIsSeenInAnySpelling(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	w.fakeProfile("fake", 1)
	_, err := w.server.CreateARQs("fake", "Lab")
	settled(t, err)
	got := w.send(sent{method: "GET", path: "/v2/accelerator_requests", token: "alice:lab", plain: true, header: map[string]string{"X-Roles": "member"}})
	if n := len(got.list(t, "arqs")); n != 1 {
		t.Errorf("%d requests, want the project's one: %s", n, got.text)
	}
}

func TestAnUnknownCollationIsRefused(t *testing.T) {
	t.Parallel()
	if err := (fakecyborg.Config{Collation: "latin1"}).Validate(); !errors.Is(err, fakecyborg.ErrConfig) || !strings.Contains(err.Error(), "latin1") {
		t.Errorf("error %v, want one about the collation", err)
	}
}
