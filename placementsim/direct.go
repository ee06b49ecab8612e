package placementsim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// The decisions that a caller can make about an error.
var (
	// ErrConfig: [New] cannot use the configuration.
	ErrConfig = errors.New("placementsim: bad configuration")
	// ErrNotFound: there is no such provider, consumer or inventory.
	ErrNotFound = errors.New("placementsim: not found")
	// ErrConflict: the present state does not allow the change: no room, in
	// use, or a name taken.
	ErrConflict = errors.New("placementsim: conflict")
	// ErrInvalid: the change is invalid in any state.
	ErrInvalid = errors.New("placementsim: invalid")
)

// ResourceProvider is a provider with all it has. [Server.CreateProvider] ignores
// Generation and Root.
type ResourceProvider struct {
	UUID        string // to create one, may be empty: made from the seed
	Name        string
	Generation  int
	Parent      string // uuid; empty for a root
	Root        string // of a root: itself
	Inventories map[string]Inventory
	Traits      []string // in creation order, the standard ones first; custom ones are created
	Aggregates  []string // uuids
}

// Inventory is how much of a resource class a provider has. Zero values of MaxUnit, MinUnit,
// StepSize and AllocationRatio mean the service's defaults: no maximum, 1, 1 and 1.0.
type Inventory struct {
	Total, Reserved            int
	MinUnit, MaxUnit, StepSize int
	AllocationRatio            float64
}

// Allocation is an amount of a resource class that a consumer has from a
// provider.
type Allocation struct {
	Consumer, Provider, Class string
	Used                      int
}

// Claim is the new allocations of a consumer for [Server.Claim].
type Claim struct {
	Consumer, Project, User string
	Type                    string // consumer type; empty for none
	Allocations             []Allocation
}

func (i Inventory) engine() engine.Inventory {
	spec := engine.Inventory(i)
	spec.MinUnit, spec.MaxUnit, spec.StepSize = cmp.Or(i.MinUnit, 1), cmp.Or(i.MaxUnit, math.MaxInt32), cmp.Or(i.StepSize, 1)
	spec.AllocationRatio = cmp.Or(i.AllocationRatio, 1)
	return spec
}

// check enforces the limits of the API.
func (i Inventory) check(class string) error {
	spec := i.engine()
	for _, field := range []struct {
		name       string
		value, low int
	}{{"total", spec.Total, 1}, {"reserved", spec.Reserved, 0}, {"min_unit", spec.MinUnit, 1}, {"max_unit", spec.MaxUnit, 1}, {"step_size", spec.StepSize, 1}} {
		if field.value < field.low || field.value > math.MaxInt32 {
			return fmt.Errorf("%w: inventory of %s: %s %d is not between %d and %d", ErrInvalid, class, field.name, field.value, field.low, math.MaxInt32)
		}
	}
	if math.IsNaN(spec.AllocationRatio) || spec.AllocationRatio > 3.40282e+38 {
		return fmt.Errorf("%w: inventory of %s: allocation_ratio %v", ErrInvalid, class, spec.AllocationRatio)
	}
	return nil
}

// direct converts the error of a transition to one of this package.
func direct(step, subject string, err error) error {
	if err == nil {
		return nil
	}
	kind := ErrConflict
	switch {
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrUnknownProvider):
		kind = ErrNotFound
	case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrCapacity),
		errors.Is(err, engine.ErrUnknownClass), errors.Is(err, engine.ErrUnknownTrait):
		kind = ErrInvalid
	}
	return fmt.Errorf("%w: %s %s: %w", kind, step, subject, err)
}

// CreateProvider adds a provider with its inventories, traits and aggregates, and creates the
// custom classes and traits it names. The error matches [ErrConflict] if the uuid or name exists,
// or [ErrInvalid]; then no provider is added.
func (s *Server) CreateProvider(n ResourceProvider) (ResourceProvider, error) {
	if n.UUID == "" {
		n.UUID = s.ids.UUID()
	}
	if !uuids.Like(n.UUID) || n.Name == "" {
		return ResourceProvider{}, fmt.Errorf("%w: create provider %q: it needs a name and a uuid, not %q", ErrInvalid, n.Name, n.UUID)
	}
	n.UUID = uuids.Canonical(n.UUID)
	if _, err := s.state.CreateProvider(engine.NewProvider{UUID: n.UUID, Name: n.Name, Parent: n.Parent}, s.now()); err != nil {
		return ResourceProvider{}, direct("create provider", n.Name, err)
	}
	if err := s.equip(n); err != nil {
		_ = s.state.DeleteProvider(n.UUID) // without an inventory it has no allocations
		return ResourceProvider{}, err
	}
	return s.ResourceProvider(n.UUID)
}

