package fakecyborg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// releasesByColumn are the releases that behave in the same way, oldest first.
func releasesByColumn() [][]fakecyborg.Release {
	return [][]fakecyborg.Release{
		{"9.0.0"}, {"10.0.0"}, {"10.1.0"}, {"11.0.0"}, {"12.0.0"}, {"13.0.0", "14.0.0", "15.0.0", "16.0.0"}, {"14.1.0", "15.0.1", "16.0.1"}, {"17.0.0"}, {"2027.1"},
	}
}

// releaseRow is a switch of the releases: what ask answers of each column, "=" for the answer of the column before.
type releaseRow struct {
	number int
	topic  string
	ask    func(w *releaseWorld) string
	want   [9]string // A 9.0, B 10.0, C 10.1, D 11.0, E 12.0, F 13.0 to 16.0.0, G 14.1 to 16.0.1, H 17.0, I 2027.1
}

// releaseWorld is a world of a release.
type releaseWorld struct {
	*world
	column int
	quirks bool
}

// as sends a request with a token of a role, without a service token.
func (w *releaseWorld) as(token, method, path, body string) reply {
	w.t.Helper()
	return w.send(sent{method: method, path: path, body: body, token: token, plain: true})
}

// at is as with a version in the form that counts in the column, without or with the service token.
func (w *releaseWorld) at(version, token, method, path, body string, plain bool) reply {
	w.t.Helper()
	if !slices.Contains([]int{2, 4, 5, 6}, w.column) { // C, E, F and G want the number alone
		version = "accelerator " + version
	}
	return w.send(sent{method: method, path: path, body: body, token: token, plain: plain, header: map[string]string{"OpenStack-API-Version": version}})
}

// profileID makes a profile of the fake device, and returns its UUID.
func (w *releaseWorld) profileID(name string) string {
	w.t.Helper()
	return w.as("admin", "POST", "/v2/device_profiles", `[{"name":"`+name+`","groups":[{"resources:FPGA":"1"}]}]`).object(w.t)["uuid"].(string)
}

// arq makes a request with a token, of a profile of its own.
func (w *releaseWorld) arq(token string) string {
	w.t.Helper()
	name := fmt.Sprintf("p%d", len(w.server.DeviceProfiles()))
	w.profileID(name)
	r := w.as(token, "POST", "/v2/accelerator_requests", `{"device_profile_name":"`+name+`"}`)
	if r.status != http.StatusCreated {
		w.t.Fatalf("create as %s: %d %s", token, r.status, r.fault())
	}
	return r.list(w.t, "arqs")[0]["uuid"].(string)
}

// project is the project_id of a request, as an administrator sees it.
func (w *releaseWorld) project(arq string) any {
	return w.as("admin", "GET", "/v2/accelerator_requests/"+arq, "").object(w.t)["project_id"]
}

// statuses are the statuses of a request with each token.
func (w *releaseWorld) statuses(tokens []string, method, path, body string) string {
	var list []string
	for _, token := range tokens {
		list = append(list, fmt.Sprint(w.as(token, method, path, body).status))
	}
	return strings.Join(list, " ")
}

const (
	arqsPath   = "/v2/accelerator_requests"
	instanceC  = "cccccccc-0000-4000-8000-000000000003"
	projectX   = "eeeeeeee00004000800000000000000e"
	deniedText = "Access was denied to the following resource: "
)

// withProject adds project_id to the body of a bind.
func withProject(body, project string) string {
	return strings.Replace(body, "]}", `,{"path":"/project_id","op":"add","value":"`+project+`"}]}`, 1)
}

