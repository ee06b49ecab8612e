package fakecyborg_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// wire is the connection between conductor and Placement: it keeps what goes
// over it and can be made to fail.
type wire struct {
	next  http.RoundTripper
	calls []string
	hook  func(method, path string) (status int) // 0: let it pass
	after func(method, path string) error        // once it was done; an error is a lost answer
}

func (c *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	version := strings.TrimPrefix(req.Header.Get("OpenStack-API-Version"), "placement ")
	path := strings.TrimPrefix(req.URL.RequestURI(), "/placement")
	c.calls = append(c.calls, strings.TrimSpace(req.Method+" "+path+" "+version))
	if req.Header.Get("User-Agent") != "cyborg-conductor" || req.Header.Get("X-Auth-Token") != "admin" {
		return nil, fmt.Errorf("unexpected headers: %v", req.Header)
	}
	if c.hook != nil {
		if status := c.hook(req.Method, path); status != 0 {
			return failure(req, status), nil
		}
	}
	res, err := c.next.RoundTrip(req)
	if err != nil || c.after == nil {
		return res, err
	}
	err = c.after(req.Method, path)
	if err == nil {
		return res, nil
	}
	res.Body.Close()
	var status answered
	if errors.As(err, &status) {
		return failure(req, int(status)), nil
	}
	return nil, err
}

// answered is an error status for a request that is applied anyway.
type answered int

func (a answered) Error() string { return fmt.Sprint(int(a)) }

func failure(req *http.Request, status int) *http.Response {
	body := fmt.Sprintf(`{"errors":[{"status":%d,"title":"x","detail":"made to fail","code":"test.made"}]}`, status)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: req, Header: http.Header{}}
}

// take returns the calls since the last time.
func (c *wire) take() []string {
	calls := c.calls
	c.calls = nil
	return calls
}

// reportWorld is a Cyborg with one host and a Placement that knows the host.
type reportWorld struct {
	t         *testing.T
	cyborg    *fakecyborg.Server
	placement *placementsim.Server
	wire      *wire
	hardware  *hardware
	root      string
}

func newReportWorld(t *testing.T, devices ...driver.Device) *reportWorld {
	t.Helper()
	return newReportWorldOf(t, fakecyborg.Config{}, devices...)
}

// newReportWorldOf is newReportWorld with another Cyborg.
func newReportWorldOf(t *testing.T, cfg fakecyborg.Config, devices ...driver.Device) *reportWorld {
	t.Helper()
	placement := newPlacement(t)
	root := placement.ResourceProviders()[0].UUID
	return newReportWorldOn(t, &reportWorld{placement: placement, root: root, hardware: newHardware("test", devices...)}, cfg)
}

// newReportWorldOn starts a Cyborg for the Placement and the hardware of another
// world.
func newReportWorldOn(t *testing.T, other *reportWorld, cfg fakecyborg.Config, opts ...fakecyborg.Option) *reportWorld {
	t.Helper()
	w := &reportWorld{
		t: t, placement: other.placement, root: other.root, hardware: other.hardware,
		wire: &wire{next: simhttp.NewTransport(other.placement)},
	}
	w.cyborg = newServer(t, cfg, append(opts, w.overWire())...)
	settled(t, w.cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{w.hardware}}))
	return w
}

// overWire has a server report to the Placement of the world.
func (w *reportWorld) overWire() fakecyborg.Option {
	return fakecyborg.WithPlacement(sim.Endpoint{
		URL: "http://placement.invalid/placement", Client: &http.Client{Transport: w.wire}, Token: adminToken,
	})
}

func (w *reportWorld) api() *world {
	return &world{t: w.t, server: w.cyborg, client: inProcess(w.cyborg)}
}

// create makes a provider in Placement, as others do.
func (w *reportWorld) create(p placementsim.ResourceProvider) placementsim.ResourceProvider {
	w.t.Helper()
	made, err := w.placement.CreateProvider(p)
	settled(w.t, err)
	return made
}

