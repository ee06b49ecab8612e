package placementsim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
	"github.com/gocyborg/gocyborg/sim"
)

// thing is the part of a row that a request's changes describe.
type thing struct{ kind, id, fields string }

// things maps rows, by table and key.
type things map[[2]string]thing

func thingsOf(t *testing.T, s *Server) things {
	all := make(things)
	for _, c := range s.state.Rows() {
		if c.Kind == "" {
			continue
		}
		data, err := json.Marshal(c.After)
		must(t, err)
		var fields map[string]any
		must(t, json.Unmarshal(data, &fields))
		for _, hidden := range c.Hidden {
			delete(fields, hidden)
		}
		all[[2]string{c.Table, c.Key}] = thing{c.Kind, c.ID, fmt.Sprint(fields)}
	}
	return all
}

// until lists what differs in another state, as "action kind id".
func (all things) until(after things) []string {
	diff := []string{}
	for key, old := range all {
		if now, still := after[key]; !still {
			diff = append(diff, "deleted "+old.kind+" "+old.id)
		} else if now.fields != old.fields {
			diff = append(diff, "changed "+now.kind+" "+now.id)
		}
	}
	for key, now := range after {
		if _, before := all[key]; !before {
			diff = append(diff, "created "+now.kind+" "+now.id)
		}
	}
	slices.Sort(diff)
	return diff
}

// effective are bodies and paths that change much.
func effective() [][3]string {
	bodies := [][3]string{
		{"PUT", "/resource_providers/" + rp1, `{"name":"n","parent_provider_uuid":"` + rp2 + `"}`},
		{"PUT", "/resource_providers/" + rp1, `{"name":"n","parent_provider_uuid":null}`},
		{"PUT", "/resource_providers/" + rp2, `{"name":"m","parent_provider_uuid":null}`},
		{"PUT", "/resource_providers/" + rp2, `{"name":"m","parent_provider_uuid":"` + rp3 + `"}`},
		{"PUT", "/resource_providers/" + rp2, `{"name":"m","parent_provider_uuid":"` + rp1 + `"}`},
		{"POST", "/resource_providers", `{"name":"o","uuid":"` + rp3 + `","parent_provider_uuid":"` + rp1 + `"}`},
		{"POST", "/resource_providers", `{"name":"o","uuid":"` + rp3 + `"}`},
		{"DELETE", "/resource_providers/" + rp3, ""},
		{"PUT", "/traits/CUSTOM_A", ""}, {"DELETE", "/traits/CUSTOM_A", ""}, {"PUT", "/resource_classes/CUSTOM_A", ""},
		{"PUT", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_B"}`}, {"PUT", "/resource_classes/CUSTOM_B", `{"name":"CUSTOM_A"}`},
		{"DELETE", "/resource_classes/CUSTOM_A", ""}, {"DELETE", "/resource_classes/CUSTOM_B", ""}, {"POST", "/resource_classes", `{"name":"CUSTOM_B"}`},
	}
	bodies = slices.Concat(bodies, bodies, bodies)
	for _, rp := range []string{rp1, rp2, rp3} {
		path := "/resource_providers/" + rp
		for _, sub := range []string{"/inventories", "/inventories/VCPU", "/inventories/CUSTOM_A", "/traits"} {
			bodies = append(bodies, [3]string{"DELETE", path + sub, ""})
		}
		bodies = append(bodies,
			[3]string{"POST", path + "/inventories", `{"resource_class":"CUSTOM_A","total":1}`},
			[3]string{"PUT", path + "/inventories/VCPU", `{"resource_provider_generation":G,"total":20}`},
			[3]string{"PUT", path + "/inventories", `{"resource_provider_generation":G,"inventories":{"VCPU":{"total":30},"CUSTOM_A":{"total":3}}}`},
			[3]string{"PUT", path + "/traits", `{"resource_provider_generation":G,"traits":["HW_CPU_X86_AVX","CUSTOM_A"]}`},
			[3]string{"PUT", path + "/traits", `{"resource_provider_generation":G,"traits":["HW_CPU_X86_AVX"]}`},
			[3]string{"PUT", path + "/aggregates", `{"resource_provider_generation":G,"aggregates":["` + agg + `","` + con + `"]}`},
			[3]string{"PUT", path + "/aggregates", `{"resource_provider_generation":G,"aggregates":["` + con + `"]}`},
			[3]string{"PUT", path + "/aggregates", `["` + agg + `"]`},
			[3]string{"POST", "/reshaper", `{"inventories":{"` + rp + `":{"resource_provider_generation":G,"inventories":{"CUSTOM_A":{"total":5}}}},"allocations":{}}`},
			[3]string{"POST", "/reshaper", `{"inventories":{"` + rp + `":{"resource_provider_generation":G,"inventories":{"CUSTOM_A":{"total":5}}}},` +
				`"allocations":{"` + con + `":{"allocations":{"` + rp + `":{"resources":{"CUSTOM_A":2}}},"project_id":"p","user_id":"u","consumer_generation":N}}}`},
			[3]string{"POST", "/allocations", `{"` + con + `":{"allocations":{"` + rp + `":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":N},` +
				`"` + con2 + `":{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":null}}`},
		)
		for range 3 {
			bodies = append(bodies,
				[3]string{"PUT", "/allocations/" + con, `{"allocations":{"` + rp + `":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u","consumer_generation":N}`},
				[3]string{"PUT", "/allocations/" + con, `{"allocations":{"` + rp + `":{"resources":{"CUSTOM_A":1}}},"project_id":"q","user_id":"u","consumer_generation":N}`},
			)
		}
	}
	return append(bodies, [3]string{"DELETE", "/allocations/" + con, ""}, [3]string{"PUT", "/allocations/" + con, `{"allocations":{},"project_id":"p","user_id":"u","consumer_generation":N}`})
}

// withGenerations puts the present generations into a body: G and N.
func withGenerations(s *Server, path, body string) string {
	generation, consumer := "0", "null"
	for _, p := range s.state.InspectAll() {
		if strings.Contains(path+body, p.UUID) {
			generation = fmt.Sprint(p.Generation)
		}
	}
	for _, c := range s.state.Rows() {
		if row, ok := c.After.(engine.ConsumerRow); ok && row.UUID == con {
			consumer = fmt.Sprint(row.Generation)
		}
	}
	return strings.NewReplacer(":G,", ":"+generation+",", ":N}", ":"+consumer+"}").Replace(body)
}

func TestTheRecordedChangesAreTheDifference(t *testing.T) {
	t.Parallel()
	told, likely := make(map[string]int), effective()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var last sim.Exchange
		s := seeded(t, Config{NoLeftoverConsumers: seed%2 == 0, Policy: PolicyDefault}, WithObserver(func(e sim.Exchange) { last = e }))
		addProvider(t, s, ResourceProvider{UUID: rp3, Name: "o", Parent: rp2})
		before := thingsOf(t, s)
		for range 60 {
			v, method, path, body := drawRequest(rng, likely)
			body = withGenerations(s, path, body)
			got := send(t, s, v.String(), method, path, body)
			noted := []string{}
			for _, c := range last.Changes {
				noted = append(noted, c.Action+" "+c.Kind+" "+c.ID)
				told[c.Action+" "+c.Kind]++
			}
			slices.Sort(noted)
			after := thingsOf(t, s)
			if diff := cmp.Diff(before.until(after), noted); diff != "" {
				t.Fatalf("seed %d: %s %s %s at %s answered %d: what differs in the rows and what is noted (-differs +noted):\n%s\n%v", seed, method, path, body, v, got.status, diff, last.Changes)
			}
			before = after
		}
	}
	for _, want := range []string{
		"created resource_provider", "changed resource_provider", "deleted resource_provider", "created inventory", "changed inventory", "deleted inventory",
		"created provider_traits", "changed provider_traits", "deleted provider_traits", "created aggregates", "changed aggregates",
		"created trait", "deleted trait", "created resource_class", "changed resource_class", "deleted resource_class",
		"created consumer", "changed consumer", "deleted consumer", "created allocation", "changed allocation", "deleted allocation",
	} {
		if told[want] == 0 {
			t.Errorf("the requests never %s", want)
		}
	}
}

