package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
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
// can try again. Nothing is given back, and the error matches ErrRequest, if the instance has
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
	return run(ctx, &remover{flow: f, journal: journal, record: f.newRecorder(i.UUID, i.Host), instance: i})
}

// Delete removes an instance: guest, ARQs (which frees handles and mediated
// devices), allocation, in this order. When the guest cannot be destroyed, after
// some retries, nothing is freed, because the guest may still use its devices, and the
// error, which matches ErrLeftover, names the guest and what it keeps. The
// rest is done whatever fails, also when the caller's context ends after it has begun to
// destroy the guest; what could not be freed is named in the [*Error], and Delete may be
// called again.
//
// An instance that was moved since, which the caller may not know, has a guest with its ARQs, or its
// resources, on another host: nothing is done, and the error matches ErrRequest and names that host. A guest
// on a host from which it was evacuated, with an ARQ that is older than those on its own host,
// is left with that ARQ, and the error, which matches ErrLeftover, names both. So is a guest on another host of
// an instance without ARQs that holds resources of both hosts, as after an evacuation that could not give up the
// old one, with its part of the allocation. Delete with that host removes them. Where the allocation tells where the
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
		p, err := o.notMoved(ctx, i)
		if err != nil {
			return err
		}
		ctx, cancel := o.flow.detached(ctx)
		defer cancel()
		r.impatient = true
		r.take(p)
		return r.cleanUp(ctx, notReleased, r.isOwn)
	})
}

// remove removes the guest, and then what it has used.
func (o *Operations) remove(ctx context.Context, r *remover) error {
	i := r.instance
	p, err := o.notMoved(ctx, i)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	r.take(p)
	guest := r.journal.Take(&ledger.Effect{Kind: ledger.Guest, ID: i.UUID, Host: i.Host, Holds: r.journal.Numbers()})
	r.destroy = func(ctx context.Context, _ *ledger.Effect) error { return o.removeGuest(ctx, i) }
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

// possessions are what an instance has, as it was read before a deletion.
type possessions struct {
	arqs     []cyborgclient.ARQ
	unlisted error                 // Cyborg does not list the ARQs
	old      map[string]string     // ARQs that are left to a guest of before an evacuation: its host
	held     *placement.Allocation // where the instance is according to Placement; nil: its ARQs show it, or Placement was not asked
	nowhere  error                 // Placement did not answer: the allocation may be a guest's on another host
	guests   []string              // other hosts with a guest, which may use the allocation
	unused   placement.Resources   // what these cannot use
}

// take adds what an instance has to the journal: its known ARQs and those
// of its ports, too. Nova deletes by instance only those of a flavor
// (nova/accelerator/cyborg.py, delete_arqs_if_needed), and leaks the ARQ of a port whose
// binding profile Neutron has cleared.
func (r *remover) take(p possessions) {
	uuid := r.instance.UUID
	var used []int // of the allocation, by guests on other hosts
	switch {
	case len(p.guests) > 0:
		part := &ledger.Effect{Kind: ledger.Part, ID: uuid, Amount: &ledger.Amount{Added: placement.Subtract(p.held.Resources, p.unused)}}
		used = []int{r.journal.Take(part).Seq}
		r.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: uuid, Amount: &ledger.Amount{Added: p.unused}})
	case p.held != nil:
		r.takeConsumer(*p.held)
	default:
		r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: uuid, Amount: &ledger.Amount{}})
	}
	if p.nowhere != nil {
		r.confirm = func(context.Context) (bool, error) { return false, p.nowhere }
	}
	if p.unlisted != nil {
		r.journal.Take(&ledger.Effect{Kind: ledger.Listed, ID: uuid})
	}
	r.takeARQs(p.arqs)
	known := slices.AppendSeq(slices.Clone(r.instance.ARQs), maps.Keys(r.instance.portARQs()))
	slices.Sort(known)
	for _, arq := range slices.Compact(known) {
		if r.journal.Find(ledger.ARQ, arq) == nil {
			r.journal.Take(&ledger.Effect{Kind: ledger.ARQ, ID: arq, ARQ: &cyborgclient.ARQ{UUID: arq}, Guard: ledger.Handed})
		}
	}
	for _, host := range p.guests {
		r.takeGuest(host, fmt.Errorf("on host %s; the instance was evacuated from there, or is there", host), used...)
	}
	for _, host := range slices.Compact(slices.Sorted(maps.Values(p.old))) {
		var arqs []int
		for arq, of := range p.old {
			if of == host {
				arqs = append(arqs, r.journal.Find(ledger.ARQ, arq).Seq)
			}
		}
		r.takeGuest(host, fmt.Errorf("on host %s, from before an evacuation", host), arqs...)
	}
}

