package cyborgclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// novaProfile is the profile of Nova's tests, as Cyborg lists it.
const novaProfile = `{"uuid": "307076c2-5aed-4f72-81e8-1b42f9aa2ec6", "name": "mydp", "groups": [{"resources:FPGA": "1", "trait:CUSTOM_FPGA_CARD": "required"}]}`

// novaARQ is an accelerator request of group 0 in some state.
func novaARQ(uuid, state string) string {
	return fmt.Sprintf(`{"uuid": %q, "state": %q, "instance_uuid": %q, "device_profile_name": "mydp", "device_profile_group_id": 0}`, uuid, state, server1)
}

func novaARQs(arqs ...string) string { return `{"arqs": [` + strings.Join(arqs, ", ") + `]}` }

// unreachable is a transport that cannot connect.
func unreachable() cyborgclient.Option {
	return cyborgclient.WithTransport(transportFunc(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("connection refused")
	}))
}

// readProfile is step 1 of a flow for a flavor of the profile mydp.
func readProfile(t *testing.T, client *cyborgclient.Client) (*spawn.Attempt, error) {
	t.Helper()
	placement := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: "http://placement.invalid/"}
	flow, err := spawn.New(client, placement)
	if err != nil {
		t.Fatal(err)
	}
	attempt, err := flow.Begin(t.Context(), spawn.Request{Instance: server1, ProjectID: project1, UserID: project1, Flavor: requestspec.Flavor{
		Name: "f", VCPUs: 1, MemoryMB: 1, RootGB: 1, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "mydp"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return attempt, attempt.ReadProfile(t.Context())
}

// fails is a test of a call that handler answers with an error.
func fails(handler http.HandlerFunc, use call, kind error, says ...string) func(*testing.T) {
	return func(t *testing.T) {
		client, _ := newClient(t, handler)
		wantIs(t, use(t.Context(), client), kind, says...)
	}
}

// TestNovaClient has the 32 cases of Nova's own tests of its Cyborg client
// (nova/tests/unit/accelerator/test_cyborg.py), each by its name: what Nova wants of
// the client, of the two packages that read and match profiles, and of a flow.
func TestNovaClient(t *testing.T) {
	t.Parallel()
	ofInstance := ask((*cyborgclient.Client).ListARQs, cyborgclient.ListARQsOpts{Instance: server1})
	rows := []struct {
		row  string
		test func(*testing.T)
	}{
		{"get_client", func(t *testing.T) {
			var asked gophercloud.EndpointOpts
			provider := &gophercloud.ProviderClient{EndpointLocator: func(o gophercloud.EndpointOpts) (string, error) {
				asked = o
				return "http://region-b.example/accelerator", nil
			}}
			client, err := cyborgclient.New(provider, cyborgclient.WithEndpointOpts(gophercloud.EndpointOpts{Region: "b", Availability: gophercloud.AvailabilityInternal}))
			if err != nil {
				t.Fatal(err)
			}
			if asked.Type != "accelerator" || asked.Region != "b" || asked.Availability != gophercloud.AvailabilityInternal {
				t.Errorf("asked the catalog for %+v", asked)
			}
			overridden, err := cyborgclient.NewWithEndpoint("http://override.example/v2", "")
			if err != nil {
				t.Fatal(err)
			}
			if got := []string{client.Service().Endpoint, overridden.Service().Endpoint}; !strings.HasPrefix(got[0], "http://region-b.example/accelerator/v2") || !strings.HasPrefix(got[1], "http://override.example/v2") {
				t.Errorf("endpoints %q", got)
			}
		}},
		{"call_cyborg", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, novaARQs()))
			if _, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{}); err != nil {
				t.Error(err)
			}
		}},
		{"call_cyborg_keystone_error", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := newClient(t, nil, unreachable())
				_, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{})
				wantIs(t, err, cyborgclient.ErrUnavailable, "connection refused")
			})
		}},
		{"call_cyborg_bad_response", fails(fixed(200, "no JSON"), ofInstance, cyborgclient.ErrMalformed, server1)},
		{"get_device_profile_list", func(t *testing.T) {
			client, transport := newClient(t, fixed(200, `{"device_profiles": [`+novaProfile+`]}`))
			got, err := client.ListDeviceProfiles(t.Context(), cyborgclient.ListDeviceProfilesOpts{Names: []string{"mydp"}})
			if err != nil || len(got) != 1 || got[0].Name != "mydp" {
				t.Errorf("got %v, %v", got, err)
			}
			wantLines(t, transport, "GET /device_profiles?name=mydp")
		}},
		{"get_device_profile_list_bad_response", fails(fixed(404, ""),
			ask((*cyborgclient.Client).ListDeviceProfiles, cyborgclient.ListDeviceProfilesOpts{Names: []string{"mydp"}}),
			cyborgclient.ErrNotFound, "mydp")},
		{"get_device_profile_groups_no_owner", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, `{"device_profiles": [`+novaProfile+`]}`))
			attempt, err := readProfile(t, client)
			if err != nil {
				t.Fatal(err)
			}
			groups, err := requestspec.ParseProfile("mydp", attempt.Profile.Groups)
			want := []requestspec.Group{{
				RequesterID: "device_profile_0", UseSameProvider: true, Resources: map[string]int{"FPGA": 1}, Required: []string{"CUSTOM_FPGA_CARD"},
			}}
			if diff := cmp.Diff(want, groups); diff != "" || err != nil {
				t.Errorf("%v, groups (-want +got):\n%s", err, diff)
			}
		}},
		{"get_device_profile_groups_port_owner", func(t *testing.T) {
			profile := requestspec.Profile{Name: "mydp", Groups: []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FPGA_CARD": "required"}}}
			port := requestspec.Port{UUID: arq3, VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: "mydp"}
			groups, err := requestspec.PortGroups(port, &profile, 0)
			if err != nil || len(groups) != 1 || groups[0].RequesterID != "device_profile_0"+arq3 {
				t.Errorf("got %+v, %v", groups, err)
			}
		}},
		{"get_device_profile_groups_no_dp", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, `{"device_profiles": []}`))
			_, err := readProfile(t, client)
			wantIs(t, err, spawn.ErrProfile, "mydp")
		}},
		{"get_device_profile_groups_many_dp", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, `{"device_profiles": [`+novaProfile+`, `+novaProfile+`]}`))
			_, err := readProfile(t, client)
			wantIs(t, err, spawn.ErrProfile, "mydp")
		}},
		{"create_arqs", func(t *testing.T) {
			client, transport := newClient(t, fixed(201, novaARQs(novaARQ(arq1, "Initial"), novaARQ(arq2, "Initial"))))
			got, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "mydp"})
			if err != nil || len(got) != 2 || got[0].UUID != arq1 || got[1].UUID != arq2 {
				t.Errorf("got %v, %v", got, err)
			}
			if got := transport.requests()[0].Body; got != `{"device_profile_name":"mydp"}` {
				t.Errorf("body %s", got)
			}
			wantLines(t, transport, "POST /accelerator_requests")
		}},
		{"create_arqs_failure", fails(fixed(200, "null"),
			ask((*cyborgclient.Client).CreateARQs, cyborgclient.CreateARQsOpts{DeviceProfileName: "mydp"}), cyborgclient.ErrMalformed, "mydp")},
		{"create_arq_and_match_rps", func(t *testing.T) {
			second := strings.Replace(novaARQ(arq2, "Initial"), `_id": 0`, `_id": 1`, 1)
			client, _ := newClient(t, fixed(201, novaARQs(novaARQ(arq1, "Initial"), second)))
			got, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "mydp"})
			if err != nil {
				t.Fatal(err)
			}
			checkMatch(t, got)
		}},
		{"create_arq_and_match_rps_exception", func(t *testing.T) {
			client, _ := newClient(t, fixed(201, `{}`))
			_, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "mydp"})
			wantIs(t, err, cyborgclient.ErrMalformed, `no "arqs"`)
			wantIs(t, err, cyborgclient.ErrReplyLost) // some may exist
		}},
		{"get_arq_device_rp_uuid", func(t *testing.T) {
			providers, err := matching.Providers([]requestspec.Group{{RequesterID: requestspec.RequesterID(0)}},
				map[string][]string{"device_profile_0": {rp1}, "": {rp2}})
			if diff := cmp.Diff(map[string]string{"device_profile_0": rp1}, providers); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}},
		{"bind_arqs", func(t *testing.T) {
			client, transport := newClient(t, fixed(202, ""))
			if err := client.BindARQs(t.Context(), novaBindings()); err != nil {
				t.Fatal(err)
			}
			want := `{"` + arq1 + `":[{"path":"/hostname","op":"add","value":"myhost"},{"path":"/device_rp_uuid","op":"add","value":"` + rp1 + `"},{"path":"/instance_uuid","op":"add","value":"` + server1 + `"}],` +
				`"` + arq2 + `":[{"path":"/hostname","op":"add","value":"myhost"},{"path":"/device_rp_uuid","op":"add","value":"` + rp2 + `"},{"path":"/instance_uuid","op":"add","value":"` + server1 + `"}]}`
			if got := transport.requests()[0].Body; got != want {
				t.Errorf("body %s\nwant %s", got, want)
			}
			wantLines(t, transport, "PATCH /accelerator_requests")
		}},
		{"bind_arqs_exception", func(t *testing.T) {
			client, transport := newClient(t, fixed(500, `{"error_message": "Some error"}`))
			err := client.BindARQs(t.Context(), novaBindings())
			wantIs(t, err, cyborgclient.ErrUnavailable, "Some error", arq1, arq2)
			wantLines(t, transport, "PATCH /accelerator_requests") // the client itself deletes nothing
		}},
		{"get_arqs_for_instance", func(t *testing.T) {
			client, transport := newClient(t, fixed(200, novaARQs(novaARQ(arq1, "Bound"), novaARQ(arq2, "Bound"))))
			checkResolved(t, client, 2, 2)
			wantLines(t, transport, "GET /accelerator_requests?instance="+server1)
		}},
		{"get_arqs_for_instance_all_resolved", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, novaARQs(novaARQ(arq1, "Bound"), novaARQ(arq2, "BindFailed"), novaARQ(arq3, "Deleting"))))
			checkResolved(t, client, 3, 3)
		}},
		{"get_arqs_for_instance_some_resolved", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, novaARQs(novaARQ(arq1, "Initial"), novaARQ(arq2, "Bound"))))
			checkResolved(t, client, 2, 1)
		}},
		{"get_arqs_for_instance_exception", fails(fixed(404, ""), ofInstance, cyborgclient.ErrNotFound, server1)},
		{"get_arqs_for_instance_exception_no_resp", fails(fixed(200, `{"nothing": 1}`), ofInstance, cyborgclient.ErrMalformed, server1, `no "arqs"`)},
		{"get_arq_by_uuid", func(t *testing.T) {
			client, transport := newClient(t, fixed(200, novaARQ(arq1, "Bound")))
			got, err := client.GetARQ(t.Context(), arq1)
			if err != nil || got.UUID != arq1 || got.State != cyborgclient.StateBound {
				t.Errorf("got %+v, %v", got, err)
			}
			wantLines(t, transport, "GET /accelerator_requests/"+arq1)
		}},
		{"get_arq_by_uuid_exception", fails(fixed(401, ""), ask((*cyborgclient.Client).GetARQ, arq1), cyborgclient.ErrUnauthorized, arq1)},
		{"get_arq_by_uuid_not_found", fails(fixed(404, `{"error_message": "ExtArq not found"}`),
			ask((*cyborgclient.Client).GetARQ, arq1), cyborgclient.ErrNotFound, arq1, "ExtArq not found")},
		{"get_arq_uuids_for_instance", func(t *testing.T) {
			client, _ := newClient(t, fixed(200, novaARQs(novaARQ(arq1, "Initial"), novaARQ(arq2, "Bound"))))
			got, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: server1})
			if err != nil || len(got) != 2 || got[0].UUID != arq1 || got[1].UUID != arq2 {
				t.Errorf("got %v, %v", got, err)
			}
		}},
		{"delete_arqs_for_instance", func(t *testing.T) {
			client, transport := newClient(t, fixed(204, ""))
			if err := client.DeleteARQsForInstance(t.Context(), server1); err != nil {
				t.Error(err)
			}
			wantLines(t, transport, "DELETE /accelerator_requests?instance="+server1)
		}},
		{"delete_arqs_for_instance_exception", fails(fixed(403, `{"error_message": "Some error"}`),
			tell((*cyborgclient.Client).DeleteARQsForInstance, server1), cyborgclient.ErrForbidden, "Some error", server1)},
		{"delete_arqs_by_uuid", func(t *testing.T) {
			client, transport := newClient(t, fixed(204, ""))
			if err := client.DeleteARQs(t.Context(), []string{arq1, arq2}); err != nil {
				t.Error(err)
			}
			wantLines(t, transport, "DELETE /accelerator_requests?arqs="+arq1+"%2C"+arq2)
		}},
		{"delete_arqs_by_uuid_exception", func(t *testing.T) {
			// Nova only logs it and leaks the requests; here each is tried, and named.
			client, _ := newClient(t, fixed(403, `{"error_message": "Some error"}`))
			err := client.DeleteARQs(t.Context(), []string{arq1, arq2})
			wantIs(t, err, cyborgclient.ErrForbidden, arq1, arq2)
			var failed *cyborgclient.DeleteError
			if !errors.As(err, &failed) || len(failed.Failed) != 2 {
				t.Errorf("err = %v, want a DeleteError of both", err)
			}
		}},
		{"get_arq_pci_device_profile", func(t *testing.T) {
			got, err := domainxml.BindingProfile(nil, domainxml.Handle{ARQ: arq1, Type: domainxml.HandlePCI, Info: map[string]any{
				"bus": "0c", "device": "0", "domain": "0000", "function": "0", "physical_network": "physicalnet1",
			}})
			want := map[string]any{"physical_network": "physicalnet1", "pci_slot": "0000:0c:0.0", "arq_uuid": arq1}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v, profile (-want +got):\n%s", err, diff)
			}
		}},
		{"get_device_amount_of_dp_groups", func(t *testing.T) {
			for want, groups := range map[int][]map[string]string{
				1: {{"resources:FPGA": "1", "trait:CUSTOM_FPGA_CARD": "required"}},
				2: {{"resources:FPGA": "2", "trait:CUSTOM_FPGA_CARD": "required"}},
				3: {{"resources:FPGA": "1"}, {"resources:FPGA": "2"}},
			} {
				sum := 0
				for _, group := range groups {
					n, err := requestspec.ARQCount(group)
					if err != nil {
						t.Error(err)
					}
					sum += n
				}
				if sum != want {
					t.Errorf("%v: %d devices, want %d", groups, sum, want)
				}
			}
		}},
	}
	if len(rows) != 32 {
		t.Errorf("%d rows, want 32", len(rows))
	}
	for _, row := range rows {
		t.Run(row.row, func(t *testing.T) {
			t.Parallel()
			row.test(t)
		})
	}
}