// equip sets aggregates, traits and inventories of a new provider. Inventories come last because
// they make the provider allocatable.
func (s *Server) equip(n ResourceProvider) error {
	if len(n.Aggregates) > 0 {
		if err := s.SetAggregates(n.UUID, n.Aggregates...); err != nil {
			return err
		}
	}
	if len(n.Traits) > 0 {
		if err := s.SetTraits(n.UUID, n.Traits...); err != nil {
			return err
		}
	}
	if len(n.Inventories) > 0 {
		return s.SetInventory(n.UUID, n.Inventories)
	}
	return nil
}

// DeleteProvider removes a provider. The error matches [ErrNotFound], or
// [ErrConflict] when it has children or allocations.
func (s *Server) DeleteProvider(uuid string) error {
	return direct("delete provider", uuid, s.state.DeleteProvider(uuid))
}

// SetInventory replaces all inventories of a provider, creating the custom
// resource classes among them. The error matches [ErrNotFound], [ErrInvalid],
// or [ErrConflict] when one to be removed has allocations.
func (s *Server) SetInventory(provider string, inventories map[string]Inventory) error {
	specs := make(map[string]engine.Inventory, len(inventories))
	for class, inventory := range inventories {
		if err := inventory.check(class); err != nil {
			return err
		}
		specs[class] = inventory.engine()
		s.ensureClass(class)
	}
	_, err := s.state.SetInventories(provider, nil, specs, engine.InventoryWrite{AllowFull: true, Now: s.now()})
	return direct("set inventory of", provider, err)
}

func (s *Server) ensureClass(name string) {
	if customName.MatchString(name) && len(name) <= maxName {
		s.state.EnsureClass(name, s.now())
	}
}

// SetTraits replaces the traits of a provider, creating the custom ones among
// them. The error matches [ErrNotFound], or [ErrInvalid] for an unknown trait.
func (s *Server) SetTraits(provider string, traits ...string) error {
	for _, name := range traits {
		if customName.MatchString(name) && len(name) <= maxName {
			s.state.EnsureTrait(name, s.now())
		}
	}
	_, err := s.state.SetProviderTraits(provider, nil, traits, s.now())
	return direct("set traits of", provider, err)
}

// SetAggregates replaces the aggregates of a provider. The error matches
// [ErrNotFound], or [ErrInvalid] for something that is not a uuid.
func (s *Server) SetAggregates(provider string, aggregates ...string) error {
	for _, uuid := range aggregates {
		if !uuids.Like(uuid) {
			return fmt.Errorf("%w: set aggregates of %s: %q is not a uuid", ErrInvalid, provider, uuid)
		}
	}
	_, err := s.state.SetAggregates(provider, nil, aggregates, s.now())
	return direct("set aggregates of", provider, err)
}

// Claim replaces the allocations of a consumer without a check of its generation. An empty list
// removes them all. The error matches [ErrNotFound] for an unknown provider, [ErrInvalid], or
// [ErrConflict] when they do not fit; then nothing changes.
func (s *Server) Claim(c Claim) error {
	if !uuids.Like(c.Consumer) {
		return fmt.Errorf("%w: claim for %q: the consumer is not a uuid", ErrInvalid, c.Consumer)
	}
	claim := engine.Claim{
		Consumer: uuids.Canonical(c.Consumer), Project: c.Project, User: c.User, SetType: true, Type: c.Type,
		Allocations: make([]engine.ProviderAmount, 0, len(c.Allocations)),
	}
	for _, a := range c.Allocations {
		if a.Used < 1 {
			return fmt.Errorf("%w: claim for %s: %d of %s on %s", ErrInvalid, c.Consumer, a.Used, a.Class, a.Provider)
		}
		claim.Allocations = append(claim.Allocations, engine.ProviderAmount{Provider: a.Provider, Class: a.Class, Amount: int64(a.Used)})
	}
	return direct("claim for", c.Consumer, s.state.Claim([]engine.Claim{claim}, engine.Writes{Now: s.now()}))
}

// Release removes the allocations of a consumer. The error matches [ErrNotFound] if the consumer
// has no allocations.
func (s *Server) Release(consumer string) error {
	return direct("release", consumer, s.state.Release(consumer))
}

