package simcloud_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// computeNode makes the provider of a host as nova-compute does.
func computeNode(t *testing.T, placement *placementsim.Server, host string) string {
	t.Helper()
	p, err := placement.CreateProvider(placementsim.ResourceProvider{
		Name: host, Traits: []string{"COMPUTE_ACCELERATORS", "COMPUTE_NODE"},
		Inventories: map[string]placementsim.Inventory{
			"VCPU": {Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 4}, "MEMORY_MB": {Total: 8192, Reserved: 512, MinUnit: 1, MaxUnit: 8192, StepSize: 1, AllocationRatio: 1},
		},
	})
	must(t, err)
	return p.UUID
}

func deleteComputeNode(t *testing.T, placement *placementsim.Server, root string) {
	t.Helper()
	for _, p := range slices.Backward(placement.ResourceProviders()) {
		if p.Root == root {
			must(t, placement.DeleteProvider(p.UUID))
		}
	}
}

// below are the names of the providers below a root.
func below(placement *placementsim.Server, root string) (names []string) {
	for _, p := range placement.ResourceProviders() {
		if p.Root == root && p.UUID != root {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestHostsOfNovaCompute: the cloud waits for the providers that nova-compute makes, and for those that it makes
// again, under another uuid.
func TestHostsOfNovaCompute(t *testing.T) {
	t.Parallel()
	var want []string // below cn0, in a cloud that makes its hosts
	ordinary := simcloud.Run(t)
	for _, d := range ordinary.Cyborg.Deployables() {
		if d.Hostname == "cn0" {
			want = append(want, d.Name)
		}
	}
	slices.Sort(want)
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t, simcloud.Model{NovaMakesHosts: true})
		time.Sleep(time.Hour)
		if got := cloud.Placement.ResourceProviders(); len(got) > 0 || len(cloud.Cyborg.Devices()) > 0 || cloud.ProviderUUID("cn0") != "" {
			t.Fatalf("before nova-compute started: providers %+v, root of cn0 %q", got, cloud.ProviderUUID("cn0"))
		}
		for range 2 {
			root := computeNode(t, cloud.Placement, "cn0")
			time.Sleep(time.Minute)
			if diff := cmp.Diff(want, below(cloud.Placement, root)); diff != "" || cloud.ProviderUUID("cn0") != root {
				t.Errorf("below cn0 (-want +got):\n%s", diff)
			}
			p, err := cloud.Placement.ResourceProvider(root)
			if err != nil || !slices.Equal(p.Traits, []string{"COMPUTE_ACCELERATORS", "COMPUTE_NODE"}) || len(p.Inventories) != 2 {
				t.Errorf("nova-compute's provider: %+v, %v", p, err)
			}
			cloud.CheckNoLeaks(t)
			testLeakOnRoot(t, cloud, cloud.Placement, root)
			deleteComputeNode(t, cloud.Placement, root)
			time.Sleep(time.Minute)
		}
	})
}

// testLeakOnRoot: an allocation of an unknown consumer on nova-compute's provider is a leak.
func testLeakOnRoot(t *testing.T, cloud *simcloud.Cloud, placement *placementsim.Server, root string) {
	t.Helper()
	const consumer = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	must(t, placement.Claim(placementsim.Claim{Consumer: consumer, Project: "p", User: "u", Allocations: []placementsim.Allocation{{Provider: root, Class: "VCPU", Used: 1}}}))
	if leaks := cloud.Leaks(); len(leaks) != 1 || leaks[0].Kind != simcloud.LeakAllocation || leaks[0].Subject != consumer {
		t.Errorf("leaks: %+v", leaks)
	}
	must(t, placement.Release(consumer))
}

// TestOneHostOfNovaComputeBesideOthers: the model says it of one host; the same is in the state of the cloud.
func TestOneHostOfNovaComputeBesideOthers(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, parse(t, `{"hosts": [{"name": "cn0", "drivers": {"enabled_drivers": ["fake_driver"]}}, {"name": "cn1", "root": "nova", "drivers": {"enabled_drivers": ["fake_driver"]}}]}`))
	if len(below(cloud.Placement, cloud.ProviderUUID("cn0"))) != 1 || cloud.ProviderUUID("cn1") != "" {
		t.Errorf("providers %+v", cloud.Placement.ResourceProviders())
	}
	root := computeNode(t, cloud.Placement, "cn1")
	if err := cloud.Cyborg.Report(t.Context()); err != nil || len(below(cloud.Placement, root)) != 1 {
		t.Errorf("after nova-compute started: %v, providers %+v", err, cloud.Placement.ResourceProviders())
	}
	again := closing(t)(simcloud.FromState(t.Context(), dump(t, cloud)))
	if again.ProviderUUID("cn1") != root || again.Model().Hosts[1].Root != simcloud.RootNova {
		t.Errorf("of the state: root %q, host %+v", again.ProviderUUID("cn1"), again.Model().Hosts[1])
	}
	again.CheckNoLeaks(t)
}

