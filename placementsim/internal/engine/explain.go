package engine

import (
	"fmt"
	"slices"
	"strings"
)

// ReasonKind is the rule that a host, a group or a provider fails by.
type ReasonKind string

// The kinds of reasons.
const (
	ReasonClass     ReasonKind = "class"     // no inventory of a resource class
	ReasonTrait     ReasonKind = "trait"     // a trait is missing or forbidden
	ReasonAggregate ReasonKind = "aggregate" // member_of
	ReasonTree      ReasonKind = "tree"      // in_tree
	ReasonUnits     ReasonKind = "units"     // min_unit, max_unit, step_size
	ReasonCapacity  ReasonKind = "capacity"  // not enough is left
	ReasonRoot      ReasonKind = "root"      // root_required
	ReasonIsolation ReasonKind = "isolation" // group_policy=isolate
	ReasonSubtree   ReasonKind = "subtree"   // same_subtree
	ReasonSum       ReasonKind = "sum"       // the groups together
	ReasonTooLarge  ReasonKind = "too_large" // not decided within the limit of a search
)

// Reason is why something cannot be part of a candidate. The zero value is no
// reason.
type Reason struct {
	Kind ReasonKind `json:"kind"`
	Text string     `json:"text"`
}

// HostVerdict tells whether candidates are anchored at a root, and if not, why.
type HostVerdict struct {
	UUID      string `json:"uuid"`
	Name      string `json:"name"`
	Candidate bool   `json:"candidate"`
	// Reason is what rules the host out as a whole, or what prevents the groups
	// together though each of them alone could be served.
	Reason Reason         `json:"reason,omitzero"`
	Groups []GroupVerdict `json:"groups,omitempty"` // in the query's order; none if Reason is about the root
	// Words are the reasons of the host and its groups as sentences; none for a
	// candidate.
	Words []string `json:"words,omitempty"`
}

// GroupVerdict tells whether one group alone could be served.
type GroupVerdict struct {
	Suffix    string            `json:"group"`
	Served    bool              `json:"served"`
	Reason    Reason            `json:"reason,omitzero"`     // of the first provider or, without any, of the host
	Providers []ProviderVerdict `json:"providers,omitempty"` // that have a resource of the group and were refused
}

// ProviderVerdict is the first reason why a provider does not serve a group.
type ProviderVerdict struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Reason Reason `json:"reason"`
}

// addWords puts the reasons into sentences.
func (v *HostVerdict) addWords() {
	say := func(text string) { v.Words = append(v.Words, "host "+v.Name+": "+text) }
	if v.Reason != (Reason{}) {
		say(v.Reason.Text)
	}
	for _, g := range v.Groups {
		switch {
		case g.Reason == Reason{}:
		case g.Suffix == "":
			say("the group without suffix: " + g.Reason.Text)
		default:
			say("group " + g.Suffix + ": " + g.Reason.Text)
		}
	}
}

// Explain looks at every root, whatever the query's limit, and tells why no
// candidate is anchored there. The error is that of [State.Candidates] for the
// same query, but not [ErrTooMany].
func (s *State) Explain(q CandidateQuery) ([]HostVerdict, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	q.Limit = 1
	sr, err := s.newSearch(q)
	if err != nil {
		return nil, err
	}
	verdicts := make([]HostVerdict, 0, len(s.trees.trees))
	for _, t := range s.trees.trees {
		if t != nil {
			v := sr.judge(t)
			v.addWords()
			verdicts = append(verdicts, v)
		}
	}
	return verdicts, nil
}

// judge explains one tree.
func (sr *search) judge(t *tree) HostVerdict {
	v := HostVerdict{UUID: t.root.uuid, Name: t.root.name}
	if r := refusedTraits(&sr.root, t.root.traits); r.Kind != "" {
		v.Reason = Reason{ReasonRoot, fill(r.Text, t.root.name)}
		return v
	}
	w := &sr.walk
	w.anchor = t
	sharers := w.sharersOf(t)
	all := true
	for i, g := range sr.groups {
		verdict := w.judgeGroup(i, g, t, sharers)
		all = all && verdict.Served
		v.Groups = append(v.Groups, verdict)
	}
	if all {
		v.Candidate, v.Reason = sr.judgeTogether(t)
	}
	return v
}

// judgeTogether looks at a tree in which every group alone could be served.
func (sr *search) judgeTogether(t *tree) (candidate bool, r Reason) {
	whole := sr.policy
	defer func() { sr.policy = whole }()
	tries := []struct {
		policy policy
		reason Reason
	}{
		{whole, Reason{}},
		{policy{subtrees: whole.subtrees, onePerTree: whole.onePerTree}, Reason{ReasonIsolation, "group_policy=isolate: the groups cannot have different providers"}},
		{policy{isolate: whole.isolate, onePerTree: whole.onePerTree}, Reason{ReasonSubtree, "same_subtree: no providers of the groups are below one another"}},
		{policy{onePerTree: whole.onePerTree}, Reason{ReasonIsolation, "group_policy=isolate and same_subtree cannot both hold"}},
	}
	for i, try := range tries {
		sr.policy = try.policy
		found, err := sr.anyAt(t)
		switch {
		case err != nil:
			return false, Reason{ReasonTooLarge, "not decided: there are too many ways to combine the providers"}
		case found:
			return i == 0, try.reason
		}
	}
	if alone := sr.unsuffixedAlone(); alone != nil {
		alone.steps = sr.steps
		if found, err := alone.anyAt(t); err == nil && !found {
			sr.steps = alone.steps
			return false, Reason{ReasonTrait, "no combination of providers of the resources without suffix has all of the required traits"}
		}
	}
	return false, sr.sumReason(t)
}

