package spawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/domainxml"
)

// Operations are the operations on instances after their spawn. They follow Nova's rules for accelerators without
// Nova's defects. They are safe for parallel use, one operation per instance; see the package documentation on other
// processes.
//
// Operations that Nova blocks because of accelerators return a [*BlockedError] before any request; see [Permit].
// Operations that free accelerators continue when the caller's context ends halfway, limited by Config.UnwindTimeout,
// and list in an [*Error] what could not be freed.
type Operations struct{ flow *Flow }

// Operations returns the operations of this flow on the guests of its hypervisor.
// The error matches ErrConfig if the flow has no hypervisor: see [WithHypervisor].
func (f *Flow) Operations() (*Operations, error) {
	if f.hypervisor == nil {
		return nil, fmt.Errorf("%w: operations need a hypervisor", ErrConfig)
	}
	return &Operations{f}, nil
}

// do checks the instance, applies Nova's rule, and runs the operation under the lock of the instance. The error names
// operation and instance.
func (o *Operations) do(ctx context.Context, op Operation, i Instance, run func(ctx context.Context, r *remover) error) error {
	if err := i.check(); err != nil {
		return err
	}
	if err := Permit(op, i); err != nil {
		return err
	}
	err := o.flow.operate(ctx, i, func(ctx context.Context, r *remover) error {
		return run(r.journal.Inside(ctx), r)
	})
	switch err := err.(type) { //nolint:errorlint // only an error that already names the instance
	case nil:
		return nil
	case *BlockedError:
		return err
	case *Error:
		err.Operation = op
		return err
	default:
		return &Error{Instance: i.UUID, Operation: op, Err: err}
	}
}

// Stop shuts the guest of an instance down, or powers it off by force if that fails. The accelerators stay bound.
func (o *Operations) Stop(ctx context.Context, i Instance) error {
	return o.do(ctx, OpStop, i, func(ctx context.Context, r *remover) error { return o.powerOff(ctx, r) })
}

// SoftDelete powers the guest off. The accelerators stay bound until
// [Operations.Delete] reclaims the instance or [Operations.Restore] restores it.
func (o *Operations) SoftDelete(ctx context.Context, i Instance) error {
	return o.do(ctx, OpSoftDelete, i, func(ctx context.Context, r *remover) error { return o.powerOff(ctx, r) })
}

// Shelve powers the guest off. The accelerators stay bound until [Operations.ShelveOffload] frees them. The caller
// creates the snapshot.
func (o *Operations) Shelve(ctx context.Context, i Instance) error {
	return o.do(ctx, OpShelve, i, func(ctx context.Context, r *remover) error { return o.powerOff(ctx, r) })
}

// powerOff shuts the guest down, or destroys it when that fails.
func (o *Operations) powerOff(ctx context.Context, r *remover) error {
	shutdownErr := r.power(ctx, o.flow.hypervisor.Shutdown)
	if shutdownErr == nil {
		return nil
	}
	if errors.Is(shutdownErr, ErrNoGuest) {
		return o.elsewhere(ctx, r.instance)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.power(ctx, o.flow.hypervisor.Destroy); err != nil {
		return fmt.Errorf("power off: %w", errors.Join(shutdownErr, err))
	}
	return nil
}

// power runs a call of the hypervisor that is not undone after a failure: the guest keeps its domain.
func (r *remover) power(ctx context.Context, call func(context.Context, Instance) error) error {
	e := &ledger.Effect{Kind: ledger.Power, ID: r.instance.UUID}
	err := r.journal.Do(ctx, e, func(ctx context.Context) error { return call(ctx, r.instance) })
	if e.Pending() { // it was sent
		r.journal.Settle(e, ledger.Undone, nil)
	}
	return err
}

// Start powers an instance on. It waits until every ARQ is Bound, adds missing devices to the saved domain, removes
// devices that no longer belong to its ARQs (see [domainxml.Complete]), and starts the guest. If an ARQ is not Bound
// in time, or the guest does not start, the guest stays off with its old XML and keeps its ARQs. Nova starts the
// guest with the ARQs that Cyborg lists, even if some are missing. A running guest is not changed.
func (o *Operations) Start(ctx context.Context, i Instance) error {
	return o.powerOn(ctx, OpStart, i, o.start)
}

// Restore is Start for an instance that was soft-deleted.
func (o *Operations) Restore(ctx context.Context, i Instance) error {
	return o.powerOn(ctx, OpRestore, i, o.start)
}

// ResumeAfterHostReboot starts an instance after its host was rebooted. It is Start with retries, because mediated
// devices do not survive a reboot of the host. A hypervisor that is an [MdevCreator] creates them again; otherwise
// Cyborg's agent would have to, before or after nova-compute starts, and no released agent does. A guest with
// mediated devices that does not start is therefore started again within Config.ARQBindingTimeout. Nova asks for no
// ARQs here and starts the guest without its accelerators.
func (o *Operations) ResumeAfterHostReboot(ctx context.Context, i Instance) error {
	return o.powerOn(ctx, OpHostReboot, i, o.startWhenMediated)
}

// powerOn runs start unless the guest is already running.
func (o *Operations) powerOn(ctx context.Context, op Operation, i Instance, start func(context.Context, *remover, Instance) error) error {
	return o.do(ctx, op, i, func(ctx context.Context, r *remover) error {
		if _, running, err := o.domain(ctx, i); err != nil || running {
			return err
		}
		return start(ctx, r, i)
	})
}

func (o *Operations) start(ctx context.Context, r *remover, i Instance) error {
	return o.startDomain(ctx, r, i, nil)
}

// startWhenMediated starts the guest, and retries while its mediated devices may be missing.
func (o *Operations) startWhenMediated(ctx context.Context, r *remover, i Instance) error {
	var last error
	deadline := o.deadline()
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		accel, err := o.acceleratorsBy(ctx, i, deadline)
		if err != nil {
			return errors.Join(err, last)
		}
		last = o.startWith(ctx, r, i, accel, nil)
		if !errors.Is(last, errStart) || len(accel.mdevs) == 0 || time.Until(deadline) < pause {
			return last
		}
		if err := sleep(ctx, pause); err != nil {
			return errors.Join(err, last)
		}
	}
}

