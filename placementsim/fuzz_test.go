package placementsim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// target is a route that reads a body.
type target struct{ method, path string }

// fuzzBodies feeds bodies to the routes of one kind, at any microversion. No
// body may lead to a 5xx, and a refused one must not change anything.
func fuzzBodies(f *testing.F, seeds []string, targets ...target) {
	f.Helper()
	for _, body := range append(seeds, "", "{", "null", "[]", "{}", "\xff", `{"a":1e999999999}`, strings.Repeat("[", 20000)) {
		for _, minor := range []int{0, 7, 13, 19, 28, 30, 34, 39} {
			f.Add(body, minor)
		}
	}
	f.Fuzz(func(t *testing.T, body string, minor int) {
		v := version(max(0, min(minor, int(maxVersion))))
		s := seeded(t, Config{NoLeftoverConsumers: true, Policy: PolicyDefault})
		for _, to := range targets {
			before := dumpOf(s)
			got := send(t, s, v.String(), to.method, to.path, body, "Content-Type", "application/json")
			if got.status >= 500 {
				t.Errorf("%s %s: got %d %s", to.method, to.path, got.status, got.body)
			}
			if got.status < 400 {
				continue
			}
			if diff := cmp.Diff(before, dumpOf(s)); diff != "" {
				t.Errorf("%s %s: got %d, yet the state changed:\n%s", to.method, to.path, got.status, diff)
			}
		}
	})
}

// FuzzProviderBody feeds bodies to the writers of providers.
func FuzzProviderBody(f *testing.F) {
	fuzzBodies(f, []string{
		`{"name":"n"}`, `{"name":"n","uuid":"` + rp3 + `","parent_provider_uuid":"` + rp1 + `"}`, `{"name":"cn0"}`, `{"name":""}`,
		`{"name":"n","parent_provider_uuid":null}`, `{"name":"n","parent_provider_uuid":"` + rp2 + `"}`, `{"name":"\u0000\ud83d"}`,
	}, target{"POST", "/resource_providers"}, target{"PUT", "/resource_providers/" + rp1}, target{"PUT", "/resource_providers/" + rp2})
}

// FuzzInventoryBody feeds bodies to the writers of inventories.
func FuzzInventoryBody(f *testing.F) {
	fuzzBodies(f, []string{
		`{"resource_class":"FPGA","total":1}`, `{"resource_class":"CUSTOM_A","total":4.0,"reserved":4}`,
		`{"resource_provider_generation":2,"total":3,"allocation_ratio":1e300}`, `{"resource_provider_generation":2,"total":3,"allocation_ratio":-1.5}`,
		`{"resource_provider_generation":2,"inventories":{"VCPU":{"total":3},"FPGA":{"total":1,"min_unit":5,"max_unit":2}}}`,
		`{"resource_provider_generation":2,"inventories":{}}`, `{"resource_provider_generation":2,"inventories":{"bad key":{}}}`,
	}, target{"POST", "/resource_providers/" + rp1 + "/inventories"}, target{"PUT", "/resource_providers/" + rp1 + "/inventories/VCPU"},
		target{"PUT", "/resource_providers/" + rp1 + "/inventories"})
}

// FuzzTraitsAndAggregatesBody feeds bodies to what hangs on providers besides.
func FuzzTraitsAndAggregatesBody(f *testing.F) {
	fuzzBodies(f, []string{
		`["` + agg + `"]`, `["` + agg + `","` + agg + `"]`, `{"aggregates":["` + agg + `"],"resource_provider_generation":2}`, `["x"]`,
		`{"traits":["HW_CPU_X86_AVX","HW_CPU_X86_AVX"],"resource_provider_generation":2}`, `{"traits":["CUSTOM_NOT_THERE"],"resource_provider_generation":2}`,
		`{"traits":[],"resource_provider_generation":2}`,
	}, target{"PUT", "/resource_providers/" + rp1 + "/aggregates"}, target{"PUT", "/resource_providers/" + rp1 + "/traits"})
}

