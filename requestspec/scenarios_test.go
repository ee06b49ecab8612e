package requestspec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const portUUID = "7970ec1f-7ce0-4293-a2a3-92cbce8048b4"

// The scenarios of Nova's own tests about scheduling, by their names:
// nova/tests/unit/scheduler/test_request_filter.py, test_utils.py, and
// nova/tests/unit/network/test_neutron.py.
func TestNovaScheduling(t *testing.T) {
	t.Run("accelerators_filter", acceleratorsFilter)
	t.Run("owner_nova_filter", ownerNovaFilter)
	t.Run("resources_from_request_spec_granular", granular)
	t.Run("resources_from_request_spec_having_requested_resources", havingRequestedResources)
	t.Run("group_policy", groupPolicies)
	t.Run("from_request_groups", fromRequestGroups)
	t.Run("empty_groups_forbidden", emptyGroupsForbidden)
	t.Run("neutron_create_resource_requests_with_arq", neutronResourceRequests)
}

func acceleratorsFilter(t *testing.T) {
	with := build(t, flavor(requestspec.DeviceProfileKey, "dp"), profile(oneFPGA), requestspec.Options{})
	if diff := cmp.Diff([]string{"COMPUTE_ACCELERATORS"}, with.RootRequired); diff != "" {
		t.Errorf("with a device profile (-want +got):\n%s", diff)
	}
	if without := build(t, flavor(), nil, requestspec.Options{}); len(without.RootRequired) > 0 {
		t.Errorf("without: %v", without.RootRequired)
	}
}

func ownerNovaFilter(t *testing.T) {
	const pci = "0a1b2c3d-0000-4000-8000-000000000001"
	groups := []requestspec.Group{
		{RequesterID: pci + "-0", Resources: map[string]int{"CUSTOM_PCI": 1}, Required: []string{"CUSTOM_A"}},
		{RequesterID: pci + "-12", Resources: map[string]int{"CUSTOM_PCI": 1}},
		{RequesterID: portUUID, Resources: map[string]int{"NET_BW_EGR_KILOBIT_PER_SEC": 1}},
		{RequesterID: pci + "-x", Resources: map[string]int{"CUSTOM_PCI": 1}},
	}
	const warning = "OWNER_NOVA trait not added to scheduling request: not all nova-compute services are upgraded (min_version=72, need 73)."
	tests := []struct {
		name    string
		opts    requestspec.Options
		root    []string
		owned   []string // requester ids of the groups that got the trait
		warning string
	}{
		{name: "adds", opts: requestspec.Options{OwnerNova: true, ComputeVersion: 73}, root: []string{"OWNER_NOVA"}},
		{name: "below_73", opts: requestspec.Options{OwnerNova: true, ComputeVersion: 72}, warning: warning},
		{name: "above", opts: requestspec.Options{OwnerNova: true, ComputeVersion: 100}, root: []string{"OWNER_NOVA"}},
		{name: "version_not_known", opts: requestspec.Options{OwnerNova: true}, root: []string{"OWNER_NOVA"}},
		{name: "off", opts: requestspec.Options{ComputeVersion: 100, PCIRequests: []string{pci}}},
		{name: "keeps_other_traits", opts: requestspec.Options{OwnerNova: true, RootRequired: []string{"CUSTOM_X"}}, root: []string{"CUSTOM_X", "OWNER_NOVA"}},
		{name: "already_present", opts: requestspec.Options{OwnerNova: true, ComputeVersion: 1, RootRequired: []string{"OWNER_NOVA"}}, root: []string{"OWNER_NOVA"}},
		{name: "pci_groups", opts: requestspec.Options{OwnerNova: true, PCIRequests: []string{pci}}, root: []string{"OWNER_NOVA"}, owned: []string{pci + "-0", pci + "-12"}},
		{name: "non_pci_groups_skipped", opts: requestspec.Options{OwnerNova: true, PCIRequests: []string{"7970ec1f-7ce0-4293-a2a3-92cbce8048b5"}}, root: []string{"OWNER_NOVA"}},
		{name: "pci_untouched_when_not_upgraded", opts: requestspec.Options{OwnerNova: true, ComputeVersion: 72, PCIRequests: []string{pci}}, warning: warning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Groups = groups
			spec := build(t, flavor("resources:VGPU", "1", requestspec.DeviceProfileKey, "dp"), profile(oneFPGA), tt.opts)
			var owned []string
			for _, g := range spec.Groups {
				for _, trait := range g.Required {
					if trait == "OWNER_NOVA" {
						owned = append(owned, g.RequesterID)
					}
				}
			}
			root := append([]string{"COMPUTE_ACCELERATORS"}, tt.root...)
			if diff := cmp.Diff(root, spec.RootRequired); diff != "" {
				t.Errorf("root (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.owned, owned); diff != "" {
				t.Errorf("groups with the trait (-want +got):\n%s", diff)
			}
			var warned string
			for _, w := range spec.Warnings {
				warned += w.Message
			}
			if warned != tt.warning {
				t.Errorf("warnings %q, want %q", warned, tt.warning)
			}
		})
	}
	t.Run("groups_without_id_skipped", func(t *testing.T) {
		opts := requestspec.Options{OwnerNova: true, PCIRequests: []string{""}, Groups: []requestspec.Group{{Resources: map[string]int{"CUSTOM_PCI": 1}}}}
		if _, err := requestspec.New(flavor(), nil, opts); !errors.Is(err, requestspec.ErrInvalidGroup) || len(opts.Groups[0].Required) > 0 {
			t.Errorf("got %v and %v, want the group refused as it is", err, opts.Groups[0].Required)
		}
	})
	if groups[0].Required[0] != "CUSTOM_A" || len(groups[0].Required) != 1 {
		t.Errorf("the caller's groups changed: %v", groups[0])
	}
}

