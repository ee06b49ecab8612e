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

// A Flow attaches accelerators to instances. It is safe for parallel use. Operations on one instance run one after
// the other: a call waits for the running operation, and a call from inside a hook or the hypervisor of that
// operation returns ErrBusy. A write is not canceled with the caller's context, because its outcome would be unknown.
// A call therefore returns at most a minute after its context has ended, or Config.ARQBindingTimeout if that is
// longer.
//
// Create one Flow per process: it knows which ARQs its operations have created, and so which ARQs may come from a
// create whose response was lost. [WithJournal] keeps this for the next process. [Flow.As] is the same flow with the
// token of a user.
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
	cloud     cloudOpts // cleared once the clients exist

	hypervisor Hypervisor // nil: the caller starts the guests

	store journal.Store // of journals; nil: in memory only
	book  *ledger.Book  // effects of running operations, and effects of ended ones with unknown outcome
}

// Option configures a [Flow].
type Option func(*Flow)

// WithConfig sets the options that an operator chooses.
func WithConfig(config Config) Option { return func(f *Flow) { f.config = config } }

// WithEvents waits for the events of a registry. The caller mounts its handler where Nova's events arrive. Cyborg is
// polled as well, slowly, in case the events go elsewhere. Without a registry the flow polls Cyborg more often.
func WithEvents(registry *externalevent.Registry) Option {
	return func(f *Flow) { f.events = registry }
}

// WithJournal records every effect in a store before its request is sent, so that a restarted agent finds what it had
// begun: see [Flow.Recover]. Without a store, or with nil, effects are recorded in memory only.
func WithJournal(store journal.Store) Option {
	return func(f *Flow) { f.store = store }
}

// WithHypervisor sets the hypervisor of the guests. With it Run starts the guest, [Flow.Operations] change it, and
// [Flow.Recover] removes or restores it. Without it a flow ends with Compose: the caller starts the guest from
// [Result].Domain, and destroys it before [Flow.Release].
func WithHypervisor(h Hypervisor) Option {
	return func(f *Flow) { f.hypervisor = h }
}

// New returns a flow with the given clients, for callers that need other options than NewFromCloud and
// NewFromProvider set. The error matches ErrConfig.
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

// start checks the options of a flow and sets its clients.
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

// As returns the flow with the client of a user, as Nova creates a Cyborg client from the context of each API
// request. The returned flow, its attempts and its [Operations] send all Cyborg requests with the user's token, and
// create ARQs in the user's project. Everything else is shared: Placement, events and running attempts.
// [cyborgclient.Client.ForToken] and [cyborgclient.Client.ForProvider] of [Flow.Cyborg] create such a client. If the
// deletion of ARQs fails because the user's token has expired, it is repeated with the flow's own token, if Cyborg
// shows them to it. [Flow.Reconcile] always uses the flow's own token. A nil client means the flow's own client.
func (f *Flow) As(user *cyborgclient.Client) *Flow {
	if user == nil {
		return f.asOwn()
	}
	return &Flow{process: f.process, cyborg: &access{Client: user}}
}

// asOwn returns the flow with its own client of Cyborg.
func (f *Flow) asOwn() *Flow { return &Flow{process: f.process, cyborg: f.own} }

// Run runs the ten steps and the caller's hooks, and starts the guest if the flow has a hypervisor. If a failure may
// not occur on another host (see [Attempt.Reschedulable]), everything on this host is released and the next host is
// tried, up to Config.MaxAttempts hosts. The error is an [*Error]. By then everything that the attempt created has
// been released or is listed in its Leftovers.
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

// finish runs the steps of an attempt. If run fails, panics or ends the goroutine, as a hook of the caller may, the
// attempt is unwound. The error is an [*Error].
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

// walk runs the steps from first to last. Before each step it calls before, if set.
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

// run runs all steps, on one host after the other until one succeeds. It returns the error from the last host.
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
