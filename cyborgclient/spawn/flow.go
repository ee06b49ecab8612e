package spawn

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// Flow gives accelerators to instances. It is safe for parallel use, one
// attempt per instance.
type Flow struct {
	config    Config
	cyborg    *cyborgclient.Client
	placement placement
	events    *externalevent.Registry // nil: poll

	mu   sync.Mutex
	held map[string]bool // ARQs of this flow's running attempts
	busy map[string]int  // instances of this flow's running attempts
}

// New returns a flow that speaks to the given Cyborg and Placement. Events are
// taken from the registry, whose handler the caller mounts where Nova's events
// arrive; with a nil registry the flow polls Cyborg instead. The error matches
// ErrConfig.
func New(config Config, cyborg *cyborgclient.Client, placement *gophercloud.ServiceClient, events *externalevent.Registry) (*Flow, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if cyborg == nil || placement == nil || placement.ProviderClient == nil {
		return nil, fmt.Errorf("%w: a Cyborg client and a Placement client are needed", ErrConfig)
	}
	return &Flow{
		config: config, cyborg: cyborg, placement: newPlacement(placement), events: events,
		held: map[string]bool{}, busy: map[string]int{},
	}, nil
}

// Run walks the ten steps. It returns a [*Error] after a failure, when
// everything that the attempt made has been given back or is named in it.
func (f *Flow) Run(ctx context.Context, request Request) (*Result, error) {
	a, err := f.Begin(request)
	if err != nil {
		return nil, &Error{Instance: request.Instance, Step: StepProfile, Err: err}
	}
	done := false
	defer func() { // a hook of the caller may panic or end the goroutine
		if !done {
			a.Unwind(ctx)
		}
	}()
	for _, step := range a.steps() {
		if err := step.run(ctx); err != nil {
			done = true
			return nil, a.fail(ctx, step.name, err)
		}
	}
	done = true
	return a.Result(), nil
}

// Release gives back what an instance holds after its guest is gone: first its
// ARQs, which frees handles and mediated devices, then its allocation. Both are
// idempotent. Errors of both are joined, and the second is tried even if the
// first fails.
func (f *Flow) Release(ctx context.Context, instance string) error {
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	var trace Trace
	step := trace.open(StepUnwind)
	var errs []error
	err := f.again(ctx, func(ctx context.Context) error { return f.cyborg.DeleteARQsForInstance(ctx, instance) })
	if err != nil {
		errs = append(errs, fmt.Errorf("spawn: release instance %s: ARQs: %w", instance, err))
	}
	err = f.again(ctx, func(ctx context.Context) error { return f.placement.deleteAllocation(ctx, step, instance) })
	if err != nil {
		errs = append(errs, fmt.Errorf("spawn: release instance %s: allocation: %w", instance, err))
	}
	return errors.Join(errs...)
}

func (f *Flow) hold(uuids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, uuid := range uuids {
		f.held[uuid] = true
	}
}

func (f *Flow) letGo(uuids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, uuid := range uuids {
		delete(f.held, uuid)
	}
}

func (f *Flow) holds(uuid string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[uuid]
}

// enter and leave count the attempts that are under way for an instance.
func (f *Flow) enter(instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[instance]++
}

func (f *Flow) leave(instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[instance]--; f.busy[instance] <= 0 {
		delete(f.busy, instance)
	}
}

func (f *Flow) busyWith(instance string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.busy[instance] > 0
}

// owner returns project and user of the token, for allocations whose owner the
// caller did not name.
func (f *Flow) owner() (project, user string) {
	result := f.placement.client.GetAuthResult()
	if r, ok := result.(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			project = p.ID
		}
	}
	if r, ok := result.(interface {
		ExtractUser() (*tokens.User, error)
	}); ok {
		if u, err := r.ExtractUser(); err == nil && u != nil {
			user = u.ID
		}
	}
	return project, user
}