func granular(t *testing.T) {
	f := requestspec.Flavor{VCPUs: 1, MemoryMB: 1024, RootGB: 10, EphemeralGB: 5, ExtraSpecs: map[string]string{
		"resources1:VGPU": "1", "resources1:VGPU_DISPLAY_HEAD": "2",
		"resources3:VCPU": "2", "resources42:SRIOV_NET_VF": "1", "resources24:SRIOV_NET_VF": "2",
		"some:bogus": "value", "resources:CUSTOM_THING": "123",
		"trait3:CUSTOM_SILVER": "required", "trait3:CUSTOM_GOLD": "required",
		"resources86:MEMORY_MB": "0", "resources:IPV4_ADDRESS": "0", "resources:CUSTOM_FOO": "0",
		"resources1:MEMORY_MB": "bogus", "group_policy": "none",
	}}
	const want = "group_policy=none&limit=1000&required3=CUSTOM_GOLD%2CCUSTOM_SILVER&resources=CUSTOM_THING%3A123%2CDISK_GB%3A15" +
		"&resources1=VGPU%3A1%2CVGPU_DISPLAY_HEAD%3A2&resources24=SRIOV_NET_VF%3A2&resources3=VCPU%3A2&resources42=SRIOV_NET_VF%3A1"
	if diff := cmp.Diff(want, build(t, f, nil, requestspec.Options{NoFilters: true}).Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}

func havingRequestedResources(t *testing.T) {
	group := requestspec.Group{RequesterID: "mine", Resources: map[string]int{"CUSTOM_X": 1}}
	t.Run("good", func(t *testing.T) {
		if query := build(t, flavor(), nil, requestspec.Options{Groups: []requestspec.Group{group}}).Query(); !strings.Contains(query, "resourcesmine=CUSTOM_X%3A1") {
			t.Errorf("query %s", query)
		}
	})
	t.Run("no_id", func(t *testing.T) {
		_, err := requestspec.New(flavor(), nil, requestspec.Options{Groups: []requestspec.Group{{Resources: group.Resources}}})
		if !errors.Is(err, requestspec.ErrInvalidGroup) || !strings.Contains(err.Error(), "missing requester_id") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("conflict", func(t *testing.T) {
		_, err := requestspec.New(flavor("resourcesmine:VGPU", "1"), nil, requestspec.Options{Groups: []requestspec.Group{group}})
		if !errors.Is(err, requestspec.ErrDuplicateSuffix) || !strings.Contains(err.Error(), "mine") {
			t.Errorf("got %v", err)
		}
	})
}

func groupPolicies(t *testing.T) {
	one, two := requestspec.Group{RequesterID: "p1", Resources: map[string]int{"FPGA": 1}}, requestspec.Group{RequesterID: "p2", Resources: map[string]int{"FPGA": 1}}
	tests := []struct {
		name  string
		specs []string
		ports []requestspec.Group
		want  requestspec.GroupPolicy
	}{
		{"one_flavor_group", []string{"resources1:VGPU", "1"}, nil, ""},
		{"one_port_group", nil, []requestspec.Group{one}, ""},
		{"two_flavor_groups", []string{"resources1:VGPU", "1", "resources2:VGPU", "1"}, nil, ""},
		{"flavor_and_port", []string{"resources1:VGPU", "1"}, []requestspec.Group{one}, "none"},
		{"two_ports", nil, []requestspec.Group{one, two}, "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := build(t, flavor(tt.specs...), nil, requestspec.Options{Groups: tt.ports})
			if spec.GroupPolicy != tt.want || strings.Contains(spec.Query(), "group_policy") != (tt.want != "") {
				t.Errorf("policy %q, want %q", spec.GroupPolicy, tt.want)
			}
		})
	}
}

func fromRequestGroups(t *testing.T) {
	spec := requestspec.RequestSpec{Limit: 1000, SameSubtree: [][]string{{"_b", "_a"}, {"_c"}},
		RootRequired: []string{"CUSTOM_ROOT", "COMPUTE_X"}, RootForbidden: []string{"COMPUTE_STATUS_DISABLED"},
		Groups: []requestspec.Group{{RequesterID: "_a", Resources: map[string]int{"VCPU": 1}, Required: []string{"CUSTOM_MAGIC"}}, {RequesterID: "_b", Resources: map[string]int{"SRIOV_NET_VF": 1}}}}
	const want = "limit=1000&required_a=CUSTOM_MAGIC&resources_a=VCPU%3A1&resources_b=SRIOV_NET_VF%3A1" +
		"&root_required=COMPUTE_X%2CCUSTOM_ROOT%2C%21COMPUTE_STATUS_DISABLED&same_subtree=_a%2C_b&same_subtree=_c"
	if diff := cmp.Diff(want, spec.Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
}

func emptyGroupsForbidden(t *testing.T) {
	_, err := requestspec.New(flavor(), nil, requestspec.Options{Groups: []requestspec.Group{{RequesterID: "p"}}})
	if !errors.Is(err, requestspec.ErrInvalidGroup) || !strings.Contains(err.Error(), "refusing to add no-op group with requester_id=p") {
		t.Errorf("got %v", err)
	}
}

func neutronResourceRequests(t *testing.T) {
	accelerated := requestspec.Port{UUID: portUUID, VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: "dp"}
	changed := func(change func(*requestspec.Port)) requestspec.Port {
		p := accelerated
		change(&p)
		return p
	}
	tests := []struct {
		name    string
		port    requestspec.Port
		profile *requestspec.Profile
		version int
		wantErr string // part of the text
		is      error
	}{
		{name: "ok", port: accelerated, profile: profile(oneFPGA)},
		{name: "physical", port: changed(func(p *requestspec.Port) { p.VNICType = requestspec.VNICAcceleratorDirectPhysical }), profile: profile(oneFPGA), version: 57},
		{name: "no_profile_of_port", port: changed(func(p *requestspec.Port) { p.DeviceProfile = "" }), wantErr: "No device profile for port " + portUUID + "."},
		{name: "profile_not_found", port: accelerated, wantErr: "Device profile name dp: Expected 1 device profile but got nothing."},
		{name: "another_profile", port: accelerated, profile: &requestspec.Profile{Name: "b", Groups: oneFPGA}, wantErr: `"b" is given`},
		{name: "arq_reject_multi_devices", port: accelerated, profile: profile([]map[string]string{{"resources:FPGA": "2"}}),
			wantErr: "Device profile name dp: request multiple devices for single port."},
		{name: "two_groups", port: accelerated, profile: profile([]map[string]string{{"resources:FPGA": "1"}, {"resources:PGPU": "1"}}), wantErr: "request multiple devices"},
		{name: "two_functions_of_a_card", port: accelerated, profile: profile([]map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"}}), wantErr: "It requests 2"},
		{name: "sum_of_zero", port: accelerated, profile: profile([]map[string]string{{"trait:CUSTOM_A": "required"}}), wantErr: "no resources key", is: requestspec.ErrInvalidProfile},
		{name: "version_56", port: accelerated, profile: profile(oneFPGA), version: 56, wantErr: "Port with cyborg profile is not available until upgrade finished."},
		{name: "no_uuid", port: changed(func(p *requestspec.Port) { p.UUID = "p" }), profile: profile(oneFPGA), wantErr: `"p": its id is not a UUID`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups, err := requestspec.PortGroups(tt.port, tt.profile, tt.version)
			if tt.wantErr == "" {
				want := []requestspec.Group{{RequesterID: "device_profile_0" + portUUID, UseSameProvider: true, Resources: map[string]int{"FPGA": 1}, Required: []string{"CUSTOM_FAKE_DEVICE"}}}
				if diff := cmp.Diff(want, groups, cmpopts.EquateEmpty()); err != nil || diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				return
			}
			if !errors.Is(err, requestspec.ErrInvalidPort) || !strings.Contains(err.Error(), tt.wantErr) || groups != nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v and %v, want %q", groups, err, tt.wantErr)
			}
		})
	}
	t.Run("other_ports_have_none", func(t *testing.T) {
		groups, err := requestspec.PortGroups(requestspec.Port{UUID: "p", VNICType: "normal"}, nil, 1)
		if err != nil || groups != nil {
			t.Errorf("got %v, %v", groups, err)
		}
	})
}
