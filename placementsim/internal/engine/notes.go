package engine

import (
	"fmt"
	"slices"
	"strings"
)

// The actions of a [Change].
const (
	actionCreated = "created"
	actionChanged = "changed"
	actionDeleted = "deleted"
)

// Change is one thing that a transition has changed. Kinds are resource_provider,
// inventory, provider_traits, aggregates, resource_class, trait, consumer and allocations;
// the id of an inventory is PROVIDER/CLASS, that of traits, aggregates and allocations the
// uuid of who has them.
type Change struct {
	Action, Kind, ID string
	What             string // in one line
}

// Noting returns the same state for a caller who wants to know what transitions made
// through it change. The caller's function is called under the lock.
func (s *State) Noting(note func(Change)) *State { return &State{core: s.core, note: note} }

// watch returns a function that notes what has become of providers and consumers since,
// among them those that did not exist then. It costs nothing when nobody listens.
func (s *State) watch(providers []*provider, consumers ...string) (end func()) {
	if s.note == nil {
		return unheard
	}
	before := make([]providerImage, len(providers))
	for i, p := range providers {
		before[i] = s.imageOf(p)
	}
	had := make([]consumerImage, len(consumers))
	for i, uuid := range consumers {
		had[i] = s.consumerImage(uuid)
	}
	return func() {
		for i, uuid := range consumers {
			s.noteConsumer(uuid, had[i], s.consumerImage(uuid))
		}
		for i, p := range providers {
			s.noteProvider(p, before[i], s.imageOf(p))
		}
	}
}

// watchProvider is watch for one provider.
func (s *State) watchProvider(p *provider) (end func()) {
	if s.note == nil {
		return unheard
	}
	return s.watch([]*provider{p})
}

// watchConsumer is watch for one consumer.
func (s *State) watchConsumer(uuid string) (end func()) {
	if s.note == nil {
		return unheard
	}
	return s.watch(nil, uuid)
}

// unheard ends a watch that nobody listens to.
func unheard() {}

// providerImage is what there is to tell about a provider.
type providerImage struct {
	there        bool
	name         string
	parent, root *provider
	generation   int
	invs         []inventory
	traits       []string
	aggregates   []string
}

func (s *State) imageOf(p *provider) providerImage {
	if s.providers[p.uuid] != p {
		return providerImage{}
	}
	return providerImage{
		there: true, name: p.name, parent: p.parent, root: p.root(), generation: p.generation,
		invs: slices.Clone(p.invs), traits: p.traits.names, aggregates: p.aggregatesView().UUIDs,
	}
}

func (s *State) noteProvider(p *provider, old, now providerImage) {
	switch id := p.uuid; {
	case !old.there && now.there && now.parent != nil:
		s.note(Change{actionCreated, "resource_provider", id, now.name + " below " + now.parent.name})
	case !old.there && now.there:
		s.note(Change{actionCreated, "resource_provider", id, now.name})
	case old.there && !now.there:
		s.note(Change{actionDeleted, "resource_provider", id, old.name})
	default:
		s.noteText("resource_provider", id, joined(
			fromTo("name", old.name, now.name), fromTo("parent", old.parent, now.parent), fromTo("root", old.root, now.root),
			fromTo("generation", old.generation, now.generation)))
	}
	name := now.name
	if !now.there {
		name = old.name
	}
	s.noteInventories(p.uuid, name, old.invs, now.invs)
	s.noteSet("provider_traits", p.uuid, name, old.traits, now.traits)
	s.noteSet("aggregates", p.uuid, name, old.aggregates, now.aggregates)
}

// noteInventories compares the inventories of a provider, which are sorted by class.
func (s *State) noteInventories(id, name string, old, now []inventory) {
	find := func(list []inventory, c *class) (spec Inventory, ok bool) {
		i := slices.IndexFunc(list, func(i inventory) bool { return i.class == c })
		if i < 0 {
			return Inventory{}, false
		}
		return list[i].Inventory, true
	}
	for _, i := range old {
		if spec, still := find(now, i.class); !still {
			s.note(Change{actionDeleted, "inventory", id + "/" + i.class.name, i.class.name + " on " + name})
		} else if spec != i.Inventory {
			s.note(Change{actionChanged, "inventory", id + "/" + i.class.name, i.class.name + " on " + name + ": " + i.Inventory.changes(spec)})
		}
	}
	for _, i := range now {
		if _, before := find(old, i.class); !before {
			s.note(Change{actionCreated, "inventory", id + "/" + i.class.name, fmt.Sprintf("%s on %s: total %d", i.class.name, name, i.Total)})
		}
	}
}

