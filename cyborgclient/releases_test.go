package cyborgclient_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// applied is the version that a Cyborg with the maximum 2.3 applies for a header, by how it reads the header
// (cyborg/api/controllers/base.py of the releases).
var applied = map[string]map[string]string{
	"prefixed": {"accelerator 2.0": "2.0", "accelerator 2.1": "2.1", "accelerator 2.3": "2.3", "2.0": "2.0", "2.1": "2.0", "2.3": "2.0"},
	"bare":     {"accelerator 2.0": "2.0", "accelerator 2.1": "2.0", "accelerator 2.3": "2.0", "2.0": "2.0", "2.1": "2.1", "2.3": "2.3"},
	"both":     {"accelerator 2.0": "2.0", "accelerator 2.1": "2.1", "accelerator 2.3": "2.3", "2.0": "2.0", "2.1": "2.1", "2.3": "2.3"},
}

// release describes the answers to a user who is not an administrator.
type release struct {
	name    string
	highest string // microversion
	reads   string // see applied
	echo    string // before the applied version
	refuses []string
}

// Operations that a release refuses with 403, by method and path.
const (
	oneARQ     = "GET /accelerator_requests/"
	oneProfile = "GET /device_profiles/"
	hardware   = "GET /devices"
)

func releases() []release {
	return []release{
		{"9.0", "2.2", "prefixed", "", []string{oneARQ, oneProfile}},
		{"10.0", "2.2", "prefixed", "", []string{oneARQ, oneProfile}},
		{"10.1", "2.2", "bare", "", []string{oneARQ, oneProfile}},
		{"11.0", "2.3", "prefixed", "", []string{oneARQ, oneProfile}},
		{"12.0", "2.3", "bare", "", []string{oneARQ, oneProfile}},
		{"13.0 to 16.0", "2.3", "bare", "", []string{oneARQ, oneProfile}},
		{"14.1, 15.0.1, 16.0.1", "2.3", "bare", "", []string{oneProfile, hardware}},
		{"17.0", "2.3", "both", "accelerator ", nil},
		{"after 17.0", "2.3", "both", "accelerator ", []string{hardware}},
	}
}

// serve answers as the release does.
func (r release) serve(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		sent := req.Header.Get("OpenStack-API-Version")
		version, known := applied[r.reads][sent]
		if !known || version > r.highest {
			t.Errorf("%s: version header %q", r.name, sent)
		}
		w.Header().Set("OpenStack-API-Minimum-Version", "2.0")
		w.Header().Set("OpenStack-API-Maximum-Version", r.highest)
		w.Header().Set("OpenStack-API-Version", r.echo+version)
		path := strings.TrimPrefix(req.URL.Path, "/accelerator/v2")
		refused := func(operation string) bool { return strings.HasPrefix(req.Method+" "+path, operation) }
		status := ""
		if version >= "2.3" {
			status = `, "status": "enabled"`
		}
		switch {
		case path == "":
			reply(w, 200, strings.ReplaceAll(string(answer(t, "version")), `"2.3"`, `"`+r.highest+`"`))
		case slices.ContainsFunc(r.refuses, refused):
			reply(w, 403, quoted("Access was denied to the following resource: cyborg:x:get_one"))
		case req.Method == http.MethodPatch && version < "2.1":
			reply(w, 406, quoted("Request not acceptable. The minimal required API version should be 2.1"))
		case req.Method == http.MethodPatch:
			w.WriteHeader(202)
		case strings.HasPrefix(path, "/accelerator_requests/"):
			reply(w, 200, `{"uuid": "`+arq1+`", "state": "Bound"}`)
		case path == "/accelerator_requests":
			reply(w, 200, `{"arqs": [{"uuid": "`+arq2+`", "state": "Initial"}, {"uuid": "`+arq1+`", "state": "Bound"}]}`)
		case strings.HasPrefix(path, "/device_profiles/"):
			reply(w, 200, `{"device_profile": {"uuid": "`+arq1+`", "name": "gpu", "groups": []}}`)
		case path == "/device_profiles":
			reply(w, 200, `{"device_profiles": [{"uuid": "`+arq2+`", "name": "gpus", "groups": []}, {"uuid": "`+arq1+`", "name": "gpu", "groups": []}]}`)
		default:
			reply(w, 200, `{"devices": [{"uuid": "`+arq1+`"`+status+`}]}`)
		}
	}
}