// claim gives an instance what the allocations say.
func (w *reportWorld) claim(instance string, allocations ...placementsim.Allocation) {
	w.t.Helper()
	settled(w.t, w.placement.Claim(placementsim.Claim{Consumer: instance, Project: "p", User: "u", Allocations: allocations}))
}

// lookup is the call by which a report that is not the first finds the host: with all that is below it, unless
// it is upstream's.
func (w *reportWorld) lookup(quirks bool) string {
	if quirks {
		return "GET /resource_providers?name=cn0"
	}
	return "GET /resource_providers?in_tree=" + w.root + " 1.14"
}

// lookups are the calls of a report without changes.
func (w *reportWorld) lookups(mode fakecyborg.PlacementMode) []string {
	if mode == fakecyborg.ModeFlat {
		return []string{w.lookup(false), "GET /resource_providers/" + w.root + "/inventories"}
	}
	return []string{w.lookup(false)}
}

func (w *reportWorld) report() {
	w.t.Helper()
	settled(w.t, w.cyborg.Report(w.t.Context()))
}

// provider is a card in Placement.
func (w *reportWorld) provider(bus string) (placementsim.ResourceProvider, bool) {
	p, err := w.placement.ResourceProvider(driver.ProviderUUID("cn0_0000:" + bus + ":00.0"))
	return p, err == nil
}

// bind makes a profile of one unit of the class and binds it to the card.
func (w *reportWorld) bind(class, bus string) string {
	w.t.Helper()
	api := w.api()
	api.profile("p", `[{"resources:`+class+`":"1"}]`)
	arq := api.arqs("p")[0]
	api.want(api.patch(binding(instanceA, driver.ProviderUUID("cn0_0000:"+bus+":00.0"), arq)), 202, "")
	return arq
}

// free deletes the requests of an instance.
func (w *reportWorld) free(instance string) {
	w.t.Helper()
	api := w.api()
	api.want(api.delete("/v2/accelerator_requests?instance="+instance), 204, "")
}

func TestHandlesAreAssignedOnceTheyAreInPlacement(t *testing.T) {
	t.Parallel()
	w := newReportWorld(t, gpu("3b", "PGPU", nil, "0"))
	api := w.api()
	api.profile("early", `[{"resources:PGPU":"1"}]`)
	arq := api.arqs("early")[0]
	tried := false
	w.wire.hook = func(method, _ string) int {
		if method != "POST" || tried {
			return 0
		}
		tried = true
		api.want(api.patch(binding(instanceA, driver.ProviderUUID("cn0_0000:3b:00.0"), arq)), 404, "")
		return 500
	}
	if err := w.cyborg.Report(t.Context()); err == nil || !tried {
		t.Errorf("report: %v, bind tried %t", err, tried)
	}
	if got := len(w.cyborg.AttachHandles()); got != 0 {
		t.Errorf("%d handles left", got)
	}
}

// testFirstReport: the first report makes upstream's calls, or those of them that are needed.
func testFirstReport(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks})
	d, err := fake.New("cn0").Discover(t.Context())
	settled(t, err)
	w.hardware.set(d.Devices...)
	w.report()
	rp := "/resource_providers/" + fakeProvider()
	want := either(quirks, []string{
		"GET /resource_providers?name=cn0",
		"GET /resource_providers?in_tree=" + w.root + "&required=OWNER_NOVA 1.18", // for Nova's own cards
		"POST /resource_providers 1.20",
		"PUT " + rp + "/inventories",
		"PUT " + rp + "/traits 1.6", // a trait is unknown
		"GET /traits/OWNER_CYBORG 1.6",
		"GET /traits/CUSTOM_FAKE_DEVICE 1.6",
		"PUT /traits/CUSTOM_FAKE_DEVICE 1.6",
		"PUT " + rp + "/traits 1.6",
	}, []string{
		"GET /resource_providers?name=cn0",
		"GET " + rp + " 1.6",
		"POST /resource_providers 1.20",
		"GET " + rp,
		"PUT " + rp + "/inventories",
		"GET /traits/CUSTOM_FAKE_DEVICE 1.6",
		"PUT /traits/CUSTOM_FAKE_DEVICE 1.6",
		"GET " + rp + "/traits 1.6",
		"GET " + rp,
		"PUT " + rp + "/traits 1.6",
	})
	if diff := cmp.Diff(want, w.wire.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	got, err := w.placement.ResourceProvider(fakeProvider())
	settled(t, err)
	if got.Name != "cn0_FakeDevice" || got.Parent != w.root || got.Inventories["FPGA"].Total != 16 || got.Inventories["FPGA"].MaxUnit != 16 ||
		!slices.Equal(got.Traits, either(quirks, []string{"OWNER_CYBORG", "CUSTOM_FAKE_DEVICE"}, []string{"CUSTOM_FAKE_DEVICE"})) {
		t.Errorf("provider: %+v", got)
	}
}

