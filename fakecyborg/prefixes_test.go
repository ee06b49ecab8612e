package fakecyborg_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// version is the header of a microversion.
func version(value string) map[string]string {
	return map[string]string{"OpenStack-API-Version": value}
}

func TestEveryRouteIsServedUnderEveryPrefix(t *testing.T) {
	t.Parallel()
	for _, release := range []fakecyborg.Release{fakecyborg.ReleaseZed, fakecyborg.Release20262, fakecyborg.ReleaseMaster} {
		w := fakeWorld(t, fakecyborg.Config{Release: release})
		w.fakeProfile("p", 1)
		arq, deployable := w.arqs("p")[0], w.server.Deployables()[0]
		ids := map[string]string{
			"device_profiles": w.server.DeviceProfiles()[0].UUID, "accelerator_requests": arq,
			"devices": w.server.Devices()[0].UUID, "deployables": deployable.UUID, "attributes": unknownID,
		}
		routes := 0
		for _, route := range w.server.Routes() {
			path, versioned := strings.CutPrefix(route.Pattern, "/v2/")
			if !versioned {
				continue // the documents about versions
			}
			routes++
			collection, _, member := strings.Cut(path, "/")
			id := ids[collection]
			if route.Method != http.MethodGet {
				id = unknownID // nothing may change between the forms
			}
			path = strings.ReplaceAll(path, "{id}", id)
			forms := []string{"/v2/" + path, "/accelerator/v2/" + path, "/" + path, "/accelerator/" + path}
			if !member {
				for _, form := range forms[:4] {
					forms = append(forms, form+"/", form+".json")
				}
			}
			want := w.send(sent{method: route.Method, path: forms[0], body: emptyBody(route.Method)})
			if want.status == http.StatusMethodNotAllowed || route.Method == http.MethodGet && want.status >= 400 && collection != "attributes" {
				t.Errorf("%s %s: %d %s", route.Method, forms[0], want.status, want.text)
			}
			for _, form := range forms[1:] {
				got := w.send(sent{method: route.Method, path: form, body: emptyBody(route.Method)})
				if got.status != want.status || got.text != want.text {
					t.Errorf("%s, %s %s: %d %s\nwant as %s: %d %s", release, route.Method, form, got.status, cut(got.text), forms[0], want.status, cut(want.text))
				}
			}
		}
		if least := map[fakecyborg.Release]int{fakecyborg.ReleaseZed: 18, fakecyborg.Release20262: 25, fakecyborg.ReleaseMaster: 25}[release]; routes < least {
			t.Errorf("%s has %d routes, want at least %d", release, routes, least)
		}
	}
}

func emptyBody(method string) string {
	if method == http.MethodGet || method == http.MethodDelete {
		return ""
	}
	return "[]"
}

func TestUnknownPathsAndVerbs(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	for _, tt := range []struct {
		method, path string
		want         int
		allow        string
	}{
		{"GET", "/v1", 404, ""}, {"GET", "/v1/devices", 404, ""}, {"GET", "/accelerator/v1/devices", 404, ""},
		{"GET", "/v2/planets", 404, ""}, {"GET", "/planets", 404, ""}, {"GET", "/v2/devices/a/b", 404, ""},
		{"GET", "/v3", 404, ""}, {"GET", "/acceleratorv2/devices", 404, ""},
		{"PUT", "/v2/device_profiles/x", 405, "DELETE, GET, POST"}, {"PATCH", "/v2/device_profiles/x", 405, "DELETE, GET, POST"},
		{"PATCH", "/v2/deployables/" + unknownID, 405, "GET"}, {"DELETE", "/v2/devices/x", 405, "GET"}, {"POST", "/v2/devices", 405, "GET"},
		{"PUT", "/v2/accelerator_requests", 405, "DELETE, GET, PATCH, POST"}, {"PUT", "/v2/attributes", 405, "DELETE, GET, POST"},
		{"POST", "/v2/planets", 405, "GET"}, {"DELETE", "/v2/planets/x/y", 405, "GET"}, {"POST", "/v2", 405, "GET"},
		{"GET", "/v2/devices/x/disable", 404, ""}, {"PUT", "/v2/devices/x/disable", 405, "GET"}, {"DELETE", "/v2/devices/x/y", 405, "GET"},
		{"POST", "/v2/accelerator_requests/x/y", 404, ""}, {"PUT", "/v2/accelerator_requests/x/y", 405, "DELETE, GET, PATCH, POST"},
		{"PATCH", "/v2/device_profiles", 404, ""}, {"PATCH", "/v2/devices", 404, ""}, {"GET", "/v2/deployables/x/program", 404, ""},
	} {
		r := w.send(sent{method: tt.method, path: tt.path})
		if r.status != tt.want || r.header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", tt.method, tt.path, r.status, r.header.Get("Allow"), tt.want, tt.allow)
		}
		if r.header.Get("OpenStack-API-Version") != "" {
			t.Errorf("%s %s: a routing error has the version headers", tt.method, tt.path)
		}
		if r.header.Get("X-Openstack-Request-Id") == "" {
			t.Errorf("%s %s: no request id", tt.method, tt.path)
		}
	}
}

