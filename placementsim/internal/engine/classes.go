package engine

import (
	"maps"
	"slices"
	"time"
)

// StandardClasses lists the resource classes that every service has, in the
// order of their ids.
func StandardClasses() []string {
	return []string{
		"VCPU", "MEMORY_MB", "DISK_GB", "PCI_DEVICE", "SRIOV_NET_VF",
		"NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD", "NUMA_MEMORY_MB",
		"IPV4_ADDRESS", "VGPU", "VGPU_DISPLAY_HEAD",
		"NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC",
		"PCPU", "MEM_ENCRYPTION_CONTEXT", "FPGA", "PGPU",
		"NET_PACKET_RATE_KILOPACKET_PER_SEC",
		"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
		"NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
	}
}

// class is a resource class.
type class struct {
	name             string
	id               int // listing order, never used again
	standard         bool
	created, updated time.Time
	inventories      int       // how many inventories there are of it
	room             roomIndex // greatest room per tree
	// kinds is the same of the providers with exactly these traits: most
	// providers of a cloud carry one of a few sets.
	kinds map[*traitSet]*roomIndex
}

// kind returns the index of the providers with exactly these traits.
func (c *class) kind(traits *traitSet) *roomIndex {
	if c.kinds == nil {
		c.kinds = make(map[*traitSet]*roomIndex)
	}
	index := c.kinds[traits]
	if index == nil {
		index = new(roomIndex)
		c.kinds[traits] = index
	}
	return index
}

type classTable struct {
	byName map[string]*class
	nextID int
}

func newClassTable(now time.Time) classTable {
	t := classTable{byName: make(map[string]*class)}
	for _, name := range StandardClasses() {
		t.add(name, now).standard = true
	}
	return t
}

func (t *classTable) add(name string, now time.Time) *class {
	c := &class{name: name, id: t.nextID, created: now}
	t.nextID++
	t.byName[name] = c
	return c
}

// lookup returns the class or an ErrUnknownClass.
func (t *classTable) lookup(name string) (*class, error) {
	if c := t.byName[name]; c != nil {
		return c, nil
	}
	return nil, &Error{Kind: ErrUnknownClass, Text: "No such resource class " + name + ".", Names: []string{name}}
}

// Class is a resource class.
type Class struct {
	Name    string
	Changed time.Time // when it was renamed, else created
}

func (c *class) view() Class {
	if c.updated.IsZero() {
		return Class{c.name, c.created}
	}
	return Class{c.name, c.updated}
}

// Classes lists the resource classes, the standard ones first and the others
// in creation order.
func (s *State) Classes() []Class {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sorted := slices.SortedFunc(maps.Values(s.classes.byName), func(a, b *class) int { return a.id - b.id })
	views := make([]Class, 0, len(sorted))
	for _, c := range sorted {
		views = append(views, c.view())
	}
	return views
}

// Class returns one resource class, or an error that matches [ErrNotFound].
func (s *State) Class(name string) (Class, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.classes.byName[name]
	if c == nil {
		return Class{}, refuse(ErrNotFound, "No such resource class %s.", name)
	}
	return c.view(), nil
}

// EnsureClass adds a custom resource class unless it exists, and reports
// whether it did.
func (s *State) EnsureClass(name string, now time.Time) (created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.classes.byName[name] != nil {
		return false
	}
	defer watch(s, (*State).addNameRows, name)()
	s.classes.add(name, now)
	return true
}

// RenameClass gives a custom resource class another name. The error matches
// [ErrNotFound], [ErrInvalid] for a standard class, or [ErrConflict] if the new name exists.
func (s *State) RenameClass(from, to string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classes.byName[from]
	switch {
	case c == nil:
		return refuse(ErrNotFound, "No such resource class %s.", from)
	case c.standard:
		return refuse(ErrInvalid, "Cannot update standard resource class %s", from)
	case s.classes.byName[to] != nil && to != from:
		return refuse(ErrConflict, "Resource class already exists: %s", to)
	}
	defer watch(s, (*State).addClassRows, c)()
	delete(s.classes.byName, from)
	c.name, c.updated = to, now
	s.classes.byName[to] = c
	return nil
}

// DeleteClass removes a custom resource class. The error matches
// [ErrNotFound], [ErrInvalid] for a standard class, or [ErrConflict] when there
// is an inventory of it.
func (s *State) DeleteClass(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classes.byName[name]
	switch {
	case c == nil:
		return refuse(ErrNotFound, "No such resource class %s.", name)
	case c.standard:
		return refuse(ErrInvalid, "Error in delete resource class: Cannot delete standard resource class %s.", name)
	case c.inventories > 0:
		return refuse(ErrConflict, "Error in delete resource class: Cannot delete resource class %s. Class is in use in inventory.", name)
	}
	defer watch(s, (*State).addNameRows, name)()
	delete(s.classes.byName, name)
	return nil
}
