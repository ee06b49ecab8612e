package cyborgclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	good := cyborgclient.Binding{ARQ: arq1, Host: "compute-a", DeviceRP: rp1, Instance: server1}
	changed := func(change func(*cyborgclient.Binding)) call {
		binding := good
		change(&binding)
		return tell((*cyborgclient.Client).BindARQs, []cyborgclient.Binding{binding})
	}
	two := func(second cyborgclient.Binding) call {
		return tell((*cyborgclient.Client).BindARQs, []cyborgclient.Binding{good, second})
	}
	profile := func(opts cyborgclient.CreateDeviceProfileOpts) call {
		return ask((*cyborgclient.Client).CreateDeviceProfile, opts)
	}
	groups := []map[string]string{{"resources:PGPU": "1"}}
	tests := []struct {
		name string
		call call
		says string
	}{
		{"no host", changed(func(b *cyborgclient.Binding) { b.Host = " " }), "no host"},
		{"no provider", changed(func(b *cyborgclient.Binding) { b.DeviceRP = "" }), "device resource provider"},
		{"no instance", changed(func(b *cyborgclient.Binding) { b.Instance = "" }), "instance"},
		{"no ARQ", changed(func(b *cyborgclient.Binding) { b.ARQ = "" }), "accelerator request"},
		{"bad instance", changed(func(b *cyborgclient.Binding) { b.Instance = "inst1" }), `"inst1"`},
		{"UUID without hyphens", changed(func(b *cyborgclient.Binding) { b.ARQ = strings.ReplaceAll(arq1, "-", "") }), "not a UUID"},
		{"UUID in upper case", changed(func(b *cyborgclient.Binding) { b.ARQ = strings.ToUpper(arq1) }), "not a UUID in lower case"},
		{"UUID with a tail", changed(func(b *cyborgclient.Binding) { b.ARQ = arq1 + "\n" }), "not a UUID"},
		{"bad project", changed(func(b *cyborgclient.Binding) { b.Project = "demo" }), "project"},
		{"ARQ twice", two(good), "twice"},
		{"two instances", two(cyborgclient.Binding{ARQ: arq2, Host: "compute-a", DeviceRP: rp1, Instance: server2}), "more than one instance"},
		{"unbind twice", tell((*cyborgclient.Client).UnbindARQs, []string{arq1, arq1}), "twice"},
		{"delete of no UUID", tell((*cyborgclient.Client).DeleteARQs, []string{arq1, arq2 + "," + arq3}), "not a UUID"},
		{"delete of no instance", tell((*cyborgclient.Client).DeleteARQsForInstance, ""), "instance"},
		{"list of no instance", ask((*cyborgclient.Client).ListARQs, cyborgclient.ListARQsOpts{Instance: "nope"}), "instance"},
		{"get of no UUID", ask((*cyborgclient.Client).GetARQ, "../devices"), "not a UUID"},
		{"create without profile", ask((*cyborgclient.Client).CreateARQs, cyborgclient.CreateARQsOpts{}), "device profile name"},
		{"create with bad image", ask((*cyborgclient.Client).CreateARQs, cyborgclient.CreateARQsOpts{DeviceProfileName: "x", ImageUUID: "y"}), "image"},
		{"profile without name", profile(cyborgclient.CreateDeviceProfileOpts{Groups: groups}), "name"},
		{"profile with bad name", profile(cyborgclient.CreateDeviceProfileOpts{Name: "a,b", Groups: groups}), "a,b"},
		{"profile with newline", profile(cyborgclient.CreateDeviceProfileOpts{Name: "a\n", Groups: groups}), "name"},
		{"profile with long name", profile(cyborgclient.CreateDeviceProfileOpts{Name: strings.Repeat("a", 256), Groups: groups}), "name"},
		{"profile without groups", profile(cyborgclient.CreateDeviceProfileOpts{Name: "a"}), "groups"},
		{"profile with bad UUID", profile(cyborgclient.CreateDeviceProfileOpts{Name: "a", Groups: groups, UUID: "not-a-uuid"}), "not-a-uuid"},
		{"list of bad names", ask((*cyborgclient.Client).ListDeviceProfiles, cyborgclient.ListDeviceProfilesOpts{Names: []string{"a", "b&c"}}), "b&c"},
		{"program with bad image", func(ctx context.Context, c *cyborgclient.Client) error {
			_, err := c.ProgramDeployable(ctx, arq1, "image")
			return err
		}, "image"},
		{"device that is no UUID", ask((*cyborgclient.Client).GetDevice, "x"), "not a UUID"},
		{"enable that is no UUID", tell((*cyborgclient.Client).EnableDevice, "x"), "not a UUID"},
		{"deployable that is no UUID", ask((*cyborgclient.Client).GetDeployable, "x"), "not a UUID"},
		{"program of no deployable that is no UUID", func(ctx context.Context, c *cyborgclient.Client) error {
			_, err := c.ProgramDeployable(ctx, "x", arq1)
			return err
		}, "not a UUID"},
		{"attribute that is no UUID", ask((*cyborgclient.Client).GetAttribute, "x"), "not a UUID"},
		{"delete of attribute that is no UUID", tell((*cyborgclient.Client).DeleteAttribute, "x"), "not a UUID"},
		{"profile that is no UUID", ask((*cyborgclient.Client).GetDeviceProfile, "gpu"), "not a UUID"},
		{"profile by bad name", ask((*cyborgclient.Client).GetDeviceProfileByName, "a/b"), "a/b"},
		{"delete of a bad name", tell((*cyborgclient.Client).DeleteDeviceProfile, "a,b"), "a,b"},
		{"attribute without value", ask((*cyborgclient.Client).CreateAttribute, cyborgclient.CreateAttributeOpts{DeployableID: 1, Key: "k"}), "required"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var calls recorder
			client, transport := newClient(t, fixed(200, "{}"))
			err := test.call(cyborgclient.Observe(t.Context(), calls.observe), client)
			if !errorsIs(err, cyborgclient.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("err = %v, want ErrInvalid saying %q", err, test.says)
			}
			if len(transport.requests()) != 0 || len(calls.calls) != 0 {
				t.Errorf("sent %q, observed %+v", transport.lines(), calls.calls)
			}
		})
	}
}

