package fakecyborg_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// checkAnswer holds what every answer promises: no 500 where the input was bad,
// and a body that is JSON.
func checkAnswer(t *testing.T, r reply) {
	t.Helper()
	if r.status >= 500 {
		t.Errorf("status %d: %s", r.status, r.text)
	}
	if r.text != "" && !json.Valid([]byte(r.text)) {
		t.Errorf("status %d, body is not JSON: %q", r.status, r.text)
	}
}

func FuzzDeviceProfileBody(f *testing.F) {
	for _, seed := range []string{
		`[{"name":"p","groups":[{"resources:FPGA":"1","trait:CUSTOM_A":"required","accel:bitstream_id":null}]}]`,
		`[{"name":"p","description":5,"uuid":"` + unknownID + `","groups":[{"resources: VGPU ":2,"trait: CUSTOM_B ":"forbidden"}]}]`,
		`[{"name":"p","groups":[{"trait:CUSTOM_FPGA_XILINX":"required","resources:FPGA":"512"},{"resources:CUSTOM_X":"-3"}]}]`,
		`{"name":"p"}`, `[]`, `[1]`, `[{"name":["p"]}]`, `[{"name":"p","groups":[[]]}]`, `[{"name":"p\n","groups":[{}]}]`, `{"a":`, "\x00", `null`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := newWorld(t, fakecyborg.Config{}, nil)
		r := w.send(sent{method: "POST", path: "/v2/device_profiles", body: body})
		checkAnswer(t, r)
		stored := w.server.DeviceProfiles()
		if (r.status == http.StatusCreated) != (len(stored) == 1) {
			t.Fatalf("status %d, %d profiles stored", r.status, len(stored))
		}
		if len(stored) == 0 {
			return
		}
		// what is stored can be listed, fetched, used and deleted
		if got := len(w.get("/v2/device_profiles").list(t, "device_profiles")); got != 1 {
			t.Errorf("%d profiles listed", got)
		}
		w.want(w.get("/v2/device_profiles/"+stored[0].UUID), 200, "")
		made := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: fmt.Sprintf(`{"device_profile_name":%q}`, stored[0].Name)})
		if got := len(made.list(t, "arqs")); got == 0 || got > 1024 {
			t.Errorf("a stored profile makes %d requests", got)
		}
		for _, group := range stored[0].Groups {
			if len(group) == 0 {
				t.Error("an empty group was stored")
			}
		}
	})
}

func FuzzARQPatch(f *testing.F) {
	const arq = "ARQ"
	for _, seed := range []string{
		binding(instanceA, "RP", arq), unbinding(arq), `{}`, `[]`, `{"ARQ":[]}`, `{"ARQ":{}}`, `{"ARQ":[{"path":"hostname","op":"add","value":7}]}`,
		`{"ARQ":[{"path":"/instance_uuid","op":"add","value":null}]}`, `{"x":[{"op":"remove"}],"ARQ":[{"op":"add"}]}`, `{"ARQ":[{"path":1}]}`,
		`{"ARQ":[{"path":"/hostname","op":"remove"}],"ARQ":[{"path":"/hostname","op":"remove"}]}`, `{"a":`, `null`,
		strings.TrimSuffix(binding(instanceA, "RP", arq), "]}") + `,{"path":"/project_id","op":"add","value":"p"}]}`,
	} {
		f.Add(seed, "2.1")
	}
	f.Fuzz(func(t *testing.T, body, version string) {
		if !regexp.MustCompile(`^2\.[0-3]$`).MatchString(version) {
			version = "2.0"
		}
		card := newHardware("test", vgpu("af", 1))
		w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card})
		w.profile("v", `[{"resources:VGPU":"1"}]`)
		uuid := w.arqs("v")[0]
		body = strings.ReplaceAll(strings.ReplaceAll(body, "ARQ", uuid), "RP", vgpuProvider())
		r := w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: body, version: version})
		checkAnswer(t, r)
		state := w.server.ARQs()[0].State
		bound := state == fakecyborg.StateBound
		if bound != (w.used() == 1) || bound != (card.present() == 1) {
			t.Errorf("state %s with %d handles and %d mediated devices", state, w.used(), card.present())
		}
		if state == fakecyborg.StateBindStarted {
			t.Error("the request is still in BindStarted")
		}
		w.want(w.get("/v2/accelerator_requests/"+uuid), 200, "")
		w.want(w.delete("/v2/accelerator_requests?arqs="+uuid), 204, "")
		w.checkFreed(card)
	})
}

func FuzzVersionHeader(f *testing.F) {
	for _, seed := range []string{
		"accelerator 2.0", "accelerator 2.3", "accelerator latest", "latest", "2.1", "accelerator 2.4", "accelerator 1.0", "foo", "accelerator 2",
		"compute 2.1", "accelerator 2.1, compute 2.82", ",", "accelerator", "accelerator 2.99999999999999999999", "accelerator 02.1", "accelerator -2.1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ContainsAny(value, "\r\n\x00") {
			return
		}
		w := newWorld(t, fakecyborg.Config{}, nil)
		r := w.send(sent{method: "GET", path: "/v2/devices", header: map[string]string{"OpenStack-API-Version": value}})
		checkAnswer(t, r)
		echoed := r.header.Get("OpenStack-API-Version")
		switch r.status {
		case http.StatusOK:
			if !regexp.MustCompile(`^accelerator 2\.[0-3]$`).MatchString(echoed) {
				t.Errorf("%q: version %q echoed", value, echoed)
			}
		case http.StatusNotAcceptable:
			if echoed != "" || !strings.Contains(r.text, "406") {
				t.Errorf("%q: version %q echoed with %s", value, echoed, r.text)
			}
		default:
			t.Errorf("%q: status %d", value, r.status)
		}
	})
}

func FuzzListQuery(f *testing.F) {
	for _, seed := range []string{
		"type=FPGA&vendor=x", "filters.field=limit&filters.value=1", "filters[0].field=sort_key&filters[0].value=hostname",
		"filters.field=limit", "filters[7].value=x", "filters.field=sort_dir&filters.value=up", "limit=1", "%zz", "a;b", "deployable_id=x&key=rc", "filters.field=limit&filters.value=-1",
	} {
		f.Add(seed)
	}
	server := newServer(f, fakecyborg.Config{})
	f.Fuzz(func(t *testing.T, query string) {
		if strings.ContainsAny(query, " #\r\n\x00\x7f") {
			return
		}
		for _, collection := range []string{"devices", "deployables", "attributes", "device_profiles", "accelerator_requests"} {
			req := httptest.NewRequest("GET", "/v2/"+collection, nil)
			req.URL.RawQuery = query
			req.Header.Set("X-Auth-Token", "admin")
			rec := httptest.NewRecorder()
			server.ServeHTTP(rec, req)
			checkAnswer(t, reply{status: rec.Code, text: rec.Body.String()})
		}
	})
}
