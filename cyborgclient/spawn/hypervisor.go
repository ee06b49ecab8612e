package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// Hypervisor manages the guests of the hosts. The caller implements it and sets it with [WithHypervisor]. A spawn
// defines and starts the guest with it, and destroys and undefines the guest after a failure; [Operations] and
// [Flow.Recover] use it, too. UUID and Host of the instance identify the guest. With libvirt each method is one call
// of the domain API: examples/libvirt shows an implementation. Every method may be called again after a failure, even
// if the failed call had an effect.
//
// A hypervisor of guests with mediated devices should also be an [MdevCreator], and an [MdevRemover] if the mediated
// devices that it creates are persistent.
type Hypervisor interface {
	// Domain returns the saved XML of a guest, with which it starts the next time, and whether the guest is running.
	// The error matches ErrNoGuest for an unknown guest.
	Domain(ctx context.Context, i Instance) (domain []byte, running bool, err error)
	// Define saves the XML of a guest. A running guest is not changed.
	Define(ctx context.Context, i Instance, domain []byte) error
	// Start starts a guest with its saved XML. Starting a running guest is an error.
	Start(ctx context.Context, i Instance) error
	// Shutdown asks a guest to power off and waits until it is off. After an error the guest is still running. The
	// error matches ErrNoGuest for an unknown guest.
	Shutdown(ctx context.Context, i Instance) error
	// Destroy powers a guest off. Destroying a stopped or missing guest is not an error.
	Destroy(ctx context.Context, i Instance) error
	// Undefine deletes the saved XML of a stopped guest. A missing guest is not an error.
	Undefine(ctx context.Context, i Instance) error
}

// startsGuest reports whether the attempt starts the guest of the instance.
func (a *Attempt) startsGuest() bool { return a.flow.hypervisor != nil && !a.Request.running }

// StartGuest defines and starts the guest of Domain with the hypervisor of the flow, after Compose. The hypervisor
// gets an [Instance] with the host, the ARQs, the flavor and the ports with their binding profiles. Success ends the
// attempt. Without a hypervisor, and for an instance that is already running ([Flow.BeginAdding]), StartGuest does
// nothing.
//
// After a failure, Unwind and Reschedule destroy and undefine the guest before they delete the ARQs, and retry for a
// third of Config.UnwindTimeout, also when the caller's context has ended. If the guest still cannot be destroyed, no
// other host is tried, and ARQs and allocation are kept, because the guest may still use its devices:
// [Error.Leftovers] lists them and the guest. Release them once the guest no longer exists.
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

// instance returns the instance of the attempt for the hypervisor.
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

// restoreGuest destroys a guest, saves its old XML if it differs, and starts the guest if it was running. A guest may
// be running even if its start returned an error, so it is destroyed before each try.
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

// errNoHypervisor is the reason for keeping a guest of an earlier process.
var errNoHypervisor = errors.New("the flow has no hypervisor: see WithHypervisor")

// guestUndoer removes the guest, or restores a changed one. This happens before the devices of the guest are
// released; if it fails, the devices are kept.
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

// Look reports whether the guest exists.
func (u guestUndoer) Look(ctx context.Context, _ *ledger.Effect) (bool, error) {
	if u.isThere == nil {
		return false, nil
	}
	return u.isThere(ctx)
}