// sentVersions are the version headers of the requests since the last call of this function.
func sentVersions(transport *wire, from int) []string {
	var sent []string
	for _, request := range transport.requests()[from:] {
		sent = append(sent, request.Header.Get("OpenStack-API-Version"))
	}
	return sent
}

func TestTheVersionHeaderIsSentInTheFormThatTheReleaseReads(t *testing.T) {
	t.Parallel()
	for _, r := range releases() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			client, transport := newClient(t, r.serve(t))
			var calls recorder
			ctx := cyborgclient.Observe(t.Context(), calls.observe)
			first, later := []string{"accelerator 2.0", "accelerator 2.1"}, []string{"accelerator 2.1"}
			if r.reads == "bare" {
				first, later = append(first, "2.1"), []string{"2.1"}
			}
			for call, want := range [][]string{first, later} {
				from := len(transport.requests())
				if err := bindToProject(ctx, client); err != nil {
					t.Errorf("bind %d: %v", call, err)
				}
				if diff := cmp.Diff(want, sentVersions(transport, from)); diff != "" {
					t.Errorf("bind %d: versions (-want +got):\n%s", call, diff)
				}
			}
			if got := calls.calls[1]; got.Attempts != len(first)-1 || got.Status != 202 || got.Err != nil {
				t.Errorf("the bind is observed as %+v", got)
			}
			found, err := client.ListDevices(t.Context(), cyborgclient.ListDevicesOpts{})
			if slices.Contains(r.refuses, hardware) {
				if !errorsIs(err, cyborgclient.ErrForbidden) {
					t.Errorf("devices: %v, want ErrForbidden", err)
				}
				return
			}
			if wantStatus := r.highest >= "2.3"; err != nil || len(found) != 1 || (found[0].Status == cyborgclient.DeviceEnabled) != wantStatus {
				t.Errorf("devices: %+v, %v", found, err)
			}
		})
	}
}

// The first call of a process may be the one whose answer only lacks something.
func TestTheStatusOfDevicesIsNotLost(t *testing.T) {
	t.Parallel()
	for _, r := range releases() {
		client, transport := newClient(t, r.serve(t))
		if slices.Contains(r.refuses, hardware) {
			continue
		}
		found, err := client.ListDevices(t.Context(), cyborgclient.ListDevicesOpts{})
		if err != nil || (found[0].Status == cyborgclient.DeviceEnabled) != (r.highest >= "2.3") {
			t.Errorf("%s: %+v, %v after %q", r.name, found, err, sentVersions(transport, 0))
		}
	}
}

// A client outlives an upgrade, and the workers behind one endpoint are upgraded one after the other: 10.1 reads
// the bare form, 11.0 the prefixed one.
func TestAnotherFormAfterAnUpgradeIsFound(t *testing.T) {
	t.Parallel()
	all := releases()
	now := all[2]
	client, transport := newClient(t, func(w http.ResponseWriter, req *http.Request) { now.serve(t)(w, req) })
	for _, now = range []release{all[2], all[3], all[4], all[7], all[0]} {
		from := len(transport.requests())
		if err := bindToProject(t.Context(), client); err != nil {
			t.Errorf("%s: %v after %q", now.name, err, sentVersions(transport, from))
		}
	}
}

// A proxy may drop the header of the request: a bind that was accepted is not sent again, and a read once.
func TestAnAnswerInAnotherVersionIsNotAskedForWithoutEnd(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("OpenStack-API-Maximum-Version", "2.3")
		w.Header().Set("OpenStack-API-Version", "2.0")
		if req.Method == http.MethodPatch {
			w.WriteHeader(202)
			return
		}
		reply(w, 200, string(answer(t, "device_list")))
	})
	if err := devices(t.Context(), client); err != nil {
		t.Error(err)
	}
	if err := bindToProject(t.Context(), client); err != nil {
		t.Error(err)
	}
	wantLines(t, transport, "GET ", "GET /devices", "GET /devices", "PATCH /accelerator_requests")
}