func novaBindings() []cyborgclient.Binding {
	return []cyborgclient.Binding{
		{ARQ: arq1, Host: "myhost", DeviceRP: rp1, Instance: server1},
		{ARQ: arq2, Host: "myhost", DeviceRP: rp2, Instance: server1},
	}
}

// checkMatch matches two requests of two groups with their providers.
func checkMatch(t *testing.T, arqs []cyborgclient.ARQ) {
	t.Helper()
	profile := requestspec.Profile{Name: "mydp", Groups: []map[string]string{{"resources:FPGA": "1"}, {"resources:FPGA": "1"}}}
	var in []matching.Unmatched
	for _, arq := range arqs {
		in = append(in, matching.Unmatched{UUID: arq.UUID, Group: arq.DeviceProfileGroupID, DeviceProfileName: arq.DeviceProfileName})
	}
	got, err := matching.Matches(profile, map[string][]string{"device_profile_0": {rp1}, "device_profile_1": {rp2}}, in)
	want := []matching.Match{{ARQ: arq1, DeviceRP: rp1, Group: 0}, {ARQ: arq2, DeviceRP: rp2, Group: 1}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, bindings (-want +got):\n%s", err, diff)
	}
}

// checkResolved lists the requests of the instance and applies Nova's filter.
func checkResolved(t *testing.T, client *cyborgclient.Client, all, resolved int) {
	t.Helper()
	got, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: server1})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, arq := range got {
		if arq.State.Resolved() {
			n++
		}
	}
	if len(got) != all || n != resolved {
		t.Errorf("%d ARQs, %d resolved; want %d, %d", len(got), n, all, resolved)
	}
}

