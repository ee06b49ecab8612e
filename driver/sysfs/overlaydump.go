package sysfs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// overlayDump is what an overlay remembers, as JSON.
type overlayDump struct {
	SchemaVersion int           `json:"schema_version"`
	Made          []driver.Mdev `json:"made"`
	Removed       []driver.Mdev `json:"removed"`
	Writes        []string      `json:"writes"`
}

// Dump returns the writes that only this tree knows of, and what they made and removed, as
// one JSON document with the field schema_version. The directory is not in it, and where
// writes go through nothing is. The same state gives the same bytes, and a tree that has
// loaded a dump gives the same dump.
func (t *DirTree) Dump() ([]byte, error) {
	d := overlayDump{SchemaVersion: driver.SnapshotSchema, Made: []driver.Mdev{}, Removed: []driver.Mdev{}, Writes: []string{}}
	if o := t.overlay; o != nil {
		o.mu.RLock()
		defer o.mu.RUnlock()
		d.Made = slices.AppendSeq(d.Made, maps.Values(o.made))
		d.Removed = slices.AppendSeq(d.Removed, maps.Values(o.removed))
		d.Writes = append(d.Writes, o.log...)
	}
	sortMdevs(d.Made)
	sortMdevs(d.Removed)
	return json.MarshalIndent(d, "", "  ")
}

// Load makes the tree remember what a dump says, in place of all it remembered. A dump of
// another schema_version, with unknown fields, that does not fit the directory as it is
// now, or that is not empty while writes go through is refused; the error matches
// [driver.ErrSnapshot] and names the device, and the tree is as it was.
func (t *DirTree) Load(data []byte) error {
	var d overlayDump
	err := driver.DecodeSnapshot(data, &d, &d.SchemaVersion)
	switch {
	case err != nil:
	case t.overlay != nil:
		err = t.overlay.load(d)
	case len(d.Made)+len(d.Removed)+len(d.Writes) > 0:
		err = errors.New("writes to the directory go through, and the dump is of recorded ones")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrSnapshot, err)
	}
	return nil
}

func (o *overlay) load(d overlayDump) error {
	fresh := newOverlay(o.base)
	for _, m := range d.Removed {
		if err := cmp.Or(checkLoaded(m, fresh.removed), o.holds(m, true)); err != nil {
			return fmt.Errorf("removed mdev %q on %q: %w", m.UUID, m.Parent, err)
		}
		fresh.removed[m.UUID] = m
	}
	for _, m := range d.Made {
		err := checkLoaded(m, fresh.made)
		if gone, removed := fresh.removed[m.UUID]; err == nil && !removed {
			err = o.holds(m, false)
		} else if err == nil && gone == m {
			err = errors.New("it is removed, too")
		}
		if m.UUID != strings.ToLower(m.UUID) {
			err = errors.New("the uuid is not in lower case")
		}
		if err = cmp.Or(err, o.offers(m)); err != nil {
			return fmt.Errorf("made mdev %q on %q: %w", m.UUID, m.Parent, err)
		}
		fresh.made[m.UUID] = m
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made, o.removed, o.log = fresh.made, fresh.removed, append([]string(nil), d.Writes...)
	return nil
}

func checkLoaded(m driver.Mdev, others map[string]driver.Mdev) error {
	if _, twice := others[m.UUID]; twice {
		return errors.New("it is there twice")
	}
	return m.Validate()
}

// typeDirs are the directories that the type of a device can be found by.
func typeDirs(m driver.Mdev) []string {
	var dirs []string
	for _, bus := range []string{dirMdevBus, dirPCIDevices} {
		dirs = append(dirs, bus+"/"+m.Parent+"/"+mdevTypes+"/"+m.Type)
	}
	return dirs
}

// offers looks for the type of a device in the directory.
func (o *overlay) offers(m driver.Mdev) error {
	for _, dir := range typeDirs(m) {
		if _, err := o.base.ReadFile(dir + "/available_instances"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the directory has no type %q of that parent", m.Type)
}

// holds looks whether a device is in the directory, as it should be or should not.
func (o *overlay) holds(m driver.Mdev, want bool) error {
	names := []string{dirMdevDevices + "/" + m.UUID}
	for _, dir := range typeDirs(m) {
		names = append(names, dir+"/devices/"+m.UUID)
	}
	found := slices.ContainsFunc(names, func(name string) bool {
		_, err := o.base.Readlink(name)
		return err == nil
	})
	switch {
	case want && !found:
		return errors.New("the directory does not have it any more")
	case found && !want:
		return errors.New("the directory has a device of that uuid now")
	}
	return nil
}