// errStart marks a guest that was defined and did not start.
var errStart = errors.New("the guest did not start")

// HardReboot destroys the guest and starts it with a new domain from the caller, into which the accelerators are
// merged. Empty means the saved domain. The guest is destroyed only after every ARQ is Bound. If it does not start
// with the new domain, it stays off with the old one.
func (o *Operations) HardReboot(ctx context.Context, i Instance, domain []byte) error {
	return o.do(ctx, OpHardReboot, i, func(ctx context.Context, r *remover) error { return o.startDomain(ctx, r, i, domain) })
}

// Rebuild shuts the guest down and starts it with the domain of another image on the same host. The ARQs are kept and
// used again. An instance without ARQs is an error. A guest that is off gets the domain and stays off. After a
// failure the guest has the old domain, and runs if it was running. An error that matches ErrLeftover says that the
// guest could not be restored: start it after the next Rebuild.
func (o *Operations) Rebuild(ctx context.Context, i Instance, domain []byte) error {
	return o.do(ctx, OpRebuild, i, func(ctx context.Context, r *remover) error {
		accel, err := o.accelerators(ctx, i)
		if err != nil {
			return err
		}
		old, complete, running, err := o.complete(ctx, i, accel, domain)
		if err != nil {
			return err
		}
		return o.change(ctx, r, saved(old, complete, running), func(ctx context.Context) error {
			return o.replace(ctx, r, i, accel.mdevs, old, complete, running)
		})
	})
}

// Unrescue ends a rescue: it starts the domain that [Operations.Rescue] returned, with missing devices added. If
// saved is empty, the error matches ErrRequest, because the hypervisor has only the rescue domain.
func (o *Operations) Unrescue(ctx context.Context, i Instance, saved []byte) error {
	return o.do(ctx, OpUnrescue, i, func(ctx context.Context, r *remover) error {
		if len(saved) == 0 {
			return fmt.Errorf("%w: no saved domain", ErrRequest)
		}
		return o.startDomain(ctx, r, i, saved)
	})
}

// SoftReboot shuts the guest down and starts it again with its domain unchanged. Every ARQ must be Bound. A guest
// that lacks a device or has a stale one, does not shut down, or does not start again, is hard rebooted. A guest that
// lacks only aliases (see [domainxml.Complete]) is not: it gets them at the next start or hard reboot.
func (o *Operations) SoftReboot(ctx context.Context, i Instance) error {
	return o.do(ctx, OpSoftReboot, i, func(ctx context.Context, r *remover) error {
		accel, err := o.accelerators(ctx, i)
		if err != nil {
			return err
		}
		saved, running, err := o.domain(ctx, i)
		if err != nil {
			return err
		}
		if running && accel.in(saved) {
			err := r.power(ctx, o.flow.hypervisor.Shutdown)
			if err == nil {
				err = r.power(ctx, o.flow.hypervisor.Start)
			}
			if err == nil {
				return nil
			}
		}
		return o.startWith(ctx, r, i, accel, nil)
	})
}

// Rescue starts the guest with a rescue domain and returns its saved domain for [Operations.Unrescue]. The ARQs are
// kept, and their devices are omitted from the rescue domain, as in Nova. If the rescue domain does not start, the
// guest is off with its old domain. If restoring the old domain fails, too, only the caller has it: it is returned
// with the error.
//
// Cyborg is asked for the devices only if the rescue domain has any host device.
func (o *Operations) Rescue(ctx context.Context, i Instance, domain []byte) (saved []byte, err error) {
	err = o.do(ctx, OpRescue, i, func(ctx context.Context, r *remover) error {
		bare, err := o.withoutDevices(ctx, i, domain)
		if err != nil {
			return err
		}
		if saved, _, err = o.domain(ctx, i); err != nil {
			return err
		}
		return o.exchange(ctx, r, i, nil, saved, bare)
	})
	return saved, err
}

