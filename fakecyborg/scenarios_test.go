package fakecyborg_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// scenario is one acceptance scenario of the API, run with the repaired
// behaviour and with upstream's.
type scenario struct {
	id  string
	run func(t *testing.T, w *world, quirks bool)
}

// either is the value for the repaired or the upstream behaviour.
func either[T any](quirks bool, repaired, upstream T) T {
	if quirks {
		return upstream
	}
	return repaired
}

// ownWorld is a scenario that needs another world than the fake driver's.
type ownWorld struct {
	id  string
	run func(t *testing.T, quirks bool)
}

var ownWorlds = []ownWorld{
	{"bind a mediated device", testBindAMediatedDevice}, {"agent fails to create a mediated device", testAgentFailsToCreateAMediatedDevice}, {"bitstream is programmed once", testBitstreamIsProgrammedOnce}, {"function by image", testFunctionByImage}, {"bitstream and function", testBitstreamAndFunction}, {"request deleted during a bind", testRequestDeletedDuringABind},
	{"disable and enable a device", testDisableAndEnableADevice}, {"program a deployable", testProgramADeployable},
	{"first report", testFirstReport}, {"repeated report", testRepeatedReport}, {"agent start", testAgentStart}, {"host without a provider", testHostWithoutAProvider}, {"capacity change", testCapacityChange}, {"trait and class change", testTraitAndClassChange}, {"vanished device", testVanishedDevice},
	{"vGPU configuration errors", testVGPUConfigurationErrors}, {"virtual functions of a vGPU card", testVirtualFunctionsOfAVGPUCard}, {"PCI whitelist", testPCIWhitelist},
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		suffix := either(quirks, "", "/quirks")
		for _, s := range ownWorlds {
			t.Run(s.id+suffix, func(t *testing.T) {
				t.Parallel()
				s.run(t, quirks)
			})
		}
		for _, s := range slices.Concat(surfaceScenarios, profileScenarios, arqScenarios, deviceScenarios) {
			t.Run(s.id+suffix, func(t *testing.T) {
				t.Parallel()
				s.run(t, fakeWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}), quirks)
			})
		}
	}
}

