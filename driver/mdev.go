package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// keyParent is the field of an MDEV handle whose parent is not a PCI device.
const keyParent = "parent"

// Mdev is one mediated device: its uuid, which is the uuid of the attach handle, the
// device it is made on, and the type it is made of.
type Mdev struct {
	UUID string `json:"uuid"`
	// Parent is a PCI address such as "0000:84:00.0", or the name of another device.
	Parent string `json:"parent"`
	// Type is a name below mdev_supported_types, such as "nvidia-35".
	Type string `json:"type"`
}

// Validate checks that the three names are valid in paths of sysfs: a UUID in its canonical form,
// and a parent and a type that are single file names. The error wraps ErrHandle.
func (m Mdev) Validate() error {
	if uuid.Validate(m.UUID) != nil || len(m.UUID) != len(uuid.UUID{})*2+4 {
		return fmt.Errorf("%w: mdev uuid %q", ErrHandle, m.UUID)
	}
	if !file.IsName(m.Parent) {
		return fmt.Errorf("%w: mdev %s: parent %q", ErrHandle, m.UUID, m.Parent)
	}
	if !file.IsName(m.Type) {
		return fmt.Errorf("%w: mdev %s: type %q", ErrHandle, m.UUID, m.Type)
	}
	return nil
}

// Mdev returns the mediated device of an MDEV handle with the given uuid. The parent is the handle's PCI
// address, or its field "parent" if the parent is not a PCI device. The error wraps ErrHandle.
func (h AttachHandle) Mdev(id string) (Mdev, error) {
	if h.Type != HandleMDEV {
		return Mdev{}, fmt.Errorf("%w: type %q is not %s", ErrHandle, h.Type, HandleMDEV)
	}
	asked := h.Info["asked_type"]
	if asked == "" {
		return Mdev{}, fmt.Errorf("%w: MDEV without asked_type", ErrHandle)
	}
	if parent := h.Info[keyParent]; parent != "" {
		return Mdev{UUID: id, Parent: parent, Type: asked}, nil
	}
	address, err := PCIAddressOf(h.Info)
	if err != nil {
		return Mdev{}, fmt.Errorf("%w: MDEV: %w", ErrHandle, err)
	}
	return Mdev{UUID: id, Parent: address.String(), Type: asked}, nil
}

const (
	mdevBusDir = "class/mdev_bus"
	// maxMdevs is far above what any device holds; a larger number is a garbled file.
	maxMdevs = 4096
)

// typeDir is the directory of the device's type.
func (m Mdev) typeDir() string {
	return mdevBusDir + "/" + m.Parent + "/" + mdevTypesDir + "/" + m.Type
}

// Dir is the directory of the device below its type, in a Tree.
func (m Mdev) Dir() string { return m.typeDir() + "/devices/" + m.UUID }

// MdevParents makes the mediated devices of devices that are divided, each into one type. A
// driver that embeds it is an MdevDriver.
type MdevParents struct {
	tree  Tree
	types map[string]string
}

var _ MdevDriver = MdevParents{}

// NewMdevParents returns the parents of a tree, and the type of each by its name.
func NewMdevParents(tree Tree, types map[string]string) MdevParents {
	return MdevParents{tree, types}
}

// CreateMdev makes a mediated device by writing its uuid to the create file of its type. It is
// not an error if the device already exists with the same type and parent, regardless of the
// configuration: after a restart the agent creates every bound device again. Errors wrap
// ErrHandle for an impossible name, ErrConfig for a parent that is not divided into the type,
// fs.ErrNotExist for a missing parent or type, fs.ErrExist for a uuid in use elsewhere.
func (p MdevParents) CreateMdev(ctx context.Context, m Mdev) error {
	if err := cmp.Or(ctx.Err(), m.Validate()); err != nil {
		return err
	}
	if _, err := p.tree.Readlink(m.Dir()); err == nil {
		return nil
	}
	if p.types[m.Parent] != m.Type {
		return fmt.Errorf("%w: mdev %s: %s is not configured for type %s", ErrConfig, m.UUID, m.Parent, m.Type)
	}
	if err := p.tree.WriteFile(m.typeDir()+"/create", []byte(m.UUID)); err != nil {
		return fmt.Errorf("create mdev %s: %w", m.UUID, err)
	}
	return nil
}

