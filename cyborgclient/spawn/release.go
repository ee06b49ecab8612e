package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// cleanup collects what was given back and what could not be.
type cleanup struct {
	undone   []string
	left     []left     // the attempt's, or the instance's: the next unwinding tries again
	suspects []Leftover // another client's, perhaps, or may still appear: not touched

	foreign error // names ARQs that are left alone, because they are another instance's

	reported int        // how many of undone the observers know
	told     []Leftover // those that they know
}

// left is a leftover, and the look that reads whether it exists; nil: the look of its kind.
type left struct {
	Leftover
	look look
}

// look reads whether something exists.
type look func(ctx context.Context) (exists bool, err error)

// wasSeen is the look at what was read after the last request that could have changed it.
func wasSeen(context.Context) (exists bool, err error) { return true, nil }

// add adds one thing: undone, or left behind with the error, again or for the first time.
func (c *cleanup) add(kind LeftoverKind, id string, err error) {
	if err != nil {
		c.keep(Leftover{Kind: kind, ID: id, Err: err}, nil)
		return
	}
	c.drop(kind, id)
	c.undone = append(c.undone, string(kind)+" "+id)
}

// keep adds a leftover to try again, or replaces the leftover about the same thing.
func (c *cleanup) keep(l Leftover, at look) {
	c.remove(l)
	c.left = append(c.left, left{l, at})
}

// suspect adds a leftover that is not touched, or replaces the leftover about the same thing.
func (c *cleanup) suspect(l Leftover) {
	c.remove(l)
	c.suspects = append(c.suspects, l)
}

func (c *cleanup) remove(l Leftover) { c.removeFunc(l.same) }

// drop removes a thing from those left behind.
func (c *cleanup) drop(kind LeftoverKind, id string) {
	c.removeFunc(func(l Leftover) bool { return l.Kind == kind && l.ID == id })
}

func (c *cleanup) removeFunc(remove func(Leftover) bool) {
	c.left = slices.DeleteFunc(slices.Clone(c.left), func(l left) bool { return remove(l.Leftover) })
	c.suspects = slices.DeleteFunc(slices.Clone(c.suspects), remove)
}

// leftovers returns both.
func (c *cleanup) leftovers() []Leftover {
	var all []Leftover
	for _, l := range c.left {
		all = append(all, l.Leftover)
	}
	return append(all, c.suspects...)
}

// arqs are the ARQs to try again.
func (c *cleanup) arqs() []string {
	var uuids []string
	for _, l := range c.left {
		if l.Kind == LeftoverARQ {
			uuids = append(uuids, l.ID)
		}
	}
	return uuids
}

// errorOf is why a thing was left behind.
func (c *cleanup) errorOf(kind LeftoverKind, id string) error {
	for _, l := range c.left {
		if l.Kind == kind && l.ID == id {
			return l.Err
		}
	}
	return nil
}

// had reports whether an ARQ was given back, or could not be.
func (c *cleanup) had(arq string) bool {
	return slices.Contains(c.undone, string(LeftoverARQ)+" "+arq) || slices.Contains(c.arqs(), arq)
}

// addARQs adds ARQs of which some could not be deleted.
func (c *cleanup) addARQs(uuids []string, failed map[string]error) {
	for _, uuid := range uuids {
		c.add(LeftoverARQ, uuid, failed[uuid])
	}
}

// addAll adds what an instance has, which could not be read.
func (c *cleanup) addAll(instance string, err error) {
	c.add(LeftoverARQs, instance, err)
	c.add(LeftoverAllocation, instance, err)
}

// cleanUp gives things back as one step. If something is left behind, the error is an
// [*Error] with the given cause, or that of the ARQs of others.
func (r *recorder) cleanUp(ctx context.Context, cause string, work func(ctx context.Context, c *cleanup)) error {
	ctx, end := r.open(ctx, StepUnwind)
	var c cleanup
	work(ctx, &c)
	r.look(ctx, &c)
	leftovers := c.leftovers()
	r.reportUndone(ctx, &c)
	r.reportLeft(ctx, &c)
	end(fmt.Sprintf("%d undone, %d left behind", len(c.undone), len(leftovers)), nil)
	if len(leftovers) == 0 && c.foreign == nil {
		return nil
	}
	err := c.foreign
	if err == nil {
		err = errors.New(cause)
	}
	return &Error{
		Instance: r.instance, Step: StepUnwind, Err: err, Undone: c.undone, Leftovers: leftovers, Trace: r.trace(),
	}
}

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
	if err := checkUUID("instance", instance); err != nil {
		return err
	}
	i := Instance{UUID: instance}
	if err := f.refuseHidden(ctx, i); err != nil {
		return &Error{Instance: instance, Err: err}
	}
	return f.release(ctx, i, deletion{})
}