// FuzzResourceClassBody feeds bodies to the writers of resource classes.
func FuzzResourceClassBody(f *testing.F) {
	fuzzBodies(f, []string{`{"name":"CUSTOM_A"}`, `{"name":"VCPU"}`, `{"name":"CUSTOM_` + strings.Repeat("A", 300) + `"}`, `{"name":"CUSTOM_a"}`},
		target{"POST", "/resource_classes"}, target{"PUT", "/resource_classes/CUSTOM_A"}, target{"PUT", "/resource_classes/VCPU"})
}

// FuzzAllocationsBody feeds bodies to the writers of allocations.
func FuzzAllocationsBody(f *testing.F) {
	fuzzBodies(f, append(goodBodies(), `{"allocations":{}}`,
		`{"allocations":[{"resource_provider":{"uuid":"`+rp1+`"},"resources":{"VCPU":1e0}}]}`),
		target{"PUT", "/allocations/" + con}, target{"POST", "/allocations"})
}

// FuzzReshaperBody feeds bodies to the reshaper.
func FuzzReshaperBody(f *testing.F) {
	fuzzBodies(f, append(goodBodies(),
		`{"inventories":{"`+rp1+`":{"resource_provider_generation":2,"inventories":{}},"`+rp2+`":{"resource_provider_generation":2,"inventories":{"VCPU":{"total":8}}}},`+
			`"allocations":{"`+con+`":{"allocations":{"`+rp2+`":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}}}`),
		target{"POST", "/reshaper"})
}

// FuzzListQuery feeds query strings to the other routes that read one.
func FuzzListQuery(f *testing.F) {
	for _, query := range []string{
		"name=cn0&uuid=" + rp1, "member_of=in:" + agg + "&member_of=!" + agg, "resources=VCPU:1,FPGA:2&required=!CUSTOM_FPGA_INTEL",
		"in_tree=" + rp2 + "&required=in:A,B", "name=in:HW_CPU_X86_AVX,X&associated=true", "name=startswith:CUSTOM_", "project_id=p&user_id=u&consumer_type=all",
		"%zz=%", "resources=VCPU:0", "=&&", "project_id=", "consumer_type=all%0A",
	} {
		f.Add(query, 39)
		f.Add(query, 18)
	}
	s := seeded(f, Config{})
	before := dumpOf(s)
	f.Fuzz(func(t *testing.T, query string, minor int) {
		if !reachesServer(query) {
			t.Skip("not a query string that reaches a server")
		}
		v := version(max(0, min(minor, int(maxVersion))))
		for _, path := range []string{"/resource_providers", "/traits", "/usages"} {
			if got := send(t, s, v.String(), "GET", path+"?"+query, ""); got.status >= 500 {
				t.Errorf("%s: got %d %s", path, got.status, got.body)
			}
		}
		if diff := cmp.Diff(before, dumpOf(s)); diff != "" {
			t.Errorf("the state changed:\n%s", diff)
		}
	})
}

// FuzzExplain feeds query strings to the explanation of candidates: it accepts
// what the search accepts, and agrees with it whether there is a candidate.
func FuzzExplain(f *testing.F) {
	for _, query := range candidateQueries() {
		f.Add(query)
	}
	s := seeded(f, Config{})
	f.Fuzz(func(t *testing.T, query string) {
		if !reachesServer(query) {
			t.Skip("not a query string that reaches a server")
		}
		got := send(t, s, "1.39", "GET", "/allocation_candidates?"+query, "")
		why, err := s.Explain(query)
		if (got.status == 200) != (err == nil) {
			t.Fatalf("the search answers %d, the explanation %v", got.status, err)
		}
		if err != nil {
			return
		}
		anywhere := false
		for _, h := range why.hosts {
			anywhere = anywhere || h.Candidate
			if h.Candidate == (len(h.Words) > 0) {
				t.Errorf("%s: candidate is %t, words %q", h.Name, h.Candidate, h.Words)
			}
		}
		if found := !strings.Contains(got.body, `"allocation_requests": []`); found != anywhere {
			t.Errorf("the search finds %t, the explanation %t: %s", found, anywhere, why)
		}
	})
}
