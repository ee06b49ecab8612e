package spawn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// compatCase shows the effect of an option: run describes the outcome, by default and with the option.
type compatCase struct {
	set          func(*spawn.Compat)
	run          func(*testing.T, spawn.Config) string
	byDefault    string
	withTheOther string
}

func compatCases() map[string]compatCase {
	return map[string]compatCase{
		"owner_nova_on_flavor_groups": {func(c *spawn.Compat) { c.OwnerNovaOnFlavorGroups = true }, compatOwnerNova,
			"false", "true"},
		"numeric_suffixes": {func(c *spawn.Compat) { c.NumericSuffixes = true }, compatNumeric,
			"resourcesdevice_profile_0 at 1.36", "resources1 at 1.29"},
		"search_providers": {func(c *spawn.Compat) { c.SearchProviders = true }, compatSearch,
			"0 questions for traits", "4 questions for traits"},
		"flat_providers": {func(c *spawn.Compat) { c.FlatProviders = true }, compatFlat,
			"served by the compute node", "ok"},
		"rebind": {func(c *spawn.Compat) { c.Rebind = true }, compatRebind,
			"create bind delete create bind", "create bind unbind bind"},
		"unbind_first": {func(c *spawn.Compat) { c.UnbindFirst = true }, compatUnbindFirst,
			"delete", "unbind delete"},
		"resolved_by_server": {func(c *spawn.Compat) { c.ResolvedByServer = true }, compatResolved,
			"filtered here", "asked with bind_state=resolved, 423 at first"},
	}
}

func TestCompat(t *testing.T) {
	t.Parallel()
	for name, tt := range compatCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var with spawn.Config
			tt.set(&with.Compat)
			data, err := json.Marshal(with.Compat)
			if err != nil || string(data) != fmt.Sprintf(`{"%s":true}`, name) {
				t.Errorf("the option sets %s (%v)", data, err)
			}
			for _, each := range []struct {
				config spawn.Config
				want   string
			}{{spawn.Config{}, tt.byDefault}, {with, tt.withTheOther}} {
				synctest.Test(t, func(t *testing.T) {
					if got := tt.run(t, each.config); !strings.Contains(got, each.want) {
						t.Errorf("with %+v: got %q, want %q", each.config.Compat, got, each.want)
					}
				})
			}
		})
	}
}

