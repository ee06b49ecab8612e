package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/requestspec"
)

// MoveOpts are the options of [Operations.Unshelve] and [Operations.Evacuate].
type MoveOpts struct {
	// Domain is the domain for the new host, without accelerators. Empty means a
	// minimal one of the flavor's size.
	Domain []byte
	// Options and Order are those of [Request].
	Options requestspec.Options
	Order   func([]Candidate) []Candidate
	// Down are the names of compute nodes, or their short names, other than that of the instance, that
	// are down: none is chosen, and none is asked for a guest of the instance. The caller makes sure
	// that they are down.
	Down []string
}

// request is the request for a spawn on another host.
func (o *Operations) request(i Instance, opts MoveOpts) Request {
	return Request{
		Instance: i.UUID, Flavor: i.Flavor, Image: i.Image, Domain: opts.Domain, ProjectID: i.ProjectID, UserID: i.UserID,
		Ports: i.Ports, Options: opts.Options, Order: opts.Order,
	}
}

// Unshelve brings a shelved instance back. One that is still on its host is
// started, and the result is nil. An offloaded one (no Host) is spawned on any host
// with new ARQs. After a failure everything is given back, so that the next
// Unshelve works; ARQs that could not be deleted then are deleted first. Nova leaves the
// ARQs bound, and Cyborg refuses the next bind. If they, or the resources that the instance
// holds, belong to a guest, that of an earlier Unshelve whose end the caller does not know, nothing
// is done, and the error is a [*MovedError]. An allocation that another agent
// writes meanwhile is left, and the error matches ErrLeftover and names it as not certain.
//
// After an evacuation Cyborg may still not be able to delete the ARQ of a mediated device, because
// its host is down. If opts.Down names that host, new ones are bound beside it, as in
// [Operations.Evacuate]: both the result and an error that matches ErrLeftover and names the ARQ
// are returned.
//
// An offloaded instance with ARQs, also with some in Instance.ARQs that no longer exist, whose
// flavor names no device profile is refused, as by Evacuate.
func (o *Operations) Unshelve(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	if i.Host != "" {
		return nil, o.powerOn(ctx, OpUnshelve, i, o.start)
	}
	var result *Result
	err := o.do(ctx, OpUnshelve, i, func(ctx context.Context, r *remover) error {
		if i.hasPort() { // Nova blocks the shelving of such an instance
			return &BlockedError{Operation: OpUnshelve, Instance: i.UUID, Code: http.StatusBadRequest, Text: portsBlocked}
		}
		i, err := o.withKnownProfile(ctx, i)
		if err != nil {
			return err
		}
		if err := o.freeLeftovers(ctx, r, i, opts.Down); err != nil {
			return err
		}
		a, err := o.attempt(ctx, r, o.request(i, opts), func(a *Attempt) (Step, error) {
			a.queue.Down = opts.Down
			if err := a.avoid(ctx, opts.Down, nil); err != nil {
				return StepCandidates, err
			}
			return a.run(ctx)
		})
		if err != nil {
			return err
		}
		result = a.Result()
		return a.remains("not everything of an earlier host could be given up")
	})
	return result, err
}

// attempt runs an attempt as a part of an operation. The error is an [*Error].
func (o *Operations) attempt(ctx context.Context, r *remover, request Request, run func(*Attempt) (Step, error)) (*Attempt, error) {
	request, err := o.flow.checkRequest(request)
	if err != nil {
		return nil, &Error{Instance: request.Instance, Step: StepProfile, Err: err}
	}
	a := o.flow.newAttempt(request, r.journal)
	a.release, a.record, r.record.host = func(*ledger.Journal) {}, r.record, "" // until a host is chosen
	return a, a.finish(ctx, func() (Step, error) { return run(a) })
}