// unsuffixedAlone is a search for the group without suffix alone, or nil.
func (sr *search) unsuffixedAlone() *search {
	if len(sr.groups) == 0 || sr.groups[0].suffix != "" {
		return nil
	}
	alone := &search{state: sr.state, groups: sr.groups[:1], limit: 1, answer: sr.state.newAnswer()}
	alone.policy.onePerTree = sr.policy.onePerTree
	alone.findSharers()
	return alone
}

// Limits of the work of one explanation: in one tree, so that it does not use up
// what the others need, and in all.
const (
	maxTreeSteps    = 200_000
	maxExplainSteps = 4 * maxSteps
)

// anyAt reports whether a candidate is anchored at the tree.
func (sr *search) anyAt(t *tree) (bool, error) {
	if sr.steps > maxExplainSteps {
		return false, errTooMany()
	}
	sr.most = sr.steps + maxTreeSteps
	sr.found, sr.shared = sr.found[:0], nil
	sr.walk = newWalk(sr)
	_, err := sr.visit(t)
	return len(sr.found) > 0, err
}

// sumReason says that the groups together take more than there is.
func (sr *search) sumReason(t *tree) Reason {
	sharers := sr.walk.sharersOf(t)
	for _, total := range sr.walk.totals {
		if have := sr.walk.left(total.class, t, sharers); have < total.amount {
			return Reason{ReasonSum, fmt.Sprintf("the groups together take %d of %s, %d can be given", total.amount, total.class.name, have)}
		}
	}
	if d, served, found := sr.walk.missing(); found {
		return Reason{ReasonSum, fmt.Sprintf("%d groups alike want %d of %s each, there is room for %d of them", d.count, d.amount, d.class.name, served)}
	}
	return Reason{ReasonSum, "the groups together take more than their providers can give"}
}

// judgeGroup looks for providers of one group alone.
func (w *walk) judgeGroup(i int, g *group, t *tree, sharers []*sharer) GroupVerdict {
	v := GroupVerdict{Suffix: g.suffix}
	providers := slices.Clone(t.members)
	for _, sh := range sharers {
		providers = append(providers, sh.provider)
	}
	if g.nowhere || (g.inTree != nil && !slices.ContainsFunc(providers, func(p *provider) bool { return p.tree == g.inTree })) {
		v.Reason = Reason{ReasonTree, "outside of the tree of in_tree"}
		return v
	}
	if g.suffix != "" {
		w.judgeSuffixed(&v, g, providers)
	} else {
		w.judgeUnsuffixed(&v, i, g, providers)
	}
	return v
}

// judgeSuffixed wants one provider that satisfies the whole group.
func (w *walk) judgeSuffixed(v *GroupVerdict, g *group, providers []*provider) {
	var seen []ProviderVerdict
	for _, p := range providers {
		if len(g.amounts) > 0 && !slices.ContainsFunc(g.amounts, func(a classAmount) bool { return p.inventory(a.class) != nil }) {
			continue // has nothing to do with it
		}
		r := g.refuses(p)
		if r.Kind == "" {
			v.Served = true
			return
		}
		seen = append(seen, ProviderVerdict{p.uuid, p.name, r})
	}
	v.fail(seen, "no provider has "+classNames(g.amounts))
}

// judgeUnsuffixed wants a provider for each class, and the traits among them.
func (w *walk) judgeUnsuffixed(v *GroupVerdict, i int, g *group, providers []*provider) {
	able := make([]*provider, 0, len(providers))
	for k, a := range g.amounts {
		pos := &position{group: i, amounts: g.amounts[k : k+1]}
		var seen []ProviderVerdict
		served := false
		for _, p := range providers {
			if p.inventory(a.class) == nil {
				continue
			}
			if w.usable(pos, p) {
				served, able = true, append(able, p)
				continue
			}
			seen = append(seen, ProviderVerdict{p.uuid, p.name, w.refusesAt(g, a, p)})
		}
		if !served {
			v.fail(seen, "no provider has "+a.class.name)
			return
		}
	}
	for k, anyOf := range g.traits.required {
		if !slices.ContainsFunc(able, func(p *provider) bool { return anyOf.intersects(p.traits.bits) }) {
			v.Reason = Reason{ReasonTrait, traitNames(g.traits.anyOf[k]) + " missing on the providers that have the resources"}
			return
		}
	}
	v.Served = true
}