// shape is the keys of an object with the types of their values.
func shape(object map[string]any) string {
	var parts []string
	for key, value := range object {
		kind := fmt.Sprintf("%T", value)
		switch value.(type) {
		case nil:
			kind = "null"
		case float64:
			kind = "number"
		case []any:
			kind = "list"
		case map[string]any:
			kind = "object"
		}
		parts = append(parts, key+":"+kind)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

var surfaceScenarios = []scenario{
	{"version list without a token", func(t *testing.T, w *world, _ bool) {
		for _, path := range []string{"/", "/accelerator", "/accelerator/"} {
			r := w.send(sent{method: "GET", path: path, token: "none"})
			w.want(r, 200, "")
			want := map[string]any{
				"id": "v2", "status": "CURRENT", "max_version": "2.3", "min_version": "2.0",
				"links": []any{map[string]any{"href": "http://cyborg.invalid/accelerator/v2", "rel": "self"}},
			}
			if diff := cmp.Diff(want, r.object(t)["default_version"]); diff != "" {
				t.Errorf("%s: default version (-want +got):\n%s", path, diff)
			}
			if r.header.Get("OpenStack-API-Version") != "" {
				t.Errorf("%s has version headers: %v", path, r.header)
			}
		}
	}},
	{"version document", func(t *testing.T, w *world, _ bool) {
		for _, path := range []string{"/v2", "/v2/", "/accelerator/v2", "/accelerator/v2/"} {
			r := w.send(sent{method: "GET", path: path, token: "none", version: "latest"})
			w.want(r, 200, "")
			want := map[string]any{
				"id": "v2.0", "status": "CURRENT", "max_version": "2.3", "min_version": "2.0",
				"links": []any{map[string]any{"href": "http://cyborg.invalid/accelerator/v2/", "rel": "self"}},
			}
			if diff := cmp.Diff(want, r.object(t)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
			if got := r.header.Get("OpenStack-API-Version"); got != "accelerator 2.3" {
				t.Errorf("%s: version echoed %q", path, got)
			}
		}
	}},
	{"no version header means 2.0", func(t *testing.T, w *world, _ bool) {
		r := w.get("/v2/devices")
		want := map[string]string{
			"Vary": "OpenStack-API-Version", "OpenStack-API-Version": "accelerator 2.0",
			"OpenStack-API-Minimum-Version": "2.0", "OpenStack-API-Maximum-Version": "2.3", "Content-Type": "application/json",
		}
		for name, value := range want {
			if got := r.header.Get(name); got != value {
				t.Errorf("header %s: got %q, want %q", name, got, value)
			}
		}
		if !strings.HasPrefix(r.header.Get("x-openstack-request-id"), "req-") {
			t.Errorf("no request id: %v", r.header)
		}
	}},
	{"version header with and without the service type", func(t *testing.T, w *world, _ bool) {
		for _, value := range []string{"2.1", "accelerator 2.1", "accelerator  2.1", "compute 2.82, accelerator 2.1", "accelerator 2.1, compute 2.82"} {
			r := w.send(sent{method: "GET", path: "/v2/devices", header: map[string]string{"OpenStack-API-Version": value}})
			if got := r.header.Get("OpenStack-API-Version"); r.status != 200 || got != "accelerator 2.1" {
				t.Errorf("%q: got %d, %q", value, r.status, got)
			}
		}
	}},
	{"unsupported versions", func(t *testing.T, w *world, _ bool) {
		exclusive := "Mutually exclusive versions requested. Version 1.0 requested but not supported by this service. The supported version range is: [2.0, 2.3]."
		minor := "Version 2.9 was requested but the minor version is not supported by this service. The supported version range is: [2.0, 2.3]."
		w.want(w.send(sent{method: "GET", path: "/v2/devices", version: "1.0"}), 406, exclusive)
		w.want(w.send(sent{method: "GET", path: "/v2/devices", version: "2.9"}), 406, minor)
		bad := w.send(sent{method: "GET", path: "/v2/devices", version: "foo"})
		w.want(bad, 406, "Invalid value for OpenStack-API-Version header")
		if bad.header.Get("OpenStack-API-Maximum-Version") != "" {
			t.Errorf("an unreadable version is answered with a range: %v", bad.header)
		}
	}},
	{"discovery below v2", func(t *testing.T, w *world, _ bool) {
		for _, path := range []string{"/accelerator/v2/devices", "/accelerator/devices", "/devices", "/v2/devices/", "/v2/devices.json"} {
			if got := len(w.get(path).list(t, "devices")); got != 1 {
				t.Errorf("%s: %d devices", path, got)
			}
		}
	}},
	{"unknown paths and methods", func(t *testing.T, w *world, _ bool) {
		w.want(w.get("/v2/nonsense"), 404, "")
		w.want(w.get("/v1/devices"), 404, "")
		w.want(w.send(sent{method: "POST", path: "/v2/accelerator_requests/x/y", body: "{}"}), 404, "")
		for path, allow := range map[string]string{
			"/v2/device_profiles/x": "DELETE, GET, POST", "/v2/accelerator_requests": "DELETE, GET, PATCH, POST", "/v2/devices": "GET",
		} {
			r := w.send(sent{method: "PUT", path: path, body: "{}"})
			if r.status != 405 || r.header.Get("Allow") != allow || r.header.Get("Vary") != "" {
				t.Errorf("PUT %s: %d, Allow %q, Vary %q; want 405, %q, none", path, r.status, r.header.Get("Allow"), r.header.Get("Vary"), allow)
			}
		}
		html := func(title, text string) string {
			return "<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + text + "\n </body>\n</html>"
		}
		const browser = "The resource could not be generated that was acceptable to your browser"
		for _, tt := range []struct {
			method, path, accept string
			status               int
			fault                string
		}{
			{"GET", "/v2/nonsense", "*/*", 404, html("404 Not Found", "The resource could not be found.<br /><br />\n\n\n")},
			{"GET", "/v2/nonsense", "", 404, "404 Not Found\n\nThe resource could not be found.\n\n   "},
			{"GET", "/v2/nonsense", "text/html", 406, html("406 Not Acceptable", browser+"\n(content of type text/html. <br /><br />\n")},
			{"GET", "/v2/nonsense", "text/html;a=<b>", 406, html("406 Not Acceptable", browser+"\n(content of type text/html;a=&lt;b&gt;. <br /><br />\n")},
			{"GET", "/v2/devices", "text/plain", 406, "406 Not Acceptable\n\n" + browser + " (content of type text/plain. \n\n "},
			{"GET", "/v2/devices.json", "text/plain", 200, ""},
			{"GET", "/", "text/html", 406, ""},
			{"GET", "/v2", "text/html", 406, ""},
			{"PUT", "/v2/devices", "text/html", 405, html("405 Method Not Allowed", "The method PUT is not allowed for this resource. <br /><br />\n")},
			{"PUT", "/v2/devices", "text/plain", 405, "405 Method Not Allowed\n\nThe method PUT is not allowed for this resource. \n\n "},
		} {
			r := w.send(sent{method: tt.method, path: tt.path, header: map[string]string{"Accept": tt.accept}})
			if r.status != tt.status || tt.fault != "" && r.fault() != tt.fault || tt.status != 200 && r.header.Get("Vary") != "" {
				t.Errorf("%s %s for %q: got %d %q, Vary %q; want %d %q", tt.method, tt.path, tt.accept, r.status, r.fault(), r.header.Get("Vary"), tt.status, tt.fault)
			}
		}
	}},
	{"requests without a token", func(t *testing.T, w *world, _ bool) {
		for _, path := range []string{"/v2/devices", "/v2/nonsense", "/"} {
			r := w.send(sent{method: "OPTIONS", path: path, token: "none"})
			if r.status != 200 || r.text != "" || r.header.Get("X-Openstack-Request-Id") != "" {
				t.Errorf("OPTIONS %s: %d %q %v", path, r.status, r.text, r.header)
			}
		}
		for _, path := range []string{"/", "/v2", "/v2.json", "/accelerator/v2/"} {
			for _, method := range []string{"HEAD", "POST", "DELETE"} {
				if r := w.send(sent{method: method, path: path, token: "none"}); r.status != 405 || r.header.Get("Allow") != "GET" {
					t.Errorf("%s %s: %d, Allow %q", method, path, r.status, r.header.Get("Allow"))
				}
			}
		}
	}},
	{"json after the path", func(_ *testing.T, w *world, _ bool) {
		w.profile("p", oneFPGA)
		w.want(w.send(sent{method: "GET", path: "/v2/device_profiles/p.json", version: "2.2"}), 200, "")
		device := w.server.Devices()[0].UUID
		w.want(w.get("/v2/devices/"+device+".json"), 200, "")
		w.want(w.send(sent{method: "POST", path: "/v2/devices/" + device + "/enable.json"}), 204, "")
		w.want(w.get("/v2/devices/x.y.json"), 404, "Device not found with uuid=x.y")
	}},
	{"numbers of a version", func(t *testing.T, w *world, _ bool) {
		for value, want := range map[string]string{"2.01": "accelerator 2.1", "+2.1": "accelerator 2.1", "2. 1": "accelerator 2.1", "2.1.1": "", "2": ""} {
			r := w.send(sent{method: "GET", path: "/v2/devices", version: value})
			if got := r.header.Get("OpenStack-API-Version"); got != want || (r.status == 200) != (want != "") {
				t.Errorf("%q: got %d, %q, want %q", value, r.status, got, want)
			}
		}
		w.want(w.send(sent{method: "GET", path: "/v2/devices", version: "2.-1"}), 406, "Version 2.-1 was requested but the minor version is not supported by this service. The supported version range is: [2.0, 2.3].")
	}},
	{"shapes of the documented samples", func(t *testing.T, w *world, _ bool) {
		w.fakeProfile("p", 1)
		w.arqs("p")
		for name, want := range map[string]string{
			"device_profiles":      "created_at:string description:null groups:list links:list name:string updated_at:null uuid:string",
			"accelerator_requests": "attach_handle_info:object attach_handle_type:string attach_handle_uuid:null created_at:string device_profile_group_id:number device_profile_name:string device_rp_uuid:null hostname:null instance_uuid:null links:list project_id:string state:string updated_at:null uuid:string",
			"devices":              "created_at:string hostname:string links:list model:string status:string std_board_info:string type:string updated_at:null uuid:string vendor:string vendor_board_info:string",
			"deployables":          "attributes_list:string bitstream_id:null created_at:string device_id:number driver_name:string links:list name:string num_accelerators:number parent_id:null root_id:null rp_uuid:string updated_at:string uuid:string",
			"attributes":           "created_at:string deployable_id:number key:string links:list updated_at:null uuid:string value:string",
		} {
			key := either(name == "accelerator_requests", name, "arqs")
			r := w.send(sent{method: "GET", path: "/v2/" + name, version: "2.3"})
			if got := shape(r.list(t, key)[0]); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
			}
		}
	}},
	{"no token", func(t *testing.T, w *world, _ bool) {
		r := w.send(sent{method: "GET", path: "/v2/devices", token: "none"})
		want := map[string]any{"error": map[string]any{
			"code": 401.0, "title": "Unauthorized", "message": "The request you have made requires authentication.",
		}}
		if diff := cmp.Diff(want, r.object(t)); r.status != 401 || diff != "" {
			t.Errorf("%d (-want +got):\n%s", r.status, diff)
		}
		if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Keystone uri=") {
			t.Errorf("WWW-Authenticate %q", r.header.Get("WWW-Authenticate"))
		}
	}},
}

const oneFPGA = `[{"resources:FPGA":"1"}]`

func (w *world) postProfile(body string) reply {
	w.t.Helper()
	return w.send(sent{method: "POST", path: "/v2/device_profiles", body: body})
}

var profileScenarios = []scenario{
	{"life of a profile", func(t *testing.T, w *world, _ bool) {
		r := w.postProfile(`[{"name":"p","description":"d","groups":[{"trait:CUSTOM_A":"required","resources:FPGA":1}]}]`)
		w.want(r, 201, "")
		uuid := r.object(t)["uuid"].(string)
		if want := `"groups":[{"trait:CUSTOM_A":"required","resources:FPGA":"1"}]`; !strings.Contains(r.text, want) {
			t.Errorf("the order of the group was not kept: %s", r.text)
		}
		if got := w.get("/v2/device_profiles").list(t, "device_profiles"); len(got) != 1 || got[0]["updated_at"] != nil {
			t.Errorf("list: %v", got)
		}
		one := w.get("/v2/device_profiles/" + uuid).object(t)["device_profile"].(map[string]any)
		if one["updated_at"] != "None" || !strings.Contains(one["created_at"].(string), " ") {
			t.Errorf("one: %v", one)
		}
		w.want(w.delete("/v2/device_profiles/"+uuid), 204, "")
		if got := w.get("/v2/device_profiles").text; got != `{"device_profiles":[]}` {
			t.Errorf("after the deletion: %s", got)
		}
	}},
	{"profile delete by name", func(_ *testing.T, w *world, _ bool) {
		w.profile("p", oneFPGA)
		w.want(w.delete("/v2/device_profiles/p"), 204, "")
	}},
	{"profiles delete by names", func(t *testing.T, w *world, _ bool) {
		w.profile("a", oneFPGA)
		w.profile("b", oneFPGA)
		w.want(w.delete("/v2/device_profiles?value=a,b"), 204, "")
		if left := w.server.DeviceProfiles(); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}},
	{"profiles delete unknown names", func(_ *testing.T, w *world, _ bool) {
		w.want(w.delete("/v2/device_profiles?value=a,b"), 404, "Device Profile not found with name=a")
	}},
	{"unknown profile uuid", func(_ *testing.T, w *world, _ bool) {
		w.want(w.delete("/v2/device_profiles/"+unknownID), 404, "Device Profile not found with uuid="+unknownID)
		w.want(w.get("/v2/device_profiles/"+unknownID), 404, "Device Profile not found with uuid="+unknownID)
	}},
	{"profile delete without a name", func(_ *testing.T, w *world, _ bool) {
		w.want(w.delete("/v2/device_profiles/"), 400, `Missing argument: "value"`)
	}},
	{"profile name twice", func(_ *testing.T, w *world, _ bool) {
		w.profile("p", oneFPGA)
		w.want(w.postProfile(`[{"name":"p","groups":`+oneFPGA+`}]`), 409, "A device_profile with name p already exists.")
	}},
	{"profile uuid twice", func(_ *testing.T, w *world, quirks bool) {
		body := func(name string) string {
			return fmt.Sprintf(`[{"name":%q,"uuid":%q,"groups":%s}]`, name, unknownID, oneFPGA)
		}
		w.want(w.postProfile(body("a")), 201, "")
		w.want(w.postProfile(body("b")), either(quirks, 409, 500), "DeviceProfile with uuid "+unknownID+" already exists.")
	}},
	{"empty profile name", func(_ *testing.T, w *world, quirks bool) {
		w.want(w.postProfile(`[{"name":"","groups":`+oneFPGA+`}]`), either(quirks, 400, 500), "DeviceProfile name needed.")
	}},
	{"long profile name", func(_ *testing.T, w *world, quirks bool) {
		w.want(w.postProfile(`[{"name":"`+strings.Repeat("a", 256)+`","groups":`+oneFPGA+`}]`), either(quirks, 400, 500), "")
		w.want(w.postProfile(`[{"name":"`+strings.Repeat("a", 255)+`","groups":`+oneFPGA+`}]`), 201, "")
	}},
	{"bad profile groups", func(t *testing.T, w *world, quirks bool) {
		uncoded := either(quirks, 400, 500)
		for _, tt := range []struct {
			body   string
			status int
			fault  string
		}{
			{`[]`, 400, "Only one device profile allowed per POST request for now."},
			{`{"name":"p","groups":[]}`, 400, "Only one device profile allowed per POST request for now."},
			{`{"name":"p"}`, uncoded, "0"},
			{`"p"`, uncoded, "'str' object has no attribute 'get'"},
			{`[null]`, uncoded, "'NoneType' object has no attribute 'get'"},
			{`5`, uncoded, "object of type 'int' has no len()"},
			{`[{"name":5,"groups":` + oneFPGA + `}]`, uncoded, "expected string or bytes-like object, got 'int'"},
			{`[{"name":"p","groups":` + oneFPGA + `,"created_at":1}]`, uncoded, "A datetime.datetime is required in field created_at, not a int"},
			{`[{"name":"p","groups":` + oneFPGA + `,"id":null}]`, uncoded, "Field `id' cannot be None"},
			{`[{"name":"p","groups":` + oneFPGA + `,"uuid":null}]`, uncoded, "Field `uuid' cannot be None"},
			{`[{"name":"p","groups":` + oneFPGA + `,"description":[]}]`, uncoded, "A string is required in field description, not a list"},
			{`[{"name":"p","groups":` + oneFPGA + `,"description":"` + strings.Repeat("x", 1<<16) + `"}]`, uncoded, "Data too long for column 'description' at row 1"},
			{`[{"name":"p","groups":[{"resources:FPGA":"1","accel:x":{}}]}]`, uncoded, "A string is required in field groups[0][accel:x], not a dict"},
			{`[{"name":"p","groups":["x"]}]`, uncoded, "'str' object has no attribute 'items'"},
			{`[{"name":"p","groups":5}]`, uncoded, "'int' object is not iterable"},
			{`{bad`, 400, "Request is not in valid JSON format"},
			{`[{"groups":` + oneFPGA + `}]`, uncoded, "DeviceProfile name needed."},
			{`[{"name":"a b","groups":` + oneFPGA + `}]`, 400, "Device profile name must be of the form ^[a-zA-Z0-9-_]+$"},
			{`[{"name":"p"}]`, uncoded, "DeviceProfile needs groups field."},
			{`[{"name":"p","groups":[]}]`, uncoded, "DeviceProfile needs groups field."},
			{`[{"name":"p","groups":{"a":"b"}}]`, uncoded, "'str' object has no attribute 'items'"},
			{`[{"name":"p","groups":[{"res:FPGA":"1"}]}]`, 400, "Device profile group keys must be of the form ^(resources:|trait:|accel:)"},
			{`[{"name":"p","groups":[{"trait:HW_X":"required"}]}]`, 400, "Unsupported trait name format HW_X, should start with CUSTOM_"},
			{`[{"name":"p","groups":[{"trait:CUSTOM_X":"preferred"}]}]`, 400, "Unsupported trait value preferred, the value must be one among ['required', 'forbidden']"},
			{`[{"name":"p","groups":[{"trait:CUSTOM_X":[1E3,-0,"a'b\u0001",{"a":null}]}]}]`, 400, `Unsupported trait value [1000.0, 0, "a'b\x01", {'a': None}], the value must be one among ['required', 'forbidden']`},
			{`[{"name":"p","groups":` + oneFPGA + `,"id":"a'b"}]`, uncoded, `invalid literal for int() with base 10: "a'b"`},
			{`[{"name":"p","groups":` + oneFPGA + `,"id":` + strings.Repeat("9", 4301) + `}]`, 400, "Request is not in valid JSON format"},
			{`[{"name":"p","groups":[{"resources:PCI_DEVICE":"1"}]}]`, 400, "Unsupported resource class PCI_DEVICE"},
			{`[{"name":"p","groups":[{"resources:FPGA":"abc"}]}]`, 400, "Resources number abc is invalid"},
			{`[{"name":"p","groups":[{"resources:FPGA":"99999999999999999999"}]}]`, 400, "Device profile asks for more than 1024 accelerators"},
			{`[{"name":"p","groups":[{"resources:FPGA":"1025"}]}]`, 400, "Device profile asks for more than 1024 accelerators"},
			{`[{"name":"p","groups":[{"resources:FPGA":{"a":1}}]}]`, uncoded, "int() argument must be a string, a bytes-like object or a real number, not 'dict'"},
		} {
			t.Run(tt.body, func(t *testing.T) {
				r := w.postProfile(tt.body)
				if r.status != tt.status || tt.fault != "" && r.fault() != tt.fault {
					t.Errorf("got %d %s, want %d %s", r.status, r.fault(), tt.status, tt.fault)
				}
			})
		}
		if left := w.server.DeviceProfiles(); len(left) != 0 {
			t.Errorf("a refused profile was stored: %v", left)
		}
	}},
	{"unusable profile groups", func(t *testing.T, w *world, quirks bool) {
		for i, groups := range []string{
			`[{}]`, `[{"trait:CUSTOM_A":"required"}]`, `[{"resources:FPGA":"0"}]`, `[{"resources:FPGA":"-1"}]`,
			`[{"resources:FPGA":"1","trait:CUSTOM_a":"required"}]`,
		} {
			name := fmt.Sprint("p", i)
			r := w.postProfile(fmt.Sprintf(`[{"name":%q,"groups":%s}]`, name, groups))
			if want := either(quirks, 400, 201); r.status != want {
				t.Errorf("%s: got %d %s, want %d", groups, r.status, r.fault(), want)
			}
		}
		if quirks {
			if got := len(w.arqs("p0")) + len(w.arqs("p1")) + len(w.arqs("p2")) + len(w.arqs("p3")); got != 0 {
				t.Errorf("groups without an amount made %d ARQs", got)
			}
		}
	}},
	{"bad profile uuid", func(t *testing.T, w *world, quirks bool) {
		w.want(w.postProfile(`[{"name":"p","uuid":"no","groups":`+oneFPGA+`}]`), 400, "Expected a uuid but received no.")
		w.want(w.get("/v2/device_profiles"), either(quirks, 200, 400), "") // upstream has stored it, and can list no more
		loaded(t, w.server, dumped(t, w.server))
	}},
	{"blanks in group keys", func(t *testing.T, w *world, _ bool) {
		r := w.postProfile(`[{"name":"p","groups":[{"trait: CUSTOM_A ":"required","resources: FPGA ":"1","accel:x":null}]}]`)
		w.want(r, 201, "")
		if want := `[{"accel:x":null,"trait:CUSTOM_A":"required","resources:FPGA":"1"}]`; !strings.Contains(r.text, want) {
			t.Errorf("got %s, want groups %s", r.text, want)
		}
	}},
	{"profile by name", func(_ *testing.T, w *world, _ bool) {
		w.profile("p", oneFPGA)
		w.want(w.get("/v2/device_profiles/p"), 406, "Request not acceptable. The minimal required API version should be 2.2")
		w.want(w.send(sent{method: "GET", path: "/v2/device_profiles/p", version: "2.2"}), 200, "")
		w.want(w.send(sent{method: "GET", path: "/v2/device_profiles/q", version: "2.2"}), 404, "Device Profile not found with name=q")
	}},
	{"profiles by names", func(t *testing.T, w *world, _ bool) {
		for _, name := range []string{"a", "b", "c"} {
			w.profile(name, oneFPGA)
		}
		for query, want := range map[string]int{"?name=a,c,x": 2, "?name=": 0, "?name=x": 0, "": 3} {
			if got := len(w.get("/v2/device_profiles"+query).list(t, "device_profiles")); got != want {
				t.Errorf("%q: %d profiles, want %d", query, got, want)
			}
		}
		w.want(w.get("/v2/device_profiles?uuid=x"), 400, `Unknown argument: "uuid"`)
		w.want(w.get("/v2/device_profiles?uuid=x&id=y"), 400, `Unknown argument: "id, uuid"`)
		if got := w.get("/v2/device_profiles?name=a&name=b,c").list(t, "device_profiles"); len(got) != 2 {
			t.Errorf("of two names: %v, want the names in the last argument", got)
		}
	}},
	{"arguments of a profile delete", func(t *testing.T, w *world, _ bool) {
		for _, name := range []string{"a", "b", "c"} {
			w.profile(name, oneFPGA)
		}
		w.want(w.delete("/v2/device_profiles?value="), 404, "Device Profile not found with name=")
		w.want(w.delete("/v2/device_profiles?value=a&value=b"), 204, "")
		w.want(w.delete("/v2/device_profiles/a?value=c"), 204, "")
		if left := w.server.DeviceProfiles(); len(left) != 1 || left[0].Name != "a" {
			t.Errorf("profiles %v, want a alone: of repeated arguments the last counts, before the path", left)
		}
	}},
	{"delete a profile in use", func(_ *testing.T, w *world, quirks bool) {
		w.fakeProfile("p", 1)
		arqs := w.arqs("p")
		w.want(w.delete("/v2/device_profiles/p"), either(quirks, 409, 500), "")
		w.want(w.delete("/v2/accelerator_requests?arqs="+arqs[0]), 204, "")
		w.want(w.delete("/v2/device_profiles/p"), 204, "")
	}},
	{"profile create needs admin", func(_ *testing.T, w *world, _ bool) {
		for _, role := range []string{"manager", "member", "reader", "service", "none"} {
			w.want(w.send(sent{method: "POST", path: "/v2/device_profiles", body: `[{"name":"p","groups":` + oneFPGA + `}]`, token: "demo", header: map[string]string{"X-Roles": role}}),
				403, "Access was denied to the following resource: cyborg:device_profile:create")
		}
	}},
}

var deviceScenarios = []scenario{
	{"policy before arguments", func(_ *testing.T, w *world, _ bool) {
		for _, s := range []struct{ method, path, body, rule string }{
			{"DELETE", "/v2/device_profiles", "", "device_profile:delete"},
			{"DELETE", "/v2/device_profiles?foo=1", "", "device_profile:delete"},
			{"POST", "/v2/device_profiles", "", "device_profile:create"},
			{"POST", "/v2/device_profiles", "{", "device_profile:create"},
			{"DELETE", "/v2/attributes", "", "attribute:delete"},
			{"POST", "/v2/attributes", "", "attribute:create"},
			{"PATCH", "/v2/deployables/bad/program", "[]", "deployable:program"},
			{"POST", "/v2/devices/bad/disable?foo=1", "", "device:disable"},
		} {
			w.want(w.send(sent{method: s.method, path: s.path, body: s.body, token: "demo"}), 403, "Access was denied to the following resource: cyborg:"+s.rule)
		}
		w.want(w.send(sent{method: "GET", path: "/v2/devices?foo=1", token: "demo"}), 400, `Unknown argument: "foo"`)
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", token: "demo", version: "2.1", body: `{"x":[{"path":"/project_id","op":"add","value":"p"},{"path":"/foo","op":"add"}]}`}),
			403, "Access was denied to the following resource: cyborg:arq:update")
	}},
	{"device list filters", func(t *testing.T, w *world, _ bool) {
		for query, want := range map[string]int{
			"": 1, "?type=FPGA": 1, "?vendor=0xABCD": 1, "?hostname=cn0": 1, "?type=FPGA&hostname=cn0&vendor=0xABCD": 1,
			"?type=GPU": 0, "?vendor=x": 0, "?hostname=cn1": 0, "?type=FPGA&hostname=x": 0,
			"?vendor=": 1, "?type=&hostname=&vendor=": 1, "?type=GPU&type=FPGA": 1, "?type=FPGA&type=GPU": 0, "?type=GPU&type=": 1,
		} {
			if got := len(w.get("/v2/devices"+query).list(t, "devices")); got != want {
				t.Errorf("%q: %d devices, want %d", query, got, want)
			}
		}
		w.want(w.get("/v2/devices?limit=1"), 400, `Unknown argument: "limit"`)
	}},
	{"unknown hardware", func(_ *testing.T, w *world, _ bool) {
		w.want(w.get("/v2/devices/"+unknownID), 404, "Device not found with uuid="+unknownID)
		w.want(w.get("/v2/devices/xx"), 404, "Device not found with uuid=xx")
		w.want(w.get("/v2/deployables/"+unknownID), 404, "Deployable not found with uuid="+unknownID)
		w.want(w.get("/v2/deployables/xx"), 400, "Invalid input for field/attribute uuid. Value: 'xx'. unable to convert to uuid. Error: Expected a uuid but received xx.")
		w.want(w.get("/v2/attributes/"+unknownID), 404, "Attribute not found with uuid="+unknownID)
		w.want(w.get("/v2/attributes/xx"), 400, "Invalid input for field/attribute uuid. Value: 'xx'. unable to convert to uuid. Error: Expected a uuid but received xx.")
		w.want(w.delete("/v2/attributes/xx"), 404, "Attribute not found with uuid=xx")
	}},
	{"deployables and attributes", func(t *testing.T, w *world, _ bool) {
		device := w.server.Devices()[0]
		deployable := w.get("/v2/deployables").list(t, "deployables")[0]
		want := map[string]any{
			"name": "cn0_FakeDevice", "num_accelerators": 16.0, "device_id": float64(device.ID), "rp_uuid": fakeProvider(),
			"driver_name": "fake", "bitstream_id": nil, "parent_id": nil, "root_id": nil,
			"attributes_list": `[{"traits1": "CUSTOM_FAKE_DEVICE"}, {"rc": "FPGA"}]`,
		}
		for name, value := range want {
			if deployable[name] != value {
				t.Errorf("deployable %s: got %v, want %v", name, deployable[name], value)
			}
		}
		w.want(w.get("/v2/deployables/"+deployable["uuid"].(string)), 200, "")
		attributes := w.get("/v2/attributes").list(t, "attributes")
		if len(attributes) != 2 {
			t.Errorf("attributes: %v", attributes)
		}
		w.want(w.get("/v2/attributes/"+attributes[0]["uuid"].(string)), 200, "")
		w.want(w.get("/v2/devices/"+device.UUID), 200, "")
	}},
	{"device status from 2.3", func(t *testing.T, w *world, _ bool) {
		for version, want := range map[string]any{"2.2": nil, "2.3": "enabled"} {
			r := w.send(sent{method: "GET", path: "/v2/devices", version: version})
			if got := r.list(t, "devices")[0]["status"]; got != want {
				t.Errorf("%s: status %v, want %v", version, got, want)
			}
		}
	}},
	{"attributes", func(t *testing.T, w *world, quirks bool) {
		post := func(body string) reply {
			return w.send(sent{method: "POST", path: "/v2/attributes", body: body})
		}
		r := post(`{"deployable_id":1,"key":"note","value":5,"other":true}`)
		w.want(r, 201, "")
		if got := r.object(t); got["value"] != "5" || got["updated_at"] != nil {
			t.Errorf("created: %v", got)
		}
		if got := w.get("/v2/attributes?key=note&deployable_id=1").list(t, "attributes"); len(got) != 1 {
			t.Errorf("by key: %v", got)
		}
		if got := w.get("/v2/attributes?key=&deployable_id=0").list(t, "attributes"); len(got) != 3 {
			t.Errorf("by nothing: %v", got)
		}
		for id, want := range map[string]int{"0_1": 3, "%D9%A1": 3, "0_7": 0, "%D9%A7": 0} { // as Python's int reads them
			if got := w.get("/v2/attributes?deployable_id="+id).list(t, "attributes"); len(got) != want {
				t.Errorf("by deployable %s: %v, want %d", id, got, want)
			}
		}
		w.want(post(`{"deployable_id":7,"key":"note","value":"x"}`), either(quirks, 404, 500), "")
		w.want(post(`{"key":"note","value":"x"}`), either(quirks, 400, 500), "Cannot load 'deployable_id' in the base class")
		uncoded := either(quirks, 400, 500)
		for body, fault := range map[string]string{
			`{"deployable_id":1,"key":"note"}`:                                           "Column 'value' cannot be null",
			`{"deployable_id":1,"value":"x"}`:                                            "Column 'key' cannot be null",
			`{"deployable_id":1,"key":"note","value":null}`:                              "Field `value' cannot be None",
			`{"deployable_id":1,"key":[],"value":"x"}`:                                   "A string is required in field key, not a list",
			`{"deployable_id":"x","key":"k","value":"x"}`:                                "invalid literal for int() with base 10: 'x'",
			`{"deployable_id":[],"key":"k","value":"x"}`:                                 "int() argument must be a string, a bytes-like object or a real number, not 'list'",
			`{"deployable_id":1,"key":"k","value":"x","id":null}`:                        "Field `id' cannot be None",
			`{"deployable_id":1,"key":"k","value":"x","created_at":"x"}`:                 "Unable to parse date string 'x'",
			`{"deployable_id":1,"key":"k","value":"` + strings.Repeat("x", 1<<16) + `"}`: "Data too long for column 'value' at row 1",
			`[]`: "cyborg.objects.attribute.Attribute() argument after ** must be a mapping, not list",
		} {
			w.want(post(body), uncoded, fault)
		}
		w.want(post(`{"deployable_id":1,"key":1e3,"value":-0.50}`), 201, "")
		if got := w.get("/v2/attributes?key=1000.0").list(t, "attributes"); len(got) != 1 || got[0]["value"] != "-0.5" {
			t.Errorf("numbers as Python writes them: %v", got)
		}
		own := `{"deployable_id":true,"key":"own","value":"` + strings.Repeat("x", 255) + `","uuid":"` + unknownID + `"}`
		w.want(post(own), 201, "")
		w.want(post(own), either(quirks, 409, 500), "Attribute with uuid "+unknownID+" already exists.")
		w.want(w.delete("/v2/attributes/"+unknownID), 204, "")
		w.want(post(`{"deployable_id":1,"key":"own","value":"x","uuid":"no"}`), 400, "Expected a uuid but received no.")
		w.want(w.delete("/v2/attributes/no"), either(quirks, 404, 204), "") // upstream refuses it when it is stored
		w.want(post(strings.Replace(own, "xxx", "xxxx", 1)), either(quirks, 400, 201), "")
		if quirks {
			w.want(w.delete("/v2/attributes/"+unknownID), 204, "")
		}
		settled(t, w.server.Report(t.Context()))
		uuid := r.object(t)["uuid"].(string)
		w.want(w.delete("/v2/attributes/"+uuid), either(quirks, 204, 404), "") // upstream's next report deletes it
		w.want(w.delete("/v2/attributes/"+uuid), 404, "Attribute not found with uuid="+uuid)
		w.want(w.delete("/v2/attributes"), 400, `Missing argument: "uuid"`)
	}},
	{"sort and limit", func(t *testing.T, w *world, quirks bool) {
		settled(t, w.server.AddHost(driver.Host{Name: "cn1", Drivers: []driver.Driver{fake.New("cn1")}}))
		settled(t, w.server.Report(t.Context()))
		hosts := func(query string) string {
			var names []string
			for _, d := range w.get("/v2/devices"+query).list(t, "devices") {
				names = append(names, d["hostname"].(string))
			}
			return strings.Join(names, " ")
		}
		for query, want := range map[string]string{
			"":                                     "cn0 cn1",
			"?type=FPGA":                           "cn1 cn0", // the newest comes first as soon as anything is asked for
			"?filters.field=limit&filters.value=1": "cn1",
			"?filters.field=limit&filters.value=0": "",
			"?filters[0].value=x":                  "cn1 cn0",
			"?filters[0].field=sort_dir&filters[0].value=asc-nullsfirst":                                          "cn0 cn1",
			"?filters.field=sort_key&filters.value=hostname&filters.field=sort_dir&filters.value=asc":             "cn0 cn1",
			"?filters[0].field=sort_key&filters[0].value=id&filters[1].field=limit&filters[1].value=1":            "cn1",
			"?filters.field=marker&filters.value=x&filters.field=sort_dir&filters.value=asc":                      "cn0 cn1",
			"?hostname=cn0&filters.field=sort_key&filters.value=type&filters.field=sort_dir&filters.value=asc":    "cn0",
			"?filters.field=sort_key&filters.value=hostname&filters.field=limit&filters.value=1&vendor=0xABCD":    "cn1",
			"?filters.field=parent_uuid&filters.value=x&filters.field=sort_dir&filters.value=asc&hostname=absent": "",
		} {
			if got := hosts(query); got != want {
				t.Errorf("%q: hosts %q, want %q", query, got, want)
			}
		}
		w.want(w.get("/v2/devices?filters.field=sort_key&filters.value=bogus"), 400, `The sort_key value "bogus" is an invalid field for sorting`)
		w.want(w.get("/v2/devices?filters.field=sort_dir&filters.field=sort_key&filters.value=x&filters.value=bogus"), 400, `The sort_key value "bogus" is an invalid field for sorting`)
		w.want(w.get("/v2/devices?filters.field=colour&filters.value=red"), 400, "")
		w.want(w.get(`/v2/devices?filters=x&foo=1`), 400, "Invalid input for field/attribute filters. Value: 'x'. unable to convert to ArrayType. Error: FilterType() takes no arguments")
		w.want(w.get("/v2/devices?filters[0].x=1"), 400, `Unknown argument: "filters[0].x"`)
		uncoded := either(quirks, 400, 500)
		for query, fault := range map[string]string{
			"field=limit&filters[0].value=x":  "invalid literal for int() with base 10: 'x'",
			"field=limit":                     "int() argument must be a string, a bytes-like object or a real number, not 'UnsetType'",
			"field=limit&filters[0].value=-1": "",
			"field=sort_dir":                  "'UnsetType' object has no attribute 'partition'",
			"field=sort_dir&filters[0].value=x&filters[1].field=limit&filters[1].value=x": "Unknown sort direction, must be one of: asc-nullsfirst, asc-nullslast, desc-nullsfirst, desc-nullslast",
			"field=sort_dir&filters[0].value=x":                                           "Unknown sort direction, must be one of: asc-nullsfirst, asc-nullslast, desc-nullsfirst, desc-nullslast",
		} {
			w.want(w.get("/v2/devices?filters[0]."+query), uncoded, fault)
		}
		named := w.get("/v2/deployables?filters.field=name&filters.value=cn1_FakeDevice").list(t, "deployables")
		if len(named) != 1 || named[0]["name"] != "cn1_FakeDevice" {
			t.Errorf("by name: %v", named)
		}
	}},
}

var _ http.Handler = (*fakecyborg.Server)(nil)
