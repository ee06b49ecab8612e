package tables_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// readAll reads a whole document.
func readAll(data []byte) (h tables.Header, records []sim.Record, err error) {
	h, rest, err := tables.ReadDocument(bytes.NewReader(data))
	if err != nil {
		return h, nil, err
	}
	for r, err := range rest {
		if err != nil {
			return h, nil, err
		}
		records = append(records, r)
	}
	return h, records, nil
}

// exampleDocument is a document with some rows.
func exampleDocument(t interface{ Fatal(...any) }) []byte {
	f := newFixture()
	f.db.Update(nil, func(tx *tables.Tx) {
		for _, uuid := range []string{"u1", "<u2> & \u2028", "ü3"} {
			f.rows.Put(tx, row{ID: f.ids.Next(tx), UUID: uuid, Tags: []string{"t"}})
			f.notes.Put(tx, note{Name: "n " + uuid, Row: uuid})
		}
	})
	var out bytes.Buffer
	if err := tables.WriteDocument(&out, []byte(`{"hosts":2}`), f.db.Records()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestADocumentIsLoadedAsItWasDumped(t *testing.T) {
	want := exampleDocument(t)
	if first, _, _ := strings.Cut(string(want), "\n"); first != `{"schema_version":2,"model":{"hosts":2}}` {
		t.Errorf("header %s", first)
	}
	h, records, err := readAll(want)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture()
	if err := sim.Replace(t.Context(), f.db, records); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := tables.WriteDocument(&got, h.Model, f.db.Records()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}

func TestReadDocumentRefusesWhatIsNoDocument(t *testing.T) {
	const header = `{"schema_version":2,"model":{}}` + "\n"
	cases := map[string]struct{ document, want string }{
		"empty":             {"", "schema_version 0"},
		"version 1":         {`{"schema_version":1,"model":{}}`, "earlier release"},
		"version 3":         {`{"schema_version":3,"model":{}}`, "schema_version 3, want 2"},
		"no model":          {`{"schema_version":2}`, "no model"},
		"unknown in header": {`{"schema_version":2,"model":{},"more":1}`, "line 1: json: unknown field"},
		"half a header":     {`{"schema_version":2,`, "line 1"},
		"half a record":     {header + `{"table":"t","key":"k"`, "line 2"},
		"text":              {header + "\n\nhello", "line 4"},
		"two in a line":     {header + `{"table":"t","key":"k","row":{}} {}`, "line 2: something follows"},
		"repeated":          {header + `{"table":"t","table":"u","key":"k","row":{}}`, `line 2: member "table" is repeated`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := readAll([]byte(c.document))
			if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestABrokenDocumentIsAnError(t *testing.T) {
	whole := exampleDocument(t)
	rapid.Check(t, func(t *rapid.T) {
		data := bytes.Clone(whole)
		for range rapid.IntRange(1, 4).Draw(t, "bytes") {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		data = data[:rapid.IntRange(0, len(data)).Draw(t, "length")]
		_, records, err := readAll(data)
		f := newFixture()
		if err == nil {
			err = sim.Replace(t.Context(), f.db, records)
		}
		if err != nil && !errors.Is(err, sim.ErrRecords) {
			t.Fatal(err)
		}
	})
}

func TestDiffNamesEachDifferenceOnce(t *testing.T) {
	rec := func(table, key, row string) sim.Record { return sim.Record{Table: table, Key: key, Row: []byte(row)} }
	before := []sim.Record{
		rec("a.arqs", "0000000001", `{"uuid":"u1","state":"Initial","since":"2026-11-22T08:00:00Z","at":{"x":1,"list":[1,2]}}`),
		rec("a.arqs", "0000000002", `{"uuid":"u2"}`),
		rec("identity.tokens", "t1", `{}`),
		rec("z.same", "s", `{"a":1,"b":2}`),
	}
	after := []sim.Record{
		rec("z.same", "s", `{"b":2,"a":1}`),
		rec("a.arqs", "0000000001", `{"uuid":"u1","state":"Bound","since":"2026-11-22T09:00:00Z","at":{"x":1,"list":[1,3,4]}}`),
		rec("a.arqs", "0000000003", `{"name":"n3","uuid":"u3"}`),
		rec("identity.tokens", "t2", `{}`),
	}
	want := []string{
		`  a.arqs[0000000001 u1].at.list[1]: 2 -> 3`,
		`+ a.arqs[0000000001 u1].at.list[2]: 4`,
		`  a.arqs[0000000001 u1].since: "2026-11-22T08:00:00Z" -> "2026-11-22T09:00:00Z"`,
		`  a.arqs[0000000001 u1].state: "Initial" -> "Bound"`,
		`- a.arqs[0000000002 u2]: {"uuid":"u2"}`,
		`+ a.arqs[0000000003 n3]: {"name":"n3","uuid":"u3"}`,
		`- identity.tokens[t1]: {}`,
		`+ identity.tokens[t2]: {}`,
	}
	found, err := tables.Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	var got, lasting []string
	for _, d := range found {
		got = append(got, d.String())
		if !d.IsTime() && !d.IsToken() {
			lasting = append(lasting, d.String())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(append([]string{}, want[:2]...), want[3:6]...), lasting); diff != "" {
		t.Errorf("without times and tokens (-want +got):\n%s", diff)
	}
	if found, err := tables.Diff(before, before); err != nil || found != nil {
		t.Errorf("the same state: %v %v", found, err)
	}
	if _, err := tables.Diff(before, []sim.Record{rec("a.arqs", "0000000001", `{`)}); !errors.Is(err, sim.ErrRecords) {
		t.Errorf("a broken row: %v", err)
	}
}

func TestAGroupIsReplacedAllOrNothing(t *testing.T) {
	a, b := newFixture(), newFixture()
	a.add("u")
	group := tables.Group{{Name: "test", Recorded: a.db}, {Name: "other", Recorded: renamed{b.db}}}
	before := collect(t, group)
	bad := sim.Record{Table: "other.rows", Key: "0000000001", Row: []byte(`{"id":2}`)}
	if err := sim.Replace(t.Context(), group, []sim.Record{bad}); !errors.Is(err, sim.ErrRecords) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, collect(t, group)); diff != "" {
		t.Errorf("after a refused Replace (-want +got):\n%s", diff)
	}
	for _, table := range []string{"tests.rows", "no", ""} {
		if err := sim.Replace(t.Context(), group, []sim.Record{{Table: table}}); !errors.Is(err, sim.ErrRecords) {
			t.Errorf("table %q: error %v", table, err)
		}
	}
	if err := sim.Replace(t.Context(), group, nil); err != nil || len(collect(t, group)) > 0 {
		t.Errorf("after Replace without records: %v %v", err, collect(t, group))
	}
}

// What is written while another component's records are checked and refused is not lost.
func TestARefusedGroupKeepsConcurrentWrites(t *testing.T) {
	t.Parallel()
	a, b := newFixture(), newFixture()
	empty := collect(t, a.db)
	group := tables.Group{{Name: "test", Recorded: a.db}, {Name: "other", Recorded: writing{b.db, func() {
		a.add("u")
	}}}}
	if err := sim.Replace(t.Context(), group, nil); !errors.Is(err, sim.ErrRecords) {
		t.Errorf("error %v", err)
	}
	if got := collect(t, a.db); len(got) <= len(empty) {
		t.Errorf("after a refused Replace: %v", got)
	}
}

// writing refuses its records, and writes to another component before.
type writing struct {
	*tables.DB
	write func()
}

func (w writing) Prepare([]sim.Record) (func(), error) {
	w.write()
	return nil, sim.Record{Table: "other.rows"}.Errorf("it is refused")
}

// renamed is the fixture's DB as the component "other".
type renamed struct{ *tables.DB }

func (r renamed) Prepare(records []sim.Record) (func(), error) {
	for i := range records {
		records[i].Table = strings.Replace(records[i].Table, "other", "test", 1)
	}
	return r.DB.Prepare(records)
}
