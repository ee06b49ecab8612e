package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// reference answers candidate queries in the slow and obvious way: it writes
// the rules down as they are stated and tries everything.
type reference struct {
	providers map[string]engine.Inspection
	order     []engine.Inspection
}

func newReference(s *engine.State) *reference {
	ref := &reference{providers: make(map[string]engine.Inspection), order: s.InspectAll()}
	for _, p := range ref.order {
		ref.providers[p.UUID] = p
	}
	return ref
}

// option is how one group is served: a provider for each amount, or the one
// provider of a group without resources.
type option struct {
	providers []string // distinct
	amounts   []engine.ProviderAmount
}

// candidates lists every candidate in the form of render, sorted, each once.
func (ref *reference) candidates(q engine.CandidateQuery) []string {
	found := make(map[string]bool)
	for _, anchor := range ref.order {
		ref.candidatesAt(q, anchor, func(candidate string) { found[candidate] = true })
	}
	list := make([]string, 0, len(found))
	for candidate := range found {
		list = append(list, candidate)
	}
	slices.Sort(list)
	return list
}

// generated lists the candidates that remain with q.Most, in the order in which Placement's
// strategies meet them.
func (ref *reference) generated(s *engine.State, q engine.CandidateQuery) []string {
	var anchors [][]string
	for _, anchor := range ref.roots(s) {
		near := func(p engine.Inspection) int { // an anchor's own providers come before those that share
			if p.Root == anchor.UUID {
				return 0
			}
			return 1
		}
		at := &reference{providers: ref.providers, order: slices.Clone(ref.order)}
		slices.SortStableFunc(at.order, func(a, b engine.Inspection) int { return near(a) - near(b) })
		var list []string
		at.candidatesAt(q, anchor, func(candidate string) { list = append(list, candidate) })
		anchors = append(anchors, list)
	}
	var all []string // as generated, with repetitions
	if q.BreadthFirst {
		for round, some := 0, true; some; round++ {
			some = false
			for _, list := range anchors {
				if round < len(list) {
					all, some = append(all, list[round]), true
				}
			}
		}
	} else {
		all = slices.Concat(anchors...)
	}
	var kept []string
	for _, candidate := range all {
		if !slices.Contains(kept, candidate) && len(kept) < q.Most {
			kept = append(kept, candidate)
		}
	}
	return kept
}

// roots lists the roots by the age of their trees.
func (ref *reference) roots(s *engine.State) []engine.Inspection {
	age := make(map[string]int64)
	for _, row := range s.Rows() {
		if p, ok := row.After.(engine.ProviderRow); ok {
			age[p.UUID] = p.Tree
		}
	}
	roots := slices.DeleteFunc(slices.Clone(ref.order), func(p engine.Inspection) bool { return p.Parent != "" })
	slices.SortFunc(roots, func(a, b engine.Inspection) int { return cmp.Compare(age[a.UUID], age[b.UUID]) })
	return roots
}

// candidatesAt calls visit for the candidates of one anchor.
func (ref *reference) candidatesAt(q engine.CandidateQuery, anchor engine.Inspection, visit func(string)) {
	if anchor.Parent != "" || !traitsOK(q.Root, anchor.Traits) {
		return
	}
	options := make([][]option, len(q.Groups))
	for i, g := range q.Groups {
		options[i] = ref.options(g, anchor)
	}
	product(options, func(chosen []option) {
		if ref.holds(q, chosen) {
			visit(renderOptions(q, chosen))
		}
	})
}

// options lists the ways to serve one group at an anchor.
func (ref *reference) options(g engine.Group, anchor engine.Inspection) []option {
	if g.Suffix == "" {
		return ref.unsuffixed(g, anchor)
	}
	return ref.suffixed(g, anchor)
}

func product[T any](lists [][]T, visit func([]T)) {
	chosen := make([]T, len(lists))
	var descend func(int)
	descend = func(i int) {
		if i == len(lists) {
			visit(chosen)
			return
		}
		for _, item := range lists[i] {
			chosen[i] = item
			descend(i + 1)
		}
	}
	descend(0)
}