// RemoveMdev removes a mediated device by writing 1 to its remove file, regardless of the
// configuration. A missing device is not an error. Errors wrap ErrHandle for an impossible name.
func (p MdevParents) RemoveMdev(ctx context.Context, m Mdev) error {
	if err := cmp.Or(ctx.Err(), m.Validate()); err != nil {
		return err
	}
	err := p.tree.WriteFile(m.Dir()+"/remove", []byte("1"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mdev %s: %w", m.UUID, err)
	}
	return nil
}

// MdevCapacity is the capacity of a parent for its type.
type MdevCapacity struct {
	// Handles are the attach handles: one for each device that exists or could be made, or
	// the capacity would shrink with every guest. A mark makes them distinct.
	Handles []AttachHandle
	// Foreign counts the devices of other types. Most parents take one type at a time,
	// so one of them may leave no room.
	Foreign int
	// Name is the display name of the type: "GRID T4-1B". It is empty if the kernel does not name
	// the type, as for i915.
	Name string
}

// Capacity reads what a parent can hold of its type. The error is a Problem without an
// address; that about a type that the parent lacks wraps ErrMdevType.
func (p MdevParents) Capacity(view *View, parent Address) (c MdevCapacity, err error) {
	dir, typ := mdevBusDir+"/"+parent.Name+"/"+mdevTypesDir, p.types[parent.String()]
	if parent.Kind == ControlPathPCI {
		dir = PCIFunction{Address: parent.PCI}.Dir() + "/" + mdevTypesDir
	}
	entries, err := view.ReadDir(dir)
	if err != nil {
		return c, Problem{File: dir, Err: file.Cause(err)}
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == typ }) {
		return c, Problem{Err: fmt.Errorf("%w: Invalid requested vGPU type: %s", ErrMdevType, typ)}
	}
	for _, e := range entries {
		name := dir + "/" + e.Name() + "/devices"
		devices, err := view.Names(name)
		if err != nil {
			return c, Problem{File: name, Err: err}
		}
		if e.Name() != typ {
			c.Foreign += len(devices)
		}
	}
	count, err := p.count(dir + "/" + typ)
	if err != nil {
		return c, err
	}
	if err := checkDeviceAPI(view, dir+"/"+typ+"/device_api"); err != nil {
		return c, err
	}
	c.Name, err = view.ReadText(dir + "/" + typ + "/name")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, Problem{File: dir + "/" + typ + "/name", Err: err}
	}
	c.Handles = mdevHandles(parent.ControlPath(), typ, count)
	return c, nil
}

// apiVFIOPCI is the device_api of mediated devices that look like PCI functions.
const apiVFIOPCI = "vfio-pci"

// checkDeviceAPI refuses a type whose devices no domain can have: Nova, like every client that
// composes a domain, writes model='vfio-pci'.
func checkDeviceAPI(view *View, name string) error {
	api, err := view.ReadText(name)
	if err == nil && api != apiVFIOPCI {
		err = fmt.Errorf("%w: its devices are for %q, and a guest gets those for %s", ErrMdevType, api, apiVFIOPCI)
	}
	if err != nil {
		return Problem{File: name, Err: err}
	}
	return nil
}

// count reads how many devices of a type exist or could be made. Because devices are made and
// removed concurrently, it reads the tree instead of a view, until two reads agree.
func (p MdevParents) count(typeDir string) (int, error) {
	devices, instances, last := typeDir+"/devices", typeDir+"/available_instances", ""
	for range 10 {
		view := NewView(struct{ Tree }{p.tree}) // which is not kept
		existing, err := view.Names(devices)
		if err != nil {
			return 0, Problem{File: devices, Err: err}
		}
		available, err := view.ReadCount(instances, maxMdevs)
		if err != nil {
			return 0, Problem{File: instances, Err: err}
		}
		before := last
		if last = fmt.Sprint(available, existing); last == before {
			return available + len(existing), nil
		}
	}
	return 0, Problem{File: devices, Err: errors.New("the devices change while they are counted")}
}

func mdevHandles(parent ControlPath, typ string, count int) []AttachHandle {
	handles := make([]AttachHandle, count)
	for i := range handles {
		info := maps.Clone(parent.Info)
		info["asked_type"], info["vgpu_mark"] = typ, fmt.Sprintf("%s_%d", typ, i)
		handles[i] = AttachHandle{Type: HandleMDEV, Info: info}
	}
	return handles
}
