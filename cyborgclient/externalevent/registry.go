package externalevent

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Registry holds the expected events by instance, name and tag, and delivers each
// event that arrives to its waiters. It is safe for concurrent use. The zero value is not
// usable; see [NewRegistry].
type Registry struct {
	accepted  []string // events of the specifications
	logger    *slog.Logger
	instances func(uuid string) (host string, known bool)
	authorize func(*http.Request) bool

	mu       sync.Mutex
	closed   bool
	expected map[key]*expected
}

// expected is an event in the registry. It is received once: removing it from the
// registry comes before setting its status and closing done.
type expected struct {
	waiters int    // open waiters; guarded by the registry's mutex
	profile string // device profile of the request; empty: unknown
	done    chan struct{}
	status  Status // valid once done is closed, like closed
	closed  bool   // by Registry.Close
}

// Option configures a [Registry].
type Option func(*Registry)

// WithAccept accepts events of the specifications in addition to [ARQBound]: [ARQResolved],
// [ARQsBound]. Without it, as with Nova, the handler refuses a request with such an event,
// and Deliver drops it.
func WithAccept(names ...string) Option { return func(r *Registry) { r.accepted = names } }

// WithLogger logs dropped events. Without it nothing is logged.
func WithLogger(logger *slog.Logger) Option { return func(r *Registry) { r.logger = logger } }

// WithInstances looks up an instance for the handler, by the UUID as received: whether it is
// known, and its host, if any. Without it every instance has a host.
func WithInstances(lookup func(uuid string) (host string, known bool)) Option {
	return func(r *Registry) { r.instances = lookup }
}

// WithAuthorize decides about each request before the handler reads it; a refused one is
// answered 401. Nova requires a token with the role service or admin. Without it any client may
// send events. They decide nothing, but each makes a flow query Cyborg once more.
func WithAuthorize(authorize func(*http.Request) bool) Option {
	return func(r *Registry) { r.authorize = authorize }
}

// NewRegistry makes an empty registry.
func NewRegistry(opts ...Option) *Registry {
	r := &Registry{expected: map[key]*expected{}}
	for _, opt := range opts {
		opt(r)
	}
	return r
}

// accepts reports whether an event of a specification is accepted.
func (r *Registry) accepts(name string) bool {
	return (name == ARQResolved || name == ARQsBound) && slices.Contains(r.accepted, name)
}

// Prepare registers the [ARQBound] events of an instance with the given tags (the
// UUIDs of its accelerator requests) and returns their waiter. Call it before the
// request that causes the events: an event that is not expected is dropped.
// Duplicate tags are ignored; without tags [Waiter.Wait] returns at once.
//
// Two waiters may expect the same event; both receive it. The caller must close the waiter.
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
	// DeviceProfile is the name of its device profile. [ARQsBound] events of other
	// profiles are ignored; empty accepts those of any profile.
	DeviceProfile string
}

// PrepareExpected is [Registry.Prepare] with the device profile of each request. It
// is needed only for [ARQsBound] and instances with requests of several profiles.
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
		k := keyOf(instance, e.ARQ)
		if w.find(k) == nil {
			w.events = append(w.events, &awaited{key: k, tag: e.ARQ, expected: r.expect(k, e.DeviceProfile), early: make(chan struct{}), state: StateExpected})
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

// expect returns the expected event of a key for one more waiter and creates it if necessary. The
// caller holds the mutex.
func (r *Registry) expect(k key, profile string) *expected {
	if r.expected[k] == nil {
		r.expected[k] = &expected{done: make(chan struct{}), profile: profile}
	}
	r.expected[k].waiters++
	return r.expected[k]
}

// release removes one waiter from each event and forgets events without waiters.
// An event that was received or cleared is no longer in the registry; its key may belong to a
// later event, which stays.
func (r *Registry) release(events []*awaited) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range events {
		a.expected.waiters--
		if a.expected.waiters == 0 && r.expected[a.key] == a.expected {
			delete(r.expected, a.key)
		}
	}
}

// Deliver passes an event to its waiters and reports whether there were any. An
// event is received once: a duplicate, an unknown name and an event that is not
// expected are dropped with a warning. It never blocks.
//
// An accepted [ARQResolved] is converted to the event of its request, [ARQsBound] to the events
// of all requests of the device profile in its tag.
func (r *Registry) Deliver(e Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []key
	status := e.Status
	switch {
	case e.Name == ARQBound:
		keys = []key{keyOf(e.ServerUUID, e.Tag)}
	case !r.accepts(e.Name): // neither expected nor converted
	case e.Name == ARQsBound:
		keys = r.ofProfile(e.ServerUUID, e.Tag)
	default:
		keys = []key{keyOf(e.ServerUUID, e.Tag)}
		if status == StatusOK {
			status = StatusCompleted
		}
	}
	delivered := false
	for _, k := range keys {
		if x := r.expected[k]; x != nil {
			delete(r.expected, k)
			x.receive(status)
			delivered = true
		}
	}
	if !delivered && r.logger != nil {
		r.logger.Warn("unexpected event", "event", e.Name+"-"+e.Tag, "instance", e.ServerUUID, "status", string(e.Status))
	}
	return delivered
}

// ofProfile returns the keys of the requests of a device profile. The mutex is held.
func (r *Registry) ofProfile(instance, profile string) []key {
	var keys []key
	for k, x := range r.expected {
		if strings.EqualFold(k.instance, instance) && (x.profile == "" || x.profile == profile) {
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
	before := len(r.expected)
	maps.DeleteFunc(r.expected, func(k key, _ *expected) bool { return strings.EqualFold(k.instance, instance) })
	return before - len(r.expected)
}

// Pending returns the number of expected events that have not arrived.
func (r *Registry) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.expected)
}

// Close ends all waits with [ErrFailed] and [ErrClosed] by receiving every expected event
// with the status failed. After it [Registry.Prepare] fails. A second Close does nothing.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, x := range r.expected {
		x.closed = true
		x.receive(StatusFailed)
	}
	clear(r.expected)
}