// compatFields are the options by their JSON names.
func compatFields() []string {
	var names []string
	options := reflect.TypeFor[spawn.Compat]()
	for i := range options.NumField() {
		name, _, _ := strings.Cut(options.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// defectCases are keyed by the number in docs/compat.md and show how this library avoids a defect of Nova.
func defectCases() map[int]struct {
	name string
	run  func(*testing.T, spawn.Config) string
	want string
} {
	return map[int]struct {
		name string
		run  func(*testing.T, spawn.Config) string
		want string
	}{
		1:  {"failed ARQ", failedARQ, "not every accelerator is bound"},
		2:  {"failed prepare", failedPrepare, "0 ARQs left, 0 named"},
		3:  {"failed host claim", failedHostClaim, "ok"},
		4:  {"failed unshelve", failedUnshelve, "0 ARQs left, then ok"},
		5:  {"mixed handles", outcomeOf(nil, request("mixed")), "4 devices"},
		6:  {"hard reboot with port", hardRebootWithPort, "ok, 2 devices"},
		7:  {"host reboot", hostReboot, "4 devices"},
		8:  {"search leftovers", searchLeftovers, "the groups do not match the allocations"},
		9:  {"group without resources", groupWithoutResources, "request, Placement not asked"},
		10: {"one ARQ missing", oneARQMissing, "0 ARQs left"},
		11: {"timed out wait", timedOutWait, "0 events registered"},
		12: {"malformed answer", malformedAnswer, "malformed answer"},
		13: {"nil ports", outcomeOf(nil, request("gpu")), "ok"},
		14: {"OWNER_NOVA of the flavor", compatOwnerNova, "false"},
		15: {"failed binds", failedBinds, "2 binds"},
		16: {"nova owned candidates", outcomeOf(novaOwnedOnly(), request("vgpu")), "group device_profile_0 is served by a provider with OWNER_NOVA"},
		17: {"late claim", lateClaim, "0 leaks, 0 named"},
		18: {"late deletion", lateDeletion, "1 ARQs of the next spawn"},
		19: {"claim on the next host", claimOnTheNextHost, "allocations.put No Content, allocations.put No Content"},
		20: {"crash after the claim", crashAfterTheClaim, "1 allocation"},
		21: {"few candidates", fewCandidates, "limits [10]"},
		22: {"refused device", refusedDevice, "the same host, 1 claim refused"},
		23: {"late unshelve", lateUnshelve, "after 7s: 2 of 2 events refused for want of a host"},
		24: {"Rocky flavor", outcomeOf(rockyModel(1), spawn.Request{Instance: instance, Flavor: rockyFlavor()}), "unusable device profile: flavor afaas requests accelerators without a device profile"},
		25: {"flavor on Cyborg's card", outcomeOf(withoutNova(), ownRequest("resources:VGPU", "1")), "the flavor is served by a provider of Cyborg's"},
	}
}

func TestDefectsOfNovaAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, tt := range defectCases() {
		bubble(t, tt.name, func(t *testing.T) {
			if got := tt.run(t, spawn.Config{}); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// docs/compat.md has a complete row for every option of spawn.Compat and for every
// defect of Nova that has a case here, and names no others.
func TestCompatPageIsComplete(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/compat.md")
	settled(t, err)
	page := string(data)
	complete := func(what, pattern string) {
		row := regexp.MustCompile("(?m)^" + pattern + ".*\\|$").FindString(page)
		if row == "" {
			t.Errorf("docs/compat.md has no row for %s", what)
			return
		}
		for _, cell := range strings.Split(strings.Trim(row, "|"), "|") {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("docs/compat.md: the row of %s has an empty cell", what)
			}
		}
	}
	options, cases := compatFields(), compatCases()
	for _, name := range options {
		complete(name, "\\|.*`compat\\."+name+"`")
	}
	if want := slices.Sorted(maps.Keys(cases)); !slices.Equal(slices.Sorted(slices.Values(options)), want) {
		t.Errorf("the options are %v, the cases %v", options, want)
	}
	for _, match := range regexp.MustCompile("`compat\\.([a-z_]+)`").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(options, match[1]) {
			t.Errorf("docs/compat.md names an option %s that does not exist", match[1])
		}
	}
	for number := range defectCases() {
		complete(fmt.Sprintf("defect %d", number), fmt.Sprintf("\\| %d \\|", number))
	}
	if rows := len(regexp.MustCompile(`(?m)^\| \d+ \|`).FindAllString(page, -1)); rows != len(defectCases()) {
		t.Errorf("docs/compat.md has %d numbered rows, want %d", rows, len(defectCases()))
	}
}

// outcome describes a run in a few words.
func outcome(result *spawn.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("ok: %d ARQs, %d devices, %d skipped", len(result.ARQs), len(result.Devices), len(result.Skipped))
}

// outcomeOf returns a case that describes the outcome of a spawn.
func outcomeOf(model *simcloud.Model, req spawn.Request) func(*testing.T, spawn.Config) string {
	return func(t *testing.T, config spawn.Config) string {
		w := newWorld(t, worldOpts{model: model, config: config})
		result, err := w.flow.Run(t.Context(), req)
		w.checkPromise(t, result, err)
		return outcome(result, err)
	}
}

func failedARQ(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{model: slowModel(10 * time.Second), config: config})
	w.fail(t,
		fault.Rule{Operation: fault.MdevCreate, Action: fault.Status},
		fault.Rule{Operation: fault.ARQList, Action: fault.Delay, Delay: 20 * time.Second})
	return outcome(w.flow.Run(t.Context(), request("mixed")))
}

func failedPrepare(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	req := request("mixed")
	req.Hooks.Prepare = func(context.Context, *spawn.Attempt) error { return errHook }
	_, err := w.flow.Run(t.Context(), req)
	return fmt.Sprintf("%d ARQs left, %d named", len(w.cloud.Cyborg.ARQs()), len(failureOf(t, err).Leftovers))
}

func lateClaim(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 5 * time.Second})
	_, err := w.flow.Run(t.Context(), request("gpu"))
	time.Sleep(time.Minute)
	return fmt.Sprintf("%d leaks, %d named", len(w.cloud.Leaks()), len(failureOf(t, err).Leftovers))
}

func lateDeletion(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.spawned(t, request("gpu"))
	w.fail(t, fault.Rule{Operation: fault.ARQDelete, Action: fault.Late, Delay: 7 * time.Minute})
	settled(t, w.flow.Release(t.Context(), instance))
	w.spawned(t, request("gpu"))
	time.Sleep(8 * time.Minute)
	return fmt.Sprintf("%d ARQs of the next spawn", len(w.cloud.Cyborg.ARQs()))
}

func claimOnTheNextHost(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 404})
	if _, err := w.flow.Run(t.Context(), request("gpu")); err != nil {
		t.Fatal(err)
	}
	writes := slices.DeleteFunc(w.writes(), func(write string) bool { return !strings.HasPrefix(write, "allocations.") })
	return strings.Join(writes, ", ")
}

