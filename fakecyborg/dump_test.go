package fakecyborg_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// dumped is the state of a server: a record a line.
func dumped(tb testing.TB, s *fakecyborg.Server) []byte {
	tb.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for r, err := range s.Records() {
		if err == nil {
			err = enc.Encode(r)
		}
		settled(tb, err)
	}
	return b.Bytes()
}

// load makes the server what the dump says.
func load(s *fakecyborg.Server, data []byte) error {
	var records []sim.Record
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var r sim.Record
		if err := dec.Decode(&r); err != nil {
			return err
		}
		records = append(records, r)
	}
	return sim.Replace(context.Background(), s, records)
}

// loaded makes the server what the dump says, and checks that it then dumps the
// same.
func loaded(tb testing.TB, s *fakecyborg.Server, data []byte) {
	tb.Helper()
	if err := load(s, data); err != nil {
		tb.Fatalf("load: %v\n%s", err, data)
	}
	if diff := cmp.Diff(string(data), string(dumped(tb, s))); diff != "" {
		tb.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
	}
}

// hasRows reports whether a dump has rows of a table.
func hasRows(data []byte, table string) bool {
	return bytes.Contains(data, []byte(`"table":"accelerator.`+table+`"`))
}

// allCards are devices of every handle type but TEST_PCI.
func allCards() []driver.Device {
	fpga := fpgaCard("FPGA")
	fpga.Resources = map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR": 4096}
	whole := gpu("5e", "PGPU", []string{"CUSTOM_PF"}, "0", "1")
	whole.StdBoardInfo = `{"device_id": "0x1eb8"}`
	return []driver.Device{vgpu("af", 4), whole, fpga}
}

// fullWorld has something of everything.
func fullWorld(t *testing.T) (*world, *hardware) {
	t.Helper()
	card := newHardware("test", allCards()...)
	card.report.LeftOut = []driver.Notice{{Address: "0000:01:00.0", Driver: "test", Reason: "in use"}}
	card.report.Warnings = []driver.Notice{{Address: "0000:af:00.0", Driver: "test", Reason: "no IOMMU"}}
	card.report.Problems = []driver.Problem{{File: "bus/x", Err: errors.New("cannot be read")}}
	w := newWorld(t, fakecyborg.Config{Seed: 3}, nil, withImages(t))
	blind := newHardware("blind")
	blind.err = errors.New("no sysfs")
	for _, h := range []driver.Host{{Name: "cn1", Drivers: []driver.Driver{card, blind}}, {Name: "cn2"}} {
		settled(t, w.server.AddHost(h))
	}
	_ = w.server.Report(t.Context()) // reports the problem
	return w, card
}

// use binds, fails, unbinds, programs and disables something.
func (w *world) use(card *hardware) {
	w.t.Helper()
	w.profile("v", `[{"resources:VGPU":"1"},{"resources:VGPU":"1","trait:CUSTOM_A":"forbidden"}]`)
	w.profile("f", `[{"resources:FPGA":"1","accel:bitstream_id":"`+imageOne+`","accel:note":null}]`)
	w.profile("g", `[{"resources:PGPU":"1"}]`)
	provider := driver.ProviderUUID("cn0_0000:5e:00.0")
	w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 202, "")
	card.failMake = errors.New("no room")
	w.want(w.patch(binding(unknownID, vgpuProvider(), w.arqs("v")[:1]...)), 500, "")
	card.failMake = nil
	stuck := w.arqs("g")[0]
	w.want(w.patch(binding(instanceB, provider, stuck)), 202, "")
	w.want(w.patch(unbinding(stuck)), 202, "")
	card.during = func() { // the request goes while its device is being made, which then cannot be removed
		card.during, card.failDrop = nil, errors.New("stuck")
		w.want(w.delete("/v2/accelerator_requests?instance="+instanceB), 204, "")
	}
	w.want(w.patch(binding(instanceB, vgpuProvider(), w.arqs("v")[1:]...)), 409, "")
	card.failDrop = nil
	w.want(w.bindF("aaaaaaaa-0000-4000-8000-000000000003", "f"), 202, "")
	_, err := w.server.CreateAttribute(w.server.Deployables()[0].UUID, "rack", "7")
	settled(w.t, err)
	settled(w.t, w.server.SetDeviceStatus(w.t.Context(), w.server.Devices()[1].UUID, fakecyborg.StatusMaintaining))
	card.report.Devices = append([]driver.Device{vgpu("af", 1)}, allCards()[1:]...) // a vGPU in use vanishes
	_ = w.server.Report(w.t.Context())
	settled(w.t, w.server.StopAgent("cn1"))
}

