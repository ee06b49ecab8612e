package fakecyborg_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// told is a TB that records its messages.
type told struct {
	sim.TB
	text []string
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, args ...any) {
	t.text = append(t.text, fmt.Sprintf(format, args...))
}

func TestDirectAPICoversALifeCycle(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := fakeWorld(t, fakecyborg.Config{UpstreamQuirks: quirks})
		s, ctx := w.server, t.Context()
		w.fakeProfile("p", 2)
		arqs, err := s.CreateARQs("p", "tenant")
		if err != nil || len(arqs) != 2 {
			t.Fatal(arqs, err)
		}
		bind := func(i int, instance string) error {
			return s.Bind(ctx, fakecyborg.Binding{ARQ: arqs[i].UUID, Host: "cn0", Provider: fakeProvider(), Instance: instance})
		}
		settled(t, bind(0, instanceA))
		s.CheckBound(t, instanceA, 1)
		s.CheckHandlesInUse(t, fakeProvider(), 1)
		class := s.Deployables()[0].ResourceClass()
		if diff := cmp.Diff(map[[2]string]int{{fakeProvider(), class}: 1}, s.UnitsInUse("cn0", "cn9")); diff != "" || len(s.UnitsInUse("cn9")) > 0 {
			t.Errorf("units in use (-want +got):\n%s", diff)
		}
		if got := s.ARQs()[0].ProjectID; got != "tenant" {
			t.Errorf("project %s after the bind", got)
		}
		if err := bind(1, instanceA); err == nil || !strings.Contains(err.Error(), "already has accelerator requests") {
			t.Errorf("second bind: %v", err)
		}
		settled(t, s.Unbind(ctx, arqs[0].UUID))
		s.CheckState(t, arqs[0].UUID, fakecyborg.StateUnbound)
		if err := s.DeleteDeviceProfile("p"); err == nil {
			t.Error("a profile in use was deleted")
		}
		settled(t, s.DeleteARQs(ctx, arqs[0].UUID, arqs[1].UUID))
		if err := s.DeleteDeviceProfile("p"); err != nil || s.DeleteDeviceProfile("p") == nil {
			t.Errorf("delete the profile twice: %v", err)
		}
		if err := s.DeleteARQs(ctx, arqs[0].UUID); err == nil {
			t.Error("deleted twice")
		}
		device := s.Devices()[0].UUID
		for _, status := range []string{fakecyborg.StatusMaintaining, fakecyborg.StatusEnabled} {
			if err := s.SetDeviceStatus(ctx, device, status); err != nil || s.Devices()[0].Status != status {
				t.Errorf("%s: %v", status, err)
			}
		}
		for _, err := range []error{
			s.SetDeviceStatus(ctx, device, "broken"), s.SetDeviceStatus(ctx, unknownID, fakecyborg.StatusEnabled),
			s.ProgramDeployable(ctx, unknownID, unknownID), s.ProgramDeployable(ctx, s.Deployables()[0].UUID, unknownID),
		} {
			if err == nil {
				t.Error("bad input was taken")
			}
		}
	}
}

func TestRequestsAreSearched(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	s := w.server
	w.fakeProfile("p", 2)
	w.fakeProfile("other", 1)
	for _, profile := range []string{"p", "other", "p"} {
		_, err := s.CreateARQs(profile, "tenant")
		settled(t, err)
	}
	all := s.ARQs()
	settled(t, s.Bind(t.Context(), fakecyborg.Binding{ARQ: all[3].UUID, Host: "cn0", Provider: fakeProvider(), Instance: instanceA}))
	all = s.ARQs()
	for _, tt := range []struct {
		text        string
		skip, limit int
		want        []fakecyborg.ARQ
		matching    int
	}{
		{"", 0, 9, all, 5},
		{"", 1, 3, all[1:4], 5},
		{"", 5, 3, nil, 5},
		{"", 0, 0, nil, 5},
		{"bound", 0, 9, all[3:4], 1},
		{"Initial", 2, 1, all[2:3], 4},
		{"othe", 0, 9, all[2:3], 1},
		{instanceA[2:], 0, 9, all[3:4], 1},
		{all[4].UUID, 0, 9, all[4:], 1},
		{"cn0", 0, 9, all[3:4], 1},
		{"none", 0, 9, nil, 0},
	} {
		want := fakecyborg.ARQPage{ARQs: tt.want, Matching: tt.matching, States: map[fakecyborg.State]int{fakecyborg.StateInitial: 4, fakecyborg.StateBound: 1}}
		if diff := cmp.Diff(want, s.SearchARQs(tt.text, tt.skip, tt.limit)); diff != "" {
			t.Errorf("%q, %d, %d (-want +got):\n%s", tt.text, tt.skip, tt.limit, diff)
		}
	}
}

