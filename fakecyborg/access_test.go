package fakecyborg_test

import (
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// keys is a TokenVerifier whose tokens are role names, with the roles that they imply, in the project "project-of-ROLE" or
// with "ROLE@PROJECT" in another. "only ROLE" has no other roles, and "system ROLE" and "domain ROLE" have another scope than a project.
type keys struct{}

func (keys) VerifyToken(token string) (http.Header, error) {
	role, project, _ := strings.Cut(token, "@")
	scope, name, found := strings.Cut(role, " ")
	if found {
		role = name
	} else {
		scope = ""
	}
	roles, implied := role, []string{"admin", "manager", "member", "reader"}
	switch i := slices.Index(implied, role); {
	case i >= 0 && scope != "only":
		roles = strings.Join(implied[i:], ",")
	case i < 0 && !slices.Contains([]string{"service", "norole", "service,admin", "administrator"}, role):
		return nil, errors.New("token is not known")
	}
	h := http.Header{}
	h.Set("X-User-Id", token)
	h.Set("X-Roles", strings.TrimPrefix(roles, "norole"))
	switch scope {
	case "system":
		h.Set("OpenStack-System-Scope", "all")
	case "domain":
		h.Set("X-Domain-Id", "default")
	default:
		h.Set("X-Project-Id", stdcmp.Or(project, "project-of-"+role))
	}
	return h, nil
}

func TestPoliciesByRole(t *testing.T) {
	t.Parallel()
	roles := []string{"admin", "manager", "member", "reader", "service", "norole"}
	reads := []sent{
		{method: "GET", path: "/v2/device_profiles"}, {method: "GET", path: "/v2/device_profiles/" + unknownID},
	}
	arqReads := []sent{{method: "GET", path: "/v2/accelerator_requests"}, {method: "GET", path: "/v2/accelerator_requests/" + unknownID}}
	arqWrites := []sent{
		{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"x"}`},
		{method: "DELETE", path: "/v2/accelerator_requests/" + unknownID},
		{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, unknownID, unknownID)},
	}
	hardware := []sent{
		{method: "GET", path: "/v2/devices"}, {method: "GET", path: "/v2/devices/x"}, {method: "GET", path: "/v2/deployables"},
		{method: "GET", path: "/v2/deployables/" + unknownID}, {method: "GET", path: "/v2/attributes"}, {method: "GET", path: "/v2/attributes/x"},
	}
	writes := []sent{
		{method: "DELETE", path: "/v2/device_profiles/x"}, {method: "POST", path: "/v2/device_profiles", body: `[]`},
		{method: "POST", path: "/v2/devices/x/enable"}, {method: "POST", path: "/v2/devices/x/disable"},
		{method: "PATCH", path: "/v2/deployables/" + unknownID + "/program", body: `[{"path":"/program","op":"remove","value":[{"image_uuid":"` + unknownID + `"}]}]`},
		{method: "POST", path: "/v2/attributes", body: `{"deployable_id":9,"key":"k","value":"v"}`}, {method: "DELETE", path: "/v2/attributes/x"},
	}
	for _, tt := range []struct {
		name     string
		requests []sent
		legacy   string // roles let in, in the order of roles: y or n
		secure   string
	}{
		{"profile reads", reads, "yyyyyy", "yyyynn"},
		{"ARQ reads", arqReads, "yyyyyy", "yyyynn"},
		{"ARQ writes", arqWrites, "yyyyyy", "yyynyn"},
		{"hardware reads", hardware, "yyyyyy", "yynnnn"},
		{"administration", writes, "ynnnnn", "ynnnnn"},
	} {
		for _, secure := range []bool{false, true} {
			w := newWorld(t, fakecyborg.Config{EnforceNewDefaults: &secure}, []driver.Driver{fake.New("cn0")}, fakecyborg.WithTokenVerifier(keys{}))
			want := either(secure, tt.legacy, tt.secure)
			for _, s := range tt.requests {
				got := ""
				for _, role := range roles {
					s.token, s.plain = role, true
					s.header = map[string]string{"X-Service-Token": "service"}
					if r := w.send(s); r.status == http.StatusForbidden {
						got += "n"
					} else {
						got += "y"
					}
				}
				if got != want {
					t.Errorf("%s, secure %t, %s %s: roles let in %s, want %s", tt.name, secure, s.method, s.path, got, want)
				}
			}
		}
	}
}

func TestServiceTokenIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{fake.New("cn0")}, fakecyborg.WithTokenVerifier(keys{}))
	_, err := w.server.CreateDeviceProfile("one", []map[string]string{{"resources:FPGA": "1"}})
	settled(t, err)
	r := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: `{"device_profile_name":"one"}`, token: "member"})
	arq := r.list(t, "arqs")[0]["uuid"].(string)
	bind := func(service string) reply {
		return w.send(sent{
			method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq),
			token: "member", plain: true, header: map[string]string{"X-Service-Token": service},
		})
	}
	w.want(bind(""), 403, textService)
	for _, service := range []string{"admin", "member", "forged"} {
		for _, r := range []reply{bind(service), w.send(sent{
			method: "GET", path: "/v2/devices", token: "member", plain: true, header: map[string]string{"X-Service-Token": service},
		})} {
			w.want(r, 401, "")
			if r.header.Get("WWW-Authenticate") == "" {
				t.Errorf("service token %q: no WWW-Authenticate beside 401", service)
			}
		}
	}
	w.want(bind("service,admin"), 202, "")
	w.want(w.send(sent{method: "GET", path: "/v2/devices", token: "forged"}), 401, "")
	if got := w.server.ARQs()[0].ProjectID; got != "project-of-member" {
		t.Errorf("project %s", got)
	}
}

func TestServiceTokenCanBeLeftOut(t *testing.T) {
	t.Parallel()
	off := false
	for _, cfg := range []fakecyborg.Config{{RequireServiceToken: &off}, {Release: fakecyborg.ReleaseZed}} {
		w := fakeWorld(t, cfg)
		arq := oneARQ(w)
		w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instanceA, fakeProvider(), arq), plain: true}), 202, "")
		w.want(w.send(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instanceA, plain: true}), 204, "")
	}
}

func TestZed(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{Release: fakecyborg.ReleaseZed})
	r := w.get("/v2/devices")
	if got := r.header.Get("OpenStack-API-Maximum-Version"); got != "2.2" {
		t.Errorf("maximum version %q", got)
	}
	device := w.server.Devices()[0].UUID
	w.want(w.send(sent{method: "GET", path: "/v2/devices", version: "2.3"}), 406, "")
	for value, want := range map[string]string{"accelerator 2.2": "2.2", "accelerator latest": "2.2", "accelerator x.y": "2.0", "compute 2.1": "2.0", "2.1": "2.0"} {
		r := w.send(sent{method: "GET", path: "/v2/devices", header: map[string]string{"OpenStack-API-Version": value}})
		if got := r.header.Get("OpenStack-API-Version"); r.status != 200 || got != want {
			t.Errorf("version %q: %d, served %q, want %q", value, r.status, got, want)
		}
	}
	w.want(w.get("/v2/attributes"), 404, "")
	for _, call := range [][2]string{{"POST", "/v2/attributes"}, {"DELETE", "/v2/attributes/" + unknownID}} {
		if r := w.send(sent{method: call[0], path: call[1]}); r.status != 405 || r.header.Get("Allow") != "GET" {
			t.Errorf("%s %s: %d, Allow %q", call[0], call[1], r.status, r.header.Get("Allow"))
		}
	}
	w.want(w.send(sent{method: "POST", path: "/v2/devices/" + device + "/disable"}), 405, "")
	arq := oneARQ(w)
	if body := w.get("/v2/accelerator_requests/" + arq).object(t); body["project_id"] != nil {
		t.Errorf("project %v before the bind", body["project_id"])
	} else if _, there := body["attach_handle_uuid"]; there {
		t.Error("attach_handle_uuid is shown")
	}
	body := binding(instanceA, fakeProvider(), arq)
	w.want(w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: body, version: "2.1"}), 400, "Couldn't apply patch. Reason: Fields absent in patch project_id")
	w.want(w.patch(body), 202, "")
	w.want(w.send(sent{method: "GET", path: "/v2/accelerator_requests/" + arq, token: "demo"}), 403, "Access was denied to the following resource: cyborg:arq:get_one")
	w.want(w.get("/v2/accelerator_requests/nope"), 404, "ExtArq not found with uuid=nope")
}

// Cyborg 9 does not isolate requests by project: everyone lists, binds and deletes all of them, and only
// administrators read one by its UUID.
func TestZedIsolatesNoProjects(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := fakeWorld(t, fakecyborg.Config{Release: fakecyborg.ReleaseZed, UpstreamQuirks: quirks})
		as := func(token, method, path, body, version string) reply {
			return w.send(sent{method: method, path: path, body: body, token: token, plain: true, version: version})
		}
		projectOf := func(arq string) any { return w.get("/v2/accelerator_requests/" + arq).object(t)["project_id"] }
		arq := oneARQ(w)
		for _, path := range []string{"/v2/accelerator_requests/" + arq, "/v2/accelerator_requests/" + unknownID} {
			w.want(as("demo", "GET", path, "", ""), 403, "Access was denied to the following resource: cyborg:arq:get_one")
		}
		w.want(as("demo", "PATCH", "/v2/accelerator_requests", binding(instanceA, fakeProvider(), arq), ""), 202, "")
		if got := projectOf(arq); got != nil {
			t.Errorf("quirks %t: project %v after a bind at 2.0", quirks, got)
		}
		if got := as("demo", "GET", "/v2/accelerator_requests?instance="+instanceA, "", "").list(t, "arqs"); len(got) != 1 {
			t.Errorf("quirks %t: another project lists %v", quirks, got)
		}
		w.want(as("other", "DELETE", "/v2/accelerator_requests?instance="+instanceA, "", ""), 204, "")
		w.server.CheckARQs(t, instanceA, 0)

		arq = w.arqs("one")[0]
		body := strings.Replace(binding(instanceA, fakeProvider(), arq), "]}", `,{"path":"/project_id","op":"add","value":"p1"}]}`, 1)
		w.want(as("demo", "PATCH", "/v2/accelerator_requests", body, "2.1"), 202, "")
		if got := projectOf(arq); got != "p1" {
			t.Errorf("quirks %t: project %v after a bind at 2.1", quirks, got)
		}
		w.want(as("other", "PATCH", "/v2/accelerator_requests", unbinding(arq), ""), 202, "")
		w.want(as("demo", "PATCH", "/v2/accelerator_requests", binding(instanceA, fakeProvider(), arq), ""), 202, "")
		if got := projectOf(arq); got != "p1" {
			t.Errorf("quirks %t: project %v after another bind at 2.0", quirks, got)
		}
		w.want(as("other", "DELETE", "/v2/accelerator_requests?arqs="+arq, "", ""), 204, "")
	}
}

func TestLinksFollowThePublicEndpoint(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"": "https://cyborg.invalid", "https://cloud:8443": "https://cloud:8443", "http://cloud/accelerator/": "http://cloud",
	} {
		w := fakeWorld(t, fakecyborg.Config{PublicEndpoint: endpoint, EnableProxyHeadersParsing: true})
		r := w.send(sent{method: "GET", path: "/v2/deployables", header: map[string]string{"X-Forwarded-Proto": "https"}})
		deployable := r.list(t, "deployables")[0]
		uuid := deployable["uuid"].(string)
		links := []any{
			map[string]any{"href": want + "/accelerator/v2/deployables/" + uuid, "rel": "self"},
			map[string]any{"href": want + "/accelerator/deployables/" + uuid, "rel": "bookmark"},
		}
		if diff := cmp.Diff(links, deployable["links"]); diff != "" {
			t.Errorf("%q (-want +got):\n%s", endpoint, diff)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []fakecyborg.Config{
		{Release: "train"}, {BindDelay: -1}, {BindTimeout: -1}, {ReadLag: -1}, {PublicEndpoint: "cloud"}, {PublicEndpoint: "http://"}, {PublicEndpoint: "%"},
		{PublicEndpoint: "http://u:hunter2@cloud"}, {EventForm: "stein"},
	} {
		if _, err := fakecyborg.New(bad); !errors.Is(err, fakecyborg.ErrConfig) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: got %v, want ErrConfig", bad, err)
		}
	}
	if _, err := fakecyborg.New(fakecyborg.Config{Release: "train"}); err == nil || !strings.Contains(err.Error(), "zed") {
		t.Errorf("the error does not list the known releases: %v", err)
	}
}

func TestConfigJSONRoundTrip(t *testing.T) {
	t.Parallel()
	off := false
	want := fakecyborg.Config{
		Release: "zed", UpstreamQuirks: true, BindDelay: 1500 * time.Millisecond, BindTimeout: time.Minute,
		RequireServiceToken: &off, EnforceNewDefaults: &off, EnableProxyHeadersParsing: true, Seed: 7, PublicEndpoint: "http://h", ReadLag: time.Second, ClockSkew: -time.Minute,
	}
	data, err := json.Marshal(want)
	settled(t, err)
	var got fakecyborg.Config
	settled(t, json.Unmarshal(data, &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("round trip of %s (-want +got):\n%s", data, diff)
	}
	if data, err := json.Marshal(fakecyborg.Config{}); err != nil || string(data) != "{}" {
		t.Errorf("the zero value is %s, %v", data, err)
	}
	for _, bad := range []string{`{"relaese":"zed"}`, `{"bind_delay":"soon"}`, `{"bind_delay":5}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), new(fakecyborg.Config)); !errors.Is(err, fakecyborg.ErrConfig) {
			t.Errorf("%s: got %v, want ErrConfig", bad, err)
		}
	}
}