// testRepeatedReport: repeated report costs one call.
func testRepeatedReport(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", []string{"OWNER_CYBORG"}, "0"), gpu("5e", "CUSTOM_PCI", nil, "0"))
	w.report()
	w.wire.take()
	before := w.cyborg.AttachHandles()
	w.report()
	if diff := cmp.Diff([]string{w.lookup(quirks)}, w.wire.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.cyborg.AttachHandles()); diff != "" {
		t.Errorf("handles changed (-want +got):\n%s", diff)
	}
}

// testAgentStart: agent loop retries and then reports every minute.
func testAgentStart(t *testing.T, quirks bool) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []time.Duration
		start := time.Now()
		present := false
		stub := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Since(start))
			list := []map[string]string{}
			if present {
				list = append(list, map[string]string{"uuid": unknownID, "name": "cn0"})
			}
			simhttp.WriteJSON(w, http.StatusOK, map[string]any{"resource_providers": list})
		})
		server := newServer(t, fakecyborg.Config{UpstreamQuirks: quirks}, fakecyborg.WithAgentLoop(), withPlacement(stub))
		settled(t, server.AddHost(driver.Host{Name: "cn0"}))
		elapse(4 * time.Second)
		mu.Lock()
		present = true
		mu.Unlock()
		time.Sleep(100 * time.Second)
		server.Close()
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 67 * time.Second}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		at := len(calls)
		time.Sleep(time.Hour)
		if len(calls) != at {
			t.Error("the loop went on after Close")
		}
	})
}

// TestAgentsThatStartTogetherReportAFewAtATime, so that Placement does not get a connection of each.
func TestAgentsThatStartTogetherReportAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls, open, most := 0, 0, 0
		stub := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			calls, open = calls+1, open+1
			most = max(most, open)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			open--
			mu.Unlock()
			simhttp.WriteJSON(w, http.StatusOK, map[string]any{"resource_providers": []map[string]string{{"uuid": unknownID, "name": "any"}}})
		})
		server := newServer(t, fakecyborg.Config{}, fakecyborg.WithAgentLoop(), withPlacement(stub))
		for i := range 1000 {
			settled(t, server.AddHost(driver.Host{Name: fmt.Sprintf("cn%d", i)}))
		}
		elapse(50 * time.Second)
		if calls != 1000 || most > 64 {
			t.Errorf("%d of 1000 agents have reported, up to %d at a time", calls, most)
		}
	})
}

// testHostWithoutAProvider: missing parent stores nothing.
func testHostWithoutAProvider(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", nil, "0"))
	settled(t, w.placement.DeleteProvider(w.root))
	err := w.cyborg.Report(t.Context())
	var trouble *driver.ReportError
	if !errors.As(err, &trouble) || trouble.Host != "cn0" || trouble.Step != "find the host's provider" {
		t.Errorf("error: %v", err)
	}
	if got := w.cyborg.Devices(); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}
}

// inventoriesOf is what is read of a provider before its inventories are written: what others
// reserved, which upstream overwrites.
func inventoriesOf(quirks bool) string {
	if quirks {
		return ""
	}
	return "/inventories"
}

