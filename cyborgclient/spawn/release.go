package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Release releases the resources of an instance after its guest was deleted: first its ARQs, which frees handles and
// mediated devices, then its allocation. Both are idempotent and retried, and the allocation is released even if the
// ARQs could not be deleted. Unlike Nova, Release deletes ARQs by UUID: a delayed request by instance would delete
// ARQs that the instance got later.
//
// A failure is an [*Error] that matches ErrLeftover. Its Leftovers list every ARQ that may still exist, or the
// instance if Cyborg does not list its ARQs; the caller can try again. If the instance has accelerators and belongs
// to another project than the token, which lacks the role admin, nothing is released and the error matches ErrHidden,
// because Cyborg hides its ARQs. An ARQ in another project than the instance's, as Nova's evacuation by an
// administrator creates, is found only with the role admin.
func (f *Flow) Release(ctx context.Context, instance string) error {
	i := Instance{UUID: instance}
	return f.operate(ctx, i, func(ctx context.Context, r *remover) error {
		if err := f.refuseHidden(ctx, i); err != nil {
			return &Error{Instance: instance, Err: err}
		}
		r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: instance, Amount: &ledger.Amount{}})
		r.journal.Take(&ledger.Effect{Kind: ledger.Listed, ID: instance})
		return r.cleanUp(ctx, notReleased, nil)
	})
}

const notReleased = "not everything could be released"

// operate runs an operation under the lock of an instance. The error matches ErrRequest for an invalid UUID.
func (f *Flow) operate(ctx context.Context, i Instance, run func(ctx context.Context, r *remover) error) error {
	if err := checkUUID("instance", i.UUID); err != nil {
		return err
	}
	journal, err := f.open(ctx, i.UUID)
	if err != nil {
		return err
	}
	defer journal.End()
	return run(ctx, f.newRemover(journal, i))
}

// Delete removes an instance: guest, ARQs (which frees handles and mediated devices), allocation, in this order. If
// the guest cannot be destroyed after some retries, nothing is freed, because the guest may still use its devices,
// and the error, which matches ErrLeftover, lists the guest and its resources. All other steps are performed even if
// one fails, and also if the caller's context ends after the guest began to be destroyed. The [*Error] lists what
// could not be freed; Delete may be called again.
//
// If the instance was moved without the caller's knowledge, nothing is done: the error is a [*MovedError]. Each other
// host on which the instance has ARQs or resources is asked for its guest. A guest from before an evacuation is kept
// with its resources, and the error, which matches ErrLeftover, lists them; Delete with that host removes them. Such
// a guest has ARQs that are older than the ARQs on the instance's host, or, without ARQs, holds a part of the
// allocation in addition to the part on the instance's host.
//
// If the allocation was needed to find the host of the instance, an allocation that another agent has written since
// is not removed, and is listed as not certain. The same applies to an ARQ that another agent has bound on another
// host since.
//
// An instance with accelerators that belongs to another project than the token's needs a token with the role admin,
// as for [Flow.Release]. Without such a token an ARQ of Instance.ARQs or of a port for which Cyborg answers 404 is
// listed as a leftover, unless an allocation or Instance.ProjectID shows that the instance belongs to the token's
// project.
func (o *Operations) Delete(ctx context.Context, i Instance) error {
	return o.do(ctx, OpDelete, i, o.remove)
}

// ShelveOffload removes the guest of a shelved instance from its host and frees its ARQs and allocation, as
// [Operations.Delete] does; [Operations.Unshelve] creates new ones.
func (o *Operations) ShelveOffload(ctx context.Context, i Instance) error {
	return o.do(ctx, OpShelveOffload, i, o.remove)
}

// LocalDelete frees ARQs and allocation of an instance without a host, or whose host is down. It does not touch the
// guest: when the host is back, the guest must be removed first, as nova-compute does when it starts. A guest on
// another host means that the instance was moved, or is a guest from before an evacuation: see [Operations.Delete].
// The same applies to a guest on a host whose resources an instance without a host holds, as after an Unshelve.
//
// No released Cyborg deletes an ARQ with a mediated device while the agent of its host is down. LocalDelete frees the
// rest and returns an error that matches ErrLeftover and lists the ARQ; call it again, or Reconcile, when the host is
// back. Nova ignores the ARQ.
func (o *Operations) LocalDelete(ctx context.Context, i Instance) error {
	return o.do(ctx, OpLocalDelete, i, func(ctx context.Context, r *remover) error {
		s, err := o.whole(ctx, i)
		if err != nil {
			return err
		}
		ctx, cancel := o.flow.detached(ctx)
		defer cancel()
		r.impatient = true
		r.take(s)
		return r.cleanUp(ctx, notReleased, r.isOwn)
	})
}

