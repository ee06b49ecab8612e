package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/requestspec"
)

// MoveOpts are the options of an instance's way to another host.
type MoveOpts struct {
	// Domain is the domain for the new host, without accelerators. Empty: a
	// minimal one of the flavor's size.
	Domain []byte
	// Options shape the request to Placement, and Order orders the candidates, as
	// in [Request].
	Options requestspec.Options
	Order   func([]Candidate) []Candidate
}

// request is that of a spawn on another host, whose guest the driver starts.
func (o *Operations) request(i Instance, opts MoveOpts) Request {
	return Request{
		Instance: i.UUID, Flavor: i.Flavor, Domain: opts.Domain, ProjectID: i.ProjectID, UserID: i.UserID,
		Options: opts.Options, Order: opts.Order,
		Hooks: Hooks{Start: o.startGuest, Destroy: o.destroyGuest},
	}
}

func (o *Operations) startGuest(ctx context.Context, result *Result) error {
	guest := Guest{Instance: result.Instance, Host: result.Host}
	if err := o.driver.Define(ctx, guest, result.Domain); err != nil {
		return fmt.Errorf("define: %w", err)
	}
	return o.driver.Start(ctx, guest)
}

func (o *Operations) destroyGuest(ctx context.Context, result *Result) error {
	guest := Guest{Instance: result.Instance, Host: result.Host}
	if err := o.driver.Destroy(ctx, guest); err != nil {
		return err
	}
	return o.driver.Undefine(ctx, guest)
}

// Unshelve brings a shelved instance back. One that is still on its host is
// started, and the result is nil. An offloaded one (no Host) is spawned anew, on
// any host and with other ARQs; when that fails everything is given back, so that
// the next Unshelve works. Nova leaves the ARQs bound then, and Cyborg refuses
// the next bind.
func (o *Operations) Unshelve(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	if i.Host != "" {
		return nil, o.powerOn(ctx, OpUnshelve, i)
	}
	end, err := o.begin(OpUnshelve, i)
	if err != nil {
		return nil, err
	}
	defer end()
	if i.hasPort() { // Nova blocks the shelving, so there is none
		return nil, &BlockedError{Operation: OpUnshelve, Instance: i.UUID, Code: 400, Text: textP}
	}
	result, err := o.flow.Run(ctx, o.request(i, opts))
	return result, failed(OpUnshelve, i, err)
}

// Evacuate gives an instance of a host that is down another host: it is claimed
// there first, then the old ARQs are deleted, because Cyborg binds none for an
// instance that has some, and others are created and bound. With them the guest
// is started, and the claim on the old host is given up. The caller sees to it
// that the old host is really down.
//
// A failure before the old ARQs go leaves the instance as it was. After one that
// comes later it has neither accelerators nor their allocation, and Evacuate may
// be called again; Nova leaves the new ones bound. When only the old claim could
// not be given up, both the result and an error that matches ErrLeftover are
// returned.
func (o *Operations) Evacuate(ctx context.Context, i Instance, opts MoveOpts) (*Result, error) {
	end, err := o.begin(OpEvacuate, i)
	if err != nil {
		return nil, err
	}
	defer end()
	a, err := o.flow.Begin(o.request(i, opts))
	if err != nil {
		return nil, failed(OpEvacuate, i, err)
	}
	done := false
	defer func() { // a hook of the caller may panic
		if !done {
			a.Unwind(ctx)
		}
	}()
	step, err := o.evacuate(ctx, a, i)
	done = true
	if err != nil {
		return nil, failed(OpEvacuate, i, a.fail(ctx, step, err))
	}
	final := a.Chosen.Allocations
	err = o.rewrite(ctx, a, func(allocation) map[string]map[string]int { return final })
	return a.Result(), failed(OpEvacuate, i, err)
}

// evacuate walks the steps on the new host.
func (o *Operations) evacuate(ctx context.Context, a *Attempt, i Instance) (Step, error) {
	order := a.Request.Order
	a.Request.Order = func(candidates []Candidate) []Candidate {
		candidates = a.elsewhere(candidates)
		if order != nil {
			candidates = order(candidates)
		}
		return candidates
	}
	for _, step := range a.steps() {
		err := o.beforeStep(ctx, a, i, step.name)
		if err == nil {
			err = step.run(ctx)
		}
		if err != nil {
			return step.name, err
		}
	}
	return 0, nil
}

