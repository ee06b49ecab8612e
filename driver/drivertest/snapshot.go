package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

// testSnapshot loads what a driver remembers and what another one remembers after a change.
func testSnapshot(t *testing.T, c Case) {
	d, ok := c.newDriver(t, generate(t, c.Hardware)).(driver.Snapshotter)
	if !ok {
		return
	}
	first := dump(t, d)
	var header struct {
		Version *int `json:"schema_version"`
	}
	if err := json.Unmarshal([]byte(first), &header); err != nil || header.Version == nil {
		t.Errorf("the dump has no schema_version (%v):\n%s", err, first)
	}
	remembers := func(when, want string) {
		t.Helper()
		if got := dump(t, d); got != want {
			t.Errorf("%s: the dump is\n%s\nand not\n%s", when, got, want)
		}
	}
	for _, bad := range []string{"", "{", `"x"`, first + "{}", `{"schema_version": 0}`} {
		if _, err := d.Prepare([]byte(bad)); !errors.Is(err, driver.ErrSnapshot) {
			t.Errorf("prepare %q: %v, want ErrSnapshot", bad, err)
		}
		remembers("refused "+bad, first)
	}
	now := first
	for _, next := range []string{first, c.changed(t), first} {
		load, err := d.Prepare([]byte(next))
		if err != nil {
			t.Fatalf("prepare %s: %v", next, err)
		}
		remembers("prepared, and not loaded", now)
		load()
		remembers("loaded", next)
		now = next
	}
}

// changed is the dump of another driver after a change.
func (c Case) changed(t *testing.T) string {
	t.Helper()
	d := c.newDriver(t, generate(t, c.Hardware))
	before, change := dump(t, d.(driver.Snapshotter)), c.Change
	if change == nil {
		change = makeMdevs(t)
	}
	if err := change(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	after := dump(t, d.(driver.Snapshotter))
	switch {
	case after != before:
	case c.Change == nil:
		t.Log("no mediated device changes the dump: set Case.Change to test that another one is loaded")
	default:
		t.Errorf("Case.Change does not change the dump:\n%s", after)
	}
	return after
}

// makeMdevs returns the change of a case without its own.
func makeMdevs(t *testing.T) func(context.Context, driver.Driver) error {
	return func(ctx context.Context, d driver.Driver) error {
		maker, ok := d.(driver.MdevDriver)
		if !ok {
			return nil
		}
		for _, m := range mdevsOf(t, Discover(t, d)) {
			if err := maker.CreateMdev(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
}

func dump(t testing.TB, d driver.Snapshotter) string {
	t.Helper()
	data, err := d.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
