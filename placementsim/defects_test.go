package placementsim

import (
	"fmt"
	"strings"
	"testing"
)

// Placement 16.0.0 answers so; without the quirks the requests are answered as the documentation says.
func TestUpstreamQuirks(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	build := func(quirks bool) *Server {
		s := newServer(t, Config{UpstreamQuirks: quirks})
		for i, p := range []ResourceProvider{
			{Name: "root"}, {Name: "middle", Parent: nested(0)},
			{Name: "shared", Parent: nested(1), Inventories: map[string]Inventory{"DISK_GB": {Total: 64}}, Traits: []string{"MISC_SHARES_VIA_AGGREGATE"}, Aggregates: []string{agg}},
			{Name: "host", Inventories: map[string]Inventory{"MEMORY_MB": {Total: 64}}, Aggregates: []string{agg}},
		} {
			p.UUID = nested(i)
			addProvider(t, s, p)
		}
		return s
	}
	const none, some = `"allocation_requests": []`, `"allocation_requests": [{`
	fails := func(text string) string { return `performing the requested operation.\n\n ` + text + `  "` }
	for _, tt := range []struct {
		method, path, body    string
		status                int // with the quirks
		contains              string
		corrected             int
		containsWhenCorrected string
	}{
		{"GET", "/allocation_candidates?resources=DISK_GB:3,MEMORY_MB:8", "", 500, fails("3"), 200, some},
		{"GET", "/allocation_candidates?resources=DISK_GB:3,MEMORY_MB:8&resources1=DISK_GB:3", "", 500, fails("3"), 200, some},
		{"GET", "/allocation_candidates?resources=DISK_GB:3,MEMORY_MB:8&resources1=DISK_GB:999", "", 500, fails("3"), 200, none},
		{"GET", "/allocation_candidates?resources1=DISK_GB:3&resources=DISK_GB:3,MEMORY_MB:8", "", 200, some, 200, some}, // the tree is read for the first group
		{"GET", "/allocation_candidates?resources1=DISK_GB:999&resources=DISK_GB:3,MEMORY_MB:8", "", 200, none, 200, none},
		{"GET", "/allocation_candidates?resources=DISK_GB:3", "", 200, some, 200, some},
		{"GET", "/allocation_candidates?resources=MEMORY_MB:8&required=MISC_SHARES_VIA_AGGREGATE", "", 200, none, 200, none},
		{"GET", "/allocation_candidates?resources=DISK_GB:3,MEMORY_MB:8&in_tree=" + nested(3), "", 200, none, 200, none},
		{"GET", "/allocation_candidates?resources=DISK_GB:3,MEMORY_MB:8&member_of=!" + agg, "", 200, none, 200, none},
		{"GET", "/allocation_candidates?resources=DISK_GB:3,MEMORY_MB:8&required=CUSTOM_NEVER", "", 400, "No such trait(s)", 400, "No such trait(s)"},
		{"GET", "/allocation_candidates?resources=DISK_GB:1&limit=x&limit=1", "", 500, fails("invalid literal for int() with base 10: 'x'"), 400, "'x' does not match"},
		{"GET", "/allocation_candidates?resources=DISK_GB:1&limit=1&limit=x", "", 400, "'x' does not match", 400, "'x' does not match"},
		{"GET", "/allocation_candidates?resources=DISK_GB:1&group_policy=x&group_policy=none", "", 200, some, 400, "'x' is not one of"},
		{"GET", "/allocation_candidates?resources_B=MEMORY_MB:8&required_A=!HW_CPU_X86_AVX&same_subtree=_A,_B&group_policy=none", "", 200, none, 200, some},
		{"GET", "/allocation_candidates?resources_B=MEMORY_MB:8&in_tree_A=" + nested(3) + "&same_subtree=_A,_B&group_policy=none", "", 200, none, 200, some},
		{"GET", "/allocation_candidates?resources_B=DISK_GB:8&required_A=MISC_SHARES_VIA_AGGREGATE&in_tree_A=" + nested(3) + "&same_subtree=_A,_B&group_policy=none", "", 200, some, 200, none},
		{"GET", "/traits?name=startswith:hw_cpu%25vmx", "", 200, "HW_CPU_X86_VMX", 200, `{"traits":[]}`},
		{"GET", "/traits?name=startswith:HW_CPU_X86_VMX", "", 200, `{"traits":["HW_CPU_X86_VMX"]}`, 200, `{"traits":["HW_CPU_X86_VMX"]}`},
		{"PUT", "/resource_providers/" + nested(3) + "/inventories", `{"resource_provider_generation": 2, "inventories": {"bad": {}}}`, 500, fails("unsupported operand type(s) for -: 'NoneType' and 'int'"), 400, "'total' is a required property"},
	} {
		for _, quirks := range []bool{true, false} {
			status, contains := tt.corrected, tt.containsWhenCorrected
			if quirks {
				status, contains = tt.status, tt.contains
			}
			got := send(t, build(quirks), "1.39", tt.method, tt.path, tt.body)
			if got.status != status || !strings.Contains(got.body, contains) {
				t.Errorf("quirks %t: %s %s %s: got %d %s, want %d %s", quirks, tt.method, tt.path, tt.body, got.status, got.body, status, contains)
			}
		}
	}
}
