package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"weak"

	"github.com/gocyborg/gocyborg/driver"
)

// Memory is a sysfs tree in memory that reacts to writes as the kernel does: create and
// remove of mediated devices, the types of vGPUs, and sriov_numvfs. It is safe for concurrent use.
//
// Errors of the writes are those of Linux: EINVAL for a malformed value, EEXIST for an
// mdev uuid in use, ENOSPC when no instance of the type is available, ERANGE for more VFs
// than there are and EBUSY for a change from one number of VFs to another. A vGPU type is
// refused with EPERM for a function that has one, ENODEV for an unknown id, EINVAL for a size
// that the card does not have now, ENOSPC when it is full, and EIO in MIG mode without a GPU
// instance; it is cleared with EPERM while a guest has the function.
//
// A tree that nothing has changed is generated from its description when it is read, and takes no
// memory between the garbage collector's runs.
type Memory struct {
	mu        sync.RWMutex
	described *blueprint
	changed   *hardware // nil if it is as described
}

// blueprint is the description of any number of machines.
type blueprint struct {
	Description
	mu        sync.Mutex
	generated weak.Pointer[hardware] // that nothing has changed
}

// tree returns the tree as it is described, which is not to be changed.
func (b *blueprint) tree() *hardware {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.generated.Value(); h != nil {
		return h
	}
	h := b.newTree()
	b.generated = weak.Make(h)
	return h
}

func (b *blueprint) newTree() *hardware {
	h, err := generate(b.Description)
	if err != nil { // not after Generate, unless the description was changed
		h = newHardware()
	}
	return h
}

// current returns the tree. It expects the lock held.
func (m *Memory) current() *hardware {
	if m.changed != nil {
		return m.changed
	}
	return m.described.tree()
}

// change returns the tree to be changed, which is kept from now on. It expects the write lock held.
func (m *Memory) change() *hardware {
	if m.changed == nil {
		m.changed = m.described.newTree()
	}
	return m.changed
}

// isDescribed reports whether nothing has changed the tree.
func (m *Memory) isDescribed() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.changed == nil
}

// hardware is the tree and the state behind its files. Its methods expect the lock of the
// Memory held.
type hardware struct {
	root      *node
	functions map[driver.PCIAddress]*function
	mdevs     map[string]driver.Mdev     // by uuid
	reserved  map[driver.PCIAddress]bool // for VFs, present or not
	lastGroup int                        // the highest IOMMU group described
	parents   map[string]*mdevParent     // by name
	fpgas     map[int]bool               // numbers of class/fpga described
	ports     map[int]bool               // numbers of dfl-port described
	lastFPGA  int                        // the highest of those described
	numbers   map[string]int             // how many devices of a kind there are

	viewed sync.Once
	view   *driver.View // of what nothing changes
}

var _ driver.Tree = (*Memory)(nil)

// NewMemory returns the tree of a machine with an empty PCI bus.
func NewMemory() *Memory { return &Memory{described: new(blueprint)} }

// Twin returns the tree of another machine with the same description, as it is described. Trees that
// nothing has changed share their memory.
func (m *Memory) Twin() *Memory { return &Memory{described: m.described} }

func newHardware() *hardware {
	m := &hardware{
		root:      newDir(),
		functions: make(map[driver.PCIAddress]*function),
		mdevs:     make(map[string]driver.Mdev),
		reserved:  make(map[driver.PCIAddress]bool),
		lastGroup: -1,
		parents:   make(map[string]*mdevParent),
		fpgas:     make(map[int]bool),
		ports:     make(map[int]bool),
		lastFPGA:  -1,
		numbers:   make(map[string]int),
	}
	for _, dir := range []string{dirPCIDevices, dirPCIDrivers, dirMdevDevices, dirVFIO, dirMdevBus, "class/net", "devices"} {
		m.root.makeDir(dir)
	}
	return m
}

// ReadFile implements driver.Tree.
func (m *Memory) ReadFile(name string) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.current().readFile(name)
}

func (m *hardware) readFile(name string) ([]byte, error) {
	return at("read", name, func() ([]byte, error) {
		n, err := m.root.walk(name, true)
		switch {
		case err != nil:
			return nil, err
		case n.isDir():
			return nil, ErrNotRegular
		case n.hidden:
			return nil, fs.ErrPermission
		case n.refusal != nil:
			return nil, n.refusal
		case len(n.data) > maxFile:
			return nil, ErrTooLarge
		}
		return slices.Clone(n.data), nil
	})
}

// ReadDir implements driver.Tree.
func (m *Memory) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.current().readDir(name)
}

func (m *hardware) readDir(name string) ([]fs.DirEntry, error) {
	return at("readdir", name, func() ([]fs.DirEntry, error) {
		n, err := m.root.walk(name, true)
		switch {
		case err != nil:
			return nil, err
		case !n.isDir():
			return nil, syscall.ENOTDIR
		case n.hidden:
			return nil, fs.ErrPermission
		}
		return n.entries(), nil
	})
}

// Readlink implements driver.Tree.
func (m *Memory) Readlink(name string) (string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.current().readlink(name)
}

