package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Flow gives accelerators to instances. It is safe for parallel use, one attempt
// per instance. Create one Flow per process: it knows which ARQs its running
// attempts hold, and so which ones a create with a lost reply may have left.
type Flow struct {
	config    Config
	cyborg    *cyborgclient.Client
	placement *placement.Client
	observers []func(context.Context, Progress)
	provider  *gophercloud.ProviderClient // of Placement
	endpoint  gophercloud.EndpointOpts    // of NewFromCloud and NewFromProvider
	events    *externalevent.Registry     // nil: poll
	novaPCI   []novaSpec
	cloud     cloudOpts // until there are clients

	arqs       tracker // of running attempts
	deleted    deletedARQs
	instances  tracker // of running attempts and operations
	suspects   suspectList
	unanswered suspectList // changes of allocations that may still arrive

	mu          sync.Mutex
	owner       tokenOwner // cached: decoding the token takes a tenth of the time of a spawn
	othersShown time.Time  // Cyborg last showed the token an ARQ of another project
}

// tokenOwner is to whom the token belongs.
type tokenOwner struct {
	project, user string
	admin         bool // the token has the role admin
}

// Option configures a [Flow].
type Option func(*Flow)

// WithConfig sets the options that an operator chooses.
func WithConfig(config Config) Option { return func(f *Flow) { f.config = config } }

// WithEvents waits for the events of a registry, whose handler the caller mounts
// where Nova's events arrive, and polls Cyborg slowly in case they go elsewhere. Without a
// registry the flow polls Cyborg more often.
func WithEvents(registry *externalevent.Registry) Option {
	return func(f *Flow) { f.events = registry }
}

// New returns a flow with the given clients, for those that need other options than
// NewFromCloud and NewFromProvider set. The error matches ErrConfig.
func New(cyborg *cyborgclient.Client, placementClient *gophercloud.ServiceClient, opts ...Option) (*Flow, error) {
	return newFlow(opts).start(cyborg, placementClient)
}

// newFlow returns a flow without clients.
func newFlow(opts []Option) *Flow {
	f := new(Flow)
	for _, opt := range opts {
		opt(f)
	}
	return f
}

// start checks the options of a flow and gives it its clients.
func (f *Flow) start(cyborg *cyborgclient.Client, placementClient *gophercloud.ServiceClient) (*Flow, error) {
	f.config = f.config.withDefaults()
	if err := f.config.check(); err != nil {
		return nil, err
	}
	switch {
	case cyborg == nil || placementClient == nil || placementClient.ProviderClient == nil:
		return nil, fmt.Errorf("%w: a Cyborg client and a Placement client are needed", ErrConfig)
	case f.cloud != cloudOpts{}:
		return nil, fmt.Errorf("%w: the options of a cloud are for NewFromCloud and NewFromProvider", ErrConfig)
	}
	f.cyborg = cyborg
	var err error
	if f.novaPCI, err = readNovaSpecs(f.config.PCIDeviceSpec); err != nil {
		return nil, fmt.Errorf("%w: pci_device_spec: %w", ErrConfig, err)
	}
	if f.placement, err = placement.New(placementClient, f.config.Compat.NumericSuffixes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	f.provider = placementClient.ProviderClient
	return f, nil
}

// Run runs the ten steps and the caller's hooks. After a failure that may not occur
// on another host (see [Attempt.Reschedulable]) everything is given back and the
// next host is tried, up to Config.MaxAttempts hosts. A failure is an [*Error]; by
// then everything that the attempt made has been given back or is named in it.
func (f *Flow) Run(ctx context.Context, request Request) (*Result, error) {
	a, err := f.attempt(ctx, request, func(a *Attempt) (Step, error) { return a.run(ctx) })
	if err != nil {
		return nil, err
	}
	return a.Result(), nil
}

// attempt begins an attempt and runs it. When run fails, panics or ends the
// goroutine, as a hook of the caller may, everything is given back. The error is an
// [*Error].
func (f *Flow) attempt(ctx context.Context, request Request, run func(*Attempt) (Step, error)) (*Attempt, error) {
	a, err := f.Begin(request)
	if err != nil {
		return nil, &Error{Instance: request.Instance, Step: StepProfile, Err: err}
	}
	finished := false
	defer func() {
		if !finished {
			a.Unwind(ctx)
		}
	}()
	step, err := run(a)
	if err != nil {
		err = a.fail(ctx, step, err)
	}
	finished = true
	if err != nil {
		return nil, err
	}
	return a, nil
}

// tokenOwner returns project, user and role of the token. They stay the same when
// the token is renewed.
func (f *Flow) tokenOwner() tokenOwner {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owner.project == "" {
		f.owner = readOwner(f.provider.GetAuthResult())
	}
	return f.owner
}

func readOwner(result gophercloud.AuthResult) (owner tokenOwner) {
	token, ok := result.(interface {
		ExtractProject() (*tokens.Project, error)
		ExtractUser() (*tokens.User, error)
		ExtractRoles() ([]tokens.Role, error)
	})
	if !ok {
		return owner
	}
	if p, _ := token.ExtractProject(); p != nil {
		owner.project = p.ID
	}
	if u, _ := token.ExtractUser(); u != nil {
		owner.user = u.ID
	}
	roles, _ := token.ExtractRoles()
	owner.admin = slices.ContainsFunc(roles, func(role tokens.Role) bool { return role.Name == "admin" })
	return owner
}

// walk runs the steps from first to last, each after the function before, if any.
func (a *Attempt) walk(ctx context.Context, first, last Step, before func(Step) error) (Step, error) {
	started := false
	for _, step := range a.steps() {
		if started = started || step.name == first; !started {
			continue
		}
		var err error
		if before != nil {
			err = before(step.name)
		}
		if err == nil {
			err = step.run(ctx)
		}
		if err != nil || step.name == last {
			return step.name, err
		}
	}
	return last, nil
}

// run runs all steps, on one host after the other until one succeeds. The error is
// that of the last host.
func (a *Attempt) run(ctx context.Context) (Step, error) {
	step, err := a.walk(ctx, StepProfile, StepStart, nil)
	for err != nil && a.Reschedulable(step, err) && ctx.Err() == nil {
		moved := a.Reschedule(ctx)
		switch {
		case errors.Is(moved, ErrNoAlternate), errors.Is(moved, ErrLeftover):
			return step, err
		case moved != nil:
			return StepSelect, errors.Join(moved, err)
		}
		step, err = a.walk(ctx, StepClaim, StepStart, nil)
	}
	return step, err
}
