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
	ReasonCapacity  ReasonKind = "capacity"  // not enough free
	ReasonRoot      ReasonKind = "root"      // root_required
	ReasonIsolation ReasonKind = "isolation" // group_policy=isolate
	ReasonSubtree   ReasonKind = "subtree"   // same_subtree
	ReasonSum       ReasonKind = "sum"       // the groups together
	ReasonTooLarge  ReasonKind = "too_large" // not decided within the limit of a search
)

// Reason is why something cannot be part of a candidate. The zero value means no reason.
type Reason struct {
	Kind ReasonKind `json:"kind"`
	Text string     `json:"text"`
}

// HostVerdict reports whether candidates are anchored at a root, and if not, why.
type HostVerdict struct {
	UUID      string `json:"uuid"`
	Name      string `json:"name"`
	Candidate bool   `json:"candidate"`
	// Reason excludes the host as a whole, or prevents all groups together although each alone
	// could be served.
	Reason Reason         `json:"reason,omitzero"`
	Groups []GroupVerdict `json:"groups,omitempty"` // in the query's order; none if Reason is about the root
	// Words are the reasons of the host and its groups as sentences; none for a
	// candidate.
	Words []string `json:"words,omitempty"`
}

// GroupVerdict reports whether one group alone could be served.
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

// Explain returns for every root why no candidate is anchored there. It ignores the query's
// limit. The error matches [ErrUnknownClass] or [ErrUnknownTrait], for all traits that do not
// exist, or [ErrTooMany] for an explanation that is too long.
func (s *State) Explain(q CandidateQuery) ([]HostVerdict, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sr, err := s.newSearch(q)
	defer sr.release()
	if err != nil {
		return nil, err
	}
	verdicts := make([]HostVerdict, 0, len(s.trees.trees))
	for _, t := range s.trees.trees {
		if t == nil {
			continue
		}
		v, err := sr.explain(t)
		if err == nil {
			err = sr.lengthen(hostLength + 2*(len(v.Name)+len(v.Reason.Text)))
		}
		if err != nil {
			return nil, err
		}
		v.addWords()
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// maxExplained bounds the memory of an explanation: about the length of its JSON form, in bytes.
const maxExplained = 64 << 20

// lengthen adds to the length of the explanation.
func (sr *search) lengthen(n int) error {
	switch sr.length += n; {
	case sr.length > maxExplained:
		return refuse(ErrTooMany, "The explanation is too long: make the request narrower, with fewer groups.")
	case sr.length > largeFound && !sr.large:
		sr.grow()
	}
	return nil
}

// The lengths of a host, a group and a provider in an explanation, without what each has of texts.
const (
	hostLength     = 200
	groupLength    = 150
	providerLength = 150
)

// length is the approximate length of the JSON form, in which the text of the host repeats the
// reason of the group.
func (v *GroupVerdict) length() int {
	n := groupLength + len(v.Suffix) + 2*len(v.Reason.Text)
	for i := range v.Providers {
		n += providerLength + len(v.Providers[i].Name) + len(v.Providers[i].Reason.Text)
	}
	return n
}

// explain explains one tree.
func (sr *search) explain(t *tree) (HostVerdict, error) {
	v := HostVerdict{UUID: t.root.uuid, Name: t.root.name}
	if r := refusedTraits(&sr.root, t.root.traits); r != (Reason{}) {
		v.Reason = Reason{ReasonRoot, withName(r.Text, t.root.name)}
		return v, nil
	}
	w := &sr.walk
	w.anchor = t
	sharers := w.sharersOf(t)
	all := true
	for _, g := range sr.groups {
		verdict := w.explainGroup(g, t, sharers)
		all = all && verdict.Served
		v.Groups = append(v.Groups, verdict)
		if err := sr.lengthen(verdict.length() + len(v.Name)); err != nil {
			return v, err
		}
	}
	if all {
		v.Candidate, v.Reason = sr.explainTogether(t)
	}
	return v, nil
}

// explainTogether explains a tree in which every group alone could be served.
func (sr *search) explainTogether(t *tree) (candidate bool, r Reason) {
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
	alone := &search{state: sr.state, groups: sr.groups[:1]}
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
	served := false
	sr.found = func(candidate) bool {
		served = true
		return false
	}
	sr.walk.begin(sr)
	_, err := sr.visit(t)
	return served, err
}

// sumReason says that the groups together take more than there is.
func (sr *search) sumReason(t *tree) Reason {
	sharers := sr.walk.sharersOf(t)
	for _, total := range sr.walk.totals {
		if have := sr.walk.left(total.class, t, sharers); have < total.amount {
			return Reason{ReasonSum, fmt.Sprintf("the groups together request %d of %s, available: %d", total.amount, total.class.name, have)}
		}
	}
	if d, served, found := sr.walk.missing(); found {
		return Reason{ReasonSum, fmt.Sprintf("%d identical groups request %d of %s each, and there is capacity for %d of them", d.count, d.amount, d.class.name, served)}
	}
	return Reason{ReasonSum, "the groups together take more than their providers can give"}
}

// explainGroup explains one group alone.
func (w *walk) explainGroup(g *group, t *tree, sharers []*sharer) GroupVerdict {
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
		w.explainSuffixed(&v, g, providers)
	} else {
		w.explainUnsuffixed(&v, g, providers)
	}
	return v
}

// explainSuffixed explains a group that one provider serves as a whole.
func (w *walk) explainSuffixed(v *GroupVerdict, g *group, providers []*provider) {
	var seen []ProviderVerdict
	for _, p := range providers {
		if len(g.amounts) > 0 && !slices.ContainsFunc(g.amounts, func(a classAmount) bool { return p.inventory(a.class) != nil }) {
			continue // has nothing to do with it
		}
		r := g.refusal(p, g.amounts, &g.traits, g.memberOfAll(p), g.memberOfForbidden(p))
		if r == (Reason{}) {
			v.Served = true
			return
		}
		seen = append(seen, ProviderVerdict{p.uuid, p.name, r})
	}
	v.fail(seen, "no provider has "+classNames(g.amounts))
}

// explainUnsuffixed explains the group without suffix: each class has a provider, and
// together these have the required traits.
func (w *walk) explainUnsuffixed(v *GroupVerdict, g *group, providers []*provider) {
	able := make([]*provider, 0, len(providers))
	forbidden := &traitFilter{forbidden: g.traits.forbidden}
	for k, a := range g.amounts {
		var seen []ProviderVerdict
		served := false
		for _, p := range providers {
			if p.inventory(a.class) == nil {
				continue
			}
			member, excluded := w.membership(g, p)
			r := g.refusal(p, g.amounts[k:k+1], forbidden, member, excluded)
			if r == (Reason{}) {
				served, able = true, append(able, p)
				continue
			}
			seen = append(seen, ProviderVerdict{p.uuid, p.name, r})
		}
		if !served {
			v.fail(seen, "no provider has "+a.class.name)
			return
		}
	}
	for _, anyOf := range g.traits.required {
		if !slices.ContainsFunc(able, func(p *provider) bool { return p.traits.hasAny(anyOf) }) {
			v.Reason = Reason{ReasonTrait, traitNames(anyOf) + " missing on the providers that have the resources"}
			return
		}
	}
	v.Served = true
}

// refusal returns the first reason why a provider does not give the amounts to the
// group, with %s for its name. The traits, membership and exclusion are those that
// count for the provider.
func (g *group) refusal(p *provider, amounts []classAmount, traits *traitFilter, member, excluded bool) Reason {
	if g.inTree != nil && p.tree != g.inTree {
		return Reason{ReasonTree, "%s is not in the tree of in_tree"}
	}
	for _, a := range amounts {
		if p.inventory(a.class) == nil {
			return Reason{ReasonClass, "%s has no " + a.class.name}
		}
	}
	if r := refusedTraits(traits, p.traits); r != (Reason{}) {
		return r
	}
	switch {
	case !member:
		return Reason{ReasonAggregate, "%s is not in the aggregates of member_of" + g.suffix}
	case excluded:
		return Reason{ReasonAggregate, "%s is in an aggregate that member_of" + g.suffix + " excludes"}
	}
	for _, a := range amounts {
		if r := p.inventory(a.class).refusal(a.amount); r != (Reason{}) {
			return r
		}
	}
	return Reason{}
}

// refusedTraits returns the first rule about traits that a set breaks.
func refusedTraits(f *traitFilter, ts *traitSet) Reason {
	for _, anyOf := range f.required {
		if !ts.hasAny(anyOf) {
			return Reason{ReasonTrait, traitNames(anyOf) + " missing on %s"}
		}
	}
	for _, tr := range f.forbidden {
		if ts.has(tr) {
			return Reason{ReasonTrait, "%s has the forbidden " + tr.name}
		}
	}
	return Reason{}
}

// refusal returns why an amount cannot be allocated.
func (i *inventory) refusal(n int64) Reason {
	switch {
	case n < int64(i.MinUnit):
		return Reason{ReasonUnits, fmt.Sprintf("min_unit of %s on %%s is %d", i.class.name, i.MinUnit)}
	case n > int64(i.MaxUnit):
		return Reason{ReasonUnits, fmt.Sprintf("max_unit of %s on %%s is %d", i.class.name, i.MaxUnit)}
	case !i.allowed(n):
		return Reason{ReasonUnits, fmt.Sprintf("step_size of %s on %%s is %d", i.class.name, i.StepSize)}
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
		seen[i].Reason.Text = withName(text, seen[i].Name)
	}
	for i, text := range texts {
		texts[i] = withName(text, enumerate(names[text]))
	}
	v.Providers, v.Reason = seen, Reason{seen[0].Reason.Kind, strings.Join(texts, ", ")}
}

// withName puts a name into a text. Texts are not formats: the names of classes and
// traits in them are as callers wrote them.
func withName(text, name string) string { return strings.Replace(text, "%s", name, 1) }

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