// deletion says how the ARQs of an instance are deleted.
type deletion struct {
	deadHost bool                  // Cyborg cannot reach the agent
	unlisted error                 // Cyborg does not list them: none is deleted
	old      map[string]string     // ARQs that are left to a guest of before an evacuation: its host
	nowhere  error                 // Placement does not tell where the instance is: the allocation may be that of a guest elsewhere
	guests   []string              // other hosts with a guest, which may use the allocation
	unused   map[string]bool       // but for these providers
	held     *placement.Allocation // where the instance is was told by it; nil: by its ARQs, or not asked for
	seen     map[string]bool       // ARQs of the instance that were checked; nil: none were
	mdevs    MdevCreator           // of their mediated devices; nil: what it has made stays
}

// release deletes first the ARQs that Cyborg lists of the instance, its known ones and those
// of its ports, then the allocation. Nova deletes by instance only those of a flavor
// (nova/accelerator/cyborg.py, delete_arqs_if_needed), and leaks the ARQ of a port whose
// binding profile Neutron has cleared. The error is an [*Error].
func (f *Flow) release(ctx context.Context, i Instance, how deletion) error {
	record := f.newRecorder(i.UUID, i.Host)
	return record.cleanUp(ctx, "not everything could be released", func(ctx context.Context, c *cleanup) {
		if hosts := slices.Compact(slices.Sorted(maps.Values(how.old))); len(hosts) > 0 {
			guest := Leftover{Kind: LeftoverGuest, ID: i.UUID, Err: fmt.Errorf("on host %s, from before an evacuation", strings.Join(hosts, ", "))}
			c.keep(guest, wasSeen)
		}
		f.releaseARQs(ctx, i, how, c)
		record.reportUndone(ctx, c)
		f.releaseAllocation(ctx, i, how, c)
	})
}

// releaseAllocation deletes the allocation, but for what guests on other hosts may use.
func (f *Flow) releaseAllocation(ctx context.Context, i Instance, how deletion, c *cleanup) {
	switch hosts := strings.Join(how.guests, ", "); {
	case how.nowhere != nil:
		c.add(LeftoverAllocation, i.UUID, how.nowhere)
	case hosts != "":
		guest := Leftover{Kind: LeftoverGuest, ID: i.UUID, Err: fmt.Errorf("on host %s; the instance was evacuated from there, or is there", hosts)}
		c.keep(guest, wasSeen)
		c.add(LeftoverAllocation, i.UUID, fmt.Errorf("the guest on host %s may use it", hosts))
		f.reduceAllocation(ctx, i.UUID, c, func(held placement.Resources) placement.Resources { return placement.Elsewhere(held, how.unused) })
	default:
		f.deleteAllocation(ctx, i.UUID, how.held, c)
	}
}

func (f *Flow) releaseARQs(ctx context.Context, i Instance, how deletion, c *cleanup) {
	var left []cyborgclient.ARQ
	var failed map[string]error
	err := how.unlisted
	if err == nil {
		left, failed, err = f.deleteInstanceARQs(ctx, i, how, c)
	}
	switch {
	case len(left) > 0:
		c.addARQs(uuidsOf(left), failed)
	case err != nil && len(i.ARQs) > 0: // Cyborg does not list which are left
		for _, arq := range i.ARQs {
			c.add(LeftoverARQ, arq, err)
		}
	default:
		c.add(LeftoverARQs, i.UUID, err)
	}
}