// remains is the error of an attempt that has succeeded, and names what remains of another host.
func (a *Attempt) remains(cause string) error {
	leftovers, _ := remaining(a.journal)
	if len(leftovers) == 0 {
		return nil
	}
	return &Error{
		Instance: a.Request.Instance, Step: StepUnwind, Err: errors.New(cause), Undone: namesOf(a.journal.Removed()), Leftovers: leftovers, Trace: a.Trace(),
	}
}

// freeLeftovers deletes the ARQs and the allocation that an offloaded instance still has,
// after a failure that named them: Cyborg would refuse to bind others. The claim may have
// come true since. ARQs that need the agent of a host that is down remain.
func (o *Operations) freeLeftovers(ctx context.Context, r *remover, i Instance, down []string) error {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	const cause = "what it held on an earlier host could not be freed"
	s := o.look(ctx, i, down, nil)
	if err := s.moved(); err != nil {
		return err
	}
	if err := errors.Join(s.unlisted, s.unread); err != nil {
		r.journal.Settle(r.journal.Take(&ledger.Effect{Kind: ledger.Listed, ID: i.UUID}), ledger.Unknown, err)
		r.journal.Settle(r.journal.Take(&ledger.Effect{Kind: ledger.Consumer, ID: i.UUID, Amount: &ledger.Amount{}}), ledger.Unknown, err)
		return r.cleanUp(ctx, cause, func(*ledger.Effect) bool { return false })
	}
	if err := o.flow.refuseUnshown(ctx, s.allocation, s.ARQs); err != nil {
		return err
	}
	r.impatient = true
	consumer := r.takeConsumer(s.allocation)
	mayStay := func(arq cyborgclient.ARQ) bool { return mayBeMediated(arq) && holding.Among(down, arq.Hostname) }
	for _, arq := range s.ARQs {
		e := r.journal.Take(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq})
		switch {
		case !mayStay(arq):
			r.journal.Change(e, func() { e.Holds = consumer })
			r.takeMdev(e)
		case !holding.Among(down, arq.Hostname):
			r.takeMdev(e)
		}
	}
	err := r.cleanUp(ctx, cause, nil)
	isHarmless := func(e *ledger.Effect) bool { return e.Kind == ledger.ARQ && mayStay(*e.ARQ) }
	if len(slices.DeleteFunc(r.journal.Effects(), isHarmless)) == 0 {
		return nil
	}
	return err
}

// Evacuate moves an instance from a host that is down: it claims another host, of which
// it holds no resources, as it may after an earlier evacuation,
// then deletes the old ARQs, because Cyborg refuses to bind more for the instance,
// creates and binds new ones, starts the guest, and gives up the claim on the old
// host. The caller makes sure that the old host is really down.
//
// A failure before the deletion of the old ARQs leaves the instance as it was.
// After a later failure the instance has neither accelerators nor their allocation,
// and Evacuate may be called again; Nova leaves the new ARQs bound. When something of the
// old host could not be given up, both the result and an error that matches ErrLeftover
// are returned; Reconcile of the old host, the next Evacuate and Delete give up the allocation there. This is so for a
// mediated device: no released Cyborg deletes its ARQ while
// the agent of the old host is down. The new ARQs are bound beside it, and the later
// operations ignore it; delete it (cyborgclient's DeleteARQs) when the host is back, and
// Reconcile that host.
//
// An instance with ARQs whose flavor names no device profile is refused (ErrRequest) before
// anything is changed: it would lose them. After a TakeOver give its new flavor. One that holds
// a device without an ARQ that Cyborg shows is refused, too (ErrHidden), unless the token, which is of its project or has the role
// admin, would show it: it would stay bound.
//
// An instance that has been evacuated already, which the caller may not know, is left alone: see [Operations.Delete]. A guest
// from before an earlier evacuation keeps its ARQs, and the new ones are bound next to them.
//
// A process that ends on the way may leave a claim on another host. Evacuate claims a third one and gives
// that up; without one its error matches ErrNoCandidates and names the host, which Reconcile frees.
func (o *Operations) Evacuate(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	var result *Result
	err := o.do(ctx, OpEvacuate, i, func(ctx context.Context, r *remover) (err error) {
		if i, err = o.withKnownProfile(ctx, i); err != nil {
			return err
		}
		a, err := o.attempt(ctx, r, o.request(i, opts), func(a *Attempt) (Step, error) {
			a.queue.Down = opts.Down
			return o.evacuate(ctx, a, i)
		})
		if err != nil {
			return err
		}
		ctx, cancel := o.flow.detached(ctx)
		defer cancel()
		err = r.cleanUp(ctx, "not everything of the old host could be given up", func(e *ledger.Effect) bool { return e.Kind == ledger.Part })
		result = a.Result()
		return err
	})
	return result, err
}

