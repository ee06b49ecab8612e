package servicetest_test

import (
	"cmp"
	"testing"

	"github.com/gocyborg/gocyborg/placementsim"
)

const (
	rp1  = "11111111-1111-4111-8111-111111111111"
	rp2  = "22222222-2222-4222-8222-222222222222"
	rp3  = "33333333-3333-4333-8333-333333333333"
	con  = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
	con2 = "dddddddd-dddd-4ddd-8ddd-dddddddddddd"
	agg  = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
)

// newPlacement is a new server with a tree of two providers and one consumer.
func newPlacement(t *testing.T) *placementsim.Server {
	t.Helper()
	s, err := placementsim.New(placementsim.Config{Seed: 1, Policy: placementsim.PolicyDefault}, placementsim.WithClock(stopped()))
	must(t, err)
	for _, r := range []request{
		{method: "POST", path: "/resource_providers", body: `{"name": "root", "uuid": "` + rp1 + `"}`},
		{method: "POST", path: "/resource_providers", body: `{"name": "child", "uuid": "` + rp2 + `", "parent_provider_uuid": "` + rp1 + `"}`},
		{method: "PUT", path: "/resource_providers/" + rp1 + "/inventories", body: `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}`},
		{method: "PUT", path: "/resource_providers/" + rp2 + "/inventories", body: `{"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 8}}}`},
		{method: "PUT", path: "/traits/CUSTOM_A"},
		{method: "PUT", path: "/resource_classes/CUSTOM_OLD"},
		{method: "PUT", path: "/resource_providers/" + rp2 + "/traits", body: `{"resource_provider_generation": 1, "traits": ["CUSTOM_A"]}`},
		{method: "PUT", path: "/resource_providers/" + rp1 + "/aggregates", body: `{"resource_provider_generation": 1, "aggregates": ["` + agg + `"]}`},
		{method: "PUT", path: "/allocations/" + con, body: `{"allocations": {"` + rp1 + `": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`},
	} {
		r.version = "placement 1.39"
		if got := send(t, s, r); got.status >= 300 {
			t.Fatalf("%s %s: %d %s", r.method, r.path, got.status, got.seen)
		}
	}
	return s
}

func TestPlacementInputs(t *testing.T) {
	t.Parallel()
	const claim = `"allocations": {"` + rp2 + `": {"resources": {"VGPU": 1}, "generation": 3}}, "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE", "mappings": {"": ["` + rp2 + `"]}`
	const inventory = `"total": 4, "reserved": 1, "min_unit": 1, "max_unit": 2, "step_size": 1, "allocation_ratio": 1.0`
	one := "/resource_providers/" + rp1
	write := func(method, path, body string) request { return request{method: method, path: path, body: body} }
	version := func(version string, r request) request { r.version = "placement " + version; return r }
	check(t, newPlacement(t).Routes(), []request{
		get("/resource_providers?name=root"), get("/resource_providers?uuid=" + rp1), get("/resource_providers?member_of=" + agg),
		get("/resource_providers?resources=VCPU:1"), get("/resource_providers?in_tree=" + rp1 + "&name=root"), get("/resource_providers?required=CUSTOM_A"),
		write("POST", "/resource_providers", `{"name": "n", "uuid": "`+rp3+`", "parent_provider_uuid": "`+rp1+`"}`),
		write("PUT", "/resource_providers/"+rp2, `{"name": "n", "parent_provider_uuid": "`+rp1+`"}`),
		write("POST", one+"/inventories", `{"resource_class": "DISK_GB", `+inventory+`}`),
		write("PUT", one+"/inventories", `{"resource_provider_generation": 3, "inventories": {"VCPU": {`+inventory+`}}}`),
		write("PUT", one+"/inventories/VCPU", `{"resource_provider_generation": 3, `+inventory+`}`),
		write("PUT", one+"/aggregates", `{"resource_provider_generation": 3, "aggregates": []}`),
		version("1.18", write("PUT", one+"/aggregates", `["`+agg+`"]`)),
		write("PUT", one+"/traits", `{"resource_provider_generation": 3, "traits": ["CUSTOM_A"]}`),
		get("/traits?name=startswith:CUSTOM_"), get("/traits?associated=true"),
		write("POST", "/resource_classes", `{"name": "CUSTOM_NEW"}`),
		version("1.6", write("PUT", "/resource_classes/CUSTOM_OLD", `{"name": "CUSTOM_NEW"}`)),
		write("PUT", "/allocations/"+con2, `{`+claim+`}`),
		version("1.11", write("PUT", "/allocations/"+con2, `{"allocations": [{"resource_provider": {"uuid": "`+rp2+`"}, "resources": {"VGPU": 1}}], "project_id": "p", "user_id": "u"}`)),
		write("POST", "/allocations", `{"`+con2+`": {`+claim+`}}`),
		get("/allocation_candidates?resources=VCPU:1&required=!CUSTOM_A&member_of=" + agg + "&in_tree=" + rp1),
		get("/allocation_candidates?resources_A=VCPU:1&resources_B=VGPU:1&required_B=CUSTOM_A&member_of_A=" + agg + "&in_tree_B=" + rp1 + "&group_policy=none&limit=1&root_required=!CUSTOM_A&same_subtree=_A,_B"),
		get("/usages?project_id=p&user_id=u&consumer_type=INSTANCE"),
		write("POST", "/reshaper", `{"inventories": {"`+rp1+`": {"resource_provider_generation": 3, "inventories": {"VCPU": {`+inventory+`}}}}, "allocations": {}}`),
	}, func(r request) answer {
		s := newPlacement(t)
		r.version = cmp.Or(r.version, "placement 1.39")
		got := send(t, s, r)
		for record, err := range s.Records() {
			must(t, err)
			got.seen += asJSON(t, record)
		}
		return got
	})
}