// testCapacityChange: capacity follows the card.
func testCapacityChange(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, vgpu("af", 2))
	w.report()
	w.wire.take()
	rp := "/resource_providers/" + driver.ProviderUUID("cn0_0000:af:00.0")
	for _, n := range []int{4, 3} {
		w.hardware.set(vgpu("af", n))
		w.report()
		want := []string{w.lookup(quirks), "GET " + rp + inventoriesOf(quirks), "PUT " + rp + "/inventories"}
		if diff := cmp.Diff(want, w.wire.take()); diff != "" {
			t.Errorf("calls for %d (-want +got):\n%s", n, diff)
		}
		got, _ := w.provider("af")
		if got.Inventories["VGPU"].Total != n || got.Inventories["VGPU"].MaxUnit != n || len(w.cyborg.AttachHandles()) != n {
			t.Errorf("capacity %d: inventory %+v, %d handles", n, got.Inventories, len(w.cyborg.AttachHandles()))
		}
	}
	for _, instance := range []string{instanceA, instanceB} {
		settled(t, w.bindTo("VGPU", driver.ProviderUUID("cn0_0000:af:00.0"), instance))
	}
	w.hardware.set(vgpu("af", 1))
	_ = w.cyborg.Report(t.Context()) // what is in use has vanished
	if got, _ := w.provider("af"); got.Inventories["VGPU"].Total != either(quirks, 2, 1) {
		t.Errorf("two of one are in use: inventory %+v", got.Inventories)
	}
}

// testTraitAndClassChange: trait and class change.
func testTraitAndClassChange(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "CUSTOM_OLD", []string{"CUSTOM_A", "CUSTOM_B"}, "0"))
	w.report()
	w.wire.take()
	rp := "/resource_providers/" + driver.ProviderUUID("cn0_0000:3b:00.0")
	// another client's trait on the provider must survive
	settled(t, w.placement.SetTraits(driver.ProviderUUID("cn0_0000:3b:00.0"), "CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX"))
	w.hardware.set(gpu("3b", "CUSTOM_NEW", []string{"CUSTOM_A", "CUSTOM_C"}, "0"))
	w.report()
	change := []string{"GET " + rp + "/traits 1.6", "GET " + rp, "PUT " + rp + "/traits 1.6"}
	if !quirks { // the generation comes with the traits
		change = slices.Delete(change, 1, 2)
	}
	want := slices.Concat([]string{
		w.lookup(quirks),
		"PUT /resource_classes/CUSTOM_NEW 1.7", "GET " + rp + inventoriesOf(quirks), "PUT " + rp + "/inventories", "DELETE /resource_classes/CUSTOM_OLD 1.7",
	}, change, []string{"DELETE /traits/CUSTOM_B 1.6", "GET /traits/CUSTOM_C 1.6", "PUT /traits/CUSTOM_C 1.6"}, change)
	if diff := cmp.Diff(want, w.wire.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	got, _ := w.provider("3b")
	slices.Sort(got.Traits)
	if diff := cmp.Diff([]string{"CUSTOM_A", "CUSTOM_C", "HW_CPU_X86_AVX"}, got.Traits); diff != "" {
		t.Errorf("traits (-want +got):\n%s", diff)
	}
	if len(got.Inventories) != 1 || got.Inventories["CUSTOM_NEW"].Total != 1 {
		t.Errorf("inventories: %v", got.Inventories)
	}
}

