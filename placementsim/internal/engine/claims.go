package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/collation"
)

// Claim replaces the allocations of one or more consumers, all or none of
// them. The new allocations are checked together against what all other
// consumers have. The error matches [ErrConcurrentUpdate] for a consumer
// generation, [ErrUnknownProvider], [ErrUnknownClass], or [ErrConflict] when an
// allocation does not fit.
func (s *State) Claim(claims []Claim, w Writes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, err := s.plan(claims, w)
	if err != nil {
		return err
	}
	if err := plan.check(nil); err != nil {
		return err
	}
	defer watch(s, (*State).addPlanRows, plan)()
	s.apply(plan, w)
	return nil
}

// Fits returns the error that [State.Claim] has at the moment. It makes no claim.
func (s *State) Fits(claims []Claim, w Writes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, err := s.plan(claims, w)
	if err != nil {
		return err
	}
	return plan.check(nil)
}

// plan is a set of claims with its effect on inventories and providers.
type plan struct {
	claims   []plannedClaim
	changes  []change    // by provider and class
	bumped   []*provider // by creation
	capacity Capacity
	// reshaped are the providers whose inventories change as well.
	reshaped []*provider
}

type plannedClaim struct {
	Claim
	allocs []allocation
	old    []allocation // what the consumer has
}

// change is the change of a plan to one inventory.
type change struct {
	provider     *provider
	class        *class
	freed, taken int64
}

func (c change) compare(d change) int {
	return cmp.Or(bySeq(c.provider, d.provider), c.class.id-d.class.id)
}

// changeOf returns what the plan does to the inventory of a class of a provider.
func (pl *plan) changeOf(p *provider, c *class) change {
	sought := change{provider: p, class: c}
	if i, found := slices.BinarySearchFunc(pl.changes, sought, change.compare); found {
		return pl.changes[i]
	}
	return sought
}

// changeBy is changeOf without the later claims. If claims do not fit together, the service
// refuses the first claim that exceeds what the earlier claims leave free.
func (pl *plan) changeBy(claim int, a allocation) change {
	ch := pl.changeOf(a.provider, a.class)
	for _, later := range pl.claims[claim+1:] {
		for _, b := range later.allocs {
			if b.provider == a.provider && b.class == a.class {
				ch.taken -= b.amount
			}
		}
	}
	return ch
}

// overlay holds inventories that replace the providers' own for a check.
type overlay map[*provider][]inventory

func (o overlay) inventory(p *provider, c *class) *inventory {
	if invs, ok := o[p]; ok {
		return inventoryOf(invs, c)
	}
	return p.inventory(c)
}

// plan reads claims. It changes nothing except that it removes consumers without allocations.
// check then verifies that the allocations fit.
func (s *State) plan(claims []Claim, w Writes) (*plan, error) {
	for _, claim := range claims {
		if err := s.checkGeneration(claim); err != nil {
			return nil, err
		}
	}
	for _, claim := range claims {
		if err := s.checkProviders(claim); err != nil {
			if w.KeepLeftovers {
				s.leaveConsumers(claims)
			}
			return nil, err
		}
	}
	if err := s.checkDistinct(claims); err != nil {
		return nil, err
	}
	pl := &plan{capacity: w.Capacity, claims: make([]plannedClaim, 0, len(claims))}
	for _, claim := range claims {
		allocs, err := s.resolve(claim)
		if err != nil {
			return nil, err
		}
		planned := plannedClaim{Claim: claim, allocs: allocs}
		if known := s.consumers.Get(claim.Consumer); known != nil {
			planned.old = known.allocs
		}
		pl.claims = append(pl.claims, planned)
	}
	pl.count()
	return pl, nil
}

// checkProviders refuses a claim on a provider that does not exist. The service checks all claims so before it looks up a
// class.
func (s *State) checkProviders(claim Claim) error {
	for _, a := range claim.Allocations {
		if s.providers.Get(a.Provider) == nil {
			return refuse(ErrUnknownProvider, "Allocation for resource provider '%s' that does not exist.", a.Provider)
		}
	}
	return nil
}

