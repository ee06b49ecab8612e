package sysfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/strictjson"
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
	d := overlayDump{SchemaVersion: strictjson.SnapshotVersion, Made: []driver.Mdev{}, Removed: []driver.Mdev{}, Writes: []string{}}
	if o := t.overlay; o != nil {
		o.mu.RLock()
		defer o.mu.RUnlock()
		d.Made, d.Removed = sortedMdevs(o.made), sortedMdevs(o.removed)
		d.Writes = append(d.Writes, o.log...)
	}
	return json.MarshalIndent(d, "", "  ")
}

// Load makes the tree remember what a dump says, in place of all it remembered. A dump of
// another schema_version, with unknown fields, that does not fit the directory as it is
// now, or that is not empty while writes go through is refused; the error matches
// [driver.ErrSnapshot] and names the device, and the tree is as it was.
func (t *DirTree) Load(data []byte) error {
	var d overlayDump
	err := strictjson.DecodeSnapshot(data, &d, &d.SchemaVersion)
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

// load repeats the making and removing on a fresh overlay, so that a dump which does not fit
// the directory fails as the writes would.
func (o *overlay) load(d overlayDump) error {
	fresh := newOverlay(o.base)
	for _, m := range d.Removed {
		if err := fresh.repeat(m, "/devices/"+m.UUID+"/remove", "1"); err != nil {
			return fmt.Errorf("removed mdev %q on %q: %w", m.UUID, m.Parent, err)
		}
	}
	for _, m := range d.Made {
		err := fresh.repeat(m, "/create", m.UUID)
		if err == nil && fresh.made[m.UUID] != m {
			err = errors.New("it is removed, too, or its uuid is not in lower case")
		}
		if err != nil {
			return fmt.Errorf("made mdev %q on %q: %w", m.UUID, m.Parent, err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made, o.removed, o.log = fresh.made, fresh.removed, append([]string(nil), d.Writes...)
	return nil
}

// repeat writes to a file of a device's type. A captured directory may lack the class of
// parents.
func (o *overlay) repeat(m driver.Mdev, file, text string) error {
	if err := m.Validate(); err != nil {
		return err
	}
	types := dirMdevBus + "/" + m.Parent + "/" + mdevTypes
	if _, err := o.base.ReadDir(types); errors.Is(err, fs.ErrNotExist) {
		types = dirPCIDevices + "/" + m.Parent + "/" + mdevTypes
	}
	return o.write(types+"/"+m.Type+file, text)
}
