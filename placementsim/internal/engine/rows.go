package engine

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// The tables of a state's rows.
const (
	tableAllocations = "placement.allocations"
	tableConsumers   = "placement.consumers"
	tableInventories = "placement.inventories"
	tableAggregates  = "placement.provider_aggregates"
	tableTraits      = "placement.provider_traits"
	tableClasses     = "placement.resource_classes"
	tableProviders   = "placement.resource_providers"
	tableSequences   = "placement.sequences"
	tableNames       = "placement.traits"
)

// sequencesKey is the key of the one row of the sequences that is the engine's.
const sequencesKey = "placement"

// The rows of a state. Standard classes and traits have no rows.
type (
	// ProviderRow is a resource provider; IDs are in the order of creation.
	ProviderRow struct {
		ID         int64     `json:"id"`
		UUID       string    `json:"uuid"`
		Name       string    `json:"name"`
		Parent     string    `json:"parent_provider_uuid,omitempty"`
		Tree       int64     `json:"tree,omitempty"` // of a root: the number of its tree
		Generation int       `json:"generation"`
		Created    time.Time `json:"created_at"`
		Updated    time.Time `json:"updated_at,omitzero"`
	}

	// InventoryRow is the inventory of a class on a provider.
	InventoryRow struct {
		Provider        string    `json:"resource_provider"`
		Class           string    `json:"resource_class"`
		Total           int       `json:"total"`
		Reserved        int       `json:"reserved"`
		MinUnit         int       `json:"min_unit"`
		MaxUnit         int       `json:"max_unit"`
		StepSize        int       `json:"step_size"`
		AllocationRatio float64   `json:"allocation_ratio"`
		Updated         time.Time `json:"updated_at"`
	}

	// TraitsRow is the traits of a provider that has some.
	TraitsRow struct {
		Provider string   `json:"resource_provider"`
		Traits   []string `json:"traits"`
	}

	// AggregatesRow is the aggregates of a provider that has some, in the order they were
	// set.
	AggregatesRow struct {
		Provider   string   `json:"resource_provider"`
		Aggregates []string `json:"aggregates"`
	}

	// ConsumerRow is a consumer.
	ConsumerRow struct {
		UUID       string    `json:"uuid"`
		Project    string    `json:"project_id"`
		User       string    `json:"user_id"`
		Type       string    `json:"consumer_type,omitempty"`
		Generation int       `json:"generation"`
		Created    time.Time `json:"created_at"`
	}

	// AllocationRow is what a consumer has of a class from a provider, with its position among
	// all that the consumer has.
	AllocationRow struct {
		Consumer string `json:"consumer"`
		Provider string `json:"resource_provider"`
		Class    string `json:"resource_class"`
		Amount   int64  `json:"used"`
		Position int64  `json:"position,omitempty"`
	}

	// NameRow is a custom resource class or trait; IDs are in the order of creation.
	NameRow struct {
		ID      int64     `json:"id"`
		Name    string    `json:"name"`
		Created time.Time `json:"created_at"`
		Updated time.Time `json:"updated_at,omitzero"`
	}

	// SequencesRow is the last ID of each kind, and when what is standard was created.
	SequencesRow struct {
		Name      string    `json:"name"`
		Providers int64     `json:"resource_providers"`
		Trees     int64     `json:"trees"`
		Classes   int64     `json:"resource_classes"`
		Traits    int64     `json:"traits"`
		Created   time.Time `json:"created_at"`
	}
)

// NewRow returns a pointer to a row of a table, or nil for an unknown table.
func NewRow(table string) any {
	switch table {
	case tableAllocations:
		return new(AllocationRow)
	case tableConsumers:
		return new(ConsumerRow)
	case tableInventories:
		return new(InventoryRow)
	case tableAggregates:
		return new(AggregatesRow)
	case tableTraits:
		return new(TraitsRow)
	case tableClasses, tableNames:
		return new(NameRow)
	case tableProviders:
		return new(ProviderRow)
	case tableSequences:
		return new(SequencesRow)
	}
	return nil
}

// numberKey is the key of a row with an ID.
func numberKey(id int64) string { return padded(id, 10) }

// padded writes a number with leading zeros.
func padded(n int64, width int) string {
	digits := strconv.FormatInt(n, 10)
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}

// stamp is a time as rows have it.
func stamp(t time.Time) time.Time { return t.UTC().Round(0) }

// rows are rows of a state, each as the change that creates it. One may be there twice.
type rows []sim.RecordChange

func (r *rows) add(table, key, kind, id, label string, row any) {
	*r = append(*r, sim.RecordChange{Table: table, Key: key, After: row, Kind: kind, ID: id, Label: label, Hidden: hidden})
}

// hidden are the fields that no description of a change lists.
var hidden = []string{"id", "uuid", "tree", "created_at", "updated_at", "consumer", "resource_provider"}

// list returns the rows ordered by table and key, each once.
func (r rows) list() []sim.RecordChange {
	slices.SortFunc(r, byPlace)
	return slices.CompactFunc(r, func(a, b sim.RecordChange) bool { return byPlace(a, b) == 0 })
}

func byPlace(a, b sim.RecordChange) int {
	return cmp.Or(strings.Compare(a.Table, b.Table), strings.Compare(a.Key, b.Key))
}

// changes returns the changes from the rows to others, in their order.
func (r rows) changes(to rows) (list []sim.RecordChange) {
	from, next := r.list(), to.list()
	list = make([]sim.RecordChange, 0, max(len(from), len(next)))
	for len(from) > 0 || len(next) > 0 {
		switch order := firstOf(from, next); {
		case order < 0:
			from[0].Before, from[0].After = from[0].After, nil
			list = append(list, from[0])
			from = from[1:]
		case order > 0:
			list = append(list, next[0])
			next = next[1:]
		default:
			if !reflect.DeepEqual(from[0].After, next[0].After) {
				next[0].Before = from[0].After
				list = append(list, next[0])
			}
			from, next = from[1:], next[1:]
		}
	}
	return list
}