func TestEmptyListsSendNothing(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, fixed(500, ""))
	ctx := t.Context()
	err := errors.Join(client.BindARQs(ctx, nil), client.UnbindARQs(ctx, nil), client.DeleteARQs(ctx, nil))
	if err != nil || len(transport.requests()) != 0 {
		t.Errorf("err = %v, sent %q", err, transport.lines())
	}
}

func TestBindKeepsTheOrderOfARQsAndFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(1, 8).Draw(rt, "count")
		var bindings []cyborgclient.Binding
		for i := range count {
			bytes := rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(rt, "uuid")
			bindings = append(bindings, cyborgclient.Binding{
				ARQ:  uuid.Must(uuid.FromBytes(append(bytes, byte(i)))).String(),
				Host: rapid.StringMatching(`[a-z"\\<é-]{1,10}`).Draw(rt, "host"), DeviceRP: rp1, Instance: server1,
			})
		}
		client, transport := newClient(t, fixed(202, ""))
		if err := client.BindARQs(t.Context(), bindings); err != nil {
			rt.Fatal(err)
		}
		decoder := json.NewDecoder(strings.NewReader(transport.requests()[0].Body))
		decoder.Token() // {
		for _, binding := range bindings {
			key, _ := decoder.Token()
			var ops []map[string]string
			if err := decoder.Decode(&ops); err != nil || key != binding.ARQ {
				rt.Fatalf("key %v, %v; want %s", key, err, binding.ARQ)
			}
			want := []map[string]string{
				{"path": "/hostname", "op": "add", "value": binding.Host},
				{"path": "/device_rp_uuid", "op": "add", "value": binding.DeviceRP},
				{"path": "/instance_uuid", "op": "add", "value": binding.Instance},
			}
			if diff := cmp.Diff(want, ops); diff != "" {
				rt.Fatalf("(-want +got):\n%s", diff)
			}
		}
	})
}

