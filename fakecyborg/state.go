package fakecyborg

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// state is everything that Cyborg's database holds. Its methods do no I/O and
// take the time as an argument; Server calls them under its lock.
type state struct {
	seed   uint64
	space  uuid.UUID
	counts map[string]int
	quirks bool
	mode   string // of Placement, one of the Mode constants

	profiles    table[*profileRow]
	arqs        table[*arqRow]
	byInstance  map[string][]*arqRow // in the order in which they were bound
	devices     table[*deviceRow]
	byHost      map[string][]*deviceRow
	deployables table[*deployableRow]
	byProvider  map[string]*deployableRow
	sharing     map[string][]*deployableRow // flat mode: by the provider of their host
	byName      map[string]*deployableRow
	attributes  table[*attributeRow]
	handles     table[*handleRow]

	binds []*bindRun // in the order in which they began
	// notes takes what is changed under the lock, see Server.lock; mostly nil.
	notes *tables.ChangeLog
}

func newState(cfg Config) *state {
	return &state{
		seed: cfg.Seed, quirks: cfg.UpstreamQuirks,
		space:  uuid.NewSHA1(uuid.NameSpaceDNS, []byte("fakecyborg.gocyborg")),
		counts: make(map[string]int), byInstance: make(map[string][]*arqRow),
		byHost:     make(map[string][]*deviceRow),
		sharing:    make(map[string][]*deployableRow),
		mode:       cfg.withDefaults().PlacementMode,
		byProvider: make(map[string]*deployableRow), byName: make(map[string]*deployableRow),
	}
}

// record is what every row has.
type record struct {
	id               int // counted from 1, never used again
	uuid             string
	created, updated time.Time // updated is zero until the first change
}

func (r *record) meta() *record { return r }

// deviceRow is one piece of hardware.
type deviceRow struct {
	record
	host   string
	source string // name of the driver that reported it
	key    string // of its control path
	spec   driver.Device
	status string
	parts  []*deployableRow
	nested bool // has a provider of its own, above those of its deployables
}

// deployableRow is one resource provider.
type deployableRow struct {
	record
	device     *deviceRow
	name       string
	driverName string
	total      int
	memory     map[string]int // local memory on the provider, MiB by class
	provider   string
	bitstream  string
	loaded     loaded // what was written last
	writing    string // the image that is being written
	unsure     bool   // a writing failed, and nobody knows what is there
	fixed      bool   // pre-programmed
	offered    bool   // in Placement; only then its handles are given out
	attributes []*attributeRow
	handles    []*handleRow
}

// attributeRow is one attribute of a deployable.
type attributeRow struct {
	record
	deployable *deployableRow
	key, value string
	byAPI      bool // created by a user, not by a driver
}

// handleRow is one unit of a deployable.
type handleRow struct {
	record
	deployable *deployableRow
	kind       string // its type
	info       packedInfo
	taken      bool
	arq        *arqRow // the holder; nil with taken: waits for its mediated device to be removed
	busy       bool    // the agent is at work on it outside the lock
	gone       bool    // no longer reported; dropped when it is given back
}

// newUUID names the next row of a kind.
func (st *state) newUUID(kind string) string {
	st.counts[kind]++
	return st.uuidOf(kind, fmt.Sprint(st.counts[kind]))
}

// uuidOf names a row after what it stands for, so that hosts may report in any
// order.
func (st *state) uuidOf(kind, name string) string {
	return uuid.NewSHA1(st.space, fmt.Appendf(nil, "%d/%s/%s", st.seed, kind, name)).String()
}

// table keeps rows in the order of their ids.
type table[R interface{ meta() *record }] struct {
	rows   []R
	byUUID map[string]R
	last   int
}

// add gives the row the next id.
func (t *table[R]) add(row R) {
	t.last++
	row.meta().id = t.last
	t.rows = append(t.rows, row)
	if t.byUUID == nil {
		t.byUUID = make(map[string]R)
	}
	t.byUUID[row.meta().uuid] = row
}

func (t *table[R]) get(uuid string) (R, bool) {
	row, ok := t.byUUID[uuid]
	return row, ok
}

// byID finds a row by its id.
func (t *table[R]) byID(id int) (row R, ok bool) {
	i, ok := t.index(id)
	if ok {
		row = t.rows[i]
	}
	return row, ok
}

func (t *table[R]) index(id int) (int, bool) {
	return slices.BinarySearchFunc(t.rows, id, func(row R, id int) int { return cmp.Compare(row.meta().id, id) })
}

// remove drops the row; one that is not there is no error.
func (t *table[R]) remove(row R) {
	i, ok := t.index(row.meta().id)
	if !ok || t.rows[i].meta() != row.meta() {
		return
	}
	t.rows = slices.Delete(t.rows, i, i+1)
	delete(t.byUUID, row.meta().uuid)
}