// firstOf compares the first rows of two lists, as byPlace does. An empty list is greater.
func firstOf(a, b []sim.RecordChange) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return byPlace(a[0], b[0])
}

// Rows returns all rows, each as the change that creates it, ordered by table and key.
func (s *State) Rows() []sim.RecordChange {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.allRows().list()
}

func (s *State) allRows() rows {
	var all rows
	for name := range s.classes.byName {
		s.addNameRows(&all, name)
	}
	for name := range s.traits.byName {
		s.addNameRows(&all, name)
	}
	for _, p := range s.order {
		s.addProviderRows(&all, p.uuid)
	}
	for c := range s.consumers.Values() {
		s.addConsumerRows(&all, c.uuid)
	}
	all.addSequences(s.sequences())
	return all
}

func (s *State) sequences() SequencesRow {
	return SequencesRow{
		Name: sequencesKey, Providers: s.nextSeq, Trees: s.trees.newest, Classes: int64(s.classes.nextID - len(StandardClasses())),
		Traits: int64(s.traits.seq - s.traits.standard), Created: stamp(s.created),
	}
}

func (r *rows) addSequences(row SequencesRow) { r.add(tableSequences, sequencesKey, "", "", "", row) }

// addNameRows adds the row of the custom resource class, and of the custom trait, of a name.
func (s *State) addNameRows(to *rows, name string) {
	if c := s.classes.byName[name]; c != nil {
		s.addClassRow(to, c)
	}
	if t := s.traits.byName[name]; t != nil && !t.standard {
		id := int64(t.seq - s.traits.standard)
		to.add(tableNames, numberKey(id), "trait", t.name, "", NameRow{ID: id, Name: t.name, Created: stamp(t.created)})
	}
}

func (s *State) addClassRow(to *rows, c *class) {
	if !c.standard {
		id := int64(c.id - len(StandardClasses()) + 1)
		to.add(tableClasses, numberKey(id), "resource_class", c.name, "", NameRow{id, c.name, stamp(c.created), stamp(c.updated)})
	}
}

// addClassRows adds the row of a resource class and all rows that name it.
func (s *State) addClassRows(to *rows, c *class) {
	s.addClassRow(to, c)
	for _, p := range s.order {
		if p.inventory(c) != nil {
			s.addProviderRows(to, p.uuid)
		}
	}
	for consumer := range s.consumers.Values() {
		if slices.ContainsFunc(consumer.allocs, func(a allocation) bool { return a.class == c }) {
			s.addConsumerRows(to, consumer.uuid)
		}
	}
}

// addProviderRows adds the rows of a provider, if there is one.
func (s *State) addProviderRows(to *rows, uuid string) {
	p := s.providers.Get(uuid)
	if p == nil {
		return
	}
	key := p.addRow(to)
	for _, i := range p.invs {
		to.add(tableInventories, key+"."+padded(int64(i.class.id), 6), "inventory", p.uuid+"/"+i.class.name, i.class.name+" on "+p.name, InventoryRow{
			p.uuid, i.class.name, i.Total, i.Reserved, i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio, stamp(i.changed),
		})
	}
	if len(p.traits.names) > 0 {
		to.add(tableTraits, key, "provider_traits", p.uuid, p.name, TraitsRow{p.uuid, p.traits.names})
	}
	if len(p.aggregates) > 0 {
		to.add(tableAggregates, key, "aggregates", p.uuid, p.name, AggregatesRow{p.uuid, p.aggregateUUIDs()})
	}
}

// addRow adds the row of a provider without what it has, and returns its key.
func (p *provider) addRow(to *rows) (key string) {
	row := ProviderRow{ID: p.seq, UUID: p.uuid, Name: p.name, Generation: p.generation, Created: stamp(p.created), Updated: stamp(p.updated)}
	if p.parent != nil {
		row.Parent = p.parent.uuid
	} else {
		row.Tree = p.tree.number
	}
	key = numberKey(p.seq)
	to.add(tableProviders, key, "resource_provider", p.uuid, p.name, row)
	return key
}

// addBranchRows adds the rows of several providers.
func (s *State) addBranchRows(to *rows, branch []*provider) {
	for _, p := range branch {
		s.addProviderRows(to, p.uuid)
	}
}

// addPlanRows adds all rows that a plan may change. For a provider whose inventories stay, only
// the generation changes.
func (s *State) addPlanRows(to *rows, pl *plan) {
	s.addBranchRows(to, pl.reshaped)
	for _, p := range pl.bumped {
		p.addRow(to)
	}
	for _, claim := range pl.claims {
		s.addConsumerRows(to, claim.Consumer)
	}
}

// addConsumerRows adds the rows of a consumer, if there is one.
func (s *State) addConsumerRows(to *rows, uuid string) {
	c := s.consumers.Get(uuid)
	if c == nil {
		return
	}
	to.add(tableConsumers, c.uuid, "consumer", c.uuid, "", ConsumerRow{c.uuid, c.project.id, c.user.id, c.kind, c.generation, stamp(c.created)})
	for i, a := range c.allocs {
		to.add(tableAllocations, c.uuid+"."+numberKey(a.provider.seq)+"."+padded(int64(a.class.id), 6), "allocation", c.uuid+"/"+a.provider.uuid+"/"+a.class.name,
			strconv.FormatInt(a.amount, 10)+" "+a.class.name+" on "+a.provider.name, AllocationRow{c.uuid, a.provider.uuid, a.class.name, a.amount, int64(i)})
	}
}
