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

// Bounds of the pause between two polls.
const (
	firstPoll = 250 * time.Millisecond
	lastPoll  = 10 * time.Second
)

// WaitBound is step 9: it asks Cyborg once for ARQs that were resolved early, waits
// for the events of the others until Config.ARQBindingTimeout after the bind request,
// asks again if it had to wait, and requires that every ARQ is Bound with a handle.
// Anything else is a [*NotBoundError]. A timeout is fatal, as in Nova: no other host
// is tried.
func (a *Attempt) WaitBound(ctx context.Context) error {
	return a.deviceStep(ctx, StepWait, !a.bound.IsZero(), StepBind, func(ctx context.Context) (string, error) {
		defer a.closeWaiter()
		if err := a.prepareEvents(); err != nil { // done by Bind, unless another process bound
			return "", err
		}
		early, err := a.await(ctx)
		if err == nil && early < len(a.ARQs) {
			err = a.refresh(ctx) // an event tells that an ARQ is resolved, not its state
		}
		if err != nil {
			return "", a.notBound(ctx, err)
		}
		if err := a.checkBound(nil); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s Bound, %d before the wait", count(len(a.ARQs), "ARQ"), early), nil
	})
}

// await returns when every ARQ is resolved, and how many were before the wait.
func (a *Attempt) await(ctx context.Context) (early int, err error) {
	if err := a.refreshResolved(ctx); err != nil {
		return 0, err
	}
	resolved := a.resolved()
	if len(resolved) == len(a.ARQs) {
		return len(resolved), nil
	}
	remaining := a.flow.config.ARQBindingTimeout - time.Since(a.bound)
	if a.waiter == nil {
		return len(resolved), a.poll(ctx, remaining)
	}
	a.waiter.Early(resolved...)
	return len(resolved), a.waiter.Wait(ctx, remaining)
}

// poll asks Cyborg until every ARQ is resolved, with growing pauses.
func (a *Attempt) poll(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("polled for %s: %w", a.flow.config.ARQBindingTimeout, externalevent.ErrTimeout)
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return err
		}
		if err := a.refreshResolved(ctx); err != nil && !errors.Is(err, cyborgclient.ErrUnavailable) {
			return err
		}
		if len(a.resolved()) == len(a.ARQs) {
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

// resolved returns the ARQs that Cyborg has resolved.
func (a *Attempt) resolved() []string {
	var resolved []string
	for _, arq := range a.ARQs {
		if arq.State.Resolved() {
			resolved = append(resolved, arq.UUID)
		}
	}
	return resolved
}

// refresh reads the ARQs of the attempt. One that Cyborg does not list becomes an
// ARQ without a state.
func (a *Attempt) refresh(ctx context.Context) error {
	return a.list(ctx, cyborgclient.ListARQsOpts{Instance: a.Request.Instance})
}

// refreshResolved is refresh, or with Compat.ResolvedByServer a list of resolved ARQs,
// which Cyborg refuses while there are others.
func (a *Attempt) refreshResolved(ctx context.Context) error {
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
		return err
	}
	a.ARQs, _ = inOrder(found, uuidsOf(a.ARQs))
	return nil
}

// inOrder returns the expected ARQs in their order, with an ARQ without a state for
// each one that was not found, and the other ARQs that were found.
func inOrder(found []cyborgclient.ARQ, expected []string) (ordered, others []cyborgclient.ARQ) {
	ordered = make([]cyborgclient.ARQ, len(expected))
	for i, uuid := range expected {
		ordered[i].UUID = uuid
	}
	for _, arq := range found {
		if i := slices.Index(expected, arq.UUID); i >= 0 {
			ordered[i] = arq
		} else {
			others = append(others, arq)
		}
	}
	return ordered, others
}

// problemOf is why a guest cannot be started with an ARQ; empty if it can. An empty
// host or provider means any.
func problemOf(arq cyborgclient.ARQ, host, provider string) string {
	switch {
	case arq.State == "":
		return "not among the ARQs of the instance"
	case arq.State != cyborgclient.StateBound:
		return "not Bound"
	case arq.AttachHandleType == "" || len(arq.AttachHandleInfo) == 0:
		return "no attach handle"
	case host != "" && arq.Hostname != host:
		return "bound to host " + arq.Hostname
	case provider != "" && arq.DeviceRPUUID != provider:
		return "bound to provider " + arq.DeviceRPUUID
	}
	return ""
}

// checkARQs returns a [*NotBoundError] with the cause, if any, unless every expected ARQ
// is Bound with a handle and there are no others.
func checkARQs(expected, others []cyborgclient.ARQ, host string, providers map[string]string, cause error) error {
	problems := map[string]string{}
	for _, arq := range expected {
		if problem := problemOf(arq, host, providers[arq.UUID]); problem != "" {
			problems[arq.UUID] = problem
		}
	}
	for _, arq := range others {
		problems[arq.UUID] = "not among those that the instance was given"
	}
	if cause == nil && len(problems) == 0 {
		return nil
	}
	return &NotBoundError{ARQs: slices.Concat(expected, others), Problems: problems, Err: cause}
}

// checkBound returns a [*NotBoundError] unless every ARQ is Bound with a handle.
func (a *Attempt) checkBound(cause error) error {
	providers := make(map[string]string, len(a.Bindings))
	for _, binding := range a.Bindings {
		providers[binding.ARQ] = binding.DeviceRP
	}
	return checkARQs(a.ARQs, nil, a.Host, providers, cause)
}

// notBound is the error of a wait that ended early. It reads the states once more,
// also after the caller's context ended.
func (a *Attempt) notBound(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	if err := a.refresh(ctx); err == nil {
		return a.checkBound(cause)
	}
	unknown := &NotBoundError{Problems: map[string]string{}, Err: cause}
	for _, arq := range a.ARQs {
		unknown.ARQs = append(unknown.ARQs, cyborgclient.ARQ{UUID: arq.UUID})
		unknown.Problems[arq.UUID] = "state unknown"
	}
	return unknown
}

// stateTimeout bounds the request for the states after a failure.
const stateTimeout = 10 * time.Second

// closeWaiter unregisters the events.
func (a *Attempt) closeWaiter() {
	if a.waiter != nil {
		a.waiter.Close()
	}
	a.waiter = nil
}
