package spawn

import (
	"math"
	"sync"
	"time"
)

// tracker counts who uses what, and knows which creates are under way.
type tracker struct {
	mu      sync.Mutex
	users   map[string]int
	last    int          // the ticket of the newest create
	creates map[int]bool // tickets of the creates under way

	searches int             // for the ARQs of lost creates
	left     map[string]bool // by their last user, during the searches
}

func (t *tracker) add(uuids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users == nil {
		t.users = make(map[string]int)
	}
	for _, uuid := range uuids {
		t.users[uuid]++
	}
}

func (t *tracker) remove(uuids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, uuid := range uuids {
		if t.users[uuid] > 1 {
			t.users[uuid]--
			continue
		}
		delete(t.users, uuid)
		if t.searches > 0 {
			t.left[uuid] = true
		}
	}
}

func (t *tracker) has(uuid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users[uuid] > 0
}

// beginCreate returns the ticket of a create. Its ARQs are to be added before
// endCreate.
func (t *tracker) beginCreate() (ticket int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.creates == nil {
		t.creates = make(map[int]bool)
	}
	t.last++
	t.creates[t.last] = true
	return t.last
}

func (t *tracker) endCreate(ticket int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.creates, ticket)
}

// beginSearch begins to remember whose ARQs are given back: a list that is read meanwhile may
// still have them.
func (t *tracker) beginSearch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.searches++; t.left == nil {
		t.left = make(map[string]bool)
	}
}

func (t *tracker) endSearch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.searches--; t.searches == 0 {
		t.left = nil
	}
}

// newestCreate returns the ticket of the newest create.
func (t *tracker) newestCreate() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// adopt adds an ARQ that nobody uses, nor has used during the search, unless a create that
// began up to a ticket is still under way: the ARQ may be that one's.
func (t *tracker) adopt(uuid string, ticket int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := math.MaxInt
	for underWay := range t.creates {
		oldest = min(oldest, underWay)
	}
	if oldest <= ticket || t.users[uuid] > 0 || t.left[uuid] {
		return false
	}
	if t.users == nil {
		t.users = make(map[string]int)
	}
	t.users[uuid] = 1
	return true
}

const (
	deletedLifetime = 10 * time.Minute
	maxDeleted      = 4096
)

// deletedARQs remembers the ARQs that were deleted in the last minutes: a replica of Cyborg's database
// that lags behind still lists them, so that they would be taken for those of others.
type deletedARQs struct {
	mu     sync.Mutex
	since  map[string]time.Time
	oldest []string // in the order of their deletion
}

func (d *deletedARQs) add(uuids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil {
		d.since = make(map[string]time.Time)
	}
	for _, uuid := range uuids {
		if _, known := d.since[uuid]; !known {
			d.since[uuid] = time.Now()
			d.oldest = append(d.oldest, uuid)
		}
	}
	for len(d.oldest) > maxDeleted || len(d.oldest) > 0 && time.Since(d.since[d.oldest[0]]) >= deletedLifetime {
		delete(d.since, d.oldest[0])
		d.oldest = d.oldest[1:]
	}
}

func (d *deletedARQs) has(uuid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.since[uuid]
	return known && time.Since(since) < deletedLifetime
}