// withKnownProfile refuses an instance that has ARQs and whose flavor names no device
// profile, such as the old one of an instance whose vGPU was taken over: it would move
// without its devices. The ARQs tell whether a Rocky flavor was converted.
func (o *Operations) withKnownProfile(ctx context.Context, i Instance) (Instance, error) {
	if o.givesProfile(i) {
		return i, nil
	}
	if len(i.ARQs) == 0 {
		arqs, err := o.flow.instanceARQs(ctx, i.UUID)
		if err != nil {
			return i, err
		}
		i.ARQs = uuidsOf(arqs)
	}
	if len(i.ARQs) > 0 && !o.givesProfile(i) {
		return i, fmt.Errorf("%w: the instance has ARQ %s, and its flavor names no device profile", ErrRequest, i.ARQs[0])
	}
	return i, nil
}

// givesProfile reports whether a spawn of the instance reads a device profile: it converts a Rocky
// flavor only if the configuration says so.
func (o *Operations) givesProfile(i Instance) bool {
	_, named := i.Flavor.DeviceProfile()
	return named || o.flow.config.RockyFlavors.Convert && i.hasProfile()
}

// evacuate runs the steps on the new host.
func (o *Operations) evacuate(ctx context.Context, a *Attempt, i Instance) (Step, error) {
	var s *sight
	step, err := a.walk(ctx, StepProfile, StepStart, func(next Step) (err error) {
		switch next {
		case StepCandidates:
			ctx := a.record.reopen(ctx)
			if s, err = o.lookAtOld(ctx, a, i); err == nil {
				err = a.avoid(ctx, append(slices.Clip(a.queue.Down), i.Host), slices.Collect(maps.Keys(a.before.Resources)))
			}
		case StepCreate:
			err = o.freeOld(a.record.reopen(ctx), a, i, s)
		case StepStart: // which commits
			a.takeOldHost()
		}
		return err
	})
	if errors.Is(err, ErrNoCandidates) {
		err = o.ownCandidates(a.record.reopen(ctx), a, i, err)
	}
	return step, err
}

// takeOldHost adds what the instance held before, which is released once it runs on the new host.
func (a *Attempt) takeOldHost() {
	for _, e := range a.journal.Effects(ledger.Part) { // of an earlier host that was tried
		a.journal.Settle(e, ledger.Refused, nil)
	}
	a.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: a.Request.Instance, Amount: &ledger.Amount{
		Before: a.Chosen.Allocations, Added: placement.Subtract(a.claimed().Amount.Wanted(), a.Chosen.Allocations),
	}})
}

// lookAtOld looks at an instance before anything is claimed for it: it is an error if it is on another host already, or if Cyborg
// may hide ARQs, which would stay bound.
func (o *Operations) lookAtOld(ctx context.Context, a *Attempt, i Instance) (*sight, error) {
	if err := a.readBefore(ctx); err != nil {
		return nil, err
	}
	s := o.look(ctx, i, append(slices.Clip(a.queue.Down), i.Host), &a.before)
	switch {
	case s.unlisted != nil:
		return nil, fmt.Errorf("list the ARQs on host %s: %w", i.Host, s.unlisted)
	case s.unread != nil:
		return nil, s.unread
	}
	if err := s.moved(); err != nil {
		return nil, err
	}
	return s, o.flow.refuseUnshown(ctx, a.before, s.ARQs)
}

