package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// Release gives back what an instance holds after its guest is gone: first its
// ARQs, with one DELETE by instance, which frees handles and mediated devices,
// then its allocation. Both are idempotent, each is tried a few times, and the
// second also when the first fails.
//
// A failure is an [*Error] that matches ErrLeftover; its Leftovers name every
// ARQ that may still be there, so that the caller can try again.
func (f *Flow) Release(ctx context.Context, instance string) error {
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	failure := &Error{Instance: instance, Step: StepUnwind}
	var record recorder
	ctx, step := record.open(ctx, StepUnwind)
	failure.Leftovers, failure.Err = f.releaseARQs(ctx, instance)
	if err := f.again(ctx, func(ctx context.Context) error { return f.placement.deleteAllocation(ctx, instance) }); err != nil {
		failure.Leftovers = append(failure.Leftovers, Leftover{Kind: "allocation", ID: instance, Err: err})
		if failure.Err == nil {
			failure.Err = err
		}
	}
	step.close("", failure.Err)
	if failure.Err == nil {
		return nil
	}
	failure.Trace = record.trace()
	return failure
}

func (f *Flow) releaseARQs(ctx context.Context, instance string) ([]Leftover, error) {
	if f.config.Compat.UnbindFirst {
		return f.unbindInstance(ctx, instance)
	}
	err := f.again(ctx, func(ctx context.Context) error { return f.cyborg.DeleteARQsForInstance(ctx, instance) })
	if err != nil {
		return f.arqsLeft(ctx, instance, err), err
	}
	return nil, nil
}

// unbindInstance unbinds all ARQs of an instance and deletes them by their
// UUIDs: unbound ones belong to no instance any more.
func (f *Flow) unbindInstance(ctx context.Context, instance string) (left []Leftover, first error) {
	arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
	if err != nil {
		return []Leftover{{Kind: "arq", ID: "of instance " + instance, Err: err}}, err
	}
	uuids := make([]string, len(arqs))
	for i, arq := range arqs {
		uuids[i] = arq.UUID
	}
	if len(uuids) == 0 {
		return nil, nil
	}
	failed := f.deleteARQs(ctx, uuids)
	for _, uuid := range uuids {
		if cause, ok := failed[uuid]; ok {
			left = append(left, Leftover{Kind: "arq", ID: uuid, Err: cause})
		}
	}
	if len(left) > 0 {
		first = left[0].Err
	}
	return left, first
}

// arqsLeft names the ARQs that an instance still has.
func (f *Flow) arqsLeft(ctx context.Context, instance string, cause error) []Leftover {
	arqs, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
	if err != nil {
		return []Leftover{{Kind: "arq", ID: "of instance " + instance, Err: cause}}
	}
	left := make([]Leftover, len(arqs))
	for i, arq := range arqs {
		left[i] = Leftover{Kind: "arq", ID: arq.UUID, Err: cause}
	}
	return left
}

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

// DefaultMinAge is how old an unbound ARQ must be before [Flow.Reconcile]
// takes it for a leftover.
const DefaultMinAge = 15 * time.Minute

// ReconcileOpts says what is alive, and how far a reconciliation may go.
type ReconcileOpts struct {
	// Living reports whether an instance exists, also one that is just being
	// built by somebody else. It is asked once per instance; an error ends the
	// reconciliation before anything is freed.
	Living func(ctx context.Context, instance string) (bool, error)
	// MinAge is the age from which an ARQ that is Initial or Unbound and belongs to
	// no instance is a leftover; 0 means DefaultMinAge. Younger ones may be between
	// creation and bind.
	MinAge time.Duration
	// DryRun finds and frees nothing.
	DryRun bool
}

// Orphan is something that no living instance owns.
type Orphan struct {
	// Kind is "arq" or "allocation".
	Kind string `json:"kind"`
	// ID is the UUID of the ARQ, or of the consumer that holds the allocation.
	ID string `json:"id"`
	// Instance is the instance that it belonged to; empty for an ARQ that was
	// never bound.
	Instance string `json:"instance,omitempty"`
	// Reason tells why it is an orphan.
	Reason string `json:"reason"`
	// Freed reports that it is gone; never in a dry run.
	Freed bool `json:"freed"`
	// Err is why it could not be freed.
	Err error `json:"-"`
}

// Reconcile finds what earlier crashes of an agent left and frees it: ARQs of
// instances that are not living, ARQs of no instance that are Initial or Unbound
// for longer than MinAge, and allocations of consumers that are not living and hold a provider of
// Cyborg's. Handles and mediated devices go with their ARQs. Attempts of this
// flow that are under way are left alone.
//
// It sees what its token sees: that of an admin, the ARQs of all projects.
// Everything is looked up before anything is freed. The error joins what could
// not be freed and matches ErrLeftover then; the orphans are returned with it.
func (f *Flow) Reconcile(ctx context.Context, opts ReconcileOpts) ([]Orphan, error) {
	if opts.Living == nil {
		return nil, fmt.Errorf("%w: reconcile: nobody tells which instances are living", ErrConfig)
	}
	if opts.MinAge == 0 {
		opts.MinAge = DefaultMinAge
	}
	r := &reconciliation{flow: f, opts: opts, living: map[string]bool{}}
	orphans, err := r.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("spawn: reconcile: %w", err)
	}
	if opts.DryRun {
		return orphans, nil
	}
	return orphans, r.free(ctx, orphans)
}

