package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const drillGuest = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"

// bare is a world whose guests need no more than a processor.
func bare() simcloud.Model {
	return simcloud.Model{Hosts: []simcloud.Host{{Name: "cn0"}}, DeviceProfiles: []simcloud.DeviceProfile{}}
}

// claimOnce asks Placement for a processor.
func claimOnce(ctx context.Context, cloud *simcloud.Cloud, method string) error {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"allocations": {%q: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`, cloud.ProviderUUID("cn0"))
	if method == http.MethodDelete {
		body = ""
	}
	req, err := http.NewRequestWithContext(ctx, method, cloud.URL()+"/placement/allocations/"+drillGuest, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Auth-Token", provider.Token())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "placement 1.36")
	answer, err := provider.HTTPClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", method, answer.Status)
	}
	return nil
}

func define(cloud *simcloud.Cloud) error {
	return cloud.DefineGuest(sim.Guest{UUID: drillGuest, Host: "cn0"})
}

// careless gives nothing back when the reply is lost.
func careless(ctx context.Context, cloud *simcloud.Cloud) error {
	if err := claimOnce(ctx, cloud, http.MethodPut); err != nil {
		return err
	}
	return define(cloud)
}

// careful releases a claim with unknown outcome.
func careful(ctx context.Context, cloud *simcloud.Cloud) error {
	err := claimOnce(ctx, cloud, http.MethodPut)
	if err == nil {
		return define(cloud)
	}
	for range 3 {
		if claimOnce(context.WithoutCancel(ctx), cloud, http.MethodDelete) == nil {
			break
		}
	}
	return err
}

// oneRun is what a drill with the given faults finds.
func oneRun(t *testing.T, flow Flow, rules ...fault.Rule) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t, bare())
		d := newDrill(flow, Config{})
		d.want = &usage{guests: 1}
		o = d.runOn(t.Context(), cloud, rules)
	})
	return o
}

func TestADrillFindsTheMistakesOfAFlow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		flow Flow
		rule fault.Rule
		want string // part of the problem; empty: none
	}{
		{"careless, refused", careless, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop}, ""},
		{"careless, reply lost", careless, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After}, "has allocated VCPU:1 on cn0"},
		{"careful, reply lost", careful, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After}, ""},
		{
			"believes anything", func(ctx context.Context, cloud *simcloud.Cloud) error { _ = careless(ctx, cloud); return nil },
			fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status}, "the flow succeeded, but left 0 guests with 0 bound accelerators instead of 1 guest with 0 bound accelerators",
		},
		{
			"starts the guest too early", func(ctx context.Context, cloud *simcloud.Cloud) error {
				if err := define(cloud); err != nil {
					return err
				}
				return careful(ctx, cloud)
			},
			fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status}, "the flow failed, but the guest " + drillGuest + ` is on host "cn0"`,
		},
		{
			"panics", func(ctx context.Context, cloud *simcloud.Cloud) error {
				if err := careful(ctx, cloud); err != nil {
					panic(err)
				}
				return nil
			},
			fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status}, "the flow panicked: PUT: 500",
		},
		{
			"waits for ever", func(ctx context.Context, _ *simcloud.Cloud) error { <-ctx.Done(); return ctx.Err() },
			fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status}, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := oneRun(t, tt.flow, tt.rule)
			if (tt.want == "") != (o.problem == "") || !strings.Contains(o.problem, tt.want) {
				t.Errorf("problem %q, want one with %q", o.problem, tt.want)
			}
		})
	}
}

// A flow that sends no requests, for example because it skips its work by mistake, cannot fail.
// Neither can a cloud without usable devices.
func TestADrillWithoutRequestsFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flow   Flow
		config Config
		want   string // part of the problem; empty: none
	}{
		"sends no requests":              {func(context.Context, *simcloud.Cloud) error { return nil }, Config{}, "the flow sends no requests"},
		"sends no requests, in time":     {func(context.Context, *simcloud.Cloud) error { return nil }, Config{Within: time.Minute}, "the flow sends no requests"},
		"asks for something":             {careful, Config{}, ""},
		"in time, no devices":            {careful, Config{Within: time.Minute}, ""},
		"in time, no device can be used": {careful, Config{Within: time.Minute, Model: simcloud.DefaultModel(), Setup: takeProviders}, "no device can be in use"},
	} {
		d := newDrill(tt.flow, tt.config)
		if len(d.Model.Hosts) == 0 {
			d.Model = bare()
		}
		if o := d.try(t, nil); (tt.want == "") != (o.problem == "") || !strings.Contains(o.problem, tt.want) {
			t.Errorf("%s: problem %q, want one with %q", name, o.problem, tt.want)
		}
	}
}

// takeProviders leaves no inventory of a device to claim.
func takeProviders(_ context.Context, cloud *simcloud.Cloud) error {
	for _, d := range cloud.Cyborg.Deployables() {
		if err := cloud.Placement.SetInventory(d.ProviderUUID, nil); err != nil {
			return err
		}
	}
	return nil
}

// A change that is late is named, or it is a problem; and so is what stays after the
// recovery.
func TestADrillWantsLeftoversToBeNamedAndRecovered(t *testing.T) {
	t.Parallel()
	late := fault.Rule{Operation: fault.AllocationsPut, Action: fault.Late, Delay: 7 * time.Minute}
	names := func(_ *simcloud.Cloud, _ error, left simcloud.Leak) bool { return left.Subject == drillGuest }
	remove := func(ctx context.Context, cloud *simcloud.Cloud) error {
		return claimOnce(ctx, cloud, http.MethodDelete)
	}
	nothing := func(context.Context, *simcloud.Cloud) error { return nil }
	for _, tt := range []struct {
		name                  string
		config                Config
		lost, unnamed, leaked bool
		flow                  Flow
	}{
		{"neither", Config{}, false, false, true, careful},
		{"named", Config{Names: names}, false, false, false, careful},
		{"unnamed, recovered", Config{Names: func(*simcloud.Cloud, error, simcloud.Leak) bool { return false }, Recover: remove}, false, true, false, careful},
		{"named, not recovered", Config{Names: names, Recover: nothing}, false, false, true, careful},
		{"named, recovered", Config{Names: names, Recover: remove}, false, false, false, careful},
		{"a success without a guest", Config{Names: names, Recover: remove}, true, false, false, func(ctx context.Context, cloud *simcloud.Cloud) error {
			_ = careful(ctx, cloud)
			return nil
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDrill(tt.flow, tt.config)
			d.want = &usage{guests: 1}
			o := d.runOn(t.Context(), simcloud.Run(t, bare()), []fault.Rule{late})
			got, want := [3]bool{o.lost, o.unnamed, o.leaked}, [3]bool{tt.lost, tt.unnamed, tt.leaked}
			if got != want || (o.problem != "") != (want != [3]bool{}) {
				t.Errorf("%s: lost, unnamed, leaked: %v, want %v; problem %q", tt.name, got, want, o.problem)
			}
		})
	}
}

// spawn gives the drill's guest a handle of the fake driver, which has no device in the domain.
func spawn(ctx context.Context, cloud *simcloud.Cloud) error {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return err
	}
	f := &filler{cloud: cloud, token: provider.Token(), of: cloud.Cyborg.Deployables()[0], n: 1, instance: drillGuest}
	return f.take(ctx)
}

// A recovery that takes what a guest has, or the guest, is a problem, as a flow is that does.
func TestADrillFailsForARecoveryThatTakesFromGuests(t *testing.T) {
	t.Parallel()
	release := func(_ context.Context, cloud *simcloud.Cloud) error { return cloud.Placement.Release(drillGuest) }
	for want, take := range map[string]Flow{
		"after the recovery: guest " + drillGuest: release,
		"the recovery left 0 guests with 0 bound accelerators instead of 1 guest with 1 bound accelerator": func(ctx context.Context, cloud *simcloud.Cloud) error {
			cloud.RemoveGuest(drillGuest)
			return errors.Join(release(ctx, cloud), cloud.Cyborg.DeleteARQs(ctx, cloud.Cyborg.ARQs()[0].UUID))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDrill(spawn, Config{Recover: take})
			d.want = &usage{1, 1}
			if o := d.runOn(t.Context(), simcloud.Run(t), nil); !o.lost || !strings.Contains(o.problem, want) {
				t.Errorf("lost %t, problem %q, want one with %q", o.lost, o.problem, want)
			}
		})
	}
}

// A flow that fails has to leave the guests alone that it has nothing to do with, and so has the recovery after it.
func TestADrillFailsForAFailureThatTakesFromOthers(t *testing.T) {
	t.Parallel()
	failing := func(context.Context, *simcloud.Cloud) error { return errors.New("no host") }
	for name, harm := range map[string]Flow{
		"the guest": func(_ context.Context, cloud *simcloud.Cloud) error {
			cloud.RemoveGuest(drillGuest)
			return nil
		},
		"its domain": func(_ context.Context, cloud *simcloud.Cloud) error {
			return cloud.DefineGuest(sim.Guest{UUID: drillGuest, Host: "cn0", Domain: "<domain><name>b</name></domain>"})
		},
		"its request and allocation": func(ctx context.Context, cloud *simcloud.Cloud) error {
			return errors.Join(cloud.Placement.Release(drillGuest), cloud.Cyborg.DeleteARQs(ctx, cloud.Cyborg.ARQs()[0].UUID))
		},
	} {
		for where, config := range map[string]Config{"by the recovery": {Recover: harm}, "by the flow": {}} {
			for guest, want := range map[string]string{
				drillGuest:           drillGuest + " was removed or changed",
				"one of another run": "0 guests of the setup left alone, want 1",
			} {
				synctest.Test(t, func(t *testing.T) {
					flow := failing
					if config.Recover == nil {
						flow = func(ctx context.Context, cloud *simcloud.Cloud) error {
							return errors.Join(harm(ctx, cloud), failing(ctx, cloud))
						}
					}
					cloud := simcloud.Run(t)
					if err := spawn(t.Context(), cloud); err != nil {
						t.Fatal(err)
					}
					d := newDrill(flow, config)
					d.want, d.untouched = &usage{guests: 2}, map[string]bool{guest: true}
					if o := d.runOn(t.Context(), cloud, nil); !o.lost || !strings.Contains(o.problem, want) {
						t.Errorf("%s, %s: lost %t, problem %q, want %q", name, where, o.lost, o.problem, want)
					}
				})
			}
		}
	}
}

func TestAFailingCaseIsShownWithoutNeedlessFaults(t *testing.T) {
	t.Parallel()
	lost := fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After}
	late := fault.Rule{Operation: fault.TokenCreate, Action: fault.Delay, Delay: time.Minute}
	stuck := fault.Rule{Operation: fault.AllocationsDelete, Action: fault.Status, Times: -1}
	for _, tt := range []struct {
		name       string
		flow       Flow
		have, want []fault.Rule
	}{
		{"the second does it", careless, []fault.Rule{late, lost}, []fault.Rule{lost}},
		{"the first does it", careless, []fault.Rule{lost, late}, []fault.Rule{lost}},
		{"it takes both", careful, []fault.Rule{lost, stuck}, []fault.Rule{lost, stuck}},
		{"it takes two of three", careful, []fault.Rule{lost, late, stuck}, []fault.Rule{lost, stuck}},
	} {
		d := newDrill(tt.flow, Config{Model: bare()})
		d.want = &usage{guests: 1}
		o := d.try(t, tt.have)
		if o.problem == "" || o.summary == "" {
			t.Fatalf("%s: nothing is wrong, or no summary is shown: %q", tt.name, o.summary)
		}
		got, shown := d.reduce(t, tt.have, o)
		if diff := cmp.Diff(tt.want, got); diff != "" || shown.problem == "" {
			t.Errorf("%s: problem %q, faults (-want +got):\n%s", tt.name, shown.problem, diff)
		}
	}
}

func TestADrillReportsItsProgress(t *testing.T) {
	t.Parallel()
	var reports []string
	p := progress{all: 25, report: func(done, failed int) { reports = append(reports, fmt.Sprint(done, "/", failed)) }}
	for i := range p.all {
		p.add(i == 6)
	}
	want := []string{"3/0", "5/0", "8/1", "10/1", "13/1", "15/1", "18/1", "20/1", "23/1", "25/1"}
	if diff := cmp.Diff(want, reports); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// A dropped call of an agent silences it for a while, not for good.
func TestAgentsAreSilentForAWhile(t *testing.T) {
	t.Parallel()
	d := &drill{actions: map[sim.OperationName][]fault.Action{
		fault.AgentCall: {fault.Drop}, fault.MdevCreate: {fault.Drop},
	}}
	var got []time.Duration
	for _, operation := range []sim.OperationName{fault.AgentCall, fault.MdevCreate} {
		for _, rule := range d.failures(occurrence{operation: operation, nth: 1}) {
			got = append(got, rule.Delay)
		}
	}
	if diff := cmp.Diff([]time.Duration{5 * time.Second, 5 * time.Second, 0, 0}, got); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

// planned is a drill that saw a request twice, and an operation that is not a request.
func planned() (*drill, []occurrence) {
	seen := []occurrence{{fault.AllocationsPut, "a", 1}, {fault.AllocationsPut, "b", 1}, {fault.MdevCreate, "m", 1}}
	return &drill{
		Config: Config{Seed: 1, Pairs: -1}, repeats: true,
		actions: map[sim.OperationName][]fault.Action{
			fault.AllocationsPut: fault.NewSet("request").Describe()[0].Actions,
			fault.MdevCreate:     {fault.Status, fault.Drop, fault.Delay, fault.Reboot},
		},
		changes: map[sim.OperationName]bool{fault.AllocationsPut: true},
	}, seen
}

func TestEachOccurrenceFailsInEachPossibleWay(t *testing.T) {
	t.Parallel()
	d, seen := planned()
	names := []string{}
	for _, c := range d.sampleSingles(seen) {
		names = append(names, caseName(c))
	}
	request := []string{
		"status500", "status409", "proxy503", "proxy504:after", "drop", "drop:after", "truncate:after", "malformed:after", "delay", "delay:after",
		"slow-body:after", "late20ms", "late5s", "late7m0s", "expire-token",
	}
	want := []string{}
	for _, subject := range []string{"a", "b"} {
		for _, kind := range request {
			action, when, _ := strings.Cut(kind, ":")
			name := "placement.allocations.put#1:" + action + "@" + subject
			if when != "" {
				name += ":" + when
			}
			want = append(want, name)
		}
	}
	for _, kind := range []string{"status500@m", "status500@m:after", "drop@m", "drop@m:after", "delay@m", "delay@m:after", "reboot@m", "reboot@m:after"} {
		want = append(want, "accelerator.mdev.create#1:"+kind)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("single faults (-want +got):\n%s", diff)
	}
	d.repeats = false
	if n := len(d.sampleSingles(seen)); n != 15+8 {
		t.Errorf("%d single faults of a flow whose subjects differ, want 23", n)
	}
}

func TestPairsFollowTheOccurrencesOfTheirFirstFault(t *testing.T) {
	t.Parallel()
	d, seen := planned()
	singles := d.sampleSingles(seen)
	outcomes := make([]outcome, len(singles))
	for i := range outcomes {
		outcomes[i].occurrences = seen
	}
	outcomes[0].problem = "wrong alone"
	all := d.samplePairs(singles, outcomes)
	// Fifteen kinds at each of two places and eight at the third: each with every failure of the
	// other places, except the failure that is wrong alone.
	if want := (14+15)*(15+8) + 8*30; len(all) != want {
		t.Errorf("%d pairs, want %d", len(all), want)
	}
	for _, pair := range all {
		if pair[0] == singles[0][0] || pair[0].Operation == pair[1].Operation && pair[0].Subject == pair[1].Subject {
			t.Errorf("pair %s", caseName(pair))
		}
	}
	sample := func(seed uint64) []string {
		sampler, _ := planned()
		sampler.Seed, sampler.Pairs = seed, 20
		var names []string
		for _, pair := range sampler.samplePairs(singles, outcomes) {
			names = append(names, caseName(pair))
		}
		return names
	}
	one, same, two := sample(1), sample(1), sample(2)
	if len(one) != 20 || !slices.Equal(one, same) || slices.Equal(one, two) {
		t.Errorf("samples of 20: %d, the same seed repeats: %t, another differs: %t", len(one), slices.Equal(one, same), !slices.Equal(one, two))
	}
}

func TestDrillOfACarefulFlow(t *testing.T) {
	t.Parallel()
	sampled := Run(t, careful, Config{
		Model: bare(), Singles: 20, Pairs: 30, Seed: 3, Timeout: time.Hour,
		Names: func(_ *simcloud.Cloud, err error, left simcloud.Leak) bool {
			return err != nil && left.Subject == drillGuest
		},
		Recover: func(ctx context.Context, cloud *simcloud.Cloud) error {
			if len(cloud.Leaks()) == 0 {
				return nil
			}
			return claimOnce(ctx, cloud, http.MethodDelete)
		},
	})
	if sampled.Runs != 50 || sampled.Fired < 50 || sampled.Fired > 20+2*30 {
		t.Errorf("20 single faults and 30 pairs: %+v", sampled)
	}
	none := fault.Rule{Operation: fault.AllocationsPut, Nth: 9, Action: fault.Malformed}
	for want, rules := range map[Summary][]fault.Rule{
		{}: {}, {Runs: 1, Fired: 1}: {{Operation: fault.AllocationsPut, Action: fault.Malformed}, none}, {Runs: 1}: {none},
	} {
		if got := Run(t, careful, Config{Model: bare(), Faults: rules}); got != want {
			t.Errorf("%d rules: %+v, want %+v", len(rules), got, want)
		}
	}
}

// TestADrillFailsForAWriteToAnotherFile: drivers write to the files of mediated devices and vGPUs alone.
func TestADrillFailsForAWriteToAnotherFile(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"class/mdev_bus/0000:84:00.0/mdev_supported_types/nvidia-35/create",
		"class/mdev_bus/mtty/mdev_supported_types/mtty-2/devices/UUID/remove",
		"bus/pci/devices/0001:c8:00.2/nvidia/current_vgpu_type",
	}
	if problems := checkWrites("cn0", allowed); problems != nil {
		t.Errorf("allowed files: %v", problems)
	}
	for _, name := range []string{
		"bus/pci/devices/0000:84:00.0/remove", "bus/pci/devices/0000:84:00.0/reset", "bus/pci/devices/0000:84:00.0/driver_override",
		"bus/pci/devices/0000:84:00.0/sriov_numvfs", "bus/pci/drivers/vfio-pci/bind", "bus/pci/drivers/nvidia/unbind", "bus/pci/rescan",
		"class/mdev_bus/0000:84:00.0/remove", "bus/pci/devices/../../current_vgpu_type",
	} {
		if problems := checkWrites("cn0", append(allowed, name)); len(problems) != 1 || !strings.Contains(problems[0], "host cn0 wrote "+name) {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

// heldCloud is an error that has its cloud, as those of clients have.
type heldCloud struct{ *simcloud.Cloud }

func (heldCloud) Error() string { return "refused" }

func TestACaseThatHasEndedKeepsNoCloud(t *testing.T) {
	var mu sync.Mutex
	var clouds []weak.Pointer[simcloud.Cloud]
	d := newDrill(func(_ context.Context, cloud *simcloud.Cloud) error {
		mu.Lock()
		defer mu.Unlock()
		clouds = append(clouds, weak.Make(cloud))
		return heldCloud{cloud}
	}, Config{Model: bare()})
	d.want = new(usage)
	outcomes := d.runAll(t, "single", [][]fault.Rule{
		{{Operation: fault.AllocationsPut, Action: fault.Drop}},
		{{Operation: fault.AllocationsPut, Action: fault.Status}},
	})
	for range 2 {
		runtime.GC()
	}
	for i, cloud := range clouds {
		if cloud.Value() != nil {
			t.Errorf("the cloud of case %d is in memory", i)
		}
	}
	if len(clouds) != 2 || outcomes[0].err == nil || outcomes[0].err.Error() != "refused" {
		t.Errorf("%d clouds, the first error is %v", len(clouds), outcomes[0].err)
	}
}
