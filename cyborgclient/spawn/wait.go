package spawn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// Bounds of the pause between two polls.
const (
	firstPoll = 250 * time.Millisecond
	lastPoll  = 10 * time.Second
)

// WaitBound is step 9: it asks Cyborg once for ARQs that finished early, waits
// for the events of the others until Config.ARQBindingTimeout after the bind
// request, asks again if it had to wait, and demands that every ARQ is Bound
// with a handle.
// Anything else is a [*NotBoundError]. A timeout is fatal, as in Nova: no
// other host is tried.
func (a *Attempt) WaitBound(ctx context.Context) error {
	return a.step(ctx, StepWait, func(ctx context.Context) (string, error) {
		if !a.accelerated() {
			return "nothing to wait for", nil
		}
		if err := a.needs(!a.bound.IsZero(), StepBind); err != nil {
			return "", err
		}
		defer a.closeWaiter()
		if err := a.prepare(); err != nil { // Bind has done it, unless another process bound
			return "", err
		}
		early, err := a.await(ctx)
		if err == nil && early < len(a.ARQs) {
			err = a.refresh(ctx) // an event tells that an ARQ is resolved, not how
		}
		if err != nil {
			return "", a.notBound(ctx, err)
		}
		if len(a.unbound()) > 0 {
			return "", &NotBoundError{ARQs: a.states()}
		}
		return fmt.Sprintf("%s Bound, %d before the wait", count(len(a.ARQs), "ARQ"), early), nil
	})
}

// await returns when every ARQ is resolved: early finishers are found by a
// GET, the others by their events or by polling.
func (a *Attempt) await(ctx context.Context) (early int, err error) {
	if err := a.look(ctx); err != nil {
		return 0, err
	}
	var resolved []string
	for _, arq := range a.ARQs {
		if arq.State.Resolved() {
			resolved = append(resolved, arq.UUID)
		}
	}
	if len(resolved) == len(a.ARQs) {
		return len(resolved), nil
	}
	remaining := a.flow.config.bindingTimeout() - time.Since(a.bound)
	if a.waiter == nil {
		return len(resolved), a.poll(ctx, remaining)
	}
	a.waiter.Early(resolved...)
	return len(resolved), a.waiter.Wait(ctx, remaining)
}

// poll asks until every ARQ is resolved, with growing pauses.
func (a *Attempt) poll(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("polled for %s: %w", a.flow.config.bindingTimeout(), externalevent.ErrTimeout)
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return err
		}
		if err := a.look(ctx); err != nil && !errors.Is(err, cyborgclient.ErrUnavailable) {
			return err
		}
		if a.allResolved() {
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Attempt) allResolved() bool {
	for _, arq := range a.ARQs {
		if !arq.State.Resolved() {
			return false
		}
	}
	return true
}

// refresh reads the ARQs of the instance and keeps, in the order of creation,
// those of this attempt. One that Cyborg does not show becomes an ARQ without
// a state.
func (a *Attempt) refresh(ctx context.Context) error {
	return a.list(ctx, cyborgclient.ListARQsOpts{Instance: a.Request.Instance})
}

// look is refresh, or with Compat.ResolvedByServer the question for resolved
// ARQs, which is refused while there are others.
func (a *Attempt) look(ctx context.Context) error {
	if !a.flow.config.Compat.ResolvedByServer {
		return a.refresh(ctx)
	}
	err := a.list(ctx, cyborgclient.ListARQsOpts{Instance: a.Request.Instance, Resolved: true})
	if errors.Is(err, cyborgclient.ErrNotResolved) {
		return nil
	}
	return err
}

func (a *Attempt) list(ctx context.Context, opts cyborgclient.ListARQsOpts) error {
	found, err := a.flow.cyborg.ListARQs(ctx, opts)
	if err != nil {
		return fmt.Errorf("instance %s: %w", a.Request.Instance, err)
	}
	byUUID := make(map[string]cyborgclient.ARQ, len(found))
	for _, arq := range found {
		byUUID[arq.UUID] = arq
	}
	for i, arq := range a.ARQs {
		current, ok := byUUID[arq.UUID]
		if !ok {
			current = cyborgclient.ARQ{UUID: arq.UUID, DeviceProfileGroupID: arq.DeviceProfileGroupID}
		}
		a.ARQs[i] = current
	}
	return nil
}

// problem tells why an ARQ is not what a guest can be started with; empty for
// one that is.
func (a *Attempt) problem(arq cyborgclient.ARQ) string {
	switch {
	case arq.State == "":
		return "not among the ARQs of the instance"
	case arq.State != cyborgclient.StateBound:
		return "not Bound"
	case arq.AttachHandleType == "" || len(arq.AttachHandleInfo) == 0:
		return "no attach handle"
	case arq.Hostname != a.Host:
		return "bound to host " + arq.Hostname
	case arq.DeviceRPUUID != a.providerOf(arq.UUID):
		return "bound to provider " + arq.DeviceRPUUID
	}
	return ""
}

func (a *Attempt) providerOf(arq string) string {
	for _, binding := range a.Bindings {
		if binding.ARQ == arq {
			return binding.DeviceRP
		}
	}
	return ""
}

// states judges every ARQ.
func (a *Attempt) states() []ARQState {
	states := make([]ARQState, len(a.ARQs))
	for i, arq := range a.ARQs {
		states[i] = ARQState{ARQ: arq.UUID, State: arq.State, Problem: a.problem(arq)}
	}
	return states
}

func (a *Attempt) unbound() []ARQState {
	var unbound []ARQState
	for _, state := range a.states() {
		if state.Problem != "" {
			unbound = append(unbound, state)
		}
	}
	return unbound
}

// notBound is the error of a wait that ended early; it asks once more for the
// states, on a context that the caller's cannot end.
func (a *Attempt) notBound(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	if err := a.refresh(ctx); err == nil {
		return &NotBoundError{ARQs: a.states(), Err: cause}
	}
	states := make([]ARQState, len(a.ARQs))
	for i, arq := range a.ARQs {
		states[i] = ARQState{ARQ: arq.UUID, Problem: "state unknown"}
	}
	return &NotBoundError{ARQs: states, Err: cause}
}

// stateTimeout bounds the last look at the states before the unwinding.
const stateTimeout = 10 * time.Second

// closeWaiter leaves nothing in the registry, whatever came of the wait.
func (a *Attempt) closeWaiter() {
	if a.waiter != nil {
		a.waiter.Close()
	}
	a.waiter = nil
}