// testVanishedDevice: vanished device is removed.
func testVanishedDevice(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", []string{"OWNER_CYBORG", "CUSTOM_A"}, "0"), gpu("5e", "PGPU", []string{"CUSTOM_A"}, "0"))
	w.report()
	w.wire.take()
	rp := driver.ProviderUUID("cn0_0000:3b:00.0")
	w.hardware.set(gpu("5e", "PGPU", []string{"CUSTOM_A"}, "0"))
	w.report()
	want := []string{
		w.lookup(quirks), "GET /resource_providers?in_tree=" + rp + " 1.14",
		"DELETE /resource_providers/" + rp, "DELETE /traits/CUSTOM_A 1.6",
	}
	if diff := cmp.Diff(want, w.wire.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if _, there := w.provider("3b"); there {
		t.Error("the provider is still there")
	}
	if other, _ := w.provider("5e"); !slices.Contains(other.Traits, "CUSTOM_A") {
		t.Errorf("the other card lost a trait: %v", other.Traits)
	}
	if d, p, h := len(w.cyborg.Devices()), len(w.cyborg.Deployables()), len(w.cyborg.AttachHandles()); d != 1 || p != 1 || h != 1 {
		t.Errorf("left: %d devices, %d deployables, %d handles", d, p, h)
	}
}

func TestVanishedDeviceInUseIsKept(t *testing.T) {
	t.Parallel()
	w := newReportWorld(t, gpu("3b", "PGPU", nil, "0"))
	w.report()
	arq := w.bind("PGPU", "3b")
	w.hardware.set()
	for range 2 {
		err := w.cyborg.Report(t.Context())
		if err == nil || !strings.Contains(err.Error(), arq) {
			t.Errorf("error does not name the ARQ %s: %v", arq, err)
		}
	}
	if _, there := w.provider("3b"); !there {
		t.Error("the provider of a bound ARQ was removed")
	}
	w.free(instanceA)
	w.report()
	if _, there := w.provider("3b"); there || len(w.cyborg.Devices()) != 0 {
		t.Error("the device stays after its ARQ was deleted")
	}
}

func TestVanishedDeviceThatPlacementStillNeedsIsKept(t *testing.T) {
	t.Parallel()
	w := newReportWorld(t, gpu("3b", "PGPU", nil, "0"))
	w.report()
	card, _ := w.provider("3b")
	w.claim(instanceA, placementsim.Allocation{Provider: card.UUID, Class: "PGPU", Used: 1})
	w.hardware.set()
	if err := w.cyborg.Report(t.Context()); err == nil {
		t.Error("no error for a provider that Placement keeps")
	}
	if got := len(w.cyborg.Devices()); got != 1 {
		t.Errorf("%d devices, want only the claimed one", got)
	}
	w.bind("PGPU", "3b") // the instance with the allocation can still have it
}

func TestHandlesAreComparedByWhatTheyAre(t *testing.T) {
	t.Parallel()
	w := newReportWorld(t, gpu("3b", "PGPU", nil, "1", "2", "3"))
	w.report()
	functions := func() string {
		var list []string
		for _, h := range w.cyborg.AttachHandles() {
			list = append(list, h.Info["function"])
		}
		return strings.Join(list, "")
	}
	w.hardware.set(gpu("3b", "PGPU", nil, "2", "3"))
	w.report()
	if got := functions(); got != "23" {
		t.Errorf("handles %s, want 23", got)
	}
	w.bind("PGPU", "3b") // takes function 2
	w.hardware.set(gpu("3b", "PGPU", nil, "3", "4"))
	if err := w.cyborg.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "ARQ ") {
		t.Errorf("a handle in use vanished: %v", err)
	}
	if got := functions(); got != "234" {
		t.Errorf("handles %s, want 234", got)
	}
	w.free(instanceA)
	if got := functions(); got != "34" {
		t.Errorf("handles %s, want 34 after the unbind", got)
	}
}

func TestDisabledDeviceStaysReserved(t *testing.T) {
	t.Parallel()
	two := gpu("3b", "PGPU", nil, "0")
	second := gpu("5e", "CUSTOM_X", nil, "0", "1").Deployables[0]
	two.Deployables = append(two.Deployables, second)
	w := newReportWorld(t, two)
	w.report()
	api := w.api()
	path := "/v2/devices/" + w.cyborg.Devices()[0].UUID
	reserved := func() string {
		a, _ := w.provider("3b")
		b, _ := w.provider("5e")
		return fmt.Sprint(a.Inventories["PGPU"].Reserved, b.Inventories["CUSTOM_X"].Reserved, b.Inventories["CUSTOM_X"].MaxUnit)
	}
	api.want(api.send(sent{method: "POST", path: path + "/disable"}), 204, "")
	if got := reserved(); got != "1 2 2" {
		t.Errorf("disabled: reserved and max_unit %s", got)
	}
	two.Deployables[1].AttachHandles = append(two.Deployables[1].AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: pciInfo("5e", "2")})
	two.Deployables[1].NumAccelerators = 3
	w.hardware.set(two)
	w.report()
	if got := reserved(); got != "1 3 3" {
		t.Errorf("a change of capacity enabled the device again: %s", got)
	}
	w.wire.hook = func(method, _ string) int { return map[string]int{"PUT": 503}[method] }
	api.want(api.send(sent{method: "POST", path: path + "/enable"}), 500, "")
	w.wire.hook = nil
	if got := w.cyborg.Devices()[0].Status; got != fakecyborg.StatusMaintaining {
		t.Errorf("status %s although Placement refused", got)
	}
	api.want(api.send(sent{method: "POST", path: path + "/enable"}), 204, "")
	if got := reserved(); got != "0 0 3" {
		t.Errorf("enabled: %s", got)
	}
}

