package placementsim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// worked is the world of the worked examples: a host cn1 with two NUMA nodes
// and three FPGAs, a flat host cn2, and shared storage ss1.
func worked(t testing.TB) *Server {
	t.Helper()
	s := newServer(t, Config{})
	memory0 := Inventory{Total: 2048, MinUnit: 512, StepSize: 256}
	memory1 := Inventory{Total: 2048, MinUnit: 256, MaxUnit: 1024}
	for i, n := range []ResourceProvider{
		{Name: "cn1", Traits: []string{"CUSTOM_T"}, Aggregates: []string{agg}},
		{Name: "numa0", Parent: "cn1", Inventories: map[string]Inventory{"VCPU": {Total: 4}, "MEMORY_MB": memory0}},
		{Name: "numa1", Parent: "cn1", Inventories: map[string]Inventory{"VCPU": {Total: 4}, "MEMORY_MB": memory1}, Traits: []string{"CUSTOM_FOO"}},
		{Name: "fpga0", Parent: "numa0", Inventories: map[string]Inventory{"FPGA": {Total: 1}}},
		{Name: "fpga1_0", Parent: "numa1", Inventories: map[string]Inventory{"FPGA": {Total: 1}}},
		{Name: "fpga1_1", Parent: "numa1", Inventories: map[string]Inventory{"FPGA": {Total: 1}}},
		{Name: "ss1", Inventories: map[string]Inventory{"DISK_GB": {Total: 2000}}, Traits: []string{"MISC_SHARES_VIA_AGGREGATE"}, Aggregates: []string{agg}},
		{Name: "cn2", Inventories: map[string]Inventory{"VCPU": {Total: 8}, "DISK_GB": {Total: 1000}}, Traits: []string{"CUSTOM_FOO"}, Aggregates: []string{agg}},
	} {
		n.UUID = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		if n.Parent != "" {
			n.Parent = uuidOf(t, s, n.Parent)
		}
		addProvider(t, s, n)
	}
	return s
}

func uuidOf(t testing.TB, s *Server, name string) string {
	t.Helper()
	for _, p := range s.ResourceProviders() {
		if p.Name == name {
			return p.UUID
		}
	}
	t.Fatalf("no provider %s", name)
	return ""
}

// candidatesOf asks for candidates and writes each one as
// "provider:CLASS=n provider:CLASS=n", sorted.
func candidatesOf(t testing.TB, s *Server, version, query string) []string {
	t.Helper()
	names := make(map[string]string)
	for _, p := range s.ResourceProviders() {
		names[p.UUID] = p.Name
	}
	got := send(t, s, version, "GET", "/allocation_candidates?"+query, "")
	if got.status != 200 {
		t.Fatalf("%s: got %d %s", query, got.status, got.body)
	}
	list := []string{}
	for _, request := range array(got.at(t, "allocation_requests")) {
		var parts []string
		for uuid, entry := range fields(fields(request)["allocations"]) {
			for class, amount := range fields(fields(entry)["resources"]) {
				parts = append(parts, fmt.Sprintf("%s:%s=%v", names[uuid], class, amount))
			}
		}
		slices.Sort(parts)
		list = append(list, strings.Join(parts, " "))
	}
	slices.Sort(list)
	return list
}

