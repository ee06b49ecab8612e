package spawn

import (
	"context"
	"time"
)

// accelerators waits until every ARQ of an instance is Bound with a handle on its host, and returns their devices. It
// registers for the events before it asks Cyborg, as after a spawn: an agent that starts with its host reports when
// the mediated devices exist again. ARQs of an agent that does not respond (state unknown) are polled, because no
// event announces its return (the Wallaby vGPU specification). The timeout is Config.ARQBindingTimeout.
//
// The error is a [*NotBoundError], or matches ErrNoARQs, or ErrRequest if the ARQ of a port cannot be determined.
// Nothing was changed.
func (o *Operations) accelerators(ctx context.Context, i Instance) (accelerators, error) {
	return o.acceleratorsBy(ctx, i, o.deadline())
}

func (o *Operations) deadline() time.Time { return time.Now().Add(o.flow.config.ARQBindingTimeout) }

func (o *Operations) acceleratorsBy(ctx context.Context, i Instance, deadline time.Time) (accelerators, error) {
	if !i.accelerated() {
		return accelerators{}, nil
	}
	w := &arqWait{
		flow: o.flow, instance: i.UUID, host: i.Host, expected: i.ARQs, timeout: o.flow.config.ARQBindingTimeout, deadline: deadline,
	}
	defer w.close()
	err := o.flow.newRecorder(i.UUID, i.Host).step(ctx, StepWait, func(ctx context.Context) (string, error) {
		err := w.run(ctx)
		return count(len(w.arqs), "ARQ") + " Bound", err
	})
	if err != nil {
		return accelerators{}, err
	}
	ports, err := i.portsOf(w.arqs)
	if err != nil {
		return accelerators{}, err
	}
	return acceleratorsOf(w.arqs, ports)
}
