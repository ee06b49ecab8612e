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
	// Domain is the domain for the new host, without accelerators. Empty means a minimal domain of the flavor's size.
	Domain []byte
	// Options and Order are as in [Request].
	Options requestspec.Options
	Order   func([]Candidate) []Candidate
	// Down are the names, or short names, of compute nodes that are down, other than the instance's host. They are
	// neither chosen nor asked for a guest of the instance. The caller makes sure that they are down.
	Down []string
}

// request returns the request for a spawn on another host.
func (o *Operations) request(i Instance, opts MoveOpts) Request {
	return Request{
		Instance: i.UUID, Flavor: i.Flavor, Image: i.Image, Domain: opts.Domain, ProjectID: i.ProjectID, UserID: i.UserID,
		Ports: i.Ports, Options: opts.Options, Order: opts.Order,
	}
}

// Unshelve restores a shelved instance. If it is still on its host, it is started, and the result is nil. An
// offloaded instance (no Host) is spawned on any host with new ARQs. After a failure everything is released, so that
// the next Unshelve works; it first deletes ARQs that could not be deleted before. Nova leaves the ARQs bound, and
// Cyborg refuses the next bind.
//
// If such ARQs, or the resources that the instance holds, belong to a guest from an earlier Unshelve whose result the
// caller does not know, nothing is done, and the error is a [*MovedError]. An allocation that another agent writes
// during the call is not removed; the error matches ErrLeftover and lists it as not certain.
//
// After an evacuation Cyborg may be unable to delete the ARQ of a mediated device, because its host is down. If
// opts.Down names that host, new ARQs are bound next to it, as in [Operations.Evacuate]: both the result and an error
// that matches ErrLeftover and lists the ARQ are returned.
//
// An offloaded instance with ARQs, including ARQs in Instance.ARQs that no longer exist, is rejected if its flavor
// names no device profile, as by Evacuate.
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
			a.down = opts.Down
			if err := a.avoid(ctx, opts.Down, nil); err != nil {
				return StepCandidates, err
			}
			return a.run(ctx)
		})
		if err != nil {
			return err
		}
		result = a.Result()
		return a.remains("not everything on an earlier host could be released")
	})
	return result, err
}

// attempt runs an attempt as part of an operation. The error is an [*Error].
func (o *Operations) attempt(ctx context.Context, r *remover, request Request, run func(*Attempt) (Step, error)) (*Attempt, error) {
	request, err := o.flow.checkRequest(request)
	if err != nil {
		return nil, &Error{Instance: request.Instance, Step: StepProfile, Err: err}
	}
	a := o.flow.newAttempt(request, r.journal)
	a.release, a.record, r.record.host = func(*ledger.Journal) {}, r.record, "" // until a host is chosen
	return a, a.finish(ctx, func() (Step, error) { return run(a) })
}

// remains returns the error of a successful attempt with leftovers on another host, or nil.
func (a *Attempt) remains(cause string) error {
	leftovers, _ := remaining(a.journal)
	if len(leftovers) == 0 {
		return nil
	}
	return &Error{
		Instance: a.Request.Instance, Step: StepUnwind, Err: errors.New(cause), Undone: namesOf(a.journal.Removed()), Leftovers: leftovers, Trace: a.Trace(),
	}
}

// freeLeftovers deletes the ARQs and the allocation that an offloaded instance still has after a failure, because
// Cyborg would refuse to bind others. A delayed claim may have been applied since. ARQs that need the agent of a host
// that is down remain.
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