// checkDistinct refuses claims that name a consumer twice, in two spellings. The service creates a consumer for the first, whose
// generation the second does not have; of a consumer that exists, and before microversion 1.28, it adds up both and shows one.
func (s *State) checkDistinct(claims []Claim) error {
	if len(claims) < 2 {
		return nil
	}
	seen := collation.NewMap[bool](s.key)
	for _, claim := range claims {
		if seen.Get(claim.Consumer) {
			return refuse(ErrConcurrentUpdate, "consumer generation conflict - expected 0 but got %s", claim.generation())
		}
		seen.Set(claim.Consumer, true)
	}
	return nil
}

// resolve finds the classes of a claim, whose providers exist, in its order.
func (s *State) resolve(claim Claim) ([]allocation, error) {
	allocs := make([]allocation, 0, len(claim.Allocations))
	for _, a := range claim.Allocations {
		c, err := s.classes.lookup(a.Class)
		if err != nil {
			return nil, err
		}
		allocs = append(allocs, allocation{provider: s.providers.Get(a.Provider), class: c, amount: a.Amount})
	}
	return merge(allocs), nil
}

// merge adds up what is named twice. Allocations without that keep their order.
func merge(allocs []allocation) []allocation {
	sorted := slices.Clone(allocs)
	slices.SortFunc(sorted, func(a, b allocation) int {
		return cmp.Or(bySeq(a.provider, b.provider), a.class.id-b.class.id)
	})
	merged := sorted[:0]
	for _, a := range sorted {
		if n := len(merged); n > 0 && merged[n-1].provider == a.provider && merged[n-1].class == a.class {
			merged[n-1].amount += a.amount
			continue
		}
		merged = append(merged, a)
	}
	if len(merged) == len(allocs) {
		return allocs
	}
	return merged
}

// leaveConsumers records the consumers that the claims would have created.
func (s *State) leaveConsumers(claims []Claim) {
	for _, claim := range claims {
		if s.consumers.Get(claim.Consumer) == nil {
			defer watch(s, (*State).addConsumerRows, claim.Consumer)()
			s.keep(newConsumer(claim), claim.Project, claim.User)
		}
	}
}

func newConsumer(claim Claim) *consumer {
	return &consumer{uuid: claim.Consumer, kind: claim.Type}
}

// count sums up the plan per inventory and finds the providers to be bumped: the providers of the
// new allocations, and of the removed allocations of emptied consumers.
func (pl *plan) count() {
	entries := 0
	for _, claim := range pl.claims {
		entries += len(claim.allocs) + len(claim.old)
	}
	pl.changes, pl.bumped = make([]change, 0, entries), make([]*provider, 0, entries)
	for _, claim := range pl.claims {
		for _, a := range claim.old {
			pl.changes = append(pl.changes, change{a.provider, a.class, a.amount, 0})
			if len(claim.allocs) == 0 {
				pl.bumped = append(pl.bumped, a.provider)
			}
		}
		for _, a := range claim.allocs {
			pl.changes = append(pl.changes, change{a.provider, a.class, 0, a.amount})
			pl.bumped = append(pl.bumped, a.provider)
		}
	}
	slices.SortFunc(pl.changes, change.compare)
	merged := pl.changes[:0]
	for _, c := range pl.changes {
		if n := len(merged); n > 0 && merged[n-1].compare(c) == 0 {
			merged[n-1].freed += c.freed
			merged[n-1].taken += c.taken
		} else {
			merged = append(merged, c)
		}
	}
	pl.changes = merged
	slices.SortFunc(pl.bumped, bySeq)
	pl.bumped = slices.Compact(pl.bumped)
}

// check returns an error if an allocation of the plan does not fit.
func (pl *plan) check(over overlay) error {
	if err := pl.checkProviders(over); err != nil {
		return err
	}
	for i, claim := range pl.claims {
		for _, a := range claim.allocs {
			inv := over.inventory(a.provider, a.class)
			if inv == nil {
				return refuse(ErrConflict, "Unable to allocate inventory: Inventory for '%s' on resource provider '%s' invalid.", a.class.name, a.provider.uuid)
			}
			if !inv.allowed(a.amount) {
				return refuse(ErrConflict, "Unable to allocate inventory: Unable to create allocation for '%s' on resource provider '%s'. The requested amount would violate inventory constraints.", a.class.name, a.provider.uuid)
			}
			if pl.capacity.exceeded(inv, pl.changeOf(a.provider, a.class)) && pl.capacity.exceeded(inv, pl.changeBy(i, a)) {
				return refuse(ErrConflict, "Unable to allocate inventory: Unable to create allocation for '%s' on resource provider '%s'. The requested amount would exceed the capacity.", a.class.name, a.provider.uuid)
			}
		}
	}
	return nil
}

