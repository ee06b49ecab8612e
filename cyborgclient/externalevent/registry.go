package externalevent

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// Registry knows which events are expected, by instance, name and tag, and hands
// each one that arrives to those who prepared for it. It is safe for use by
// several goroutines at once. The zero value is not usable; see [NewRegistry].
type Registry struct {
	log   *slog.Logger
	forms []Form // beside the shipped one; never changes

	mu        sync.Mutex
	closed    bool
	instances map[string]map[key]*expected
}

// expected is one event that somebody has prepared for. It is received once:
// whoever takes it out of the registry sets the status and closes done.
type expected struct {
	preparers int    // open waiters; guarded by the registry's mutex
	profile   string // device profile of the request; empty: not known
	done      chan struct{}
	status    Status // valid once done is closed
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
// UUIDs of its accelerator requests) and gives the waiter for them. It must come
// before the call that makes the events happen: an event that nobody has prepared
// for is dropped. A tag given twice counts once; without tags the waiter has
// nothing to wait for.
//
// Two waiters may prepare for the same event; it is one event, and both receive
// it. The caller closes the waiter in every case.
//
// It returns [ErrClosed] after [Registry.Close], with Nova's words, and
// [ErrInvalid] for an empty instance or tag; then nothing is registered.
func (r *Registry) Prepare(instance string, tags ...string) (*Waiter, error) {
	arqs := make([]ARQ, len(tags))
	for i, tag := range tags {
		arqs[i].UUID = tag
	}
	return r.PrepareARQs(instance, arqs...)
}

// ARQ is an accelerator request whose event is expected.
type ARQ struct {
	UUID string
	// Profile is the name of its device profile, by which an event in the form of
	// Ussuri is told from that of another profile; empty: any profile's will do.
	Profile string
}

// PrepareARQs is [Registry.Prepare] for requests of which the device profile is
// known. That matters only to [FormUssuri], and only for an instance with requests
// of several profiles.
func (r *Registry) PrepareARQs(instance string, arqs ...ARQ) (*Waiter, error) {
	if err := checkNames(instance, arqs); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("externalevent: prepare for instance %s: %w: In shutdown, no new events can be scheduled", instance, ErrClosed)
	}
	w := &Waiter{registry: r, instance: instance, closed: make(chan struct{})}
	for _, arq := range arqs {
		k := keyOf(ARQBound, arq.UUID)
		if w.find(k) == nil {
			w.events = append(w.events, &awaited{key: k, tag: arq.UUID, expected: r.expect(instance, k, arq.Profile), early: make(chan struct{})})
		}
	}
	return w, nil
}

func checkNames(instance string, arqs []ARQ) error {
	if instance == "" {
		return fmt.Errorf("externalevent: prepare: %w: no instance", ErrInvalid)
	}
	for i, arq := range arqs {
		if arq.UUID == "" {
			return fmt.Errorf("externalevent: prepare for instance %s: %w: tag %d is empty", instance, ErrInvalid, i+1)
		}
	}
	return nil
}

// expect gives the expected event of a key, made if need be, with one more
// preparer. The mutex is held.
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
	events[k].preparers++
	return events[k]
}

// release takes one preparer back from each event and forgets those that have
// none left. An event received or cleared meanwhile is no longer in the registry;
// its key may stand for a later one, which is left alone.
func (r *Registry) release(instance string, events []*awaited) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.ToLower(instance)
	for _, a := range events {
		a.expected.preparers--
		if a.expected.preparers == 0 && r.instances[id][a.key] == a.expected {
			r.forget(id, a.key)
		}
	}
}

// forget drops one key. The mutex is held.
func (r *Registry) forget(id string, k key) {
	delete(r.instances[id], k)
	if len(r.instances[id]) == 0 {
		delete(r.instances, id)
	}
}

// Deliver hands an event to those who prepared for it. An event is received once:
// the second of two equal ones, one of an unknown name and one nobody expects are
// dropped with a warning, and Deliver reports false. It never waits.
//
// An event of a form that [WithForms] allows counts for what it stands for: that of
// Train for the one of its request, that of Ussuri for those of all requests of the
// device profile that its tag names.
func (r *Registry) Deliver(e Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.ToLower(e.ServerUUID)
	var keys []key
	status := e.Status
	switch {
	case !r.takes(e.Name):
		keys = []key{keyOf(e.Name, e.Tag)}
	case e.Name == ARQsBound:
		keys = r.ofProfile(id, e.Tag)
	default:
		keys = []key{keyOf(ARQBound, e.Tag)}
		if status == StatusOK {
			status = StatusCompleted
		}
	}
	taken := false
	for _, k := range keys {
		if x := r.instances[id][k]; x != nil {
			r.forget(id, k)
			x.receive(status)
			taken = true
		}
	}
	if !taken {
		r.log.Warn("unexpected event", "event", e.Name+"-"+e.Tag, "instance", e.ServerUUID, "status", string(e.Status))
	}
	return taken
}

// ofProfile are the keys of the events that an event for a device profile stands for.
// The mutex is held.
func (r *Registry) ofProfile(id, profile string) []key {
	var keys []key
	for k, x := range r.instances[id] {
		if k.name == ARQBound && (x.profile == "" || x.profile == profile) {
			keys = append(keys, k)
		}
	}
	return keys
}

// receive wakes those who wait. It is called once, by whoever took the event out
// of the registry.
func (x *expected) receive(s Status) {
	if s == "" {
		s = StatusCompleted // the default of Nova's schema
	}
	x.status = s
	close(x.done)
}

// received gives the status and whether the event is there.
func (x *expected) received() (Status, bool) {
	select {
	case <-x.done:
		return x.status, true
	default:
		return "", false
	}
}

// Clear forgets all events of an instance, as Nova does when a server is deleted,
// and gives their number. It does not wake those who wait; their events can no
// longer arrive.
func (r *Registry) Clear(instance string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.ToLower(instance)
	n := len(r.instances[id])
	delete(r.instances, id)
	return n
}

// Pending gives the number of expected events that have not arrived.
func (r *Registry) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, events := range r.instances {
		n += len(events)
	}
	return n
}

// Close ends the registry: every expected event is received with the status
// failed, so that all waits end with [ErrFailed], and no event can be prepared any
// more. A second Close does nothing.
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