func TestWorkedExamples(t *testing.T) {
	t.Parallel()
	s := worked(t)
	tests := []struct {
		version, query string
		want           []string
	}{
		{"1.39", "resources=VCPU:1&required=CUSTOM_T", nil},
		{"1.39", "resources=VCPU:1&required=CUSTOM_FOO", []string{"cn2:VCPU=1", "numa1:VCPU=1"}},
		{"1.39", "resources=VCPU:1,FPGA:1", []string{
			"fpga0:FPGA=1 numa0:VCPU=1", "fpga0:FPGA=1 numa1:VCPU=1", "fpga1_0:FPGA=1 numa0:VCPU=1",
			"fpga1_0:FPGA=1 numa1:VCPU=1", "fpga1_1:FPGA=1 numa0:VCPU=1", "fpga1_1:FPGA=1 numa1:VCPU=1",
		}},
		{"1.28", "resources=VCPU:1,FPGA:1", nil},
		{"1.28", "resources=VCPU:1,DISK_GB:1", []string{"cn2:DISK_GB=1 cn2:VCPU=1", "cn2:VCPU=1 ss1:DISK_GB=1", "numa0:VCPU=1 ss1:DISK_GB=1", "numa1:VCPU=1 ss1:DISK_GB=1"}},
		{"1.39", "resources=VCPU:1&member_of=" + agg, []string{"cn2:VCPU=1", "numa0:VCPU=1", "numa1:VCPU=1"}},
		{"1.39", "resources1=VCPU:1&member_of1=" + agg, []string{"cn2:VCPU=1"}},
		{"1.39", "resources=VCPU:1&member_of=!" + agg, nil},
		{"1.39", "resources1=VCPU:1&member_of1=!" + agg, []string{"numa0:VCPU=1", "numa1:VCPU=1"}},
		{"1.39", "resources=MEMORY_MB:700", []string{"numa1:MEMORY_MB=700"}},
		{"1.39", "resources=MEMORY_MB:512&resources1=MEMORY_MB:768&group_policy=none", []string{"numa0:MEMORY_MB=1280", "numa0:MEMORY_MB=512 numa1:MEMORY_MB=768", "numa0:MEMORY_MB=768 numa1:MEMORY_MB=512"}},
		{"1.39", "resources_B=VCPU:1&required_A=CUSTOM_FOO&same_subtree=_A,_B&group_policy=none", []string{"cn2:VCPU=1", "numa1:VCPU=1"}},
		// Corrected: amounts of groups that share a class are summed up.
		{"1.39", "resources=FPGA:1&resources_A=FPGA:1", []string{
			"fpga0:FPGA=1 fpga1_0:FPGA=1", "fpga0:FPGA=1 fpga1_0:FPGA=1", "fpga0:FPGA=1 fpga1_1:FPGA=1",
			"fpga0:FPGA=1 fpga1_1:FPGA=1", "fpga1_0:FPGA=1 fpga1_1:FPGA=1", "fpga1_0:FPGA=1 fpga1_1:FPGA=1",
		}},
		// Corrected: no anchor is lost for the shared disk.
		{"1.39", "resources=DISK_GB:1&resources1=VCPU:1", []string{"cn2:DISK_GB=1 cn2:VCPU=1", "cn2:VCPU=1 ss1:DISK_GB=1", "numa0:VCPU=1 ss1:DISK_GB=1", "numa1:VCPU=1 ss1:DISK_GB=1"}},
		// Corrected: a group without resources may only exclude, and lie in a tree.
		{"1.39", "resources_B=FPGA:1&required_A=!CUSTOM_FOO&same_subtree=_A,_B&group_policy=isolate&in_tree_A=" + uuidOf(t, s, "fpga1_0"), []string{"fpga0:FPGA=1", "fpga0:FPGA=1", "fpga1_0:FPGA=1", "fpga1_1:FPGA=1"}},
		{"1.39", "resources=VCPU:1&root_required=CUSTOM_T", []string{"numa0:VCPU=1", "numa1:VCPU=1"}},
		{"1.39", "resources=VCPU:1&root_required=!CUSTOM_T", []string{"cn2:VCPU=1"}},
		{"1.39", "resources=MEMORY_MB:700&limit=1", []string{"numa1:MEMORY_MB=700"}},
		{"1.39", "resources=VCPU:99999999999999999999", nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(append([]string{}, tt.want...), candidatesOf(t, s, tt.version, tt.query)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.version, tt.query, diff)
		}
	}
}