// store is a server that holds ARQs and deletes as Cyborg of 2026 does.
type store struct {
	arqs   map[string]bool
	locked string // an ARQ that may not be deleted
	stuck  string // an ARQ whose device cannot be freed
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted := strings.Split(r.URL.Query().Get("arqs"), ",")
	for _, arq := range wanted {
		switch {
		case arq == s.locked:
			reply(w, 403, fmt.Sprintf(`{"error_message": "ARQ %s is bound to instance x. Use the Compute API"}`, arq))
			return
		case arq == s.stuck:
			reply(w, 500, `{"error_message": "{\"faultcode\": \"Server\", \"faultstring\": \"'UnbindFailed'\"}"}`)
			return
		case !s.arqs[arq]:
			reply(w, 404, fmt.Sprintf(`{"error_message": "{\"faultstring\": \"ExtArq not found with uuid=%s\"}"}`, arq))
			return
		}
	}
	for _, arq := range wanted {
		delete(s.arqs, arq)
	}
	w.WriteHeader(204)
}

func TestDeleteARQsLeavesNothingThatCouldBeDeleted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		there    []string
		locked   string
		requests int
		failed   []string
	}{
		{"all there", []string{arq1, arq2, arq3}, "", 1, nil},
		{"one missing", []string{arq1, arq3}, "", 4, nil},
		{"none there", nil, "", 4, nil},
		{"one may not be deleted", []string{arq1, arq2, arq3}, arq1, 4, []string{arq1}},
		{"one missing, one may not be deleted", []string{arq1, arq2}, arq2, 4, []string{arq2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := &store{arqs: map[string]bool{}, locked: test.locked}
			for _, arq := range test.there {
				server.arqs[arq] = true
			}
			client, transport := newClient(t, server.ServeHTTP)
			err := client.DeleteARQs(t.Context(), []string{arq1, arq2, arq3, arq1})
			var failed []string
			var deleteErr *cyborgclient.DeleteError
			if errors.As(err, &deleteErr) {
				failed = slices.Sorted(maps.Keys(deleteErr.Failed))
				if !errors.Is(err, cyborgclient.ErrServiceToken) || !strings.Contains(err.Error(), test.locked) {
					t.Errorf("err = %v", err)
				}
			} else if err != nil {
				t.Errorf("err = %v (%T)", err, err)
			}
			if diff := cmp.Diff(test.failed, failed); diff != "" {
				t.Errorf("failed (-want +got):\n%s", diff)
			}
			if len(transport.requests()) != test.requests {
				t.Errorf("requests = %q, want %d", transport.lines(), test.requests)
			}
			delete(server.arqs, test.locked)
			if len(server.arqs) != 0 {
				t.Errorf("left: %v", server.arqs)
			}
		})
	}
}

func TestDeleteARQsContinuesAfterOneWhoseDeviceCannotBeFreed(t *testing.T) {
	t.Parallel()
	server := &store{arqs: map[string]bool{arq1: true, arq2: true, arq3: true}, stuck: arq2}
	client, _ := newClient(t, server.ServeHTTP)
	err := client.DeleteARQs(t.Context(), []string{arq1, arq2, arq3})
	if !errorsIs(err, cyborgclient.ErrUnavailable) || !strings.Contains(err.Error(), "UnbindFailed") {
		t.Errorf("err = %v", err)
	}
	if diff := cmp.Diff(map[string]bool{arq2: true}, server.arqs); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestDeleteOfOneMissingARQIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, (&store{}).ServeHTTP)
	if err := client.DeleteARQs(t.Context(), []string{arq1}); err != nil || len(transport.requests()) != 1 {
		t.Errorf("err = %v, requests %q", err, transport.lines())
	}
}

