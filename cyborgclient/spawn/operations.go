package spawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocyborg/gocyborg/domainxml"
)

// Stop powers the guest of an instance off: it is asked to, and forced to if it
// does not. The accelerators stay bound.
func (o *Operations) Stop(ctx context.Context, i Instance) error { return o.powerOff(ctx, OpStop, i) }

// SoftDelete powers the guest off. The accelerators stay bound until [Operations.Delete]
// reclaims the instance, or [Operations.Restore] brings it back.
func (o *Operations) SoftDelete(ctx context.Context, i Instance) error {
	return o.powerOff(ctx, OpSoftDelete, i)
}

// Shelve powers the guest off; its accelerators stay bound, until
// [Operations.ShelveOffload] frees them. The snapshot is the caller's.
func (o *Operations) Shelve(ctx context.Context, i Instance) error {
	return o.powerOff(ctx, OpShelve, i)
}

func (o *Operations) powerOff(ctx context.Context, op Operation, i Instance) error {
	end, err := o.begin(op, i)
	if err != nil {
		return err
	}
	defer end()
	return failed(op, i, o.off(ctx, i))
}

// off asks the guest to power off, and forces it to if that is in vain.
func (o *Operations) off(ctx context.Context, i Instance) error {
	soft := o.driver.Shutdown(ctx, i.guest())
	if soft == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.driver.Destroy(ctx, i.guest()); err != nil {
		return fmt.Errorf("power off: %w", errors.Join(soft, err))
	}
	return nil
}

// Start powers an instance on: it waits until every ARQ is Bound, completes the
// saved domain where devices are missing, and starts the guest. When an ARQ is
// not Bound in time, or the guest does not start, it stays stopped, its old XML
// is saved as before, and its ARQs stay. Nova starts with whatever Cyborg lists. A
// guest that runs already is left alone.
func (o *Operations) Start(ctx context.Context, i Instance) error {
	return o.powerOn(ctx, OpStart, i)
}

// Restore is Start for an instance that was soft-deleted.
func (o *Operations) Restore(ctx context.Context, i Instance) error {
	return o.powerOn(ctx, OpRestore, i)
}

// ResumeAfterHostReboot starts an instance whose host came up again. It is Start,
// and the place where waiting matters: mediated devices do not outlive a host,
// and Cyborg's agent makes them again when it starts, before or after us. For a
// while after a quick restart Cyborg still shows them as Bound, because it has not
// missed the agent yet; so a guest with mediated devices that does not start is
// tried again in the same time. Nova asks for no ARQs here and starts the guest
// without its accelerators.
func (o *Operations) ResumeAfterHostReboot(ctx context.Context, i Instance) error {
	if running, err := o.runs(ctx, OpHostReboot, i); err != nil || running {
		return err
	}
	end, err := o.begin(OpHostReboot, i)
	if err != nil {
		return err
	}
	defer end()
	return failed(OpHostReboot, i, o.resume(ctx, i))
}

func (o *Operations) resume(ctx context.Context, i Instance) error {
	var refused error // of the start before
	deadline := o.deadline()
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		accel, err := o.acceleratorsBy(ctx, i, deadline)
		if err != nil {
			return errors.Join(err, refused)
		}
		err = o.startWith(ctx, i, accel, nil)
		if !errors.Is(err, errStart) || !accel.mediated() || time.Until(deadline) < pause {
			return err
		}
		refused = err
		if sleepErr := sleep(ctx, pause); sleepErr != nil {
			return errors.Join(sleepErr, refused)
		}
	}
}

// errStart marks a guest that was defined and did not start.
var errStart = errors.New("the guest did not start")

// HardReboot forces the guest off and starts it with a domain that was made anew
// by the caller, into which the accelerators are merged; an empty one stands for
// the saved one. Nothing is forced off before every ARQ is Bound. When the guest
// does not start with the new domain it stays stopped with the old one.
func (o *Operations) HardReboot(ctx context.Context, i Instance, domain []byte) error {
	return o.restart(ctx, OpHardReboot, i, domain)
}

// Rebuild is HardReboot with the domain of another image on the same host. The
// ARQs are kept and used again; none is an error.
func (o *Operations) Rebuild(ctx context.Context, i Instance, domain []byte) error {
	return o.restart(ctx, OpRebuild, i, domain)
}

// Unrescue ends a rescue: the domain that [Operations.Rescue] returned is
// restored and started, completed where devices are missing.
func (o *Operations) Unrescue(ctx context.Context, i Instance, saved []byte) error {
	return o.restart(ctx, OpUnrescue, i, saved)
}