// ResourceProvider returns one provider, or an error that matches
// [ErrNotFound].
func (s *Server) ResourceProvider(uuid string) (ResourceProvider, error) {
	p, err := s.state.Inspect(uuid)
	if err != nil {
		return ResourceProvider{}, direct("read provider", uuid, err)
	}
	return newResourceProvider(p), nil
}

// ResourceProviders returns all providers in creation order.
func (s *Server) ResourceProviders() []ResourceProvider {
	var list []ResourceProvider
	for _, p := range s.state.InspectAll() {
		list = append(list, newResourceProvider(p))
	}
	return list
}

// UsedProvider is a provider with how much of its resource classes is allocated.
type UsedProvider struct {
	ResourceProvider
	Used map[string]int // by class
}

// Trees returns a part of the provider trees, in creation order, each with its providers in
// creation order: those with a provider whose name or uuid contains a text, all for an empty
// one, without the first skip of them and at most limit. Matching is how many there are in
// all. Its cost depends little on the trees that it leaves out.
func (s *Server) Trees(text string, skip, limit int) (trees [][]UsedProvider, matching int) {
	found, matching := s.state.Trees(text, skip, limit)
	for _, members := range found {
		tree := make([]UsedProvider, 0, len(members))
		for _, p := range members {
			used := make(map[string]int, len(p.Inventories))
			for _, i := range p.Inventories {
				used[i.Class] = int(i.Used)
			}
			tree = append(tree, UsedProvider{newResourceProvider(p), used})
		}
		trees = append(trees, tree)
	}
	return trees, matching
}

// Totals adds up, by resource class, the Total and Reserved of the inventories of the trees that [Server.Trees] finds with a text, and how much
// of each class is allocated there.
func (s *Server) Totals(text string) (inventories map[string]Inventory, used map[string]int) {
	inventories, used = make(map[string]Inventory), make(map[string]int)
	for name, sum := range s.state.Totals(text) {
		inventories[name], used[name] = Inventory{Total: sum.Total, Reserved: sum.Reserved}, int(sum.Used)
	}
	return inventories, used
}

func newResourceProvider(p engine.Inspection) ResourceProvider {
	rp := ResourceProvider{
		UUID: p.UUID, Name: p.Name, Generation: p.Generation, Parent: p.Parent, Root: p.Root,
		Inventories: make(map[string]Inventory, len(p.Inventories)), Traits: p.Traits, Aggregates: p.Aggregates,
	}
	for _, i := range p.Inventories {
		rp.Inventories[i.Class] = Inventory(i.Inventory)
	}
	return rp
}

// Allocations returns all allocations, sorted by consumer.
func (s *Server) Allocations() []Allocation {
	var list []Allocation
	for _, c := range s.state.Consumers() {
		for _, a := range c.Allocations {
			list = append(list, Allocation{a.Consumer, a.Provider, a.Class, int(a.Amount)})
		}
	}
	return list
}

// ConsumerProject returns the project that the allocations of a consumer count for, "" for
// an unknown consumer.
func (s *Server) ConsumerProject(consumer string) string {
	return s.state.ConsumerProject(consumer)
}

// Usage returns how much of a class of a provider is allocated, 0 for an
// unknown one.
func (s *Server) Usage(provider, class string) int {
	p, _ := s.state.Inspect(provider)
	for _, i := range p.Inventories {
		if i.Class == class {
			return int(i.Used)
		}
	}
	return 0
}

// describe prints the provider trees with their usage.
func (s *Server) describe() string {
	var b strings.Builder
	children := make(map[string][]engine.Inspection)
	for _, p := range s.state.InspectAll() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var draw func(parent string, depth int)
	draw = func(parent string, depth int) {
		for _, p := range children[parent] {
			fmt.Fprintf(&b, "%s%s %s", strings.Repeat("  ", depth+1), p.Name, p.UUID)
			for _, i := range p.Inventories {
				fmt.Fprintf(&b, " %s %d/%.0f", i.Class, i.Used, i.Capacity())
			}
			if len(p.Traits) > 0 {
				fmt.Fprintf(&b, " %s", strings.Join(p.Traits, ","))
			}
			b.WriteByte('\n')
			draw(p.UUID, depth+1)
		}
	}
	draw("", 0)
	if b.Len() == 0 {
		return "  no providers\n"
	}
	return b.String()
}