// Without its resource class a device is neither disabled nor stored as something without a class.
func TestADeviceWithoutItsResourceClassIsNotDisabled(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat, fakecyborg.ModeNested} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newReportWorldOf(t, fakecyborg.Config{PlacementMode: mode}, gpu("3b", "PGPU", nil, "0"))
			w.report()
			api := w.api()
			before, err := tables.Collect(w.placement)
			settled(t, err)
			for _, a := range w.cyborg.Attributes() {
				if a.Key == "rc" {
					api.want(api.delete("/v2/attributes/"+a.UUID), 204, "")
				}
			}
			path := "/v2/devices/" + w.cyborg.Devices()[0].UUID
			api.want(api.send(sent{method: "POST", path: path + "/disable"}), 500, "")
			if got := w.cyborg.Devices()[0].Status; got != fakecyborg.StatusEnabled {
				t.Errorf("status %s", got)
			}
			after, err := tables.Collect(w.placement)
			if diff := cmp.Diff(before, after); diff != "" || err != nil {
				t.Errorf("Placement, %v (-before +after):\n%s", err, diff)
			}
			loaded(t, w.cyborg, dumped(t, w.cyborg))
			w.report()
			api.want(api.send(sent{method: "POST", path: path + "/disable"}), 204, "")
		})
	}
}

func TestOneBadDeviceIsRolledBackAndOthersAreReported(t *testing.T) {
	t.Parallel()
	bad := gpu("3b", "PGPU", []string{"CUSTOM_BAD"}, "0")
	steps := []string{"/resource_providers", "/inventories", "/traits/CUSTOM_BAD"}
	for _, step := range steps {
		t.Run(strings.TrimPrefix(step, "/"), func(t *testing.T) {
			t.Parallel()
			w := newReportWorld(t, bad, gpu("5e", "PGPU", nil, "0"))
			failed := false
			w.wire.hook = func(method, path string) int {
				if (method == "PUT" || method == "POST") && strings.HasSuffix(path, step) && !failed {
					failed = true
					return 500
				}
				return 0
			}
			err := w.cyborg.Report(t.Context())
			var trouble *driver.ReportError
			if !errors.As(err, &trouble) || trouble.Host != "cn0" || !strings.Contains(trouble.Device, `"bus":"3b"`) ||
				trouble.Step != "add provider cn0_0000:3b:00.0" || !strings.Contains(err.Error(), "made to fail") {
				t.Errorf("error: %v", err)
			}
			if _, there := w.provider("3b"); there {
				t.Error("the provider of the failed device is still there")
			}
			if _, there := w.provider("5e"); !there {
				t.Error("the other device was not reported")
			}
			if got := w.cyborg.Devices(); len(got) != 1 || len(w.cyborg.AttachHandles()) != 1 {
				t.Errorf("stored: %v", got)
			}
			w.report()
			if _, there := w.provider("3b"); !there {
				t.Error("the next report did not try again")
			}
		})
	}
}

