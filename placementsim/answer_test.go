package placementsim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// member is one of an ordered object.
type member struct {
	name  string
	value any
}

// slowJSON writes values with encoding/json, objects in their order and with the spaces of
// Python.
func slowJSON(t *rapid.T, value any) string {
	var parts []string
	switch v := value.(type) {
	case []member:
		for _, m := range v {
			parts = append(parts, slowJSON(t, m.name)+": "+slowJSON(t, m.value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, slowJSON(t, item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// drawn is an answer that was made up.
type drawn struct {
	requests  []engine.Request
	providers []engine.Summary
}

func (d drawn) read(to engine.Answer) {
	for i := range d.requests {
		to.Request(&d.requests[i])
	}
	for i := range d.providers {
		to.Provider(&d.providers[i])
	}
}

// slowAnswer is the answer of the candidates at a microversion.
func slowAnswer(v version, query engine.CandidateQuery, found drawn) any {
	requests, summaries := []any{}, []member{}
	for _, r := range found.requests {
		requests = append(requests, slowRequest(v, r))
	}
	for _, s := range found.providers {
		summaries = append(summaries, member{s.UUID, slowSummary(v, query, s)})
	}
	return []member{{"allocation_requests", requests}, {"provider_summaries", summaries}}
}

func slowRequest(v version, r engine.Request) any {
	var asMap []member
	var asList []any
	for i := 0; i < len(r.Amounts); {
		provider, resources := r.Amounts[i].Provider, []member{}
		for ; i < len(r.Amounts) && r.Amounts[i].Provider == provider; i++ {
			resources = append(resources, member{r.Amounts[i].Class, r.Amounts[i].Amount})
		}
		asMap = append(asMap, member{provider, []member{{"resources", resources}}})
		asList = append(asList, []member{{"resource_provider", []member{{"uuid", provider}}}, {"resources", resources}})
	}
	request := []member{{"allocations", asList}}
	if v >= 12 {
		request[0].value = asMap
	}
	if v >= 34 {
		mappings := []member{}
		for _, m := range r.Mappings {
			providers := []any{}
			for _, uuid := range m.Providers {
				providers = append(providers, uuid)
			}
			mappings = append(mappings, member{m.Suffix, providers})
		}
		request = append(request, member{"mappings", mappings})
	}
	return request
}

func slowSummary(v version, query engine.CandidateQuery, s engine.Summary) any {
	resources, traits := []member{}, []any{}
	for _, r := range s.Resources {
		asked := slices.ContainsFunc(query.Groups, func(g engine.Group) bool {
			return slices.ContainsFunc(g.Resources, func(a engine.ClassAmount) bool { return a.Class == r.Class })
		})
		if asked || v >= 27 {
			resources = append(resources, member{r.Class, []member{{"capacity", json.Number(fmt.Sprintf("%.0f", r.Capacity))}, {"used", r.Used}}})
		}
	}
	for _, name := range s.Traits {
		traits = append(traits, name)
	}
	summary := []member{{"resources", resources}}
	if v >= 17 {
		summary = append(summary, member{"traits", traits})
	}
	if v >= 29 {
		var parent any
		if s.Parent != "" {
			parent = s.Parent
		}
		summary = append(summary, member{"parent_provider_uuid", parent}, member{"root_provider_uuid", s.Root})
	}
	return summary
}

// drawAnswer makes up an answer. Lists of traits are shared, as in a search.
func drawAnswer(t *rapid.T) (found drawn) {
	uuid := func(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
	class := rapid.SampledFrom([]string{"VCPU", "PGPU", "CUSTOM_A"})
	var sets [][]string
	for i := range 7 {
		set := []string{"COMPUTE_NODE", "CUSTOM_T" + fmt.Sprint(i)}[:rapid.IntRange(0, 2).Draw(t, "traits")]
		sets = append(sets, set)
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "requests") {
		if i > 0 && rapid.Bool().Draw(t, "alike") {
			length := rapid.SampledFrom([]string{"", "", "0"}).Draw(t, "longer name")
			found.requests = append(found.requests, renamed(found.requests[i-1], func(name string) string { return fmt.Sprint(i) + name[1:] + length }))
			continue
		}
		var r engine.Request
		for i := range rapid.IntRange(1, 3).Draw(t, "providers") {
			for range rapid.IntRange(1, 2).Draw(t, "amounts") {
				r.Amounts = append(r.Amounts, engine.ProviderAmount{Provider: uuid(i), Class: class.Draw(t, "class"), Amount: rapid.Int64Range(1, 1<<40).Draw(t, "amount")})
			}
			r.Mappings = append(r.Mappings, engine.Mapping{Suffix: []string{"", "_A", "_B"}[i], Providers: []string{uuid(0), uuid(i)}[:rapid.IntRange(0, 2).Draw(t, "served by")]})
		}
		found.requests = append(found.requests, r)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "summaries") {
		s := engine.Summary{UUID: uuid(i), Root: uuid(i / 3 * 3), Traits: rapid.SampledFrom(sets).Draw(t, "set")}
		if i%3 > 0 {
			s.Parent = s.Root
		}
		for range rapid.IntRange(0, 3).Draw(t, "classes") {
			capacity := rapid.SampledFrom([]float64{0, 1, 64, -3, 1 << 53, -(1 << 53), 1e21, 3e38}).Draw(t, "capacity")
			s.Resources = append(s.Resources, engine.ClassUse{Class: class.Draw(t, "class"), Capacity: capacity, Used: rapid.Int64Range(0, 1<<40).Draw(t, "used")})
		}
		found.providers = append(found.providers, s)
	}
	return found
}

// renamed is a request like another one, with other providers.
func renamed(r engine.Request, name func(string) string) engine.Request {
	r.Alike, r.Amounts, r.Mappings = true, slices.Clone(r.Amounts), slices.Clone(r.Mappings)
	for i := range r.Amounts {
		r.Amounts[i].Provider = name(r.Amounts[i].Provider)
	}
	for i := range r.Mappings {
		providers := slices.Clone(r.Mappings[i].Providers)
		for k := range providers {
			providers[k] = name(providers[k])
		}
		r.Mappings[i].Providers = providers
	}
	return r
}

func TestAnswerIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		found := drawAnswer(t)
		query := engine.CandidateQuery{Groups: []engine.Group{{Resources: []engine.ClassAmount{{Class: "VCPU"}}}, {Resources: []engine.ClassAmount{{Class: "PGPU"}}}}}
		v := version(rapid.IntRange(10, 39).Draw(t, "version"))
		w := newAnswerWriter(nil, v, query)
		found.read(w)
		if diff := cmp.Diff(slowJSON(t, slowAnswer(v, query, found)), string(w.end())); diff != "" {
			t.Fatalf("at %s (-want +got):\n%s", v, diff)
		}
	})
}
