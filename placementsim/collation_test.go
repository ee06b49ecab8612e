package placementsim

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/sim"
)

// spelling is a conversation whose answers depend on the collation.
type spelling struct {
	name  string
	turns []turn // with MariaDB
	// binary are the statuses with SQLite.
	binary []int
}

// spellings have the answers of Placement 16 on MariaDB 11.8 and on SQLite.
func spellings() []spelling {
	const version, upper = "1.39", "CCCCCCCC-CCCC-4CCC-8CCC-CCCCCCCCCCCC"
	provider := func(name, uuid string) string { return `{"name":"` + name + `","uuid":"` + uuid + `"}` }
	claim := func(project, user string) string {
		return `{"allocations":{"` + agg + `":{"resources":{"VCPU":1}}},"project_id":"` + project + `","user_id":"` + user + `","consumer_generation":null,"consumer_type":"INSTANCE"}`
	}
	inventory := turn{version, http.MethodPut, "/resource_providers/" + agg + "/inventories", `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":8}}}`, 200, nil, ""}
	create := turn{version, http.MethodPost, "/resource_providers", provider("rp1", agg), 200, nil, ""}
	get := func(path string, status int, contains ...string) turn {
		return turn{version, http.MethodGet, path, "", status, contains, ""}
	}
	return []spelling{
		{"names of providers", []turn{
			create,
			{version, http.MethodPost, "/resource_providers", provider("RP1", rp2), 409, []string{"RP1 already exists"}, "placement.duplicate_name"},
			{version, http.MethodPost, "/resource_providers", provider("rp1 ", rp2), 409, nil, "placement.duplicate_name"},
			{version, http.MethodPost, "/resource_providers", provider("rṕ1", rp2), 409, nil, "placement.duplicate_name"},
			get("/resource_providers?name=Rp1%20", 200, `"name":"rp1"`),
			get("/resource_providers?name=%20rp1", 200, `[]`),
			{version, http.MethodPut, "/resource_providers/" + agg, `{"name":"RP1"}`, 200, []string{`"name":"RP1"`}, ""},
		}, []int{200, 200, 409, 409, 200, 200, 409}},
		{"uuids of providers", []turn{
			create,
			get("/resource_providers/"+strings.ToUpper(agg), 200, agg),
			get("/resource_providers?uuid="+strings.ToUpper(agg), 200, agg),
			get("/resource_providers?in_tree="+strings.ToUpper(agg), 200, agg),
			{version, http.MethodPost, "/resource_providers", `{"name":"rp2","uuid":"` + rp2 + `","parent_provider_uuid":"` + strings.ToUpper(agg) + `"}`, 200, []string{`"parent_provider_uuid":"AAAA`, `"root_provider_uuid":"aaaa`}, ""},
			get("/resource_providers/"+rp2, 200, `"parent_provider_uuid":"aaaa`),
		}, []int{200, 404, 200, 200, 400, 404}},
		{"consumers, projects and users", []turn{
			create, inventory,
			{version, http.MethodPut, "/allocations/" + con, claim("P", "u"), 204, nil, ""},
			get("/allocations/"+upper, 200, `"consumer_generation":1`),
			{version, http.MethodPut, "/allocations/" + con2, claim("p", "U "), 204, nil, ""},
			get("/allocations/"+con2, 200, `"project_id":"P"`, `"user_id":"u"`), // as they were written first
			get("/usages?project_id=p&user_id=U", 200, `"VCPU":2`),
			{version, http.MethodDelete, "/allocations/" + upper, "", 204, nil, ""},
		}, []int{200, 200, 204, 200, 204, 200, 200, 404}},
		{"a consumer in two spellings", []turn{
			create, inventory,
			{version, http.MethodPost, "/allocations", `{"` + con + `":` + claim("P", "u") + `,"` + upper + `":` + claim("P", "u") + `}`, 409, []string{"expected 0 but got None"}, "placement.concurrent_update"},
			get("/allocations/"+con, 200, `{"allocations":{}}`),
		}, []int{200, 200, 204, 200}},
		{"a provider in two spellings", []turn{
			create, inventory,
			{version, http.MethodPost, "/reshaper", `{"inventories":{"` + agg + `":{"resource_provider_generation":1,"inventories":{"VCPU":{"total":4}}},"` +
				strings.ToUpper(agg) + `":{"resource_provider_generation":1,"inventories":{"MEMORY_MB":{"total":4}}}},"allocations":{}}`, 409, []string{"Another thread concurrently updated"}, "placement.concurrent_update"},
			get("/resource_providers/"+agg+"/inventories", 200, `"total":8`),
		}, []int{200, 200, 400, 200}},
		{"aggregates", []turn{ // added in SQL, removed and searched for in Python
			create,
			{version, http.MethodPut, "/resource_providers/" + agg + "/aggregates", `{"resource_provider_generation":0,"aggregates":["` + con + `"]}`, 200, nil, ""},
			{version, http.MethodPost, "/resource_providers", provider("rp2", rp2), 200, nil, ""},
			{version, http.MethodPut, "/resource_providers/" + rp2 + "/aggregates", `{"resource_provider_generation":0,"aggregates":["` + upper + `"]}`, 200, []string{upper}, ""},
			get("/resource_providers/"+rp2+"/aggregates", 200, con),
			get("/resource_providers?member_of="+upper, 200, `[]`),
			{version, http.MethodPut, "/resource_providers/" + rp2 + "/aggregates", `{"resource_provider_generation":1,"aggregates":["` + upper + `"]}`, 200, []string{upper}, ""},
			get("/resource_providers/"+rp2+"/aggregates", 200, `"aggregates":[]`),
		}, nil},
		{"traits and classes", []turn{ // compared in Python, but for the filter
			{version, http.MethodPut, "/traits/CUSTOM_A", "", 201, nil, ""},
			get("/traits/custom_a", 404),
			get("/traits?name=in:custom_a", 200, `["CUSTOM_A"]`),
			get("/traits?name=startswith:custom_a", 200, `["CUSTOM_A"]`),
			get("/resource_classes/vcpu", 404),
			create,
			{version, http.MethodPut, "/resource_providers/" + agg + "/traits", `{"resource_provider_generation":0,"traits":["custom_a"]}`, 400, nil, ""},
			get("/resource_providers?required=custom_a", 400),
		}, []int{201, 404, 200, 200, 404, 200, 400, 400}},
	}
}

func TestNamesCompareAsInTheDatabase(t *testing.T) {
	t.Parallel()
	for _, tt := range spellings() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			converse(t, newServer(t, Config{Collation: sim.CollationMySQL, Policy: PolicyDefault}), tt.turns...)
			if tt.binary == nil {
				return
			}
			var got []int
			binary := newServer(t, Config{Policy: PolicyDefault})
			for _, turn := range tt.turns {
				got = append(got, send(t, binary, turn.version, turn.method, turn.path, turn.body).status)
			}
			if !slices.Equal(got, tt.binary) {
				t.Errorf("binary: got statuses %v, want %v", got, tt.binary)
			}
		})
	}
}

func TestNewRefusesAnUnknownCollation(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Collation: "latin1"}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "latin1") {
		t.Errorf("error %v, want one about the collation", err)
	}
}