func crashAfterTheClaim(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.crash(t, instance, 5)
	w.restart(t)
	orphans, err := w.flow.Reconcile(t.Context(), w.scope())
	settled(t, err)
	return fmt.Sprintf("%d %s", len(orphans), orphans[0].Kind)
}

func failedHostClaim(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	req := request("mixed")
	calls := 0
	req.Hooks.Claim = func(context.Context, *spawn.Attempt) error {
		if calls++; calls == 1 {
			return errHook
		}
		return nil
	}
	result, err := w.flow.Run(t.Context(), req)
	w.checkPromise(t, result, err)
	var failure *spawn.Error
	if errors.As(err, &failure) && errors.Is(err, cyborgclient.ErrConflict) {
		return "conflict in " + failure.Step.String()
	}
	return outcome(result, err)
}

func failedUnshelve(t *testing.T, config spawn.Config) string {
	s := newSite(t, worldOpts{config: config})
	i := s.spawn(t, "mixed")
	settled(t, s.ops.ShelveOffload(t.Context(), i))
	i.Host, i.ARQs = "", nil
	s.fail(t, fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 403, Nth: 2})
	if _, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{}); err == nil {
		t.Fatal("no error")
	}
	text := fmt.Sprintf("%d ARQs left, then ", len(s.cloud.Cyborg.ARQs()))
	result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
	if errors.Is(err, cyborgclient.ErrConflict) {
		return text + "conflict"
	}
	return text + outcome(result, err)
}

func hardRebootWithPort(t *testing.T, config spawn.Config) string {
	s := newSite(t, worldOpts{model: portModel(), config: config})
	i := s.spawn(t, "gpu", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
	if err := s.ops.HardReboot(t.Context(), i, nil); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("ok, %d devices", s.deviceCount(t, i))
}

// deviceCount counts the host devices and the interfaces passed through.
func (s *site) deviceCount(t *testing.T, i spawn.Instance) int {
	t.Helper()
	domain := s.guests.saved[placeOf(i)]
	devices, err := domainxml.Read([]byte(domain))
	settled(t, err)
	return len(devices) + strings.Count(domain, `<interface type="hostdev"`)
}

func hostReboot(t *testing.T, config spawn.Config) string {
	s := newSite(t, worldOpts{config: config})
	i := s.spawn(t, "mixed")
	s.powerCut(t, i.Host)
	settled(t, s.cloud.StartHost(t.Context(), i.Host))
	if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d devices", s.deviceCount(t, i))
}

// searchLeftovers has a group of the flavor with the class of the profile's first group, on a provider that Cyborg
// does not own.
func searchLeftovers(t *testing.T, config spawn.Config) string {
	model := simcloud.DefaultModel()
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "two", Groups: []map[string]string{
		{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}, {"resources:VGPU": "1"},
	}})
	for i := range model.Hosts {
		h := &model.Hosts[i]
		h.Providers = append(h.Providers, simcloud.Provider{Name: h.Name + "_other", Inventory: map[string]int{"FPGA": 1}, Traits: []string{"CUSTOM_OTHER"}})
	}
	config.Compat.SearchProviders = true
	w := newWorld(t, worldOpts{model: &model, config: config})
	req := request("two")
	req.Flavor.ExtraSpecs["resources9:FPGA"] = "1"
	req.Flavor.ExtraSpecs["trait9:CUSTOM_OTHER"] = "required"
	req.Flavor.ExtraSpecs["group_policy"] = "none"
	return outcome(w.flow.Run(t.Context(), req))
}

