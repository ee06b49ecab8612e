package profiles_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// What the images of the cloud are, by the name of their function.
const (
	imageGzip   = "aaaaaaaa-0000-4000-8000-000000000001"
	imageIPsec  = "aaaaaaaa-0000-4000-8000-000000000002"
	imageOwn    = "aaaaaaaa-0000-4000-8000-000000000003"
	imageCrypto = "aaaaaaaa-0000-4000-8000-000000000004"

	gzip = "D8424DC4_A4A3_C413_F89E_433683F9040B"
	ddr  = "CUSTOM_ACCELERATOR_MEMORY_DDR"
)

// useCase is what an instance must end up with.
type useCase struct {
	name string
	// bitstreams of the devices, one for each ARQ in order; empty for none.
	bitstreams []string
	// trait of each device's provider afterwards.
	traits []string
	memory int
}

func useCases() []useCase {
	return []useCase{
		{name: "daas-hpts", bitstreams: []string{""}, traits: []string{"CUSTOM_HPTS_ZTE"}},
		{name: "daas-fpga", bitstreams: []string{""}, traits: []string{"CUSTOM_PROGRAMMABLE"}},
		{name: "bitstream-at-request-time", bitstreams: []string{imageOwn}, traits: []string{"CUSTOM_PROGRAMMABLE"}},
		{name: "bitstream-at-run-time", bitstreams: []string{""}, traits: []string{"CUSTOM_PROGRAMMABLE"}},
		{name: "afaas-pre-programmed", bitstreams: []string{""}, traits: []string{"CUSTOM_FPGA_FUNCTION_INTEL_" + gzip}},
		{name: "afaas-function-id", bitstreams: []string{imageGzip}, traits: []string{"CUSTOM_FPGA_FUNCTION_INTEL_" + gzip}},
		{name: "afaas-function-name", bitstreams: []string{imageIPsec}, traits: []string{"CUSTOM_PROGRAMMABLE"}},
		{name: "local-memory", bitstreams: []string{""}, traits: []string{"CUSTOM_FPGA_INTEL_STRATIX10"}, memory: 4096},
		{name: "several-groups", bitstreams: []string{imageCrypto, imageIPsec, ""},
			traits: []string{"CUSTOM_FPGA_FUNCTION_INTEL_5FD1EF4C_92B5_4CD4_9C9E_0EA2B5A3F1D7", "CUSTOM_PROGRAMMABLE", "CUSTOM_HPTS_ZTE"}},
	}
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func flavor(t *testing.T, name string) requestspec.Flavor {
	t.Helper()
	f, err := requestspec.ParseFlavorFile(read(t, "flavors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func profile(t *testing.T, name string) requestspec.Profile {
	t.Helper()
	p, err := requestspec.ParseProfileFile(read(t, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// world is the cloud of the use cases with a flow against it.
type world struct {
	cloud  *simcloud.Cloud
	cyborg *cyborgclient.Client
	flow   *spawn.Flow
}

func newWorld(t *testing.T, config spawn.Config) *world {
	t.Helper()
	model, err := simcloud.ParseModel(read(t, "cloud.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{cloud: simcloud.Run(t, model)}
	provider := w.cloud.Provider(t)
	if w.cyborg, err = cyborgclient.New(provider, cyborgclient.WithServiceProvider(w.cloud.ServiceProvider(t))); err != nil {
		t.Fatal(err)
	}
	placement, err := openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	events := externalevent.NewRegistry()
	w.cloud.HandleEvents(events.Handler())
	if w.flow, err = spawn.New(w.cyborg, placement, spawn.WithConfig(config), spawn.WithEvents(events)); err != nil {
		t.Fatal(err)
	}
	return w
}

func instance(n int) string { return fmt.Sprintf("2f7d3a52-6a0e-4d0b-9f0c-%012d", n) }

// spawnAll starts an instance of each flavor, all at once. Two that want the
// same device at the same time get a conflict from Placement, and one tries again.
func (w *world) spawnAll(t *testing.T, flavors []requestspec.Flavor) []*spawn.Result {
	t.Helper()
	results := make([]*spawn.Result, len(flavors))
	errs := make([]error, len(flavors))
	var group sync.WaitGroup
	for i, f := range flavors {
		group.Go(func() {
			for range 20 {
				results[i], errs[i] = w.flow.Run(t.Context(), spawn.Request{Instance: instance(i), Flavor: f})
				if !errors.Is(errs[i], spawn.ErrClaim) {
					return
				}
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", flavors[i].Name, err)
		}
		guest := sim.Guest{UUID: results[i].Instance, Host: results[i].Host, Domain: string(results[i].Domain)}
		if err := w.cloud.DefineGuest(guest); err != nil {
			t.Fatal(err)
		}
	}
	w.cloud.CheckNoLeaks(t)
	return results
}

// deployable is what Cyborg says of the device of an ARQ.
func (w *world) deployable(t *testing.T, arq cyborgclient.ARQ) cyborgclient.Deployable {
	t.Helper()
	list, err := w.cyborg.ListDeployables(t.Context(), cyborgclient.ListDeployablesOpts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.RPUUID == arq.DeviceRPUUID {
			return d
		}
	}
	t.Fatalf("no deployable is provider %s", arq.DeviceRPUUID)
	return cyborgclient.Deployable{}
}

func (w *world) bitstream(t *testing.T, arq cyborgclient.ARQ) string {
	t.Helper()
	if id := w.deployable(t, arq).BitstreamID; id != nil {
		return *id
	}
	return ""
}

func (w *world) traits(t *testing.T, provider string) []string {
	t.Helper()
	p, err := w.cloud.Placement.ResourceProvider(provider)
	if err != nil {
		t.Fatal(err)
	}
	return p.Traits
}

// check compares what an instance has with what its use case promises.
func (u useCase) check(t *testing.T, w *world, result *spawn.Result) {
	t.Helper()
	if len(result.ARQs) != len(u.bitstreams) {
		t.Fatalf("%d ARQs, want %d", len(result.ARQs), len(u.bitstreams))
	}
	providers := map[string]bool{}
	for i, arq := range result.ARQs {
		providers[arq.DeviceRPUUID] = true
		if got := w.bitstream(t, arq); got != u.bitstreams[i] {
			t.Errorf("ARQ %d: bitstream %q, want %q", i, got, u.bitstreams[i])
		}
		if traits := w.traits(t, arq.DeviceRPUUID); !slices.Contains(traits, u.traits[i]) {
			t.Errorf("ARQ %d: provider has traits %v, want %s", i, traits, u.traits[i])
		}
	}
	if len(providers) != len(result.ARQs) {
		t.Errorf("%d ARQs on %d providers", len(result.ARQs), len(providers))
	}
	devices, err := domainxml.Read(result.Domain)
	if err != nil || len(devices) != len(u.bitstreams) {
		t.Errorf("the domain has %d devices (%v), want %d", len(devices), err, len(u.bitstreams))
	}
	if u.memory > 0 {
		w.cloud.Placement.CheckUsage(t, result.ARQs[0].DeviceRPUUID, ddr, u.memory)
	}
}

// All use cases on one cloud at the same time, by the device profiles.
func TestOneCloudServesEveryUseCase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, spawn.Config{})
	var flavors []requestspec.Flavor
	for _, u := range useCases() {
		p := profile(t, u.name)
		if _, err := w.cyborg.CreateDeviceProfile(t.Context(), cyborgclient.CreateDeviceProfileOpts{Name: p.Name, Description: p.Description, Groups: p.Groups}); err != nil {
			t.Fatal(err)
		}
		f := flavor(t, u.name)
		f.ExtraSpecs = map[string]string{requestspec.DeviceProfileKey: p.Name}
		if u.name == "several-groups" {
			f.ExtraSpecs["group_policy"] = "isolate"
		}
		flavors = append(flavors, f)
	}
	w.checkAll(t, flavors)
}

// The same by the flavors of the specification, whose profiles are made on demand.
func TestOneCloudServesEveryRockyFlavor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, spawn.Config{RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true}})
	var flavors []requestspec.Flavor
	for _, u := range useCases() {
		flavors = append(flavors, flavor(t, u.name))
	}
	w.checkAll(t, flavors)
}

func (w *world) checkAll(t *testing.T, flavors []requestspec.Flavor) {
	t.Helper()
	results := w.spawnAll(t, flavors)
	for i, u := range useCases() {
		t.Run(u.name, func(t *testing.T) {
			u.check(t, w, results[i])
			if u.name == "bitstream-at-run-time" {
				w.programLater(t, results[i])
			}
		})
	}
	for _, result := range results {
		if err := w.flow.Release(t.Context(), result.Instance); err != nil {
			t.Error(err)
		}
		w.cloud.RemoveGuest(result.Instance)
	}
	w.cloud.CheckNoLeaks(t)
}

// programLater is what an instance asks for while it runs: its ARQ stays Bound.
func (w *world) programLater(t *testing.T, result *spawn.Result) {
	t.Helper()
	arq := result.ARQs[0]
	if _, err := w.cyborg.ProgramDeployable(t.Context(), w.deployable(t, arq).UUID, imageGzip); err != nil {
		t.Fatal(err)
	}
	if got := w.bitstream(t, arq); got != imageGzip {
		t.Errorf("bitstream %q, want %q", got, imageGzip)
	}
	if traits := w.traits(t, arq.DeviceRPUUID); !slices.ContainsFunc(traits, func(trait string) bool { return strings.HasSuffix(trait, gzip) }) {
		t.Errorf("the provider's traits %v do not include the function", traits)
	}
	after, err := w.cyborg.GetARQ(t.Context(), arq.UUID)
	if err != nil || after.State != cyborgclient.StateBound {
		t.Errorf("the ARQ is %+v, %v", after, err)
	}
}

// Each file has the groups of the converted flavor and no mistakes that
// the linter reports as errors.
func TestTheProfilesMatchTheFlavors(t *testing.T) {
	t.Parallel()
	for _, u := range useCases() {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			want := profile(t, u.name)
			rocky, ok, err := requestspec.FromRocky(flavor(t, u.name), false)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if diff := cmp.Diff(want.Groups, rocky.Profile.Groups); diff != "" {
				t.Errorf("groups (-file +converted flavor):\n%s", diff)
			}
			for _, finding := range requestspec.Lint(&rocky.Flavor, &rocky.Profile) {
				if finding.Severity == requestspec.SeverityError {
					t.Error(finding)
				}
			}
		})
	}
}

// Rocky specification: a candidate whose region has the function already ranks first.
func TestTheRegionWithTheFunctionIsReused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, spawn.Config{
		Weighers:     []spawn.Weigher{spawn.WeigherFunction, spawn.WeigherFragments},
		RockyFlavors: spawn.RockyFlavors{Convert: true, Create: true},
	})
	f := flavor(t, "afaas-function-id")
	run := func(n int, order func([]spawn.Candidate) []spawn.Candidate) *spawn.Result {
		t.Helper()
		result, err := w.flow.Run(t.Context(), spawn.Request{Instance: instance(n), Flavor: f, Order: order})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	last := func(list []spawn.Candidate) []spawn.Candidate { slices.Reverse(list); return list }
	first := run(1, last) // not Placement's first candidate
	if err := w.flow.Release(t.Context(), instance(1)); err != nil {
		t.Fatal(err)
	}
	plain := run(2, func(list []spawn.Candidate) []spawn.Candidate { return list })
	if plain.ARQs[0].DeviceRPUUID == first.ARQs[0].DeviceRPUUID {
		t.Fatal("Placement lists the programmed region first; the test shows nothing")
	}
	weighed := run(3, nil)
	if weighed.ARQs[0].DeviceRPUUID != first.ARQs[0].DeviceRPUUID {
		t.Errorf("bound to %s, want the region %s that has the function", weighed.ARQs[0].DeviceRPUUID, first.ARQs[0].DeviceRPUUID)
	}
	for _, step := range weighed.Trace {
		if step.Step == spawn.StepSelect && !strings.Contains(step.Decision, "has d8424dc4-a4a3-c413-f89e-433683f9040b") {
			t.Errorf("decision %q has no reason", step.Decision)
		}
	}
}