// Evacuate moves an instance from a host that is down. It claims another host, on which the instance holds no
// resources from an earlier evacuation; deletes the old ARQs, because Cyborg refuses to bind more for the instance;
// creates and binds new ones; starts the guest; and releases the claim on the old host. The caller makes sure that
// the old host is really down.
//
// After a failure before the old ARQs are deleted, the instance is unchanged. After a later failure it has neither
// accelerators nor their allocation, and Evacuate may be called again; Nova leaves the new ARQs bound.
//
// When something on the old host could not be released, both the result and an error that matches ErrLeftover are
// returned. Reconcile of the old host, the next Evacuate, and Delete release the allocation there. This happens with
// mediated devices: no released Cyborg deletes their ARQs while the agent of the old host is down. The new ARQs are
// bound next to the old one, and later operations ignore it. When the host is back, delete it (cyborgclient's
// DeleteARQs), and Reconcile that host.
//
// An instance with ARQs whose flavor names no device profile is rejected (ErrRequest) before anything is changed,
// because it would lose them. After a TakeOver, pass its new flavor. An instance that holds a device whose ARQ Cyborg
// does not show is rejected, too (ErrHidden), because the ARQ would stay bound, unless the token sees all its ARQs: a
// token of its project or with the role admin.
//
// An instance that was already evacuated, without the caller's knowledge, is not changed: see [Operations.Delete]. A
// guest from before an earlier evacuation keeps its ARQs, and the new ones are bound next to them.
//
// If the process ends during the call, a claim on another host may remain. The next Evacuate claims a third host and
// releases that claim. If there is no third host, its error matches ErrNoCandidates and names the claimed host, which
// Reconcile frees.
func (o *Operations) Evacuate(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	var result *Result
	err := o.do(ctx, OpEvacuate, i, func(ctx context.Context, r *remover) (err error) {
		if i, err = o.withKnownProfile(ctx, i); err != nil {
			return err
		}
		a, err := o.attempt(ctx, r, o.request(i, opts), func(a *Attempt) (Step, error) {
			a.down = opts.Down
			return o.evacuate(ctx, a, i)
		})
		if err != nil {
			return err
		}
		ctx, cancel := o.flow.detached(ctx)
		defer cancel()
		err = r.cleanUp(ctx, "not everything on the old host could be released", func(e *ledger.Effect) bool { return e.Kind == ledger.Part })
		result = a.Result()
		return err
	})
	return result, err
}

// withKnownProfile rejects an instance that has ARQs and whose flavor names no device profile, such as the old flavor
// of an instance after a TakeOver: it would move without its devices. The ARQs show whether a Rocky flavor was
// converted.
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

// givesProfile reports whether a spawn of the instance reads a device profile. Rocky flavors are converted only if
// configured.
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
				err = a.avoid(ctx, append(slices.Clip(a.down), i.Host), slices.Collect(maps.Keys(a.before.Resources)))
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

// takeOldHost adds the instance's earlier resources to the journal. They are released when it runs on the new host.
func (a *Attempt) takeOldHost() {
	for _, e := range a.journal.Effects(ledger.Part) { // of an earlier host that was tried
		a.journal.Settle(e, ledger.Refused, nil)
	}
	a.journal.Take(&ledger.Effect{Kind: ledger.Part, ID: a.Request.Instance, Amount: &ledger.Amount{
		Before: a.Chosen.Allocations, Added: placement.Subtract(a.claimed().Amount.Wanted(), a.Chosen.Allocations),
	}})
}

// lookAtOld reads the state of an instance before anything is claimed for it. It returns an error if the instance is
// already on another host, or if Cyborg may hide ARQs, which would stay bound.
func (o *Operations) lookAtOld(ctx context.Context, a *Attempt, i Instance) (*sight, error) {
	if err := a.readBefore(ctx); err != nil {
		return nil, err
	}
	s := o.look(ctx, i, append(slices.Clip(a.down), i.Host), &a.before)
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

// ownCandidates adds to the error of an evacuation without candidates the hosts whose resources the instance itself
// holds: an operation whose result the caller does not know has claimed them.
func (o *Operations) ownCandidates(ctx context.Context, a *Attempt, i Instance, full error) error {
	hosts, err := o.flow.hostsOf(ctx, a.before.Resources)
	if err != nil {
		return fmt.Errorf("%w; the other hosts of the instance's resources are unknown: %w", full, err)
	}
	others := slices.DeleteFunc(slices.Compact(slices.Sorted(maps.Values(hosts))), func(host string) bool {
		return i.isOn(host) || holding.Among(a.down, host)
	})
	if len(others) == 0 {
		return full
	}
	return fmt.Errorf("%w; the instance holds resources of host %s, which Reconcile there frees", full, strings.Join(others, ", "))
}

// avoid excludes the candidates on some hosts, given by name or by a provider there. A name may be empty or, like a
// short name, unknown to Placement. After an evacuation whose source was not released an instance holds resources on
// several hosts.
func (a *Attempt) avoid(ctx context.Context, hosts, providers []string) error {
	a.avoided = providers
	for _, host := range hosts {
		if host == "" {
			continue
		}
		root, err := a.flow.placement.Named(ctx, host)
		if err != nil {
			return err
		}
		if root != "" {
			a.avoided = append(a.avoided, root)
		}
	}
	return nil
}

// freeOld deletes the ARQs on the old host. The instance no longer holds their devices afterwards, even if a later
// step fails. The deletion ignores the caller's context once it has begun, because its outcome must be known.
func (o *Operations) freeOld(ctx context.Context, a *Attempt, i Instance, s *sight) error {
	if i.isOn(a.Host) { // a short name, without an allocation there
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
	r.undo(ctx, func(e *ledger.Effect) bool {
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

// dropDevices marks devices on the old host, and device memory, to be released together with the claim.
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
