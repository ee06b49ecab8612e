package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// Hooks are the caller's steps of a build, which nova-compute runs between and after
// the ten steps. Each may be nil. When a hook fails, the flow gives back ARQs,
// allocation and events; the caller gives back what the hook made, such as ports and
// volumes.
type Hooks struct {
	// Claim is the compute host's own claim (processors, memory, NUMA, late
	// affinity). It runs after the bind and before the wait, as in Nova, where it
	// sets the instance's host. When it fails the next host is tried, unless the
	// error is an ErrAbort or ErrGone.
	Claim func(ctx context.Context, a *Attempt) error
	// Prepare sets up networks and block devices, once every ARQ is Bound. When
	// it fails no other host is tried, as in Nova.
	Prepare func(ctx context.Context, a *Attempt) error
	// Mdevs creates the mediated devices of Bound ARQs of type MDEV in Compose, for clouds in which
	// Nova and not Cyborg's agent does so (Nova 34). If it is an [MdevRemover], the unwinding of the attempt removes
	// their definitions.
	Mdevs MdevCreator
	// Start defines and starts the guest of result.Domain. When it fails the
	// guest is destroyed and the next host is tried, unless the error is an
	// ErrAbort or ErrGone.
	Start func(ctx context.Context, result *Result) error
	// Destroy removes what Start has made. It is called before the
	// ARQs are deleted, and again after an error. Its context does not end with the
	// caller's, but after a third of Config.UnwindTimeout. When it fails until then no
	// other host is tried, and ARQs and allocation stay, because the guest may still use
	// its devices: [Error.Leftovers] names them and the guest. Release them when the guest
	// is gone.
	Destroy func(ctx context.Context, result *Result) error
}

// ClaimHost runs [Hooks.Claim].
func (a *Attempt) ClaimHost(ctx context.Context) error {
	return a.hook(ctx, StepHost, a.Request.Hooks.Claim)
}

// PrepareGuest runs [Hooks.Prepare].
func (a *Attempt) PrepareGuest(ctx context.Context) error {
	return a.hook(ctx, StepPrepare, a.Request.Hooks.Prepare)
}

func (a *Attempt) hook(ctx context.Context, name Step, hook func(context.Context, *Attempt) error) error {
	if hook == nil {
		return nil
	}
	return a.record.step(ctx, name, func(ctx context.Context) (string, error) {
		if err := hook(a.journal.Inside(ctx), a); err != nil {
			return "", fmt.Errorf("host %s: %w", a.Host, err)
		}
		return "done on host " + a.Host, nil
	})
}

// StartGuest runs [Hooks.Start] after Compose. Its success ends the attempt.
func (a *Attempt) StartGuest(ctx context.Context) error {
	start := a.Request.Hooks.Start
	if start == nil {
		return nil
	}
	return a.record.step(ctx, StepStart, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Domain) > 0, StepCompose); err != nil {
			return "", err
		}
		guest := &ledger.Effect{Kind: ledger.Guest, ID: a.Request.Instance, Host: a.Host, Holds: a.journal.Numbers()}
		err := a.journal.Do(ctx, guest, func(ctx context.Context) error { return start(a.journal.Inside(ctx), a.Result()) })
		if err != nil {
			return "", fmt.Errorf("host %s: %w", a.Host, err)
		}
		if err := a.end(ctx); err != nil {
			return "", err
		}
		return "started on host " + a.Host, nil
	})
}

// createMdevs runs [Hooks.Mdevs] for each mediated device.
func (a *Attempt) createMdevs(ctx context.Context, arqs []cyborgclient.ARQ) error {
	return createMdevs(ctx, a.journal, a.Request.Hooks.Mdevs, a.instance(), arqs)
}

// instance is the instance of the attempt as hooks get it.
func (a *Attempt) instance() Instance { return InstanceOf(a.Request, a.Result()) }
