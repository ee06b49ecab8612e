package sysfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// ErrDump is matched by the errors of [Memory.Load] and [DirTree.Load].
var ErrDump = errors.New("sysfs: bad dump")

// dumpSchema is the version of the form of a dump.
const dumpSchema = 1

// decodeDump reads one JSON value without unknown fields, and judges its version.
func decodeDump(data []byte, into any, version *int) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	if *version != dumpSchema {
		return fmt.Errorf("schema_version %d, want %d", *version, dumpSchema)
	}
	return nil
}

// treeDump is what became of a described machine, as JSON.
type treeDump struct {
	SchemaVersion int            `json:"schema_version"`
	Functions     []dumpFunction `json:"functions"`
	Ports         []dumpPort     `json:"fpga_ports"`
	Mdevs         []driver.Mdev  `json:"mdevs"`
	// Idle are kernel drivers that have no device any more and keep their directories,
	// by bus and name: mdev/vfio_mdev.
	Idle []string `json:"idle_drivers"`
}

// dumpFunction is a physical function of SR-IOV.
type dumpFunction struct {
	Address string   `json:"address"`
	VFs     []dumpVF `json:"virtual_functions"`
}

// dumpVF has the numbers that a virtual function was given.
type dumpVF struct {
	IOMMUGroup *int `json:"iommu_group,omitempty"`
	FPGA       *int `json:"fpga,omitempty"`
}

// dumpPort is an FPGA port whose function is not the described one.
type dumpPort struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
	AFUID   string `json:"afu_id"`
}

const (
	idleMdev = "mdev/vfio_mdev"
	idlePCI  = "pci/" // and the name of the driver
	dirVFIO  = "bus/mdev/drivers/vfio_mdev"
)

// Dump returns what writes and [Memory.Program] have made of the described machine, as one
// JSON document with the field schema_version: virtual functions and mediated devices, the
// functions in FPGAs, and the numbers that the kernel gave at run time. The description is
// not in it, nor is what SetFile, SetLink, Remove and Deny did. The same state gives the
// same bytes, and a tree that has loaded a dump gives the same dump.
func (m *Memory) Dump() ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d := treeDump{
		SchemaVersion: dumpSchema, Functions: []dumpFunction{}, Ports: []dumpPort{}, Mdevs: m.sortedMdevs(), Idle: m.idleDrivers(),
	}
	for _, f := range m.physical() {
		out := dumpFunction{f.address.String(), []dumpVF{}}
		for _, vf := range f.virtual {
			out.VFs = append(out.VFs, dumpVF{vf.group, vf.dev})
		}
		d.Functions = append(d.Functions, out)
	}
	for _, f := range m.cards() {
		for _, p := range f.fpga.Ports {
			if id := strings.ToLower(f.loaded[p.Number]); id != strings.ToLower(p.AFUID) {
				d.Ports = append(d.Ports, dumpPort{f.address.String(), p.Number, id})
			}
		}
	}
	return json.MarshalIndent(d, "", "  ")
}

// cards are the physical functions with an FPGA, in the order of addresses.
func (m *hardware) cards() []*function {
	var list []*function
	for _, f := range m.functions {
		if f.fpga != nil {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *function) int { return a.address.Compare(b.address) })
	return list
}

// idleDrivers lists the drivers that stay in the tree without a device: those of virtual
// functions and of mediated devices that were there once.
func (m *hardware) idleDrivers() []string {
	list := []string{}
	if _, err := m.root.walk(dirVFIO, true); err == nil && len(m.mdevs) == 0 {
		list = append(list, idleMdev)
	}
	for _, name := range m.vfDrivers() {
		if n, err := m.root.walk(dirPCIDrivers+"/"+name, true); err == nil && len(n.children) == 0 {
			list = append(list, idlePCI+name)
		}
	}
	return list
}

// vfDrivers lists the drivers that virtual functions are bound to, sorted.
func (m *hardware) vfDrivers() []string {
	var list []string
	for _, f := range m.physical() {
		if f.vfs.Driver != "" {
			list = append(list, f.vfs.Driver)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Load makes the tree what a dump of a tree of the same description says, in place of all
// that was done to it, SetFile and its like included. A dump of another schema_version, with unknown fields, or that
// does not fit the description is refused; the error matches [ErrDump] and names the
// device, and the tree is as it was.
func (m *Memory) Load(data []byte) error {
	var d treeDump
	if err := decodeDump(data, &d, &d.SchemaVersion); err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	h, err := generate(m.described)
	if err == nil {
		err = h.restore(d)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDump, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hardware = h
	return nil
}
