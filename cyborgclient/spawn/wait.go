package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// Limits of the pause between two polls, without an event registry and with one.
const (
	firstPoll       = 250 * time.Millisecond
	lastPoll        = 10 * time.Second
	firstPollBeside = time.Second
	lastPollBeside  = 30 * time.Second
)

// lookTimeout limits one poll, retries included. stateTimeout limits the last poll and a request for the states after
// a failure.
const (
	lookTimeout  = 30 * time.Second
	stateTimeout = 10 * time.Second
)

// WaitBound is step 9: it waits until every ARQ is Bound with a handle, until Config.ARQBindingTimeout after the bind
// request. It asks Cyborg at once, because most ARQs are Bound before the bind request returns, and again after the
// events of the others. Events may be lost, late or forged, so Cyborg's states decide. With a registry Cyborg is
// polled as well, with pauses that grow from one second to half a minute.
//
// If an ARQ is not Bound, or, after a [Handover], an ARQ that is not part of the handover is Bound to the instance on
// the host, the error is a [*NotBoundError]. A timeout is final, as in Nova: no other host is tried.
func (a *Attempt) WaitBound(ctx context.Context) error {
	return a.deviceStep(ctx, StepWait, !a.bound.IsZero(), StepBind, func(ctx context.Context) (string, error) {
		defer a.closeWaiter()
		if err := a.prepareEvents(); err != nil { // done by Bind, unless another process bound
			return "", err
		}
		decision, err := a.await(ctx, a.flow.config.ARQBindingTimeout)
		a.noteBroken(err)
		return decision, a.withOwnersOfBind(ctx, err)
	})
}

// await waits until every ARQ is Bound, until the given time after the bind request.
func (a *Attempt) await(ctx context.Context, timeout time.Duration) (decision string, err error) {
	w := &arqWait{
		flow: a.flow, instance: a.Request.Instance, host: a.Host, fresh: true, isForgotten: a.isForgotten, waiter: a.waiter,
		timeout: timeout, deadline: a.bound.Add(timeout), expected: uuidsOf(a.ARQs), providers: a.providers(),
	}
	err = w.run(ctx)
	a.ARQs, a.waiter = w.arqs, w.waiter
	a.remover().see(a.ARQs)
	a.nameForgotten(w.others)
	decision = fmt.Sprintf("%s Bound, %d before the wait", count(len(w.arqs), "ARQ"), w.early)
	if w.waiter != nil && w.early < len(w.arqs) {
		decision += "; not every event came"
	}
	return decision, err
}

// closeWaiter unregisters the events.
func (a *Attempt) closeWaiter() {
	if a.waiter != nil {
		a.waiter.Close()
	}
	a.waiter = nil
}

// arqWait waits until the ARQs of an instance are Bound. It reads them from Cyborg, again when their events have
// arrived or a pause has ended, and at the deadline. An event only triggers a read. If Cyborg does not confirm it,
// because it is forged or another API worker of Cyborg returns an older state, arqWait stops listening and polls the
// ARQs.
type arqWait struct {
	flow      *Flow
	instance  string
	host      string            // empty: any
	providers map[string]string // by ARQ; none: any
	expected  []string          // empty: the ARQs that Cyborg lists first
	fresh     bool              // the bind was just requested
	// isForgotten reports, for a fresh bind, whether another ARQ of the instance was bound by the same bind.
	isForgotten func(cyborgclient.ARQ) bool
	timeout     time.Duration
	deadline    time.Time
	waiter      *externalevent.Waiter // nil: no events are expected

	arqs, others []cyborgclient.ARQ // as last read; arqs are the expected ARQs
	read         error              // error of the last read
	early        int                // number Bound when first read
	failed       error              // a failed event
	interval     time.Duration      // the last pause, before jitter
}

// run returns nil when every ARQ is Bound with a handle and there are no others; after a fresh bind only forgotten
// ARQs count as others. The error is a [*NotBoundError], or matches ErrNoARQs or the context's error.
func (w *arqWait) run(ctx context.Context) error {
	cause := w.wait(ctx)
	if ctx.Err() != nil && cause != nil {
		_ = w.look(context.WithoutCancel(ctx), stateTimeout, false) // report the states, which may have changed
	}
	if cause != nil && w.read != nil { // what was read before may no longer be true
		w.arqs, w.others = inOrder(nil, w.expected)
	}
	problems := w.problems()
	switch {
	case len(problems) == 0 || errors.Is(cause, ErrNoARQs):
		return cause
	case cause == nil:
		cause = w.failed
	}
	return &NotBoundError{ARQs: slices.Concat(w.arqs, w.others), Problems: problems, Err: cause}
}