// deleteInstanceARQs deletes all ARQs of an instance, and those that the caller or a port
// names and Cyborg does not list for it, such as unbound ones, unless they are another
// instance's: a binding profile may be stale. It returns those that are left, or may be hidden, with
// their errors. Err is set if they are unknown: Cyborg has never listed them.
func (f *Flow) deleteInstanceARQs(ctx context.Context, i Instance, how deletion, c *cleanup) (left []cyborgclient.ARQ, failed map[string]error, err error) {
	var arqs, unread, absent []cyborgclient.ARQ
	known := false
	others := slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(i.ARQs), maps.Keys(i.portARQs())))))
	err = f.retry(ctx, func(ctx context.Context) error {
		listed, err := f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: i.UUID})
		if err != nil {
			return err
		}
		arqs, known, unread, absent, c.foreign = listed, true, nil, nil, nil
		for _, uuid := range others {
			if slices.Contains(uuidsOf(arqs), uuid) {
				continue
			}
			switch arq, readErr := f.findARQ(ctx, uuid); {
			case readErr != nil:
				unread, err = append(unread, cyborgclient.ARQ{UUID: uuid}), readErr
			case arq == nil:
				absent = append(absent, cyborgclient.ARQ{UUID: uuid})
			case arq.InstanceUUID != "" && arq.InstanceUUID != i.UUID:
				c.foreign = errors.Join(c.foreign, fmt.Errorf("ARQ %s is left alone: it belongs to instance %s", uuid, arq.InstanceUUID))
			default:
				arqs = append(arqs, *arq)
			}
		}
		return err
	})
	if !known {
		return nil, nil, err
	}
	arqs = slices.DeleteFunc(arqs, func(arq cyborgclient.ARQ) bool {
		isLater := how.isLater(i, arq)
		if isLater {
			c.suspect(Leftover{Kind: LeftoverARQ, ID: arq.UUID, Instance: i.UUID, Err: errBoundLater})
		}
		return isLater
	})
	isOld := func(arq cyborgclient.ARQ) bool { return how.old[arq.UUID] != "" }
	kept := map[string]error{}
	f.removeMdevs(ctx, how.mdevs, i, slices.DeleteFunc(slices.Clone(arqs), isOld), kept)
	hidden := f.mayHide(ctx, i, absent)
	left, failed = f.deleteKnown(ctx, arqs, how, kept)
	for _, arq := range unread {
		failed[arq.UUID] = err
	}
	left = append(left, unread...)
	if hidden != nil {
		for _, arq := range absent {
			failed[arq.UUID] = hidden
		}
		left = append(left, absent...)
	}
	return left, failed, nil
}

// isLater reports whether an ARQ on another host than the instance's was not there when the ARQs were checked.
func (d deletion) isLater(i Instance, arq cyborgclient.ARQ) bool {
	return d.seen != nil && !d.seen[arq.UUID] && !slices.Contains(i.ARQs, arq.UUID) &&
		arq.InstanceUUID == i.UUID && arq.Hostname != "" && !i.isOn(arq.Hostname)
}

// findARQ reads one ARQ; it is nil if Cyborg shows none.
func (f *Flow) findARQ(ctx context.Context, uuid string) (*cyborgclient.ARQ, error) {
	arq, err := f.cyborg.GetARQ(ctx, uuid)
	if cyborgclient.IsMissing(err) {
		return nil, nil
	}
	return arq, err
}

// instanceARQs lists the ARQs of an instance.
func (f *Flow) instanceARQs(ctx context.Context, instance string) (arqs []cyborgclient.ARQ, err error) {
	err = f.retry(ctx, func(ctx context.Context) (err error) {
		arqs, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: instance})
		return err
	})
	return arqs, err
}

// deleteKnown deletes ARQs, but for those that are kept, and those of guests of before an evacuation. It returns those that are
// left with their errors.
func (f *Flow) deleteKnown(ctx context.Context, arqs []cyborgclient.ARQ, how deletion, kept map[string]error) (left []cyborgclient.ARQ, failed map[string]error) {
	stay := map[string]error{}
	maps.Copy(stay, kept)
	for uuid, host := range how.old {
		stay[uuid] = fmt.Errorf("the guest on host %s may use it", host)
	}
	failed = f.deleteEach(ctx, slices.DeleteFunc(slices.Clone(arqs), func(arq cyborgclient.ARQ) bool { return stay[arq.UUID] != nil }), !how.deadHost)
	maps.Copy(failed, stay)
	return slices.DeleteFunc(arqs, func(arq cyborgclient.ARQ) bool { return failed[arq.UUID] == nil }), failed
}