// TestAnOutsideNovaKeepsItsProviders: a cloud with an external Placement removes what Cyborg made below the
// providers of nova-compute, and nothing else.
func TestAnOutsideNovaKeepsItsProviders(t *testing.T) {
	t.Parallel()
	server, url, _ := outsidePlacement(t)
	cloud, err := simcloud.New(t.Context(), simcloud.Model{NovaMakesHosts: true, Cyborg: fakecyborg.Config{}}, simcloud.WithExternalPlacement(url, "admin"))
	must(t, err)
	root := computeNode(t, server, "cn0")
	nic, err := server.CreateProvider(placementsim.ResourceProvider{Name: "cn0_nic", Parent: root})
	must(t, err)
	must(t, cloud.Cyborg.ReportHost(t.Context(), "cn0"))
	if got := below(server, root); len(got) < 5 || cloud.ProviderUUID("cn0") != root {
		t.Errorf("below cn0 %v, which is %q", got, cloud.ProviderUUID("cn0"))
	}
	cloud.CheckNoLeaks(t)
	if err := cloud.Close(); err != nil {
		t.Error(err)
	}
	var left []string
	for _, p := range server.ResourceProviders() {
		left = append(left, p.UUID)
	}
	if diff := cmp.Diff([]string{root, nic.UUID}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestTheModelLeavesNovaItsProviders: what nova-compute makes is refused, or left out with NovaMakesHosts.
func TestTheModelLeavesNovaItsProviders(t *testing.T) {
	t.Parallel()
	for host, path := range map[string]string{
		`"root": "me"`: "hosts[0].root: ",
		`"root": "nova", "provider_uuid": "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"`:          "hosts[0].provider_uuid: ",
		`"root": "nova", "providers": [{"name": "nic", "inventory": {"SRIOV_NET_VF": 1}}]`: "hosts[0].providers: ",
		`"root": "nova", "vcpus": 4`:                                       "hosts[0]: ",
		`"root": "nova", "traits": []`:                                     "hosts[0]: ",
		`"root": "nova", "nova": {"vgpus": [{"address": "0000:3b:00.0"}]}`: "hosts[0].nova: ",
	} {
		_, err := simcloud.ParseModel(fmt.Appendf(nil, `{"hosts": [{"name": "a", %s}]}`, host))
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v, want one at %s", host, err, path)
		}
	}
	model := simcloud.DefaultModel()
	model.NovaMakesHosts = true
	cloud := simcloud.Run(t, model)
	if err := cloud.Model().Validate(); err != nil {
		t.Errorf("the model of the cloud: %v", err)
	}
	if model.Hosts[0].Providers == nil || model.Hosts[0].Nova.PCI == nil {
		t.Error("the caller's model changed")
	}
}

// TestAHostThatIsMadeAgain: nova-compute makes the deleted provider of a host again under another uuid. What is allocated there
// counts, also in an external Placement, in which the cloud leaves that provider when it closes.
func TestAHostThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	outside, url, _ := outsidePlacement(t)
	for name, tt := range map[string]struct {
		placement *placementsim.Server // nil: the cloud's
		opts      []simcloud.Option
	}{
		"simulated": {},
		"external":  {outside, []simcloud.Option{simcloud.WithExternalPlacement(url, "admin")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, err := simcloud.New(t.Context(), simcloud.DefaultModel(), tt.opts...)
			must(t, err)
			placement := cloud.Placement
			if tt.placement != nil {
				placement = tt.placement
			}
			deleteComputeNode(t, placement, cloud.ProviderUUID("cn1"))
			root := computeNode(t, placement, "cn1")
			must(t, cloud.Cyborg.Report(t.Context()))
			if got := cloud.ProviderUUID("cn1"); got != root {
				t.Errorf("root of cn1 %s, want %s", got, root)
			}
			cloud.CheckNoLeaks(t)
			testLeakOnRoot(t, cloud, placement, root)
			testElsewhereOnRoot(t, cloud, placement, root)
			if err := cloud.Close(); err != nil {
				t.Error(err)
			}
			if tt.placement != nil {
				if left := placement.ResourceProviders(); len(left) != 1 || left[0].UUID != root {
					t.Errorf("left %+v, want cn1 alone", left)
				}
			}
		})
	}
}

// testElsewhereOnRoot: what a guest has allocated on the provider of a host that it does not run on is a leak.
func testElsewhereOnRoot(t *testing.T, cloud *simcloud.Cloud, placement *placementsim.Server, root string) {
	t.Helper()
	must(t, placement.Claim(placementsim.Claim{Consumer: instance(1), Project: "p", User: "u", Allocations: []placementsim.Allocation{
		{Provider: cloud.ProviderUUID("cn0"), Class: "VCPU", Used: 1}, {Provider: root, Class: "VCPU", Used: 1},
	}}))
	spawned{uuid: instance(1), host: "cn0"}.define(&user{t: t, cloud: cloud}, "")
	want := []string{"guest: guest " + instance(1) + " runs on host cn0, but has allocated VCPU:1 on cn1"}
	checkLeaks(t, cloud.Leaks(), want, strings.NewReplacer())
	must(t, placement.Release(instance(1)))
}

// TestTheMixedFlavorHasANetworkPortWhereThereAreFunctions: a Nova that makes the hosts reports none.
func TestTheMixedFlavorHasANetworkPortWhereThereAreFunctions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		model simcloud.Model
		want  bool
	}{
		"default":      {simcloud.Model{}, true},
		"nova's hosts": {simcloud.Model{NovaMakesHosts: true}, false},
		"own hosts":    {simcloud.Model{Hosts: []simcloud.Host{{Name: "a"}}}, false},
	} {
		for _, flavor := range simcloud.Run(t, tt.model).Model().Flavors {
			_, got := flavor.ExtraSpecs["resources_net:SRIOV_NET_VF"]
			if flavor.Name == "accel.mixed" && got != tt.want {
				t.Errorf("%s: a group for a network port: %v, want %v", name, got, tt.want)
			}
		}
	}
}
