package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// DirOptions says how a directory is used.
type DirOptions struct {
	// Write lets WriteFile change the files of the directory. Without it nothing below
	// the directory is ever opened for writing.
	Write bool
}

// DirTree is a sysfs tree below a directory: the live /sys, or a captured copy of one.
// No name and no link leads out of the directory. The exception is udev's records, run/udev/data,
// which are read from a sibling of the directory: /run for /sys. It is safe for concurrent use.
//
// The only files that are written are create and remove of mediated devices and
// current_vgpu_type; all others are refused with fs.ErrPermission.
//
// Without DirOptions.Write the creation and removal of mediated devices, and types of vGPUs, are
// kept in an overlay: later reads through this tree see them, Overlaid lists them, and the
// directory does not change.
type DirTree struct {
	tree
	files   rootFiles
	overlay *overlay // nil when writes go through
	udev    *os.Root // of udev's records; nil if they do not exist next to the directory
}

const udevPrefix = "run/udev/data/"

// tree is the source that a DirTree reads and writes: the directory or the overlay. A file larger than
// maxFile is refused with ErrTooLarge, anything but a regular file with ErrNotRegular. A file
// that does not exist is not made.
type tree = driver.Tree

// rootFiles reads and writes the directory itself.
type rootFiles struct {
	root *os.Root
	fast *beneath // nil or not supported: root does all
}

var _ driver.Tree = (*DirTree)(nil)

// OpenDir opens the directory that is the mount point itself, such as /sys. A directory with
// neither a bus nor a devices directory is refused, since it is not a sysfs.
func OpenDir(dir string, opts DirOptions) (*DirTree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("sysfs: open tree: %w", err)
	}
	files := rootFiles{root, newBeneath(root)}
	t := &DirTree{tree: files, files: files}
	if !opts.Write {
		t.overlay = newOverlay(files)
		t.tree = t.overlay
	}
	if !t.files.has("bus") && !t.files.has("devices") {
		defer t.Close()
		if t.files.has("sys/bus") || t.files.has("sys/devices") {
			return nil, fmt.Errorf("sysfs: open tree %s: not the mount point of a sysfs; it may be %s", dir, filepath.Join(dir, "sys"))
		}
		return nil, fmt.Errorf("sysfs: open tree %s: neither a bus nor a devices directory in it", dir)
	}
	if !t.files.has(udevPrefix) { // some machines and copies have none
		t.udev, _ = os.OpenRoot(filepath.Join(dir, "..", udevPrefix))
	}
	return t, nil
}

// ReadFile implements driver.Tree.
func (t *DirTree) ReadFile(name string) ([]byte, error) {
	record, found := strings.CutPrefix(name, udevPrefix)
	if !found || t.udev == nil {
		return t.tree.ReadFile(name)
	}
	data, err := rootFiles{root: t.udev}.ReadFile(record)
	if p := new(fs.PathError); errors.As(err, &p) {
		p.Path = name
	}
	return data, err
}

func (t rootFiles) has(name string) bool {
	info, err := t.root.Stat(name)
	return err == nil && info.IsDir()
}

// Close gives the directory back; later calls on the tree fail with fs.ErrClosed.
func (t *DirTree) Close() error {
	err := errors.Join(t.files.fast.close(), t.files.root.Close())
	if t.udev != nil {
		err = errors.Join(err, t.udev.Close())
	}
	return err
}

// Overlaid lists the writes that only this tree knows of, oldest first, each as
// "name <- content". It is empty when writes go through.
func (t *DirTree) Overlaid() []string {
	if t.overlay == nil {
		return nil
	}
	return t.overlay.list()
}

// at returns what a call did on a valid name; its error names both.
func at[T any](op, name string, do func() (T, error)) (T, error) {
	var result T
	err := fs.ErrInvalid
	if fs.ValidPath(name) {
		result, err = do()
	}
	if err != nil { // the paths of the standard library may lie outside the tree's own naming
		err = &fs.PathError{Op: op, Path: name, Err: file.Cause(err)}
	}
	return result, err
}

func (t rootFiles) ReadFile(name string) ([]byte, error) {
	return at("read", name, func() ([]byte, error) {
		if data, supported, err := t.fast.readFile(name); supported {
			return data, err
		}
		f, err := t.open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, cmp.Or(err, ErrNotRegular)
		}
		data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err == nil && len(data) > maxFile {
			return nil, ErrTooLarge
		}
		return data, err
	})
}

// open never waits: a pipe in the tree without a writer would stop a plain open.
func (t rootFiles) open(name string) (*os.File, error) {
	return t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (t rootFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := at("readdir", name, func() ([]fs.DirEntry, error) {
		if entries, supported, err := t.fast.readDir(name); supported {
			return entries, err
		}
		f, err := t.open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.ReadDir(-1)
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

func (t rootFiles) Readlink(name string) (string, error) {
	return at("readlink", name, func() (string, error) {
		if target, supported, err := t.fast.readlink(name); supported {
			return target, err
		}
		return t.root.Readlink(name)
	})
}

func (t rootFiles) WriteFile(name string, data []byte) error {
	_, err := at("write", name, func() (int, error) {
		if err := t.checkWrite(name); err != nil {
			return 0, err
		}
		f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK, 0)
		if err != nil {
			return 0, err
		}
		n, err := f.Write(data)
		return n, cmp.Or(err, f.Close())
	})
	return err
}

// checkWrite refuses to write to anything but the files that make and remove mediated devices and
// vGPUs. A link in their place would lead to another file.
func (t rootFiles) checkWrite(name string) error {
	p, inType := splitType(name)
	_, isVGPU := vgpuFunctionOf(name)
	switch {
	case inType && p.rest == "create", isVGPU:
	case inType && strings.HasPrefix(p.rest, "devices/") && path.Base(name) == "remove" && strings.Count(p.rest, "/") == 2:
	case path.Base(name) == "remove" && path.Dir(path.Dir(name)) == dirMdevDevices:
	default:
		return fmt.Errorf("%w: not a file that makes or removes mediated devices or vGPUs", fs.ErrPermission)
	}
	info, err := t.root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	return err
}
