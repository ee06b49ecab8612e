package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// LayOut writes the tree into a directory, which is made if need be, with links as links:
// what OpenDir reads back. Files that cannot be read, such as create and remove, become
// empty ones. Writes to the copy have no effects of a kernel.
func (m *Memory) LayOut(dir string) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.root.layOut(dir); err != nil {
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