// takeConsumer adds the allocation that was read, if there is one, and returns its numbers.
func (r *remover) takeConsumer(held placement.Allocation) []int {
	if len(held.Resources) == 0 {
		return nil
	}
	e := r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: r.instance.UUID, Amount: &ledger.Amount{Added: held.Resources, Generation: held.Generation}})
	return []int{e.Seq}
}

// takeGuest adds a guest on another host, which stays with what it uses.
func (r *remover) takeGuest(host string, why error, uses ...int) {
	guest := r.journal.Take(&ledger.Effect{Kind: ledger.Guest, ID: r.instance.UUID, Host: host, Holds: uses})
	r.journal.Settle(guest, ledger.Left, why)
}

// notMoved returns an error if an instance has ARQs on another host than its own, and a guest
// there: the deletion would free the devices of that guest. It returns what the instance has. Without such ARQs Placement tells where
// the instance is, and of an instance without a host whether one that does not answer may be that from which it
// was evacuated. Nor may ARQs be hidden from the token.
func (o *Operations) notMoved(ctx context.Context, i Instance) (p possessions, moved error) {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	p.arqs, p.unlisted = o.flow.instanceARQs(ctx, i.UUID)
	p.old, moved = o.oldGuests(ctx, i, p.arqs, nil)
	isSilent := i.Host == "" && moved != nil && !errors.Is(moved, ErrRequest)
	isTold := slices.ContainsFunc(p.arqs, func(arq cyborgclient.ARQ) bool { return mayHaveGuest(arq.State) })
	if isSilent || moved == nil && !isTold {
		moved = o.heldElsewhere(ctx, i, &p)
	}
	if moved == nil && len(p.arqs) == 0 {
		moved = o.flow.refuseHidden(ctx, i)
	}
	return p, moved
}

// heldElsewhere returns an error if an instance holds resources of other hosts, and none of its own: it was
// moved, or is moved just now. Of one without a host the guests there tell. One that holds resources of several hosts,
// as after an evacuation that could not give up the old one, may be on any with a guest: those on others than its own
// are left, with what they may use, unless its own does not answer. Without an answer of Placement that is not known.
func (o *Operations) heldElsewhere(ctx context.Context, i Instance, p *possessions) (moved error) {
	allocation, held, err := o.flow.heldHosts(ctx, i.UUID)
	if p.nowhere = err; err != nil {
		return nil
	}
	if p.held = &allocation; len(held) == 0 {
		return nil
	}
	hosts := slices.Compact(slices.Sorted(maps.Values(held)))
	isHere := slices.ContainsFunc(hosts, i.isOn)
	if i.Host != "" && !isHere {
		return fmt.Errorf("%w: the instance is not on host %s: its allocation is on host %s", ErrRequest, i.Host, hosts[0])
	}
	for _, host := range slices.DeleteFunc(hosts, i.isOn) {
		answer := o.guestOn(ctx, i, host)
		switch {
		case answer == nil && isHere && o.answers(ctx, i):
			p.guests = append(p.guests, host)
		case answer == nil:
			return fmt.Errorf("%w: the instance has a guest on host %s", ErrRequest, host)
		case !isHere && !errors.Is(answer, ErrNoGuest):
			return fmt.Errorf("ask for the guest on host %s, of which the instance holds resources: %w", host, answer)
		}
	}
	p.unused = placement.Resources{}
	for provider, host := range held {
		if !slices.Contains(p.guests, host) {
			p.unused[provider] = allocation.Resources[provider]
		}
	}
	return nil
}

// answers reports whether the host of an instance tells if its guest is there.
func (o *Operations) answers(ctx context.Context, i Instance) bool {
	err := o.guestOn(ctx, i, i.Host)
	return err == nil || errors.Is(err, ErrNoGuest)
}

// guestOn returns no error if an instance has a guest on a host.
func (o *Operations) guestOn(ctx context.Context, i Instance, host string) error {
	i.Host = host
	_, _, err := o.hypervisor.Domain(ctx, i)
	return err
}

// heldHosts returns what an instance holds, and the names of the compute nodes of that, by provider.
func (f *Flow) heldHosts(ctx context.Context, instance string) (held placement.Allocation, hosts map[string]string, err error) {
	err = f.retry(ctx, func(ctx context.Context) (err error) {
		if held, err = f.placement.Allocation(ctx, instance); err == nil {
			hosts, err = f.hostsOf(ctx, held.Resources)
		}
		return err
	})
	return held, hosts, err
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

func (o *Operations) removeGuest(ctx context.Context, i Instance) error {
	if err := o.hypervisor.Destroy(ctx, i); err != nil {
		return fmt.Errorf("destroy the guest: %w", err)
	}
	if err := o.hypervisor.Undefine(ctx, i); err != nil {
		return fmt.Errorf("undefine the guest: %w", err)
	}
	return nil
}
