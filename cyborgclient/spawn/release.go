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

// Release gives back what an instance holds after its guest was deleted: first its
// ARQs, which frees handles and mediated devices, then its allocation. Both are
// idempotent and retried, and the second is done also when the first fails. Unlike
// Nova it deletes ARQs by UUID: a request by instance that arrives late would delete
// those that the instance has got since.
//
// A failure is an [*Error] that matches ErrLeftover; its Leftovers name every ARQ
// that may still exist, or the instance if Cyborg does not list them, so that the caller
// can try again. Nothing is given back, and the error matches ErrHidden, if the instance has
// accelerators and is of another project than the token, which has no role admin: Cyborg hides its ARQs.
// An ARQ of another project than the instance's, as Nova's evacuation by an administrator makes, is found with
// the role admin only.
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

// operate runs an operation on an instance, alone. The error matches ErrRequest for a bad UUID.
func (f *Flow) operate(ctx context.Context, i Instance, run func(ctx context.Context, r *remover) error) error {
	if err := checkUUID("instance", i.UUID); err != nil {
		return err
	}
	journal, err := f.open(ctx, i.UUID)
	if err != nil {
		return err
	}
	defer journal.End()
	return run(ctx, &remover{flow: f, journal: journal, record: f.newRecorder(i.UUID, i.Host), instance: i, mdevs: f.mdevCreator()})
}

// Delete removes an instance: guest, ARQs (which frees handles and mediated
// devices), allocation, in this order. When the guest cannot be destroyed, after
// some retries, nothing is freed, because the guest may still use its devices, and the
// error, which matches ErrLeftover, names the guest and what it keeps. The
// rest is done whatever fails, also when the caller's context ends after it has begun to
// destroy the guest; what could not be freed is named in the [*Error], and Delete may be
// called again.
//
// Of an instance that was moved since, which the caller may not know, nothing is done: the error is a [*MovedError]. Each other host on
// which it has ARQs or resources is asked for its guest. One of before an evacuation, whose ARQs are older than those on the instance's own
// host, or, without ARQs, that has a part of the allocation beside the own host's, is left with these, and the error, which
// matches ErrLeftover, names all. Delete with that host removes them. Where the allocation tells where the
// instance is, one that another agent has written since is left, and named as not certain. So is an ARQ that another
// agent has bound on another host since.
//
// An instance with accelerators of another project than the token's needs a token with the role admin, as
// for [Flow.Release]. Without such a token an ARQ of Instance.ARQs or of a port that Cyborg answers not to know is named as
// left, if neither an allocation nor Instance.ProjectID tells that the instance is of the token's project.
func (o *Operations) Delete(ctx context.Context, i Instance) error {
	return o.do(ctx, OpDelete, i, o.remove)
}

// ShelveOffload removes the guest of a shelved instance from its host and frees its
// ARQs and allocation, as [Operations.Delete] does; [Operations.Unshelve] creates
// new ones.
func (o *Operations) ShelveOffload(ctx context.Context, i Instance) error {
	return o.do(ctx, OpShelveOffload, i, o.remove)
}

// LocalDelete frees ARQs and allocation of an instance without a host, or whose host
// is down. It does not touch the guest: when the host comes back, the guest must be
// removed first, as nova-compute does at its start. A guest on another host is one of an
// instance that was moved, or is left from before: see [Operations.Delete]. So is one on a host of which an
// instance without a host holds resources, as after an Unshelve.
//
// No released Cyborg deletes an ARQ with a mediated device while the agent of its host is
// down. LocalDelete frees the rest and returns an error that matches ErrLeftover and names
// the ARQ; call it again, or Reconcile, when the host is back. Nova forgets it.
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

// remove removes the guest, and then what it has used.
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
	var failure *Error
	if guest.Pending() && errors.As(err, &failure) {
		failure.Err = errors.New("nothing is freed before the guest is removed")
	}
	return err
}

// isOwn leaves out the guests on other hosts.
func (r *remover) isOwn(e *ledger.Effect) bool {
	return e.Kind != ledger.Guest || e.Host == r.instance.Host
}

// take adds what an instance has to the journal: its known ARQs and those
// of its ports, too. Nova deletes by instance only those of a flavor
// (nova/accelerator/cyborg.py, delete_arqs_if_needed), and leaks the ARQ of a port whose
// binding profile Neutron has cleared.
func (r *remover) take(s *sight) {
	uuid := r.instance.UUID
	var used []int // the part of the allocation that guests of before an evacuation use
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
	known := slices.AppendSeq(slices.Clone(r.instance.ARQs), maps.Keys(r.instance.portARQs()))
	slices.Sort(known)
	for _, arq := range slices.Compact(known) {
		if r.journal.Find(ledger.ARQ, arq) == nil {
			r.journal.Take(&ledger.Effect{Kind: ledger.ARQ, ID: arq, ARQ: &cyborgclient.ARQ{UUID: arq}, Guard: ledger.Handed})
		}
	}
	for _, host := range s.Judged(holding.Kept) {
		r.takeGuest(host, append(r.numbers(s.In(host)), used...))
	}
}

// numbers returns the numbers of the effects that ARQs have in the journal.
func (r *remover) numbers(arqs []cyborgclient.ARQ) []int {
	numbers := make([]int, len(arqs))
	for n, arq := range arqs {
		numbers[n] = r.journal.Find(ledger.ARQ, arq.UUID).Seq
	}
	return numbers
}

// takeConsumer adds the allocation that was read, if there is one, and returns its numbers.
func (r *remover) takeConsumer(held placement.Allocation) []int {
	if len(held.Resources) == 0 {
		return nil
	}
	e := r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: r.instance.UUID, Amount: &ledger.Amount{Added: held.Resources, Generation: held.Generation}})
	return []int{e.Seq}
}

// takeGuest adds the guest of before an evacuation, which stays with what it uses.
func (r *remover) takeGuest(host string, uses []int) {
	guest := r.journal.Take(&ledger.Effect{Kind: ledger.Guest, ID: r.instance.UUID, Host: host, Holds: uses})
	r.journal.Settle(guest, ledger.Left, fmt.Errorf("on host %s, from before an evacuation", host))
}

// whole looks at an instance that is to be removed. It is an error if it is not where the caller has it, or if Cyborg may hide ARQs.
func (o *Operations) whole(ctx context.Context, i Instance) (*sight, error) {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	s := o.look(ctx, i, nil, nil)
	if host, moved := s.Elsewhere(); moved { // or is moved just now
		return nil, &MovedError{Host: host, Why: "all that it holds in Placement"}
	}
	err := s.moved()
	if err == nil && len(s.ARQs) == 0 {
		err = o.flow.refuseHidden(ctx, i)
	}
	return s, err
}

// hostsOf returns the names of the compute nodes of resources by provider. Those of a flavor may be devices only. A
// provider that shares its inventory with other trees, such as one of disks, is of none.
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
