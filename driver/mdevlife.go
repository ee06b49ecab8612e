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
	return err
}

// DropMdev removes a mediated device by writing 1 to its remove file. A device that is
// not there is no error. Errors wrap ErrHandle for an impossible name.
func DropMdev(ctx context.Context, tree Tree, m Mdev) error {
	if err := checkMdev(ctx, m); err != nil {
		return err
	}
	err := tree.WriteFile(mdevTypeDir(m)+"/devices/"+m.UUID+"/remove", []byte("1"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func checkMdev(ctx context.Context, m Mdev) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.Validate()
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

// ErrMdevType is the cause of the problem with a parent that lacks a type.
var ErrMdevType = errors.New("driver: unsupported mediated device type")

// ReadMdevCapacity reads what the directory of types of a parent says about one of them.
// A fault is a Problem without an address: it names the file. One about a type that the
// parent lacks wraps ErrMdevType.
func ReadMdevCapacity(tree Tree, dir, typ string) (MdevCapacity, *Problem) {
	entries, err := tree.ReadDir(dir)
	if err != nil {
		return MdevCapacity{}, &Problem{File: dir, Err: cause(err)}
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == typ }) {
		return MdevCapacity{}, &Problem{Err: fmt.Errorf("%w: Invalid requested vGPU type: %s", ErrMdevType, typ)}
	}
	var c MdevCapacity
	for _, e := range entries {
		n, problem := countMdevs(tree, dir+"/"+e.Name()+"/devices")
		if problem != nil {
			return c, problem
		}
		if e.Name() == typ {
			c.Existing = n
		} else {
			c.Foreign += n
		}
	}
	file := dir + "/" + typ + "/available_instances"
	if c.Available, err = ReadCount(tree, file, maxMdevs); err != nil {
		return c, &Problem{File: file, Err: err}
	}
	file = dir + "/" + typ + "/name"
	if c.Name, err = ReadText(tree, file); err != nil {
		return c, &Problem{File: file, Err: err}
	}
	return c, nil
}

// countMdevs counts what is in a directory; one that is not there is empty.
func countMdevs(tree Tree, dir string) (int, *Problem) {
	entries, err := tree.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, &Problem{File: dir, Err: cause(err)}
	}
	return len(entries), nil
}