// ownCandidates completes the error of an evacuation without candidates, which may be because the instance itself holds them: an
// operation whose end the caller does not know has claimed them.
func (o *Operations) ownCandidates(ctx context.Context, a *Attempt, i Instance, full error) error {
	hosts, err := o.flow.hostsOf(ctx, a.before.Resources)
	if err != nil {
		return fmt.Errorf("%w; where else the instance holds resources is not known: %w", full, err)
	}
	others := slices.DeleteFunc(slices.Compact(slices.Sorted(maps.Values(hosts))), func(host string) bool {
		return i.isOn(host) || holding.Among(a.queue.Down, host)
	})
	if len(others) == 0 {
		return full
	}
	return fmt.Errorf("%w; the instance holds resources of host %s, which Reconcile there frees", full, strings.Join(others, ", "))
}

// avoid leaves out the candidates on some hosts, by their names, which may be empty or unknown to
// Placement, as short ones, or by providers there: after an evacuation whose source is not given up an instance
// holds resources of several.
func (a *Attempt) avoid(ctx context.Context, hosts, providers []string) error {
	a.queue.Avoided = providers
	for _, host := range hosts {
		if host == "" {
			continue
		}
		root, err := a.flow.placement.Named(ctx, host)
		if err != nil {
			return err
		}
		if root != "" {
			a.queue.Avoided = append(a.queue.Avoided, root)
		}
	}
	return nil
}

// freeOld deletes the ARQs on the old host. From then on the instance does not
// hold their devices either, whatever follows. The deletion is not interrupted
// once it has begun, because it must be known which ARQs are gone.
func (o *Operations) freeOld(ctx context.Context, a *Attempt, i Instance, s *sight) error {
	if i.isOn(a.Host) { // of a short name, without an allocation there
		return fmt.Errorf("%w: the instance's allocation is on another host than %s", ErrRequest, i.Host)
	}
	if !i.hasProfile() {
		return nil
	}
	devices, err := o.flow.devices(ctx, a.before.Resources, s.ARQs)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	r := a.remover()
	r.impatient, r.mdevs = true, nil // the definitions are removed with the guest when the host is back
	r.takeARQs(s.ARQs)
	a.dropDevices(devices, true) // before their deletion is sent
	kept := map[string]bool{}
	for _, host := range s.Judged(holding.Kept) {
		for _, arq := range s.In(host) {
			kept[arq.UUID] = true
			r.journal.Settle(r.journal.Find(ledger.ARQ, arq.UUID), ledger.Left, fmt.Errorf("the guest on host %s may use it", host))
		}
	}
	r.undo(ctx, r.undoers(), func(e *ledger.Effect) bool {
		return e.Kind == ledger.ARQ && e.ARQ.InstanceUUID == i.UUID && !kept[e.ID]
	})
	stuck := r.journal.Effects(ledger.ARQ)
	for _, e := range stuck {
		delete(devices, e.ARQ.DeviceRPUUID) // the instance still has it
		if !mayBeMediated(*e.ARQ) {
			err = fmt.Errorf("delete ARQ %s on host %s: %w", e.ID, e.ARQ.Hostname, e.Err)
		}
	}
	a.dropDevices(devices, len(stuck) == 0)
	return err
}

// dropDevices makes devices of the old host, and device memory, a part of what is released with the claim.
func (a *Attempt) dropDevices(devices placement.Devices, memory bool) {
	claim := a.claimed()
	whole := claim.Amount.Wanted()
	rest := placement.Without(placement.Subtract(whole, a.Chosen.Allocations), devices)
	if memory {
		rest = placement.WithoutMemory(rest)
	}
	a.before.Resources = rest
	a.journal.Change(claim, func() { claim.Amount.Added, claim.Amount.Before = placement.Subtract(whole, rest), rest })
}
