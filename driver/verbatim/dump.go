package verbatim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// stateDump is the state of a driver, as JSON.
type stateDump struct {
	SchemaVersion int           `json:"schema_version"`
	Mdevs         []driver.Mdev `json:"mdevs"`
	Images        []dumpImage   `json:"images"`
}

// dumpImage is the last image written to an FPGA.
type dumpImage struct {
	// ControlPath is the key of the device's.
	ControlPath string `json:"control_path"`
	// Data is base64.
	Data []byte `json:"data"`
}

var _ driver.Snapshotter = (*Driver)(nil)

// Dump returns the mediated devices and the images written to FPGAs as one JSON document
// with the field schema_version. The devices that the driver reports are not in it. The
// same state gives the same bytes, and a driver that has loaded a dump gives the same
// dump.
func (d *Driver) Dump() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := stateDump{SchemaVersion: strictjson.SnapshotVersion, Mdevs: []driver.Mdev{}, Images: []dumpImage{}}
	for _, id := range slices.Sorted(maps.Keys(d.mdevs)) {
		out.Mdevs = append(out.Mdevs, d.mdevs[id])
	}
	for _, path := range slices.Sorted(maps.Keys(d.images)) {
		out.Images = append(out.Images, dumpImage{path, append([]byte{}, d.images[path]...)})
	}
	return json.MarshalIndent(out, "", "  ")
}

// Prepare implements [driver.Snapshotter]. A dump of another schema_version, with unknown
// fields, with duplicates, or of an FPGA that the driver does not report is refused; the error
// matches [driver.ErrSnapshot] and names the device.
func (d *Driver) Prepare(data []byte) (load func(), err error) {
	var in stateDump
	err = strictjson.DecodeSnapshot(data, &in, &in.SchemaVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrSnapshot, err)
	}
	mdevs, images := make(map[string]driver.Mdev), make(map[string][]byte)
	for _, m := range in.Mdevs {
		if _, twice := mdevs[m.UUID]; twice {
			err = fmt.Errorf("mdev %s appears twice", m.UUID)
		}
		if err = cmp.Or(err, m.Validate()); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrSnapshot, err)
		}
		mdevs[m.UUID] = m
	}
	for _, i := range in.Images {
		if _, twice := images[i.ControlPath]; twice || i.Data == nil || !d.hasFPGA(i.ControlPath) {
			return nil, fmt.Errorf("%w: image of %q: no FPGA is there, or it has no data, or appears twice", driver.ErrSnapshot, i.ControlPath)
		}
		images[i.ControlPath] = i.Data
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mdevs, d.images = mdevs, images
	}, nil
}