// beforeStep reads what the instance holds before a host is chosen, and frees
// its old ARQs before new ones are made.
func (o *Operations) beforeStep(ctx context.Context, a *Attempt, i Instance, name Step) error {
	switch name {
	case StepSelect:
		held, err := o.flow.placement.getAllocation(a.record.reopen(ctx), i.UUID)
		if err != nil {
			return err
		}
		a.before = held
	case StepCreate:
		return o.freeOld(ctx, a, i)
	}
	return nil
}

// elsewhere leaves out the host whose resources the instance holds.
func (a *Attempt) elsewhere(candidates []Candidate) []Candidate {
	if len(a.before.Resources) == 0 {
		return candidates
	}
	node := nodeProvider(a.before.Resources)
	var others []Candidate
	for _, c := range candidates {
		if _, same := c.Allocations[node]; !same && c.Root != node {
			others = append(others, c)
		}
	}
	return others
}

// freeOld deletes the ARQs on the old host. From then on the instance does not
// hold their devices either, whatever follows.
func (o *Operations) freeOld(ctx context.Context, a *Attempt, i Instance) error {
	if !i.hasProfile() {
		return nil
	}
	devices, err := o.deviceProviders(ctx)
	if err != nil {
		return err
	}
	left, err := o.deleteOld(ctx, i)
	for _, arq := range left { // these are still the instance's, and so are their devices
		delete(devices, arq.DeviceRPUUID)
	}
	if err == nil || len(left) > 0 {
		a.before.Resources = withoutDevices(a.before.Resources, devices)
	}
	return err
}

// deleteOld runs on a context of its own: once it has begun it must be known
// which ARQs are gone. After a failure it tells which are left; none, when Cyborg
// does not say.
func (o *Operations) deleteOld(ctx context.Context, i Instance) (left []cyborgclient.ARQ, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.flow.config.UnwindTimeout)
	defer cancel()
	err = o.flow.again(ctx, func(ctx context.Context) error { return o.flow.cyborg.DeleteARQsForInstance(ctx, i.UUID) })
	if err == nil {
		return nil, nil
	}
	left, listErr := o.flow.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: i.UUID})
	if listErr == nil && len(left) == 0 {
		return nil, nil
	}
	return left, fmt.Errorf("delete the ARQs on host %s: %w", i.Host, errors.Join(err, listErr))
}

// deviceProviders are the resource providers of Cyborg's.
func (o *Operations) deviceProviders(ctx context.Context) (map[string]bool, error) {
	deployables, err := o.flow.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	if err != nil {
		return nil, err
	}
	providers := make(map[string]bool, len(deployables))
	for _, part := range deployables {
		providers[part.RPUUID] = true
	}
	return providers, nil
}

// withoutDevices is an allocation without what it has of device providers. On a
// flat host the device provider is the node's own, which keeps its basics.
func withoutDevices(held map[string]map[string]int, devices map[string]bool) map[string]map[string]int {
	kept := make(map[string]map[string]int, len(held))
	for provider, resources := range held {
		if !devices[provider] {
			kept[provider] = resources
			continue
		}
		basics := map[string]int{}
		for _, class := range []string{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"} {
			if n := resources[class]; n > 0 {
				basics[class] = n
			}
		}
		if len(basics) > 0 {
			kept[provider] = basics
		}
	}
	return kept
}

// rewrite replaces what an instance holds, after a move that succeeded. It runs
// on a context of its own; what cannot be written is left over.
func (o *Operations) rewrite(ctx context.Context, a *Attempt, want func(held allocation) map[string]map[string]int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.flow.config.UnwindTimeout)
	defer cancel()
	ctx, step := a.record.open(ctx, StepUnwind)
	err := o.flow.again(ctx, func(ctx context.Context) error {
		held, err := o.flow.placement.getAllocation(ctx, a.Request.Instance)
		if err != nil {
			return err
		}
		next := held
		if next.Resources = want(held); equalResources(held.Resources, next.Resources) {
			return nil
		}
		return o.flow.placement.putAllocation(ctx, a.Request.Instance, next)
	})
	step.close("the old claim is given up", err)
	if err == nil {
		return nil
	}
	left := Leftover{Kind: "allocation", ID: a.Request.Instance, Err: err}
	return &Error{
		Instance: a.Request.Instance, Step: StepUnwind, Err: errors.New("the old claim could not be given up"),
		Leftovers: []Leftover{left}, Trace: a.Trace(),
	}
}

func cloneResources(held map[string]map[string]int) map[string]map[string]int {
	clone := make(map[string]map[string]int, len(held))
	for provider, resources := range held {
		clone[provider] = maps.Clone(resources)
	}
	return clone
}