// seen is all that the direct API shows of a server.
func seen(s *fakecyborg.Server) map[string]any {
	return map[string]any{
		"profiles": s.DeviceProfiles(), "devices": s.Devices(), "deployables": s.Deployables(), "attributes": s.Attributes(),
		"handles": s.AttachHandles(), "arqs": s.ARQs(), "events": s.Events(), "reports": undated(s.DriverReports()), "tree": s.Tree(),
	}
}

// undated are reports without their time, which a dump does not keep.
func undated(reports []driver.HostReport) []driver.HostReport {
	for i := range reports {
		reports[i].At = time.Time{}
	}
	return reports
}

// sameText compares errors by what they say, which is all that a dump keeps, and
// times as moments.
func sameText() cmp.Options {
	return cmp.Options{
		cmp.Transformer("text", func(err error) string { return fmt.Sprint(err) }), cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	}
}

func TestADumpIsLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fullWorld(t)
		w.use(card)
		data := dumped(t, w.server)
		if !bytes.Equal(data, dumped(t, w.server)) {
			t.Error("two dumps of one state differ")
		}
		want := seen(w.server)
		other, same := fullWorld(t)
		same.report = card.report
		loaded(t, other.server, data)
		if diff := cmp.Diff(want, seen(other.server), sameText()); diff != "" {
			t.Errorf("what was loaded (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		for _, path := range []string{"/v2/accelerator_requests", "/v2/devices", "/v2/deployables", "/v2/attributes", "/v2/device_profiles"} {
			a, b := w.get(path), other.get(path)
			if a.text != b.text || a.header.Get("X-Openstack-Request-Id") != b.header.Get("X-Openstack-Request-Id") {
				t.Errorf("%s: %s %s\nwant %s %s", path, b.header.Get("X-Openstack-Request-Id"), b.text, a.header.Get("X-Openstack-Request-Id"), a.text)
			}
		}
		if diff := cmp.Diff(w.arqs("v"), other.arqs("v")); diff != "" {
			t.Errorf("the next requests (-want +got):\n%s", diff)
		}
		for _, world := range []*world{w, other} { // continues as before
			if err := world.server.StartAgent(t.Context(), "cn1"); err == nil || !strings.Contains(err.Error(), "attach handles vanished") {
				t.Errorf("report of a vGPU that vanished while in use: %v", err)
			}
			for _, a := range world.server.ARQs() {
				world.want(world.delete("/v2/accelerator_requests?arqs="+a.UUID), 204, "")
			}
		}
		if w.used() != 0 || other.used() != 0 {
			t.Errorf("%d and %d handles are in use", w.used(), other.used())
		}
		if a, b := dumped(t, w.server), dumped(t, other.server); !bytes.Equal(a, b) {
			t.Errorf("after the same requests (-want +got):\n%s", cmp.Diff(string(a), string(b)))
		}
	})
}

func TestADumpNamesThingsAsTheAPIDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fullWorld(t)
		w.use(card)
		d := parsed(t, dumped(t, w.server))
		for table, path := range map[string]string{
			"accelerator_requests": "/v2/accelerator_requests", "device_profiles": "/v2/device_profiles", "devices": "/v2/devices",
			"deployables": "/v2/deployables", "attributes": "/v2/attributes",
		} {
			rows := d[table]
			key := either(table == "accelerator_requests", table, "arqs")
			shown := w.get(path).list(t, key)
			if len(rows) != len(shown) || len(rows) == 0 {
				t.Fatalf("%s: %d rows, %d shown", table, len(rows), len(shown))
			}
			for name, value := range rows[0] {
				if text, ok := value.(string); ok && shown[0][name] != nil && !strings.HasSuffix(name, "_at") && shown[0][name] != text {
					t.Errorf("%s: %s is %q, the API shows %v", table, name, text, shown[0][name])
				}
			}
		}
	})
}