func TestDirectProgramming(t *testing.T) {
	t.Parallel()
	w, _ := fpgaWorld(t, fakecyborg.Config{}, `"accel:x":"y"`)
	w.server.CheckBitstream(t, fpgaProvider(), "")
	settled(t, w.server.ProgramDeployable(t.Context(), w.server.Deployables()[0].UUID, imageOne))
	w.server.CheckBitstream(t, fpgaProvider(), imageOne)
}

func TestStatesCanBeSet(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	arq := oneARQ(w)
	refused := func(states ...fakecyborg.State) {
		t.Helper()
		for _, state := range states {
			before := w.server.ARQs()[0].State
			if err := w.server.SetARQState(arq, state); err == nil || !strings.Contains(err.Error(), arq) {
				t.Errorf("%s: %v", state, err)
			}
			w.server.CheckState(t, arq, before)
		}
	}
	set := func(state fakecyborg.State) {
		t.Helper()
		settled(t, w.server.SetARQState(arq, state))
		w.server.CheckState(t, arq, state)
	}
	refused(fakecyborg.StateBound, fakecyborg.StateProvisioning, fakecyborg.StateUnknown, "bound", "")
	for _, state := range []fakecyborg.State{fakecyborg.StateDeleting, fakecyborg.StateUnbindFailed, fakecyborg.StateBindFailed, fakecyborg.StateUnbound} {
		set(state)
	}
	w.want(w.patch(binding(instanceA, fakeProvider(), arq)), 202, "")
	refused(fakecyborg.StateInitial, fakecyborg.StateUnbound)
	set(fakecyborg.StateBindStarted)
	w.want(w.get("/v2/accelerator_requests?bind_state=resolved&instance="+instanceA), 423, "")
	set(fakecyborg.StateProvisioning)
	w.want(w.get("/v2/accelerator_requests?bind_state=resolved&instance="+instanceA), 423, "")
	set(fakecyborg.StateBound)
	w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
	w.server.CheckHandlesInUse(t, fakeProvider(), 0)
	if err := w.server.SetARQState(arq, fakecyborg.StateInitial); err == nil {
		t.Error("the state of a deleted request was set")
	}
}

func TestFailedChecksPrintTheTree(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	w.fakeProfile("p", 2)
	arqs := w.arqs("p")
	w.want(w.patch(binding(instanceA, fakeProvider(), arqs[0])), 202, "")
	var tb told
	w.server.CheckARQs(&tb, instanceA, 2)
	w.server.CheckBound(&tb, instanceA, 2)
	w.server.CheckState(&tb, arqs[1], fakecyborg.StateBound)
	w.server.CheckState(&tb, unknownID, fakecyborg.StateBound)
	w.server.CheckHandlesInUse(&tb, fakeProvider(), 0)
	w.server.CheckBitstream(&tb, fakeProvider(), imageOne)
	w.server.CheckBitstream(&tb, unknownID, imageOne)
	if len(tb.text) != 7 {
		t.Fatalf("%d of 7 checks failed", len(tb.text))
	}
	for _, text := range tb.text {
		for _, want := range []string{
			"host cn0\n", "  device FPGA ", "    deployable cn0_FakeDevice", "15 of 16 handles free",
			"      TEST_PCI handle ", "ARQ " + arqs[0] + " Bound", "without an attach handle\n  ARQ " + arqs[1] + " Initial",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in:\n%s", want, text)
			}
		}
	}
}

func TestAsyncBindOfEveryHandleType(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 3 * time.Second} {
		for kind, c := range bindCases() {
			t.Run(fmt.Sprint(kind, delay), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, _ := c.world(t, fakecyborg.Config{AsyncBind: true, BindDelay: delay})
					w.profile("p", c.profile)
					arq := w.arqs("p")[0]
					w.want(w.patch(binding(instanceA, c.provider, arq)), 202, "")
					if delay > 0 {
						w.server.CheckState(t, arq, fakecyborg.StateBindStarted)
						w.checkPosts(0)
					}
					elapse(delay)
					w.server.CheckBound(t, instanceA, 1)
					w.checkPosts(1)
				})
			})
		}
	}
}

func TestPatchCanAnswerTheRequests(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{AnswerPatch: true})
	w.fakeProfile("p", 2)
	arqs := w.arqs("p")
	r := w.patch(binding(instanceA, fakeProvider(), arqs[1], arqs[0]))
	w.want(r, 202, "")
	list := r.list(t, "arqs")
	if len(list) != 2 || list[0]["uuid"] != arqs[1] || list[1]["uuid"] != arqs[0] || list[0]["state"] != "Bound" || list[0]["attach_handle_type"] != "TEST_PCI" {
		t.Errorf("answered %s", r.text)
	}
	w.want(w.patch(binding(instanceB, fakeProvider(), arqs[0])), 409, "")
}

