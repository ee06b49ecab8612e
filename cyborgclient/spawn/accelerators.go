package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/domainxml"
)

// ErrNoARQs: Cyborg shows no accelerator request of an instance that should have
// some. Its guest is not started, as in Nova.
var ErrNoARQs = errors.New("no accelerator requests")

// accelerators are what an instance has of Cyborg's, all Bound.
type accelerators struct {
	arqs       []cyborgclient.ARQ
	hostdevs   []domainxml.Device // of the flavor
	interfaces []domainxml.Device // of ports whose MAC is known
	skipped    []domainxml.Skipped
}

// mediated reports whether a device does not outlive its host.
func (a accelerators) mediated() bool {
	return slices.ContainsFunc(a.hostdevs, func(d domainxml.Device) bool { return d.MDEV != "" })
}

// devices are what belongs into the domain.
func (a accelerators) devices() []domainxml.Device { return slices.Concat(a.hostdevs, a.interfaces) }

// accelerators waits until every ARQ of an instance is Bound with a handle on
// its host, and gives their devices. The events are registered first, then
// Cyborg is asked, as after a spawn: an agent that comes up with its host tells
// when the mediated devices are there again. Requests of an agent that is silent
// (unknown) are asked for again and again, because no event tells of its return
// (the Wallaby vGPU specification). The time is Config.ARQBindingTimeout.
//
// The error is a [*NotBoundError], or matches ErrNoARQs. Nothing is changed by
// either.
func (o *Operations) accelerators(ctx context.Context, i Instance) (accelerators, error) {
	return o.acceleratorsBy(ctx, i, o.deadline())
}

func (o *Operations) deadline() time.Time { return time.Now().Add(o.flow.config.bindingTimeout()) }

func (o *Operations) acceleratorsBy(ctx context.Context, i Instance, deadline time.Time) (accelerators, error) {
	if !i.accelerated() {
		return accelerators{}, nil
	}
	r := &resumption{flow: o.flow, instance: i, deadline: deadline}
	defer r.forget()
	if err := r.await(ctx); err != nil {
		return accelerators{}, err
	}
	return o.compose(i, r.arqs)
}

// resumption waits for the ARQs of an instance that was spawned before.
type resumption struct {
	flow     *Flow
	instance Instance
	deadline time.Time
	arqs     []cyborgclient.ARQ
	expected []string
	waiter   *externalevent.Waiter
}

func (r *resumption) await(ctx context.Context) error {
	if r.expected = r.instance.ARQs; len(r.expected) == 0 {
		if err := r.list(ctx); err != nil {
			return err
		}
		for _, arq := range r.arqs {
			r.expected = append(r.expected, arq.UUID)
		}
	}
	if err := r.prepare(); err != nil {
		return err
	}
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		err := r.list(ctx)
		switch {
		case err == nil && !r.pending():
			return r.judge(nil)
		case err != nil && !errors.Is(err, cyborgclient.ErrUnavailable):
			return err
		}
		left := time.Until(r.deadline)
		if left <= 0 {
			timeout := fmt.Errorf("waited for %s: %w", r.flow.config.bindingTimeout(), externalevent.ErrTimeout)
			return r.judge(errors.Join(timeout, err))
		}
		if err := r.pause(ctx, min(pause, left)); err != nil {
			return r.judge(err)
		}
	}
}

// prepare registers for the events of all expected ARQs.
func (r *resumption) prepare() error {
	if r.flow.events == nil {
		return nil
	}
	waiter, err := r.flow.events.Prepare(r.instance.UUID, r.expected...)
	if err != nil {
		return fmt.Errorf("register for events: %w", err)
	}
	r.waiter = waiter
	return nil
}

// forget leaves nothing in the registry.
func (r *resumption) forget() {
	if r.waiter != nil {
		r.waiter.Close()
	}
}

// list reads the ARQs, in the order in which they are expected. None at all is
// an error, as in Nova.
func (r *resumption) list(ctx context.Context) error {
	found, err := r.flow.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: r.instance.UUID})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: Cyborg returned no accelerator requests for instance %s", ErrNoARQs, r.instance.UUID)
	}
	r.arqs = found
	return nil
}