// releaseRows are the differences between the releases. The answers are typed from Cyborg's sources, which each row names; "rel:file:line" is a
// path below cyborg/ in a release.
func releaseRows() []releaseRow {
	return []releaseRow{
		// ef7ce3f adds 2.3 in 11.0.0.
		{1, "maximum microversion", func(w *releaseWorld) string {
			r := w.send(sent{method: "GET", path: "/v2", token: "none", plain: true})
			return fmt.Sprint(r.header.Get("OpenStack-API-Maximum-Version"), " ", r.object(w.t)["max_version"])
		}, [9]string{"2.2 2.2", "=", "=", "2.3 2.3", "=", "=", "=", "=", "="}},
		// zed:api/controllers/base.py:111; bare since 279a260 (backport 3c65ad5 in 10.1.0, not in 2023.2); both since 7faf80e.
		{2, "request header form", func(w *releaseWorld) string {
			var served []string
			for _, form := range []string{"accelerator 2.2", "2.2"} {
				r := w.send(sent{method: "GET", path: "/v2", token: "none", plain: true, header: map[string]string{"OpenStack-API-Version": form}})
				served = append(served, strings.TrimPrefix(r.header.Get("OpenStack-API-Version"), "accelerator "))
			}
			return strings.Join(served, " ")
		}, [9]string{"2.2 2.0", "=", "2.0 2.2", "2.2 2.0", "2.0 2.2", "=", "=", "2.2 2.2", "="}},
		// 7faf80e.
		{3, "OpenStack-API-Version of answers", func(w *releaseWorld) string {
			return w.as("admin", "GET", "/v2/devices", "").header.Get("OpenStack-API-Version")
		}, [9]string{"2.0", "=", "=", "=", "=", "=", "=", "accelerator 2.0", "="}},
		// The controller is new in 10.0.0.
		{4, "attributes", func(w *releaseWorld) string {
			return w.statuses([]string{"admin"}, "GET", "/v2/attributes", "")
		}, [9]string{"404", "200", "=", "=", "=", "=", "=", "=", "="}},
		// 2023.1:api/controllers/v2/attributes.py:166; df85db5 (LP 2020179) is first in 12.0.0.
		{5, "DELETE attribute", func(w *releaseWorld) string {
			r := w.as("admin", "POST", "/v2/attributes", `{"deployable_id":1,"key":"k","value":"v"}`)
			if r.status == http.StatusMethodNotAllowed {
				return "-"
			}
			r = w.as("admin", "DELETE", "/v2/attributes/"+r.object(w.t)["uuid"].(string), "")
			return strings.TrimSpace(fmt.Sprint(r.status, " ", r.fault()))
		}, [9]string{"-", "500 'RequestContext' object has no attribute 'dbapi'", "=", "=", "204", "=", "=", "=", "="}},
		// ef7ce3f; 2023.2:api/controllers/v2/devices.py:108.
		{6, "enable and disable, status", func(w *releaseWorld) string {
			device := "/v2/devices/" + w.server.Devices()[0].UUID
			disabled := w.as("admin", "POST", device+"/disable", "").status
			shown := w.at("latest", "admin", "GET", device, "", true).object(w.t)["status"]
			return fmt.Sprint(disabled, " ", shown, " ", w.as("admin", "POST", device+"/enable", "").status)
		}, [9]string{"405 <nil> 405", "=", "=", "204 maintaining 204", "=", "=", "=", "=", "="}},
		// 4b34d89, 79e1928; 2023.1:api/controllers/v2/arqs.py:63. What the driver divides: TestDriversOfEachRelease.
		{7, "attach_handle_uuid", func(w *releaseWorld) string {
			_, there := w.as("admin", "GET", arqsPath+"/"+w.arq("admin"), "").object(w.t)["attach_handle_uuid"]
			return fmt.Sprint(there)
		}, [9]string{"false", "=", "true", "=", "=", "=", "=", "=", "="}},
		// 8fbd52d; 10.0.0:api/controllers/v2/arqs.py:54-59,172,219.
		{8, "ids typed as UUID", func(w *releaseWorld) string {
			got := w.as("admin", "GET", arqsPath+"/nope", "").fault() + ", "
			r := w.send(sent{method: "DELETE", path: arqsPath + "?instance=nope", token: "admin"})
			return got + fmt.Sprint(r.status, " ", w.as("admin", "GET", arqsPath+"?instance=nope", "").status) // a list checks it in every release
		}, [9]string{
			"ExtArq not found with uuid=nope, 204 400",
			"Invalid input for field/attribute uuid. Value: 'nope'. unable to convert to uuid. Error: Expected a uuid but received nope., 400 400",
			"=", "=", "=", "=", "=", "=", "=",
		}},
		// 2025.1:api/controllers/v2/arqs.py:285,289,409,412; 2026.1:306,310,433,436; service_token_roles_required in common/config.py.
		{9, "service token", func(w *releaseWorld) string {
			arq := w.arq("member")
			got := fmt.Sprint(w.as("member", "PATCH", arqsPath, binding(instanceA, fakeProvider(), arq)).status, " ", w.as("member", "PATCH", arqsPath, unbinding(arq)).status)
			w.send(sent{method: "PATCH", path: arqsPath, body: binding(instanceA, fakeProvider(), arq), token: "member"})
			got += fmt.Sprint(" ", w.as("member", "DELETE", arqsPath+"?arqs="+arq, "").status, " ", w.as("member", "DELETE", arqsPath+"?instance="+instanceA, "").status)
			// A service token whose user does not have the role service.
			r := w.send(sent{method: "GET", path: arqsPath, token: "member", plain: true, header: map[string]string{"X-Service-Token": "member"}})
			return got + fmt.Sprint(" ", r.status)
		}, [9]string{"202 202 204 204 200", "=", "=", "=", "=", "=", "403 403 403 403 401", "=", "="}},
		// Section 3 of the sources: zed:api/controllers/v2/arqs.py:283, 2025.1:329.
		{10, "project of a request", func(w *releaseWorld) string {
			arq := w.arq("member")
			got := fmt.Sprint(w.project(arq))
			w.send(sent{method: "PATCH", path: arqsPath, body: binding(instanceA, fakeProvider(), arq), token: "member"})
			got += fmt.Sprint(" ", w.project(arq))
			arq = w.arq("member")
			w.at("2.1", "admin", "PATCH", arqsPath, withProject(binding(instanceB, fakeProvider(), arq), projectX), false)
			return got + fmt.Sprint(" ", w.project(arq))
		}, [9]string{
			"<nil> <nil> " + projectX, "=", "=", "=", "=", "=", "project-of-member project-of-member " + projectX, "=", "=",
		}},
		// zed:api/controllers/v2/arqs.py:283; 2025.1:api/controllers/v2/arqs.py:329.
		{11, "PATCH /project_id at 2.1", func(w *releaseWorld) string {
			without, with := w.arq("member"), w.arq("member")
			r := w.at("2.1", "member", "PATCH", arqsPath, binding(instanceA, fakeProvider(), without), false)
			got := fmt.Sprint(r.status, " ", strings.TrimPrefix(r.fault(), "Couldn't apply patch. Reason: "))
			r = w.at("2.1", "member", "PATCH", arqsPath, withProject(binding(instanceB, fakeProvider(), with), projectX), false)
			got += fmt.Sprint(", ", r.status, " ", strings.TrimPrefix(r.fault(), deniedText))
			r = w.at("2.1", "admin", "PATCH", arqsPath, withProject(binding(instanceC, fakeProvider(), w.arq("admin")), projectX), false)
			below := w.at("2.0", "admin", "PATCH", arqsPath, withProject(binding(instanceC, fakeProvider(), w.arq("admin")), projectX), false)
			return got + fmt.Sprint(", ", r.status, ", ", below.status)
		}, [9]string{
			"400 Fields absent in patch project_id, 202 , 202, 406", "=", "=", "=", "=", "=", "202 , 403 cyborg:arq:update, 202, 406", "=", "=",
		}},
		// CVE-2026-40214: 8d0d616 cc1f3c4 b8ac229 64b42e2 cef329a on 2025.1.
		{12, "visibility of a request in lists", func(w *releaseWorld) string {
			arq := w.arq("member")
			count := func(token string) int { return len(w.as(token, "GET", arqsPath, "").list(w.t, "arqs")) }
			got := fmt.Sprint(count("reader@project-of-member"), count("member@other"), count("admin@other"))
			deleted := w.as("member@other", "DELETE", arqsPath+"?arqs="+arq, "")
			return got + fmt.Sprint(" ", deleted.status)
		}, [9]string{"1 1 1 204", "=", "=", "=", "=", "=", "1 0 1 404", "=", "="}},
		// zed:common/authorize_wsgi.py:187: the target is empty; mended by ebfe437. Roles: the rules of each release with oslo.policy.
		{13, "GET one request", func(w *releaseWorld) string {
			return w.statuses([]string{"admin", "member", "reader@project-of-member", "norole@project-of-member", "member@other"}, "GET", arqsPath+"/"+w.arq("member"), "")
		}, [9]string{"200 403 403 403 403", "=", "=", "=", "=", "=", "200 200 200 200 404", "=", "200 200 200 403 404"}},
		// 8d0d616 and its siblings look each request up first.
		{14, "DELETE ?arqs= with an unknown id", func(w *releaseWorld) string {
			r := w.as("admin", "DELETE", arqsPath+"?arqs="+w.arq("admin")+","+unknownID, "")
			return fmt.Sprint(r.status, " ", len(w.server.ARQs()), " ", r.fault())
		}, [9]string{
			"404 0 ARQ not found with uuids ['" + unknownID + "']", "=", "=", "=", "=", "=", "404 1 ExtArq not found with uuid=" + unknownID, "=", "=",
		}},
		// cef329a and its siblings: in the API process instead of the conductor. No answer is known to show it.
		{15, "process of a DELETE", func(w *releaseWorld) string {
			return fmt.Sprint(w.as("admin", "DELETE", arqsPath+"?arqs="+w.arq("admin"), "").status, " ", len(w.server.ARQs()))
		}, [9]string{"204 0", "=", "=", "=", "=", "=", "=", "=", "="}},
		// zed:common/authorize_wsgi.py:187; mended by 9b059f4, in 17.0.0 only. A system's reader: section 4 of the sources.
		{16, "GET one device profile", func(w *releaseWorld) string {
			return w.statuses([]string{"admin", "member", "norole", "system reader"}, "GET", "/v2/device_profiles/"+w.profileID("p"), "")
		}, [9]string{"200 403 403 200", "=", "=", "=", "=", "200 403 403 403", "=", "200 200 200 403", "200 200 403 403"}},
		// The rules of each release, with oslo.policy 4.3.0 (A, D, E) or 4.5.1.
		{17, "list device profiles", func(w *releaseWorld) string {
			return w.statuses([]string{"admin", "member", "reader", "service", "norole"}, "GET", "/v2/device_profiles", "")
		}, [9]string{"200 200 200 200 200", "=", "=", "=", "=", "200 200 200 403 403", "=", "200 200 200 200 200", "200 200 200 403 403"}},
		// CVE-2026-40213; open again by 24e13c6:policies/base.py:173.
		{18, "read hardware", func(w *releaseWorld) string {
			var list []string
			paths := []string{"/v2/devices", "/v2/deployables", "/v2/attributes"}
			for _, path := range paths[:either(w.column == 0, 3, 2)] {
				list = append(list, w.statuses([]string{"admin", "manager", "member", "norole"}, "GET", path, ""))
			}
			if len(slices.Compact(slices.Clone(list))) > 1 {
				w.t.Errorf("column %c: %v", 'A'+w.column, list)
			}
			return list[0]
		}, [9]string{"200 200 200 200", "=", "=", "=", "=", "=", "200 403 403 403", "200 200 200 200", "200 200 403 403"}},
		// CVE-2026-40213.
		{19, "program, attribute create", func(w *releaseWorld) string {
			body := `[{"path":"/program","op":"replace","value":[{"image_uuid":"` + unknownID + `"}]}]`
			got := w.statuses([]string{"admin", "member", "norole"}, "PATCH", "/v2/deployables/"+unknownID+"/program", body)
			if w.column == 0 {
				return got
			}
			attributes := w.statuses([]string{"admin", "member", "norole"}, "POST", "/v2/attributes", `{"deployable_id":1,"key":"k","value":"v"}`)
			return got + ", " + attributes
		}, [9]string{"404 404 404", "404 404 404, 201 201 201", "=", "=", "=", "=", "404 403 403, 201 403 403", "=", "="}},
		// The rules of each release; the bare administrator follows from them.
		{20, "create requests", func(w *releaseWorld) string {
			w.profileID("p")
			return w.statuses([]string{"admin", "only admin", "member", "reader", "service", "norole"}, "POST", arqsPath, `{"device_profile_name":"p"}`)
		}, [9]string{
			"201 201 201 201 201 201", "=", "=", "=", "=", "=", "201 201 201 403 403 403", "201 201 201 201 201 201", "201 403 201 403 201 403",
		}},
		// oslo.policy enforces scopes since 4.4.0 (206ae19), which 2024.2 constrains; the rules name scopes in d743659.
		{21, "token of the system", func(w *releaseWorld) string {
			r := w.as("system admin", "GET", "/v2/device_profiles", "")
			return strings.TrimSpace(fmt.Sprint(w.as("system admin", "GET", "/v2/devices", "").status, " ", r.status, " ", code(r), " ", r.fault()))
		}, [9]string{
			"200 200", "=", "=", "=", "=",
			"200 403 Server cyborg:device_profile:get_all requires a scope of ['project'], request was made with system scope.",
			"403 403 Client " + deniedText + "cyborg:device_profile:get_all", "=", "=",
		}},
		// 7823492; 16.0.1:api/hooks.py.
		{22, "role administrator", func(w *releaseWorld) string {
			return w.statuses([]string{"administrator"}, "POST", "/v2/device_profiles", `[{"name":"p","groups":[{"resources:FPGA":"1"}]}]`)
		}, [9]string{"201", "=", "=", "=", "=", "=", "=", "403", "="}},
		// 1e64d4e.
		{23, "error_message", func(w *releaseWorld) string {
			return fmt.Sprintf("%T", w.as("admin", "POST", arqsPath, `{"device_profile_name":"nope"}`).object(w.t)["error_message"])
		}, [9]string{"string", "=", "=", "=", "=", "=", "=", "=", "map[string]interface {}"}},
		// 9ccbf27.
		{24, "group without resources", func(w *releaseWorld) string {
			r := w.as("admin", "POST", "/v2/device_profiles", `[{"name":"p","groups":[{"resources:FPGA":"1"},{"trait:CUSTOM_A":"required"}]}]`)
			return fmt.Sprint(r.status, either(r.status == 201, " "+r.fault(), ""))
		}, [9]string{"201", "=", "=", "=", "=", "=", "=", "=", "400 Device profile group must contain at least one 'resources:' key."}},
		// 867931f (LP 2029890), first in 11.0.0, asks whether a trait exists before it creates it. Such a device is dropped, the other one is reported.
		{25, "standard trait at a report", func(w *releaseWorld) string {
			world := newReportWorldOf(w.t, fakecyborg.Config{Release: releasesByColumn()[w.column][0], UpstreamQuirks: w.quirks},
				gpu("3b", "PGPU", []string{"OWNER_CYBORG"}, "0"), gpu("5e", "PGPU", []string{"CUSTOM_A"}, "0"))
			err := world.cyborg.Report(w.t.Context())
			return fmt.Sprint(len(world.cyborg.Devices()), " ", errors.Is(err, fakecyborg.ErrStandardTrait))
		}, [9]string{"1 true", "=", "=", "2 false", "=", "=", "=", "=", "="}},
		// 39cde0b: http_proxy_to_wsgi is in the paste pipeline of 17.0.0 only.
		{26, "X-Forwarded-Proto and -Host", func(w *releaseWorld) string {
			var hrefs []string
			for _, path := range []string{"/v2", "/v2/devices/" + w.server.Devices()[0].UUID} {
				r := w.send(sent{method: "GET", path: path, token: "admin", header: map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloud:8443"}})
				href := r.object(w.t)["links"].([]any)[0].(map[string]any)["href"].(string)
				href, _, _ = strings.Cut(href, "/accelerator/v2")
				hrefs = append(hrefs, href)
			}
			return strings.Join(hrefs, " ")
		}, [9]string{"http://cyborg.invalid http://cyborg.invalid", "=", "=", "=", "=", "=", "=", "https://cloud:8443 https://cloud:8443", "="}},
	}
}

// code is the faultcode of an error.
func code(r reply) string {
	var fault struct {
		Code string `json:"faultcode"`
	}
	_ = json.Unmarshal([]byte(r.message()), &fault)
	return fault.Code
}

// Each release answers as Cyborg's sources say, with the defaults and with the quirks.
func TestEachReleaseAnswersAsItsRowSays(t *testing.T) {
	t.Parallel()
	rows := releaseRows()
	for i, row := range rows {
		if row.number != i+1 {
			t.Errorf("row %d is number %d", i+1, row.number)
		}
	}
	if len(rows) != 26 {
		t.Errorf("%d rows, want 26", len(rows))
	}
	for _, quirks := range []bool{false, true} {
		for column, releases := range releasesByColumn() {
			if quirks {
				releases = releases[:1]
			}
			for _, release := range releases {
				for _, row := range rows {
					want := row.want[column]
					for before := column; want == "="; before-- {
						want = row.want[before]
					}
					cfg := fakecyborg.Config{Release: release, UpstreamQuirks: quirks, EnableProxyHeadersParsing: true}
					w := newWorld(t, cfg, []driver.Driver{fake.New("cn0")}, fakecyborg.WithTokenVerifier(keys{}))
					if got := row.ask(&releaseWorld{w, column, quirks}); got != want {
						t.Errorf("row %d, %s, release %s, quirks %t:\ngot  %s\nwant %s", row.number, row.topic, release, quirks, got, want)
					}
				}
			}
		}
	}
}

// The answers to forms of the version header, which the three parsers of Cyborg gave (run with microversion_parse 1.0.1 and 2.0.0).
func TestTheVersionHeaderOfEachRelease(t *testing.T) {
	t.Parallel()
	const minor, exclusive, invalid = "406 minor", "406 exclusive", "406 invalid"
	parsers := [9]int{0, 0, 1, 0, 1, 1, 1, 2, 2} // prefixed A, B, D; bare C, E, F, G; both H, I
	headers := []struct {
		sent string
		want [3]string // prefixed, bare, both; "max" is the highest version
	}{
		{"none", [3]string{"2.0", "2.0", "2.0"}},
		{"accelerator 2.2", [3]string{"2.2", "2.0", "2.2"}},
		{"ACCELERATOR 2.2", [3]string{"2.2", "2.0", "2.2"}},
		{"accelerator 2.2, compute 2.82", [3]string{"2.2", "2.0", "2.2"}},
		{"compute 2.82, accelerator 2.2", [3]string{"2.2", "2.0", "2.2"}},
		{"2.2", [3]string{"2.0", "2.2", "2.2"}},
		{"accelerator latest", [3]string{"max", "2.0", "max"}},
		{"latest", [3]string{"2.0", "max", "max"}},
		{"accelerator 2.9", [3]string{minor, "2.0", minor}},
		{"2.9", [3]string{"2.0", minor, minor}},
		{"accelerator 1.0", [3]string{exclusive, "2.0", exclusive}},
		{"1.0", [3]string{"2.0", exclusive, exclusive}},
		{"accelerator foo", [3]string{"2.0", "2.0", invalid}},
		{"foo", [3]string{"2.0", "2.0", invalid}},
		{"compute 2.82", [3]string{"2.0", "2.0", invalid}},
		{"", [3]string{"2.0", "2.0", invalid}},
		{"accelerator 2", [3]string{invalid, "2.0", invalid}},
		{"accelerator 2.2.0", [3]string{invalid, "2.0", invalid}},
		{"2", [3]string{"2.0", invalid, invalid}},
		{"2.2.0", [3]string{"2.0", invalid, invalid}},
	}
	for column, releases := range releasesByColumn() {
		highest := either(column >= 3, "2.2", "2.3")
		w := fakeWorld(t, fakecyborg.Config{Release: releases[0]})
		for _, tt := range headers {
			s := sent{method: "GET", path: "/v2/device_profiles"}
			if tt.sent != "none" {
				s.header = map[string]string{"OpenStack-API-Version": tt.sent}
			}
			r := w.send(s)
			served := strings.TrimPrefix(r.header.Get("OpenStack-API-Version"), "accelerator ")
			asked := strings.TrimPrefix(tt.sent, "accelerator ")
			kinds := map[string]string{
				"Invalid value for OpenStack-API-Version header": invalid,
				"Version " + asked + " was requested but the minor version is not supported by this service. The supported version range is: [2.0, " + highest + "].":               minor,
				"Mutually exclusive versions requested. Version " + asked + " requested but not supported by this service. The supported version range is: [2.0, " + highest + "].": exclusive,
			}
			got := served
			if r.status != http.StatusOK {
				got = kinds[r.fault()]
			}
			want := strings.ReplaceAll(tt.want[parsers[column]], "max", highest)
			if got != want || (r.header.Get("OpenStack-API-Maximum-Version") == "") != (want == invalid) || (served == "") != strings.HasPrefix(want, "406") {
				t.Errorf("release %s, %q: %q (%d %s), want %q", releases[0], tt.sent, got, r.status, r.fault(), want)
			}
		}
	}
}

// A series is its newest point release.
func TestNamesOfReleases(t *testing.T) {
	t.Parallel()
	for name, want := range map[fakecyborg.Release]fakecyborg.Release{
		"": fakecyborg.Release20262, "zed": "zed", "9.0.0": "zed", "2023.1": "2023.1", "10.0.0": "10.0.0", "10.1.0": "2023.1", "2023.2": "2023.2", "11.0.0": "2023.2",
		"2024.1": "2024.1", "12.0.0": "2024.1", "2024.2": "2024.2", "13.0.0": "2024.2", "2025.1": "2025.1", "14.0.0": "14.0.0", "14.1.0": "2025.1",
		"2025.2": "2025.2", "15.0.0": "15.0.0", "15.0.1": "2025.2", "2026.1": "2026.1", "16.0.0": "16.0.0", "16.0.1": "2026.1", "2026.2": "2026.2", "17.0.0": "2026.2",
		"2027.1": "master", "master": "master",
	} {
		cfg := fakecyborg.Config{Release: name}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got := cfg.WithDefaults().Release; got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if !slices.Contains(fakecyborg.Releases(), want) {
			t.Errorf("%q is not in %v", want, fakecyborg.Releases())
		}
	}
	for name, want := range map[fakecyborg.Release]string{
		"2025.3": "did you mean 2025.2?", "16.0.2": "did you mean 16.0.1?", "Zed": "did you mean zed?", "mastre": "did you mean master?", "yoga": `"yoga" (known: zed, 9.0.0, 10.0.0, 2023.1, 10.1.0, `,
	} {
		if err := (fakecyborg.Config{Release: name}).Validate(); !errors.Is(err, fakecyborg.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// 17.0.0 can have the policies of 2027.1, and the other way round; releases before have one set (7823492, 06d95fc).
func TestNewDefaultsOfPolicies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		release fakecyborg.Release
		choice  string
		want    int // of a list of devices as a member; 0: the configuration is refused
	}{
		{"2026.2", "", 200}, {"2026.2", "on", 403}, {"2026.2", "off", 200}, {"master", "", 403}, {"master", "on", 403}, {"master", "off", 200},
		{"2026.1", "", 403}, {"2026.1", "on", 0}, {"zed", "off", 0},
	} {
		cfg := fakecyborg.Config{Release: tt.release}
		if enforced := tt.choice == "on"; tt.choice != "" {
			cfg.EnforceNewDefaults = &enforced
		}
		if err := cfg.Validate(); (err == nil) != (tt.want > 0) || err != nil && !errors.Is(err, fakecyborg.ErrConfig) {
			t.Errorf("%+v: %v", tt, err)
		}
		if tt.want == 0 {
			continue
		}
		w := newWorld(t, cfg, []driver.Driver{fake.New("cn0")}, fakecyborg.WithTokenVerifier(keys{}))
		w.want(w.send(sent{method: "GET", path: "/v2/devices", token: "member", plain: true}), tt.want, "")
	}
}

// Cyborg 9 shows a request whose binding has other texts than UUIDs, which later releases refuse to show (10.0.0:api/controllers/v2/arqs.py:54).
func TestABindingWithoutUUIDs(t *testing.T) {
	t.Parallel()
	for release, want := range map[fakecyborg.Release]int{"zed": 200, "10.0.0": 400, "2026.2": 400} {
		w := fakeWorld(t, fakecyborg.Config{Release: release, UpstreamQuirks: true})
		w.want(w.patch(binding("inst1", fakeProvider(), oneARQ(w))), 202, "")
		w.want(w.get(arqsPath), want, "")
	}
}

// A request from before the mends has no project: afterwards only administrators see it.
func TestARequestWithoutAProjectAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	worldOf := func(release fakecyborg.Release) *releaseWorld {
		cfg := fakecyborg.Config{Release: release}
		return &releaseWorld{world: newWorld(t, cfg, []driver.Driver{fake.New("cn0")}, fakecyborg.WithTokenVerifier(keys{}))}
	}
	before, after := worldOf("16.0.0"), worldOf("16.0.1")
	before.arq("member")
	var records []sim.Record
	for record, err := range before.server.Records() {
		settled(t, err)
		records = append(records, record)
	}
	settled(t, sim.Replace(t.Context(), after.server, records))
	for token, want := range map[string]int{"member": 0, "admin": 1} {
		if got := len(after.as(token, "GET", arqsPath, "").list(t, "arqs")); got != want {
			t.Errorf("%s lists %d requests, want %d", token, got, want)
		}
	}
}
