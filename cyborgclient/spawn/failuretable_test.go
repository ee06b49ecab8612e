package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Nova's failure points, in the order of its flow. Each row injects a failure and checks the cleanup that Nova should
// do. checkPromise checks all services.
func TestFailureTable(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		run  func(*testing.T)
	}{
		{"profile", rowProfile},
		{"no candidates", rowNoCandidates},
		{"mapping missing", rowMappingMissing},
		{"build request deleted", rowBuildRequestDeleted},
		{"create fails", rowCreateFails},
		{"group out of range", rowGroupOutOfRange},
		{"port create fails", rowPortCreateFails},
		{"bind fails", rowBindFails},
		{"instance vanished", func(t *testing.T) {
			hookFails(t, "before the build on the compute host", spawn.StepHost, fmt.Errorf("%w: not in the database", spawn.ErrGone))
		}},
		{"pre claim abort", func(t *testing.T) {
			hookFails(t, "device tagging is not supported", spawn.StepHost, fmt.Errorf("%w: tagged devices", spawn.ErrAbort))
		}},
		{"resource claim fails", rowResourceClaimFails},
		{"wait fails", rowWaitFails},
		{"network fails", func(t *testing.T) {
			hookFails(t, "networks", spawn.StepPrepare, errors.New("failed to allocate the network(s), not rescheduling"))
		}},
		{"block device fails", func(t *testing.T) {
			hookFails(t, "block devices", spawn.StepPrepare, errors.New("failure prepping block device"))
		}},
		{"start fails", rowStartFails},
		{"destroy fails", rowDestroyFails},
		{"reschedule exhausted", rowRescheduleExhausted},
		{"reschedule succeeds", rowRescheduleSucceeds},
		{"deleted while building", rowDeletedWhileBuilding},
		{"delete", rowDelete},
		{"local delete", rowLocalDelete},
		{"delete fails", rowDeleteFails},
		{"unshelve fails", rowUnshelveFails},
		{"evacuate fails", rowEvacuateFails},
		{"shelve offload delete fails", rowShelveOffloadDeleteFails},
	}
	if len(rows) != 25 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

// bubble runs one case in virtual time.
func bubble(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, run)
	})
}

// failed checks that a run failed in a step with an error and cleaned up.
func (w *world) failed(t *testing.T, result *spawn.Result, err error, step spawn.Step, want error) {
	t.Helper()
	if failure := failureOf(t, err); failure.Step != step || want != nil && !errors.Is(err, want) {
		t.Errorf("got error %v, want %v in step %s", err, want, step)
	}
	if len(certainlyLeft(err)) > 0 {
		t.Errorf("the error names leftovers: %v", err)
	}
	w.cloud.Faults().Clear()
	w.checkPromise(t, result, err)
}

// failureOf returns the error of a spawn or of an operation, which must be one.
func failureOf(t *testing.T, err error) *spawn.Error {
	t.Helper()
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		t.Fatalf("got error %v, want an error of a spawn or of an operation", err)
	}
	return failure
}

// writes lists what the flow changed, in order, as "operation status".
func (w *world) writes() []string {
	short := strings.NewReplacer("accelerator.", "", "placement.", "")
	var list []string
	for _, r := range w.cloud.Requests() {
		own := r.Service == "accelerator" || r.Service == "placement"
		if r.Method != http.MethodGet && own && !strings.HasPrefix(string(r.Operation), "placement.resource") {
			list = append(list, short.Replace(string(r.Operation))+" "+http.StatusText(r.Status))
		}
	}
	return list
}

