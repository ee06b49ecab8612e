package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

const (
	mdevBusDir = "class/mdev_bus"
	// maxMdevs is far above what any device holds; a larger number is a garbled file.
	maxMdevs = 4096
)

// MdevParentTypes is the directory of the types of a parent.
func MdevParentTypes(parent string) string {
	return mdevBusDir + "/" + parent + "/" + MdevTypesDir
}

func mdevTypeDir(m Mdev) string { return MdevParentTypes(m.Parent) + "/" + m.Type }

// MakeMdev makes a mediated device by writing its uuid to the create file of its type. A
// device that is there already, of the same type on the same parent, is no error: after a
// restart of the host the agent asks for every bound device again. Errors wrap ErrHandle
// for an impossible name, fs.ErrNotExist for a parent or type that is gone, fs.ErrExist
// for a uuid in use elsewhere.
func MakeMdev(ctx context.Context, tree Tree, m Mdev) error {
	if err := checkMdev(ctx, m); err != nil {
		return err
	}
	dir := mdevTypeDir(m)
	err := tree.WriteFile(dir+"/create", []byte(m.UUID))
	if errors.Is(err, fs.ErrExist) {
		if _, linkErr := tree.Readlink(dir + "/devices/" + m.UUID); linkErr == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("create mdev %s: %w", m.UUID, err)
	}
	return nil
}

// DropMdev removes a mediated device by writing 1 to its remove file. A device that is
// not there is no error. Errors wrap ErrHandle for an impossible name.
func DropMdev(ctx context.Context, tree Tree, m Mdev) error {
	if err := checkMdev(ctx, m); err != nil {
		return err
	}
	err := tree.WriteFile(mdevTypeDir(m)+"/devices/"+m.UUID+"/remove", []byte("1"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mdev %s: %w", m.UUID, err)
	}
	return nil
}

func checkMdev(ctx context.Context, m Mdev) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.Validate()
}

// MdevHandles returns the attach handles of a parent that is divided into mediated devices
// of one type, by the control path of the parent. A mark tells them apart.
func MdevHandles(parent ControlPath, typ string, count int) []AttachHandle {
	handles := make([]AttachHandle, count)
	for i := range handles {
		info := parent.Info.clone()
		info["asked_type"], info["vgpu_mark"] = typ, fmt.Sprintf("%s_%d", typ, i)
		handles[i] = AttachHandle{Type: HandleMDEV, Info: info}
	}
	return handles
}

// MdevCapacity is what a parent can hold of one type.
type MdevCapacity struct {
	// Available is how many could be made now, Existing how many there are.
	Available, Existing int
	// Foreign counts the devices of other types. Most parents take one type at a time,
	// so one of them may leave no room.
	Foreign int
	// Name is what people call the type: "GRID T4-1B".
	Name string
}

// Total is the capacity to report: what exists counts as much as what could be made, or
// the capacity would shrink with every guest.
func (c MdevCapacity) Total() int { return c.Available + c.Existing }

// ReadMdevCapacity reads what the directory of types of a parent says about one of them.
// The error is a Problem without an address; that about a type that the parent lacks wraps
// ErrMdevType.
func ReadMdevCapacity(tree Tree, dir, typ string) (c MdevCapacity, err error) {
	entries, err := tree.ReadDir(dir)
	if err != nil {
		return c, Problem{File: dir, Err: Cause(err)}
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == typ }) {
		return c, Problem{Err: fmt.Errorf("%w: Invalid requested vGPU type: %s", ErrMdevType, typ)}
	}
	for _, e := range entries {
		file := dir + "/" + e.Name() + "/devices"
		devices, err := tree.ReadDir(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, Problem{File: file, Err: Cause(err)}
		}
		if e.Name() == typ {
			c.Existing = len(devices)
		} else {
			c.Foreign += len(devices)
		}
	}
	file := dir + "/" + typ + "/available_instances"
	if c.Available, err = ReadCount(tree, file, maxMdevs); err != nil {
		return c, Problem{File: file, Err: err}
	}
	file = dir + "/" + typ + "/name"
	if c.Name, err = ReadText(tree, file); err != nil {
		return c, Problem{File: file, Err: err}
	}
	return c, nil
}