func TestProvidersOfOthersAreNotTouched(t *testing.T) {
	t.Parallel()
	card := gpu("3b", "PGPU", []string{"CUSTOM_A"}, "0")
	name := "cn0_0000:3b:00.0"
	for _, tt := range []struct {
		name string
		new  placementsim.ResourceProvider
	}{
		{"same name, other uuid", placementsim.ResourceProvider{Name: name}},
		{"same uuid, other name", placementsim.ResourceProvider{Name: "other", UUID: driver.ProviderUUID(name)}},
		{"same uuid and name, other parent", placementsim.ResourceProvider{Name: name, UUID: driver.ProviderUUID(name)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newReportWorld(t, card)
			tt.new.Inventories = map[string]placementsim.Inventory{"VCPU": {Total: 4}}
			w.create(tt.new)
			before := w.placement.ResourceProviders()
			if err := w.cyborg.Report(t.Context()); err == nil {
				t.Error("no error")
			}
			if diff := cmp.Diff(before, w.placement.ResourceProviders()); diff != "" {
				t.Errorf("providers changed (-want +got):\n%s", diff)
			}
			if got := w.cyborg.Devices(); len(got) != 0 {
				t.Errorf("stored: %v", got)
			}
		})
	}
}

func TestProvidersOfAnEarlierProcessAreAdopted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ claimed, quirks, adopted bool }{{false, false, true}, {true, false, false}, {true, true, true}} {
		w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: tt.quirks}, gpu("3b", "PGPU", []string{"OWNER_CYBORG", "CUSTOM_A"}, "0"))
		provider := placementsim.ResourceProvider{Name: "cn0_0000:3b:00.0", UUID: driver.ProviderUUID("cn0_0000:3b:00.0"), Parent: w.root}
		if tt.claimed {
			provider.Inventories = map[string]placementsim.Inventory{"PGPU": {Total: 1}}
		}
		w.create(provider)
		if tt.claimed {
			w.claim(instanceA, placementsim.Allocation{Provider: provider.UUID, Class: "PGPU", Used: 1})
		}
		err := w.cyborg.Report(t.Context())
		if adopted := len(w.cyborg.Devices()) == 1; adopted != tt.adopted || (err == nil) != tt.adopted {
			t.Errorf("%+v: adopted %t, %v", tt, adopted, err)
		}
		if got, _ := w.provider("3b"); tt.adopted && (got.Inventories["PGPU"].Total != 1 || !slices.Equal(got.Traits, []string{"OWNER_CYBORG", "CUSTOM_A"})) {
			t.Errorf("%+v: provider: %+v", tt, got)
		}
	}
}

// TestAnEmptyProviderOfAnEarlierLifeIsNotForgotten: its creation was answered too late, the
// answer to a write to it is lost, and the device is no longer reported.
func TestAnEmptyProviderOfAnEarlierLifeIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"/inventories", "/traits"} {
		w := newReportWorld(t, gpu("3b", "PGPU", []string{"CUSTOM_A"}, "0"))
		uuid := driver.ProviderUUID("cn0_0000:3b:00.0")
		w.create(placementsim.ResourceProvider{Name: "cn0_0000:3b:00.0", UUID: uuid, Parent: w.root})
		w.wire.after = func(method, path string) error {
			return either[error](method == "PUT" && strings.HasSuffix(path, uuid+step), nil, errors.New("the answer is lost"))
		}
		if err := w.cyborg.Report(t.Context()); err == nil {
			t.Errorf("%s: the answer is not lost", step)
		}
		w.wire.after = nil
		w.hardware.set()
		w.report()
		if got, there := w.provider("3b"); there {
			t.Errorf("%s: left: %+v", step, got)
		}
	}
}

func TestGenerationConflictsAreRetried(t *testing.T) {
	t.Parallel()
	for _, conflicts := range []int{1, 4, 100} {
		t.Run(fmt.Sprint(conflicts), func(t *testing.T) {
			t.Parallel()
			w := newReportWorld(t, gpu("3b", "PGPU", []string{"CUSTOM_A"}, "0"))
			left := map[string]int{"/inventories": conflicts, "/traits": conflicts}
			w.wire.hook = func(method, path string) int {
				step := path[strings.LastIndex(path, "/"):]
				if method != "PUT" || left[step] == 0 {
					return 0
				}
				left[step]--
				return 409
			}
			err := w.cyborg.Report(t.Context())
			if (err != nil) != (conflicts > 4) {
				t.Errorf("after %d conflicts: %v", conflicts, err)
			}
			if _, there := w.provider("3b"); there != (conflicts <= 4) {
				t.Errorf("after %d conflicts: provider there: %t", conflicts, there)
			}
		})
	}
}

