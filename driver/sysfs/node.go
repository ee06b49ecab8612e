package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Errors to compare with errors.Is. Both trees wrap the first three, for which the standard
// library has no value, in an *fs.PathError.
var (
	// ErrEscapes: a link leads out of the tree.
	ErrEscapes = fmt.Errorf("%w: link leads out of the tree", fs.ErrInvalid)
	// ErrTooLarge: the file is larger than any attribute of sysfs.
	ErrTooLarge = errors.New("file too large for sysfs")
	// ErrNotRegular: the name is a directory, a pipe, a socket or a device file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrDescription is the cause of every error about a description of hardware.
	ErrDescription = errors.New("sysfs: bad description")
	// ErrNoPort: no FPGA of the tree has the port.
	ErrNoPort = errors.New("sysfs: no such FPGA port")
)

// maxFile is the size of the largest file that is read, in bytes. An attribute of sysfs
// is at most one page, which is 64 KiB on some machines.
const maxFile = 64 << 10

const maxLinks = 40 // as many as Linux follows in one name

// node is one directory, file or symbolic link of a tree in memory.
type node struct {
	children map[string]*node // of a directory
	target   string           // of a symbolic link
	data     []byte           // of a file
	hidden   bool             // reading is refused
	refusal  error            // of reading
	write    func(data []byte) error
}

func newDir() *node { return &node{children: make(map[string]*node)} }

func (n *node) isDir() bool  { return n.children != nil }
func (n *node) isLink() bool { return n.target != "" }

func (n *node) mode() fs.FileMode {
	switch {
	case n.isDir():
		return fs.ModeDir | 0o755
	case n.isLink():
		return fs.ModeSymlink | 0o777
	case n.hidden:
		return 0o200
	case n.write != nil:
		return 0o644
	}
	return 0o444
}

// walk finds the node of a name. A link in the last place is followed when follow is
// set; links in other places always are.
func (n *node) walk(name string, follow bool) (*node, error) {
	var room [16]*node
	path := append(room[:0], n)
	rest, links := name, 0
	for more := true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			if len(path) == 1 {
				return nil, ErrEscapes
			}
			path = path[:len(path)-1]
			continue
		}
		child, err := path[len(path)-1].child(part)
		if err != nil {
			return nil, err
		}
		if !child.isLink() || !more && !follow {
			path = append(path, child)
			continue
		}
		if links++; links > maxLinks {
			return nil, syscall.ELOOP
		}
		if strings.HasPrefix(child.target, "/") {
			return nil, ErrEscapes
		}
		if more {
			rest = child.target + "/" + rest
		} else {
			rest, more = child.target, true
		}
	}
	return path[len(path)-1], nil
}

func (n *node) child(name string) (*node, error) {
	if !n.isDir() {
		return nil, syscall.ENOTDIR
	}
	child, ok := n.children[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return child, nil
}

// makeDir returns the directory of a path without links, made where it is missing.
func (n *node) makeDir(path string) *node {
	for part := range strings.SplitSeq(path, "/") {
		child := n.children[part]
		if child == nil || !child.isDir() {
			child = newDir()
			n.children[part] = child
		}
		n = child
	}
	return n
}

// put places a node at a path without links; the directories above are made.
func (n *node) put(path string, child *node) {
	dir, base, found := cutLast(path)
	if found {
		n = n.makeDir(dir)
	}
	n.children[base] = child
}

// remove removes what is at a path without links, if anything is.
func (n *node) remove(path string) {
	dir, base, found := cutLast(path)
	if found {
		var err error
		if n, err = n.walk(dir, true); err != nil || !n.isDir() {
			return
		}
	}
	delete(n.children, base)
}

func cutLast(path string) (dir, base string, found bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// entries lists a directory in the order of names.
func (n *node) entries() []fs.DirEntry {
	list := make([]fs.DirEntry, 0, len(n.children))
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		list = append(list, entry{name, n.children[name].mode(), len(n.children[name].data)})
	}
	return list
}

// entry is both fs.DirEntry and fs.FileInfo.
type entry struct {
	name string
	mode fs.FileMode
	size int
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) Size() int64                { return int64(e.size) }
func (e entry) Mode() fs.FileMode          { return e.mode }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }

// relative returns the shortest link text from the directory dir to target, both paths
// from the root of the tree. The kernel writes its links like that.
func relative(dir, target string) string {
	from, to := strings.Split(dir, "/"), strings.Split(target, "/")
	for len(from) > 0 && len(to) > 1 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	return strings.Repeat("../", len(from)) + strings.Join(to, "/")
}