// An agent makes a client for each request of a user.
func TestTheClientsOfSeveralUsersShareTheForm(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, releases()[5].serve(t))
	if err := bindToProject(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	user, err := client.ForProvider(provider(nil, "another"))
	if err != nil {
		t.Fatal(err)
	}
	from := len(transport.requests())
	if err := bindToProject(t.Context(), user); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"2.1"}, sentVersions(transport, from)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestManyCallersFindTheFormTogether(t *testing.T) {
	t.Parallel()
	client, _ := newClient(t, releases()[5].serve(t))
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 4 {
				if err := bindToProject(t.Context(), client); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

func TestOneResourceIsFoundInTheListWhereOnlyAdministratorsReadOne(t *testing.T) {
	t.Parallel()
	for _, r := range releases() {
		client, _ := newClient(t, r.serve(t))
		arq, err := client.GetARQ(t.Context(), arq1)
		if err != nil || arq.UUID != arq1 || arq.State != cyborgclient.StateBound {
			t.Errorf("%s: ARQ %+v, %v", r.name, arq, err)
		}
		profile, err := client.GetDeviceProfile(t.Context(), arq1)
		if err != nil || profile.Name != "gpu" {
			t.Errorf("%s: profile %+v, %v", r.name, profile, err)
		}
		if profile, err = client.GetDeviceProfileByName(t.Context(), "gpu"); err != nil || profile.UUID != arq1 {
			t.Errorf("%s: profile by name %+v, %v", r.name, profile, err)
		}
		if slices.Contains(r.refuses, oneARQ) {
			_, err = client.GetARQ(t.Context(), arq3)
			if !errorsIs(err, cyborgclient.ErrNotFound) || !cyborgclient.IsMissing(err) || !strings.Contains(err.Error(), "accelerator.arq.get "+arq3) {
				t.Errorf("%s: missing ARQ: %v", r.name, err)
			}
		}
		if _, err = client.GetDeviceProfileByName(t.Context(), "fpga"); !errorsIs(err, cyborgclient.ErrNotFound) || !cyborgclient.IsMissing(err) {
			t.Errorf("%s: missing profile: %v", r.name, err)
		}
	}
}

func TestARefusalByPolicyNamesTheRole(t *testing.T) {
	t.Parallel()
	const denied, tooFew = "Access was denied to the following resource: cyborg:x:y", "This operation requires a service token"
	for _, test := range []struct {
		name, echo, detail string
		call               call
		role               string // "": none is named
	}{
		{"devices, 16.0.1", "2.0", denied, devices, "admin"},
		{"devices, new defaults", "accelerator 2.3", denied, devices, "manager or admin"},
		{"create, 16.0.1", "2.0", denied, create, "member or admin"},
		{"create, new defaults", "accelerator 2.0", denied, create, "member, service or admin"},
		{"profiles, 16.0.1", "2.0", denied, ask((*cyborgclient.Client).GetDeviceProfileByName, "gpu"), "reader or admin"},
		{"ARQs, new defaults", "accelerator 2.0", denied, ask((*cyborgclient.Client).GetARQ, arq1), "reader or admin"},
		{"attribute, 16.0.1", "2.0", denied, deleteOne, "admin"},
		{"bind", "2.0", denied, bind, ""},
		{"service token", "2.0", tooFew, create, ""},
		{"a proxy", "", denied, devices, ""},
	} {
		client, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("OpenStack-API-Version", test.echo)
			reply(w, 403, quoted(test.detail))
		})
		err := test.call(t.Context(), client)
		want := ": the default policy requires the role " + test.role + " in a project"
		if !errorsIs(err, cyborgclient.ErrForbidden) || strings.Contains(err.Error(), want) != (test.role != "") ||
			test.role == "" && strings.Contains(err.Error(), "default policy") {
			t.Errorf("%s: %v, want the role %q", test.name, err, test.role)
		}
	}
}
