package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/sim"
)

// at returns the number of a slot.
func (ix *roomIndex) at(slot int) int64 {
	if block := ix.block(slot/slotsPerBlock, false); block != nil {
		return block.rooms[slot%slotsPerBlock]
	}
	return 0
}

// dump is everything that can be seen of a state, and its indexes.
type dump struct {
	Providers []Inspection
	Consumers []Consumer
	Leftovers int
	Classes   []Class
	Traits    []Trait
	Sharing   []string
}

func dumpOf(s *State) dump {
	d := dump{Providers: s.InspectAll(), Consumers: s.Consumers(), Classes: s.Classes(), Traits: s.Traits(TraitFilter{}), Leftovers: s.consumers.Len()}
	for _, p := range s.sharing {
		d.Sharing = append(d.Sharing, p.uuid)
	}
	return d
}

// broken returns what is inconsistent in the state.
func (s *State) broken() error {
	for _, check := range []func() error{s.brokenTrees, s.brokenUse, s.brokenRooms, s.brokenTraits, s.brokenAggregates, s.brokenOwners} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) brokenTrees() error {
	total := 0
	for slot, tr := range s.trees.trees {
		if tr == nil {
			continue
		}
		total += len(tr.members)
		if tr.slot != slot || tr.root.parent != nil || !slices.IsSortedFunc(tr.members, bySeq) {
			return fmt.Errorf("tree of %s in slot %d: %+v", tr.root.uuid, slot, tr)
		}
		for _, p := range tr.members {
			if p.tree != tr || !tr.root.isAncestorOf(p) {
				return fmt.Errorf("%s is in the wrong tree", p.uuid)
			}
		}
	}
	if total != len(s.order) || total != s.providers.Len() || total != s.names.Len() || !slices.IsSortedFunc(s.order, bySeq) {
		return fmt.Errorf("%d members, %d in order, %d uuids, %d names", total, len(s.order), s.providers.Len(), s.names.Len())
	}
	return nil
}

// brokenOwners compares the known projects and users with what the consumers have.
func (s *State) brokenOwners() error {
	consumers := make(map[*owner]int)
	for c := range s.consumers.Values() {
		consumers[c.project]++
		consumers[c.user]++
		if s.projects.Get(c.project.id) != c.project || s.users.Get(c.user.id) != c.user || s.consumers.Get(c.uuid) != c {
			return fmt.Errorf("consumer %s of project %s and user %s is not found", c.uuid, c.project.id, c.user.id)
		}
	}
	if known := s.projects.Len() + s.users.Len(); known != len(consumers) {
		return fmt.Errorf("%d projects and users, want %d", known, len(consumers))
	}
	for o, n := range consumers {
		if o.consumers != n {
			return fmt.Errorf("owner %s: %d consumers, want %d", o.id, o.consumers, n)
		}
	}
	return nil
}

// brokenUse compares what is used with the allocations.
func (s *State) brokenUse() error {
	used := make(map[change]int64)
	holders := make(map[*provider]map[*consumer]struct{})
	for c := range s.consumers.Values() {
		for _, a := range c.allocs {
			used[change{provider: a.provider, class: a.class}] += a.amount
			if holders[a.provider] == nil {
				holders[a.provider] = make(map[*consumer]struct{})
			}
			holders[a.provider][c] = struct{}{}
		}
	}
	for _, p := range s.order {
		for _, inv := range p.invs {
			if used[change{provider: p, class: inv.class}] != inv.used {
				return fmt.Errorf("%s %s: used %d, allocated %d", p.uuid, inv.class.name, inv.used, used[change{provider: p, class: inv.class}])
			}
			delete(used, change{provider: p, class: inv.class})
		}
		if len(p.consumers) != len(holders[p]) {
			return fmt.Errorf("%s: %d consumers, want %d", p.uuid, len(p.consumers), len(holders[p]))
		}
	}
	if len(used) > 0 {
		return fmt.Errorf("%d allocations without inventory", len(used))
	}
	return nil
}