// wait returns nil when every ARQ is Bound or one cannot become Bound.
func (w *arqWait) wait(ctx context.Context) error {
	listened := w.waiter != nil || w.flow.events == nil
	for first := true; ; first = false {
		last := !time.Now().Before(w.deadline)
		timeout := min(lookTimeout, time.Until(w.deadline))
		if last {
			timeout = stateTimeout
		}
		err := w.look(ctx, timeout, w.fresh && !last)
		if first {
			w.early = len(w.bound())
		}
		switch {
		case err == nil && w.decided():
			return nil
		case ctx.Err() != nil:
			return contextError(ctx)
		case err != nil && !passing(err):
			return err
		case last:
			late := fmt.Errorf("%w after %s", externalevent.ErrTimeout, w.timeout)
			if err != nil {
				return fmt.Errorf("%w: %w", late, err)
			}
			return late
		case !listened && len(w.expected) > 0:
			if w.waiter, err = w.flow.events.Prepare(w.instance, w.expected...); err != nil {
				return fmt.Errorf("register for events: %w", err)
			}
			listened = true // ask again: an event before this is lost
			continue
		}
		if err := w.pause(ctx, min(w.nextPause(), time.Until(w.deadline))); err != nil {
			return err
		}
	}
}

// passing reports whether a later read may succeed. Cyborg never answers a list with 404, but an ingress does while
// Cyborg is restarted.
func passing(err error) bool {
	return errors.Is(err, cyborgclient.ErrUnavailable) || errors.Is(err, cyborgclient.ErrNotFound) || errors.Is(err, cyborgclient.ErrMalformed) ||
		errors.Is(err, cyborgclient.ErrNotResolved)
}

// look reads the ARQs. With resolved and Compat.ResolvedByServer Cyborg refuses the list while there are unresolved
// ARQs. An expected ARQ that is not listed becomes an ARQ without a state.
func (w *arqWait) look(ctx context.Context, timeout time.Duration, resolved bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := w.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{
		Instance: w.instance, Resolved: resolved && w.flow.config.Compat.ResolvedByServer,
	})
	if w.read = err; err != nil {
		return err
	}
	if len(found) == 0 && !w.fresh {
		return fmt.Errorf("%w: Cyborg lists none of instance %s", ErrNoARQs, w.instance)
	}
	if !w.fresh {
		found = onHost(found, w.host, w.expected)
	}
	if len(w.expected) == 0 {
		w.expected = uuidsOf(found)
	}
	w.arqs, w.others = inOrder(found, w.expected)
	if w.fresh { // the instance may have had ARQs before
		w.others = slices.DeleteFunc(w.others, func(arq cyborgclient.ARQ) bool { return !w.isForgotten(arq) })
	}
	return nil
}

// decided reports whether every ARQ is Bound, or one can no longer become Bound.
func (w *arqWait) decided() bool {
	decided := true
	for _, arq := range w.arqs {
		switch {
		case arq.State == cyborgclient.StateBound:
		case w.mayBecomeBound(arq.State):
			decided = false
		default:
			return true
		}
	}
	return decided
}

// mayBecomeBound reports whether an ARQ may become Bound by itself. After a bind request an earlier state, or a
// missing ARQ, may be an outdated response. For an instance that was bound long ago, arqWait waits for ARQs in the
// states provisioning and unknown, and in states that this version does not know.
func (w *arqWait) mayBecomeBound(state cyborgclient.State) bool {
	if w.fresh {
		return !state.Resolved()
	}
	return state != "" && !state.Known() || state == cyborgclient.StateBindStarted
}

// pause returns when the events of all ARQs that are not Bound have arrived, or after the given time.
func (w *arqWait) pause(ctx context.Context, d time.Duration) error {
	if w.waiter == nil {
		return sleep(ctx, d)
	}
	w.waiter.Early(w.bound()...)
	err := w.waiter.Wait(ctx, d)
	if ended, ok := errors.AsType[*externalevent.WaitError](err); ok {
		err = ended.Err // without the state of each event
	}
	switch {
	case errors.Is(err, externalevent.ErrTimeout):
		return nil
	case err == nil, errors.Is(err, externalevent.ErrFailed) && !errors.Is(err, externalevent.ErrClosed):
		if w.interval = 0; err != nil {
			w.failed = externalevent.ErrFailed // the ARQs show which
		}
		w.close() // an event is received only once; a later one would be dropped
		return nil
	}
	return err
}

// close unregisters the events.
func (w *arqWait) close() {
	if w.waiter != nil {
		w.waiter.Close()
	}
	w.waiter = nil
}

// nextPause doubles the pause up to a limit, with a jitter of a quarter derived from the instance.
func (w *arqWait) nextPause() time.Duration {
	first, last := firstPoll, lastPoll
	if w.waiter != nil {
		first, last = firstPollBeside, lastPollBeside
	}
	w.interval = min(cmp.Or(2*w.interval, first), last)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(w.instance))
	return w.interval*3/4 + time.Duration(float64(w.interval/2)*float64(hash.Sum32())/(1<<32))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// contextError matches both ctx.Err and the cause.
func contextError(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}

// bound returns the ARQs that are Bound.
func (w *arqWait) bound() []string {
	var bound []string
	for _, arq := range w.arqs {
		if arq.State == cyborgclient.StateBound {
			bound = append(bound, arq.UUID)
		}
	}
	return bound
}

// problems says by ARQ why a guest cannot be started with it.
func (w *arqWait) problems() map[string]string {
	problems := problemsOf(w.arqs, w.others, w.host, w.providers)
	if w.read != nil {
		for uuid := range problems {
			problems[uuid] = "state unknown"
		}
	}
	return problems
}