// anchors lists the roots that a provider serves.
func (ref *reference) anchors(p engine.Inspection) []string {
	roots := []string{p.Root}
	if slices.Contains(p.Traits, engine.SharingTrait) {
		for _, other := range ref.order {
			if overlap(p.Aggregates, other.Aggregates) {
				roots = append(roots, other.Root)
			}
		}
	}
	return roots
}

// suffixed lists the options of a group that one provider serves.
func (ref *reference) suffixed(g engine.Group, anchor engine.Inspection) []option {
	var list []option
	for _, p := range ref.order {
		if !slices.Contains(ref.anchors(p), anchor.UUID) || !ref.inTree(g, p) ||
			!traitsOK(g.Traits, p.Traits) || !memberOK(g.Aggregates, p) || overlap(g.Aggregates.Forbidden, p.Aggregates) {
			continue
		}
		o := option{providers: []string{p.UUID}}
		fits := true
		for _, a := range g.Resources {
			fits = fits && fitsAmount(p, a)
			o.amounts = append(o.amounts, engine.ProviderAmount{Provider: p.UUID, Class: a.Class, Amount: a.Amount})
		}
		if fits {
			list = append(list, o)
		}
	}
	return list
}

// unsuffixed lists the options of the group that several providers serve.
func (ref *reference) unsuffixed(g engine.Group, anchor engine.Inspection) []option {
	choices := make([][]engine.Inspection, len(g.Resources))
	for i, a := range g.Resources {
		for _, p := range ref.order {
			if fitsAmount(p, a) && ref.mayServe(g, p, anchor) {
				choices[i] = append(choices[i], p)
			}
		}
	}
	var list []option
	product(choices, func(chosen []engine.Inspection) {
		var o option
		var together []string
		for i, p := range chosen {
			together = append(together, p.Traits...)
			if !slices.Contains(o.providers, p.UUID) {
				o.providers = append(o.providers, p.UUID)
			}
			o.amounts = append(o.amounts, engine.ProviderAmount{Provider: p.UUID, Class: g.Resources[i].Class, Amount: g.Resources[i].Amount})
		}
		if traitsOK(g.Traits, together) {
			list = append(list, o)
		}
	})
	return list
}

func (ref *reference) mayServe(g engine.Group, p, anchor engine.Inspection) bool {
	inside := p.Root == anchor.UUID
	switch {
	case !inside && (g.InTree != "" || !slices.Contains(ref.anchors(p), anchor.UUID)):
		return false
	case !ref.inTree(g, p):
		return false
	case overlap(g.Aggregates.Forbidden, p.Aggregates) || overlap(g.Aggregates.Forbidden, anchor.Aggregates):
		return false
	case memberOK(g.Aggregates, p):
		return true
	}
	return inside && memberOK(g.Aggregates, anchor)
}