type reconciliation struct {
	flow   *Flow
	opts   ReconcileOpts
	living map[string]bool // what Living answered
}

// find lists the orphans, ARQs before the allocations that they draw on.
func (r *reconciliation) find(ctx context.Context) ([]Orphan, error) {
	arqs, err := r.orphanARQs(ctx)
	if err != nil {
		return nil, err
	}
	consumers, err := r.consumers(ctx)
	if err != nil {
		return nil, err
	}
	for _, consumer := range consumers {
		gone, err := r.gone(ctx, consumer)
		if err != nil {
			return nil, err
		}
		if gone {
			arqs = append(arqs, Orphan{
				Kind: "allocation", ID: consumer, Instance: consumer, Reason: "the consumer is no living instance and holds a provider of Cyborg's",
			})
		}
	}
	return arqs, nil
}

func (r *reconciliation) orphanARQs(ctx context.Context) ([]Orphan, error) {
	var listed cyborgclient.Call
	arqs, err := r.flow.cyborg.ListARQs(
		cyborgclient.Observe(ctx, func(call cyborgclient.Call) { listed = call }), cyborgclient.ListARQsOpts{})
	if err != nil {
		return nil, err
	}
	now := listed.Date // ages are by the server's clock
	if now.IsZero() {
		now = time.Now()
	}
	var orphans []Orphan
	for _, arq := range arqs {
		reason, err := r.orphanReason(ctx, arq, now)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			orphans = append(orphans, Orphan{Kind: "arq", ID: arq.UUID, Instance: arq.InstanceUUID, Reason: reason})
		}
	}
	return orphans, nil
}

func (r *reconciliation) orphanReason(ctx context.Context, arq cyborgclient.ARQ, now time.Time) (string, error) {
	switch {
	case r.flow.holds(arq.UUID):
		return "", nil
	case arq.InstanceUUID != "":
		gone, err := r.gone(ctx, arq.InstanceUUID)
		if gone {
			return fmt.Sprintf("%s, and instance %s is not living", arq.State, arq.InstanceUUID), err
		}
		return "", err
	case arq.State == cyborgclient.StateInitial && r.old(arq.CreatedAt, now):
		return fmt.Sprintf("Initial since %s", arq.CreatedAt.UTC().Format(time.RFC3339)), nil
	case arq.State == cyborgclient.StateUnbound && r.old(arq.UpdatedAt, now): // between unbind and the next bind
		return fmt.Sprintf("Unbound since %s", arq.UpdatedAt.UTC().Format(time.RFC3339)), nil
	}
	return "", nil
}

func (r *reconciliation) old(since cyborgclient.Time, now time.Time) bool {
	return !since.IsZero() && now.Sub(since.Time) >= r.opts.MinAge
}

// gone reports whether an instance is neither living nor being given its
// accelerators by this flow.
func (r *reconciliation) gone(ctx context.Context, instance string) (bool, error) {
	if r.flow.busyWith(instance) {
		return false, nil
	}
	living, known := r.living[instance]
	if !known {
		var err error
		if living, err = r.opts.Living(ctx, instance); err != nil {
			return false, fmt.Errorf("is instance %s living: %w", instance, err)
		}
		r.living[instance] = living
	}
	return !living, nil
}

// consumers lists, sorted, who holds something of a provider of Cyborg's.
func (r *reconciliation) consumers(ctx context.Context) ([]string, error) {
	deployables, err := r.flow.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, deployable := range deployables {
		consumers, err := r.flow.placement.consumersOf(ctx, deployable.RPUUID)
		if err != nil {
			return nil, err
		}
		for _, consumer := range consumers {
			found[consumer] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// free frees each orphan; one that cannot be freed does not keep the others
// from it.
func (r *reconciliation) free(ctx context.Context, orphans []Orphan) error {
	var errs []error
	for i := range orphans {
		orphan := &orphans[i]
		orphan.Err = r.flow.again(ctx, func(ctx context.Context) error {
			if orphan.Kind == "arq" {
				return r.flow.cyborg.DeleteARQs(ctx, []string{orphan.ID})
			}
			return r.flow.placement.deleteAllocation(ctx, orphan.ID)
		})
		orphan.Freed = orphan.Err == nil
		if orphan.Err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", orphan.Kind, orphan.ID, orphan.Err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("spawn: reconcile: %w: %w", ErrLeftover, errors.Join(errs...))
}