func (m *hardware) readlink(name string) (string, error) {
	return at("readlink", name, func() (string, error) {
		n, err := m.root.walk(name, false)
		if err == nil && !n.isLink() {
			err = fs.ErrInvalid
		}
		if err != nil {
			return "", err
		}
		return n.target, nil
	})
}

// DescribedView returns the view that all trees with one description have which nothing has changed,
// and nil for one that something has. A type that embeds a Memory and reads as it does returns it from its method View
// (see driver.NewView).
func (m *Memory) DescribedView() *driver.View {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.changed != nil {
		return nil
	}
	h := m.described.tree()
	h.viewed.Do(func() { h.view = driver.NewView(unchanged{h}) })
	return h.view
}

// unchanged is the tree of hardware that nothing changes.
type unchanged struct{ *hardware }

// ReadFile implements driver.Tree.
func (u unchanged) ReadFile(name string) ([]byte, error) { return u.readFile(name) }

// ReadDir implements driver.Tree.
func (u unchanged) ReadDir(name string) ([]fs.DirEntry, error) { return u.readDir(name) }

// Readlink implements driver.Tree.
func (u unchanged) Readlink(name string) (string, error) { return u.readlink(name) }

// WriteFile implements driver.Tree by refusing.
func (u unchanged) WriteFile(name string, _ []byte) error {
	return &fs.PathError{Op: "write", Path: name, Err: fs.ErrPermission}
}

// WriteFile implements driver.Tree. Files that the kernel would not let change refuse
// with fs.ErrPermission.
func (m *Memory) WriteFile(name string, data []byte) error {
	return m.changeNode("write", name, func(n *node) error {
		switch {
		case n.isDir():
			return ErrNotRegular
		case n.write == nil:
			return fs.ErrPermission
		}
		return n.write(data)
	})
}

// changeNode does something to the node of a name.
func (m *Memory) changeNode(op, name string, do func(*node) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := at(op, name, func() (*node, error) {
		n, err := m.change().root.walk(name, true)
		if err == nil {
			err = do(n)
		}
		return n, err
	})
	return err
}

// Mdevs returns the mediated devices present now, ordered by uuid.
func (m *Memory) Mdevs() []driver.Mdev {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.changed == nil {
		return sortedMdevs(nil) // none are described
	}
	return sortedMdevs(m.changed.mdevs)
}

// sortedMdevs lists devices by uuid; the list is never nil.
func sortedMdevs(byID map[string]driver.Mdev) []driver.Mdev {
	list := slices.AppendSeq([]driver.Mdev{}, maps.Values(byID))
	sortMdevs(list)
	return list
}

func sortMdevs(list []driver.Mdev) {
	slices.SortFunc(list, func(a, b driver.Mdev) int { return cmp.Compare(a.UUID, b.UUID) })
}

// Reboot does to the tree what a restart of the host does: it removes mediated devices and vGPUs,
// and restores the described functions of FPGA ports and the described number of VFs of each
// physical function.
func (m *Memory) Reboot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed != nil {
		m.changed.reboot()
	}
}

func (m *hardware) reboot() {
	for id := range m.mdevs {
		m.dropMdev(id)
	}
	for _, f := range m.sorted() {
		if f.fpga != nil {
			clear(f.loaded)
			m.placePorts(f)
		}
		if f.vfs != nil {
			m.setVFs(f, f.enabledAtStart)
		}
	}
}

// SetFile puts a plain file of the given content at a path, replacing what was there.
// Links in all but the last place are followed, directories made as needed. It is for
// building broken trees.
func (m *Memory) SetFile(path string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change().place(path, &node{data: slices.Clone(data)})
}

// SetLink puts a symbolic link at a path, like SetFile. The target must not be empty.
func (m *Memory) SetLink(path, target string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change().place(path, &node{target: target})
}

// place puts a node below the deepest directory of the path that is there.
func (m *hardware) place(path string, n *node) {
	for dir, rest := path, ""; ; {
		above, base, found := cutLast(dir)
		if rest = strings.TrimSuffix(base+"/"+rest, "/"); !found {
			m.root.put(rest, n)
			return
		}
		if parent, err := m.root.walk(above, true); err == nil && parent.isDir() {
			parent.put(rest, n)
			return
		}
		dir = above
	}
}

// Remove removes what is at a path, with all below it, like SetFile.
func (m *Memory) Remove(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change().root.remove(path)
}

// Deny makes reading the file or directory of a name fail with fs.ErrPermission. It returns an
// error if the name does not exist.
func (m *Memory) Deny(name string) error {
	return m.changeNode("deny", name, func(n *node) error {
		n.hidden = true
		return nil
	})
}

// LayOut writes the tree into a directory, which is made if need be, with links as links:
// what OpenDir reads back. Files that cannot be read, such as create and remove, become
// empty ones. Writes to the copy have no effects of a kernel.
func (m *Memory) LayOut(dir string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.current().root.layOut(dir); err != nil {
		return fmt.Errorf("sysfs: lay out: %w", err)
	}
	return nil
}

func (n *node) layOut(at string) error {
	switch {
	case n.isLink():
		return os.Symlink(n.target, at)
	case !n.isDir():
		return os.WriteFile(at, n.data, n.mode().Perm()|0o200)
	}
	if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for name, child := range n.children {
		if err := child.layOut(filepath.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}