// groupWithoutResources reads a profile that requests a trait and no resources. The simulated Cyborg would not store
// it.
func groupWithoutResources(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{})
	w.through(t, config, replacing(http.MethodGet, "/device_profiles", `"resources:PGPU":"1"`, `"trait:CUSTOM_FAKE_DEVICE":"required"`))
	_, err := w.flow.Run(t.Context(), request("gpu"))
	step := failureOf(t, err).Step.String()
	if len(w.queries()) == 0 {
		return step + ", Placement not asked"
	}
	return step + ", Placement asked"
}

// queries lists the requests for candidates.
func (w *world) queries() []sim.Exchange {
	return slices.DeleteFunc(w.cloud.Requests(), func(r sim.Exchange) bool { return r.Operation != fault.AllocationCandidatesList })
}

func oneARQMissing(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	req := request("mixed")
	req.Hooks.Prepare = func(ctx context.Context, a *spawn.Attempt) error {
		return errors.Join(errHook, w.cyborg.DeleteARQs(ctx, []string{a.ARQs[1].UUID}))
	}
	if _, err := w.flow.Run(t.Context(), req); err == nil {
		t.Fatal("no error")
	}
	return fmt.Sprintf("%d ARQs left", len(w.cloud.Cyborg.ARQs()))
}

func timedOutWait(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{model: slowModel(time.Hour), config: config})
	if _, err := w.flow.Run(t.Context(), request("mixed")); err == nil {
		t.Fatal("no error")
	}
	return fmt.Sprintf("%d events registered", w.events.Pending())
}

func malformedAnswer(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.fail(t, fault.Rule{Operation: fault.DeviceProfileList, Action: fault.Malformed, Times: -1})
	_, err := w.flow.Run(t.Context(), request("gpu"))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && !errors.Is(err, cyborgclient.ErrMalformed) {
		return "raw"
	}
	return fmt.Sprint(err)
}

func compatOwnerNova(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	req := request("gpu")
	req.Flavor.ExtraSpecs["resources1:VGPU"] = "1"
	req.Flavor.ExtraSpecs["group_policy"] = "none"
	_, _ = w.flow.Run(t.Context(), req)
	return fmt.Sprint(strings.Contains(w.queries()[0].Query, "required1=OWNER_NOVA"))
}

func compatNumeric(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	result, err := w.flow.Run(t.Context(), request("gpu"))
	w.checkPromise(t, result, err)
	query := w.queries()[0]
	name := regexp.MustCompile(`resources[a-z_0-9]+`).FindString(query.Query)
	return name + " at " + strings.TrimPrefix(query.Microversion, "placement ")
}

func compatSearch(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.define(t, w.spawnPlain(t)) // needs no search
	result, err := w.flow.Run(t.Context(), request("mixed"))
	w.checkPromise(t, result, err)
	traits := slices.DeleteFunc(w.cloud.Requests(), func(r sim.Exchange) bool { return !strings.HasSuffix(r.Path, "/traits") })
	return fmt.Sprintf("%d questions for traits", len(traits))
}