func TestTroubleOfADriverLeavesItsDevicesAlone(t *testing.T) {
	t.Parallel()
	w := newReportWorld(t, gpu("3b", "PGPU", nil, "0"))
	w.report()
	before := w.placement.ResourceProviders()

	w.hardware.err = errors.New("cannot look")
	err := w.cyborg.Report(t.Context())
	if err == nil || !strings.Contains(err.Error(), "cannot look") {
		t.Errorf("error: %v", err)
	}
	w.hardware.err = nil
	w.hardware.report = driver.Report{
		Problems: []driver.Problem{{Address: "0000:3b:00.0", File: "vendor", Err: errors.New("garbled")}},
		LeftOut:  []driver.Notice{{Address: "0000:5e:00.0", Driver: "test", Reason: "a virtual function"}},
	}
	if err := w.cyborg.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "garbled") {
		t.Errorf("error: %v", err)
	}
	if diff := cmp.Diff(before, w.placement.ResourceProviders()); diff != "" || len(w.cyborg.Devices()) != 1 {
		t.Errorf("the device was dropped (-want +got):\n%s", diff)
	}
	reports := w.cyborg.DriverReports()
	if len(reports) != 1 || len(reports[0].Problems) != 1 || reports[0].LeftOut[0].Reason != "a virtual function" {
		t.Errorf("reports: %+v", reports)
	}
}

func TestBadDevicesAreRefusedByName(t *testing.T) {
	t.Parallel()
	twice := gpu("5e", "PGPU", nil, "0")
	bad := gpu("3b", "PGPU", []string{"CUSTOM_a"}, "0")
	stolen := gpu("af", "PGPU", nil, "0")
	stolen.Deployables[0].Name = "cn0_0000:5e:00.0"
	stub := gpu("d8", "PGPU", nil, "0")
	stub.Stub = true
	w := newReportWorld(t, bad, twice, twice, stolen, stub)
	err := w.cyborg.Report(t.Context())
	for _, want := range []string{`"bus":"3b"`, "twice", "exists already"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not contain %q: %v", want, err)
		}
	}
	if got := w.cyborg.Devices(); len(got) != 1 || got[0].ControlPath.Info["bus"] != "5e" {
		t.Errorf("stored: %v", got)
	}
}

func TestAddHostRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	server := newServer(t, fakecyborg.Config{})
	ok := driver.Host{Name: "cn0", Drivers: []driver.Driver{newHardware("a")}}
	settled(t, server.AddHost(ok))
	for _, bad := range []driver.Host{
		{}, {Name: "cn0"}, {Name: "cn1", Drivers: []driver.Driver{nil}},
		{Name: "cn1", Drivers: []driver.Driver{newHardware("a"), newHardware("a")}}, {Name: "cn1", Drivers: []driver.Driver{newHardware("")}},
	} {
		if err := server.AddHost(bad); !errors.Is(err, fakecyborg.ErrHost) {
			t.Errorf("%+v: got %v, want ErrHost", bad, err)
		}
	}
	if err := server.ReportHost(t.Context(), "cn9"); !errors.Is(err, fakecyborg.ErrHost) {
		t.Errorf("unknown host: %v", err)
	}
}

func TestPlacementErrorsNeverShowTheToken(t *testing.T) {
	t.Parallel()
	placement := placementOf(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(url.Values{"token": {"hidden"}})
	}))
	placement.Token = func(context.Context) (string, error) { return "secret-token", nil }
	server := newServer(t, fakecyborg.Config{}, fakecyborg.WithPlacement(placement))
	settled(t, server.AddHost(driver.Host{Name: "cn0"}))
	if err := server.Report(t.Context()); err == nil || strings.Contains(err.Error(), "secret-token") || !strings.Contains(err.Error(), "401") {
		t.Errorf("error: %v", err)
	}
}