// deleteARQs deletes ARQs and returns the errors of those that are left. After a request without an
// answer each is asked for alone: Cyborg may wait for the agent of one of them, and does not come to the next.
func (f *Flow) deleteARQs(ctx context.Context, uuids []string) map[string]error {
	if f.config.Compat.UnbindFirst {
		_ = f.cyborg.UnbindARQs(ctx, uuids) // if it fails, the deletion unbinds
	}
	left, atOnce := uuids, max(1, len(uuids))
	failed := map[string]error{}
	_ = f.retry(ctx, func(ctx context.Context) error {
		clear(failed)
		for part := range slices.Chunk(left, atOnce) {
			maps.Copy(failed, f.deleteOnce(ctx, part, len(left)))
		}
		if len(failed) == 0 {
			return nil
		}
		left = slices.DeleteFunc(slices.Clone(left), func(uuid string) bool { return failed[uuid] == nil })
		if ctx.Err() != nil {
			atOnce = 1
		}
		return &cyborgclient.DeleteError{Failed: failed}
	})
	return failed
}

// deleteOnce asks once for the deletion of some ARQs out of a number of them, for their part of the time.
func (f *Flow) deleteOnce(ctx context.Context, part []string, of int) map[string]error {
	if deadline, ok := ctx.Deadline(); ok && len(part) < of {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*time.Duration(len(part))/time.Duration(of))
		defer cancel()
	}
	err := f.sendDelete(ctx, part)
	var partial *cyborgclient.DeleteError
	if errors.As(err, &partial) {
		return partial.Failed
	}
	failed := map[string]error{}
	for _, uuid := range part {
		if err != nil {
			failed[uuid] = err
		}
	}
	return failed
}

// sendDelete sends one deletion, and remembers the ARQs that it answers to be gone.
func (f *Flow) sendDelete(ctx context.Context, uuids []string) error {
	err := f.cyborg.DeleteARQs(ctx, uuids)
	if errors.Is(err, cyborgclient.ErrUnauthorized) && f.cyborg != f.own {
		err = f.asOwn().deleteShown(ctx, uuids, err)
	}
	var partial *cyborgclient.DeleteError
	if err == nil || errors.As(err, &partial) {
		f.deleted.add(slices.DeleteFunc(slices.Clone(uuids), func(uuid string) bool { return err != nil && partial.Failed[uuid] != nil }))
	}
	return err
}

// deleteShown deletes ARQs that a user's token, which has ended, could not, if Cyborg shows them to the flow's own. That it
// does not know one may only mean that it hides it.
func (f *Flow) deleteShown(ctx context.Context, uuids []string, ended error) error {
	for _, uuid := range uuids {
		if arq, err := f.findARQ(ctx, uuid); arq == nil || err != nil {
			return ended
		}
	}
	return f.cyborg.DeleteARQs(ctx, uuids)
}

// listAllARQs lists the ARQs of all instances, and the time of the server's clock.
func (f *Flow) listAllARQs(ctx context.Context) (arqs []cyborgclient.ARQ, now time.Time, err error) {
	var call cyborgclient.Call
	ctx = cyborgclient.Observe(ctx, func(c cyborgclient.Call) { call = c })
	arqs, err = f.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{})
	if now = call.Date; now.IsZero() {
		now = time.Now()
	}
	return arqs, now, err
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
	return o.do(OpDelete, i, func() error { return o.remove(ctx, i) })
}

// ShelveOffload removes the guest of a shelved instance from its host and frees its
// ARQs and allocation, as [Operations.Delete] does; [Operations.Unshelve] creates
// new ones.
func (o *Operations) ShelveOffload(ctx context.Context, i Instance) error {
	return o.do(OpShelveOffload, i, func() error { return o.remove(ctx, i) })
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
	return o.do(OpLocalDelete, i, func() error {
		_, how, err := o.notMoved(ctx, i)
		if err != nil {
			return err
		}
		how.deadHost, how.mdevs = true, o.mdevCreator()
		return o.release(ctx, i, how)
	})
}