func (w *world) checkWrites(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// The writes of one spawn up to the bind, and the writes that undo them.
const (
	claimed    = "allocations.put No Content"
	unclaimed  = "allocations.put No Content" // with the generation that was read
	created    = "arq.create Created"
	boundOK    = "arq.bind Accepted"
	arqDeleted = "arq.delete No Content"
)

// rewrite is a transport that modifies responses.
type rewrite struct {
	next   http.RoundTripper
	method string
	path   string
	change func(n int, body []byte) []byte
	n      int
}

// RoundTrip implements http.RoundTripper.
func (r *rewrite) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.next.RoundTrip(req)
	if err != nil || req.Method != r.method || !strings.HasSuffix(req.URL.Path, r.path) {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	r.n++
	body = r.change(r.n, body)
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Del("Content-Length")
	return res, nil
}

// through puts a transport between the flow and the cloud.
func (w *world) through(t *testing.T, config spawn.Config, wrap func(http.RoundTripper) http.RoundTripper) {
	t.Helper()
	i := &interceptor{n: -1}
	w.intercept(t, i, config)
	i.next = wrap(i.next)
}

// replacing is a transport that replaces a text in the responses to a method and a path.
func replacing(method, path, before, after string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &rewrite{next: next, method: method, path: path, change: func(_ int, body []byte) []byte {
			return bytes.ReplaceAll(body, []byte(before), []byte(after))
		}}
	}
}

// failedSpawn is a spawn that fails in a step with an error, and cleans up.
type failedSpawn struct {
	opts    worldOpts
	through func(http.RoundTripper) http.RoundTripper // a transport between the flow and the cloud
	rule    fault.Rule
	start   error // of every guest
	request spawn.Request
	step    spawn.Step
	want    error  // nil: any
	text    string // of the error
	writes  []string
}

func (f failedSpawn) check(t *testing.T) {
	w := newWorld(t, f.opts)
	if f.through != nil {
		w.through(t, spawn.Config{}, f.through)
	}
	if f.rule.Operation != "" {
		w.fail(t, f.rule)
	}
	if f.start != nil {
		w.flow = w.flow.On(&startedGuests{w: w, failing: 9, err: f.start})
	}
	result, err := w.flow.Run(t.Context(), f.request)
	w.failed(t, result, err, f.step, f.want)
	if !strings.Contains(err.Error(), f.text) {
		t.Errorf("got error %v, want %s", err, f.text)
	}
	w.checkWrites(t, f.writes...)
}

func rowProfile(t *testing.T) {
	bubble(t, "missing", failedSpawn{request: request("nope"), step: spawn.StepProfile, want: spawn.ErrProfile}.check)
	bubble(t, "several", failedSpawn{
		through: func(next http.RoundTripper) http.RoundTripper {
			return &rewrite{next: next, method: http.MethodGet, path: "/device_profiles", change: func(_ int, body []byte) []byte {
				list := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(body), []byte(`{"device_profiles":[`)), []byte("]}"))
				return []byte(`{"device_profiles":[` + string(list) + "," + string(list) + "]}")
			}}
		},
		request: request("gpu"), step: spawn.StepProfile, want: spawn.ErrProfile, text: `Cyborg lists 2 device profiles "gpu"`,
	}.check)
	bubble(t, "Cyborg is down", failedSpawn{
		rule: fault.Rule{Operation: fault.DeviceProfileList, Action: fault.Drop, Times: -1}, request: request("gpu"),
		step: spawn.StepProfile, want: cyborgclient.ErrUnavailable,
	}.check)
}

func rowNoCandidates(t *testing.T) {
	large := request("gpu")
	large.Flavor.MemoryMB = 1 << 30
	bubble(t, "no host has room", failedSpawn{request: large, step: spawn.StepCandidates, want: spawn.ErrNoCandidates}.check)
	bubble(t, "the claim is refused on every host", failedSpawn{
		rule: fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 409, Times: -1}, request: request("gpu"),
		step: spawn.StepClaim, want: spawn.ErrClaim, writes: []string{"allocations.put Conflict", "allocations.put Conflict"},
	}.check)
}

func rowMappingMissing(t *testing.T) {
	bubble(t, "the candidate maps no provider for the group", failedSpawn{
		through: replacing(http.MethodGet, "/allocation_candidates", `"device_profile_0"`, `"other_0"`), request: request("gpu"),
		step: spawn.StepClaim, want: matching.ErrNoMapping, writes: []string{claimed, unclaimed},
	}.check)
}