// checkProviders refuses a plan that names a provider without inventory of any of the
// plan's classes. It comes before all else, and names all of them.
func (pl *plan) checkProviders(over overlay) error {
	lacks := func(ch change) bool { return ch.taken > 0 && over.inventory(ch.provider, ch.class) == nil }
	if !slices.ContainsFunc(pl.changes, lacks) {
		return nil
	}
	var classes []*class
	for _, claim := range pl.claims {
		wanted := claim.allocs
		if len(wanted) == 0 { // emptying a consumer writes its allocations with an amount of zero
			wanted = claim.old
		}
		for _, a := range wanted {
			classes = append(classes, a.class)
		}
	}
	slices.SortFunc(classes, func(a, b *class) int { return a.id - b.id })
	var names, providers []string
	for _, c := range slices.Compact(classes) {
		names = append(names, c.name)
	}
	for _, ch := range pl.changes {
		if lacks(ch) && !slices.ContainsFunc(classes, func(c *class) bool { return over.inventory(ch.provider, c) != nil }) {
			providers = append(providers, ch.provider.uuid)
		}
	}
	if providers == nil {
		return nil
	}
	return refuse(ErrConflict, "Unable to allocate inventory: Inventory for '%s' on resource provider '%s' invalid.", strings.Join(names, ", "), strings.Join(slices.Compact(providers), ", "))
}

// apply carries a plan out.
func (s *State) apply(pl *plan, w Writes) {
	for _, claim := range pl.claims {
		if known := s.consumers.Get(claim.Consumer); known != nil {
			s.release(known)
		}
	}
	for _, claim := range pl.claims {
		s.store(claim, w)
	}
	for _, c := range pl.changes {
		s.updateRoom(c.provider.tree, c.class, c.provider.traits)
	}
	for _, p := range pl.bumped {
		p.bump(w.Now)
	}
}

// release takes back what a consumer has, without touching the indexes.
func (s *State) release(c *consumer) {
	for _, a := range c.allocs {
		if inv := a.provider.inventory(a.class); inv != nil {
			inv.used -= a.amount
		}
		delete(a.provider.consumers, c)
	}
	c.allocs = nil
}

// store writes the allocations and the consumer of a claim.
func (s *State) store(claim plannedClaim, w Writes) {
	c := s.consumers.Get(claim.Consumer)
	isNew := c == nil
	if isNew {
		c = newConsumer(claim.Claim)
	}
	if len(claim.allocs) == 0 {
		s.storeEmpty(c, isNew, claim, w)
		return
	}
	s.keep(c, claim.Project, claim.User)
	if claim.SetType {
		c.kind = claim.Type
	}
	c.generation++
	c.created = w.Now
	s.writes++
	c.written = s.writes
	c.allocs = claim.allocs
	for _, a := range claim.allocs {
		a.serve(c)
	}
}

// serve counts an allocation of a consumer where it is.
func (a allocation) serve(c *consumer) {
	a.provider.inventory(a.class).used += a.amount
	if a.provider.consumers == nil {
		a.provider.consumers = make(map[*consumer]struct{}, 1)
	}
	a.provider.consumers[c] = struct{}{}
}

// storeEmpty ends a consumer, or leaves one that never had allocations behind.
func (s *State) storeEmpty(c *consumer, isNew bool, claim plannedClaim, w Writes) {
	switch {
	case isNew && w.KeepLeftovers:
		s.keep(c, claim.Project, claim.User)
	case !isNew && c.generation > 0:
		s.drop(c)
	}
}

// Release removes the allocations of a consumer. No generation changes. The
// error matches [ErrNotFound].
func (s *State) Release(uuid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.consumers.Get(uuid)
	if c == nil || len(c.allocs) == 0 {
		return refuse(ErrNotFound, "No allocations for consumer '%s'", uuid)
	}
	allocs := c.allocs
	defer watch(s, (*State).addConsumerRows, uuid)()
	s.release(c)
	for _, a := range allocs {
		s.updateRoom(a.provider.tree, a.class, a.provider.traits)
	}
	s.drop(c)
	return nil
}
