package tables_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

type row struct {
	ID    int64    `json:"id"`
	UUID  string   `json:"uuid"`
	Owner string   `json:"owner,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

type note struct {
	Name string `json:"name"`
	Row  string `json:"row"`
}

// fixture is a DB with two tables. The second refers to the first.
type fixture struct {
	db      *tables.DB
	rows    *tables.Table[int64, row]
	byUUID  tables.Unique[int64, row]
	byOwner tables.Index[int64, row]
	ids     tables.Sequence
	notes   *tables.Table[string, note]
}

func newFixture() fixture {
	db := tables.New("test")
	f := fixture{db: db}
	f.rows = tables.Add(db, tables.Spec[int64, row]{
		Name: "rows", Kind: "row", Key: func(r row) int64 { return r.ID }, ID: func(r row) string { return r.UUID },
		Label: func(r row) string { return "of " + r.Owner }, Hidden: []string{"tags"},
	})
	f.byUUID = f.rows.Unique(func(r row) string { return r.UUID })
	f.byOwner = f.rows.Index(func(r row) string { return r.Owner })
	f.ids = tables.KeySequence(f.rows)
	f.notes = tables.Add(db, tables.Spec[string, note]{
		Name: "notes", Key: func(n note) string { return n.Name },
		Check: func(n note) error {
			if n.Name == "bad" {
				return errors.New("no name")
			}
			return nil
		},
	})
	tables.References(f.notes, "row", func(n note) string { return n.Row }, f.byUUID)
	return f
}

// model is what a fixture's rows should be.
type model struct {
	rows map[int64]row
	last int64
}

func (m model) clone() model { return model{maps.Clone(m.rows), m.last} }

// check compares all ways to read the rows with the model.
func (m model) check(t *rapid.T, f fixture, tx *tables.Tx) {
	want := make([]row, 0, len(m.rows))
	owned := make(map[string][]row)
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		want = append(want, m.rows[id])
		owned[m.rows[id].Owner] = append(owned[m.rows[id].Owner], m.rows[id])
	}
	if diff := cmp.Diff(want, slices.AppendSeq([]row{}, f.rows.All(tx))); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	if got := f.rows.Len(tx); got != len(want) {
		t.Fatalf("%d rows, want %d", got, len(want))
	}
	for _, r := range want {
		got, ok := f.byUUID.Get(tx, r.UUID)
		if diff := cmp.Diff(r, got); !ok || diff != "" {
			t.Fatalf("by UUID %s: %v (-want +got):\n%s", r.UUID, ok, diff)
		}
		if got, ok := f.rows.Get(tx, r.ID); !ok || !cmp.Equal(r, got) {
			t.Fatalf("by id %d: %v %v", r.ID, got, ok)
		}
	}
	delete(owned, "")
	for _, owner := range []string{"", "a", "b", "c"} {
		if diff := cmp.Diff(owned[owner], slices.Collect(f.byOwner.All(tx, owner))); diff != "" {
			t.Fatalf("rows of %q (-want +got):\n%s", owner, diff)
		}
		first, ok := f.byOwner.First(tx, owner)
		if ok != (len(owned[owner]) > 0) || ok && !cmp.Equal(first, owned[owner][0]) {
			t.Fatalf("first row of %q: %v %v", owner, first, ok)
		}
	}
	if got := f.ids.Last(tx); got != m.last {
		t.Fatalf("the sequence is at %d, want %d", got, m.last)
	}
}

// write does one random write in a transaction and in the model.
func (m *model) write(t *rapid.T, f fixture, tx *tables.Tx) {
	owner := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "owner")
	uuid := rapid.StringMatching("[0-9a-z]{1,2}").Draw(t, "uuid")
	if _, taken := f.byUUID.Get(tx, uuid); taken {
		uuid = ""
	}
	ids := slices.Sorted(maps.Keys(m.rows))
	switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
	case len(ids) == 0 || action < 4:
		m.last = f.ids.Next(tx)
		r := row{ID: m.last, UUID: uuid, Owner: owner}
		if uuid != "" {
			f.rows.Put(tx, r)
			m.rows[r.ID] = r
		}
	case action < 7:
		r := m.rows[rapid.SampledFrom(ids).Draw(t, "id")]
		r.Owner = owner
		if uuid != "" {
			r.UUID = uuid
		}
		f.rows.Put(tx, r)
		m.rows[r.ID] = r
	case action < 9:
		id := rapid.SampledFrom(ids).Draw(t, "id")
		f.rows.Delete(tx, id)
		f.rows.Delete(tx, id)
		delete(m.rows, id)
	default: // while iterating
		for r := range f.byOwner.All(tx, owner) {
			r.Owner = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "next owner")
			f.rows.Put(tx, r)
			m.rows[r.ID] = r
		}
	}
}

func TestTransactionsAgreeWithPlainMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFixture()
		past := rapid.Bool().Draw(t, "keeps its past")
		if past {
			f, _ = lagging()
		}
		copied := newFixture() // by the published changes alone
		records := make(map[string]sim.Record)
		f.db.OnCommit(func(changes []sim.RecordChange) {
			for _, c := range changes {
				if delete(records, c.Table+c.Key); c.After == nil {
					continue
				}
				data, err := json.Marshal(c.After)
				if err != nil {
					t.Fatal(err)
				}
				records[c.Table+c.Key] = sim.Record{Table: c.Table, Key: c.Key, Row: data}
			}
		})
		m := model{rows: make(map[int64]row)}
		type view struct {
			tx   *tables.Tx
			want model
		}
		var views []view
		for range rapid.IntRange(1, 12).Draw(t, "transactions") {
			before := m.clone()
			end := rapid.SampledFrom([]string{"commit", "commit", "roll back", "panic"}).Draw(t, "end")
			func() {
				defer func() { _ = recover() }()
				f.db.Update(nil, func(tx *tables.Tx) {
					for range rapid.IntRange(0, 6).Draw(t, "writes") {
						m.write(t, f, tx)
						m.check(t, f, tx)
					}
					switch end {
					case "roll back":
						tx.Rollback()
					case "panic":
						panic(end)
					}
				})
			}()
			if t.Failed() {
				t.FailNow()
			}
			if end != "commit" {
				m = before
			}
			f.db.View(func(tx *tables.Tx) { m.check(t, f, tx) })
			if past && rapid.Bool().Draw(t, "snapshot") {
				views = append(views, view{f.db.Snapshot(), m.clone()})
			}
		}
		for _, v := range views {
			v.want.check(t, f, v.tx)
		}
		if err := sim.Replace(t.Context(), copied.db, slices.Collect(maps.Values(records))); err != nil {
			t.Fatal(err)
		}
		copied.db.View(func(tx *tables.Tx) { model{m.rows, copied.ids.Last(tx)}.check(t, copied, tx) })
		if err := sim.Replace(t.Context(), copied.db, collect(t, f.db)); err != nil {
			t.Fatal(err)
		}
		copied.db.View(func(tx *tables.Tx) { m.check(t, copied, tx) })
		if diff := cmp.Diff(collect(t, f.db), collect(t, copied.db)); diff != "" {
			t.Fatalf("records after Replace (-want +got):\n%s", diff)
		}
	})
}

// collect returns all records of a component.
func collect(t interface{ Fatal(...any) }, from sim.Recorded) (records []sim.Record) {
	for r, err := range from.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}