func TestCandidateAnswerByMicroversion(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	const query = "/allocation_candidates?resources=FPGA:1"
	summary := func(extra string) string {
		return `"provider_summaries": {"` + rp2 + `": {"resources": {"FPGA": {"capacity": 2, "used": 0}}` + extra + `}}}`
	}
	allocations := `{"` + rp2 + `": {"resources": {"FPGA": 1}}}`
	traits := `, "traits": ["CUSTOM_FPGA_INTEL"]`
	nested := `"provider_summaries": {"` + rp1 + `": {"resources": {"VCPU": {"capacity": 8, "used": 0}}, "traits": ["COMPUTE_ACCELERATORS"], "parent_provider_uuid": null, "root_provider_uuid": "` + rp1 + `"}, "` +
		rp2 + `": {"resources": {"FPGA": {"capacity": 2, "used": 0}}, "traits": ["CUSTOM_FPGA_INTEL"], "parent_provider_uuid": "` + rp1 + `", "root_provider_uuid": "` + rp1 + `"}}}`
	for version, want := range map[string]string{
		"1.10": `{"allocation_requests": [{"allocations": [{"resource_provider": {"uuid": "` + rp2 + `"}, "resources": {"FPGA": 1}}]}], ` + summary(""),
		"1.12": `{"allocation_requests": [{"allocations": ` + allocations + `}], ` + summary(""),
		"1.17": `{"allocation_requests": [{"allocations": ` + allocations + `}], ` + summary(traits),
		"1.29": `{"allocation_requests": [{"allocations": ` + allocations + `}], ` + nested,
		"1.34": `{"allocation_requests": [{"allocations": ` + allocations + `, "mappings": {"": ["` + rp2 + `"]}}], ` + nested,
	} {
		got := send(t, s, version, "GET", query, "")
		if diff := cmp.Diff(want, got.body); got.status != 200 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s", version, got.status, diff)
		}
	}
	if got := send(t, s, "1.26", "GET", "/allocation_candidates?resources=PGPU:1", ""); got.body != `{"allocation_requests": [], "provider_summaries": {}}` {
		t.Errorf("nothing found: %s", got.body)
	}
}