// withoutDevices removes the devices of the ARQs from a domain.
func (o *Operations) withoutDevices(ctx context.Context, i Instance, domain []byte) ([]byte, error) {
	devices, err := domainxml.Read(domain)
	if err != nil || len(devices) == 0 || !i.accelerated() {
		return domain, err
	}
	accel, err := o.accelerators(ctx, i)
	if err != nil {
		return nil, err
	}
	diff, err := domainxml.Diff(domain, accel.hostdevs)
	if err != nil {
		return nil, err
	}
	return domainxml.Remove(domain, slices.Concat(diff.Present, diff.Stale))
}

// domain returns the saved XML, and whether the guest is running.
func (o *Operations) domain(ctx context.Context, i Instance) (domain []byte, running bool, err error) {
	domain, running, err = o.flow.hypervisor.Domain(ctx, i)
	if errors.Is(err, ErrNoGuest) {
		if moved := o.elsewhere(ctx, i); moved != nil {
			return nil, false, moved
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the guest on host %s: %w", i.Host, err)
	}
	if _, err := domainxml.Read(domain); err != nil {
		return nil, false, err
	}
	return domain, running, nil
}

// startDomain waits for the accelerators and starts the guest with them.
func (o *Operations) startDomain(ctx context.Context, r *remover, i Instance, domain []byte) error {
	accel, err := o.accelerators(ctx, i)
	if err != nil {
		return err
	}
	return o.startWith(ctx, r, i, accel, domain)
}

// startWith adds the missing devices to the given domain, or else to the saved one, and starts the guest with it.
func (o *Operations) startWith(ctx context.Context, r *remover, i Instance, accel accelerators, domain []byte) error {
	saved, complete, _, err := o.complete(ctx, i, accel, domain)
	if err != nil {
		return err
	}
	return o.exchange(ctx, r, i, accel.mdevs, saved, complete)
}

// complete returns the saved domain, and the given domain, or else the saved one, with the missing devices added.
func (o *Operations) complete(ctx context.Context, i Instance, accel accelerators, domain []byte) (saved, complete []byte, running bool, err error) {
	saved, running, err = o.domain(ctx, i)
	if err != nil {
		return nil, nil, false, err
	}
	if len(domain) == 0 {
		domain = saved
	}
	complete, err = accel.complete(domain)
	return saved, complete, running, err
}

// exchange destroys the guest and starts it with the new XML. After a failure the guest is off with the old XML.
func (o *Operations) exchange(ctx context.Context, r *remover, i Instance, mdevs []cyborgclient.ARQ, old, fresh []byte) error {
	if err := r.power(ctx, o.flow.hypervisor.Destroy); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return o.change(ctx, r, saved(old, fresh, false), func(ctx context.Context) error { return o.boot(ctx, r, i, mdevs, old, fresh, true) })
}

// saved returns the state of a guest before it gets a new domain.
func saved(old, fresh []byte, running bool) *ledger.Saved {
	if bytes.Equal(old, fresh) {
		old = nil
	}
	return &ledger.Saved{Domain: old, Running: running}
}

// change gives a guest a new domain. If that fails, panics or ends the goroutine, the old domain is restored, and the
// guest is started if it was running, also when the caller's context has ended.
func (o *Operations) change(ctx context.Context, r *remover, saved *ledger.Saved, work func(context.Context) error) (err error) {
	guest := &ledger.Effect{Kind: ledger.Guest, ID: r.instance.UUID, Host: r.instance.Host, Saved: saved}
	err = errors.New("the hypervisor panicked or called Goexit")
	defer func() {
		if err != nil && guest.Pending() {
			err = errors.Join(err, o.restore(ctx, r, guest))
		}
	}()
	if err = r.journal.Do(ctx, guest, work); err == nil {
		err = r.journal.Commit(ctx)
	}
	return err
}

// boot saves the new XML of a stopped guest, creates its mediated devices and starts it.
func (o *Operations) boot(ctx context.Context, r *remover, i Instance, mdevs []cyborgclient.ARQ, old, fresh []byte, start bool) error {
	if !bytes.Equal(old, fresh) {
		if err := o.flow.hypervisor.Define(ctx, i, fresh); err != nil {
			return fmt.Errorf("define: %w", err)
		}
	}
	if !start {
		return nil
	}
	if err := o.flow.createMdevs(ctx, r.journal, i, mdevs); err != nil {
		return fmt.Errorf("%w: %w", errStart, err)
	}
	if err := o.flow.hypervisor.Start(ctx, i); err != nil {
		return fmt.Errorf("%w: %w", errStart, err)
	}
	return nil
}

// restore undoes a change of a guest.
func (o *Operations) restore(ctx context.Context, r *remover, guest *ledger.Effect) error {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	_ = r.record.step(ctx, StepUnwind, func(ctx context.Context) (string, error) {
		r.undo(ctx, func(e *ledger.Effect) bool { return e == guest })
		return "the guest is restored", guest.Err
	})
	if guest.Pending() {
		return fmt.Errorf("%w: the guest could not be restored: %w", ErrLeftover, guest.Err)
	}
	return nil
}
