package driver

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// NewView returns a Tree that reads each file, directory and link of another at most
// once, and knows from a directory it has read what is not in it. It is made for one
// discovery and thrown away, so every discovery sees the tree as it is then. WriteFile is
// refused with fs.ErrPermission. A view of a view is the view itself. What a view returns
// is shared and must not be changed.
func NewView(tree Tree) Tree {
	if v, ok := tree.(*view); ok {
		return v
	}
	return &view{
		tree: tree, files: make(map[string]*content), dirs: make(map[string]*listing), links: make(map[string]*link),
		states: make(map[PCIAddress]*stateResult),
	}
}

// view caches. Its lock protects the maps; each entry is read once, outside the lock, so
// that several functions can be read in parallel.
type view struct {
	tree Tree

	mu        sync.Mutex
	files     map[string]*content
	dirs      map[string]*listing
	links     map[string]*link
	states    map[PCIAddress]*stateResult
	functions *functionsResult

	blocksOnce sync.Once
	blocks     blocks
}

type content struct {
	once sync.Once
	data []byte
	err  error
}

type listing struct {
	once    sync.Once
	done    bool // under the view's lock
	entries []fs.DirEntry
	sorted  bool // as they should be
	err     error
}

// has reports whether the directory has a name.
func (l *listing) has(name string) bool {
	if !l.sorted {
		return slices.ContainsFunc(l.entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	_, found := slices.BinarySearchFunc(l.entries, name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	return found
}

type link struct {
	once   sync.Once
	target string
	err    error
}

type functionsResult struct {
	list     []PCIFunction
	problems []Problem
}

type stateResult struct {
	once     sync.Once
	state    PCIState
	problems []Problem
}

// entryOf returns the entry of a key in one of the view's maps. Absent is set when the
// directory of the name was read and does not have it.
func entryOf[T any](v *view, entries map[string]*T, name string) (entry *T, absent bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if entry, ok := entries[name]; ok {
		return entry, false
	}
	if l, ok := v.dirs[path.Dir(name)]; ok && l.done && l.err == nil && !l.has(path.Base(name)) {
		return nil, true
	}
	entry = new(T)
	entries[name] = entry
	return entry, false
}

func notThere(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// ReadFile implements Tree.
func (v *view) ReadFile(name string) ([]byte, error) {
	c, absent := entryOf(v, v.files, name)
	if absent {
		return nil, notThere("open", name)
	}
	c.once.Do(func() { c.data, c.err = v.tree.ReadFile(name) })
	return c.data, c.err
}

// ReadDir implements Tree.
func (v *view) ReadDir(name string) ([]fs.DirEntry, error) {
	l, absent := entryOf(v, v.dirs, name)
	if absent {
		return nil, notThere("open", name)
	}
	l.once.Do(func() {
		l.entries, l.err = v.tree.ReadDir(name)
		l.sorted = slices.IsSortedFunc(l.entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		v.mu.Lock()
		l.done = true
		v.mu.Unlock()
	})
	return l.entries, l.err
}

// Readlink implements Tree.
func (v *view) Readlink(name string) (string, error) {
	l, absent := entryOf(v, v.links, name)
	if absent {
		return "", notThere("readlink", name)
	}
	l.once.Do(func() { l.target, l.err = v.tree.Readlink(name) })
	return l.target, l.err
}

// WriteFile implements Tree by refusing.
func (v *view) WriteFile(name string, _ []byte) error {
	return &fs.PathError{Op: "write", Path: name, Err: fs.ErrPermission}
}

// pciFunctions is PCIFunctions done once.
func (v *view) pciFunctions(ctx context.Context) ([]PCIFunction, []Problem, error) {
	v.mu.Lock()
	known := v.functions
	v.mu.Unlock()
	if known == nil {
		list, problems, err := pciFunctions(ctx, v)
		if err != nil {
			return nil, nil, err
		}
		known = &functionsResult{list, problems}
		v.mu.Lock()
		v.functions = known
		v.mu.Unlock()
	}
	return slices.Clone(known.list), slices.Clone(known.problems), ctx.Err()
}

// state is ReadPCIState done once per function.
func (v *view) state(f PCIFunction) (PCIState, []Problem) {
	v.mu.Lock()
	s, ok := v.states[f.Address]
	if !ok {
		s = new(stateResult)
		v.states[f.Address] = s
	}
	v.mu.Unlock()
	s.once.Do(func() {
		v.blocksOnce.Do(func() { v.blocks = readBlocks(v) })
		s.state, s.problems = readPCIState(v, f, v.blocks)
	})
	return s.state, slices.Clone(s.problems)
}