// spawnPlain spawns an instance without devices.
func (w *world) spawnPlain(t *testing.T) *spawn.Result {
	t.Helper()
	result, err := w.flow.Run(t.Context(), spawn.Request{Instance: secondInstance, Flavor: plainFlavor()})
	settled(t, err)
	return result
}

func compatFlat(t *testing.T, config spawn.Config) string {
	model := simcloud.ScaleModel(1, 2)
	model.Cyborg.PlacementMode = "flat"
	return outcomeOf(&model, request("gpu"))(t, config)
}

// arqCalls lists the requests that change ARQs, in order.
func (w *world) arqCalls() string {
	var calls []string
	for _, r := range w.cloud.Requests() {
		if call, ok := strings.CutPrefix(string(r.Operation), "accelerator.arq."); ok && r.Method != http.MethodGet {
			calls = append(calls, call)
		}
	}
	return strings.Join(calls, " ")
}

// watched records the calls that change ARQs. Bind and unbind are one operation of the simulator.
func (w *world) watched(t *testing.T, config spawn.Config) *[]string {
	t.Helper()
	var calls []string
	w.through(t, config, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if call := arqCall(t, req); call != "" {
				calls = append(calls, call)
			}
			return next.RoundTrip(req)
		})
	})
	return &calls
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func arqCall(t *testing.T, req *http.Request) string {
	if !strings.HasSuffix(req.URL.Path, "/accelerator_requests") {
		return ""
	}
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodDelete:
		return "delete"
	case http.MethodPatch:
		body, err := req.GetBody()
		if err != nil {
			t.Error(err)
			return ""
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(body); err != nil {
			t.Error(err)
		}
		if strings.Contains(text.String(), `"remove"`) {
			return "unbind"
		}
		return "bind"
	}
	return ""
}

func compatRebind(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{})
	calls := w.watched(t, config)
	w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 404}) // refused: its outcome is known
	result, err := w.flow.Run(t.Context(), request("mixed"))
	w.checkPromise(t, result, err)
	return strings.Join(*calls, " ")
}

// The ARQs of a create that failed halfway are not reused on the next host.
func TestRebindKeepsNoPartOfACreate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: portModel(), config: spawn.Config{Compat: spawn.Compat{Rebind: true}}})
		w.fail(t, fault.Rule{Operation: fault.ARQCreate, Action: fault.Status, Status: 503, Nth: 2})
		result, err := w.flow.Run(t.Context(), portRequest())
		if err != nil {
			t.Errorf("on the next host: %v", err)
		}
		w.checkPromise(t, result, err)
	})
}

func compatUnbindFirst(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{})
	calls := w.watched(t, config)
	w.spawned(t, request("mixed"))
	*calls = nil
	w.cloud.RemoveGuest(instance)
	settled(t, w.flow.Release(t.Context(), instance))
	w.cloud.CheckNoLeaks(t)
	return strings.Join(*calls, " ")
}

func compatResolved(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{model: slowModel(10 * time.Second), config: config})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	w.checkPromise(t, result, err)
	for _, r := range w.cloud.Requests() {
		if r.Operation == fault.ARQList && strings.Contains(r.Query, "bind_state=resolved") {
			return fmt.Sprintf("asked with bind_state=resolved, %d at first", r.Status)
		}
	}
	return "filtered here"
}

func failedBinds(t *testing.T, config spawn.Config) string {
	w := newWorld(t, worldOpts{config: config})
	w.fail(t, fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, Times: -1})
	result, err := w.flow.Run(t.Context(), request("gpu"))
	w.checkPromise(t, result, err)
	return fmt.Sprintf("%d binds", strings.Count(w.arqCalls(), "bind"))
}

func TestAnUnknownHandleTypeFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	w.through(t, spawn.Config{}, replacing(http.MethodGet, "/accelerator_requests", `"attach_handle_type":"PCI"`, `"attach_handle_type":"CCIX"`))
	_, err := w.flow.Run(t.Context(), request("gpu"))
	if err == nil || !strings.Contains(err.Error(), "unknown; known are PCI, MDEV and TEST_PCI") {
		t.Errorf("error %v, want the unknown handle type", err)
	}
}
