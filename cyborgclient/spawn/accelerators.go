package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// accelerators waits until every ARQ of an instance is Bound with a handle on its
// host, and returns their devices. The events are registered first, then Cyborg is
// asked, as after a spawn: an agent that starts with its host reports when the
// mediated devices exist again. ARQs of a silent agent (unknown) are polled, because
// no event announces its return (the Wallaby vGPU specification). The timeout is
// Config.ARQBindingTimeout.
//
// The error is a [*NotBoundError] or matches ErrNoARQs; nothing was changed.
func (o *Operations) accelerators(ctx context.Context, i Instance) (accelerators, error) {
	return o.acceleratorsBy(ctx, i, o.deadline())
}

func (o *Operations) deadline() time.Time { return time.Now().Add(o.flow.config.ARQBindingTimeout) }

func (o *Operations) acceleratorsBy(ctx context.Context, i Instance, deadline time.Time) (accelerators, error) {
	if !i.accelerated() {
		return accelerators{}, nil
	}
	w := &arqWait{flow: o.flow, instance: i, deadline: deadline}
	defer w.closeWaiter()
	if err := w.await(ctx); err != nil {
		return accelerators{}, err
	}
	return acceleratorsOf(w.arqs, i.portARQs())
}

// arqWait waits for the ARQs of an existing instance.
type arqWait struct {
	flow     *Flow
	instance Instance
	deadline time.Time
	arqs     []cyborgclient.ARQ
	expected []string
	waiter   *externalevent.Waiter
}

func (w *arqWait) await(ctx context.Context) error {
	if w.expected = w.instance.ARQs; len(w.expected) == 0 {
		if err := w.list(ctx); err != nil {
			return err
		}
		w.expected = uuidsOf(w.arqs)
	}
	if w.flow.events != nil {
		var err error
		if w.waiter, err = w.flow.events.Prepare(w.instance.UUID, w.expected...); err != nil {
			return fmt.Errorf("register for events: %w", err)
		}
	}
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		err := w.list(ctx)
		switch {
		case err == nil && !w.pending():
			return w.verify(nil)
		case err != nil && !errors.Is(err, cyborgclient.ErrUnavailable):
			return err
		}
		left := time.Until(w.deadline)
		if left <= 0 {
			timeout := fmt.Errorf("waited for %s: %w", w.flow.config.ARQBindingTimeout, externalevent.ErrTimeout)
			return w.verify(errors.Join(timeout, err))
		}
		if err := w.pause(ctx, min(pause, left)); err != nil {
			return w.verify(err)
		}
	}
}

func (w *arqWait) closeWaiter() {
	if w.waiter != nil {
		w.waiter.Close()
		w.waiter = nil
	}
}

// list reads the ARQs. An empty list is an error, as in Nova.
func (w *arqWait) list(ctx context.Context) error {
	found, err := w.flow.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: w.instance.UUID})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: Cyborg lists none of instance %s", ErrNoARQs, w.instance.UUID)
	}
	w.arqs = found
	return nil
}

// pending reports whether an ARQ may still become Bound by itself: BindStarted,
// provisioning, unknown, and states that this version does not know.
func (w *arqWait) pending() bool {
	return slices.ContainsFunc(w.arqs, func(arq cyborgclient.ARQ) bool {
		return !arq.State.Known() || arq.State == cyborgclient.StateBindStarted
	})
}

// pause returns when all events have arrived or after the given time. A failed event
// is no error: Cyborg is asked next.
func (w *arqWait) pause(ctx context.Context, d time.Duration) error {
	if w.waiter == nil {
		return sleep(ctx, d)
	}
	var bound []string
	for _, arq := range w.arqs {
		if arq.State == cyborgclient.StateBound {
			bound = append(bound, arq.UUID)
		}
	}
	w.waiter.Early(bound...)
	err := w.waiter.Wait(ctx, d)
	switch {
	case errors.Is(err, externalevent.ErrTimeout):
		return nil
	case errors.Is(err, externalevent.ErrFailed), err == nil:
		w.closeWaiter() // no more events will come; poll from now on
		return nil
	}
	return err
}

// verify checks that each expected ARQ is Bound with a handle on the host, and that
// there is no other.
func (w *arqWait) verify(cause error) error {
	ordered, others := inOrder(w.arqs, w.expected)
	w.arqs = ordered
	return checkARQs(ordered, others, w.instance.Host, nil, cause)
}