func TestCandidateQueryErrors(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	tests := []struct {
		version, query, text, code string
	}{
		{"1.24", "limit=1", "'resources' is a required property", ""},
		{"1.24", "resources1=VCPU:1&resources=VCPU:1", "'resources1' was unexpected", ""},
		{"1.25", "limit=1", "At least one request group (`resources` or `resources{$S}`) is required.", ""},
		{"1.25", "resources01=VCPU:1", "'resources01' does not match any of the regexes: '^member_of([1-9][0-9]*)?$', '^required([1-9][0-9]*)?$', '^resources([1-9][0-9]*)?$'", ""},
		{"1.33", "resources_" + strings.Repeat("x", 64) + "=VCPU:1", "does not match any of the regexes: '^in_tree([a-zA-Z0-9_-]{1,64})?$'", ""},
		{"1.35", "resources2=VCPU:1&required=CUSTOM_FPGA_INTEL&required1=CUSTOM_FPGA_INTEL", "Found the following orphaned traits keys: required, required1", ""},
		{"1.35", "resources2=VCPU:1&member_of=" + agg, "Found the following orphaned member_of keys: member_of", ""},
		{"1.35", "resources2=VCPU:1&in_tree1=" + rp1, "All request groups must specify resources.", ""},
		{"1.36", "required=CUSTOM_FPGA_INTEL", "There must be at least one resources or resources[$S] parameter.", codeMissingValue},
		{"1.36", "resources=VCPU:1&required_A=CUSTOM_FPGA_INTEL", "Resourceless suffixed group request should be specified in `same_subtree` query param", codeBadValue},
		{"1.36", "resources_A=VCPU:1&resources=VCPU:1&same_subtree=_A,_B&same_subtree=_B", "Real suffixes should be specified in `same_subtree`: ['_B'] not found in ['_A', ''].", codeBadValue},
		{"1.36", "resources_A=VCPU:1&same_subtree=_A,", "Empty string (unsuffixed group) can not be specified in `same_subtree` ", codeBadValue},
		{"1.39", "resources1=VCPU:1&resources2=VCPU:1", `The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.`, ""},
		{"1.39", "resources1=VCPU:1&group_policy=bogus", "'bogus' is not one of ['none', 'isolate']", ""},
		{"1.39", "resources=VCPU:1&limit=01", "Failed validating 'pattern'", ""},
		{"1.39", "resources=VCPU:1&limit=4&limit=x", "'x' does not match", ""},
		{"1.39", "resources=VCPU:1&limit=x&limit=4", "'x' does not match", ""},
		{"1.39", "resources=VCPU:1&group_policy=none&group_policy=bogus", "'bogus' is not one of ['none', 'isolate']", ""},
		{"1.39", "resources=", "Got: empty string.", ""},
		{"1.39", "resources=VCPU:fred", "Requested resource VCPU expected positive integer amount. Got: fred.", ""},
		{"1.39", "resources=VCPU:-2", "Requested resource VCPU requires amount >= 1. Got: -2.", ""},
		{"1.39", "resources=VCPU:%20-0_2", "Requested resource VCPU requires amount >= 1. Got: -2.", ""},
		{"1.39", "resources=VCPU:1__0", "Requested resource VCPU expected positive integer amount. Got: 1__0.", ""},
		{"1.39", "resources=VCPU:1;resources%=VCPU:1", "'resources%' does not match any of the regexes", ""},
		{"1.39", "resources=VCPU:0&resources=VCPU:1", "Requested resource VCPU requires amount >= 1. Got: 0.", ""},
		{"1.39", "resources1=VCPU:0&resources=VCPU", "Requested resource VCPU requires amount >= 1. Got: 0.", ""},
		{"1.39", "resources=NOPE:2", "Invalid resource class in resources parameter", ""},
		{"1.39", "resources=VCPU:1&required=!CUSTOM_X&root_required=CUSTOM_Y", "No such trait(s): CUSTOM_Y.", ""},
		{"1.39", "resources=VCPU:1&required=CUSTOM_X,CUSTOM_Y", "No such trait(s): CUSTOM_X.", ""},
		{"1.21", "resources=VCPU:1&required=", "Expected 'required' parameter value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC.", ""},
		{"1.21", "resources=VCPU:1&required=!HW_CPU_X86_AVX", "Got: !HW_CPU_X86_AVX", ""},
		{"1.38", "resources=VCPU:1&required=in:HW_CPU_X86_AVX", "only supported since microversion 1.39.", ""},
		{"1.39", "resources=VCPU:1&root_required=in:HW_CPU_X86_AVX", "only supported since microversion 1.39.", ""},
		{"1.39", "resources=VCPU:1&required=in:HW_CPU_X86_AVX,!HW_CPU_X86_MMX", "does not support forbidden traits", ""},
		{"1.39", "resources1=VCPU:1&required1=CUSTOM_FPGA_INTEL,!CUSTOM_FPGA_INTEL", "Conflicting required and forbidden traits found in the following traits keys: required1: (CUSTOM_FPGA_INTEL)", ""},
		{"1.39", "resources=VCPU:1&required=CUSTOM_FPGA_INTEL,!CUSTOM_FPGA_INTEL&required=COMPUTE_ACCELERATORS,!COMPUTE_ACCELERATORS", "traits keys: required: (COMPUTE_ACCELERATORS), required: (CUSTOM_FPGA_INTEL)", ""},
		{"1.39", "resources=VCPU:1&root_required=CUSTOM_FPGA_INTEL,!CUSTOM_FPGA_INTEL", "Conflicting required and forbidden traits found in root_required: CUSTOM_FPGA_INTEL", codeBadValue},
		{"1.39", "resources=VCPU:1&root_required=CUSTOM_FPGA_INTEL&root_required=CUSTOM_FPGA_INTEL", "Query parameter 'root_required' may be specified only once.", codeDuplicateKey},
		{"1.39", "resources=VCPU:1&member_of=x", "Expected 'member_of' parameter to contain valid UUID(s).", ""},
		{"1.39", "resources=VCPU:1&in_tree=x", "Expected 'in_tree' parameter to be a format of uuid", ""},
		{"1.31", "resources1=VCPU:1&member_of1=!" + agg, "Forbidden member_of1 parameters are not supported in the specified microversion", ""},
		{"1.31", "resources=VCPU:1&member_of2=!" + agg + "&resources2=VCPU:1&member_of=!" + agg, "Forbidden member_of2 parameters are not supported", ""},
		{"1.31", "resources=VCPU:1&member_of=!x", "Expected 'member_of' parameter to contain valid UUID(s). Got: x", ""},
		{"1.23", "resources=VCPU:1&member_of=" + agg + "&member_of=" + agg, "Multiple member_of parameters are not supported", ""},
	}
	for _, tt := range tests {
		got := send(t, s, tt.version, "GET", "/allocation_candidates?"+tt.query, "")
		detail, _ := got.at(t, "errors", "0", "detail").(string)
		if got.status != 400 || !strings.Contains(detail, tt.text) {
			t.Errorf("%s %s: got %d %q, want %q", tt.version, tt.query, got.status, detail, tt.text)
		}
		if tt.code != "" && got.at(t, "errors", "0", "code") != tt.code {
			t.Errorf("%s %s: got %s, want code %s", tt.version, tt.query, got.body, tt.code)
		}
	}
}

