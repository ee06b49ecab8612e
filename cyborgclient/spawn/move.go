package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
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
}

// request is that of a spawn on another host, whose guest the hypervisor starts.
func (o *Operations) request(i Instance, opts MoveOpts) Request {
	target := i
	target.Host = "" // that of the ARQ
	return Request{
		Instance: i.UUID, Flavor: i.Flavor, Image: i.Image, Domain: opts.Domain, ProjectID: i.ProjectID, UserID: i.UserID,
		Options: opts.Options, Order: opts.Order,
		Hooks: Hooks{
			CreateMdev: o.mdevCreator(target),
			Start: func(ctx context.Context, result *Result) error {
				i.Host = result.Host
				if err := o.hypervisor.Define(ctx, i, result.Domain); err != nil {
					return fmt.Errorf("define: %w", err)
				}
				return o.hypervisor.Start(ctx, i)
			},
			Destroy: func(ctx context.Context, result *Result) error {
				i.Host = result.Host
				return o.removeGuest(ctx, i)
			},
		},
	}
}

// Unshelve brings a shelved instance back. One that is still on its host is
// started, and the result is nil. An offloaded one (no Host) is spawned on any host
// with new ARQs. After a failure everything is given back, so that the next
// Unshelve works; ARQs that could not be deleted then are deleted first. Nova leaves the
// ARQs bound, and Cyborg refuses the next bind. If they belong to a guest, that of an
// earlier Unshelve whose end the caller does not know, nothing is done, and the error
// matches ErrRequest and names the host.
func (o *Operations) Unshelve(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	if i.Host != "" {
		return nil, o.powerOn(ctx, OpUnshelve, i, o.start)
	}
	var result *Result
	err := o.do(OpUnshelve, i, func() (err error) {
		if i.hasPort() { // Nova blocks the shelving of such an instance
			return &BlockedError{Operation: OpUnshelve, Instance: i.UUID, Code: http.StatusBadRequest, Text: portsBlocked}
		}
		if err := o.freeLeftovers(ctx, i); err != nil {
			return err
		}
		result, err = o.flow.Run(ctx, o.request(i, opts))
		return err
	})
	return result, err
}

// freeLeftovers deletes the ARQs and the allocation that an offloaded instance still has,
// after a failure that named them: Cyborg would refuse to bind others. The claim may have
// come true since.
func (o *Operations) freeLeftovers(ctx context.Context, i Instance) error {
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	var refused error
	err := o.flow.newRecorder(i.UUID, i.Host).cleanUp(ctx, "what it held on an earlier host could not be freed", func(ctx context.Context, c *cleanup) {
		arqs, err := o.flow.instanceARQs(ctx, i.UUID)
		if err != nil {
			c.add(LeftoverARQs, i.UUID, err)
			return
		}
		if refused = o.noGuestOf(ctx, i, arqs); refused != nil {
			return
		}
		if left, failed := o.flow.deleteKnown(ctx, arqs, ofDeadHost); len(left) > 0 {
			c.addARQs(uuidsOf(left), failed)
			return
		}
		c.add(LeftoverARQs, i.UUID, nil)
		c.add(LeftoverAllocation, i.UUID, o.flow.deleteAllocation(ctx, i.UUID))
	})
	return errors.Join(refused, err)
}

// noGuestOf returns an error if ARQs of an instance that are bound on another host than its own
// belong to a guest there: one that an earlier operation has started, whose end the caller
// does not know.
func (o *Operations) noGuestOf(ctx context.Context, i Instance, arqs []cyborgclient.ARQ) error {
	asked := map[string]bool{}
	for _, arq := range arqs {
		if arq.State != cyborgclient.StateBound || asked[arq.Hostname] || i.Host != "" && sameHost(arq.Hostname, i.Host) {
			continue
		}
		asked[arq.Hostname] = true
		there := i
		there.Host = arq.Hostname
		switch _, _, err := o.hypervisor.Domain(ctx, there); {
		case err == nil:
			return fmt.Errorf("%w: the instance has a guest on host %s, with ARQ %s", ErrRequest, arq.Hostname, arq.UUID)
		case !errors.Is(err, ErrNoGuest):
			return fmt.Errorf("ask for the guest on host %s, which has ARQ %s: %w", arq.Hostname, arq.UUID, err)
		}
	}
	return nil
}