func drawRequest(rng *rand.Rand, likely [][3]string) (v version, method, path, body string) {
	v = []version{0, 1, 5, 6, 7, 12, 18, 19, 28, 36, 37, 37, 37, 37, 38, 39}[rng.IntN(16)]
	if rng.IntN(4) == 0 {
		ops, bodies := operations(), goodBodies()
		op := ops[rng.IntN(len(ops))]
		path = strings.NewReplacer("{uuid}", rp1, "{class}", "VCPU", "{name}", "CUSTOM_A", "{consumer}", con2).Replace(op.pattern)
		return v, op.method, path, bodies[rng.IntN(len(bodies))]
	}
	r := likely[rng.IntN(len(likely))]
	if strings.HasPrefix(r[1], "/resource_classes/") && r[2] != "" {
		v = version(5 + rng.IntN(3)) // the last that rename
	}
	return v, r[0], r[1], r[2]
}

func TestChangesAreDescribedInWords(t *testing.T) {
	t.Parallel()
	var last sim.Exchange
	s := seeded(t, Config{}, WithObserver(func(e sim.Exchange) { last = e }))
	for _, tt := range []struct {
		method, path, body string
		want               []sim.Change
	}{
		{"PUT", "/allocations/" + con, `{"allocations":{"` + rp1 + `":{"resources":{"VCPU":2}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`, []sim.Change{
			{Action: "created", Kind: "allocation", ID: con + "/" + rp1 + "/VCPU", What: "2 VCPU on cn0"},
			{Action: "created", Kind: "consumer", ID: con},
			{Action: "changed", Kind: "resource_provider", ID: rp1, What: "cn0: generation 2 -> 3"},
		}},
		{"PUT", "/allocations/" + con, `{"allocations":{"` + rp1 + `":{"resources":{"VCPU":1}},"` + rp2 + `":{"resources":{"FPGA":1}}},"project_id":"q","user_id":"u","consumer_generation":1,"consumer_type":"INSTANCE"}`, []sim.Change{
			{Action: "changed", Kind: "allocation", ID: con + "/" + rp1 + "/VCPU", What: "1 VCPU on cn0: used 2 -> 1"},
			{Action: "created", Kind: "allocation", ID: con + "/" + rp2 + "/FPGA", What: "1 FPGA on cn0_fpga"},
			{Action: "changed", Kind: "consumer", ID: con, What: "project_id p -> q, generation 1 -> 2"},
			{Action: "changed", Kind: "resource_provider", ID: rp1, What: "cn0: generation 3 -> 4"},
			{Action: "changed", Kind: "resource_provider", ID: rp2, What: "cn0_fpga: generation 2 -> 3"},
		}},
		{"DELETE", "/allocations/" + con, "", []sim.Change{
			{Action: "deleted", Kind: "allocation", ID: con + "/" + rp1 + "/VCPU", What: "1 VCPU on cn0"},
			{Action: "deleted", Kind: "allocation", ID: con + "/" + rp2 + "/FPGA", What: "1 FPGA on cn0_fpga"},
			{Action: "deleted", Kind: "consumer", ID: con},
		}},
		{"DELETE", "/allocations/" + con, "", nil},
		{"PUT", "/resource_providers/" + rp1 + "/inventories/VCPU", `{"resource_provider_generation":4,"total":9,"reserved":1}`, []sim.Change{
			{Action: "changed", Kind: "inventory", ID: rp1 + "/VCPU", What: "VCPU on cn0: total 8 -> 9, reserved 0 -> 1"},
			{Action: "changed", Kind: "resource_provider", ID: rp1, What: "cn0: generation 4 -> 5"},
		}},
		{"PUT", "/resource_providers/" + rp2, `{"name":"fpga","parent_provider_uuid":null}`, []sim.Change{
			{Action: "changed", Kind: "resource_provider", ID: rp2, What: "fpga: name cn0_fpga -> fpga, parent_provider_uuid " + rp1 + " -> none"},
		}},
		{"PUT", "/resource_providers/" + rp2, `{"name":"fpga","parent_provider_uuid":null}`, nil},
		{"PUT", "/resource_providers/" + rp2 + "/traits", `{"resource_provider_generation":3,"traits":["HW_CPU_X86_AVX"]}`, []sim.Change{
			{Action: "changed", Kind: "provider_traits", ID: rp2, What: `fpga: traits ["CUSTOM_FPGA_INTEL"] -> ["HW_CPU_X86_AVX"]`},
			{Action: "changed", Kind: "resource_provider", ID: rp2, What: "fpga: generation 3 -> 4"},
		}},
		{"PUT", "/traits/CUSTOM_X", "", []sim.Change{{Action: "created", Kind: "trait", ID: "CUSTOM_X"}}},
		{"PUT", "/traits/CUSTOM_X", "", nil},
		{"DELETE", "/resource_providers/" + rp2, "", []sim.Change{
			{Action: "deleted", Kind: "inventory", ID: rp2 + "/FPGA", What: "FPGA on fpga"},
			{Action: "deleted", Kind: "provider_traits", ID: rp2, What: "fpga"},
			{Action: "deleted", Kind: "resource_provider", ID: rp2, What: "fpga"},
		}},
	} {
		got := send(t, s, "1.38", tt.method, tt.path, tt.body)
		if diff := cmp.Diff(tt.want, last.Changes); diff != "" {
			t.Errorf("%s %s: %d (-want +got):\n%s", tt.method, tt.path, got.status, diff)
		}
	}
}

func TestARequestUnderAFault(t *testing.T) {
	t.Parallel()
	faults := new(fault.Set)
	faults.Register(Operations()...)
	var last sim.Exchange
	s := newServer(t, Config{}, WithFaults(faults), WithObserver(func(e sim.Exchange) { last = e }))
	for _, when := range []fault.When{fault.Before, fault.After} {
		must(t, faults.Set(fault.Rule{Operation: fault.ResourceProviderCreate, Action: fault.Status, When: when}))
		if got := send(t, s, "1.20", "POST", "/resource_providers", `{"name":"n"}`); got.status != 500 {
			t.Fatalf("got %d", got.status)
		}
		if told := len(last.Changes) == 1; told != (when == fault.After) {
			t.Errorf("%s: changes %v", when, last.Changes)
		}
	}
}