func TestObserverSeesEveryRequest(t *testing.T) {
	t.Parallel()
	var seen []sim.Exchange
	w := newWorld(t, fakecyborg.Config{}, nil, fakecyborg.WithObserver(func(r sim.Exchange) { seen = append(seen, r) }))
	w.send(sent{method: "GET", path: "/accelerator/v2/accelerator_requests?instance=" + instanceA, version: "2.1"})
	w.get("/v2/nonsense")
	w.delete("/device_profiles/gone")
	type brief struct {
		Operation                   sim.OperationName
		Subject, Path, Microversion string
		Status                      int
	}
	var got []brief
	for _, r := range seen {
		got = append(got, brief{r.Operation, r.Subject, r.Path, r.Microversion, r.Status})
	}
	want := []brief{
		{fault.ARQList, instanceA, "/accelerator/v2/accelerator_requests", "2.1", 200},
		{"", "", "/v2/nonsense", "", 404},
		{fault.DeviceProfileDelete, "gone", "/device_profiles/gone", "2.0", 404},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestInjectedStatusSpeaksCyborgsDialect(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet()
	w := newWorld(t, fakecyborg.Config{}, nil, fakecyborg.WithFaults(faults))
	settled(t, faults.Set(fault.Rule{Operation: fault.DeviceList, Action: fault.Status, Status: 503, Code: "x"}))
	r := w.get("/v2/devices")
	if want := `{"error_message":"{\"faultcode\": \"Server\", \"faultstring\": \"injected fault x\", \"debuginfo\": null}"}`; r.status != 503 || r.text != want {
		t.Errorf("got %d %s", r.status, r.text)
	}
	w.want(w.get("/v2/devices"), 200, "")
}

func TestLargeBodyIsRefused(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	for _, s := range []sent{
		{method: "POST", path: "/v2/device_profiles"}, {method: "POST", path: "/v2/accelerator_requests"}, {method: "PATCH", path: "/v2/accelerator_requests"},
	} {
		s.body = `"` + strings.Repeat("a", 10<<20) + `"`
		w.want(w.send(s), 413, "request body is larger than 4 MiB")
	}
}

func TestChecksFailWithTheWrongCount(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	arq := oneARQ(w)
	var tb told
	w.server.CheckARQs(&tb, instanceA, 0)
	w.server.CheckBound(&tb, instanceA, 0)
	if len(tb.text) != 0 {
		t.Errorf("complaints about nothing: %v", tb.text)
	}
	w.server.CheckARQs(&tb, instanceA, 1)
	w.server.CheckBound(&tb, instanceA, 1)
	w.want(w.patch(binding(instanceA, unknownID, arq)), 404, "")
	w.server.CheckBound(&tb, instanceA, 1) // there, but BindFailed
	if len(tb.text) != 3 {
		t.Errorf("%d complaints, want 3: %v", len(tb.text), tb.text)
	}
}

func TestDirectProfilesFollowTheRulesOfTheAPI(t *testing.T) {
	t.Parallel()
	server := newServer(t, fakecyborg.Config{Seed: 3})
	groups := []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_A": "required"}}
	p, err := server.CreateDeviceProfile("p", groups)
	settled(t, err)
	if diff := cmp.Diff(groups, p.Groups); diff != "" || p.Name != "p" || len(p.UUID) != 36 {
		t.Errorf("%+v, groups (-want +got):\n%s", p, diff)
	}
	for _, bad := range [][]map[string]string{nil, {}, {{}}, {{"resources:FPGA": "0"}}, {{"resources:VCPU": "1"}}} {
		if _, err := server.CreateDeviceProfile("q", bad); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if _, err := server.CreateDeviceProfile("p", groups); err == nil {
		t.Error("the same name twice was taken")
	}
	again := newServer(t, fakecyborg.Config{Seed: 3})
	if q, err := again.CreateDeviceProfile("p", groups); err != nil || q.UUID != p.UUID {
		t.Errorf("the same seed made %s, then %s, %v", p.UUID, q.UUID, err)
	}
}

// A service token shows the requests of every project, unlike upstream's: an answer that depends
// on it is recorded, and logged as a warning once.
func TestAnswersThatRestOnTheServiceTokenAreMarked(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		var log bytes.Buffer
		var deviations []string
		w := newWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, []driver.Driver{fake.New("cn0")},
			fakecyborg.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			fakecyborg.WithObserver(func(e sim.Exchange) { deviations = append(deviations, e.Deviation) }))
		w.fakeProfile("p", 2)
		arqs := w.arqs("p")
		deviations = nil
		as := func(token, method, path, body string) reply {
			return w.send(sent{method: method, path: "/v2/accelerator_requests" + path, body: body, token: token})
		}
		absent := "ExtArq not found with uuid=" + arqs[0]
		w.want(as("nova", "PATCH", "", binding(instanceA, fakeProvider(), arqs[0])), either(quirks, 202, 404), either(quirks, "", absent))
		w.want(as("nova", "GET", "?instance="+instanceA, ""), 200, "")
		w.want(as("nova", "GET", "", ""), 200, "")
		w.want(as("nova", "DELETE", "/"+arqs[0], ""), either(quirks, 204, 404), either(quirks, "", absent))
		w.want(as("", "PATCH", "", binding(instanceB, fakeProvider(), arqs[1])), 202, "")
		w.want(as("nova", "DELETE", "?instance="+instanceB, ""), 204, "")
		for i, want := range []string{arqs[0], arqs[0], "", arqs[0], "", arqs[1]} {
			if quirks {
				want = ""
			}
			if (deviations[i] != "") != (want != "") || !strings.Contains(deviations[i], want) {
				t.Errorf("quirks %t, request %d: deviation %q, want one about %q", quirks, i, deviations[i], want)
			}
		}
		if got, want := strings.Count(log.String(), "level=WARN"), either(quirks, 1, 0); got != want {
			t.Errorf("quirks %t: %d warnings, want %d:\n%s", quirks, got, want, log.String())
		}
	}
}