// Evacuate moves an instance from a host that is down: it claims another host, of which
// it holds no compute resources, as it may after an earlier evacuation,
// then deletes the old ARQs, because Cyborg refuses to bind more for the instance,
// creates and binds new ones, starts the guest, and gives up the claim on the old
// host. The caller makes sure that the old host is really down.
//
// A failure before the deletion of the old ARQs leaves the instance as it was.
// After a later failure the instance has neither accelerators nor their allocation,
// and Evacuate may be called again; Nova leaves the new ARQs bound. When something of the
// old host could not be given up, both the result and an error that matches ErrLeftover
// are returned. This is so for a mediated device: no released Cyborg deletes its ARQ while
// the agent of the old host is down. The new ARQs are bound beside it, and the later
// operations ignore it; delete it (cyborgclient's DeleteARQs) when the host is back, and
// Reconcile that host.
//
// An instance with ARQs whose flavor names no device profile is refused (ErrRequest) before
// anything is changed: it would lose them. After a TakeOver give its new flavor.
//
// An instance that has been evacuated already, which the caller may not know, has a guest
// with its ARQs on another host: it is left alone, and the error matches ErrRequest and
// names that host.
func (o *Operations) Evacuate(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	var result *Result
	err := o.do(OpEvacuate, i, func() (err error) {
		if i, err = o.withKnownProfile(ctx, i); err != nil {
			return err
		}
		a, err := o.flow.attempt(ctx, o.request(i, opts), func(a *Attempt) (Step, error) { return o.evacuate(ctx, a, i) })
		if err != nil {
			return err
		}
		ctx, cancel := o.flow.detached(ctx)
		defer cancel()
		err = a.record.cleanUp(ctx, "not everything of the old host could be given up", func(ctx context.Context, c *cleanup) {
			a.leaveStuck(ctx, c)
			o.flow.reduceAllocation(ctx, i.UUID, c, a.withoutOldHost)
		})
		result = a.Result()
		return err
	})
	return result, err
}

// withKnownProfile refuses an instance that has ARQs and whose flavor names no device
// profile, such as the old one of an instance whose vGPU was taken over: it would move
// without its devices. The ARQs tell whether a Rocky flavor was converted.
func (o *Operations) withKnownProfile(ctx context.Context, i Instance) (Instance, error) {
	if i.hasProfile() {
		return i, nil
	}
	arqs, err := o.flow.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: i.UUID})
	if err != nil {
		return i, err
	}
	i.ARQs = uuidsOf(arqs)
	if len(arqs) > 0 && !i.hasProfile() {
		return i, fmt.Errorf("%w: the instance has ARQ %s, and its flavor names no device profile", ErrRequest, arqs[0].UUID)
	}
	return i, nil
}

// withoutOldHost is what the instance holds, which others may have changed meanwhile, without
// what it held before the claim on the new host.
func (a *Attempt) withoutOldHost(held placement.Resources) placement.Resources {
	if placement.Equal(held, a.Chosen.Allocations) {
		return held
	}
	return placement.Subtract(held, placement.Subtract(a.claim.wanted.Resources, a.Chosen.Allocations))
}

// evacuate runs the steps on the new host.
func (o *Operations) evacuate(ctx context.Context, a *Attempt, i Instance) (Step, error) {
	var old []string // providers of hosts that the instance leaves
	order := a.Request.Order
	a.Request.Order = func(candidates []Candidate) []Candidate {
		candidates = elsewhere(candidates, old)
		if order != nil {
			candidates = order(candidates)
		}
		return candidates
	}
	return a.walk(ctx, StepProfile, StepStart, func(next Step) (err error) {
		switch next {
		case StepSelect:
			old, err = a.readOld(a.record.reopen(ctx), i)
		case StepCreate:
			err = o.freeOld(a.record.reopen(ctx), a, i)
		}
		return err
	})
}

// readOld reads what the instance holds. It returns the providers of compute resources that it
// holds, on several hosts after an evacuation whose source is not given up, and that of its host.
func (a *Attempt) readOld(ctx context.Context, i Instance) (old []string, err error) {
	if a.before, err = a.flow.placement.Allocation(ctx, i.UUID); err != nil {
		return nil, err
	}
	old = placement.NodeProviders(a.before.Resources)
	if i.Host == "" {
		return old, nil
	}
	root, err := a.flow.placement.Named(ctx, i.Host)
	return append(old, root), err
}

// elsewhere leaves out the candidates on hosts with some providers.
func elsewhere(candidates []Candidate, old []string) []Candidate {
	return slices.DeleteFunc(candidates, func(c Candidate) bool {
		return slices.ContainsFunc(old, func(provider string) bool { return c.Root == cmp.Or(c.summaries.Of(provider).Root, provider) })
	})
}

// freeOld deletes the ARQs on the old host. From then on the instance does not
// hold their devices either, whatever follows. The deletion is not interrupted
// once it has begun, because it must be known which ARQs are gone.
func (o *Operations) freeOld(ctx context.Context, a *Attempt, i Instance) error {
	if i.Host != "" && sameHost(a.Host, i.Host) { // of a short name, without an allocation there
		return fmt.Errorf("%w: the instance's allocation is on another host than %s", ErrRequest, i.Host)
	}
	if !i.hasProfile() {
		return nil
	}
	arqs, err := o.flow.instanceARQs(ctx, i.UUID)
	if err != nil {
		return fmt.Errorf("list the ARQs on host %s: %w", i.Host, err)
	}
	devices, err := o.flow.devices(ctx, arqs)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := o.flow.detached(ctx)
	defer cancel()
	if err := o.noGuestOf(ctx, i, arqs); err != nil {
		return err
	}
	stuck, failed := o.flow.deleteKnown(ctx, arqs, ofDeadHost)
	for _, arq := range stuck {
		delete(devices, arq.DeviceRPUUID) // the instance still has it
		if !mayBeMediated(arq) {
			err = fmt.Errorf("delete ARQ %s on host %s: %w", arq.UUID, i.Host, failed[arq.UUID])
		}
	}
	a.stuck, a.stuckErr = stuck, failed
	a.before.Resources = placement.Without(a.before.Resources, devices)
	return err
}
