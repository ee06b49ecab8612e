package spawn_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
)

func TestRunGivesEveryProfileItsDevices(t *testing.T) {
	t.Parallel()
	tests := []struct {
		profile     string
		wantDevices map[string]int // kind -> count
		wantSkipped int
	}{
		{"gpu", map[string]int{"PCI": 1}, 0},
		{"vgpu", map[string]int{"MDEV": 1}, 0},
		{"fpga", map[string]int{"PCI": 1}, 0},
		{"fake", map[string]int{}, 1},
		{"mixed", map[string]int{"PCI": 3, "MDEV": 1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.profile, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{})
			req := request(tt.profile)
			if tt.profile == "mixed" { // beside a suffixed group of the flavor
				req.Flavor.ExtraSpecs["resources_net:SRIOV_NET_VF"] = "1"
				req.Flavor.ExtraSpecs["trait_net:CUSTOM_PHYSNET_PUBLIC"] = "required"
			}
			result := w.spawned(t, req)
			got := map[string]int{}
			for _, device := range result.Devices {
				if device.PCI != nil {
					got["PCI"]++
				} else {
					got["MDEV"]++
				}
			}
			checkDiff(t, "devices (-want +got)", tt.wantDevices, got)
			if len(result.Skipped) != tt.wantSkipped {
				t.Errorf("skipped: got %v, want %d", result.Skipped, tt.wantSkipped)
			}
			inDomain, err := domainxml.Read(result.Domain)
			if err != nil || len(inDomain) != len(result.Devices) {
				t.Errorf("the domain has %d devices (%v), want %d", len(inDomain), err, len(result.Devices))
			}
			w.checkProviders(t, req, result)
			settled(t, w.flow.Release(t.Context(), instance))
			w.cloud.RemoveGuest(instance)
			w.cloud.CheckNoLeaks(t)
		})
	}
}

// checkProviders checks against the profile that each group has as many ARQs
// as it asks for and that they are all on one provider.
func (w *world) checkProviders(t *testing.T, req spawn.Request, result *spawn.Result) {
	t.Helper()
	name, _ := req.Flavor.DeviceProfile()
	profiles, err := w.cyborg.ListDeviceProfiles(t.Context(), cyborgclient.ListDeviceProfilesOpts{Names: []string{name}})
	if err != nil || len(profiles) != 1 {
		t.Fatal(profiles, err)
	}
	for i, group := range profiles[0].Groups {
		want, err := requestspec.ARQCount(group)
		settled(t, err)
		providers := map[string]int{}
		for _, arq := range result.ARQs {
			if arq.DeviceProfileGroupID == i {
				providers[arq.DeviceRPUUID]++
			}
		}
		if len(providers) != 1 || !slices.Contains(slices.Collect(maps.Values(providers)), want) {
			t.Errorf("group %d: got ARQs per provider %v, want %d on one", i, providers, want)
		}
	}
}

func TestAFlavorWithoutAProfileIsOnlyClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	result := w.spawned(t, spawn.Request{Instance: instance, Flavor: plainFlavor()})
	if len(result.ARQs)+len(result.Devices) != 0 || result.Host == "" {
		t.Errorf("got %+v", result)
	}
}

func TestTheUsersDomainKeepsItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	domain := `<domain type="kvm"><name>vm</name><!-- keep --><memory>1</memory><os><type>hvm</type></os><devices><x-own/></devices></domain>`
	req := request("gpu")
	req.Domain = []byte(domain)
	result := w.spawned(t, req)
	before, after, ok := strings.Cut(domain, "</devices>")
	if got := string(result.Domain); !ok || !strings.HasPrefix(got, before) || !strings.HasSuffix(got, "</devices>"+after) {
		t.Errorf("bytes outside the insertion changed:\n%s", got)
	}
}

func TestTheTraceNamesTheTenStepsAndTheirRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	result, err := w.flow.Run(t.Context(), request("gpu"))
	settled(t, err)
	var got []string
	for _, step := range result.Trace {
		text := step.Step.String()
		for _, r := range step.Requests {
			text += fmt.Sprintf(" %s=%d", r.Name, r.Status)
		}
		got = append(got, text)
	}
	want := []string{
		"profile accelerator.device_profile.list=200",
		"request",
		"candidates GET allocation_candidates=200",
		"select GET resource_providers in_tree=200",
		"claim GET allocations=200 PUT allocations=204",
		"create accelerator.arq.create=201",
		"match",
		"bind accelerator.arq.bind=202",
		"wait accelerator.arq.list=200",
		"compose",
	}
	checkDiff(t, "trace (-want +got)", want, got)
}

func TestNoCandidatesErrorHasTheQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	req := request("gpu")
	req.Flavor.VCPUs = 1_000_000
	_, err := w.flow.Run(t.Context(), req)
	var none *spawn.NoCandidatesError
	if !errors.As(err, &none) || !strings.Contains(none.Query, "VCPU%3A1000000") || !strings.Contains(err.Error(), "device_profile_0 PGPU:1") {
		t.Errorf("got error %v with %+v", err, none)
	}
}

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   func(*spawn.Request)
		wantStep spawn.Step
		wantErr  error
	}{
		{"instance is no UUID", func(r *spawn.Request) { r.Instance = "vm1" }, spawn.StepProfile, spawn.ErrRequest},
		{"instance in upper case", func(r *spawn.Request) { r.Instance = strings.ToUpper(instance) }, spawn.StepProfile, spawn.ErrRequest},
		{"domain is no domain", func(r *spawn.Request) { r.Domain = []byte("<network/>") }, spawn.StepProfile, spawn.ErrRequest},
		{"unknown profile", func(r *spawn.Request) { r.Flavor = flavor("nope") }, spawn.StepProfile, spawn.ErrProfile},
		{"no room", func(r *spawn.Request) { r.Flavor.VCPUs = 1_000_000 }, spawn.StepCandidates, spawn.ErrNoCandidates},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOpts{})
			req := request("gpu")
			tt.change(&req)
			result, err := w.flow.Run(t.Context(), req)
			var failure *spawn.Error
			if !errors.As(err, &failure) || failure.Step != tt.wantStep || !errors.Is(err, tt.wantErr) {
				t.Errorf("got error %v, want %v in step %s", err, tt.wantErr, tt.wantStep)
			}
			if failure != nil && !strings.Contains(err.Error(), req.Instance) {
				t.Errorf("the error does not name the instance: %v", err)
			}
			w.checkPromise(t, result, err)
		})
	}
}

func TestTheTraceNamesExtraSpecsThatAreIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	req := request("gpu")
	req.Flavor.ExtraSpecs = maps.Clone(req.Flavor.ExtraSpecs)
	req.Flavor.ExtraSpecs["resources:GPU"] = "1"
	result, err := w.flow.Run(t.Context(), req)
	w.checkPromise(t, result, err)
	i := slices.IndexFunc(result.Trace, func(step spawn.StepTrace) bool { return step.Step == spawn.StepRequest })
	if want := `; resources:GPU="1": Received an invalid ResourceClass 'GPU' in extra_specs.`; i < 0 || !strings.HasSuffix(result.Trace[i].Decision, want) {
		t.Errorf("trace %v, want a decision that ends in %s", result.Trace, want)
	}
}