// TestBindTakesBothAnswers: the real service answers a PATCH with 202 and nothing, the
// specifications with the requests; the body is not read.
func TestBindTakesBothAnswers(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"empty":              fixed(202, ""),
		"the requests":       fixed(202, novaARQs(novaARQ(arq1, "BindStarted"), novaARQ(arq2, "BindStarted"))),
		"no requests":        fixed(202, novaARQs()),
		"null":               fixed(202, "null"),
		"no JSON":            fixed(202, "accepted"),
		"a cut off answer":   fixed(202, `{"arqs": [{"uuid"`),
		"without a type set": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); io.WriteString(w, novaARQs()) },
	} {
		client, transport := newClient(t, handler)
		if err := client.BindARQs(t.Context(), novaBindings()); err != nil {
			t.Errorf("%s: bind: %v", name, err)
		}
		if err := client.UnbindARQs(t.Context(), []string{arq1}); err != nil {
			t.Errorf("%s: unbind: %v", name, err)
		}
		if got := len(transport.requests()); got != 2 {
			t.Errorf("%s: %d requests, want 2", name, got)
		}
	}
}

// TestResolvedByTheServer has the answers to bind_state=resolved.
func TestResolvedByTheServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		opts   cyborgclient.ListARQsOpts
		answer http.HandlerFunc
		line   string
		want   error
		arqs   int
	}{
		{"all of the instance", cyborgclient.ListARQsOpts{Instance: server1, Resolved: true}, fixed(200, novaARQs(novaARQ(arq1, "Bound"))),
			"GET /accelerator_requests?instance=" + server1 + "&bind_state=resolved", nil, 1},
		{"one is not: 423 without a body", cyborgclient.ListARQsOpts{Instance: server1, Resolved: true}, fixed(423, ""),
			"GET /accelerator_requests?instance=" + server1 + "&bind_state=resolved", cyborgclient.ErrNotResolved, 0},
		{"without an instance it filters", cyborgclient.ListARQsOpts{Resolved: true}, fixed(200, novaARQs()),
			"GET /accelerator_requests?bind_state=resolved", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, transport := newClient(t, tt.answer)
				got, err := client.ListARQs(t.Context(), tt.opts)
				if !errors.Is(err, tt.want) || len(got) != tt.arqs {
					t.Errorf("got %v, %v", got, err)
				}
				wantLines(t, transport, tt.line)
			})
		})
	}
}