func (ref *reference) inTree(g engine.Group, p engine.Inspection) bool {
	if g.InTree == "" {
		return true
	}
	named, ok := ref.providers[g.InTree]
	return ok && named.Root == p.Root
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func traitsOK(r engine.TraitRequirement, traits []string) bool {
	for _, anyOf := range r.Required {
		if !overlap(anyOf, traits) {
			return false
		}
	}
	return !overlap(r.Forbidden, traits)
}

func memberOK(f engine.AggregateFilter, p engine.Inspection) bool {
	for _, anyOf := range f.MemberOf {
		if !overlap(anyOf, p.Aggregates) {
			return false
		}
	}
	return true
}

func inventoryOf(p engine.Inspection, class string) (engine.ClassInventory, bool) {
	i := slices.IndexFunc(p.Inventories, func(i engine.ClassInventory) bool { return i.Class == class })
	if i < 0 {
		return engine.ClassInventory{}, false
	}
	return p.Inventories[i], true
}

func fitsAmount(p engine.Inspection, a engine.ClassAmount) bool {
	inv, ok := inventoryOf(p, a.Class)
	return ok && float64(inv.Used+a.Amount) <= float64(inv.Total-inv.Reserved)*inv.AllocationRatio &&
		a.Amount >= int64(inv.MinUnit) && a.Amount <= int64(inv.MaxUnit) && a.Amount%int64(inv.StepSize) == 0
}

// holds judges the rules between groups.
func (ref *reference) holds(q engine.CandidateQuery, chosen []option) bool {
	return ref.isolated(q, chosen) && ref.subtreesHold(q, chosen) && ref.sumsFit(q, chosen) &&
		(!q.OnePerTree || ref.onePerTree(chosen))
}

func (ref *reference) isolated(q engine.CandidateQuery, chosen []option) bool {
	seen := make(map[string]bool)
	for i, o := range chosen {
		if q.Groups[i].Suffix == "" || !q.Isolate {
			continue
		}
		if seen[o.providers[0]] {
			return false
		}
		seen[o.providers[0]] = true
	}
	return true
}

func (ref *reference) subtreesHold(q engine.CandidateQuery, chosen []option) bool {
	for _, suffixes := range q.SameSubtree {
		var providers []string
		for i, o := range chosen {
			if slices.Contains(suffixes, q.Groups[i].Suffix) {
				providers = append(providers, o.providers[0])
			}
		}
		if !slices.ContainsFunc(providers, func(top string) bool {
			return !slices.ContainsFunc(providers, func(p string) bool { return !ref.above(top, p) })
		}) {
			return false
		}
	}
	return true
}

// above reports whether a provider is an ancestor of another, or the same.
func (ref *reference) above(top, p string) bool {
	for p != "" {
		if p == top {
			return true
		}
		p = ref.providers[p].Parent
	}
	return false
}

func (ref *reference) sumsFit(q engine.CandidateQuery, chosen []option) bool {
	for key, sum := range sums(chosen) {
		inv, _ := inventoryOf(ref.providers[key.Provider], key.Class)
		used := inv.Used
		if q.SumsIgnoreUse && sum > single(chosen, key) {
			used = 0
		}
		if float64(used+sum) > inv.Capacity() || sum > int64(inv.MaxUnit) {
			return false
		}
	}
	return true
}

func (ref *reference) onePerTree(chosen []option) bool {
	supplier := make(map[string]string) // by root
	for key := range sums(chosen) {
		root := ref.providers[key.Provider].Root
		if other, ok := supplier[root]; ok && other != key.Provider {
			return false
		}
		supplier[root] = key.Provider
	}
	return true
}

// single is the greatest amount that one group takes.
func single(chosen []option, key engine.ProviderAmount) (most int64) {
	for _, o := range chosen {
		for _, a := range o.amounts {
			if a.Provider == key.Provider && a.Class == key.Class {
				most = max(most, a.Amount)
			}
		}
	}
	return most
}

// sums adds up what is taken; the amount of a key is not part of it.
func sums(chosen []option) map[engine.ProviderAmount]int64 {
	total := make(map[engine.ProviderAmount]int64)
	for _, o := range chosen {
		for _, a := range o.amounts {
			total[engine.ProviderAmount{Provider: a.Provider, Class: a.Class}] += a.Amount
		}
	}
	return total
}

func renderOptions(q engine.CandidateQuery, chosen []option) string {
	var amounts []engine.ProviderAmount
	for key, sum := range sums(chosen) {
		key.Amount = sum
		amounts = append(amounts, key)
	}
	var mappings []engine.Mapping
	for i, o := range chosen {
		mappings = append(mappings, engine.Mapping{Suffix: q.Groups[i].Suffix, Providers: o.providers})
	}
	return render(engine.Request{Amounts: amounts, Mappings: mappings})
}

// render writes a candidate so that equal ones are equal texts.
func render(r engine.Request) string {
	var parts []string
	for _, a := range r.Amounts {
		parts = append(parts, fmt.Sprintf("%s:%s=%d", a.Provider, a.Class, a.Amount))
	}
	slices.Sort(parts)
	var mapped []string
	for _, m := range r.Mappings {
		providers := slices.Sorted(slices.Values(m.Providers))
		mapped = append(mapped, fmt.Sprintf("[%s]->%s", m.Suffix, strings.Join(providers, "+")))
	}
	slices.Sort(mapped)
	return strings.Join(parts, " ") + " | " + strings.Join(mapped, " ")
}
