package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

func testClasses() []string    { return []string{"VCPU", "DISK_GB", "FPGA"} }
func testTraits() []string     { return []string{"T1", "T2", "T3", engine.SharingTrait} }
func testAggregates() []string { return []string{"a", "b"} }

func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// drawSubset picks some of the names, mostly few.
func drawSubset(t *rapid.T, label string, names []string) []string {
	var chosen []string
	for _, name := range names {
		if rapid.IntRange(0, 2).Draw(t, label+" "+name) == 0 {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

func drawInventories(t *rapid.T) map[string]engine.Inventory {
	specs := make(map[string]engine.Inventory)
	for _, class := range testClasses() {
		if rapid.IntRange(0, 2).Draw(t, "has "+class) == 0 {
			continue
		}
		total := rapid.IntRange(1, 6).Draw(t, "total")
		specs[class] = engine.Inventory{
			Total: total, Reserved: rapid.IntRange(0, 1).Draw(t, "reserved"),
			MinUnit: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "min"),
			MaxUnit: rapid.SampledFrom([]int{total, total, 2}).Draw(t, "max"), StepSize: rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "step"),
			AllocationRatio: rapid.SampledFrom([]float64{1, 1, 1.5}).Draw(t, "ratio"),
		}
	}
	return specs
}

// drawWorld makes a small world, and then changes it in ways that the indexes
// must follow.
func drawWorld(t *rapid.T) *engine.State {
	s := engine.New(testTraits(), collation.Exact, epoch())
	count := rapid.IntRange(1, 7).Draw(t, "providers")
	names := func(n int) []string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("p%d", i))
		}
		return list
	}
	for i := range count {
		parent := ""
		if i > 0 && rapid.Bool().Draw(t, "child") {
			parent = rapid.SampledFrom(names(i)).Draw(t, "parent")
		}
		name := names(i + 1)[i]
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: parent}, epoch())))
		must(t, second(s.SetInventories(name, nil, drawInventories(t), engine.InventoryWrite{AllowFull: true})))
		must(t, second(s.SetProviderTraits(name, nil, drawSubset(t, "trait", testTraits()), epoch())))
		must(t, second(s.SetAggregates(name, nil, drawSubset(t, "aggregate", testAggregates()), epoch())))
	}
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		change(t, s, rapid.SampledFrom(names(count)).Draw(t, "changed"), rapid.SampledFrom(names(count)).Draw(t, "other"))
	}
	return s
}

// change does something to a provider; whether it is refused does not matter.
func change(t *rapid.T, s *engine.State, name, other string) {
	switch rapid.IntRange(0, 6).Draw(t, "change") {
	case 0:
		_ = s.DeleteProvider(name)
	case 1:
		_, _ = s.UpdateProvider(name, engine.ProviderUpdate{Name: name, SetParent: true, Parent: other, Reparent: true}, epoch())
	case 2:
		_, _ = s.UpdateProvider(name, engine.ProviderUpdate{Name: name, SetParent: true, Reparent: true}, epoch())
	case 3:
		_, _ = s.SetInventories(name, nil, drawInventories(t), engine.InventoryWrite{AllowFull: true})
	case 4:
		_, _ = s.SetProviderTraits(name, nil, drawSubset(t, "trait", testTraits()), epoch())
	default:
		class := rapid.SampledFrom(testClasses()).Draw(t, "claimed")
		_ = s.Claim([]engine.Claim{{Consumer: "c" + name + class, Allocations: []engine.ProviderAmount{{Provider: name, Class: class, Amount: rapid.Int64Range(1, 4).Draw(t, "claim")}}}}, engine.Writes{})
	}
}

func second[T any](_ T, err error) error { return err }