func TestMemoryClassesMakeNoRequests(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := fakeWorld(t, fakecyborg.Config{UpstreamQuirks: quirks})
		w.profile("m", `[{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR":"4","resources:FPGA":"1"},{"resources:CUSTOM_ACCELERATOR_MEMORY_HBM":"2"}]`)
		arqs := w.arqs("m")
		if got, want := len(arqs), either(quirks, 1, 7); got != want {
			t.Errorf("quirks %t: %d requests, want %d", quirks, got, want)
		}
		w.want(w.patch(binding(instanceA, fakeProvider(), arqs[0])), 202, "")
		r := w.postProfile(`[{"name":"only","groups":[{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR":"4"}]}]`)
		w.want(r, either(quirks, 400, 201), "")
		r = w.postProfile(`[{"name":"many","groups":[{"resources:CUSTOM_ACCELERATOR_MEMORY_DDR":"1024","resources:FPGA":"1"}]}]`)
		w.want(r, either(quirks, 201, 400), either(quirks, "", "Device profile asks for more than 1024 accelerators"))
	}
}

func TestOldReleaseDeletesTheKnownOnes(t *testing.T) {
	t.Parallel()
	for _, release := range []fakecyborg.Release{fakecyborg.Release20262, fakecyborg.ReleaseZed} {
		w := fakeWorld(t, fakecyborg.Config{Release: release})
		arq := oneARQ(w)
		zed := release == fakecyborg.ReleaseZed
		w.want(w.delete("/v2/accelerator_requests?arqs="+unknownID+","+arq+",x"), 404,
			either(zed, "ExtArq not found with uuid="+unknownID, "ARQ not found with uuids ['"+unknownID+"', 'x']"))
		if got, want := len(w.server.ARQs()), either(zed, 1, 0); got != want {
			t.Errorf("%s: %d requests left, want %d", release, got, want)
		}
	}
}

// Upstream answers a creation from its memory and anything else from its database, which keeps whole seconds.
func TestOnlyTheAnswerToACreationHasMicroseconds(t *testing.T) {
	t.Parallel()
	for at, want := range map[time.Time]string{
		time.Date(2026, 11, 20, 21, 18, 35, 1566789, time.UTC): "2026-11-20T21:18:35.001566+00:00",
		time.Date(2026, 11, 20, 21, 18, 35, 999, time.UTC):     "2026-11-20T21:18:35+00:00",
	} {
		w := newWorld(t, fakecyborg.Config{}, []driver.Driver{fake.New("cn0")}, fakecyborg.WithClock(sim.NewManualClock(at)))
		made := w.send(sent{method: "POST", path: "/v2/attributes", body: `{"deployable_id": 1, "key": "note", "value": "x"}`}).object(t)
		if made["created_at"] != want {
			t.Errorf("created at %s: %v, want %s", at, made["created_at"], want)
		}
		if got := w.get("/v2/attributes/" + made["uuid"].(string)).object(t); got["created_at"] != "2026-11-20T21:18:35+00:00" {
			t.Errorf("later: %v", got)
		}
	}
}

func TestAttributesAreMadeWithoutHTTP(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, fakecyborg.Config{})
	deployable := w.server.Deployables()[0].UUID
	before := w.server.Attributes()
	made, err := w.server.CreateAttribute(deployable, "rack", "r7")
	settled(t, err)
	want := fakecyborg.StoredAttribute{UUID: made.UUID, DeployableUUID: deployable, Key: "rack", Value: "r7", ByUser: true}
	if diff := cmp.Diff(append(before, want), w.server.Attributes()); diff != "" {
		t.Errorf("after create (-want +got):\n%s", diff)
	}
	w.want(w.get("/v2/attributes/"+made.UUID), 200, "")
	settled(t, w.server.DeleteAttribute(made.UUID))
	if diff := cmp.Diff(before, w.server.Attributes()); diff != "" {
		t.Errorf("after delete (-want +got):\n%s", diff)
	}
	if err := w.server.DeleteAttribute(made.UUID); err == nil || !strings.Contains(err.Error(), made.UUID) {
		t.Errorf("deleted twice: %v", err)
	}
	for _, bad := range [][3]string{{unknownID, "k", "v"}, {deployable, "", "v"}, {deployable, strings.Repeat("k", 256), "v"}} {
		if _, err := w.server.CreateAttribute(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%.60v: no error", bad)
		}
	}
}
