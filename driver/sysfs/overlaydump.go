package sysfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// overlayDump is the state of an overlay, as JSON.
type overlayDump struct {
	SchemaVersion int           `json:"schema_version"`
	Made          []driver.Mdev `json:"made"`
	Removed       []driver.Mdev `json:"removed"`
	// VGPUs are the types of virtual functions that were written, by address; 0 means none.
	VGPUs  map[string]int `json:"vgpus,omitzero"`
	Writes []string       `json:"writes"`
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
		for name, id := range o.vgpus {
			if d.VGPUs == nil {
				d.VGPUs = make(map[string]int)
			}
			function, _ := vgpuFunctionOf(name)
			d.VGPUs[function.String()] = id
		}
		d.Writes = append(d.Writes, o.log...)
	}
	return json.MarshalIndent(d, "", "  ")
}

// Prepare implements [driver.Snapshotter]. A dump of another schema_version, with unknown
// fields, that does not fit the directory as it is now, or that is not empty while writes go
// through is refused; the error matches [driver.ErrSnapshot] and names the device.
func (t *DirTree) Prepare(data []byte) (load func(), err error) {
	var d overlayDump
	err = strictjson.DecodeSnapshot(data, &d, &d.SchemaVersion)
	switch {
	case err != nil:
	case t.overlay != nil:
		load, err = t.overlay.prepare(d)
	case len(d.Made)+len(d.Removed)+len(d.VGPUs)+len(d.Writes) > 0:
		err = errors.New("writes to the directory go through, and the dump is of recorded ones")
	default:
		load = func() {}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrSnapshot, err)
	}
	return load, nil
}

// prepare repeats the making and removing on a fresh overlay, so that a dump which does not fit
// the directory fails as the writes would.
func (o *overlay) prepare(d overlayDump) (load func(), err error) {
	fresh := newOverlay(o.base)
	for _, m := range d.Removed {
		if err := fresh.repeat(m, "/devices/"+m.UUID+"/remove", "1"); err != nil {
			return nil, fmt.Errorf("removed mdev %q on %q: %w", m.UUID, m.Parent, err)
		}
	}
	for _, m := range d.Made {
		err := fresh.repeat(m, "/create", m.UUID)
		if err == nil && fresh.made[m.UUID] != m {
			err = errors.New("it is removed, too, or its uuid is not in lower case")
		}
		if err != nil {
			return nil, fmt.Errorf("made mdev %q on %q: %w", m.UUID, m.Parent, err)
		}
	}
	for address, id := range d.VGPUs {
		if err := fresh.repeatVGPU(address, id); err != nil {
			return nil, fmt.Errorf("vGPU type %d of %q: %w", id, address, err)
		}
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.made, o.removed, o.vgpus, o.log = fresh.made, fresh.removed, fresh.vgpus, append([]string(nil), d.Writes...)
	}, nil
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

// repeatVGPU records the type of a virtual function. One that was set again was cleared before.
func (o *overlay) repeatVGPU(address string, id int) error {
	function, err := driver.ParsePCIAddress(address)
	if err != nil || function.String() != address {
		return errors.New("not a PCI address")
	}
	name := driver.VGPUFile(function)
	current, err := driver.CurrentVGPU(driver.NewView(o.base), function)
	if err != nil {
		return err
	}
	if id != 0 && current != 0 {
		o.vgpus[name] = 0
	} else if id == current {
		o.vgpus[name] = id
		return nil
	}
	return o.setVGPU(name, function, fmt.Sprint(id))
}
