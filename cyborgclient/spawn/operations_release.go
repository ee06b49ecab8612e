package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Delete removes an instance: guest, ARQs (which frees handles and mediated
// devices), allocation, in this order. When the guest cannot be destroyed, which
// is tried a few times, nothing is freed, because it may still use its devices. After that the rest is
// done whatever fails, and also when the caller's context ends; what could not
// be freed is named in the [*Error], and Delete may be called again.
func (o *Operations) Delete(ctx context.Context, i Instance) error {
	return o.remove(ctx, OpDelete, i)
}

// ShelveOffload removes the guest of a shelved instance from its host and frees
// its ARQs and allocation, as [Operations.Delete]; [Operations.Unshelve] gets
// others.
func (o *Operations) ShelveOffload(ctx context.Context, i Instance) error {
	return o.remove(ctx, OpShelveOffload, i)
}

// LocalDelete frees ARQs and allocation of an instance whose host is down, or
// which is on none: the guest is not looked for. The host may only come back with
// its guests removed, as nova-compute does at its start.
func (o *Operations) LocalDelete(ctx context.Context, i Instance) error {
	end, err := o.begin(OpLocalDelete, i)
	if err != nil {
		return err
	}
	defer end()
	return o.release(ctx, i)
}

func (o *Operations) remove(ctx context.Context, op Operation, i Instance) error {
	end, err := o.begin(op, i)
	if err != nil {
		return err
	}
	defer end()
	if err := o.flow.again(ctx, func(ctx context.Context) error { return o.driver.Destroy(ctx, i.guest()) }); err != nil {
		return failed(op, i, fmt.Errorf("destroy the guest: %w", err))
	}
	if err := o.flow.again(ctx, func(ctx context.Context) error { return o.driver.Undefine(ctx, i.guest()) }); err != nil {
		return failed(op, i, fmt.Errorf("undefine the guest: %w", err))
	}
	return o.release(ctx, i)
}

// release frees what an instance holds and reports everything that is left. The
// error is a [*Error].
func (o *Operations) release(ctx context.Context, i Instance) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.flow.config.UnwindTimeout)
	defer cancel()
	var record recorder
	ctx, step := record.open(ctx, StepUnwind)
	failure := &Error{Instance: i.UUID, Step: StepUnwind, Err: errors.New("not everything could be freed")}
	o.releaseARQs(ctx, i, failure)
	err := o.flow.again(ctx, func(ctx context.Context) error { return o.flow.placement.deleteAllocation(ctx, i.UUID) })
	if err != nil {
		failure.Leftovers = append(failure.Leftovers, Leftover{Kind: "allocation", ID: i.UUID, Err: err})
	} else {
		failure.Undone = append(failure.Undone, "allocation "+i.UUID)
	}
	if len(failure.Leftovers) == 0 {
		return nil
	}
	step.close("", failure.Err)
	failure.Trace = record.trace()
	return failure
}

// releaseARQs deletes first by instance, then those of ports by UUID, as Nova
// does (nova/accelerator/cyborg.py, delete_arqs_if_needed).
func (o *Operations) releaseARQs(ctx context.Context, i Instance, failure *Error) {
	if i.hasProfile() {
		left, err := o.flow.releaseARQs(ctx, i.UUID)
		if err != nil && len(left) > 0 {
			failure.Leftovers = append(failure.Leftovers, named(left, i)...)
			return
		}
		failure.Undone = append(failure.Undone, "arqs of instance "+i.UUID)
	}
	ports := i.portARQUUIDs()
	if len(ports) == 0 {
		return
	}
	gone := o.flow.deleteARQs(ctx, ports)
	for _, uuid := range ports {
		if err, left := gone[uuid]; left {
			failure.Leftovers = append(failure.Leftovers, Leftover{Kind: "arq", ID: uuid, Err: err})
			continue
		}
		failure.Undone = append(failure.Undone, "arq "+uuid)
	}
}

// portARQUUIDs are the ARQs of the ports, sorted.
func (i Instance) portARQUUIDs() []string {
	var uuids []string
	for uuid := range i.portARQs() {
		uuids = append(uuids, uuid)
	}
	slices.Sort(uuids)
	return uuids
}

// named lists the ARQs that an instance is known to have had, where Cyborg does
// not tell which are left.
func named(left []Leftover, i Instance) []Leftover {
	if len(left) != 1 || len(i.ARQs) == 0 || uuidPattern.MatchString(left[0].ID) {
		return left
	}
	list := make([]Leftover, len(i.ARQs))
	for n, uuid := range i.ARQs {
		list[n] = Leftover{Kind: "arq", ID: uuid, Err: left[0].Err}
	}
	return list
}