// remove removes the guest, and then its resources.
func (o *Operations) remove(ctx context.Context, r *remover) error {
	i := r.instance
	s, err := o.whole(ctx, i)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	r.take(s)
	if i.Host == "" { // no host has a guest, or s would name it
		return r.cleanUp(ctx, notReleased, r.isOwn)
	}
	guest := r.journal.Take(&ledger.Effect{Kind: ledger.Guest, ID: i.UUID, Host: i.Host, Holds: r.journal.Numbers()})
	r.isThere = func(ctx context.Context) (bool, error) { return o.guestOn(ctx, i, i.Host) == nil, nil }
	err = r.cleanUp(ctx, notReleased, r.isOwn)
	if failure, ok := errors.AsType[*Error](err); ok && guest.Pending() {
		failure.Err = errors.New("nothing is freed before the guest is removed")
	}
	return err
}

// isOwn reports whether an effect is not a guest on another host.
func (r *remover) isOwn(e *ledger.Effect) bool {
	return e.Kind != ledger.Guest || e.Host == r.instance.Host
}

// take adds the resources of an instance to the journal, including the ARQs in Instance and of its ports. Nova
// deletes by instance only the ARQs of a flavor (nova/accelerator/cyborg.py, delete_arqs_if_needed), and leaks the
// ARQ of a port whose binding profile Neutron has cleared.
func (r *remover) take(s *sight) {
	uuid := r.instance.UUID
	var used []int // the part of the allocation that guests from before an evacuation use
	switch unused := s.Unused(); {
	case s.Held == nil:
		r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: uuid, Amount: &ledger.Amount{}})
	case len(s.Judged(holding.Kept)) > 0 && !placement.Equal(unused, s.Held):
		part := &ledger.Effect{Kind: ledger.Part, ID: uuid, Amount: &ledger.Amount{Added: placement.Subtract(s.Held, unused)}}
		used = []int{r.journal.Take(part).Seq}
		r.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: uuid, Amount: &ledger.Amount{Added: unused}})
	default:
		r.takeConsumer(s.allocation)
	}
	if !s.Told() && s.unread != nil {
		r.confirm = func(context.Context) (bool, error) { return false, s.unread }
	}
	if s.unlisted != nil {
		r.journal.Take(&ledger.Effect{Kind: ledger.Listed, ID: uuid})
	}
	r.takeARQs(s.ARQs)
	known := slices.Clone(r.instance.ARQs)
	for _, port := range r.instance.Ports {
		known = append(known, port.ARQ())
	}
	slices.Sort(known)
	for _, arq := range known {
		if arq != "" && r.journal.Find(ledger.ARQ, arq) == nil {
			r.journal.Take(&ledger.Effect{Kind: ledger.ARQ, ID: arq, ARQ: &cyborgclient.ARQ{UUID: arq}, Guard: ledger.Handed})
		}
	}
	for _, host := range s.Judged(holding.Kept) {
		uses := slices.Clone(used)
		for _, arq := range s.In(host) {
			uses = append(uses, r.journal.Find(ledger.ARQ, arq.UUID).Seq)
		}
		guest := r.journal.Take(&ledger.Effect{Kind: ledger.Guest, ID: uuid, Host: host, Holds: uses})
		r.journal.Settle(guest, ledger.Left, fmt.Errorf("on host %s, from before an evacuation", host))
	}
}

// takeConsumer adds the allocation, if there is one, and returns its sequence number in the journal.
func (r *remover) takeConsumer(held placement.Allocation) []int {
	if len(held.Resources) == 0 {
		return nil
	}
	e := r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: r.instance.UUID, Amount: &ledger.Amount{Added: held.Resources, Generation: held.Generation}})
	return []int{e.Seq}
}

// whole returns the state of an instance to be removed. It returns an error if the instance is not where the caller
// expects it, or if Cyborg may hide ARQs.
func (o *Operations) whole(ctx context.Context, i Instance) (*sight, error) {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	s := o.look(ctx, i, nil, nil)
	if host, moved := s.Elsewhere(); moved { // or is being moved
		return nil, &MovedError{Host: host, Why: "all that it holds in Placement"}
	}
	err := s.moved()
	if err == nil && len(s.ARQs) == 0 {
		err = o.flow.refuseHidden(ctx, i)
	}
	return s, err
}

// hostsOf returns the compute node names of resources, by provider. Providers that share their inventory with other
// trees, such as shared disk, are skipped. A device provider may be the only one on its host, if the flavor requests
// nothing else.
func (f *Flow) hostsOf(ctx context.Context, held placement.Resources) (map[string]string, error) {
	hosts := make(map[string]string, len(held))
	nodes := placement.NodeProviders(held)
	for _, provider := range slices.Sorted(maps.Keys(held)) {
		if !slices.Contains(nodes, provider) {
			traits, err := f.placement.Traits(ctx, provider)
			if err != nil {
				return nil, err
			}
			if slices.Contains(traits, placement.TraitShares) {
				continue
			}
		}
		host, err := f.placement.HostName(ctx, provider)
		if err != nil {
			return nil, err
		}
		hosts[provider] = host
	}
	return hosts, nil
}