func (s *State) brokenRooms() error {
	for _, c := range s.classes.byName {
		inventories := 0
		for slot, tr := range s.trees.trees {
			var want int64
			kinds := make(map[*traitSet]int64)
			if tr != nil {
				for _, p := range tr.members {
					if inv := p.inventory(c); inv != nil {
						want = max(want, inv.room())
						kinds[p.traits] = max(kinds[p.traits], inv.room())
						inventories++
					}
				}
			}
			if got := c.room.at(slot); want != got {
				return fmt.Errorf("room of %s in slot %d: %d, want %d", c.name, slot, got, want)
			}
			for set, index := range c.kinds {
				if got := index.at(slot); kinds[set] != got {
					return fmt.Errorf("room of %s with %q in slot %d: %d, want %d", c.name, set.key, slot, got, kinds[set])
				}
				delete(kinds, set)
			}
			if len(kinds) > 0 {
				return fmt.Errorf("%s has no index for %d sets of traits", c.name, len(kinds))
			}
			if alive := s.trees.alive.has(slot); alive != (tr != nil) {
				return fmt.Errorf("slot %d: alive is %t", slot, alive)
			}
		}
		if inventories != c.inventories {
			return fmt.Errorf("%s: %d inventories counted, %d there", c.name, c.inventories, inventories)
		}
	}
	return nil
}

func (s *State) brokenTraits() error {
	sets := make(map[*traitSet]int)
	for _, p := range s.order {
		sets[p.traits]++
		if p.shares() != slices.Contains(s.sharing, p) {
			return fmt.Errorf("%s: sharing is %t", p.uuid, p.shares())
		}
	}
	sets[s.traits.none]++
	for key, set := range s.traits.sets {
		if set.users != sets[set] {
			return fmt.Errorf("trait set %q: %d users, want %d", key, set.users, sets[set])
		}
	}
	for _, t := range s.traits.byName {
		users := 0
		for _, p := range s.order {
			if p.traits.has(t) {
				users++
			}
		}
		if users != t.providers {
			return fmt.Errorf("trait %s: %d users, want %d", t.name, t.providers, users)
		}
		for slot, tr := range s.trees.trees {
			if want := tr != nil && tr.hasTrait(t); want != t.trees.has(slot) {
				return fmt.Errorf("trait %s in slot %d: want %t", t.name, slot, want)
			}
		}
	}
	return nil
}

func (s *State) brokenAggregates() error {
	for agg := range s.aggregates.Values() {
		name := agg.uuid
		trees := make(map[*tree]int)
		for p := range agg.members {
			trees[p.tree]++
			if !p.inAggregate(agg) || s.providers.Get(p.uuid) != p {
				return fmt.Errorf("aggregate %s: %s is no member", name, p.uuid)
			}
		}
		if len(trees) == 0 || len(trees) != len(agg.trees) {
			return fmt.Errorf("aggregate %s: %d trees, want %d", name, len(agg.trees), len(trees))
		}
		for tr, n := range trees {
			if agg.trees[tr] != n {
				return fmt.Errorf("aggregate %s: %d in a tree, want %d", name, agg.trees[tr], n)
			}
		}
		for slot, tr := range s.trees.trees {
			if want := tr != nil && agg.trees[tr] > 0; want != agg.slots.has(slot) {
				return fmt.Errorf("aggregate %s in slot %d: want %t", name, slot, want)
			}
		}
	}
	return nil
}

// must ends a test whose set-up fails.
func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// step is one random transition; it returns the error of the engine.
type step func(t *rapid.T, s *State, now time.Time) error

func drawName(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"p0", "p1", "p2", "p3", "p4", "P0", "p1 "}).Draw(t, label)
}

func drawGeneration(t *rapid.T, s *State, name string) int {
	p := s.providers.Get(name)
	if p == nil || rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
		return rapid.IntRange(0, 9).Draw(t, "generation")
	}
	return p.generation
}

func drawSpecs(t *rapid.T) map[string]Inventory {
	specs := make(map[string]Inventory)
	for _, class := range []string{"VCPU", "FPGA", "CUSTOM_A", "NOPE"} {
		if rapid.IntRange(0, 9).Draw(t, "leave "+class) < 5 && class != "NOPE" || rapid.IntRange(0, 30).Draw(t, "bad class") == 30 {
			specs[class] = Inventory{Total: rapid.IntRange(1, 9).Draw(t, "total"), Reserved: rapid.IntRange(0, 2).Draw(t, "reserved"), MinUnit: 1, MaxUnit: rapid.IntRange(1, 9).Draw(t, "max"), StepSize: 1, AllocationRatio: 1}
		}
	}
	return specs
}