// The service looks names up one by one, and never those behind a condition that leaves nothing.
func TestNamesAreLookedUpInTheServicesOrder(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	tests := []struct{ query, text string }{ // no text: nothing is found
		{"allocation_candidates?resources=VCPU:99&resources1=VCPU:1&required1=CUSTOM_NEVER&group_policy=none", ""},
		{"allocation_candidates?resources1=VCPU:1&required1=CUSTOM_NEVER&resources=VCPU:99&group_policy=none", "No such trait(s): CUSTOM_NEVER."},
		{"allocation_candidates?resources=VCPU:1&resources1=CUSTOM_NEVER:1&group_policy=none", "No such resource class CUSTOM_NEVER."},
		{"allocation_candidates?resources=VCPU:99&resources1=CUSTOM_NEVER:1&group_policy=none", ""},
		{"allocation_candidates?resources=CUSTOM_NEVER:1&resources1=VCPU:99&group_policy=none", "No such resource class CUSTOM_NEVER."},
		{"allocation_candidates?resources=CUSTOM_NEVER:1&member_of=" + agg, "No such resource class CUSTOM_NEVER."},
		{"allocation_candidates?resources=VCPU:1&required=CUSTOM_NEVER&member_of=" + agg, ""},
		{"allocation_candidates?resources=VCPU:1&required=!CUSTOM_NEVER&in_tree=" + con, "No such trait(s): CUSTOM_NEVER."},
		{"allocation_candidates?resources=VCPU:1&in_tree=" + con + "&resources1=CUSTOM_NEVER:1", ""},
		{"allocation_candidates?resources=CUSTOM_NEVER:1&root_required=HW_CPU_X86_AVX", ""},
		{"allocation_candidates?resources=CUSTOM_NEVER:1&root_required=COMPUTE_ACCELERATORS", "No such resource class CUSTOM_NEVER."},
		{"allocation_candidates?resources=VCPU:1&root_required=HW_CPU_X86_AVX,CUSTOM_NEVER", "No such trait(s): CUSTOM_NEVER."},
		{"allocation_candidates?resources=FPGA:1&resources1=VCPU:1&required1=in:CUSTOM_B,CUSTOM_A&group_policy=none", "No such trait(s): CUSTOM_B."},
		{"resource_providers?resources=CUSTOM_NEVER:1&member_of=" + agg, ""},
		{"resource_providers?resources=CUSTOM_NEVER:1", "No such resource class CUSTOM_NEVER."},
		{"resource_providers?resources=CUSTOM_NEVER:1&name=unknown", "No such resource class CUSTOM_NEVER."},
		{"resource_providers?required=CUSTOM_NEVER&in_tree=" + con, ""},
		{"resource_providers?required=CUSTOM_NEVER&member_of=" + agg, "No such trait(s): CUSTOM_NEVER."},
		{"resource_providers?required=HW_CPU_X86_AVX,!CUSTOM_NEVER", ""},
		{"resource_providers?required=COMPUTE_ACCELERATORS,!CUSTOM_NEVER", "No such trait(s): CUSTOM_NEVER."},
		{"resource_providers?resources=CUSTOM_NEVER:1&required=HW_CPU_X86_AVX", ""},
	}
	for _, tt := range tests {
		got := send(t, s, "1.39", "GET", "/"+tt.query, "")
		detail, _ := got.at(t, "errors", "0", "detail").(string)
		if tt.text == "" && (got.status != 200 || strings.Contains(got.body, rp1)) || tt.text != "" && (got.status != 400 || !strings.Contains(detail, tt.text)) {
			t.Errorf("%s: got %d %s, want %q", tt.query, got.status, got.body, tt.text)
		}
	}
}