// refuses returns the first reason why a provider does not satisfy the group,
// with %s for its name.
func (g *group) refuses(p *provider) Reason {
	if g.inTree != nil && p.tree != g.inTree {
		return Reason{ReasonTree, "%s is outside of the tree of in_tree"}
	}
	for _, a := range g.amounts {
		if p.inventory(a.class) == nil {
			return Reason{ReasonClass, "%s has no " + a.class.name}
		}
	}
	if r := refusedTraits(&g.traits, p.traits); r.Kind != "" {
		return r
	}
	if r := g.refusedAggregates(g.memberOfAll(p), g.memberOfForbidden(p)); r.Kind != "" {
		return r
	}
	for _, a := range g.amounts {
		if r := p.inventory(a.class).refuses(a.amount); r.Kind != "" {
			return r
		}
	}
	return Reason{}
}

// refusesAt is the same for a class of the group without suffix, where the
// required traits may be another provider's.
func (w *walk) refusesAt(g *group, a classAmount, p *provider) Reason {
	if g.inTree != nil && p.tree != g.inTree {
		return Reason{ReasonTree, "%s is outside of the tree of in_tree"}
	}
	if r := refusedTraits(&traitFilter{forbidden: g.traits.forbidden, banned: g.traits.banned}, p.traits); r.Kind != "" {
		return r
	}
	root := w.anchor.root
	member := g.memberOfAll(p) || (p.tree == w.anchor && g.memberOfAll(root))
	if r := g.refusedAggregates(member, g.memberOfForbidden(p) || g.memberOfForbidden(root)); r.Kind != "" {
		return r
	}
	return p.inventory(a.class).refuses(a.amount)
}

func (g *group) refusedAggregates(member, excluded bool) Reason {
	switch {
	case !member:
		return Reason{ReasonAggregate, "%s is not in the aggregates of member_of" + g.suffix}
	case excluded:
		return Reason{ReasonAggregate, "%s is in an aggregate that member_of" + g.suffix + " excludes"}
	}
	return Reason{}
}

// refusedTraits returns the first rule about traits that a set breaks.
func refusedTraits(f *traitFilter, ts *traitSet) Reason {
	for k, anyOf := range f.required {
		if !anyOf.intersects(ts.bits) {
			return Reason{ReasonTrait, traitNames(f.anyOf[k]) + " missing on %s"}
		}
	}
	for _, tr := range f.banned {
		if ts.has(tr) {
			return Reason{ReasonTrait, "%s has the forbidden " + tr.name}
		}
	}
	return Reason{}
}

// refuses returns why an amount cannot be had.
func (i *inventory) refuses(n int64) Reason {
	switch {
	case n < int64(i.MinUnit):
		return Reason{ReasonUnits, fmt.Sprintf("%%s gives no less than %d of %s at once", i.MinUnit, i.class.name)}
	case n > int64(i.MaxUnit):
		return Reason{ReasonUnits, fmt.Sprintf("%%s gives no more than %d of %s at once", i.MaxUnit, i.class.name)}
	case !i.allowed(n):
		return Reason{ReasonUnits, fmt.Sprintf("%%s gives %s in steps of %d", i.class.name, i.StepSize)}
	case i.used >= i.limit:
		return Reason{ReasonCapacity, fmt.Sprintf("%%s full (%d of %.0f used)", i.used, i.Capacity())}
	case i.used+n > i.limit:
		return Reason{ReasonCapacity, fmt.Sprintf("%%s has %d of %s left (%d of %.0f used)", i.limit-i.used, i.class.name, i.used, i.Capacity())}
	}
	return Reason{}
}

// maxNames is how many providers a sentence names.
const maxNames = 8

// fail puts the reasons of the providers into one sentence; without any, none
// has the resources.
func (v *GroupVerdict) fail(seen []ProviderVerdict, nobody string) {
	if len(seen) == 0 {
		v.Reason = Reason{ReasonClass, nobody}
		return
	}
	var texts []string
	names := make(map[string][]string)
	for i := range seen {
		text := seen[i].Reason.Text
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], seen[i].Name)
		seen[i].Reason.Text = fill(text, seen[i].Name)
	}
	for i, text := range texts {
		texts[i] = fill(text, enumerate(names[text]))
	}
	v.Providers, v.Reason = seen, Reason{seen[0].Reason.Kind, strings.Join(texts, ", ")}
}

// fill puts a name into a text. Texts are not formats: the names of classes and
// traits in them are as callers wrote them.
func fill(text, name string) string { return strings.Replace(text, "%s", name, 1) }

func enumerate(names []string) string {
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func classNames(amounts []classAmount) string {
	var names []string
	for _, a := range amounts {
		names = append(names, a.class.name)
	}
	return strings.Join(names, " or ")
}

func traitNames(traits []*trait) string {
	var names []string
	for _, tr := range traits {
		names = append(names, tr.name)
	}
	return strings.Join(names, " or ")
}
