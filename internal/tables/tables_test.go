package tables_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

func TestReplaceRefusesBadRecordsAndChangesNothing(t *testing.T) {
	rec := func(table, key, row string) sim.Record { return sim.Record{Table: table, Key: key, Row: []byte(row)} }
	ids := rec("test.sequences", "rows", `{"name":"rows","last":9}`)
	one := rec("test.rows", "0000000001", `{"id":1,"uuid":"u1"}`)
	cases := map[string]struct {
		records []sim.Record
		want    string
	}{
		"unknown table":       {[]sim.Record{rec("test.others", "1", "{}")}, "test.others 1: there is no such table"},
		"unknown member":      {[]sim.Record{rec("test.rows", "0000000001", `{"id":1,"colour":2}`)}, `test.rows 0000000001: json: unknown field "colour"`},
		"repeated member":     {[]sim.Record{rec("test.rows", "0000000001", `{"id":2,"id":1}`)}, `test.rows 0000000001: member "id" is repeated`},
		"trailing data":       {[]sim.Record{rec("test.rows", "0000000001", `{"id":1} {}`)}, "something follows"},
		"broken JSON":         {[]sim.Record{rec("test.rows", "0000000001", `{"id":1`)}, "unexpected EOF"},
		"no row":              {[]sim.Record{rec("test.rows", "0000000001", ``)}, "EOF"},
		"null":                {[]sim.Record{rec("test.rows", "0000000000", `null`)}, "not a JSON object"},
		"other key":           {[]sim.Record{rec("test.rows", "0000000002", `{"id":1,"uuid":"u1"}`)}, "test.rows 0000000002: the row's key is 0000000001"},
		"short key":           {[]sim.Record{rec("test.rows", "1", `{"id":1,"uuid":"u1"}`)}, "the row's key is 0000000001"},
		"negative key":        {[]sim.Record{rec("test.rows", "-000000001", `{"id":-1,"uuid":"u1"}`)}, "out of range"},
		"two with one key":    {[]sim.Record{one, one, ids}, "there are two rows"},
		"two with one value":  {[]sim.Record{one, rec("test.rows", "0000000002", `{"id":2,"uuid":"u1"}`), ids}, `test.rows 0000000002: row 0000000001 has the same "u1"`},
		"key above sequence":  {[]sim.Record{one}, "test.rows 0000000001: the sequence rows is at 0 only"},
		"sequence at its end": {[]sim.Record{rec("test.sequences", "rows", `{"name":"rows","last":9999999999}`)}, "test.sequences rows: it is at 9999999999, want 0 to 8999999999"},
		"negative sequence":   {[]sim.Record{rec("test.sequences", "rows", `{"name":"rows","last":-1}`)}, "test.sequences rows: it is at -1"},
		"dangling reference":  {[]sim.Record{one, ids, rec("test.notes", "n", `{"name":"n","row":"u2"}`)}, "test.notes n: row: there is no test.rows u2"},
		"refused by its Spec": {[]sim.Record{rec("test.notes", "bad", `{"name":"bad","row":""}`)}, "test.notes bad: no name"},
	}
	f := newFixture()
	if err := sim.Replace(t.Context(), f.db, []sim.Record{one, ids, rec("test.notes", "n", `{"name":"n","row":"u1"}`)}); err != nil {
		t.Fatal(err)
	}
	before := collect(t, f.db)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := sim.Replace(t.Context(), f.db, c.records)
			if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if diff := cmp.Diff(before, collect(t, f.db)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplacePublishesTheDifference(t *testing.T) {
	f, other := newFixture(), newFixture()
	f.db.Update(nil, func(tx *tables.Tx) {
		for _, uuid := range []string{"same", "gone", "changed"} {
			f.rows.Put(tx, row{ID: f.ids.Next(tx), UUID: uuid, Tags: []string{"t"}})
		}
	})
	if err := sim.Replace(t.Context(), other.db, collect(t, f.db)); err != nil {
		t.Fatal(err)
	}
	other.db.Update(nil, func(tx *tables.Tx) {
		other.rows.Delete(tx, 2)
		other.rows.Put(tx, row{ID: 3, UUID: "changed", Owner: "a"})
		other.rows.Put(tx, row{ID: other.ids.Next(tx), UUID: "new"})
	})
	var got []string
	f.db.OnCommit(func(changes []sim.RecordChange) {
		for _, c := range changes {
			got = append(got, c.Table+" "+c.Key)
		}
	})
	if err := sim.Replace(t.Context(), f.db, collect(t, other.db)); err != nil {
		t.Fatal(err)
	}
	want := []string{"test.rows 0000000002", "test.rows 0000000003", "test.rows 0000000004", "test.sequences rows"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestSequencesArePublishedWithOtherRows(t *testing.T) {
	f := newFixture()
	var published []string
	f.db.OnCommit(func(changes []sim.RecordChange) {
		for _, c := range changes {
			published = append(published, c.Table)
		}
	})
	f.db.Update(nil, func(tx *tables.Tx) { f.ids.Next(tx) })
	if published != nil {
		t.Errorf("published %v", published)
	}
	f.add("u")
	if diff := cmp.Diff([]string{"test.sequences", "test.rows"}, published); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}

func TestMisuseOfATablePanics(t *testing.T) {
	f := newFixture()
	f.db.Update(nil, func(tx *tables.Tx) {
		f.rows.Put(tx, row{ID: 1, UUID: "u", Owner: "a"})
		f.rows.Put(tx, row{ID: 3, UUID: "v", Owner: "a"})
	})
	cases := map[string]func(){
		"write in a view":     func() { f.db.View(func(tx *tables.Tx) { f.rows.Delete(tx, 1) }) },
		"write in a snapshot": func() { f.rows.Put(f.db.Snapshot(), row{ID: 2}) },
		"value taken":         func() { f.db.Update(nil, func(tx *tables.Tx) { f.rows.Put(tx, row{ID: 2, UUID: "u"}) }) },
		"value of a row taken": func() {
			f.db.Update(nil, func(tx *tables.Tx) { f.rows.Put(tx, row{ID: 3, UUID: "u", Owner: "b"}) })
		},
		"name taken": func() {
			tables.Add(f.db, tables.Spec[int64, row]{Name: "rows", Key: func(r row) int64 { return r.ID }})
		},
	}
	for name, misuse := range cases {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
				f.db.Update(nil, func(tx *tables.Tx) { // the lock is free
					u, _ := f.byUUID.Get(tx, "u")
					v, _ := f.byUUID.Get(tx, "v")
					owned := slices.Collect(f.byOwner.All(tx, "a"))
					if u.ID != 1 || v.ID != 3 || len(owned) != 2 || f.rows.Len(tx) != 2 {
						t.Errorf("left: %v, %v, owned by a: %v", u, v, owned)
					}
				})
			}()
			misuse()
		})
	}
}

func TestChangeLogDescribesWhatATransactionDid(t *testing.T) {
	f := newFixture()
	f.db.Update(nil, func(tx *tables.Tx) {
		f.rows.Put(tx, row{ID: 1, UUID: "u1"})
		f.rows.Put(tx, row{ID: 2, UUID: "u2", Owner: "a"})
		f.rows.Put(tx, row{ID: 3, UUID: "u3", Owner: "a"})
	})
	log := new(tables.ChangeLog)
	f.db.Update(log, func(tx *tables.Tx) {
		f.rows.Put(tx, row{ID: 1, UUID: "u1", Owner: "a"})
		f.rows.Put(tx, row{ID: 4, UUID: "u4", Owner: "c"})
		f.rows.Put(tx, row{ID: 5, UUID: "u5"})
		f.rows.Delete(tx, 5)
		f.rows.Put(tx, row{ID: 3, UUID: "u3", Owner: "a", Tags: []string{"hidden"}})
		f.notes.Put(tx, note{Name: "without a kind"})
	})
	f.db.Update(log, func(tx *tables.Tx) {
		f.rows.Put(tx, row{ID: 1, UUID: "u1", Owner: "b"})
		f.rows.Delete(tx, 2)
		f.rows.Put(tx, row{ID: 6, UUID: "rolled back"})
		tx.Rollback()
	})
	f.db.Update(log, func(tx *tables.Tx) { f.rows.Delete(tx, 2) })
	log.Add(sim.Change{Action: sim.Created, Kind: "mediated_device", ID: "m", What: "nvidia-1"},
		sim.Change{Action: sim.Created, Kind: "mediated_device", ID: "n"},
		sim.Change{Action: sim.Deleted, Kind: "mediated_device", ID: "n"})
	want := []sim.Change{
		{Action: sim.Changed, Kind: "row", ID: "u1", What: "of a: owner none -> a"},
		{Action: sim.Created, Kind: "row", ID: "u4", What: "of c"},
		{Action: sim.Deleted, Kind: "row", ID: "u2", What: "of a"},
		{Action: sim.Created, Kind: "mediated_device", ID: "m", What: "nvidia-1"},
	}
	if diff := cmp.Diff(want, log.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	log.Add(sim.Change{Action: sim.Created, Kind: "late", ID: "l"})
	if diff := cmp.Diff(want, log.Changes()); diff != "" {
		t.Errorf("changes after the end (-want +got):\n%s", diff)
	}
	var none *tables.ChangeLog
	none.Add(want...)
	none.Record(nil)
	if got := none.Changes(); got != nil {
		t.Errorf("changes of a nil log: %v", got)
	}
}

func TestChangeLogHasOneChangeOfEachThing(t *testing.T) {
	t.Parallel()
	c := func(action, what string) sim.Change {
		return sim.Change{Action: action, Kind: "thing", ID: "1", What: what}
	}
	type row struct{ State, Host, Same, Size string }
	step := func(n *tables.ChangeLog, label string, from, to row) {
		n.Record([]sim.RecordChange{{Table: "thing", Key: "1", Before: from, After: to, Kind: "thing", ID: "1", Label: label}})
	}
	for _, tt := range []struct {
		name string
		do   func(*tables.ChangeLog)
		want []sim.Change
	}{
		{"nothing", func(*tables.ChangeLog) {}, nil},
		{"made and changed", func(n *tables.ChangeLog) { n.Add(c(sim.Created, "new"), c(sim.Changed, "more")) }, []sim.Change{c(sim.Created, "new")}},
		{"made and unmade", func(n *tables.ChangeLog) { n.Add(c(sim.Created, "new"), c(sim.Deleted, "gone")) }, nil},
		{"made, unmade and made", func(n *tables.ChangeLog) {
			n.Add(c(sim.Created, "new"), c(sim.Deleted, "gone"), c(sim.Created, "again"))
		}, []sim.Change{c(sim.Created, "again")}},
		{"changed and unmade", func(n *tables.ChangeLog) {
			step(n, "", row{State: "a"}, row{State: "b"})
			n.Add(c(sim.Deleted, "gone"))
		}, []sim.Change{c(sim.Deleted, "gone")}},
		{"replaced", func(n *tables.ChangeLog) { n.Add(c(sim.Deleted, "old"), c(sim.Created, "new")) }, []sim.Change{c(sim.Changed, "new")}},
		{"unmade and touched", func(n *tables.ChangeLog) { n.Add(c(sim.Deleted, "old"), c(sim.Changed, "no")) }, []sim.Change{c(sim.Deleted, "old")}},
		{"two steps", func(n *tables.ChangeLog) {
			step(n, "it", row{"a", "", "x", "1"}, row{"b", "cn0", "x", "1"})
			step(n, "it", row{"b", "cn0", "x", "1"}, row{"c", "cn0", "x", ""})
		}, []sim.Change{c(sim.Changed, "it: State a -> c, Host none -> cn0, Size 1 -> none")}},
		{"there and back", func(n *tables.ChangeLog) {
			step(n, "", row{State: "a"}, row{State: "b"})
			step(n, "", row{State: "b"}, row{State: "a"})
		}, nil},
		{"nowhere", func(n *tables.ChangeLog) {
			step(n, "", row{State: "a"}, row{State: "a"})
		}, nil},
		{"two things", func(n *tables.ChangeLog) {
			n.Add(c(sim.Created, ""), sim.Change{Action: sim.Created, Kind: "thing", ID: "2"}, sim.Change{Action: sim.Created, Kind: "other", ID: "1"})
		}, []sim.Change{c(sim.Created, ""), {Action: sim.Created, Kind: "thing", ID: "2"}, {Action: sim.Created, Kind: "other", ID: "1"}}},
	} {
		n := new(tables.ChangeLog)
		tt.do(n)
		if diff := cmp.Diff(tt.want, n.Changes()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestChangeLogIsBounded(t *testing.T) {
	log := new(tables.ChangeLog)
	for i := range 1003 {
		log.Add(sim.Change{Action: sim.Created, Kind: "k", ID: fmt.Sprint(i), What: strings.Repeat("é", 251)})
	}
	got := log.Changes()
	if len(got) != 1001 || got[1000].Kind != tables.KindMore || !strings.HasPrefix(got[1000].What, "3 more") {
		t.Fatalf("%d changes, the last one is %v", len(got), got[len(got)-1])
	}
	if want := strings.Repeat("é", 250) + "…"; got[0].What != want {
		t.Errorf("a text of %d bytes is kept", len(got[0].What))
	}
}

// BenchmarkARQLife is the life of one accelerator request among 80,000: created, bound in
// two transactions, unbound and deleted.
func BenchmarkARQLife(b *testing.B) {
	for _, listening := range []bool{false, true} {
		b.Run(map[bool]string{false: "without a listener", true: "with a listener"}[listening], func(b *testing.B) {
			f := newFixture()
			f.db.Update(nil, func(tx *tables.Tx) {
				for i := range int64(80000) {
					f.rows.Put(tx, row{ID: f.ids.Next(tx), UUID: string([]byte{byte(i), byte(i >> 8), byte(i >> 16), 'x'}), Owner: "a"})
				}
			})
			if listening {
				f.db.OnCommit(func([]sim.RecordChange) {})
			}
			b.ReportAllocs()
			for b.Loop() {
				var r row
				f.db.Update(nil, func(tx *tables.Tx) {
					r = row{ID: f.ids.Next(tx), UUID: "67e55044-10b1-426f-9247-bb680e5fe0c8"}
					f.rows.Put(tx, r)
				})
				for _, owner := range []string{"b", "c", ""} {
					f.db.Update(nil, func(tx *tables.Tx) {
						r, _ := f.byUUID.Get(tx, "67e55044-10b1-426f-9247-bb680e5fe0c8")
						r.Owner = owner
						f.rows.Put(tx, r)
					})
				}
				f.db.Update(nil, func(tx *tables.Tx) { f.rows.Delete(tx, r.ID) })
			}
		})
	}
}

// An index finds exactly the rows of a value, for all texts.
func TestIndexesOfAnyText(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a', 'b', 0x7f, 'é', 0x10ffff}), 0, 10, -1)
	rapid.Check(t, func(t *rapid.T) {
		f := newFixture()
		want := make(map[string][]int64)
		f.db.Update(nil, func(tx *tables.Tx) {
			for i, owner := range rapid.SliceOfN(rapid.OneOf(text, rapid.String()), 0, 60).Draw(t, "owners") {
				id := int64(i + 1)
				f.rows.Put(tx, row{ID: id, UUID: fmt.Sprint(id), Owner: owner})
				want[owner] = append(want[owner], id)
			}
			delete(want, "") // which is not indexed
			for owner, ids := range want {
				var got []int64
				for r := range f.byOwner.All(tx, owner) {
					got = append(got, r.ID)
				}
				if diff := cmp.Diff(ids, got); diff != "" {
					t.Fatalf("of %q (-want +got):\n%s", owner, diff)
				}
			}
		})
	})
}

func TestACollatedIndexFindsRowsByTheKeyOfAValue(t *testing.T) {
	type named struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	db := tables.New("test")
	rows := tables.Add(db, tables.Spec[int64, named]{Name: "named", Key: func(r named) int64 { return r.ID }})
	byName := rows.Unique(func(r named) string { return r.Name }).Collate(strings.ToLower)
	byKind := rows.Index(func(r named) string { return r.Kind }).Collate(strings.ToLower)
	db.Update(nil, func(tx *tables.Tx) {
		rows.Put(tx, named{1, "GPU", "Card"})
		rows.Put(tx, named{2, "fpga", "card"})
		rows.Put(tx, named{1, "Gpu", "Card"}) // is no conflict with itself
	})
	db.View(func(tx *tables.Tx) {
		if found, ok := byName.Get(tx, "gPU"); !ok || found.Name != "Gpu" {
			t.Errorf("found %v %t, want Gpu as it was written", found, ok)
		}
		if n := len(slices.Collect(byKind.All(tx, "CARD"))); n != 2 {
			t.Errorf("%d cards, want 2", n)
		}
	})
	err := sim.Replace(t.Context(), db, []sim.Record{
		{Table: "test.named", Key: "0000000001", Row: []byte(`{"id":1,"name":"GPU","kind":""}`)},
		{Table: "test.named", Key: "0000000002", Row: []byte(`{"id":2,"name":"gpu","kind":""}`)},
	})
	if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), `row 0000000001 has the same "gpu"`) {
		t.Errorf("error %v, want one about both rows", err)
	}
	db.Update(nil, func(tx *tables.Tx) { rows.Delete(tx, 1) })
	db.View(func(tx *tables.Tx) {
		if found, ok := byName.Get(tx, "gpu"); ok {
			t.Errorf("found %v, which was deleted", found)
		}
	})
}