func must(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func drawGroup(t *rapid.T, suffix string, empty bool) engine.Group {
	g := engine.Group{Suffix: suffix}
	for _, class := range testClasses() {
		if !empty && rapid.IntRange(0, 2).Draw(t, "asks "+class) == 0 {
			g.Resources = append(g.Resources, engine.ClassAmount{Class: class, Amount: rapid.Int64Range(1, 3).Draw(t, "amount")})
		}
	}
	if !empty && len(g.Resources) == 0 {
		g.Resources = []engine.ClassAmount{{Class: "VCPU", Amount: 1}}
	}
	g.Traits = drawTraits(t)
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "member_of") {
		g.Aggregates.MemberOf = append(g.Aggregates.MemberOf, drawSubset(t, "member_of", append(testAggregates(), "nobody")))
	}
	if rapid.IntRange(0, 4).Draw(t, "excludes") == 0 {
		g.Aggregates.Forbidden = drawSubset(t, "not member_of", testAggregates())
	}
	if rapid.IntRange(0, 5).Draw(t, "in_tree") == 0 {
		g.InTree = rapid.SampledFrom([]string{"p0", "p1", "p2", "nobody"}).Draw(t, "in_tree of")
	}
	return g
}

func drawTraits(t *rapid.T) engine.TraitRequirement {
	var r engine.TraitRequirement
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "required") {
		if set := drawSubset(t, "any of", testTraits()); set != nil {
			r.Required = append(r.Required, set)
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "forbids") == 0 {
		r.Forbidden = drawSubset(t, "forbidden", testTraits())
	}
	return r
}

func drawQuery(t *rapid.T) engine.CandidateQuery {
	q := engine.CandidateQuery{
		Isolate: rapid.Bool().Draw(t, "isolate"), OnePerTree: rapid.IntRange(0, 5).Draw(t, "old") == 0,
		SumsIgnoreUse: rapid.IntRange(0, 5).Draw(t, "wide trees") == 0,
	}
	if rapid.Bool().Draw(t, "unsuffixed") {
		q.Groups = append(q.Groups, drawGroup(t, "", false))
	}
	suffixes := []string{"_A", "_B", "_C"}[:rapid.IntRange(0, 3).Draw(t, "suffixed")]
	for _, suffix := range suffixes {
		empty := rapid.IntRange(0, 4).Draw(t, "resourceless") == 0
		q.Groups = append(q.Groups, drawGroup(t, suffix, empty))
		if empty {
			q.SameSubtree = append(q.SameSubtree, suffixes)
		}
	}
	if len(suffixes) > 1 && rapid.IntRange(0, 2).Draw(t, "same_subtree") == 0 {
		q.SameSubtree = append(q.SameSubtree, suffixes[:2])
	}
	if rapid.IntRange(0, 3).Draw(t, "root_required") == 0 {
		q.Root = drawTraits(t)
	}
	return q
}

func TestCandidatesAgreeWithTheReferenceEnumerator(t *testing.T) {
	t.Parallel()
	for part := range 20 { // rapid checks a hundred worlds each
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, checkAgainstReference)
		})
	}
}

func checkAgainstReference(t *rapid.T) {
	s := drawWorld(t)
	q := drawQuery(t)
	if len(q.Groups) == 0 {
		return
	}
	got, err := s.Answer(q)
	must(t, err)
	all := texts(got)
	rendered := slices.Sorted(slices.Values(all))
	want := newReference(s).candidates(q)
	if diff := cmp.Diff(want, rendered, cmpEmpty()); diff != "" {
		t.Fatalf("candidates (-want +got):\n%s\nquery: %+v\nworld: %+v", diff, q, s.InspectAll())
	}
	checkSummaries(t, s, q, got)
	for i, r := range got.Requests {
		if r.Alike && (i == 0 || cmp.Diff(nameless(got.Requests[i-1]), nameless(r), cmpEmpty()) != "") {
			t.Fatalf("request %d differs from the one before in more than names: %+v", i, r)
		}
	}
	q.Limit, q.Seed = rapid.SampledFrom([]int{1, 2, 3, 4, 1000}).Draw(t, "limit"), rapid.Uint64Range(0, 9).Draw(t, "seed")
	limited, err := s.Answer(q)
	must(t, err)
	checkChoice(t, q.Limit, all, limited)
	checkSummaries(t, s, q, limited)
	again, err := s.Answer(q)
	must(t, err)
	if diff := cmp.Diff(limited, again, cmpEmpty()); diff != "" {
		t.Fatalf("the same query again (-first +second):\n%s", diff)
	}
}

