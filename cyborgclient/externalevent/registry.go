package externalevent

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// Registry holds the expected events by instance, name and tag, and delivers each
// event that arrives to its waiters. It is safe for concurrent use. The zero value
// is not usable; see [NewRegistry].
type Registry struct {
	log   *slog.Logger
	forms []Form // besides the shipped one; never changes

	mu        sync.Mutex
	closed    bool
	instances map[string]map[key]*expected
}

// expected is an event in the registry. It is received once: removing it from the
// registry comes before setting its status and closing done.
type expected struct {
	waiters int    // open waiters; guarded by the registry's mutex
	profile string // device profile of the request; empty: unknown
	done    chan struct{}
	status  Status // valid once done is closed
}

// RegistryOption is an option of [NewRegistry].
type RegistryOption func(*Registry)

// WithLogger logs dropped events to log. Without it nothing is logged.
func WithLogger(log *slog.Logger) RegistryOption {
	return func(r *Registry) { r.log = log }
}

// NewRegistry makes an empty registry.
func NewRegistry(opts ...RegistryOption) *Registry {
	r := &Registry{log: slog.New(slog.DiscardHandler), instances: map[string]map[key]*expected{}}
	for _, o := range opts {
		o(r)
	}
	return r
}

// Prepare registers the [ARQBound] events of an instance with the given tags (the
// UUIDs of its accelerator requests) and returns their waiter. Call it before the
// request that causes the events: an event that is not expected is dropped.
// Duplicate tags are ignored; without tags [Waiter.Wait] returns at once.
//
// Two waiters may expect the same event; both receive it. The caller closes the
// waiter in every case.
//
// It returns [ErrClosed] after [Registry.Close], with Nova's words, and
// [ErrInvalid] for an empty instance or tag; then nothing is registered.
func (r *Registry) Prepare(instance string, tags ...string) (*Waiter, error) {
	events := make([]Expected, len(tags))
	for i, tag := range tags {
		events[i].ARQ = tag
	}
	return r.PrepareExpected(instance, events...)
}

// Expected identifies the event of an accelerator request.
type Expected struct {
	// ARQ is the UUID of the accelerator request.
	ARQ string
	// DeviceProfile is the name of its device profile. [FormUssuri] events of other
	// profiles are ignored; empty accepts those of any profile.
	DeviceProfile string
}

// PrepareExpected is [Registry.Prepare] with the device profile of each request. It
// is needed only for [FormUssuri] and instances with requests of several profiles.
func (r *Registry) PrepareExpected(instance string, events ...Expected) (*Waiter, error) {
	if err := checkNames(instance, events); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("externalevent: prepare for instance %s: %w: In shutdown, no new events can be scheduled", instance, ErrClosed)
	}
	w := &Waiter{registry: r, instance: instance, closed: make(chan struct{})}
	for _, e := range events {
		k := keyOf(ARQBound, e.ARQ)
		if w.find(k) == nil {
			w.events = append(w.events, &awaited{key: k, tag: e.ARQ, expected: r.expect(instance, k, e.DeviceProfile), early: make(chan struct{}), state: StateExpected})
		}
	}
	return w, nil
}

func checkNames(instance string, events []Expected) error {
	if instance == "" {
		return fmt.Errorf("externalevent: prepare: %w: no instance", ErrInvalid)
	}
	for i, e := range events {
		if e.ARQ == "" {
			return fmt.Errorf("externalevent: prepare for instance %s: %w: tag %d is empty", instance, ErrInvalid, i+1)
		}
	}
	return nil
}

// expect returns the expected event of a key for one more waiter and creates it if
// necessary. The mutex is held.
func (r *Registry) expect(instance string, k key, profile string) *expected {
	id := strings.ToLower(instance)
	events := r.instances[id]
	if events == nil {
		events = map[key]*expected{}
		r.instances[id] = events
	}
	if events[k] == nil {
		events[k] = &expected{done: make(chan struct{}), profile: profile}
	}
	events[k].waiters++
	return events[k]
}

// release removes one waiter from each event and forgets events without waiters.
// An event received or cleared meanwhile is no longer in the registry; its key may
// belong to a later event, which stays.
func (r *Registry) release(instance string, events []*awaited) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.ToLower(instance)
	for _, a := range events {
		a.expected.waiters--
		if a.expected.waiters == 0 && r.instances[id][a.key] == a.expected {
			r.forget(id, a.key)
		}
	}
}

// forget removes one key. The mutex is held.
func (r *Registry) forget(id string, k key) {
	delete(r.instances[id], k)
	if len(r.instances[id]) == 0 {
		delete(r.instances, id)
	}
}

// Deliver passes an event to its waiters and reports whether there were any. An
// event is received once: a duplicate, an unknown name and an event that is not
// expected are dropped with a warning. It never blocks.
//
// An event of a form that [WithForms] accepts is converted: that of Train to the
// event of its request, that of Ussuri to those of all requests of the device
// profile in its tag.
func (r *Registry) Deliver(e Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.ToLower(e.ServerUUID)
	var keys []key
	status := e.Status
	switch {
	case !r.accepts(e.Name):
		keys = []key{keyOf(e.Name, e.Tag)}
	case e.Name == ARQsBound:
		keys = r.ofProfile(id, e.Tag)
	default:
		keys = []key{keyOf(ARQBound, e.Tag)}
		if status == StatusOK {
			status = StatusCompleted
		}
	}
	delivered := false
	for _, k := range keys {
		if x := r.instances[id][k]; x != nil {
			r.forget(id, k)
			x.receive(status)
			delivered = true
		}
	}
	if !delivered {
		r.log.Warn("unexpected event", "event", e.Name+"-"+e.Tag, "instance", e.ServerUUID, "status", string(e.Status))
	}
	return delivered
}

// ofProfile returns the keys of the requests of a device profile. The mutex is held.
func (r *Registry) ofProfile(id, profile string) []key {
	var keys []key
	for k, x := range r.instances[id] {
		if k.name == ARQBound && (x.profile == "" || x.profile == profile) {
			keys = append(keys, k)
		}
	}
	return keys
}

// receive wakes the waiters. It is called once, after the event was removed from
// the registry.
func (x *expected) receive(s Status) {
	if s == "" {
		s = StatusCompleted // the default of Nova's schema
	}
	x.status = s
	close(x.done)
}

// received returns the status and whether the event has arrived.
func (x *expected) received() (Status, bool) {
	select {
	case <-x.done:
		return x.status, true
	default:
		return "", false
	}
}

// Clear forgets all events of an instance, as Nova does when a server is deleted,
// and returns their number. It does not wake waiters; their events can no longer
// arrive.
func (r *Registry) Clear(instance string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.ToLower(instance)
	n := len(r.instances[id])
	delete(r.instances, id)
	return n
}

// Pending returns the number of expected events that have not arrived.
func (r *Registry) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, events := range r.instances {
		n += len(events)
	}
	return n
}

// Close ends all waits with [ErrFailed] by receiving every expected event with the
// status failed. After it [Registry.Prepare] fails. A second Close does nothing.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, events := range r.instances {
		for _, x := range events {
			x.receive(StatusFailed)
		}
	}
	clear(r.instances)
}
