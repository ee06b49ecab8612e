package servicetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// badState is a state that a service refuses, with what the error says.
type badState struct{ name, state, want string }

// checkBadStates checks that a service refuses states, and its own state with any record
// repeated, and does not change.
func checkBadStates(t *testing.T, service sim.Recorded, bad []badState) {
	t.Helper()
	before := dump(t, service)
	check := func(name, want string, err error) {
		if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want ErrRecords with %s", name, err, want)
		}
		if after := dump(t, service); after != before {
			t.Fatalf("%s: refused, yet changed from\n%s\nto\n%s", name, before, after)
		}
	}
	for _, b := range bad {
		check(b.name, b.want, load(service, b.state))
	}
	records, err := tables.Collect(service)
	must(t, err)
	for _, r := range records {
		check(r.Table+" twice", r.Key+": there are two rows", sim.Replace(t.Context(), service, append(slices.Clone(records), r)))
	}
}

// checkLoad checks that a service takes any text as its state, and then gives a state that it
// takes as well, or refuses it and does not change.
func checkLoad(t *testing.T, service sim.Recorded, text string) {
	t.Helper()
	before := dump(t, service)
	if err := load(service, text); err != nil {
		if before != dump(t, service) {
			t.Fatalf("refused, yet changed: %v", err)
		}
		return
	}
	once := dump(t, service)
	if err := load(service, once); err != nil {
		t.Fatalf("its own state: %v", err)
	}
	if twice := dump(t, service); once != twice {
		t.Fatalf("states differ:\n%s\n%s", once, twice)
	}
}

// dump is the state of a service as JSON.
func dump(t testing.TB, service sim.Recorded) string {
	t.Helper()
	records, err := tables.Collect(service)
	must(t, err)
	data, err := json.MarshalIndent(append([]sim.Record{}, records...), "", "  ")
	must(t, err)
	return string(data)
}

// load gives a service a state of [dump].
func load(service sim.Recorded, state string) error {
	var records []sim.Record
	if err := json.Unmarshal([]byte(state), &records); err != nil {
		return err
	}
	return sim.Replace(context.Background(), service, records)
}

// replacer returns a function that replaces the first old part of a text, which must be there.
func replacer(t *testing.T, text string) func(old, new string) string {
	return func(old, new string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("no %s in the state", old)
		}
		return strings.Replace(text, old, new, 1)
	}
}