func TestHostsMayBeAddedAfterTheDumpWasLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fullWorld(t)
		w.use(card)
		data := dumped(t, w.server)
		other := newServer(t, fakecyborg.Config{Seed: 3})
		loaded(t, other, data)
		if got := len(other.Devices()); got != 3 {
			t.Errorf("%d devices, want those of hosts without an agent", got)
		}
		if err := other.SetDeviceStatus(t.Context(), other.Devices()[1].UUID, fakecyborg.StatusMaintaining); err != nil {
			t.Errorf("a device without an agent: %v", err)
		}
		loaded(t, other, data)
		for _, host := range []string{"cn2", "cn1", "cn0"} {
			settled(t, other.AddHost(driver.Host{Name: host, Drivers: []driver.Driver{card}}))
		}
		if got := dumped(t, other); !bytes.Equal(data, got) {
			t.Errorf("after the hosts were added (-want +got):\n%s", cmp.Diff(string(data), string(got)))
		}
		if err := other.ReportHost(t.Context(), "cn1"); !errors.Is(err, fakecyborg.ErrAgentDown) {
			t.Errorf("report of an agent that was down: %v", err)
		}
	})
}

// What could not be removed is removed by the first report after the dump.
func TestADumpKeepsMediatedDevicesThatWaitForRemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1)
		var data []byte
		card.during = func() {
			card.during = nil
			w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), 204, "")
			data = dumped(t, w.server) // and here the simulator ends
		}
		w.want(w.patch(binding(instanceA, vgpuProvider(), w.arqs("v")...)), 409, "")
		other, left := vgpuWorld(t, fakecyborg.Config{}, 2, 1)
		loaded(t, other.server, data)
		left.failDrop = errors.New("stuck")
		other.server.Resume()
		synctest.Wait()
		left.failDrop = nil
		for _, h := range other.server.AttachHandles() {
			if h.InUse {
				settled(t, left.CreateMdev(t.Context(), driver.Mdev{UUID: h.UUID}))
			}
		}
		if other.used() != 1 || left.present() != 1 {
			t.Fatalf("%d handles, %d mediated devices, want 1 of each", other.used(), left.present())
		}
		settled(t, other.server.Report(t.Context()))
		other.checkFreed(left)
		if posts := other.nova.sent(); len(posts) != 1 || posts[0][0].Status != "failed" {
			t.Errorf("events %v, want that the bind failed", posts)
		}
	})
}

// A dump can be taken at any time, and can be loaded regardless of the work in progress.
func TestADumpIsConsistentUnderConcurrentRequests(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeFlat, fakecyborg.ModeNested} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			cfg := fakecyborg.Config{PlacementMode: mode, AsyncBind: true}
			w := newTwin(t, cfg)
			w.card.set(fullCards()...)
			_ = w.server.Report(t.Context()) // on a flat host they exclude each other
			w.profile("v", `[{"resources:VGPU":"1"},{"resources:VGPU":"1"}]`)
			provider := vgpuProvider()
			for _, deployable := range w.server.Deployables() {
				if deployable.ResourceClass() == "VGPU" {
					provider = deployable.ProviderUUID
				}
			}
			var busy sync.WaitGroup
			busy.Go(func() {
				for i := range 20 {
					w.card.set(fullCards()[:1+i%3]...)
					_ = w.server.Report(t.Context())
				}
			})
			busy.Go(func() {
				for i := range 20 {
					instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)
					_, _ = w.trySend(sent{method: "PATCH", path: "/v2/accelerator_requests", body: binding(instance, provider, w.arqs("v")...)})
					_, _ = w.trySend(sent{method: "DELETE", path: "/v2/accelerator_requests?instance=" + instance})
				}
			})
			busy.Go(func() {
				for i := range 20 {
					for _, d := range w.server.Devices() {
						_ = w.server.SetDeviceStatus(t.Context(), d.UUID, either(i%2 > 0, fakecyborg.StatusEnabled, fakecyborg.StatusMaintaining))
					}
				}
			})
			other, third := newTwin(t, cfg), newTwin(t, cfg)
			third.card.set(fullCards()...)
			busy.Go(func() {
				for range 20 { // a report is not in the way of Load
					_ = third.server.Report(t.Context())
				}
			})
			for range 20 {
				data := dumped(t, w.server)
				loaded(t, other.server, data)
				settled(t, load(third.server, data))
			}
			busy.Wait()
			w.server.Close()
			loaded(t, other.server, dumped(t, w.server))
		})
	}
}