func rowBuildRequestDeleted(t *testing.T) {
	bubble(t, "the user gives up after the claim", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.intercept(t, &interceptor{n: 5, after: func(*http.Request) { cancel() }}, spawn.Config{})
		result, err := w.flow.Run(ctx, request("gpu"))
		w.failed(t, result, err, spawn.StepCreate, context.Canceled)
		w.checkWrites(t, claimed, unclaimed)
	})
}

func rowCreateFails(t *testing.T) {
	bubble(t, "refused", failedSpawn{
		rule: fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 400, Times: -1}, request: request("gpu"),
		step: spawn.StepCreate, want: cyborgclient.ErrInvalid, writes: []string{claimed, "arq.create Bad Request", unclaimed},
	}.check)
	failed := "arq.create Internal Server Error"
	bubble(t, "Cyborg fails for every host", failedSpawn{
		rule: fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 500, Times: -1}, request: request("gpu"),
		step: spawn.StepCreate, want: cyborgclient.ErrUnavailable, writes: []string{claimed, failed, claimed, failed, unclaimed},
	}.check)
	bubble(t, "an empty list", failedSpawn{
		through: func(next http.RoundTripper) http.RoundTripper { // as if Cyborg had created nothing
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/accelerator_requests") {
					return next.RoundTrip(req)
				}
				return answer(req, http.StatusCreated, `{"arqs": []}`), nil
			})
		},
		request: request("gpu"), step: spawn.StepCreate, writes: []string{claimed, unclaimed},
	}.check)
}

func rowGroupOutOfRange(t *testing.T) {
	bubble(t, "an ARQ of a group that the profile lacks", failedSpawn{
		through: replacing(http.MethodPost, "/accelerator_requests", `"device_profile_group_id":2`, `"device_profile_group_id":7`), request: request("mixed"),
		step: spawn.StepMatch, want: matching.ErrGroupIndex, writes: []string{claimed, created, arqDeleted, unclaimed},
	}.check)
}

// Ports of the port scenarios.
const (
	port1 = "7970ec1f-7ce0-4293-a2a3-92cbce8048b4"
	port2 = "7970ec1f-7ce0-4293-a2a3-92cbce8048b5"
)

func acceleratedPort(id, profile, mac string) spawn.Port {
	return spawn.Port{
		Port: requestspec.Port{UUID: id, VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: profile},
		MAC:  mac, BindingProfile: map[string]any{"trusted": true},
	}
}

// portModel has a network card of two functions on every host.
func portModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	addPorts(&model)
	return &model
}

func addPorts(model *simcloud.Model) {
	for i := range model.Hosts {
		host := &model.Hosts[i]
		control := driver.Info{"domain": "0000", "bus": "0d", "device": "00", "function": "0"}
		nic := driver.Device{
			Type: driver.TypeNIC, Vendor: "8086", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: control},
			Deployables: []driver.Deployable{{
				Name: host.Name + "_0000:0d:00.0", NumAccelerators: 2, DriverName: "intel",
				Class: "CUSTOM_NIC", Traits: []string{"CUSTOM_NIC_X710"},
			}},
		}
		for _, function := range []string{"1", "2"} {
			nic.Deployables[0].AttachHandles = append(nic.Deployables[0].AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: driver.Info{
				"domain": "0000", "bus": "0d", "device": "0", "function": function, "physical_network": "PHYNET1",
			}})
		}
		host.Devices = append(host.Devices, nic)
	}
	model.DeviceProfiles = append(model.DeviceProfiles,
		simcloud.DeviceProfile{Name: "nic", Groups: []map[string]string{{"resources:CUSTOM_NIC": "1", "trait:CUSTOM_NIC_X710": "required"}}},
		simcloud.DeviceProfile{Name: "nic2", Groups: []map[string]string{{"resources:CUSTOM_NIC": "2"}}})
}

// portRequest wants a GPU by the flavor and a function of a card by a port.
func portRequest() spawn.Request {
	req := request("gpu")
	req.Ports = []spawn.Port{acceleratedPort(port1, "nic", "52:54:00:1e:59:c3")}
	return req
}

