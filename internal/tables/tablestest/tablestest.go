package tablestest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// TB is the part of testing.TB that is needed here; *rapid.T has it, too.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Dump is the state of a component as JSON.
func Dump(t TB, from sim.Recorded) []byte {
	t.Helper()
	records, err := tables.Collect(from)
	if err != nil {
		t.Fatalf("%v", err)
	}
	data, err := json.MarshalIndent(append([]sim.Record{}, records...), "", "  ")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return data
}

// Load gives a component a state of [Dump].
func Load(into sim.Recorded, data []byte) error {
	var records []sim.Record
	if err := json.Unmarshal(data, &records); err != nil {
		return err
	}
	return into.Replace(records)
}

// Replaced is a text with the first old part replaced, which must be there.
func Replaced(t TB, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %s in the dump", old)
	}
	return strings.Replace(text, old, new, 1)
}

// CheckRefused checks that a component refuses a state, with an error that has a text, and
// does not change.
func CheckRefused(t TB, c sim.Recorded, name, state, want string) {
	t.Helper()
	before := Dump(t, c)
	err := Load(c, []byte(state))
	if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want ErrRecords with %s", name, err, want)
	}
	if after := Dump(t, c); !bytes.Equal(before, after) {
		t.Fatalf("%s: refused, yet changed from\n%s\nto\n%s", name, before, after)
	}
}

// CheckLoad checks that a component takes any text as its state, and then gives a state that it
// takes as well, or refuses it and does not change.
func CheckLoad(t TB, c sim.Recorded, text []byte) {
	t.Helper()
	before := Dump(t, c)
	if err := Load(c, text); err != nil {
		if !bytes.Equal(before, Dump(t, c)) {
			t.Fatalf("refused, yet changed: %v", err)
		}
		return
	}
	once := Dump(t, c)
	if err := Load(c, once); err != nil {
		t.Fatalf("its own state: %v", err)
	}
	if twice := Dump(t, c); !bytes.Equal(once, twice) {
		t.Fatalf("states differ:\n%s\n%s", once, twice)
	}
}
