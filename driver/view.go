package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// View is a Tree that reads each file, directory and link of another at most once, and
// knows from a directory it has read what is not in it. It is made for one discovery, or kept
// by a tree while nothing changes that, so every discovery sees the tree as it is then. WriteFile is refused with
// fs.ErrPermission. What a view returns is shared and must not be changed.
type View struct {
	tree   Tree
	blocks func() (blocks, error)

	mu        sync.Mutex // protects the maps; each entry is read once, outside the lock
	files     map[string]*cell[[]byte]
	dirs      map[string]*cell[[]fs.DirEntry]
	links     map[string]*cell[string]
	states    map[PCIAddress]func() (PCIState, []Problem)
	listed    map[string][]fs.DirEntry // the directories that were read
	functions []PCIFunction            // nil: not read
	problems  []Problem                // with them
}

var _ Tree = (*View)(nil)

// NewView returns a view of a tree: the tree itself if it is one, and the view that a tree with a
// method View keeps while nothing changes it; that method returns nil when the tree has to be read.
func NewView(tree Tree) *View {
	if v, ok := tree.(*View); ok {
		return v
	}
	if keeper, ok := tree.(interface{ View() *View }); ok {
		if v := keeper.View(); v != nil {
			return v
		}
	}
	v := &View{
		tree: tree, files: make(map[string]*cell[[]byte]), dirs: make(map[string]*cell[[]fs.DirEntry]),
		links: make(map[string]*cell[string]), states: make(map[PCIAddress]func() (PCIState, []Problem)),
		listed: make(map[string][]fs.DirEntry),
	}
	v.blocks = sync.OnceValues(func() (blocks, error) { return readBlocks(v) })
	return v
}

// cell caches the result for a name.
type cell[T any] struct {
	read  sync.Once
	value T
	err   error
}

// once reads a name through one of the view's maps.
func once[T any](v *View, op string, known map[string]*cell[T], read func(string) (T, error), name string) (T, error) {
	v.mu.Lock()
	c, ok := known[name]
	if !ok && !v.absent(name) {
		c = new(cell[T])
		known[name] = c
	}
	v.mu.Unlock()
	if c == nil {
		var none T
		return none, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	c.read.Do(func() { c.value, c.err = read(name) })
	return c.value, c.err
}

// absent reports whether the directory of a name was read and does not have it. It expects
// the lock held.
func (v *View) absent(name string) bool {
	entries, ok := v.listed[path.Dir(name)]
	if !ok {
		return false
	}
	_, found := slices.BinarySearchFunc(entries, path.Base(name), func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	return !found
}

// ReadFile implements Tree.
func (v *View) ReadFile(name string) ([]byte, error) {
	return once(v, "open", v.files, v.tree.ReadFile, name)
}

// ReadDir implements Tree.
func (v *View) ReadDir(name string) ([]fs.DirEntry, error) {
	return once(v, "open", v.dirs, v.readDir, name)
}

func (v *View) readDir(name string) ([]fs.DirEntry, error) {
	entries, err := v.tree.ReadDir(name)
	if err == nil && slices.IsSortedFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
		v.mu.Lock()
		v.listed[name] = entries
		v.mu.Unlock()
	}
	return entries, err
}

// Readlink implements Tree.
func (v *View) Readlink(name string) (string, error) {
	return once(v, "readlink", v.links, v.tree.Readlink, name)
}

// WriteFile implements Tree by refusing.
func (v *View) WriteFile(name string, _ []byte) error {
	return &fs.PathError{Op: "write", Path: name, Err: fs.ErrPermission}
}

// ReadText returns the content of a file without leading and trailing white space. An empty file
// is an error, ErrGarbled. Errors do not contain the path, since a Problem names it.
func (v *View) ReadText(path string) (string, error) {
	data, err := v.ReadFile(path)
	if err != nil {
		return "", file.Cause(err)
	}
	text := string(bytes.TrimSpace(data))
	if text == "" {
		return "", fmt.Errorf("%w: the file is empty", ErrGarbled)
	}
	return text, nil
}

// Names lists a directory; a missing directory is empty. Errors do not contain the path.
func (v *View) Names(dir string) ([]string, error) {
	entries, err := v.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, file.Cause(err)
}

// LinkedFunction returns the address of the PCI function that a link leads to, such as
// class/net/eth0/device. The error wraps ErrPCIAddress if it is not a PCI function. Errors do not
// contain the path.
func (v *View) LinkedFunction(link string) (PCIAddress, error) {
	target, err := v.Readlink(link)
	if err != nil {
		return PCIAddress{}, file.Cause(err)
	}
	return ParsePCIAddress(path.Base(target))
}

// ReadCount reads a decimal number from 0 to limit. A number outside is ErrGarbled.
func (v *View) ReadCount(path string, limit int) (int, error) {
	text, err := v.ReadText(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, garbled(text)
	}
	if n < 0 || n > limit {
		return 0, fmt.Errorf("%w: %d is not within 0 to %d", ErrGarbled, n, limit)
	}
	return n, nil
}

// PCIFunctions lists the functions of the tree in the order of addresses. Entries with an invalid
// address and functions whose identity cannot be read become problems. The error is the error of
// ctx, or of an unreadable bus.
func (v *View) PCIFunctions(ctx context.Context) ([]PCIFunction, []Problem, error) {
	v.mu.Lock()
	functions, problems := v.functions, v.problems
	v.mu.Unlock()
	if functions == nil {
		var err error
		if functions, problems, err = v.readFunctions(ctx); err != nil {
			return nil, nil, err
		}
		v.mu.Lock()
		v.functions, v.problems = functions, problems
		v.mu.Unlock()
	}
	return slices.Clone(functions), slices.Clone(problems), ctx.Err()
}

// PCIState reads the directory of a function. Only files that are there are read, since
// captured trees, old kernels and functions without a feature lack most of them. A file
// that cannot be read or parsed becomes a problem; drivers do not offer a function with a
// problem, because its use is not known.
func (v *View) PCIState(f PCIFunction) (PCIState, []Problem) {
	v.mu.Lock()
	state, ok := v.states[f.Address]
	if !ok {
		state = sync.OnceValues(func() (PCIState, []Problem) { return v.readState(f) })
		v.states[f.Address] = state
	}
	v.mu.Unlock()
	s, problems := state()
	return s, slices.Clone(problems)
}
