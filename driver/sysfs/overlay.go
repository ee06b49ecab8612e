package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// errReadOnly is the cause of a refused write to a tree opened for reading, if the overlay does
// not support it.
var errReadOnly = fmt.Errorf("%w: the tree is open for reading only", fs.ErrPermission)

// overlay remembers the mediated devices made and removed over a tree that is only read, and
// the types of vGPUs, and shows them to later reads where the kernel would. The types for which
// a card has room stay as they are.
type overlay struct {
	base driver.Tree

	mu      sync.RWMutex
	made    map[string]driver.Mdev // by uuid
	removed map[string]driver.Mdev // present in base and removed since
	vgpus   map[string]int         // types, by the names of their files
	log     []string
}

func newOverlay(base driver.Tree) *overlay {
	return &overlay{base: base, made: make(map[string]driver.Mdev), removed: make(map[string]driver.Mdev), vgpus: make(map[string]int)}
}

// typePath is a name inside the directory of one mdev type. The last part of the path to
// the device is its own name by every way that leads there.
type typePath struct {
	parent, typ string
	rest        string // "create", "devices/<uuid>/remove"
}

func splitType(name string) (typePath, bool) {
	if !strings.Contains(name, mdevTypes) { // most names, and each is asked for
		return typePath{}, false
	}
	parts := strings.Split(name, "/")
	i := slices.Index(parts, mdevTypes)
	if i < 1 || len(parts) < i+2 {
		return typePath{}, false
	}
	return typePath{parts[i-1], parts[i+1], strings.Join(parts[i+2:], "/")}, true
}

func (o *overlay) list() []string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Clone(o.log)
}

func (o *overlay) ReadFile(name string) ([]byte, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.readFile(name)
}

// readFile expects the lock held.
func (o *overlay) readFile(name string) ([]byte, error) {
	if o.hides(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if id, written := o.vgpus[name]; written {
		return []byte(line(id)), nil
	}
	data, err := o.base.ReadFile(name)
	p, ok := splitType(name)
	if err != nil || !ok || p.rest != "available_instances" {
		return data, err
	}
	n, convErr := strconv.Atoi(strings.TrimSpace(string(data)))
	if convErr != nil {
		return data, nil // garbled below, garbled above
	}
	return []byte(line(o.left(p, n))), nil
}

// left counts the instances of a type when the tree below says n. One mdev made leaves
// no room for other types on its device, as on NVIDIA cards.
func (o *overlay) left(p typePath, n int) int {
	for _, m := range o.made {
		switch {
		case m.Parent != p.parent:
		case m.Type == p.typ:
			n--
		default:
			return 0
		}
	}
	for _, m := range o.removed {
		if m.Parent == p.parent && m.Type == p.typ {
			n++
		}
	}
	return max(n, 0)
}

// hides says whether a name lies at or below a device removed.
func (o *overlay) hides(name string) bool {
	if len(o.removed) == 0 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		_, gone := o.removed[part]
		if _, again := o.made[part]; gone && !again {
			return true
		}
	}
	return false
}

func (o *overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.hides(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	entries, err := o.base.ReadDir(name)
	added := o.added(name)
	if err != nil && (len(added) == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return entries, err
	}
	if len(added)+len(o.removed) == 0 {
		return entries, nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		_, gone := o.removed[e.Name()]
		return gone
	})
	entries = append(entries, added...)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// added returns the entries of created devices in a directory: a link in the directories of their
// type and of the bus, a directory in the directory of their parent.
func (o *overlay) added(name string) []fs.DirEntry {
	if len(o.made) == 0 {
		return nil
	}
	p, inType := splitType(name)
	var list []fs.DirEntry
	for id, m := range o.made {
		switch {
		case name == dirMdevDevices, inType && p == typePath{m.Parent, m.Type, "devices"}:
			list = append(list, entry{name: id, mode: fs.ModeSymlink | 0o777})
		case path.Base(name) == m.Parent:
			list = append(list, entry{name: id, mode: fs.ModeDir | 0o755})
		}
	}
	return list
}

func (o *overlay) Readlink(name string) (string, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.hides(name) {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrNotExist}
	}
	m, made := o.made[path.Base(name)]
	if !made {
		return o.base.Readlink(name)
	}
	if p, ok := splitType(name); ok && p == (typePath{m.Parent, m.Type, "devices/" + m.UUID}) {
		return "../../../" + m.UUID, nil
	}
	if path.Dir(name) != dirMdevDevices {
		return o.base.Readlink(name)
	}
	target, err := o.base.Readlink(dirMdevBus + "/" + m.Parent)
	if err != nil {
		return "", err
	}
	return relative(dirMdevDevices, path.Join(dirMdevBus, target, m.UUID)), nil
}

