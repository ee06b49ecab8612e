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
		{"instance vanished", rowInstanceVanished},
		{"pre claim abort", rowPreClaimAbort},
		{"resource claim fails", rowResourceClaimFails},
		{"wait fails", rowWaitFails},
		{"network fails", rowNetworkFails},
		{"block device fails", rowBlockDeviceFails},
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
	var failure *spawn.Error
	if !errors.As(err, &failure) || failure.Step != step || want != nil && !errors.Is(err, want) {
		t.Errorf("got error %v, want %v in step %s", err, want, step)
	}
	if len(certainlyLeft(err)) > 0 {
		t.Errorf("the error names leftovers: %v", err)
	}
	w.cloud.Faults().Clear()
	w.checkPromise(t, result, err)
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

func rowProfile(t *testing.T) {
	bubble(t, "missing", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		result, err := w.flow.Run(t.Context(), request("nope"))
		w.failed(t, result, err, spawn.StepProfile, spawn.ErrProfile)
		w.checkWrites(t)
	})
	bubble(t, "several", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return &rewrite{next: next, method: http.MethodGet, path: "/device_profiles", change: func(_ int, body []byte) []byte {
				list := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(body), []byte(`{"device_profiles":[`)), []byte("]}"))
				return []byte(`{"device_profiles":[` + string(list) + "," + string(list) + "]}")
			}}
		})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepProfile, spawn.ErrProfile)
		if err != nil && !strings.Contains(err.Error(), "Cyborg lists 2 device profiles \"gpu\"") {
			t.Errorf("got error %v", err)
		}
		w.checkWrites(t)
	})
	bubble(t, "Cyborg is down", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.DeviceProfileList, Action: fault.Drop, Times: -1})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepProfile, cyborgclient.ErrUnavailable)
		w.checkWrites(t)
	})
}

func rowNoCandidates(t *testing.T) {
	bubble(t, "no host has room", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		req := request("gpu")
		req.Flavor.MemoryMB = 1 << 30
		result, err := w.flow.Run(t.Context(), req)
		w.failed(t, result, err, spawn.StepCandidates, spawn.ErrNoCandidates)
		w.checkWrites(t)
	})
	bubble(t, "the claim is refused on every host", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 409, Times: -1})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepClaim, spawn.ErrClaim)
		w.checkWrites(t, "allocations.put Conflict", "allocations.put Conflict")
	})
}

func rowMappingMissing(t *testing.T) {
	bubble(t, "the candidate maps no provider for the group", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return &rewrite{next: next, method: http.MethodGet, path: "/allocation_candidates", change: func(_ int, body []byte) []byte {
				return bytes.ReplaceAll(body, []byte(`"device_profile_0"`), []byte(`"other_0"`))
			}}
		})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepClaim, matching.ErrNoMapping)
		w.checkWrites(t, claimed, unclaimed)
	})
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
	bubble(t, "refused", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 400, Times: -1})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepCreate, cyborgclient.ErrInvalid)
		w.checkWrites(t, claimed, "arq.create Bad Request", unclaimed)
	})
	bubble(t, "Cyborg fails for every host", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 500, Times: -1})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepCreate, cyborgclient.ErrUnavailable)
		failed := "arq.create Internal Server Error"
		w.checkWrites(t, claimed, failed, claimed, failed, unclaimed)
	})
	bubble(t, "an empty list", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return emptyCreate{next}
		})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepCreate, nil)
		w.checkWrites(t, claimed, unclaimed)
	})
}

// emptyCreate answers a create as if Cyborg had created nothing.
type emptyCreate struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e emptyCreate) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/accelerator_requests") {
		return e.next.RoundTrip(req)
	}
	return answer(req, http.StatusCreated, `{"arqs": []}`), nil
}

func rowGroupOutOfRange(t *testing.T) {
	bubble(t, "an ARQ of a group that the profile lacks", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return &rewrite{next: next, method: http.MethodPost, path: "/accelerator_requests", change: func(_ int, body []byte) []byte {
				return bytes.ReplaceAll(body, []byte(`"device_profile_group_id":2`), []byte(`"device_profile_group_id":7`))
			}}
		})
		result, err := w.flow.Run(t.Context(), request("mixed"))
		w.failed(t, result, err, spawn.StepMatch, matching.ErrGroupIndex)
		w.checkWrites(t, claimed, created, arqDeleted, unclaimed)
	})
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
	bubble(t, "the second POST fails", func(t *testing.T) {
		w := newWorld(t, worldOpts{model: portModel()})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 400, Nth: 2})
		result, err := w.flow.Run(t.Context(), portRequest())
		w.failed(t, result, err, spawn.StepCreate, cyborgclient.ErrInvalid)
		w.checkWrites(t, claimed, created, "arq.create Bad Request", arqDeleted, unclaimed)
	})
	bubble(t, "the port's profile gives two", func(t *testing.T) {
		w := newWorld(t, worldOpts{model: portModel()})
		w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
			return renamed{next, `"nic"`, `"nic2"`} // the profile changed since it was read
		})
		result, err := w.flow.Run(t.Context(), portRequest())
		w.failed(t, result, err, spawn.StepCreate, nil)
		if err != nil && !strings.Contains(err.Error(), "the port does not support multiple devices") {
			t.Errorf("got error %v", err)
		}
		w.checkWrites(t, claimed, created, created, arqDeleted, unclaimed)
	})
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
	bubble(t, "a refused bind is not tried on another host", func(t *testing.T) {
		w := newWorld(t, worldOpts{})
		w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 403})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		w.failed(t, result, err, spawn.StepBind, cyborgclient.ErrForbidden)
		w.checkWrites(t, claimed, created, "arq.bind Forbidden", arqDeleted, unclaimed)
	})
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
