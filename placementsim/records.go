package placementsim

import (
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
	"github.com/gocyborg/gocyborg/sim"
)

// The row with the positions of the generators of identifiers.
const (
	idsTable = "placement.sequences"
	idsKey   = "ids"
)

type idsRow struct {
	Name     string `json:"name"`
	Provider uint64 `json:"provider"`
	Request  uint64 `json:"request"`
}

var _ sim.Recorded = (*Server)(nil)

func (s *Server) idsRow() sim.RecordChange {
	return sim.RecordChange{Table: idsTable, Key: idsKey, After: idsRow{idsKey, s.ids.Position(), s.service.IDs.Position()}}
}

// Records implements [sim.Recorded]. What every service knows is not recorded.
func (s *Server) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		rows := s.state.Rows()
		i := slices.IndexFunc(rows, func(c sim.RecordChange) bool { return c.Table >= idsTable })
		for _, c := range slices.Insert(rows, i, s.idsRow()) {
			row, err := json.Marshal(c.After)
			if !yield(sim.Record{Table: c.Table, Key: c.Key, Row: row}, err) || err != nil {
				return
			}
		}
	}
}

// OnCommit implements [sim.Recorded].
func (s *Server) OnCommit(listener func([]sim.RecordChange)) {
	s.state.OnCommit(func(changes []sim.RecordChange) { listener(append(slices.Clip(changes), s.idsRow())) })
}

// Prepare implements [sim.Recorded]. No request should be in progress when its commit is called.
func (s *Server) Prepare(records []sim.Record) (commit func(), err error) {
	var ids *idsRow
	rows := make([]sim.RecordChange, 0, len(records))
	i := 0
	for row, err := range tables.Decoded(records, decodeRow) {
		if err != nil {
			return nil, err
		}
		r := records[i]
		i++
		switch own, isIDs := row.(*idsRow); {
		case !isIDs:
			rows = append(rows, sim.RecordChange{Table: r.Table, Key: r.Key, After: row})
		case ids != nil:
			return nil, r.Errorf("there are two rows")
		default:
			ids = own
		}
	}
	if ids == nil || ids.Name != idsKey {
		return nil, sim.Record{Table: idsTable, Key: idsKey}.Errorf("it is missing, or has another name")
	}
	restore, err := s.state.Restore(s.standard, rows)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sim.ErrRecords, err)
	}
	return func() {
		s.service.DropLate()
		s.ids.Continue(ids.Provider)
		s.service.IDs.Continue(ids.Request)
		restore()
	}, nil
}

func decodeRow(r sim.Record) (any, error) {
	row := engine.NewRow(r.Table)
	switch {
	case row == nil:
		return nil, r.Errorf("there is no such table")
	case r.Table == idsTable && r.Key == idsKey:
		row = new(idsRow)
	}
	err := r.Decode(row)
	if name, bad := refusedName(row); err == nil && bad {
		err = r.Errorf("no request can give the uuid or name %q", name)
	}
	return row, err
}

// anyName is the form of the names of traits and resource classes, also of those of newer releases.
var anyName = regexp.MustCompile(`^[A-Z0-9_]+$`)

// refusedName finds a uuid or a name in a row that no request can give: most answers are written without escapes.
func refusedName(row any) (name string, bad bool) {
	var given []string // uuids
	switch r := row.(type) {
	case *engine.NameRow:
		return r.Name, !anyName.MatchString(r.Name) || len(r.Name) > maxName
	case *engine.ProviderRow:
		given = []string{r.UUID}
	case *engine.ConsumerRow:
		return r.UUID, !uuidKey.MatchString(r.UUID)
	case *engine.AggregatesRow:
		given = r.Aggregates
	}
	i := slices.IndexFunc(given, func(uuid string) bool { return !uuids.Like(uuid) })
	if i < 0 {
		return "", false
	}
	return given[i], true
}

// state returns the state for transitions whose changes the record of the request lists.
func (c *call) state() *engine.State {
	log := simhttp.ChangeLogOf(c.Context())
	if log == nil {
		return c.server.state
	}
	return c.server.state.With(log.Record)
}