// WriteFile records the making or removing of a mediated device and refuses other writes.
func (o *overlay) WriteFile(name string, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.write(name, strings.TrimSpace(string(data)))
	if err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: file.Cause(err)}
	}
	o.log = append(o.log, name+" <- "+strings.TrimSpace(string(data)))
	return nil
}

func (o *overlay) write(name, text string) error {
	if !fs.ValidPath(name) {
		return fs.ErrInvalid
	}
	if p, ok := splitType(name); ok && p.rest == "create" {
		return o.create(path.Dir(name), p, strings.ToLower(text))
	}
	if function, ok := vgpuFunctionOf(name); ok {
		return o.setVGPU(name, function, text)
	}
	if path.Base(name) != "remove" {
		return errReadOnly
	}
	m, err := o.find(path.Dir(name))
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(text, 0, 64); err != nil {
		return syscall.EINVAL
	} else if n != 0 {
		o.drop(m)
	}
	return nil
}

func (o *overlay) create(dir string, p typePath, id string) error {
	m := driver.Mdev{UUID: id, Parent: p.parent, Type: p.typ}
	if m.Validate() != nil {
		return syscall.EINVAL
	}
	if o.exists(dir, id) {
		return syscall.EEXIST
	}
	data, err := o.readFile(dir + "/available_instances")
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err != nil || n < 1 {
		return syscall.ENOSPC
	}
	if o.removed[id] == m {
		delete(o.removed, id) // as it was in the tree below
		return nil
	}
	o.made[id] = m
	return nil
}

// exists expects the directory of a type, and the uuid of a device.
func (o *overlay) exists(typeDir, id string) bool {
	if _, made := o.made[id]; made {
		return true
	}
	if _, gone := o.removed[id]; gone {
		return false
	}
	for _, name := range []string{dirMdevDevices + "/" + id, typeDir + "/devices/" + id} {
		if _, err := o.base.Readlink(name); err == nil {
			return true
		}
	}
	return false
}

// find returns the device at a name below a type's devices, or on the bus.
func (o *overlay) find(name string) (driver.Mdev, error) {
	id := path.Base(name)
	if o.hides(id) {
		return driver.Mdev{}, fs.ErrNotExist
	}
	p, inType := splitType(name)
	if m, made := o.made[id]; made {
		if inType && p != (typePath{m.Parent, m.Type, "devices/" + id}) {
			return driver.Mdev{}, fs.ErrNotExist
		}
		return m, nil
	}
	if (driver.Mdev{UUID: id, Parent: "-", Type: "-"}).Validate() != nil {
		return driver.Mdev{}, errReadOnly
	}
	if inType && p.rest == "devices/"+id {
		_, err := o.base.ReadDir(name)
		return driver.Mdev{UUID: id, Parent: p.parent, Type: p.typ}, err
	}
	if path.Dir(name) != dirMdevDevices {
		return driver.Mdev{}, errReadOnly
	}
	target, err := o.base.Readlink(name)
	if err != nil {
		return driver.Mdev{}, err
	}
	typ, err := o.base.Readlink(name + "/mdev_type")
	return driver.Mdev{UUID: id, Parent: path.Base(path.Dir(target)), Type: path.Base(typ)}, err
}

func (o *overlay) drop(m driver.Mdev) {
	if _, made := o.made[m.UUID]; made {
		delete(o.made, m.UUID)
		return
	}
	o.removed[m.UUID] = m
}