// texts are the candidates of an answer in their order.
func texts(answer engine.Copied) (list []string) {
	for _, r := range answer.Requests {
		list = append(list, render(r))
	}
	return list
}

// checkChoice checks that an answer has as many of the candidates as the limit says, each once.
func checkChoice(t *rapid.T, limit int, all []string, limited engine.Copied) {
	t.Helper()
	chosen := texts(limited)
	if want := min(limit, len(all)); len(chosen) != want {
		t.Fatalf("got %d of %d candidates with limit %d, want %d", len(chosen), len(all), limit, want)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(chosen)))
	if len(distinct) < len(chosen) || slices.ContainsFunc(chosen, func(c string) bool { return !slices.Contains(all, c) }) {
		t.Fatalf("candidates with limit %d: got %q of %q", limit, chosen, all)
	}
}

// nameless is a request with numbers for the names of providers, in the order in which they appear.
func nameless(r engine.Request) engine.Request {
	numbers := make(map[string]string)
	number := func(name string) string {
		if numbers[name] == "" {
			numbers[name] = fmt.Sprint(len(numbers))
		}
		return numbers[name]
	}
	r.Alike, r.Amounts, r.Mappings = false, slices.Clone(r.Amounts), slices.Clone(r.Mappings)
	for i, a := range r.Amounts {
		r.Amounts[i].Provider = number(a.Provider)
	}
	for i, m := range r.Mappings {
		r.Mappings[i].Providers = nil
		for _, name := range m.Providers {
			r.Mappings[i].Providers = append(r.Mappings[i].Providers, number(name))
		}
	}
	return r
}

// cmpEmpty makes nil and empty slices equal.
func cmpEmpty() cmp.Option { return cmpopts.EquateEmpty() }

// checkSummaries compares the providers of an answer with what its requests
// need.
func checkSummaries(t *rapid.T, s *engine.State, q engine.CandidateQuery, got engine.Copied) {
	ref := newReference(s)
	supplying, roots := make(map[string]bool), make(map[string]bool)
	for _, r := range got.Requests {
		for _, a := range r.Amounts {
			supplying[a.Provider] = true
			roots[ref.providers[a.Provider].Root] = true
		}
	}
	want, listed := make(map[string]bool), make(map[string]bool)
	for _, p := range ref.order {
		if supplying[p.UUID] || (!q.OnePerTree && roots[p.Root]) {
			want[p.UUID] = true
		}
	}
	for _, summary := range got.Providers {
		if listed[summary.UUID] {
			t.Fatalf("provider %s is summed up twice", summary.UUID)
		}
		listed[summary.UUID] = true
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Fatalf("providers summed up (-want +got):\n%s", diff)
	}
}

