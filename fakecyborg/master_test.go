package fakecyborg_test

import (
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// After 2026.2 error_message is the fault itself where that is JSON; before it is a text that holds it.
func TestErrorsOfEachRelease(t *testing.T) {
	t.Parallel()
	const unknown = `{"error_message":{"faultcode":"Client","faultstring":"Device Profile not found with name=nope","debuginfo":null}}`
	const tooNew = `{"error_message":{"code":406,"title":"Not Acceptable","description":"Version 2.9 was requested but the minor version is ` +
		`not supported by this service. The supported version range is: [2.0, 2.3]."}}`
	text := func(object string) string {
		inner := strings.TrimSuffix(strings.TrimPrefix(object, `{"error_message":`), "}")
		inner = strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(inner) // as Python writes it
		return `{"error_message":"` + strings.ReplaceAll(inner, `"`, `\"`) + `"}`
	}
	for release, master := range map[fakecyborg.Release]bool{"": false, fakecyborg.Release20262: false, fakecyborg.ReleaseMaster: true} {
		w := fakeWorld(t, fakecyborg.Config{Release: release, UpstreamQuirks: true})
		want := func(r reply, status int, object string) {
			t.Helper()
			if object = either(master, text(object), object); r.status != status || r.text != object {
				t.Errorf("release %q: %d %s\nwant %d %s", release, r.status, r.text, status, object)
			}
		}
		want(w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"nope"}`}), 404, unknown)
		want(w.send(sent{method: "GET", path: "/v2/devices", version: "2.9"}), 406, tooNew)
		want(w.send(sent{method: "DELETE", path: "/v2/devices"}), 405, `{"error_message":{"code":405,"title":"Method Not Allowed","description":""}}`)

		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, unknownID, arq)), 404, "")
		want(w.get("/v2/accelerator_requests?bind_state=resolved&instance="+instanceA), 423, `{"error_message":null}`)

		r := w.send(sent{method: "GET", path: "/v2/devices", version: "2.9", header: map[string]string{"Accept": "*/*"}})
		if !strings.HasPrefix(r.text, `{"error_message":"<html>`) && !strings.HasPrefix(r.text, `{"error_message":"\u003chtml`) {
			t.Errorf("release %q: markup is no text: %s", release, r.text)
		}
		r = w.send(sent{method: "GET", path: "/v2/devices", token: "none"})
		if r.status != 401 || !strings.HasPrefix(r.text, `{"error":{`) {
			t.Errorf("release %q: without a token: %d %s", release, r.status, r.text)
		}
	}
}

// After 2026.2 each group needs a resource class. This is checked before its keys.
func TestMasterWantsResourcesInEveryGroup(t *testing.T) {
	t.Parallel()
	const none = "Device profile group must contain at least one 'resources:' key."
	for _, tt := range []struct {
		groups         string
		before, master int // statuses with the quirks
		text           string
	}{
		{`[{}]`, 201, 400, none},
		{`[{"trait:CUSTOM_A":"required"}]`, 201, 400, none},
		{`[{"resources:FPGA":"1"},{"accel:x":"1"}]`, 201, 400, none},
		{`[{"res:FPGA":"1"}]`, 400, 400, none},
		{`[{"trait:HW_A":"required"}]`, 400, 400, none},
		{`{"resources:FPGA":"1"}`, 500, 400, none},
		{`["resources:FPGA"]`, 500, 400, none},
		{`{}`, 500, 500, ""},
		{`[]`, 500, 500, "DeviceProfile needs groups field."},
		{`[{"resources:":"1"}]`, 400, 400, "Unsupported resource class "},
		{`[{"resources:FPGA":"0"}]`, 201, 201, ""},
	} {
		for release, want := range map[fakecyborg.Release]int{fakecyborg.Release20262: tt.before, fakecyborg.ReleaseMaster: tt.master} {
			w := fakeWorld(t, fakecyborg.Config{Release: release, UpstreamQuirks: true})
			r := w.postProfile(`[{"name":"p","groups":` + tt.groups + `}]`)
			if r.status != want {
				t.Errorf("%s, %s: %d %s, want %d", release, tt.groups, r.status, r.text, want)
			}
			if release == fakecyborg.ReleaseMaster && tt.text != "" && r.fault() != tt.text {
				t.Errorf("%s: %s, want %s", tt.groups, r.fault(), tt.text)
			}
		}
		w := fakeWorld(t, fakecyborg.Config{Release: fakecyborg.ReleaseMaster}) // the defaults refuse all of them
		if r := w.postProfile(`[{"name":"p","groups":` + tt.groups + `}]`); r.status != 400 {
			t.Errorf("%s: %d %s, want 400", tt.groups, r.status, r.text)
		}
	}
}
