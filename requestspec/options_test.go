package requestspec_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/google/go-cmp/cmp"
)

func TestOwnerNovaOnFlavorGroupsKeepsFlavorsOffCyborgsDevices(t *testing.T) {
	f := flavor("resources:VGPU", "1", "resources1:PGPU", "1", "resources1:VGPU", "1", "resources2:SRIOV_NET_VF", "1",
		"resources3:FPGA", "1", "resources3:PGPU", "1", "group_policy", "none", requestspec.DeviceProfileKey, "dp")
	spec := build(t, f, profile(oneFPGA), requestspec.Options{OwnerNova: true, OwnerNovaOnFlavorGroups: true})
	values := spec.Values()
	want := map[string]string{"required": "OWNER_NOVA,!OWNER_CYBORG", "required1": "OWNER_NOVA", "required2": "", "required3": "OWNER_NOVA", "requireddevice_profile_0": "CUSTOM_FAKE_DEVICE"}
	for name, traits := range want {
		if got := values.Get(name); got != traits {
			t.Errorf("%s = %q, want %q", name, got, traits)
		}
	}
	if got := build(t, f, profile(oneFPGA), requestspec.Options{OwnerNovaOnFlavorGroups: true}).Values().Get("required1"); got != "" {
		t.Errorf("without OwnerNova: required1 = %q", got)
	}
}

// An agent uses its groups again for the next request.
func TestTheGroupsOfTheCallerStay(t *testing.T) {
	traits := make([]string, 1, 4)
	traits[0] = "CUSTOM_A"
	groups := []requestspec.Group{{RequesterID: "pci-0", Resources: map[string]int{"CUSTOM_PCI": 1}, Required: traits}}
	opts := requestspec.Options{OwnerNova: true, PCIRequests: []string{"pci"}, Groups: groups}
	if got := build(t, flavor(), nil, opts).Values().Get("requiredpci-0"); got != "CUSTOM_A,OWNER_NOVA" {
		t.Fatalf("required %s", got)
	}
	if diff := cmp.Diff([]string{"CUSTOM_A", "", "", ""}, groups[0].Required[:cap(groups[0].Required)]); diff != "" {
		t.Errorf("traits of the caller's group (-want +got):\n%s", diff)
	}
}

// Stein and Train: whole numbers only, groups from elsewhere after the highest.
func TestNumericSuffixes(t *testing.T) {
	f := flavor(requestspec.DeviceProfileKey, "dp", "resources7:CUSTOM_X", "1", "resources_net:VGPU", "1", "trait07:CUSTOM_A", "required", "group_policy", "none")
	port := requestspec.Group{RequesterID: requestspec.Port{UUID: portUUID}.RequesterID(0), Resources: map[string]int{"FPGA": 1}, ForbiddenAggregates: []string{"a"}}
	spec := build(t, f, profile(twoGroups), requestspec.Options{NumericSuffixes: true, Groups: []requestspec.Group{port}, SameSubtree: [][]string{{"7"}}, OwnerNova: true})
	const want = "group_policy=none&limit=1000&member_of8=%21in%3Aa&required=COMPUTE_ACCELERATORS%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED&required9=CUSTOM_A%2C%21CUSTOM_B" +
		"&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2&resources10=CUSTOM_GPU%3A1&resources7=CUSTOM_X%3A1&resources8=FPGA%3A1&resources9=FPGA%3A2"
	if diff := cmp.Diff(want, spec.Query()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	if spec.Microversion() != "1.32" {
		t.Errorf("microversion %s, want that of forbidden aggregates", spec.Microversion())
	}
	groups := spec.DeviceGroups()
	if len(groups) != 2 || groups[1].RequesterID != "device_profile_1" || groups[1].Suffix != "10" {
		t.Errorf("device groups %+v", groups)
	}
	warned := map[string]bool{}
	for _, w := range spec.Warnings {
		warned[w.Key] = true
	}
	if !warned["resources_net:VGPU"] || !warned["trait07:CUSTOM_A"] || !warned["same_subtree"] {
		t.Errorf("warnings %v", spec.Warnings)
	}
}

func TestNumericQueryWithoutUnsuffixedGroupLosesTheRootTraits(t *testing.T) {
	f := requestspec.Flavor{Name: "f", ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "dp"}}
	spec := build(t, f, profile(oneFPGA), requestspec.Options{NumericSuffixes: true})
	if got := spec.Query(); got != "limit=1000&required1=CUSTOM_FAKE_DEVICE&resources1=FPGA%3A1" {
		t.Errorf("query %s", got)
	}
	if len(spec.Warnings) != 1 || spec.Warnings[0].Key != "root_required" || spec.Warnings[0].Value != "COMPUTE_ACCELERATORS" {
		t.Errorf("warnings %v", spec.Warnings)
	}
}

func TestMicroversionOfAQuery(t *testing.T) {
	tests := []struct {
		opts requestspec.Options
		want string
	}{
		{requestspec.Options{}, "1.36"},
		{requestspec.Options{NumericSuffixes: true}, "1.29"},
		{requestspec.Options{NumericSuffixes: true, InTree: computeNode}, "1.31"},
		{requestspec.Options{NumericSuffixes: true, ForbiddenAggregates: []string{"a"}}, "1.32"},
	}
	for _, tt := range tests {
		if got := build(t, flavor(), nil, tt.opts).Microversion(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.opts, got, tt.want)
		}
	}
}

func TestImageTraits(t *testing.T) {
	spec := build(t, flavor("trait:CUSTOM_Z", "required"), nil, requestspec.Options{ImageProperties: map[string]string{
		"trait:HW_CPU_X86_AVX": "required", "trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden", "trait:bad": "required", "hw_disk_bus": "virtio", "traits:X": "required",
	}})
	if warnings := spec.Warnings; len(warnings) != 2 || warnings[0].Key != "trait:CUSTOM_B" || warnings[0].Value != "forbidden" || warnings[1].Key != "trait:bad" {
		t.Errorf("warnings %+v", warnings)
	}
	if got := spec.Values().Get("required"); got != "CUSTOM_A,CUSTOM_Z,HW_CPU_X86_AVX,bad" {
		t.Errorf("required %s", got)
	}
}

func TestReadProfileChecksTheFormOnly(t *testing.T) {
	p, err := requestspec.ReadProfile([]byte(`{"name": "a b", "groups": [{"traits:x": 1}]}`))
	if err != nil || p.Name != "a b" || p.Groups[0]["traits:x"] != "1" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := requestspec.ReadProfile([]byte(`{"name": "a"}`)); !errors.Is(err, requestspec.ErrInvalidProfile) {
		t.Errorf("got %v", err)
	}
}

func ExamplePortGroups() {
	port := requestspec.Port{UUID: portUUID, VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: "nic"}
	groups, err := requestspec.PortGroups(port, &requestspec.Profile{Name: "nic", Groups: []map[string]string{{"resources:CUSTOM_NIC": "1"}}}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(groups[0].RequesterID)
	// Output: device_profile_07970ec1f-7ce0-4293-a2a3-92cbce8048b4
}