func TestCandidatesRefuseUnknownNames(t *testing.T) {
	t.Parallel()
	s := engine.New(testTraits(), collation.Exact, epoch())
	tests := []struct {
		name  string
		query engine.CandidateQuery
		kind  error
		names []string
	}{
		{
			"class", engine.CandidateQuery{Groups: []engine.Group{{Resources: []engine.ClassAmount{{Class: "NOPE", Amount: 1}}}}},
			engine.ErrUnknownClass, []string{"NOPE"},
		},
		{
			"the root's trait before a group's", engine.CandidateQuery{
				Groups: []engine.Group{{Traits: engine.TraitRequirement{Required: [][]string{{"T1"}, {"Y"}}, Forbidden: []string{"X"}}}},
				Root:   engine.TraitRequirement{Forbidden: []string{"Z"}},
			}, engine.ErrUnknownTrait, []string{"Z"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Answer(tt.query)
			var refused *engine.Error
			if !errors.As(err, &refused) || !errors.Is(err, tt.kind) {
				t.Fatalf("got error %v, want %v", err, tt.kind)
			}
			if diff := cmp.Diff(tt.names, refused.Names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSearchForTooManyCandidatesIsRefusedAndBounded(t *testing.T) {
	t.Parallel()
	s := engine.New(testTraits(), collation.Exact, epoch())
	must(t, second(s.CreateProvider(engine.NewProvider{UUID: "root", Name: "root"}, epoch())))
	for i := range 500 {
		name := fmt.Sprintf("d%d", i)
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: "root"}, epoch())))
		must(t, second(s.SetInventories(name, nil, map[string]engine.Inventory{"FPGA": {Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}}, engine.InventoryWrite{})))
	}
	query := func(groups, limit int) engine.CandidateQuery {
		q := engine.CandidateQuery{Isolate: true, Limit: limit}
		for i := range groups {
			q.Groups = append(q.Groups, engine.Group{Suffix: fmt.Sprintf("_%d", i), Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 1}}})
		}
		return q
	}
	got, err := s.Answer(query(50, 1000))
	must(t, err)
	if len(got.Requests) != 1000 {
		t.Errorf("50 groups on 500 devices with limit 1000: got %d candidates", len(got.Requests))
	}
	if _, err := s.Answer(query(50, 0)); !errors.Is(err, engine.ErrTooMany) {
		t.Errorf("50 groups on 500 devices without limit: got error %v, want ErrTooMany", err)
	}
	got, err = s.Answer(query(501, 1000))
	must(t, err)
	if len(got.Requests) != 0 {
		t.Errorf("501 isolated groups on 500 devices: got %d candidates", len(got.Requests))
	}
}

// What a candidate consists of counts by its length, also where one provider gives many classes, or their names are long.
func TestSearchForLongCandidatesIsRefused(t *testing.T) {
	t.Parallel()
	const providers = 400
	s := engine.New(testTraits(), collation.Exact, epoch())
	many := make(map[string]engine.Inventory)
	classes := []string{"CUSTOM_" + strings.Repeat("X", 248)}
	for i := range 50 {
		classes = append(classes, fmt.Sprintf("CUSTOM_C%03d", i))
	}
	for _, class := range classes {
		s.EnsureClass(class, epoch())
		many[class] = engine.Inventory{Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1}
	}
	must(t, second(s.CreateProvider(engine.NewProvider{UUID: "root", Name: "root"}, epoch())))
	for i := range providers {
		name := fmt.Sprintf("d%d", i)
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: "root"}, epoch())))
		must(t, second(s.SetInventories(name, nil, many, engine.InventoryWrite{})))
	}
	for _, tt := range []struct {
		name    string
		classes []string
		limit   int
		want    error
	}{
		{"one class", classes[1:2], 0, nil},
		{"one of a long name", classes[:1], 0, engine.ErrTooMany},
		{"many classes", classes[1:], 0, engine.ErrTooMany},
		{"many classes with a limit", classes[1:], 10_000, nil},
	} {
		q := engine.CandidateQuery{Isolate: true, Limit: tt.limit, Groups: []engine.Group{{Suffix: "1"}, {Suffix: "2"}}}
		for i := range q.Groups {
			for _, class := range tt.classes {
				q.Groups[i].Resources = append(q.Groups[i].Resources, engine.ClassAmount{Class: class, Amount: 1})
			}
		}
		if err := s.Candidates(q, unread{}); !errors.Is(err, tt.want) {
			t.Errorf("%s: got error %v, want %v", tt.name, err, tt.want)
		}
	}
}

// unread discards an answer.
type unread struct{}

func (unread) Request(*engine.Request)  {}
func (unread) Provider(*engine.Summary) {}