// Devices of a dump whose hosts have no agent are changed one after the other.
func TestDevicesWithoutAnAgentAreChangedInTurn(t *testing.T) {
	t.Parallel()
	cfg := fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}
	w := newTwin(t, cfg)
	w.card.set(gpu("3b", "PGPU", nil, "0"), gpu("5e", "PGPU", nil, "0"), gpu("86", "PGPU", nil, "0"), gpu("af", "PGPU", nil, "0"))
	settled(t, w.server.Report(t.Context()))
	alone := newServer(t, cfg, withPlacement(w.placement))
	loaded(t, alone, dumped(t, w.server))
	var busy sync.WaitGroup
	for _, d := range alone.Devices() {
		busy.Go(func() {
			for range 10 {
				for _, status := range []string{fakecyborg.StatusEnabled, fakecyborg.StatusMaintaining} {
					if err := alone.SetDeviceStatus(t.Context(), d.UUID, status); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	busy.Wait()
	if got := w.placement.ResourceProviders()[0].Inventories["PGPU"]; got.Total != 4 || got.Reserved != 4 {
		t.Errorf("inventory %+v, want all devices reserved", got)
	}
}

// What was taken over from an earlier life stays Cyborg's own.
func TestADumpRecordsAdoptedProviders(t *testing.T) {
	t.Parallel()
	first := flatWorld(t, gpu("3b", "PGPU", []string{flatTrait}, "0"))
	first.report()
	second := newReportWorldOn(t, first, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat})
	second.report()
	data := dumped(t, second.cyborg)
	if !strings.Contains(string(data), `"applied":{"inventories":[{"resource_class":"PGPU","total":1,"max_unit":1}],"traits":["`+flatTrait+`"]}`) {
		t.Errorf("nothing was taken over:\n%s", data)
	}
	third := newReportWorldOn(t, first, fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat})
	loaded(t, third.cyborg, data)
	third.hardware.set()
	third.report()
	if diff := cmp.Diff(novaInventories(), third.hostProvider().Inventories); diff != "" {
		t.Errorf("inventories without the card (-want +got):\n%s", diff)
	}
}

// A driver that reads the function from the card overrules what was written after Load, too.
func TestADumpKeepsWhichDriversReadTheCard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fpgaWorld(t, fakecyborg.Config{}, `"accel:x":"y"`)
		w.want(w.programAPI(imageOne, ""), 200, "")
		report := func(w *world, card *hardware, function string) {
			t.Helper()
			card.set(fpgaCardWith(testFunction + function))
			settled(t, w.server.Report(t.Context()))
		}
		report(w, card, "ONE") // it has looked
		other, again := fpgaWorld(t, fakecyborg.Config{}, `"accel:x":"y"`)
		loaded(t, other.server, dumped(t, w.server))
		report(w, card, "ZERO")
		report(other, again, "ZERO") // and the card has started again
		if diff := cmp.Diff(w.functions(), other.functions()); diff != "" || w.functions()[0] != "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO" {
			t.Errorf("functions %v (-want +got):\n%s", w.functions(), diff)
		}
	})
}