func TestEveryFormOfTheMicroversionHeader(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	const ranged = " The supported version range is: [2.0, 2.3]."
	for value, want := range map[string]string{
		"": "2.0", "accelerator 2.0": "2.0", "accelerator 2.3": "2.3", "accelerator latest": "2.3", "accelerator LATEST": "2.3",
		"latest": "2.3", "2.1": "2.1", "accelerator 2.1, compute 2.82": "2.1", "accelerator  2.2": "2.2",
		"accelerator 2.4": "Version 2.4 was requested but the minor version is not supported by this service." + ranged,
		"accelerator 1.0": "Mutually exclusive versions requested. Version 1.0 requested but not supported by this service." + ranged,
		"accelerator 3.0": "Mutually exclusive versions requested. Version 3.0 requested but not supported by this service." + ranged,
		"accelerator foo": "Invalid value for OpenStack-API-Version header", "foo": "Invalid value for OpenStack-API-Version header",
		"accelerator 2": "Invalid value for OpenStack-API-Version header", "2": "Invalid value for OpenStack-API-Version header",
		"compute 2.1": "Invalid value for OpenStack-API-Version header",
	} {
		for _, path := range []string{"/v2/devices", "/v2", "/accelerator/v2/devices", "/devices"} {
			s := sent{method: "GET", path: path, header: version(value)}
			if value == "" {
				s.header = nil
			}
			r := w.send(s)
			if strings.HasPrefix(want, "2.") {
				if r.status != 200 || r.header.Get("OpenStack-API-Version") != "accelerator "+want || r.header.Get("Vary") != "OpenStack-API-Version" {
					t.Errorf("%s, %q: %d, %v; want %s", path, value, r.status, r.header, want)
				}
				continue
			}
			w.want(r, 406, want)
			limits := r.header.Get("OpenStack-API-Minimum-Version") + r.header.Get("OpenStack-API-Maximum-Version")
			if wantLimits := map[bool]string{true: "", false: "2.02.3"}[strings.HasPrefix(want, "Invalid")]; limits != wantLimits || r.header.Get("OpenStack-API-Version") != "" {
				t.Errorf("%s, %q: limits %q, want %q; headers %v", path, value, limits, wantLimits, r.header)
			}
		}
	}
}

func TestErrorBodiesFollowWhatIsAccepted(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	for accept, want := range map[string]string{
		"application/json": `{"code":404,"title":"Not Found","description":""}`,
		"*/*":              "<h1>404 Not Found</h1>",
		"":                 "404 Not Found\n\n",
	} {
		r := w.send(sent{method: "GET", path: "/v2/planets", header: map[string]string{"Accept": accept}})
		text, _ := r.object(t)["error_message"].(string)
		got := strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(text)
		if r.status != 404 || !strings.Contains(got, want) || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("Accept %s: %d %s %s, want %s", accept, r.status, r.header.Get("Content-Type"), got, want)
		}
	}
	w.want(w.send(sent{method: "GET", path: "/v2/devices", header: map[string]string{"Accept": "text/html"}}), 406, "")
}

func TestATokenWithoutAProjectIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	for header, value := range map[string]string{"OpenStack-System-Scope": "all", "X-Domain-Id": "default"} {
		testRefusedEverywhere(t, scopeKeys{header, value})
	}
}

func testRefusedEverywhere(t *testing.T, keys scopeKeys) {
	t.Helper()
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{fake.New("cn0")}, fakecyborg.WithTokenVerifier(keys))
	var open []string
	for _, route := range w.server.Routes() {
		path := strings.ReplaceAll(route.Pattern, "{id}", unknownID)
		body := map[sim.OperationName]string{fault.ARQBind: binding(instanceA, unknownID, unknownID), fault.ARQCreate: `{"device_profile_name":"p"}`}[route.Operation]
		if body == "" {
			body = emptyBody(route.Method)
		}
		if strings.HasSuffix(path, "/program") {
			body = `[{"path":"/program","op":"replace","value":[{"image_uuid":"` + unknownID + `"}]}]`
		}
		if strings.HasPrefix(path, "/v2/attributes") && route.Method == "POST" {
			body = `{"deployable_id":1,"key":"k","value":"v"}`
		}
		if path == "/v2/device_profiles" && route.Method == "DELETE" {
			path += "?value=x"
		}
		if path == "/v2/accelerator_requests" && route.Method == "DELETE" {
			path += "?arqs=" + unknownID
		}
		if path == "/v2/attributes" && route.Method == "DELETE" {
			path += "?uuid=" + unknownID
		}
		if r := w.send(sent{method: route.Method, path: path, body: body, token: "t"}); r.status != 403 {
			open = append(open, route.Method+" "+route.Pattern)
		}
	}
	if diff := cmp.Diff([]string{"GET ", "GET /v2"}, open); diff != "" {
		t.Errorf("routes open to a token with %s (-want +got):\n%s", keys.header, diff)
	}
}

// scopeKeys treats every token as the token of an administrator of a scope.
type scopeKeys struct{ header, value string }

func (k scopeKeys) VerifyToken(string) (http.Header, error) {
	h := http.Header{}
	h.Set("X-User-Id", "root")
	h.Set("X-Roles", "admin,service")
	h.Set(k.header, k.value)
	return h, nil
}