func (i Inventory) changes(to Inventory) string {
	return joined(fromTo("total", i.Total, to.Total), fromTo("reserved", i.Reserved, to.Reserved),
		fromTo("min_unit", i.MinUnit, to.MinUnit), fromTo("max_unit", i.MaxUnit, to.MaxUnit),
		fromTo("step_size", i.StepSize, to.StepSize), fromTo("allocation_ratio", i.AllocationRatio, to.AllocationRatio))
}

// noteSet compares sets of names; one without names does not exist.
func (s *State) noteSet(kind, id, owner string, old, now []string) {
	var diff []string
	for _, name := range old {
		if !slices.Contains(now, name) {
			diff = append(diff, "-"+name)
		}
	}
	for _, name := range now {
		if !slices.Contains(old, name) {
			diff = append(diff, "+"+name)
		}
	}
	if diff == nil {
		return
	}
	s.note(Change{actionOf(len(old) > 0, len(now) > 0), kind, id, owner + ": " + strings.Join(diff, " ")})
}

// consumerImage is what there is to tell about a consumer.
type consumerImage struct {
	there               bool
	project, user, kind string
	generation          int
	allocs              []allocation
}

func (s *State) consumerImage(uuid string) consumerImage {
	c := s.consumers[uuid]
	if c == nil {
		return consumerImage{}
	}
	return consumerImage{true, c.project, c.user, c.kind, c.generation, c.allocs}
}

func (s *State) noteConsumer(id string, old, now consumerImage) {
	switch {
	case !old.there && now.there:
		s.note(Change{actionCreated, "consumer", id, fmt.Sprintf("generation %d", now.generation)})
	case old.there && !now.there:
		s.note(Change{actionDeleted, "consumer", id, ""})
	default:
		s.noteText("consumer", id, joined(
			fromTo("project", old.project, now.project), fromTo("user", old.user, now.user),
			fromTo("consumer_type", old.kind, now.kind), fromTo("generation", old.generation, now.generation)))
	}
	if slices.Equal(old.allocs, now.allocs) {
		return
	}
	action, what := actionOf(len(old.allocs) > 0, len(now.allocs) > 0), describe(now.allocs)
	switch action {
	case actionChanged:
		what = describe(old.allocs) + " -> " + what
	case actionDeleted:
		what = describe(old.allocs)
	}
	s.note(Change{action, "allocations", id, what})
}

// describe says what allocations are: "VGPU 1 on gpu0".
func describe(allocs []allocation) string {
	list := make([]string, 0, len(allocs))
	for _, a := range allocs {
		list = append(list, fmt.Sprintf("%s %d on %s", a.class.name, a.amount, a.provider.name))
	}
	return strings.Join(list, ", ")
}

// noteText notes a change of something that there was and still is, if there is anything
// to tell.
func (s *State) noteText(kind, id, what string) {
	if what != "" {
		s.note(Change{actionChanged, kind, id, what})
	}
}

// noteName notes a resource class or trait, if anybody listens.
func (s *State) noteName(action, kind, name, what string) {
	if s.note != nil {
		s.note(Change{action, kind, name, what})
	}
}

func actionOf(before, after bool) string {
	switch {
	case !before:
		return actionCreated
	case !after:
		return actionDeleted
	}
	return actionChanged
}

// fromTo tells how a value has changed, or nothing.
func fromTo[T comparable](name string, from, to T) string {
	if from == to {
		return ""
	}
	return name + " " + shown(from) + " -> " + shown(to)
}

func shown(value any) string {
	if p, ok := value.(*provider); ok {
		if p == nil {
			return "none"
		}
		return p.name
	}
	if value == "" {
		return "none"
	}
	return fmt.Sprint(value)
}

// joined joins what fromTo has told.
func joined(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(text string) bool { return text == "" }), ", ")
}
