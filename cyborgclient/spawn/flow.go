package spawn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

// Flow gives accelerators to instances. It is safe for parallel use. Operations on one instance run one after the other: a call waits
// for the operation that is running, and one from inside a hook or the hypervisor of that operation is an ErrBusy. A request that changes something is
// not canceled with the caller's context, because its outcome would be unknown, so that a call returns at most a minute after its
// context has ended, or Config.ARQBindingTimeout if that is longer.
//
// Create one Flow per process: it knows which ARQs its operations have made, and so which ones a create with a lost reply may have
// left. [WithJournal] keeps that for the next process. [Flow.As] is the same flow with the token of a user.
type Flow struct {
	*process
	cyborg *access
}

// process is what the flows of all users of a process share.
type process struct {
	config    Config
	own       *access // the agent's own client of Cyborg
	placement *placement.Client
	observers []func(context.Context, Progress)
	endpoint  gophercloud.EndpointOpts // of NewFromCloud and NewFromProvider
	events    *externalevent.Registry  // nil: poll
	novaPCI   []novaSpec
	cloud     cloudOpts // until there are clients

	hypervisor Hypervisor // nil: the callers start guests

	store journal.Store // of journals; nil: they are in memory only
	book  *ledger.Book  // of what running operations have made, and of what those that have ended do not know
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

// WithJournal records every effect in a store before its request is sent, so that an agent that was killed finds what it had
// begun: see [Flow.Recover]. Without a store, or with a nil one, the effects are recorded in memory only.
func WithJournal(store journal.Store) Option {
	return func(f *Flow) { f.store = store }
}

// WithHypervisor sets the hypervisor that has the guests. With it Run starts the guest, [Flow.Operations] change it, and [Flow.Recover]
// removes or restores it. Without one a flow ends with Compose: the caller starts the guest of [Result].Domain, and destroys it before
// [Flow.Release].
func WithHypervisor(h Hypervisor) Option {
	return func(f *Flow) { f.hypervisor = h }
}

// New returns a flow with the given clients, for those that need other options than
// NewFromCloud and NewFromProvider set. The error matches ErrConfig.
func New(cyborg *cyborgclient.Client, placementClient *gophercloud.ServiceClient, opts ...Option) (*Flow, error) {
	return newFlow(opts).start(cyborg, placementClient)
}

// newFlow returns a flow without clients.
func newFlow(opts []Option) *Flow {
	f := &Flow{process: new(process)}
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
	f.own = &access{Client: cyborg}
	f.cyborg = f.own
	f.book = ledger.NewBook(map[ledger.Kind]time.Duration{ledger.Binding: max(f.config.ARQBindingTimeout, writeTimeout)}, f.store)
	var err error
	if f.novaPCI, err = readNovaSpecs(f.config.PCIDeviceSpec); err != nil {
		return nil, fmt.Errorf("%w: pci_device_spec: %w", ErrConfig, err)
	}
	if f.placement, err = placement.New(placementClient, f.config.Compat.NumericSuffixes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return f, nil
}

// As returns the flow with the client of a user, as Nova makes a client of Cyborg from the
// context of each API request: whatever the returned flow, its attempts and its
// [Operations] ask of Cyborg is asked with the user's token, and new ARQs are of the
// user's project. All else is shared: Placement, events, what running attempts hold.
// [cyborgclient.Client.ForToken] and [cyborgclient.Client.ForProvider] of [Flow.Cyborg]
// make such a client. ARQs whose deletion fails because the user's token has expired are
// deleted with the flow's own token, if Cyborg shows them to it; [Flow.Reconcile] uses the
// flow's own token only. A nil client means the flow's own.
func (f *Flow) As(user *cyborgclient.Client) *Flow {
	if user == nil {
		return f.asOwn()
	}
	return &Flow{process: f.process, cyborg: &access{Client: user}}
}

// asOwn returns the flow with its own client of Cyborg.
func (f *Flow) asOwn() *Flow { return &Flow{process: f.process, cyborg: f.own} }

// Run runs the ten steps and the caller's hooks, and starts the guest if the flow has a hypervisor. After a failure that may not occur
// on another host (see [Attempt.Reschedulable]) everything is given back and the
// next host is tried, up to Config.MaxAttempts hosts. A failure is an [*Error]; by
// then everything that the attempt made has been given back or is named in it.
func (f *Flow) Run(ctx context.Context, request Request) (*Result, error) {
	a, err := f.Begin(ctx, request)
	if err != nil {
		return nil, &Error{Instance: request.Instance, Step: StepProfile, Err: err}
	}
	if err := a.finish(ctx, func() (Step, error) { return a.run(ctx) }); err != nil {
		return nil, err
	}
	return a.Result(), nil
}

// finish runs the steps of an attempt. When run fails, panics or ends the
// goroutine, as a hook of the caller may, everything is given back. The error is an
// [*Error].
func (a *Attempt) finish(ctx context.Context, run func() (Step, error)) error {
	finished := false
	defer func() {
		if !finished {
			a.Unwind(ctx)
		}
	}()
	step, err := run()
	if err != nil {
		err = a.fail(ctx, step, err)
	}
	finished = true
	return err
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