// An ingress without a backend answers 404, too; the ARQ stays.
func TestDeleteARQsTrustsOnlyCyborgs404(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		gone bool
	}{
		{`{"error_message": "{\"debuginfo\": null, \"faultcode\": \"Client\", \"faultstring\": \"ExtArq not found\"}"}`, true},
		{`{"error_message": {"debuginfo": null, "faultcode": "Client", "faultstring": "ExtArq not found"}}`, true},
		{string(answer(t, "error_404_router")), false},
		{"default backend - 404", false},
		{"<html><title>404 Not Found</title></html>", false},
		{`{"message": "no Route matched with those values"}`, false},
		{"", false},
	} {
		for _, first := range []int{0, http.StatusServiceUnavailable} {
			synctest.Test(t, func(t *testing.T) {
				missing := step{status: http.StatusNotFound, body: test.body}
				steps := []step{missing, missing}
				if first != 0 {
					steps = append([]step{{status: first}}, steps...)
				}
				transport, _ := script(t, steps...)
				client, _ := newClient(t, nil, cyborgclient.WithTransport(transport))
				err := client.DeleteARQs(t.Context(), []string{arq1})
				if deleteErr := new(cyborgclient.DeleteError); test.gone != (err == nil) || !test.gone && !errors.As(err, &deleteErr) {
					t.Errorf("%d, then 404 with %q: got %v; want it gone: %v", first, test.body, err, test.gone)
				}
				if _, err := client.GetARQ(t.Context(), arq1); !errors.Is(err, cyborgclient.ErrNotFound) || cyborgclient.IsMissing(err) != test.gone {
					t.Errorf("404 with %q: got %v; want it missing: %v", test.body, err, test.gone)
				}
			})
		}
	}
}

func TestDeleteARQsSendsManyInBatches(t *testing.T) {
	t.Parallel()
	server := &store{arqs: map[string]bool{}}
	var all []string
	for i := range 250 {
		arq := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		all = append(all, arq)
		server.arqs[arq] = true
	}
	client, transport := newClient(t, server.ServeHTTP)
	if err := client.DeleteARQs(t.Context(), all); err != nil || len(server.arqs) != 0 {
		t.Errorf("err = %v, %d left", err, len(server.arqs))
	}
	if len(transport.requests()) != 3 {
		t.Errorf("%d requests, want 3", len(transport.requests()))
	}
	for _, line := range transport.lines() {
		if len(line) > 8000 {
			t.Errorf("a request line of %d bytes", len(line))
		}
	}
}

func TestDeleteARQsNamesAllWhenCyborgIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := newClient(t, nil, cyborgclient.WithTransport(transportFunc(func(*http.Request) (*http.Response, error) {
			return nil, io.EOF
		})))
		err := client.DeleteARQs(t.Context(), []string{arq1, arq2})
		var deleteErr *cyborgclient.DeleteError
		if !errors.As(err, &deleteErr) || len(deleteErr.Failed) != 2 || !errors.Is(err, cyborgclient.ErrUnavailable) {
			t.Errorf("err = %v", err)
		}
	})
}

// A list that ignores the instance, a proxy's perhaps, would have others' requests deleted.
func TestAListOfAnotherInstanceIsMalformed(t *testing.T) {
	t.Parallel()
	for _, of := range []string{server2, ""} {
		client, _ := newClient(t, fixed(200, `{"arqs": [{"uuid": "`+arq1+`", "instance_uuid": "`+of+`"}]}`))
		arqs, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: server1})
		if arqs != nil {
			t.Errorf("of %q: got %v", of, arqs)
		}
		wantIs(t, err, cyborgclient.ErrMalformed, arq1, server1, `"`+of+`"`)
	}
}