// pending reports whether some ARQ may still become Bound by itself.
func (r *resumption) pending() bool {
	return slices.ContainsFunc(r.arqs, func(arq cyborgclient.ARQ) bool {
		switch arq.State {
		case cyborgclient.StateBound, cyborgclient.StateBindFailed, cyborgclient.StateDeleting,
			cyborgclient.StateInitial, cyborgclient.StateUnbound, cyborgclient.StateUnbindFailed:
			return false
		}
		return true // BindStarted, provisioning, unknown, and what nobody knows yet
	})
}

// pause ends when the events have come, or after the time, whichever is first. A
// failed event only means that Cyborg is to be asked.
func (r *resumption) pause(ctx context.Context, d time.Duration) error {
	if r.waiter == nil {
		return sleep(ctx, d)
	}
	var settled []string
	for _, arq := range r.arqs {
		if arq.State == cyborgclient.StateBound {
			settled = append(settled, arq.UUID)
		}
	}
	r.waiter.Early(settled...)
	err := r.waiter.Wait(ctx, d)
	switch {
	case errors.Is(err, externalevent.ErrTimeout):
		return nil
	case errors.Is(err, externalevent.ErrFailed), err == nil:
		// All that will come has come; what is asked for now decides, and should
		// Cyborg need longer it is polled.
		r.waiter.Close()
		r.waiter = nil
		return nil
	}
	return err
}

// judge demands that each expected ARQ is Bound with a handle on the host, and
// that there is no other.
func (r *resumption) judge(cause error) error {
	byUUID := make(map[string]cyborgclient.ARQ, len(r.arqs))
	for _, arq := range r.arqs {
		byUUID[arq.UUID] = arq
	}
	failure := &NotBoundError{Err: cause}
	bad := cause != nil
	r.arqs = r.arqs[:0:0]
	for _, uuid := range r.expected {
		arq := byUUID[uuid]
		delete(byUUID, uuid)
		problem := r.problem(arq)
		bad = bad || problem != ""
		failure.ARQs = append(failure.ARQs, ARQState{ARQ: uuid, State: arq.State, Problem: problem})
		r.arqs = append(r.arqs, arq)
	}
	for uuid, arq := range byUUID {
		bad = true
		failure.ARQs = append(failure.ARQs, ARQState{ARQ: uuid, State: arq.State, Problem: "not among those that the instance was given"})
	}
	if bad {
		return failure
	}
	return nil
}

func (r *resumption) problem(arq cyborgclient.ARQ) string {
	switch {
	case arq.UUID == "":
		return "not among the ARQs of the instance"
	case arq.State != cyborgclient.StateBound:
		return "not Bound"
	case arq.AttachHandleType == "" || len(arq.AttachHandleInfo) == 0:
		return "no attach handle"
	case r.instance.Host != "" && arq.Hostname != r.instance.Host:
		return "bound to host " + arq.Hostname
	}
	return ""
}

// compose makes the devices of Bound ARQs: those of ports are interfaces, the
// others host devices. Nova takes the ports' for host devices, too, when it
// starts a guest again, and libvirt refuses the domain.
func (o *Operations) compose(i Instance, arqs []cyborgclient.ARQ) (accelerators, error) {
	ports := i.portARQs()
	a := accelerators{arqs: arqs}
	var handles []domainxml.Handle
	var known []domainxml.Port
	for _, arq := range arqs {
		port, ofPort := ports[arq.UUID]
		switch {
		case !ofPort:
			handles = append(handles, handleOf(arq))
		case port.MAC != "":
			known = append(known, domainxml.Port{Handle: handleOf(arq), MAC: port.MAC, VLAN: port.VLAN})
		}
	}
	var err error
	if a.hostdevs, a.skipped, err = domainxml.Hostdevs(handles); err != nil {
		return a, err
	}
	a.interfaces, _, err = domainxml.Interfaces(known)
	return a, err
}

// complete gives a domain with the devices of the accelerators: what is missing
// is added, what is there stays as it is.
func (a accelerators) complete(domain []byte) ([]byte, error) {
	full, err := domainxml.Complete(domain, a.devices())
	if err != nil {
		return nil, err
	}
	diff, err := domainxml.Diff(full, a.devices())
	if err != nil {
		return nil, err
	}
	if len(diff.Missing) > 0 {
		return nil, fmt.Errorf("%w: %d devices are not in the domain", ErrNotBound, len(diff.Missing))
	}
	return full, nil
}