func TestHopelessSearchesEndEarlyOrAreRefused(t *testing.T) {
	t.Parallel()
	s := engine.New(testTraits(), collation.Exact, epoch())
	one := map[string]engine.Inventory{}
	for _, class := range testClasses() {
		one[class] = engine.Inventory{Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}
	}
	must(t, second(s.CreateProvider(engine.NewProvider{UUID: "root", Name: "root"}, epoch())))
	must(t, second(s.SetProviderTraits("root", nil, []string{"T1"}, epoch())))
	parent := "root"
	for i := range 200 {
		name := fmt.Sprintf("d%d", i)
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: parent}, epoch())))
		must(t, second(s.SetInventories(name, nil, one, engine.InventoryWrite{})))
		if i < 11 {
			must(t, second(s.SetProviderTraits(name, nil, []string{"T2"}, epoch())))
		}
		if i > 100 {
			parent = name // a deep chain below a wide tree
		}
	}
	suffixed := func(n int) []engine.Group {
		var groups []engine.Group
		for i := range n {
			groups = append(groups, engine.Group{Suffix: fmt.Sprintf("_%03d", i), Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 1}}})
		}
		return groups
	}
	withTrait := func(groups []engine.Group, trait string) []engine.Group {
		for i := range groups {
			groups[i].Traits.Required = [][]string{{trait}}
		}
		return groups
	}
	suffixes := func(n int) []string {
		var list []string
		for _, g := range suffixed(n) {
			list = append(list, g.Suffix)
		}
		return list
	}
	all := []engine.ClassAmount{{Class: "VCPU", Amount: 1}, {Class: "DISK_GB", Amount: 1}, {Class: "FPGA", Amount: 1}}
	tests := []struct {
		name  string
		query engine.CandidateQuery
		want  error
	}{
		{"more than there is in sum", engine.CandidateQuery{Groups: suffixed(201)}, nil},
		{"more than there are devices", engine.CandidateQuery{Groups: suffixed(201), Isolate: true}, nil},
		{"more than there is with a trait", engine.CandidateQuery{Groups: withTrait(suffixed(12), "T2")}, nil},
		{"a trait that only a provider without resources has", engine.CandidateQuery{Groups: []engine.Group{{Resources: all, Traits: engine.TraitRequirement{Required: [][]string{{"T1"}}}}}}, nil},
		{"one above all of many", engine.CandidateQuery{Groups: suffixed(150), SameSubtree: [][]string{suffixes(150)}, Limit: 1}, engine.ErrTooMany},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Answer(tt.query)
			if !errors.Is(err, tt.want) || len(got.Requests) != 0 {
				t.Errorf("got %d candidates and error %v, want error %v", len(got.Requests), err, tt.want)
			}
			if _, err := s.Explain(tt.query); err != nil {
				t.Errorf("explain: %v", err)
			}
		})
	}
}

func TestMostCandidatesAreGeneratedByEachStrategyAsByTheReference(t *testing.T) {
	t.Parallel()
	for part := range 10 { // rapid checks a hundred worlds each
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, checkGeneration)
		})
	}
}

func checkGeneration(t *rapid.T) {
	s := drawWorld(t)
	q := drawQuery(t)
	if len(q.Groups) == 0 {
		return
	}
	q.Most, q.BreadthFirst = rapid.IntRange(1, 9).Draw(t, "most"), rapid.Bool().Draw(t, "breadth-first")
	q.Limit = rapid.IntRange(0, 9).Draw(t, "limit")
	got, err := s.Answer(q)
	must(t, err)
	want := newReference(s).generated(s, q)
	if q.Limit > 0 {
		checkChoice(t, q.Limit, want, got)
		want = slices.DeleteFunc(want, func(c string) bool { return !slices.Contains(texts(got), c) })
	}
	if diff := cmp.Diff(want, texts(got), cmpEmpty()); diff != "" {
		t.Fatalf("candidates (-want +got):\n%s\nquery: %+v\nworld: %+v", diff, q, s.InspectAll())
	}
	checkSummaries(t, s, q, got)
}

// FuzzCandidates compares the search with the reference in worlds that the fuzzer draws.
func FuzzCandidates(f *testing.F) {
	for seed := range byte(16) {
		data := make([]byte, 4096)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
		f.Add(data)
	}
	f.Fuzz(rapid.MakeFuzz(checkAgainstReference))
}
