package bus

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// Generator makes synthetic trees. Successive hosts with the same hardware share the memory of
// theirs.
type Generator struct {
	mu   sync.Mutex
	of   sysfs.Description
	tree *sysfs.Memory // of the last host that is not the same as the one before
}

// Generate makes the tree of a host.
func (g *Generator) Generate(of sysfs.Description) (*sysfs.Memory, error) {
	g.mu.Lock()
	like := g.tree
	if like != nil && !reflect.DeepEqual(g.of, of) {
		like = nil
	}
	g.mu.Unlock()
	if like != nil {
		return like.Twin(), nil
	}
	tree, err := sysfs.Generate(of)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of, g.tree = of, tree
	return tree, nil
}

// Tree is a synthetic tree as drivers have it. It remembers which files they write: UUIDs in the
// names are UUID, so that it remembers each kind of file once.
type Tree struct {
	*sysfs.Memory
	Has   func(driver.PCIAddress) bool // a guest has a function; nil: not known
	mu    sync.Mutex
	names map[string]bool
}

// View makes drivers read hosts with the same hardware once, while nothing has changed it.
func (t *Tree) View() *driver.View { return t.DescribedView() }

// WriteFile implements driver.Tree. The vGPU of a running guest is not cleared.
func (t *Tree) WriteFile(name string, data []byte) error {
	if function, isVGPU := vgpuFunction(name); isVGPU && t.Has != nil {
		_ = t.HoldVGPU(function, t.Has(function)) // the write fails for the same reasons
	}
	t.remember(name)
	return t.Memory.WriteFile(name, data)
}

// vgpuFunction is the function whose file of a vGPU's type a name is.
func vgpuFunction(name string) (driver.PCIAddress, bool) {
	at, err := driver.ParsePCIAddress(path.Base(path.Dir(path.Dir(name))))
	return at, err == nil && driver.VGPUFile(at) == name
}

func (t *Tree) remember(name string) {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if uuid.Validate(part) == nil {
			parts[i] = "UUID"
		}
	}
	t.mu.Lock()
	if t.names == nil {
		t.names = make(map[string]bool)
	}
	t.names[strings.Join(parts, "/")] = true
	t.mu.Unlock()
}

// Written lists the files that were written.
func (t *Tree) Written() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.names))
}