func drawClaim(t *rapid.T, s *State, consumer string) Claim {
	claim := Claim{Consumer: consumer, Project: drawName(t, "project"), User: drawName(t, "user"), CheckGeneration: rapid.Bool().Draw(t, "checked")}
	if known := s.consumers.Get(consumer); known != nil && rapid.IntRange(0, 4).Draw(t, "stale") > 0 {
		claim.Generation = &known.generation
	}
	for range rapid.IntRange(0, 3).Draw(t, "amounts") {
		claim.Allocations = append(claim.Allocations, ProviderAmount{
			drawName(t, "from"), rapid.SampledFrom([]string{"VCPU", "FPGA", "CUSTOM_A"}).Draw(t, "class"), rapid.Int64Range(1, 5).Draw(t, "amount"),
		})
	}
	return claim
}

func drawClaims(t *rapid.T, s *State) []Claim {
	var claims []Claim
	for _, consumer := range []string{"c0", "c1", "c2", "C0"} {
		if rapid.Bool().Draw(t, "claims "+consumer) {
			claims = append(claims, drawClaim(t, s, consumer))
		}
	}
	return claims
}

func steps() []step {
	traits := []string{"T1", "CUSTOM_T", SharingTrait}
	return []step{
		func(t *rapid.T, s *State, now time.Time) error {
			name := drawName(t, "new")
			parent := rapid.SampledFrom([]string{"", "p0", "p1", "p2"}).Draw(t, "parent")
			_, err := s.CreateProvider(NewProvider{UUID: name, Name: name, Parent: parent}, now)
			return err
		},
		func(t *rapid.T, s *State, now time.Time) error {
			u := ProviderUpdate{Name: drawName(t, "name"), SetParent: rapid.Bool().Draw(t, "set parent"), Reparent: rapid.Bool().Draw(t, "reparent")}
			u.Parent = rapid.SampledFrom([]string{"", "p0", "p1", "p2", "p9"}).Draw(t, "parent")
			_, err := s.UpdateProvider(drawName(t, "updated"), u, now)
			return err
		},
		func(t *rapid.T, s *State, _ time.Time) error { return s.DeleteProvider(drawName(t, "deleted")) },
		func(t *rapid.T, s *State, now time.Time) error {
			name := drawName(t, "inventories of")
			given := drawGeneration(t, s, name)
			_, err := s.SetInventories(name, &given, drawSpecs(t), InventoryWrite{AllowFull: rapid.Bool().Draw(t, "full"), Now: now})
			return err
		},
		func(t *rapid.T, s *State, now time.Time) error {
			name := drawName(t, "inventory of")
			specs := drawSpecs(t)
			if names := sortedKeys(specs); len(names) > 0 {
				_, err := s.AddInventory(name, names[0], specs[names[0]], InventoryWrite{Now: now})
				if err != nil {
					given := drawGeneration(t, s, name)
					_, err = s.SetInventory(name, names[0], &given, specs[names[0]], InventoryWrite{Now: now})
				}
				return err
			}
			return s.DeleteInventories(name, now)
		},
		func(t *rapid.T, s *State, now time.Time) error {
			return s.DeleteInventory(drawName(t, "inventory of"), "VCPU", now)
		},
		func(t *rapid.T, s *State, now time.Time) error {
			name := drawName(t, "traits of")
			given := drawGeneration(t, s, name)
			_, err := s.SetProviderTraits(name, &given, rapid.SliceOf(rapid.SampledFrom(traits)).Draw(t, "traits"), now)
			return err
		},
		func(t *rapid.T, s *State, now time.Time) error {
			name := drawName(t, "aggregates of")
			given := drawGeneration(t, s, name)
			_, err := s.SetAggregates(name, &given, rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "A"})).Draw(t, "aggregates"), now)
			return err
		},
		func(t *rapid.T, s *State, now time.Time) error {
			if rapid.Bool().Draw(t, "create") {
				s.EnsureTrait("CUSTOM_T", now)
				s.EnsureClass("CUSTOM_A", now)
				return nil
			}
			return s.DeleteClass("CUSTOM_A")
		},
		func(_ *rapid.T, s *State, _ time.Time) error { return s.DeleteTrait("CUSTOM_T") },
		func(t *rapid.T, s *State, now time.Time) error { return s.Claim(drawClaims(t, s), Writes{Now: now}) },
		func(t *rapid.T, s *State, now time.Time) error { return s.Claim(drawClaims(t, s), Writes{Now: now}) },
		func(t *rapid.T, s *State, _ time.Time) error {
			return s.Release(rapid.SampledFrom([]string{"c0", "c1", "c2", "C0"}).Draw(t, "released"))
		},
		func(t *rapid.T, s *State, now time.Time) error {
			var r Reshape
			for _, name := range []string{"p0", "p1", "P0"} {
				if rapid.Bool().Draw(t, "reshapes "+name) {
					r.Inventories = append(r.Inventories, ReshapeInventory{name, drawGeneration(t, s, name), drawSpecs(t)})
				}
			}
			r.Claims = drawClaims(t, s)
			return s.Reshape(r, Writes{Now: now})
		},
	}
}

