package sysfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// treeDump holds the changes to a described machine, as JSON.
type treeDump struct {
	SchemaVersion int `json:"schema_version"`
	// VFs are the changed numbers of virtual functions.
	VFs []dumpVFs `json:"virtual_functions"`
	// Ports are the FPGA ports that were programmed since the start.
	Ports []dumpPort    `json:"fpga_ports"`
	Mdevs []driver.Mdev `json:"mdevs"`
	// VGPUs are the virtual functions with a type, in the order in which they are restored.
	VGPUs []dumpVGPU `json:"vgpus,omitzero"`
}

type dumpVGPU struct {
	Address string `json:"address"`
	Type    int    `json:"type"`
	// GPUInstance is the index of the GPU instance in MIG mode.
	GPUInstance int `json:"gpu_instance,omitempty"`
	// Held is set while a guest has the function.
	Held bool `json:"held,omitempty"`
}

type dumpVFs struct {
	Address string `json:"address"`
	Enabled int    `json:"enabled"`
}

type dumpPort struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
	AFUID   string `json:"afu_id"`
}

// Dump returns the changes by writes and [Memory.Program] to the described machine, as one JSON
// document with the field schema_version: the numbers of virtual functions, mediated devices,
// vGPUs, and the functions in FPGAs. It does not include the description, or the effects of
// SetFile, SetLink, Remove and Deny. The same state gives the same bytes, and a tree that has
// loaded a dump gives the same dump.
func (m *Memory) Dump() ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d := treeDump{SchemaVersion: strictjson.SnapshotVersion, VFs: []dumpVFs{}, Ports: []dumpPort{}, Mdevs: []driver.Mdev{}}
	if m.changed != nil {
		m.changed.dump(&d)
	}
	return json.MarshalIndent(d, "", "  ")
}

func (m *hardware) dump(d *treeDump) {
	d.Mdevs = sortedMdevs(m.mdevs)
	for _, f := range m.sorted() {
		if f.vfs != nil && len(f.virtual) != f.enabledAtStart {
			d.VFs = append(d.VFs, dumpVFs{f.address.String(), len(f.virtual)})
		}
		if f.vgpu != nil {
			d.VGPUs = append(d.VGPUs, dumpVGPU{f.address.String(), f.vgpu.ID, f.vgpu.instance, f.held})
		}
		if f.fpga == nil {
			continue
		}
		for _, p := range f.fpga.Ports {
			if id := strings.ToLower(f.loaded[p.Number]); id != "" {
				d.Ports = append(d.Ports, dumpPort{f.address.String(), p.Number, id})
			}
		}
	}
}

// Prepare implements [driver.Snapshotter]: the tree becomes what a dump of a tree of the same
// description says, in place of all that was done to it, SetFile and its like included. A dump
// of another schema_version, with unknown fields, or that does not fit the description is
// refused; the error matches [driver.ErrSnapshot] and names the device.
func (m *Memory) Prepare(data []byte) (load func(), err error) {
	var d treeDump
	if err := strictjson.DecodeSnapshot(data, &d, &d.SchemaVersion); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrSnapshot, err)
	}
	h, err := d.restored(m.described.Description)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrSnapshot, err)
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed = h
	}, nil
}

// restored returns the tree of a dump, nil for one that is as described.
func (d treeDump) restored(described Description) (*hardware, error) {
	if len(d.VFs)+len(d.Ports)+len(d.Mdevs)+len(d.VGPUs) == 0 {
		return nil, nil
	}
	h, err := generate(described)
	if err == nil {
		err = h.restore(d)
	}
	return h, err
}

// restore does to a newly generated tree what a dump says.
func (m *hardware) restore(d treeDump) error {
	for i, in := range d.VFs {
		f, err := m.physicalAt(in.Address)
		switch {
		case err != nil:
		case f.vfs == nil || in.Enabled < 0 || in.Enabled > f.vfs.Total:
			err = fmt.Errorf("it cannot have %d virtual functions", in.Enabled)
		case slices.ContainsFunc(d.VFs[:i], func(o dumpVFs) bool { return o.Address == in.Address }):
			err = errors.New("it appears twice")
		}
		if err != nil {
			return fmt.Errorf("function %q: %w", in.Address, err)
		}
		m.setVFs(f, in.Enabled)
	}
	for _, p := range d.Ports {
		f, err := m.physicalAt(p.Address)
		switch {
		case err != nil:
		case f.fpga == nil || !slices.ContainsFunc(f.fpga.Ports, func(o FPGAPort) bool { return o.Number == p.Port }):
			err = ErrNoPort
		case !fpgaID(p.AFUID):
			err = fmt.Errorf("afu_id %q is not 32 hexadecimal digits", p.AFUID)
		}
		if err != nil {
			return fmt.Errorf("fpga port %d of %q: %w", p.Port, p.Address, err)
		}
		f.loaded[p.Port] = p.AFUID
		m.placePorts(f)
	}
	for _, mdev := range d.Mdevs {
		if err := m.restoreMdev(mdev); err != nil {
			return fmt.Errorf("mdev %q of type %q on %q: %w", mdev.UUID, mdev.Type, mdev.Parent, err)
		}
	}
	for _, in := range d.VGPUs {
		if err := m.restoreVGPU(in); err != nil {
			return fmt.Errorf("vgpu of type %d on %q: %w", in.Type, in.Address, err)
		}
	}
	return nil
}

// physicalAt returns the physical function at an address.
func (m *hardware) physicalAt(address string) (*function, error) {
	at, err := driver.ParsePCIAddress(address)
	if err != nil {
		return nil, err
	}
	f := m.functions[at]
	if f == nil || m.reserved[at] {
		return nil, errors.New("the description has no such function")
	}
	return f, nil
}

// restoreMdev makes a mediated device as a write to create does.
func (m *hardware) restoreMdev(mdev driver.Mdev) error {
	p := m.parents[mdev.Parent]
	if p == nil {
		return errors.New("there is no such parent")
	}
	i := slices.IndexFunc(p.types, func(t MdevType) bool { return t.Type == mdev.Type })
	if i < 0 {
		return errors.New("the parent has no such type")
	}
	return m.createMdev(p, p.types[i], []byte(mdev.UUID))
}
