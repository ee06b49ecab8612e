package placementsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// ErrDump is matched by the errors of [Server.Load].
var ErrDump = errors.New("placementsim: bad dump")

// stateDump is the state of a service as JSON. What is standard is not in it.
type stateDump struct {
	SchemaVersion int            `json:"schema_version"`
	IDs           dumpIDs        `json:"ids"`
	Created       time.Time      `json:"created"`
	Classes       []dumpName     `json:"resource_classes"`
	Traits        []dumpName     `json:"traits"`
	Roots         []string       `json:"roots"`
	Providers     []dumpProvider `json:"resource_providers"`
	Consumers     []dumpConsumer `json:"consumers"`
}

// dumpIDs are positions in the sequences of identifiers.
type dumpIDs struct {
	Provider uint64 `json:"provider"`
	Request  uint64 `json:"request"`
}

type dumpName struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated,omitzero"`
}

type dumpProvider struct {
	UUID        string          `json:"uuid"`
	Name        string          `json:"name"`
	Parent      string          `json:"parent,omitempty"`
	Generation  int             `json:"generation"`
	Inventories []dumpInventory `json:"inventories,omitempty"`
	Traits      []string        `json:"traits,omitempty"`
	Aggregates  []string        `json:"aggregates,omitempty"`
	Created     time.Time       `json:"created"`
	Updated     time.Time       `json:"updated,omitzero"`
}

type dumpInventory struct {
	Class           string    `json:"resource_class"`
	Total           int       `json:"total"`
	Reserved        int       `json:"reserved"`
	MinUnit         int       `json:"min_unit"`
	MaxUnit         int       `json:"max_unit"`
	StepSize        int       `json:"step_size"`
	AllocationRatio float64   `json:"allocation_ratio"`
	Changed         time.Time `json:"changed"`
}

type dumpConsumer struct {
	UUID        string           `json:"uuid"`
	Project     string           `json:"project_id"`
	User        string           `json:"user_id"`
	Type        string           `json:"consumer_type,omitempty"`
	Generation  int              `json:"generation"`
	Created     time.Time        `json:"created"`
	Allocations []dumpAllocation `json:"allocations,omitempty"`
}

type dumpAllocation struct {
	Provider string `json:"resource_provider"`
	Class    string `json:"resource_class"`
	Amount   int64  `json:"amount"`
}

// Dump returns everything that the service knows but what every service knows, as one
// JSON document with the field schema_version. The same state gives the same bytes, and
// a service that has loaded a dump gives the same dump.
func (s *Server) Dump() ([]byte, error) {
	snap := s.state.Snapshot()
	d := stateDump{
		SchemaVersion: simhttp.DumpSchema, IDs: dumpIDs{s.ids.Position(), s.service.IDs.Position()}, Created: snap.Created.UTC(),
		Classes: []dumpName{}, Traits: []dumpName{}, Roots: append([]string{}, snap.Roots...),
		Providers: []dumpProvider{}, Consumers: []dumpConsumer{},
	}
	for _, c := range snap.Classes {
		d.Classes = append(d.Classes, dumpName{c.Name, c.Created.UTC(), c.Updated.UTC()})
	}
	for _, t := range snap.Traits {
		d.Traits = append(d.Traits, dumpName{Name: t.Name, Created: t.Created.UTC()})
	}
	for _, p := range snap.Providers {
		d.Providers = append(d.Providers, dumpOfProvider(p))
	}
	for _, c := range snap.Consumers {
		d.Consumers = append(d.Consumers, dumpOfConsumer(c))
	}
	return json.MarshalIndent(d, "", "  ")
}

func dumpOfProvider(p engine.ProviderRecord) dumpProvider {
	out := dumpProvider{
		UUID: p.UUID, Name: p.Name, Parent: p.Parent, Generation: p.Generation, Traits: p.Traits, Aggregates: p.Aggregates,
		Created: p.Created.UTC(), Updated: p.Updated.UTC(),
	}
	for _, i := range p.Inventories {
		out.Inventories = append(out.Inventories, dumpInventory{
			i.Class, i.Total, i.Reserved, i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio, i.Changed.UTC(),
		})
	}
	return out
}

func dumpOfConsumer(c engine.ConsumerRecord) dumpConsumer {
	out := dumpConsumer{UUID: c.UUID, Project: c.Project, User: c.User, Type: c.Type, Generation: c.Generation, Created: c.Created.UTC()}
	for _, a := range c.Allocations {
		out.Allocations = append(out.Allocations, dumpAllocation{a.Provider, a.Class, a.Amount})
	}
	return out
}

// Load makes the service what a dump says, in place of all it knew. A dump of another
// schema_version, with unknown fields, or that contradicts itself is refused; the error
// matches [ErrDump] and the service is as it was. It is for moments when nothing is going
// on.
func (s *Server) Load(data []byte) error {
	var d stateDump
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	if err := s.state.Restore(StandardTraits(), d.snapshot()); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	s.ids.Continue(d.IDs.Provider)
	s.service.IDs.Continue(d.IDs.Request)
	return nil
}

func (d stateDump) snapshot() engine.Snapshot {
	snap := engine.Snapshot{Created: d.Created, Roots: d.Roots}
	for _, c := range d.Classes {
		snap.Classes = append(snap.Classes, engine.ClassRecord{Name: c.Name, Created: c.Created, Updated: c.Updated})
	}
	for _, t := range d.Traits {
		snap.Traits = append(snap.Traits, engine.Trait{Name: t.Name, Created: t.Created})
	}
	for _, p := range d.Providers {
		record := engine.ProviderRecord{
			UUID: p.UUID, Name: p.Name, Parent: p.Parent, Generation: p.Generation, Traits: p.Traits, Aggregates: p.Aggregates,
			Created: p.Created, Updated: p.Updated,
		}
		for _, i := range p.Inventories {
			record.Inventories = append(record.Inventories, engine.InventoryRecord{Class: i.Class, Changed: i.Changed, Inventory: engine.Inventory{
				Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize, AllocationRatio: i.AllocationRatio,
			}})
		}
		snap.Providers = append(snap.Providers, record)
	}
	for _, c := range d.Consumers {
		record := engine.ConsumerRecord{UUID: c.UUID, Project: c.Project, User: c.User, Type: c.Type, Generation: c.Generation, Created: c.Created}
		for _, a := range c.Allocations {
			record.Allocations = append(record.Allocations, engine.ProviderAmount{Provider: a.Provider, Class: a.Class, Amount: a.Amount})
		}
		snap.Consumers = append(snap.Consumers, record)
	}
	return snap
}
