package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// Hypervisor manages the guests of the hosts; the caller implements it, and gives it to the
// flow with [WithHypervisor]. A spawn defines and starts the guest with it, and destroys and
// undefines it after a failure; [Operations] and [Flow.Recover] use the same. UUID and Host
// of the instance name the guest. With libvirt each method is one call of the domain
// API: examples/libvirt shows one. Every method may be called again after a failure, even if the
// failed call had an effect.
//
// A hypervisor of guests with mediated devices should also be an [MdevCreator], and an [MdevRemover] if what
// that creates is persistent.
type Hypervisor interface {
	// Domain returns the saved XML of a guest, with which it starts the next time,
	// and whether it runs. The error matches ErrNoGuest for an unknown guest.
	Domain(ctx context.Context, i Instance) (domain []byte, running bool, err error)
	// Define saves the XML of a guest without changing a running guest.
	Define(ctx context.Context, i Instance, domain []byte) error
	// Start starts a guest with its saved XML. Starting a running guest is an error.
	Start(ctx context.Context, i Instance) error
	// Shutdown asks a guest to power off and waits until it has, or returns an
	// error; then the guest still runs. The error matches ErrNoGuest for an unknown guest.
	Shutdown(ctx context.Context, i Instance) error
	// Destroy powers a guest off. Destroying a stopped or missing guest is not an
	// error.
	Destroy(ctx context.Context, i Instance) error
	// Undefine deletes the saved XML of a stopped guest. A missing guest is not an
	// error.
	Undefine(ctx context.Context, i Instance) error
}

// startsGuest reports whether the attempt starts the guest of the instance.
func (a *Attempt) startsGuest() bool { return a.flow.hypervisor != nil && !a.Request.running }

// StartGuest defines and starts the guest of Domain, after Compose, with the hypervisor of the flow. The
// [Instance] that the hypervisor gets has the host, the ARQs, the flavor and the ports, with their binding profiles.
// Its success ends the attempt. Without a hypervisor, and for an instance that runs already ([Flow.BeginAdding]),
// it does nothing.
//
// When it fails, Unwind and Reschedule destroy and undefine the guest before they delete the ARQs, and try again
// for a third of Config.UnwindTimeout, also after the caller's context has ended. If the guest cannot be destroyed
// until then no other host is tried, and ARQs and allocation stay, because the guest may still use
// its devices: [Error.Leftovers] names them and the guest. Release them when the guest does not exist any longer.
func (a *Attempt) StartGuest(ctx context.Context) error {
	if !a.startsGuest() {
		return nil
	}
	return a.record.step(ctx, StepStart, func(ctx context.Context) (string, error) {
		if err := a.needs(len(a.Domain) > 0, StepCompose); err != nil {
			return "", err
		}
		guest := &ledger.Effect{Kind: ledger.Guest, ID: a.Request.Instance, Host: a.Host, Holds: a.journal.Numbers()}
		err := a.journal.Do(ctx, guest, func(ctx context.Context) error {
			return a.flow.startGuest(a.journal.Inside(ctx), a.instance(), a.Domain)
		})
		if err != nil {
			return "", fmt.Errorf("host %s: %w", a.Host, err)
		}
		if err := a.end(ctx); err != nil {
			return "", err
		}
		return "started on host " + a.Host, nil
	})
}

// instance is the instance of the attempt as the hypervisor gets it.
func (a *Attempt) instance() Instance { return InstanceOf(a.Request, a.Result()) }

func (f *Flow) startGuest(ctx context.Context, i Instance, domain []byte) error {
	if err := f.hypervisor.Define(ctx, i, domain); err != nil {
		return fmt.Errorf("define: %w", err)
	}
	return f.hypervisor.Start(ctx, i)
}

func (f *Flow) removeGuest(ctx context.Context, i Instance) error {
	if err := f.hypervisor.Destroy(ctx, i); err != nil {
		return fmt.Errorf("destroy the guest: %w", err)
	}
	if err := f.hypervisor.Undefine(ctx, i); err != nil {
		return fmt.Errorf("undefine the guest: %w", err)
	}
	return nil
}

// restoreGuest destroys a guest, saves its old XML if it was another one, and starts it if it ran. The guest may run although its start
// returned an error, so it is destroyed before each try.
func (f *Flow) restoreGuest(ctx context.Context, i Instance, saved *ledger.Saved) error {
	err := f.hypervisor.Destroy(ctx, i)
	if err == nil && saved.Domain != nil {
		err = f.hypervisor.Define(ctx, i, saved.Domain)
	}
	if err == nil && saved.Running {
		err = f.hypervisor.Start(ctx, i)
	}
	return err
}

// errNoHypervisor is why a guest of an earlier process stays.
var errNoHypervisor = errors.New("the flow has no hypervisor: see WithHypervisor")

// guestUndoer removes the guest, or restores a changed one. It is tried before the devices of the guest are released, and
// they stay as long as it does.
type guestUndoer struct{ *remover }

// Undo implements [ledger.Undoer].
func (u guestUndoer) Undo(ctx context.Context, effects []*ledger.Effect) {
	for _, e := range effects {
		u.journal.Remove(ctx, []*ledger.Effect{e}, func(ctx context.Context) map[*ledger.Effect]error {
			return map[*ledger.Effect]error{e: u.undoGuest(u.journal.Inside(ctx), e)}
		})
	}
}

func (u guestUndoer) undoGuest(ctx context.Context, e *ledger.Effect) error {
	there := u.instance
	there.Host = e.Host
	switch {
	case u.flow.hypervisor == nil:
		return &ledger.Final{Err: errNoHypervisor}
	case e.Saved != nil:
		return u.flow.restoreGuest(ctx, there, e.Saved)
	default:
		return u.flow.removeGuest(ctx, there)
	}
}

// Look implements [ledger.Undoer].
func (u guestUndoer) Look(ctx context.Context, _ *ledger.Effect) (bool, error) {
	if u.isThere == nil {
		return false, nil
	}
	return u.isThere(ctx)
}
