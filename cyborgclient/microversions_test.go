package cyborgclient_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// upTo serves a Cyborg whose highest microversion is max, with an answer for
// each call that needs one.
func upTo(t *testing.T, highest string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("OpenStack-API-Minimum-Version", "2.0")
		w.Header().Set("OpenStack-API-Maximum-Version", highest)
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/v2"):
			reply(w, 200, strings.ReplaceAll(string(answer(t, "version")), `"2.3"`, `"`+highest+`"`))
		case strings.HasSuffix(path, "/devices"):
			reply(w, 200, string(answer(t, "device_list")))
		case r.Method == http.MethodPatch:
			w.WriteHeader(202)
		default:
			reply(w, 200, `{"arqs": []}`)
		}
	}
}

func devices(ctx context.Context, client *cyborgclient.Client) error {
	_, err := client.ListDevices(ctx, cyborgclient.ListDevicesOpts{})
	return err
}

func bindToProject(ctx context.Context, client *cyborgclient.Client) error {
	return client.BindARQs(ctx, []cyborgclient.Binding{
		{ARQ: arq1, Host: "compute-a", DeviceRP: rp1, Instance: server1, Project: project1}})
}

func TestLowestSufficientMicroversionIsSent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, highest string
		call          call
		sent          []string // version of each request
		refused       bool
	}{
		{"plain calls ask for nothing", "2.3", listARQs, []string{"2.0"}, false},
		{"plain bind", "2.3", bind, []string{"2.0"}, false},
		{"bind to a project", "2.3", bindToProject, []string{"2.0", "2.1"}, false},
		{"bind to a project, just enough", "2.1", bindToProject, []string{"2.0", "2.1"}, false},
		{"bind to a project, too old", "2.0", bindToProject, []string{"2.0"}, true},
		{"bind to a project, 2.10 is more than 2.1", "2.10", bindToProject, []string{"2.0", "2.1"}, false},
		{"device status", "2.3", devices, []string{"2.0", "2.3"}, false},
		{"devices without status", "2.2", devices, []string{"2.0", "2.0"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, transport := newClient(t, upTo(t, test.highest))
			err := test.call(t.Context(), client)
			if errorsIs(err, cyborgclient.ErrMicroversion) != test.refused || err != nil && !test.refused {
				t.Errorf("err = %v", err)
			}
			var sent []string
			for _, request := range transport.requests() {
				sent = append(sent, strings.TrimPrefix(request.Header.Get("OpenStack-API-Version"), "accelerator "))
			}
			if diff := cmp.Diff(test.sent, sent); diff != "" {
				t.Errorf("versions sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheMaximumVersionIsReadFromEveryAnswer(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, upTo(t, "2.0"))
	if err := listARQs(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	err := bindToProject(t.Context(), client)
	if !errorsIs(err, cyborgclient.ErrMicroversion) || !strings.Contains(err.Error(), "2.1") || !strings.Contains(err.Error(), "2.0") {
		t.Errorf("err = %v", err)
	}
	wantLines(t, transport, "GET /accelerator_requests?instance="+server1+"&bind_state=resolved", "GET ")
}

// Behind one endpoint the workers are upgraded one after the other, and a client lives longer.
func TestAnUpgradeOfTheServerIsNoticed(t *testing.T) {
	t.Parallel()
	highest := "2.0"
	client, _ := newClient(t, func(w http.ResponseWriter, r *http.Request) { upTo(t, highest)(w, r) })
	if err := bindToProject(t.Context(), client); !errorsIs(err, cyborgclient.ErrMicroversion) {
		t.Errorf("before: %v, want ErrMicroversion", err)
	}
	highest = "2.3"
	if err := bindToProject(t.Context(), client); err != nil {
		t.Errorf("after: %v", err)
	}
}

func TestAWorkerOfBeforeTheUpgradeGetsTheLowestVersion(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("OpenStack-API-Version") == "accelerator 2.3" {
			reply(w, 406, string(answer(t, "error_406_router")))
			return
		}
		upTo(t, "2.3")(w, r)
	})
	calls := 0
	if err := devices(cyborgclient.Observe(t.Context(), func(call cyborgclient.Call) { calls += call.Attempts }), client); err != nil {
		t.Error(err)
	}
	if calls != 3 {
		t.Errorf("%d attempts, want 3", calls)
	}
	wantLines(t, transport, "GET ", "GET /devices", "GET /devices")
}

func TestTheLowestVersionIsSentWhileTheMaximumIsUnknown(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/v2") {
			http.NotFound(w, r)
			return
		}
		reply(w, 406, string(answer(t, "error_406_fault")))
	})
	err := bindToProject(t.Context(), client)
	if !errorsIs(err, cyborgclient.ErrMicroversion) {
		t.Errorf("err = %v, want ErrMicroversion", err)
	}
	wantLines(t, transport, "GET ", "PATCH /accelerator_requests")
}

func TestVersionDocumentInEveryShape(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		string(answer(t, "version")),
		string(answer(t, "version_root")),
		`{"version": {"id": "v2.0", "max_version": "2.3", "min_version": "2.0", "status": "CURRENT"}}`,
	} {
		client, _ := newClient(t, fixed(200, body))
		version, err := client.GetVersion(t.Context())
		if err != nil || version.MaxVersion != "2.3" || version.MinVersion != "2.0" || version.Status != "CURRENT" {
			t.Errorf("GetVersion of %s = %+v, %v", body, version, err)
		}
	}
}