func TestRandomTransitionsKeepTheStateConsistentAndRefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	all := steps()
	for part := range 5 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				key := collation.Of(rapid.SampledFrom([]sim.Collation{sim.CollationBinary, sim.CollationMySQL}).Draw(t, "collation"))
				s := New([]string{"T1", SharingTrait}, key, start())
				for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
					before := dumpOf(s)
					err := all[rapid.IntRange(0, len(all)-1).Draw(t, "step")](t, s, start().Add(time.Duration(i)*time.Second))
					if err != nil {
						if diff := cmp.Diff(before, dumpOf(s)); diff != "" {
							t.Fatalf("refused (%v), yet changed (-before +after):\n%s", err, diff)
						}
					}
					if broken := s.broken(); broken != nil {
						t.Fatal(broken)
					}
				}
			})
		})
	}
}

func TestSlotsOfRemovedTreesAreReused(t *testing.T) {
	t.Parallel()
	s := New([]string{"T1"}, collation.Exact, start())
	for i := range 500 {
		name := fmt.Sprint(i)
		must(t, created(s.CreateProvider(NewProvider{UUID: name, Name: name}, start())))
		must(t, created(s.SetInventories(name, nil, map[string]Inventory{"VCPU": {Total: i + 1, MinUnit: 1, MaxUnit: 500, StepSize: 1, AllocationRatio: 1}}, InventoryWrite{})))
		must(t, created(s.SetProviderTraits(name, nil, []string{"T1"}, start())))
		if i >= 10 {
			must(t, s.DeleteProvider(fmt.Sprint(i-10)))
		}
		must(t, s.broken())
	}
	if got := len(s.trees.trees); got > 200 {
		t.Errorf("%d slots for 10 trees", got)
	}
	found, err := s.Answer(CandidateQuery{Groups: []Group{{Resources: []ClassAmount{{"VCPU", 499}}}}})
	if err != nil || len(found.Requests) != 2 {
		t.Errorf("candidates: got %d and error %v, want 2", len(found.Requests), err)
	}
}

func TestFilterFindsEveryTreeThatMeetsAllConditions(t *testing.T) {
	t.Parallel()
	const slots = 400
	rapid.Check(t, func(t *rapid.T) {
		var ix roomIndex
		var set, other bitset
		rooms := make([]int64, slots)
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			slot, room := rapid.IntRange(0, slots-1).Draw(t, "slot"), rapid.Int64Range(0, 5).Draw(t, "room")
			rooms[slot] = room
			ix.set(slot, room)
			set.set(rapid.IntRange(0, slots-1).Draw(t, "member"))
			other.set(rapid.IntRange(0, slots-1).Draw(t, "other member"))
			set.clear(rapid.IntRange(0, slots+99).Draw(t, "no member"))
		}
		n, only := rapid.Int64Range(1, 5).Draw(t, "amount"), rapid.IntRange(-1, slots-1).Draw(t, "only")
		f := treeFilter{all: []condition{enough{&ix, n}, anyOf{set, other}}, block: -1}
		if only >= 0 {
			f.all = append(f.all, oneSlot(only))
		}
		for slot, room := range rooms {
			if room != ix.at(slot) {
				t.Fatalf("slot %d: got %d, want %d", slot, ix.at(slot), room)
			}
			if room < n || (!set.has(slot) && !other.has(slot)) || (only >= 0 && only != slot) {
				continue
			}
			if got := f.next(); got != slot {
				t.Fatalf("got slot %d, want %d", got, slot)
			}
		}
		if got := f.next(); got != -1 {
			t.Fatalf("got slot %d, want none", got)
		}
	})
}