func (o *Operations) remove(ctx context.Context, i Instance) error {
	arqs, how, err := o.notMoved(ctx, i)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	record := o.flow.newRecorder(i.UUID, i.Host)
	err = record.step(ctx, StepUnwind, func(ctx context.Context) (string, error) {
		return "the guest is removed", o.flow.retry(ctx, func(ctx context.Context) error { return o.removeGuest(ctx, i) })
	})
	if err != nil {
		return record.cleanUp(ctx, "nothing is freed before the guest is removed", func(_ context.Context, c *cleanup) {
			c.keep(Leftover{Kind: LeftoverGuest, ID: i.UUID, Err: err}, func(ctx context.Context) (bool, error) {
				err := o.guestOn(ctx, i, i.Host)
				return err == nil, err
			})
			i.keepForGuest(c, arqs, how.unlisted)
		})
	}
	how.mdevs = o.mdevCreator()
	return o.release(ctx, i, how)
}

// keepForGuest names what a guest that could not be removed may still use.
func (i Instance) keepForGuest(c *cleanup, arqs []cyborgclient.ARQ, unlisted error) {
	kept := uuidsOf(arqs)
	if unlisted != nil {
		kept = i.ARQs
	}
	for _, uuid := range kept {
		c.add(LeftoverARQ, uuid, errGuestStays)
	}
	if unlisted != nil && len(kept) == 0 {
		c.add(LeftoverARQs, i.UUID, unlisted)
	}
	c.add(LeftoverAllocation, i.UUID, errGuestStays)
}

// notMoved returns an error if an instance has ARQs on another host than its own, and a guest
// there: the deletion would free the devices of that guest. It returns the ARQs that Cyborg
// lists, and how to delete them. Without such ARQs Placement tells where the instance
// is, and of an instance without a host whether one that does not answer may be that from which it
// was evacuated. Nor may ARQs be hidden from the token.
func (o *Operations) notMoved(ctx context.Context, i Instance) (arqs []cyborgclient.ARQ, how deletion, moved error) {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	if arqs, how.unlisted = o.flow.instanceARQs(ctx, i.UUID); how.unlisted == nil {
		how.seen = make(map[string]bool, len(arqs))
		for _, arq := range arqs {
			how.seen[arq.UUID] = true
		}
	}
	how.old, moved = o.oldGuests(ctx, i, arqs, nil)
	isSilent := i.Host == "" && moved != nil && !errors.Is(moved, ErrRequest)
	isTold := slices.ContainsFunc(arqs, func(arq cyborgclient.ARQ) bool { return mayHaveGuest(arq.State) })
	if isSilent || moved == nil && !isTold {
		moved = o.heldElsewhere(ctx, i, &how)
	}
	if moved == nil && len(arqs) == 0 {
		moved = o.flow.refuseHidden(ctx, i)
	}
	return arqs, how, moved
}

// heldElsewhere returns an error if an instance holds resources of other hosts, and none of its own: it was
// moved, or is moved just now. Of one without a host the guests there tell. One that holds resources of several hosts,
// as after an evacuation that could not give up the old one, may be on any with a guest: those on others than its own
// are left, with what they may use, unless its own does not answer. Without an answer of Placement that is not known.
func (o *Operations) heldElsewhere(ctx context.Context, i Instance, how *deletion) (moved error) {
	allocation, held, err := o.flow.heldHosts(ctx, i.UUID)
	if how.nowhere = err; err != nil {
		return nil
	}
	if how.held = &allocation; len(held) == 0 {
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
			how.guests = append(how.guests, host)
		case answer == nil:
			return fmt.Errorf("%w: the instance has a guest on host %s", ErrRequest, host)
		case !isHere && !errors.Is(answer, ErrNoGuest):
			return fmt.Errorf("ask for the guest on host %s, of which the instance holds resources: %w", host, answer)
		}
	}
	how.unused = map[string]bool{}
	for provider, host := range held {
		how.unused[provider] = !slices.Contains(how.guests, host)
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

func (o *Operations) release(ctx context.Context, i Instance, how deletion) error {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	return o.flow.release(ctx, i, how)
}