// SoftReboot asks the guest to power off and starts it again with its domain
// unchanged. Every ARQ must be Bound before. A guest that does not power off, or
// does not start again, is rebooted hard.
func (o *Operations) SoftReboot(ctx context.Context, i Instance) error {
	end, err := o.begin(OpSoftReboot, i)
	if err != nil {
		return err
	}
	defer end()
	accel, err := o.accelerators(ctx, i)
	if err != nil {
		return failed(OpSoftReboot, i, err)
	}
	saved, running, err := o.domain(ctx, i)
	if err != nil {
		return failed(OpSoftReboot, i, err)
	}
	if diff, err := domainxml.Diff(saved, accel.devices()); err == nil && len(diff.Missing) == 0 && running {
		if err = o.driver.Shutdown(ctx, i.guest()); err == nil {
			err = o.driver.Start(ctx, i.guest())
		}
		if err == nil {
			return nil
		}
	}
	return failed(OpSoftReboot, i, o.startWith(ctx, i, accel, nil))
}

// powerOn is restart for a guest that is off.
func (o *Operations) powerOn(ctx context.Context, op Operation, i Instance) error {
	if running, err := o.runs(ctx, op, i); err != nil || running {
		return err
	}
	return o.restart(ctx, op, i, nil)
}

// runs reports whether a guest runs, of an operation that is open.
func (o *Operations) runs(ctx context.Context, op Operation, i Instance) (bool, error) {
	end, err := o.begin(op, i)
	if err != nil {
		return false, err
	}
	defer end()
	_, running, err := o.domain(ctx, i)
	return running, failed(op, i, err)
}

// restart waits for the accelerators and starts the guest with them.
func (o *Operations) restart(ctx context.Context, op Operation, i Instance, domain []byte) error {
	end, err := o.begin(op, i)
	if err != nil {
		return err
	}
	defer end()
	accel, err := o.accelerators(ctx, i)
	if err != nil {
		return failed(op, i, err)
	}
	return failed(op, i, o.startWith(ctx, i, accel, domain))
}

// startWith starts the guest with a domain, or with the saved one, completed by
// the accelerators.
func (o *Operations) startWith(ctx context.Context, i Instance, accel accelerators, domain []byte) error {
	saved, _, err := o.domain(ctx, i)
	if err != nil {
		return err
	}
	if len(domain) == 0 {
		domain = saved
	}
	full, err := accel.complete(domain)
	if err != nil {
		return err
	}
	return o.exchange(ctx, i, saved, full)
}

// exchange forces the guest off, saves the new XML and starts it. When that
// fails the guest is off, and the old XML is saved.
func (o *Operations) exchange(ctx context.Context, i Instance, old, fresh []byte) error {
	if err := o.driver.Destroy(ctx, i.guest()); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	if !bytes.Equal(old, fresh) {
		if err := o.driver.Define(ctx, i.guest(), fresh); err != nil {
			return errors.Join(fmt.Errorf("define: %w", err), o.redefine(ctx, i, old, fresh))
		}
	}
	if err := o.driver.Start(ctx, i.guest()); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errStart, err), o.redefine(ctx, i, old, fresh))
	}
	return nil
}

// redefine restores the saved XML if there was another, whatever became of the
// caller's context. The guest may be running although its start was an error, so
// it is forced off first.
func (o *Operations) redefine(ctx context.Context, i Instance, old, fresh []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.flow.config.UnwindTimeout)
	defer cancel()
	err := o.flow.again(ctx, func(ctx context.Context) error {
		if err := o.driver.Destroy(ctx, i.guest()); err != nil || bytes.Equal(old, fresh) {
			return err
		}
		return o.driver.Define(ctx, i.guest(), old)
	})
	if err != nil {
		return fmt.Errorf("%w: the guest with its old domain could not be restored: %w", ErrLeftover, err)
	}
	return nil
}

// Rescue starts the guest with a rescue domain, and returns the one that it had,
// for [Operations.Unrescue]. The ARQs are kept and their devices stay out of the
// rescue domain, as in Nova. When the rescue domain does not start, the old one
// is saved again and the guest is off.
//
// Cyborg is asked for the devices only if the rescue domain has any host device;
// without an answer it is not told whose they are, and the rescue fails.
func (o *Operations) Rescue(ctx context.Context, i Instance, domain []byte) (saved []byte, err error) {
	end, err := o.begin(OpRescue, i)
	if err != nil {
		return nil, err
	}
	defer end()
	bare, err := o.without(ctx, i, domain)
	if err != nil {
		return nil, failed(OpRescue, i, err)
	}
	saved, _, err = o.domain(ctx, i)
	if err == nil {
		err = o.exchange(ctx, i, saved, bare)
	}
	if err != nil {
		return nil, failed(OpRescue, i, err)
	}
	return saved, nil
}

// without takes the devices of the ARQs out of a domain.
func (o *Operations) without(ctx context.Context, i Instance, domain []byte) ([]byte, error) {
	has, err := domainxml.Read(domain)
	if err != nil || len(has) == 0 || !i.accelerated() {
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
	return domainxml.Remove(domain, diff.Present)
}
