package cyborgclient_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// oneCall is a use of one method, and what the server answers to it.
type oneCall struct {
	name   string
	status int
	answer string // name of a recorded answer, "" for an empty body
	call   call
}

// everyCall has every method once, and those with variants more often.
func everyCall() []oneCall {
	group := map[string]string{"resources:PGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}
	return []oneCall{
		{"GetVersion", 200, "version", func(ctx context.Context, c *cyborgclient.Client) error {
			_, err := c.GetVersion(ctx)
			return err
		}},
		{"ListDeviceProfiles", 200, "profile_list", ask((*cyborgclient.Client).ListDeviceProfiles, cyborgclient.ListDeviceProfilesOpts{})},
		{"ListDeviceProfiles by name", 200, "profile_list", ask((*cyborgclient.Client).ListDeviceProfiles, cyborgclient.ListDeviceProfilesOpts{Names: []string{"dp-pgpu", "dp-mix"}})},
		{"GetDeviceProfile", 200, "profile_get", ask((*cyborgclient.Client).GetDeviceProfile, arq1)},
		{"GetDeviceProfileByName", 200, "profile_list", ask((*cyborgclient.Client).GetDeviceProfileByName, "dp-pgpu")},
		{"CreateDeviceProfile", 201, "profile_create", ask((*cyborgclient.Client).CreateDeviceProfile, cyborgclient.CreateDeviceProfileOpts{
			Name: "dp-pgpu", Description: "one GPU", Groups: []map[string]string{group}})},
		{"DeleteDeviceProfile", 204, "", tell((*cyborgclient.Client).DeleteDeviceProfile, "dp-pgpu")},
		{"CreateARQs", 201, "arq_create", create},
		{"ListARQs", 200, "arq_list", ask((*cyborgclient.Client).ListARQs, cyborgclient.ListARQsOpts{})},
		{"ListARQs resolved, of an instance", 200, "arq_list", ask((*cyborgclient.Client).ListARQs, cyborgclient.ListARQsOpts{Instance: server2, Resolved: true})},
		{"GetARQ", 200, "arq_bound", ask((*cyborgclient.Client).GetARQ, arq1)},
		{"BindARQs", 202, "", tell((*cyborgclient.Client).BindARQs, []cyborgclient.Binding{
			{ARQ: arq2, Host: "compute-a", DeviceRP: rp1, Instance: server1},
			{ARQ: arq1, Host: "compute-a", DeviceRP: rp2, Instance: server1},
		})},
		{"BindARQs with project", 202, "", tell((*cyborgclient.Client).BindARQs, []cyborgclient.Binding{
			{ARQ: arq2, Host: "compute-a", DeviceRP: rp1, Instance: server1, Project: project1}})},
		{"UnbindARQs", 202, "", tell((*cyborgclient.Client).UnbindARQs, []string{arq2, arq1})},
		{"DeleteARQs", 204, "", tell((*cyborgclient.Client).DeleteARQs, []string{arq2, arq1})},
		{"DeleteARQsForInstance", 204, "", tell((*cyborgclient.Client).DeleteARQsForInstance, server1)},
		{"ListDevices", 200, "device_list", ask((*cyborgclient.Client).ListDevices, cyborgclient.ListDevicesOpts{})},
		{"ListDevices with everything", 200, "device_list", ask((*cyborgclient.Client).ListDevices, cyborgclient.ListDevicesOpts{
			Type: "FPGA", Vendor: "8086", Hostname: "compute a", SortKey: "created_at", SortDir: "desc", Limit: 2})},
		{"GetDevice", 200, "device_get", ask((*cyborgclient.Client).GetDevice, arq1)},
		{"EnableDevice", 204, "", tell((*cyborgclient.Client).EnableDevice, arq1)},
		{"DisableDevice", 204, "", tell((*cyborgclient.Client).DisableDevice, arq1)},
		{"ListDeployables", 200, "deployable_list", ask((*cyborgclient.Client).ListDeployables, cyborgclient.ListDeployablesOpts{Name: "compute-a_0000:3b:00.0"})},
		{"GetDeployable", 200, "deployable_get", ask((*cyborgclient.Client).GetDeployable, arq1)},
		{"ProgramDeployable", 200, "deployable_get", func(ctx context.Context, c *cyborgclient.Client) error {
			_, err := c.ProgramDeployable(ctx, arq1, arq2)
			return err
		}},
		{"ListAttributes", 200, "attribute_list", ask((*cyborgclient.Client).ListAttributes, cyborgclient.ListAttributesOpts{DeployableID: 1, Key: "rc"})},
		{"GetAttribute", 200, "attribute_get", ask((*cyborgclient.Client).GetAttribute, arq1)},
		{"CreateAttribute", 201, "attribute_get", ask((*cyborgclient.Client).CreateAttribute, cyborgclient.CreateAttributeOpts{DeployableID: 1, Key: "note", Value: "hello"})},
		{"DeleteAttribute", 204, "", tell((*cyborgclient.Client).DeleteAttribute, arq1)},
	}
}

// serve answers the version document, and everything else with one answer.
func serve(t *testing.T, status int, name string) http.HandlerFunc {
	body := ""
	if name != "" {
		body = string(answer(t, name))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/v2") {
			reply(w, 200, string(answer(t, "version")))
			return
		}
		reply(w, status, body)
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, test := range everyCall() {
		client, transport := newClient(t, serve(t, test.status, test.answer),
			cyborgclient.WithServiceProvider(provider(nil, "serv1ce")))
		if err := test.call(t.Context(), client); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		fmt.Fprintf(&got, "# %s\n", test.name)
		for _, request := range transport.requests() {
			got.WriteString(dump(request))
		}
		got.WriteByte('\n')
	}
	golden(t, "requests.golden", got.String())
}

// dump is a request as text, without the headers that say nothing.
func dump(request sent) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", request.Method, request.URL)
	names := make([]string, 0, len(request.Header))
	for name := range request.Header {
		if name != "User-Agent" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "  %s: %s\n", name, strings.Join(request.Header[name], ", "))
	}
	if request.Body != "" {
		fmt.Fprintf(&text, "  %s\n", request.Body)
	}
	return text.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOCYBORG_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestEveryCallIsObservedOnce(t *testing.T) {
	t.Parallel()
	for _, test := range everyCall() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var outer, inner recorder
			client, _ := newClient(t, serve(t, test.status, test.answer))
			if _, err := client.GetVersion(t.Context()); err != nil { // so that none asks for it
				t.Fatal(err)
			}
			ctx := cyborgclient.Observe(cyborgclient.Observe(t.Context(), outer.observe), inner.observe)
			if err := test.call(ctx, client); err != nil {
				t.Fatal(err)
			}
			if len(outer.calls) != 1 {
				t.Fatalf("observed %d calls, want 1: %+v", len(outer.calls), outer.calls)
			}
			if diff := cmp.Diff(outer.calls, inner.calls); diff != "" {
				t.Errorf("the observers got different calls (-outer +inner):\n%s", diff)
			}
			call := outer.calls[0]
			if call.Operation == "" || call.Method == "" || call.Status != test.status || call.Attempts != 1 || call.Err != nil {
				t.Errorf("call = %+v", call)
			}
		})
	}
}

func TestAnyMalformedAnswerIsAnErrorAndNeverAPanic(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null", "[]", "{}", `"text"`, "42", "{", `{"arqs": null}`, `{"arqs": {}}`,
		`{"arqs": [null]}`, `{"devices": 1}`, "<html>hello</html>", `{"uuid": 7}`, `{"uuid": ""}`} {
		for _, test := range everyCall() {
			if test.answer == "" {
				continue
			}
			client, _ := newClient(t, fixed(test.status, body))
			err := test.call(t.Context(), client)
			if !errorsIs(err, cyborgclient.ErrMalformed) {
				t.Errorf("%s answered %q: err = %v, want ErrMalformed", test.name, body, err)
			}
			changes := strings.HasPrefix(test.name, "Create") || strings.HasPrefix(test.name, "Program")
			if errorsIs(err, cyborgclient.ErrReplyLost) != changes {
				t.Errorf("%s answered %q: err = %v, ErrReplyLost should be %t", test.name, body, err, changes)
			}
		}
	}
}
