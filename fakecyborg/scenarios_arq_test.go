package fakecyborg_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// states is a list of states, to be compared.
type states = []fakecyborg.State

func checkStates(t *testing.T, w *world, want ...fakecyborg.State) {
	t.Helper()
	if diff := cmp.Diff(want, w.states()); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// oneARQ is a world's request of a profile for one fake device.
func oneARQ(w *world) string {
	w.t.Helper()
	w.fakeProfile("one", 1)
	return w.arqs("one")[0]
}

const (
	textService = "This operation requires a service token. Use the Compute API to manage instance accelerators."
	textTaken   = "Couldn't apply patch. Reason: Instance " + instanceA + " already has accelerator requests. Cannot bind additional ARQs."
)

var arqScenarios = []scenario{
	{"one request per unit", func(t *testing.T, w *world, _ bool) {
		w.profile("p", `[{"resources:FPGA":"2"},{"resources:VGPU":"1"}]`)
		r := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"p","device_profile_group_id":null,"image_uuid":null}`})
		w.want(r, 201, "")
		arqs := r.list(t, "arqs")
		var got []string
		for _, a := range arqs {
			got = append(got, fmt.Sprintf("%v %v", a["device_profile_group_id"], a["state"]))
		}
		if diff := cmp.Diff([]string{"0 Initial", "0 Initial", "1 Initial"}, got); diff != "" {
			t.Errorf("ARQs (-want +got):\n%s", diff)
		}
		delete(arqs[0], "created_at")
		uuid := arqs[0]["uuid"].(string)
		want := map[string]any{
			"uuid": uuid, "state": "Initial", "device_profile_name": "p", "device_profile_group_id": 0.0, "hostname": nil,
			"device_rp_uuid": nil, "instance_uuid": nil, "project_id": "11111111111111111111111111111111",
			"attach_handle_type": "", "attach_handle_uuid": nil, "attach_handle_info": map[string]any{}, "updated_at": nil,
			"links": []any{map[string]any{"href": "http://cyborg.invalid/accelerator/v2/accelerator_requests/" + uuid, "rel": "self"}},
		}
		if diff := cmp.Diff(want, arqs[0]); diff != "" {
			t.Errorf("first ARQ (-want +got):\n%s", diff)
		}
	}},
	{"Xilinx doubles requests", func(t *testing.T, w *world, quirks bool) {
		w.profile("p", `[{"resources:FPGA":"1","trait:CUSTOM_FPGA_XILINX":"required"}]`)
		w.profile("old", `[{"resources:CUSTOM_ACCELERATOR_FPGA":"1","trait:CUSTOM_FPGA_XILINX":"required"}]`)
		if got := len(w.arqs("p")); got != 2 {
			t.Errorf("%d ARQs, want 2", got)
		}
		w.want(w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"old"}`}), either(quirks, 201, 500),
			either(quirks, "", "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"))
	}},
	{"create requests of an unknown profile", func(_ *testing.T, w *world, quirks bool) {
		post := func(body string) reply {
			return w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: body})
		}
		for _, name := range []string{"nope", "", "?%$#"} {
			w.want(post(fmt.Sprintf(`{"device_profile_name":%q}`, name)), 404, "Device Profile not found with name="+name)
		}
		w.want(post(`{}`), either(quirks, 400, 500), "DeviceProfile name needed.")
		w.want(post(`[]`), either(quirks, 400, 500), "'list' object has no attribute 'get'")
		w.want(post(``), 400, `Missing argument: "req"`)
		w.want(post(`{"device_profile_name":{}}`), either(quirks, 400, 500), "dict can not be used as parameter")
		w.want(post(`{"device_profile_name"`), 400, "Request is not in valid JSON format")
	}},
	{"life of a request", func(t *testing.T, w *world, _ bool) {
		w.fakeProfile("p", 2)
		arqs := w.arqs("p")
		if got := len(w.get("/v2/accelerator_requests").list(t, "arqs")); got != 2 {
			t.Errorf("%d ARQs listed", got)
		}
		w.want(w.get("/v2/accelerator_requests/"+arqs[0]), 200, "")
		w.want(w.delete("/v2/accelerator_requests?arqs="+strings.Join(arqs, ",")), 204, "")
		if got := w.get("/v2/accelerator_requests").text; got != `{"arqs":[]}` {
			t.Errorf("left: %s", got)
		}
	}},
	{"unknown request", func(t *testing.T, w *world, quirks bool) {
		arq := oneARQ(w)
		w.want(w.get("/v2/accelerator_requests/"+unknownID), 404, "ExtArq not found with uuid="+unknownID)
		w.want(w.get("/v2/accelerator_requests/xx"), 400, "")
		w.want(w.delete("/v2/accelerator_requests?arqs="+arq+","+unknownID), 404, "ExtArq not found with uuid="+unknownID)
		checkStates(t, w, fakecyborg.StateInitial)
		selector := "Object action delete failed because: Provide either an ARQ uuid list or an instance UUID"
		w.want(w.delete("/v2/accelerator_requests"), either(quirks, 400, 500), selector)
		w.want(w.delete("/v2/accelerator_requests?arqs="+arq+"&instance="+instanceA), either(quirks, 400, 500), selector)
		w.want(w.delete("/v2/accelerator_requests?arqs="+arq+","+arq), either(quirks, 204, 404), "")
		checkStates(t, w)
	}},
	{"bind needs a service token", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq), plain: true}), 403, textService)
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: unbinding(arq), plain: true}), 403, textService)
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: `{"` + arq + `":[{"path":"/x","op":"add","value":"y"}]}`, plain: true}),
			400, "Couldn't apply patch. Reason: Invalid path in patch /x")
		checkStates(t, w, fakecyborg.StateInitial)
	}},
	{"bind", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		r := w.patch(binding(instanceA, fakeProvider(), arq))
		w.want(r, 202, "")
		if r.text != "" || r.header.Get("Content-Length") != "0" || r.header.Get("Content-Type") != "" {
			t.Errorf("202 with body %q, headers %v", r.text, r.header)
		}
		got := w.get("/v2/accelerator_requests/" + arq).object(t)
		want := map[string]any{"domain": "0000", "bus": "0c", "device": "0", "function": "1"}
		if diff := cmp.Diff(want, got["attach_handle_info"]); got["state"] != "Bound" || got["attach_handle_type"] != "TEST_PCI" || diff != "" {
			t.Errorf("bound: %v (-want +got):\n%s", got, diff)
		}
		events := [][]sim.Event{{{Name: "accelerator-request-bound", ServerUUID: instanceA, Tag: &arq, Status: "completed"}}}
		if diff := cmp.Diff(events, w.nova.sent()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		h := w.nova.headers[0]
		if h.Get("OpenStack-API-Version") != "compute 2.82" || h.Get("X-OpenStack-Nova-API-Version") != "2.82" || h.Get("User-Agent") != "cyborg" {
			t.Errorf("headers of the event: %v", h)
		}
		w.server.CheckBound(t, instanceA, 1)
		w.server.CheckARQs(t, instanceB, 0)
	}},
	{"one event POST per PATCH", func(t *testing.T, w *world, _ bool) {
		w.fakeProfile("p", 3)
		arqs := w.arqs("p")
		w.want(w.patch(binding(instanceA, fakeProvider(), arqs...)), 202, "")
		if got := w.nova.sent(); len(got) != 1 || len(got[0]) != 3 {
			t.Errorf("events: %v", got)
		}
		checkStates(t, w, "Bound", "Bound", "Bound")
	}},
	{"events of two instances", func(t *testing.T, w *world, quirks bool) {
		w.fakeProfile("p", 2)
		arqs := w.arqs("p")
		first, second := binding(instanceA, fakeProvider(), arqs[0]), binding(instanceB, fakeProvider(), arqs[1])
		w.want(w.patch(first[:len(first)-1]+","+second[1:]), 202, "")
		if got, want := w.nova.sent()[0][1].ServerUUID, either(quirks, instanceB, instanceA); got != want {
			t.Errorf("second event is for %s, want %s", got, want)
		}
	}},
	{"instance already has requests", func(t *testing.T, w *world, quirks bool) {
		w.fakeProfile("p", 3)
		arqs := w.arqs("p")
		w.want(w.patch(binding(instanceA, fakeProvider(), arqs[0])), 202, "")
		w.want(w.patch(binding(instanceA, fakeProvider(), arqs[1])), 400, textTaken)
		checkStates(t, w, "Bound", "Initial", "Initial")
		first, second := binding(instanceB, fakeProvider(), arqs[1]), binding(instanceA, fakeProvider(), arqs[2])
		w.want(w.patch(first[:len(first)-1]+","+second[1:]), either(quirks, 400, 202), either(quirks, textTaken, ""))
		state := either[fakecyborg.State](quirks, "Initial", "Bound")
		checkStates(t, w, "Bound", state, state)
	}},
	{"bind in a wrong state", func(t *testing.T, w *world, quirks bool) {
		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
		w.want(w.patch(binding(instanceB, fakeProvider(), arq)), either(quirks, 409, 500),
			"Bad state: Bound for ARQ: "+arq+". Expected state(s): ['Initial', 'Unbound']")
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 400, textTaken)
		checkStates(t, w, "Bound")
	}},
	{"project_id of a bind", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		body := binding(instanceA, fakeProvider(), arq)
		body = strings.TrimSuffix(body, "]}") + `,{"path":"/project_id","op":"add","value":"22222222222222222222222222222222"}]}`
		patch := func(version, token string) reply {
			return w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: body, version: version, token: token})
		}
		w.want(patch("2.0", ""), 406, "Request not acceptable. The minimal required API version should be 2.1")
		w.want(patch("2.1", "demo"), 403, "Access was denied to the following resource: cyborg:arq:update")
		w.want(patch("2.1", ""), 202, "")
		if got := w.server.ARQs()[0].ProjectID; got != "22222222222222222222222222222222" {
			t.Errorf("project %s", got)
		}
	}},
	{"rebind after an unbind", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
		handle := w.server.ARQs()[0].AttachHandleUUID
		w.want(w.patch(unbinding(arq)), 202, "")
		checkStates(t, w, "Unbound")
		got := w.get("/v2/accelerator_requests/" + arq).object(t)
		if got["instance_uuid"] != nil || got["hostname"] != nil || got["project_id"] == nil || w.used() != 0 {
			t.Errorf("unbound: %v, %d handles in use", got, w.used())
		}
		w.want(w.patch(binding(instanceB, fakeProvider(), arq)), 202, "")
		if got := w.server.ARQs()[0].AttachHandleUUID; got != handle {
			t.Errorf("handle %s, want the one freed, %s", got, handle)
		}
		w.checkPosts(2) // unbinding sends none
	}},
	{"attach handles exhausted", func(t *testing.T, w *world, _ bool) {
		w.fakeProfile("p", 17)
		w.fakeProfile("q", 3)
		w.want(w.patch(binding(instanceA, fakeProvider(), w.arqs("p")[:15]...)), 202, "")
		arqs := w.arqs("q")
		r := w.patch(binding(instanceB, fakeProvider(), arqs...))
		w.want(r, 404, "AttachHandle not found Matching deployable_id 1")
		got := w.states()[17:]
		if diff := cmp.Diff(states{"Bound", "BindFailed", "Initial"}, got); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		w.checkPosts(1) // the first PATCH's
	}},
	{"bind to an unknown provider", func(t *testing.T, w *world, quirks bool) {
		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, unknownID, arq)), 404, "Deployable not found with resource provider uuid="+unknownID)
		checkStates(t, w, either[fakecyborg.State](quirks, "BindFailed", "BindStarted"))
		w.server.CheckHandlesInUse(t, fakeProvider(), 0)
		w.want(w.get("/v2/accelerator_requests?bind_state=resolved&instance="+instanceA), either(quirks, 200, 423), "")
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		checkStates(t, w)
	}},
	{"unresolved requests", func(t *testing.T, w *world, quirks bool) {
		w.fakeProfile("p", 2)
		arqs := w.arqs("p")
		list := "/v2/accelerator_requests?bind_state=resolved&instance=" + instanceA
		if got := w.get(list).text; got != `{"arqs":[]}` {
			t.Errorf("without ARQs: %s", got)
		}
		w.want(w.patch(binding(instanceA, fakeProvider(), arqs[0])), 202, "")
		if got := len(w.get(list).list(t, "arqs")); got != 1 {
			t.Errorf("%d resolved", got)
		}
		if got := len(w.get("/v2/accelerator_requests?bind_state=resolved").list(t, "arqs")); got != 1 {
			t.Errorf("%d resolved of all", got)
		}
		if quirks { // otherwise nothing stays BindStarted without a delay
			w.want(w.patch(binding(instanceB, unknownID, arqs[1])), 404, "")
			r := w.get("/v2/accelerator_requests?bind_state=resolved&instance=" + instanceB)
			if r.status != 423 || r.text != `{"error_message":"null"}` {
				t.Errorf("unresolved: %d %s", r.status, r.text)
			}
		}
	}},
	{"bad bind_state", func(_ *testing.T, w *world, quirks bool) {
		w.want(w.get("/v2/accelerator_requests?bind_state=started"), either(quirks, 400, 500), "Bad state: started for ARQ: None. Expected state(s): ['resolved']")
		w.want(w.get("/v2/accelerator_requests?bind_state="), 200, "")
		w.want(w.get("/v2/accelerator_requests?bind_state=started&bind_state=resolved"), 200, "")
		w.want(w.get("/v2/accelerator_requests?instance="), 400, "Invalid input for field/attribute instance. Value: ''. unable to convert to uuid. Error: Expected a uuid but received .")
		w.want(w.get("/v2/accelerator_requests?instance=x"), 400, "Invalid input for field/attribute instance. Value: 'x'. unable to convert to uuid. Error: Expected a uuid but received x.")
		w.want(w.get("/v2/accelerator_requests?foo=x"), 400, `Unknown argument: "foo"`)
	}},
	{"delete by instance twice", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
		for range 2 {
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
		}
		checkStates(t, w)
		w.server.CheckHandlesInUse(t, fakeProvider(), 0)
		w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA, plain: true}), 403, textService)
	}},
	{"two instances", func(t *testing.T, w *world, _ bool) {
		w.want(w.patch(binding(instanceA, fakeProvider(), oneARQ(w))), 202, "")
		query, list := "/v2/accelerator_requests?instance="+instanceA+"&instance="+instanceB, "['"+instanceA+"', '"+instanceB+"']"
		refused := "Invalid input for field/attribute instance. Value: '" + list + "'. unable to convert to uuid. Error: Expected a uuid but received " + list + "."
		w.want(w.get(query), 400, refused)
		w.want(w.delete(query), 400, refused)
		w.want(w.delete("/v2/accelerator_requests?instance="), 400, "")
		checkStates(t, w, "Bound")
	}},
	{"delete a bound request needs a service token", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
		refused := "ARQ " + arq + " is bound to instance " + instanceA + ". Use the Compute API to manage instance accelerators."
		for _, path := range []string{"?arqs=" + arq, "/" + arq} {
			w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests" + path, plain: true}), 403, refused)
		}
		checkStates(t, w, "Bound")
	}},
	{"delete an unbound request", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests/" + arq, plain: true}), 204, "")
		checkStates(t, w)
	}},
	{"requests of another project", func(t *testing.T, w *world, quirks bool) {
		arq := oneARQ(w)
		demo := func(method, path string) reply {
			return w.send(sent{method: method, path: path, token: "demo", plain: !quirks})
		}
		if got := demo("GET", "/v2/accelerator_requests").text; got != `{"arqs":[]}` {
			t.Errorf("the other project lists %s", got)
		}
		w.want(demo("GET", "/v2/accelerator_requests/"+arq), 404, "ExtArq not found with uuid="+arq)
		w.want(demo("DELETE", "/v2/accelerator_requests/"+arq), 404, "ExtArq not found with uuid="+arq)
		r := w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq), token: "demo", plain: !quirks})
		w.want(r, either(quirks, 403, 404), either(quirks, textService, "ExtArq not found with uuid="+arq))
		checkStates(t, w, "Initial")
	}},
	{"list scope", func(t *testing.T, w *world, _ bool) {
		oneARQ(w)
		w.want(w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"one"}`, token: "demo"}), 201, "")
		for token, want := range map[string]int{"demo": 1, "": 2} {
			if got := len(w.send(sent{method: "GET", path: "/v2/accelerator_requests", token: token}).list(t, "arqs")); got != want {
				t.Errorf("%q lists %d ARQs, want %d", token, got, want)
			}
		}
	}},
	// An administrator evacuates a server: Nova creates and binds the requests in the administrator's
	// name, and deletes them in the owner's.
	{"requests that an administrator made for an instance", func(t *testing.T, w *world, quirks bool) {
		as := func(token, method, path, body string, plain bool) reply {
			return w.send(sent{method: method, path: "/v2/accelerator_requests" + path, token: token, body: body, plain: plain})
		}
		list := func(path string, plain bool) int { return len(as("demo", "GET", path, "", plain).list(t, "arqs")) }
		arq := oneARQ(w)
		w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
		for path, want := range map[string]int{"?instance=" + instanceA: either(quirks, 1, 0), "?instance=" + instanceB: 0, "": 0} {
			if got, hidden := list(path, false), list(path, true); got != want || hidden != 0 {
				t.Errorf("GET %q: the owner's Nova sees %d, want %d, and the owner %d", path, got, want, hidden)
			}
		}
		w.want(as("demo", "GET", "/"+arq, "", false), 404, "")
		w.want(as("demo", "DELETE", "/"+arq, "", true), 404, "")
		if !quirks { // upstream lets the owner's Nova bind another request, for which there is no handle
			w.want(as("demo", "PATCH", "", binding(instanceA, fakeProvider(), arq), false), 400, "")
		}
		w.want(as("demo", "PATCH", "", unbinding(arq), false), either(quirks, 202, 404), "")
		if !quirks {
			w.want(as("demo", "PATCH", "", binding(instanceA, fakeProvider(), arq), false), 202, "")
		}
		w.want(as("demo", "DELETE", "?instance="+instanceA, "", false), 204, "")
		w.server.CheckARQs(t, instanceA, either(quirks, 0, 1))
	}},
	{"bad patches", func(t *testing.T, w *world, quirks bool) {
		arq := oneARQ(w)
		uncoded := either(quirks, 400, 500)
		patch := "Couldn't apply patch. Reason: "
		for _, tt := range []struct {
			ops    string
			status int
			fault  string
		}{
			{`[{"path":"/hostname","op":"add","value":"h"},{"path":"/hostname","op":"remove"}]`, 400, patch + "Every op must be add or remove"},
			{`[{"path":"/hostname","op":"replace","value":"h"}]`, 400, patch + "Every op must be add or remove"},
			{`[{"path":"/foo","op":"add","value":"h"}]`, 400, patch + "Invalid path in patch /foo"},
			{`[{"path":"//hostname","op":"add","value":"h"}]`, 400, patch + "Fields absent in patch device_rp_uuid,instance_uuid"},
			{`[{"path":"hostname","op":"add","value":null}]`, 400, patch + "Fields absent in patch hostname,device_rp_uuid,instance_uuid"},
			{`[{"path":"/hostname","op":"add"}]`, uncoded, "'value'"},
			{`[]`, uncoded, "list index out of range"},
			{`{}`, uncoded, "0"},
			{`{"a":1}`, uncoded, "string indices must be integers, not 'str'"},
			{`""`, uncoded, "string index out of range"},
			{`null`, uncoded, "'NoneType' object is not iterable"},
			{`[1]`, uncoded, "'int' object is not subscriptable"},
			{`[[]]`, uncoded, "list indices must be integers or slices, not str"},
			{`[{"path":"/hostname","value":"h"}]`, uncoded, "'op'"},
			{`[{"op":"add","value":"h"}]`, uncoded, "'path'"},
			{`[{"path":5,"op":"add","value":"h"}]`, uncoded, "'int' object has no attribute 'lstrip'"},
			{`[{"path":"/hostname","op":"add","value":[]},{"path":"/device_rp_uuid","op":"add","value":"r"},{"path":"/instance_uuid","op":"add","value":"i"}]`, uncoded, "A string is required in field hostname, not a list"},
			{`[{"path":"/hostname","op":"add","value":"h"},{"path":"/device_rp_uuid","op":"add","value":{}},{"path":"/instance_uuid","op":"add","value":"i"}]`, uncoded, "A string is required in field device_rp_uuid, not a dict"},
			{`[{"path":"/hostname","op":"add","value":"h"},{"path":"/device_rp_uuid","op":"add","value":"r"},{"path":"/instance_uuid","op":"add","value":[]}]`, uncoded, "A string is required in field instance_uuid, not a list"},
		} {
			w.want(w.patch(fmt.Sprintf(`{%q:%s}`, arq, tt.ops)), tt.status, tt.fault)
		}
		w.want(w.patch(`{}`), uncoded, "list index out of range")
		w.want(w.patch(`[]`), uncoded, "'list' object has no attribute 'items'")
		w.want(w.patch(`null`), uncoded, "'NoneType' object has no attribute 'items'")
		w.want(w.patch(`{bad`), 400, "Request is not in valid JSON format")
		w.want(w.patch(``), 400, `Missing argument: "patch_list"`)
		w.want(w.patch(binding(instanceA, fakeProvider(), unknownID)), 404, "ExtArq not found with uuid="+unknownID)
		checkStates(t, w, "Initial")
		for _, s := range []sent{
			{body: `{}`, header: map[string]string{"Content-Type": "text/plain"}},
			{body: `a=b`, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		} {
			s.method, s.path = "PATCH", "/v2/accelerator_requests"
			w.want(w.send(s), either(s.body == `{}`, 400, 415), "")
		}
	}},
	{"unreadable binds", func(t *testing.T, w *world, quirks bool) {
		arq := oneARQ(w)
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding("inst1", fakeProvider(), arq), plain: true}), 403, textService)
		for column, body := range map[string]string{
			"instance_uuid":  binding(strings.Repeat("i", 37), fakeProvider(), arq),
			"device_rp_uuid": binding(instanceA, strings.Repeat("p", 37), arq),
			"hostname":       strings.Replace(binding(instanceA, fakeProvider(), arq), `"cn0"`, `"`+strings.Repeat("h", 256)+`"`, 1),
			"project_id":     strings.Replace(binding(instanceA, fakeProvider(), arq), "}]}", `},{"path":"/project_id","op":"add","value":"`+strings.Repeat("p", 256)+`"}]}`, 1),
		} {
			r := w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: body, version: "2.1"})
			if r.status != either(quirks, 400, 500) || quirks && r.fault() != "Data too long for column '"+column+"' at row 1" {
				t.Errorf("%s: got %d %s", column, r.status, r.fault())
			}
		}
		checkStates(t, w, "Initial")
		r := w.patch(binding("inst1", fakeProvider(), arq))
		w.want(r, either(quirks, 400, 202), "")
		w.want(w.get("/v2/accelerator_requests"), either(quirks, 200, 400), "")
		w.want(w.patch(unbinding(arq)), 202, "")
		w.want(w.get("/v2/accelerator_requests"), 200, "")
		w.server.CheckHandlesInUse(t, fakeProvider(), 0)
	}},
	{"event of an instance without a host", func(t *testing.T, w *world, _ bool) {
		w.nova.status, w.nova.codes = 207, []int{422}
		w.want(w.patch(binding(instanceA, fakeProvider(), oneARQ(w))), 202, "")
		checkStates(t, w, "Bound")
	}},
	{"event refused", func(t *testing.T, w *world, _ bool) {
		w.fakeProfile("p", 2)
		for i, answer := range []struct {
			status int
			codes  []int
		}{{207, []int{422, 200}}, {207, []int{404, 404}}, {400, nil}, {500, nil}} {
			w.nova.status, w.nova.codes = answer.status, answer.codes
			arqs := w.arqs("p")
			instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)
			r := w.patch(binding(instance, fakeProvider(), arqs...))
			if r.status != 400 || !strings.HasPrefix(r.fault(), "Bad API response from Nova for os-server-external-events API. Details: ") {
				t.Errorf("%v: got %d %s", answer, r.status, r.fault())
			}
			w.server.CheckBound(t, instance, 2)
		}
	}},
	{"policy and service token", func(_ *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		scoped := map[string]string{"OpenStack-System-Scope": "all"}
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq), header: scoped}),
			403, "Access was denied to the following resource: cyborg:arq:update")
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq), plain: true}), 403, textService)
	}},
	{"paths of openstacksdk", func(t *testing.T, w *world, _ bool) {
		arq := oneARQ(w)
		w.want(w.send(sent{method: "PATCH", path: "/accelerator/v2/accelerator_requests/" + arq, body: binding(instanceA, fakeProvider(), arq)}), 202, "")
		w.want(w.delete("/accelerator/v2/accelerator_requests/"+arq), 204, "")
		checkStates(t, w)
	}},
}
