package simcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// hardwareDump is what became of a host's hardware, as JSON.
type hardwareDump struct {
	SchemaVersion int `json:"schema_version"`
	// Sysfs is what writes have made of the tree.
	Sysfs json.RawMessage `json:"sysfs,omitempty"`
	// Own are the mediated devices of a directory that were there before the cloud.
	Own []string `json:"own_mdevs,omitempty"`
	// Drivers is what drivers remember, by their name.
	Drivers map[string]json.RawMessage `json:"drivers"`
}

// dump is the hardware as a part of the cloud's state.
func (m *machine) dump() ([]byte, error) {
	d := hardwareDump{SchemaVersion: simhttp.DumpSchema, Own: slices.Sorted(maps.Keys(m.before)), Drivers: make(map[string]json.RawMessage)}
	if tree, ok := m.tree.(driver.Snapshotter); ok {
		data, err := tree.Dump()
		if err != nil {
			return nil, err
		}
		d.Sysfs = data
	}
	for name, snapshotter := range m.snapshotters {
		data, err := snapshotter.Dump()
		if err != nil {
			return nil, fmt.Errorf("driver %s: %w", name, err)
		}
		d.Drivers[name] = data
	}
	return json.MarshalIndent(d, "", "  ")
}

// load makes the hardware what a dump says. With an error it may be so in part.
func (m *machine) load(data []byte) error {
	var d hardwareDump
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return err
	}
	tree, kept := m.tree.(driver.Snapshotter)
	if kept != (d.Sysfs != nil) {
		return errors.New("sysfs: the dump has one and the host has none, or the other way round")
	}
	for name := range d.Drivers {
		if m.snapshotters[name] == nil {
			return fmt.Errorf("driver %s: the host has none that remembers something", name)
		}
	}
	for name, snapshotter := range m.snapshotters {
		own, ok := d.Drivers[name]
		if !ok {
			return fmt.Errorf("driver %s: missing", name)
		}
		if err := snapshotter.Load(own); err != nil {
			return fmt.Errorf("driver %s: %w", name, err)
		}
	}
	if m.dir != nil {
		m.before = make(map[string]bool)
		for _, id := range d.Own {
			m.before[id] = true
		}
	}
	if kept {
		return tree.Load(d.Sysfs)
	}
	return nil
}