func TestMaximumOfCandidatesAndStrategies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		cfg   Config
		limit string
		want  []int // candidates per host
	}{
		{"default", Config{}, "", []int{8, 8, 8}},
		{"upstream's -1", Config{MaxAllocationCandidates: -1, GenerationStrategy: StrategyBreadthFirst}, "", []int{8, 8, 8}},
		{"depth-first", Config{MaxAllocationCandidates: 6}, "", []int{6, 0, 0}},
		{"depth-first, beyond a host", Config{MaxAllocationCandidates: 10, GenerationStrategy: StrategyDepthFirst}, "", []int{8, 2, 0}},
		{"breadth-first", Config{MaxAllocationCandidates: 6, GenerationStrategy: StrategyBreadthFirst}, "", []int{2, 2, 2}},
		{"breadth-first, not even", Config{MaxAllocationCandidates: 5, GenerationStrategy: StrategyBreadthFirst}, "", []int{2, 2, 1}},
		{"breadth-first, more than there are", Config{MaxAllocationCandidates: 100, GenerationStrategy: StrategyBreadthFirst}, "", []int{8, 8, 8}},
		{"limit below the maximum, depth-first", Config{MaxAllocationCandidates: 6}, "&limit=3", []int{3, 0, 0}},
		{"limit below the maximum, breadth-first", Config{MaxAllocationCandidates: 3, GenerationStrategy: StrategyBreadthFirst, Seed: 1}, "&limit=2", []int{1, 1, 0}},
		{"limit", Config{}, "&limit=9", []int{4, 1, 4}},
		{"limit, another seed", Config{Seed: 1}, "&limit=9", []int{2, 3, 4}},
		{"limit above the maximum", Config{MaxAllocationCandidates: 6}, "&limit=7", []int{6, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tt.cfg)
			for host := range 3 {
				root := addProvider(t, s, ResourceProvider{Name: fmt.Sprint("cn", host)})
				for i := range 8 {
					addProvider(t, s, ResourceProvider{Name: fmt.Sprintf("cn%d_%d", host, i), Parent: root.UUID, Inventories: map[string]Inventory{"PGPU": {Total: 1}}})
				}
			}
			got := make([]int, 3)
			for _, candidate := range candidatesOf(t, s, "1.39", "resources=PGPU:1"+tt.limit) {
				got[candidate[len("cn")]-'0']++
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("candidates of the hosts (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := New(Config{GenerationStrategy: "sideways"}); !errors.Is(err, ErrConfig) {
		t.Errorf("unknown strategy: got error %v, want ErrConfig", err)
	}
}

// Groups of 2 and 1 share a provider with a capacity of 4 and 2 used.
func TestWideTreesAreComparedWithCapacity(t *testing.T) {
	t.Parallel()
	for _, optimized := range []bool{false, true} {
		s := newServer(t, Config{OptimizeForWideProviderTrees: optimized})
		p := addProvider(t, s, ResourceProvider{Name: "cn0", Inventories: map[string]Inventory{"VGPU": {Total: 4}}})
		claim := func(consumer string, used int) error {
			return s.Claim(Claim{Consumer: consumer, Project: "p", User: "u", Type: "INSTANCE", Allocations: []Allocation{{Provider: p.UUID, Class: "VGPU", Used: used}}})
		}
		must(t, claim(con, 2))
		found := candidatesOf(t, s, "1.39", "resources1=VGPU:2&resources2=VGPU:1&group_policy=none")
		if (len(found) == 1) != optimized {
			t.Errorf("optimized %v: got %v", optimized, found)
		}
		if found := candidatesOf(t, s, "1.39", "resources1=VGPU:4&resources2=VGPU:1&group_policy=none"); len(found) != 0 {
			t.Errorf("optimized %v, beyond the capacity: got %v", optimized, found)
		}
		if err := claim(con2, 3); !errors.Is(err, ErrConflict) {
			t.Errorf("optimized %v: the claim of both groups: %v, want ErrConflict", optimized, err)
		}
	}
}

// TestQueryStringAskedAgain: a query string that is known is read as its microversion does, and
// searched in the present state.
func TestQueryStringAskedAgain(t *testing.T) {
	t.Parallel()
	const query = "/allocation_candidates?resources=VCPU:1&required=CUSTOM_NEW"
	s := worked(t)
	converse(t, s,
		turn{"1.39", "GET", query, "", 400, []string{"No such trait"}, ""},
		turn{"1.39", "PUT", "/traits/CUSTOM_NEW", "", 201, nil, ""},
		turn{"1.39", "GET", query, "", 200, []string{`"allocation_requests": []`}, ""},
		turn{"1.16", "GET", query, "", 400, []string{"'required' was unexpected"}, ""},
	)
	must(t, s.SetTraits(uuidOf(t, s, "cn2"), "CUSTOM_NEW"))
	converse(t, s,
		turn{"1.39", "GET", query, "", 200, []string{`"mappings": {"": [`}, ""},
		turn{"1.17", "GET", query, "", 200, []string{uuidOf(t, s, "cn2")}, ""},
		turn{"1.11", "GET", "/allocation_candidates?resources=VCPU:1", "", 200, []string{`"allocations": [`}, ""},
		turn{"1.12", "GET", "/allocation_candidates?resources=VCPU:1", "", 200, []string{`"allocations": {`}, ""},
	)
}

// TestKnownQueryStringsAreBounded: a client with a new query string in each request does not fill the memory.
func TestKnownQueryStringsAreBounded(t *testing.T) {
	t.Parallel()
	s := worked(t)
	for n := range 3 * maxKnownQueries {
		send(t, s, "1.39", "GET", fmt.Sprintf("/allocation_candidates?resources=VCPU:1&limit=%d", n+1), "")
	}
	long := send(t, s, "1.39", "GET", "/allocation_candidates?resources=VCPU:1&required="+strings.Repeat("HW_CPU_X86_VMX,", maxKnownQueryBytes/10)+"HW_CPU_X86_AVX", "")
	if long.status != 200 {
		t.Fatalf("the long query string: status %d: %s", long.status, long.body)
	}
	kept := 0
	s.queries.parsed.Range(func(key, _ any) bool {
		if kept++; len(key.(queryString).raw) > maxKnownQueryBytes {
			t.Error("a long query string is kept")
		}
		return true
	})
	if kept == 0 || kept > maxKnownQueries {
		t.Errorf("%d query strings are kept, want 1 to %d", kept, maxKnownQueries)
	}
}
