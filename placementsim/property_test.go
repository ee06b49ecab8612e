package placementsim

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// dump is everything that requests can change in a server.
type dump struct {
	Providers []engine.Inspection
	Consumers []engine.Consumer
	Classes   []engine.Class
	Traits    []engine.Trait
}

func dumpOf(s *Server) dump {
	return dump{s.state.InspectAll(), s.state.Consumers(), s.state.Classes()[len(StandardResourceClasses()):], s.state.Traits(engine.TraitFilter{Prefix: "CUSTOM_"})}
}

// drawJSON makes a value that may or may not be what a schema wants.
func drawJSON(t *rapid.T, depth int) any {
	scalars := []any{nil, true, -1, 0, 1, 2, 3, 1.5, 1e300, "", "x", "VCPU", "CUSTOM_A", rp1, rp2, rp3, con, "in:x"}
	if depth == 0 || rapid.Bool().Draw(t, "scalar") {
		return rapid.SampledFrom(scalars).Draw(t, "value")
	}
	if rapid.Bool().Draw(t, "array") {
		var list []any
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			list = append(list, drawJSON(t, depth-1))
		}
		return list
	}
	m := make(map[string]any)
	for range rapid.IntRange(0, 4).Draw(t, "keys") {
		m[rapid.SampledFrom(bodyKeys()).Draw(t, "key")] = drawJSON(t, depth-1)
	}
	return m
}

func bodyKeys() []string {
	return []string{
		"name", "uuid", "parent_provider_uuid", "resource_provider_generation", "inventories", "total", "resource_class",
		"reserved", "max_unit", "allocation_ratio", "aggregates", "traits", "allocations", "project_id", "user_id",
		"consumer_generation", "consumer_type", "mappings", "resources", rp1, rp2, con, "VCPU", "FPGA", "CUSTOM_A",
	}
}

// goodBodies are bodies that some route accepts at some time.
func goodBodies() []string {
	return []string{
		`{"name":"n"}`, `{"name":"n","uuid":"` + rp3 + `"}`, `{"name":"m","parent_provider_uuid":"` + rp2 + `"}`,
		`{"resource_provider_generation":2,"total":3}`, `{"resource_class":"CUSTOM_A","total":1}`, `{"name":"CUSTOM_A"}`,
		`{"resource_provider_generation":2,"inventories":{"VCPU":{"total":3},"FPGA":{"total":1}}}`,
		`{"resource_provider_generation":2,"traits":["HW_CPU_X86_AVX"]}`, `["` + agg + `"]`,
		`{"resource_provider_generation":2,"aggregates":["` + agg + `"]}`,
		`{"allocations":{"` + rp1 + `":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u"}`,
		`{"allocations":{"` + rp1 + `":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u","consumer_generation":null}`,
		`{"allocations":{"` + rp3 + `":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u","consumer_generation":null}`,
		`{"` + con + `":{"allocations":{"` + rp1 + `":{"resources":{"VCPU":9}}},"project_id":"p","user_id":"u","consumer_generation":null}}`,
		`{"inventories":{"` + rp1 + `":{"resource_provider_generation":2,"inventories":{"FPGA":{"total":2}}}},"allocations":{}}`,
	}
}

func drawPath(t *rapid.T, pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		var values []string
		switch segment {
		case "{uuid}":
			values = []string{rp1, rp1, rp2, rp3, "x"}
		case "{class}", "{name}":
			values = []string{"VCPU", "FPGA", "CUSTOM_A", "HW_CPU_X86_AVX", "bad name"}
		case "{consumer}":
			values = []string{con, con2, "x"}
		default:
			continue
		}
		segments[i] = url.PathEscape(rapid.SampledFrom(values).Draw(t, segment))
	}
	return strings.Join(segments, "/")
}

func TestRefusedRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	ops := operations()
	rapid.Check(t, func(rt *rapid.T) {
		s := seeded(t, Config{NoLeftoverConsumers: true})
		for range rapid.IntRange(1, 25).Draw(rt, "requests") {
			op := rapid.SampledFrom(ops).Draw(rt, "operation")
			body := rapid.SampledFrom(append(goodBodies(), "", "{")).Draw(rt, "body")
			if rapid.IntRange(0, 3).Draw(rt, "random body") == 0 {
				data, err := json.Marshal(drawJSON(rt, 4))
				if err != nil {
					rt.Fatal(err)
				}
				body = string(data)
			}
			v := version(rapid.IntRange(0, 39).Draw(rt, "version"))
			before := dumpOf(s)
			got := send(t, s, v.String(), op.method, drawPath(rt, op.pattern), body)
			if got.status >= 500 {
				rt.Fatalf("%s %s: %d %s", op.name, body, got.status, got.body)
			}
			if got.status >= 400 || op.method == "GET" {
				if diff := cmp.Diff(before, dumpOf(s)); diff != "" {
					rt.Fatalf("%s answered %d, yet changed (-before +after):\n%s", op.name, got.status, diff)
				}
			}
		}
	})
}

func TestLeftoverConsumersAreOnlySeenInGenerations(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	before := dumpOf(s)
	got := send(t, s, "1.28", "PUT", "/allocations/"+con, oneClaim("null", `{"`+rp3+`":{"resources":{"VCPU":1}}}`))
	if got.status != 400 || !cmp.Equal(before, dumpOf(s)) {
		t.Errorf("got %d and another state", got.status)
	}
}

// candidateQueries are query strings to start from.
func candidateQueries() []string {
	return []string{
		"resources=VCPU:1", "resources=VCPU:1&resources_A=FPGA:1&group_policy=isolate&limit=3",
		"resources1=VCPU:1&required1=in:CUSTOM_FPGA_INTEL,COMPUTE_ACCELERATORS&member_of1=!in:" + agg,
		"resources_A=FPGA:1&required_B=!CUSTOM_FPGA_INTEL&same_subtree=_A,_B&group_policy=none&root_required=COMPUTE_ACCELERATORS",
		"resources=VCPU:1&in_tree=" + rp1, "resources=%zz&resources=VCPU:&limit=0", "resources=VCPU:99999999999999999999", "%ff=%fe&&=&a",
		"resources=VCPU:1&required=!!!,!", "same_subtree=,&resources_" + strings.Repeat("x", 65) + "=VCPU:1",
	}
}

// reachesServer reports whether a client could send the query string as it is.
func reachesServer(query string) bool {
	return !strings.ContainsAny(query, "#\x7f") && !slices.ContainsFunc([]byte(query), func(b byte) bool { return b <= ' ' })
}

// FuzzCandidateQuery feeds query strings to a small world with sharing.
func FuzzCandidateQuery(f *testing.F) {
	for _, query := range candidateQueries() {
		f.Add(query, 39)
		f.Add(query, 17)
	}
	s := seeded(f, Config{})
	must(f, s.SetAggregates(rp1, agg))
	before := dumpOf(s)
	f.Fuzz(func(t *testing.T, query string, minor int) {
		v := version(max(0, min(minor, 39)))
		if !reachesServer(query) {
			t.Skip("not a query string that reaches a server")
		}
		got := send(t, s, v.String(), "GET", "/allocation_candidates?"+query, "")
		if got.status >= 500 || !json.Valid([]byte(got.body)) {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if diff := cmp.Diff(before, dumpOf(s)); diff != "" {
			t.Errorf("the state changed:\n%s", diff)
		}
	})
}

// FuzzVersionHeader feeds microversion headers to the version document.
func FuzzVersionHeader(f *testing.F) {
	for _, header := range []string{"", "placement 1.39", "placement latest", "compute 2.1,placement 1.1", "placement 1.", "placement 99999999999999999999.1", "placement  1.2 x", "placement ,"} {
		f.Add(header)
	}
	s := newServer(f, Config{})
	f.Fuzz(func(t *testing.T, header string) {
		got := send(t, s, "", "GET", "/", "", "OpenStack-API-Version", header)
		applied := got.header.Get("Openstack-Api-Version")
		switch got.status {
		case 200:
			if !strings.HasPrefix(applied, "placement 1.") {
				t.Errorf("%q: applied %q", header, applied)
			}
		case 400, 406:
			if applied != "" {
				t.Errorf("%q: refused, yet applied %q", header, applied)
			}
		default:
			t.Errorf("%q: got %d", header, got.status)
		}
	})
}