// The trace counts what was composed.
func TestTheTraceCountsDevicesAndPorts(t *testing.T) {
	t.Parallel()
	for want, req := range map[string]spawn.Request{
		"1 hostdev, 0 handles without hardware, 1 port": portRequest(),
		"4 hostdevs, 0 handles without hardware":        request("mixed"),
		"0 hostdevs, 1 handle without hardware":         request("fake"),
	} {
		w := newWorld(t, worldOpts{model: portModel()})
		result, err := w.flow.Run(t.Context(), req)
		settled(t, err)
		i := slices.IndexFunc(result.Trace, func(s spawn.StepTrace) bool { return s.Step == spawn.StepCompose })
		if got := result.Trace[i].Decision; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func rowPortCreateFails(t *testing.T) {
	bubble(t, "the second POST fails", failedSpawn{
		opts: worldOpts{model: portModel()}, rule: fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 400, Nth: 2}, request: portRequest(),
		step: spawn.StepCreate, want: cyborgclient.ErrInvalid, writes: []string{claimed, created, "arq.create Bad Request", arqDeleted, unclaimed},
	}.check)
	bubble(t, "the port's profile gives two", failedSpawn{ // the profile changed since it was read
		opts: worldOpts{model: portModel()}, through: func(next http.RoundTripper) http.RoundTripper { return renamed{next, `"nic"`, `"nic2"`} }, request: portRequest(),
		step: spawn.StepCreate, text: "the port does not support multiple devices", writes: []string{claimed, created, created, arqDeleted, unclaimed},
	}.check)
}

// renamed changes the body of creates.
type renamed struct {
	next     http.RoundTripper
	from, to string
}

// RoundTrip implements http.RoundTripper.
func (r renamed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/accelerator_requests") {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.ReplaceAll(body, []byte(r.from), []byte(r.to))
		req = req.Clone(req.Context())
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.next.RoundTrip(req)
}

func killName(rule fault.Rule) string {
	when := rule.When
	if when == "" {
		when = fault.Before
	}
	if rule.Applied() {
		when = fault.After
	}
	return fmt.Sprintf("%s#%d/%s_%s_%d", rule.Operation, rule.Nth, rule.Action, when, rule.Status)
}

func rowBindFails(t *testing.T) {
	for _, kind := range []fault.Rule{
		{Action: fault.Status, Status: 500}, {Action: fault.Status, Status: 503, When: fault.After},
		{Action: fault.Status, Status: 404}, {Action: fault.Drop}, {Action: fault.Drop, When: fault.After}, {Action: fault.Truncate},
	} {
		kind.Operation, kind.Times = fault.ARQBind, -1
		bubble(t, killName(kind), func(t *testing.T) {
			w := newWorld(t, worldOpts{})
			w.fail(t, kind)
			result, err := w.flow.Run(t.Context(), request("mixed"))
			if kind.Action == fault.Truncate && err == nil { // the answer has no body to cut
				w.checkPromise(t, result, err)
				return
			}
			w.failed(t, result, err, spawn.StepBind, nil)
			if binds := slices.DeleteFunc(w.writes(), func(s string) bool { return !strings.HasPrefix(s, "arq.bind") }); len(binds) != 2 {
				t.Errorf("got binds %v, want one on each host", binds)
			}
		})
	}
	bubble(t, "a refused bind is not tried on another host", failedSpawn{
		rule: fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 403}, request: request("gpu"),
		step: spawn.StepBind, want: cyborgclient.ErrForbidden, writes: []string{claimed, created, "arq.bind Forbidden", arqDeleted, unclaimed},
	}.check)
	bubble(t, "one ARQ no longer exists, the others are deleted", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		i := &interceptor{n: 7, before: func(r *http.Request) {
			if err := w.cyborg.DeleteARQs(r.Context(), []string{w.cloud.Cyborg.ARQs()[0].UUID}); err != nil {
				t.Error(err)
			}
		}}
		w.intercept(t, i, spawn.Config{MaxAttempts: 1}) // profile, candidates, provider, allocations, PUT, POST, PATCH
		result, err := w.flow.Run(t.Context(), request("mixed"))
		w.failed(t, result, err, spawn.StepBind, cyborgclient.ErrNotFound)
	})
}
