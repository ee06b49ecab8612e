package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

// Patch is the part of a PATCH for one request: bind it, or unbind it.
type Patch struct {
	ARQ    string
	Unbind bool
	Args   store.BindArgs
	read   *readARQ // read before a fault rule delayed the write; nil without such a rule
}

// Caller is the client of a PATCH.
type Caller struct {
	Project string
	Scope   store.Scope
}

// Apply executes a checked PATCH, request by request in the order of the body. The first failure ends it: earlier
// requests stay bound, later ones are not changed, and Nova gets the error of the PATCH instead of an event.
func (c *Conductor) Apply(ctx context.Context, caller Caller, patches []Patch) error {
	ctx, end := c.work.Detach(c.forState(ctx))
	defer end()
	overlap := c.Overlap(patches[0].ARQ)
	if overlap.Open() {
		c.readAll(caller, patches)
		if err := patches[0].read.err; err != nil {
			return err
		}
		if err := overlap.Before(ctx); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, caller, patches); err != nil {
		return err
	}
	return overlap.After(ctx)
}

// apply is Apply after the first request was checked, if a rule delays the write.
func (c *Conductor) apply(ctx context.Context, caller Caller, patches []Patch) error {
	if c.cfg.Async || c.wantsProgramming(caller, patches) {
		return c.applyLater(ctx, caller, patches)
	}
	events := &eventBatch{c: c}
	patch, err := c.applyEach(ctx, caller, patches, func(b store.Bind) error {
		err := c.runBind(ctx, b)
		if err == nil {
			events.add(b, store.Bound)
		}
		return err
	})
	defer func() { c.endPatch(ctx, patch) }()
	if err != nil {
		return err
	}
	return events.send(ctx)
}

// applyEach starts the binds of a PATCH, calling started for each, and performs its unbinds, in the order of the body
// until one fails. It returns the number of the PATCH, or 0 if no bind was started.
func (c *Conductor) applyEach(ctx context.Context, caller Caller, patches []Patch, started func(store.Bind) error) (patch int64, err error) {
	for i, p := range patches {
		if p.Unbind {
			err = c.Unbind(ctx, p.ARQ, caller.Scope)
		} else {
			var b store.Bind
			if b, err = c.startBind(ctx, caller, patches, i, patch); err == nil {
				patch, err = b.Patch, started(b)
			}
		}
		if err != nil {
			return patch, err
		}
	}
	return patch, nil
}

func (c *Conductor) endPatch(ctx context.Context, patch int64) {
	if patch != 0 {
		c.change(ctx, func(tx store.Tx) { tx.EndPatch(patch) })
	}
}

// startBind begins the i-th bind of a PATCH. The check for existing requests of the instance is in the transaction of
// the first bind, so one of two simultaneous PATCHes is refused.
func (c *Conductor) startBind(ctx context.Context, caller Caller, patches []Patch, i int, patch int64) (b store.Bind, err error) {
	read := patches[i].read
	if read == nil && c.cfg.Quirks {
		read = new(readARQ)
		c.db.View(func(tx store.Tx) { read.arq, read.err = c.check(tx, caller, patches, i) })
	}
	c.update(ctx, func(tx store.Tx) {
		var a store.ARQ
		if read == nil {
			a, err = c.check(tx, caller, patches, i)
		} else {
			a, err = c.checkAgain(tx, caller, patches[i], *read)
		}
		if err == nil {
			b, err = tx.StartBind(a, patches[i].Args, caller.Project, patch, c.now())
		}
	})
	return b, err
}

// checkUnused refuses a bind for an instance that already has requests. Upstream checks only the first request's
// instance, and only requests that the caller sees. As upstream, it is not called for a PATCH that begins with an
// unbind.
func (c *Conductor) checkUnused(tx store.Tx, caller Caller, patches []Patch) error {
	scope := store.Everything()
	if c.cfg.Quirks {
		scope, patches = caller.Scope, patches[:1]
	}
	for _, p := range patches {
		if p.Unbind || p.Args.Instance == "" {
			continue
		}
		for range tx.ARQs(p.Args.Instance, scope) {
			return store.BadPatch("Instance %s already has accelerator requests. Cannot bind additional ARQs.", p.Args.Instance)
		}
	}
	return nil
}

// wantsProgramming reports whether a bind of the PATCH programs a device, which takes too long for a synchronous
// response.
func (c *Conductor) wantsProgramming(caller Caller, patches []Patch) bool {
	return store.Read(c.db, func(tx store.Tx) bool {
		return slices.ContainsFunc(patches, func(p Patch) bool {
			a, err := tx.ARQ(p.ARQ, caller.Scope)
			return !p.Unbind && err == nil && tx.WantsProgramming(a, p.Args.Provider)
		})
	})
}

// runBind finishes a bind. Between two transactions it writes the image and creates the mediated device, if any.
func (c *Conductor) runBind(ctx context.Context, b store.Bind) error {
	made, ours, err := c.workFor(ctx, b)
	if !ours {
		return store.Overtaken(b)
	}
	return c.finishBind(ctx, b, made, err)
}

// workFor calls the agent for a bind. Made is a mediated device or vGPU that may have been created, or nil. Ours is
// false if the request was unbound or deleted before.
func (c *Conductor) workFor(ctx context.Context, b store.Bind) (made *store.HandleWork, ours bool, err error) {
	if !b.Creates() && !b.Bitstream.Named() {
		return nil, true, nil
	}
	var work store.HandleWork
	c.change(ctx, func(tx store.Tx) { work, ours = tx.BeginBindWork(b) })
	if !ours {
		return nil, false, nil
	}
	if b.Bitstream.Named() {
		err = c.programForBind(ctx, b)
	}
	if err != nil || !b.Creates() {
		return nil, true, err
	}
	foreign, err := c.createDevice(ctx, work)
	if foreign {
		return nil, true, err
	}
	return &work, true, err
}

// finishBind stores the result of the agent's work. If the work failed, or the request was unbound or deleted in the
// meantime, the work is undone; upstream keeps the handle in use until an unbind.
func (c *Conductor) finishBind(ctx context.Context, b store.Bind, made *store.HandleWork, cause error) error {
	if cause == nil {
		cause = store.Overtaken(b) // by another state
		c.update(ctx, func(tx store.Tx) { cause = tx.FinishBind(b, c.now()) })
		if cause == nil {
			return nil
		}
	}
	keep := false
	if made != nil {
		ctx, end := c.work.Detach(ctx)
		defer end()
		keep = c.cfg.Quirks || c.removeDevice(ctx, *made) != nil
	}
	c.update(ctx, func(tx store.Tx) {
		if errors.Is(cause, errUnwritten) {
			tx.AbandonBind(b)
			return
		}
		tx.FailBind(b, cause, keep, c.now())
	})
	return cause
}

// applyLater is Apply for binds in the background. Everything that can be refused is refused before the response.
func (c *Conductor) applyLater(ctx context.Context, caller Caller, patches []Patch) error {
	patch, err := c.applyEach(ctx, caller, patches, func(store.Bind) error { return nil })
	if patch == 0 {
		return err
	}
	if err != nil { // Nova gets it with the response
		c.change(ctx, func(tx store.Tx) { tx.SilencePatch(patch) })
	}
	c.bindLater(patch)
	return err
}

// bindLater ends the binds of a PATCH in the background, after the configured delay. If two PATCHes are due at the
// same instant, their binds end in the order of the calls, unless they program a device.
func (c *Conductor) bindLater(patch int64) {
	late := c.cfg.BindDelay > c.cfg.BindTimeout
	delay := c.cfg.BindDelay
	if late && !c.cfg.Quirks {
		delay = c.cfg.BindTimeout
	}
	turn, done := c.join(c.now().Add(delay))
	c.start(func(ctx context.Context) {
		defer done()
		if c.cfg.Clock.Wait(ctx, delay) != nil || turn(ctx) != nil || c.replaced(ctx) {
			return // closed, or another state was loaded
		}
		binds := store.Read(c.db, func(tx store.Tx) []store.Bind { return tx.Binds(patch) })
		if slices.ContainsFunc(binds, func(b store.Bind) bool { return b.Bitstream.Named() }) {
			done() // programming takes long
		}
		c.endBinds(ctx, binds, late, c.cfg.BindTimeout-delay)
		if ctx.Err() == nil { // else the binds are for the next process, see Resume
			c.endPatch(ctx, patch)
		}
	})
}

// endBinds ends the binds of a PATCH within a time limit and notifies Nova. Binds that would take longer than the
// bind timeout fail; upstream never sends their event. If one request of a PATCH stays BindStarted, upstream sends
// none of its events.
func (c *Conductor) endBinds(ctx context.Context, binds []store.Bind, late bool, limit time.Duration) {
	silent := late && c.cfg.Quirks || slices.ContainsFunc(binds, func(b store.Bind) bool { return b.Silent })
	events := &eventBatch{c: c}
	within, cancel := c.limited(ctx, limit)
	defer cancel()
	for _, b := range binds {
		result := c.endLater(within, b, late)
		silent = silent || result == store.BindStarted
		if silent {
			continue
		}
		events.add(b, result)
	}
	if !silent {
		_ = events.send(ctx) // upstream logs it
	}
}

// limited returns a context that ends after d on the clock, so that an image service or an agent that hangs does not
// block a bind. Upstream's job continues after its monitor has given up.
func (c *Conductor) limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if !c.cfg.Quirks && d > 0 {
		go func() {
			if c.cfg.Clock.Wait(ctx, d) == nil {
				cancel()
			}
		}()
	}
	return ctx, cancel
}

// endLater ends a bind and returns its result. BindStarted means that the bind was abandoned, or will be continued by
// the next process.
func (c *Conductor) endLater(ctx context.Context, b store.Bind, late bool) string {
	if b.Result != "" { // it ended in an earlier process
		return b.Result
	}
	var err error
	var made *store.HandleWork
	ours := true
	if late && !c.cfg.Quirks {
		err = store.Refuse(store.Internal, "bind timeout")
	} else {
		made, ours, err = c.workFor(ctx, b)
	}
	if !ours {
		return store.BindFailed
	}
	if err != nil && c.work.Ended() {
		interrupted := false
		c.change(ctx, func(tx store.Tx) { interrupted = tx.EndBindWork(b) })
		if interrupted {
			return store.BindStarted
		}
	}
	err = c.finishBind(ctx, b, made, err)
	switch {
	case errors.Is(err, errUnwritten):
		return store.BindStarted
	case err != nil:
		return store.BindFailed
	}
	return store.Bound
}

// Unbind frees the handle of a request and makes it Unbound, from any state.
func (c *Conductor) Unbind(ctx context.Context, uuid string, scope store.Scope) error {
	return c.release(ctx, uuid, scope, func(tx store.Tx, a store.ARQ) { tx.Unbind(a, c.now()) })
}

// Delete deletes a request after freeing its handle.
func (c *Conductor) Delete(ctx context.Context, uuid string, scope store.Scope) error {
	ctx, end := c.work.Detach(c.forState(ctx))
	defer end()
	return c.release(ctx, uuid, scope, store.Tx.DeleteARQ)
}

// release frees the handle, removes its mediated device between two transactions, and calls finish in the second one.
// If the device cannot be removed, nothing is changed, and the call can be repeated.
func (c *Conductor) release(ctx context.Context, uuid string, scope store.Scope, finish func(store.Tx, store.ARQ)) error {
	for {
		var work store.HandleWork
		var err error
		attempt, mdev := 0, false
		c.update(ctx, func(tx store.Tx) {
			var a store.ARQ
			if a, err = tx.ARQ(uuid, scope); err != nil {
				return
			}
			work, mdev = tx.ReleaseARQ(a, c.cfg.BindingStates && tx.AgentDown(a.Host))
			a, _ = tx.ARQ(uuid, store.Everything())
			if attempt = a.Attempt; !mdev {
				finish(tx, a)
			}
		})
		if err != nil || !mdev {
			return err
		}
		done := false
		err = c.removeHandle(ctx, work, func(tx store.Tx) {
			a, err := tx.ARQ(uuid, store.Everything())
			if done = err != nil || a.Attempt == attempt; err == nil && done {
				finish(tx, a)
			}
		})
		if err != nil {
			return err
		}
		if done { // else another caller has unbound it, and it may be bound again
			return nil
		}
		scope = store.Everything()
	}
}

// removeHandle removes the mediated device of a handle that is being released, and then calls finish, unless nil, in
// the transaction that frees the handle.
func (c *Conductor) removeHandle(ctx context.Context, w store.HandleWork, finish func(store.Tx)) error {
	err := c.removeDevice(ctx, w)
	c.update(ctx, func(tx store.Tx) {
		if tx.EndRemoval(w, err == nil, c.now()); err == nil && finish != nil {
			finish(tx)
		}
	})
	if err != nil && c.cfg.Quirks {
		return store.Refuse(store.Internal, "'UnbindFailed'")
	}
	return err
}

// join adds work that is due at an instant. Timers, those of virtual time, too, wake work of one instant in any order: wait
// returns when the work that joined before has called done.
func (c *Conductor) join(due time.Time) (wait func(context.Context) error, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instant, mine := due.UnixNano(), make(chan struct{})
	before := c.due[instant]
	c.due[instant] = mine
	wait = func(ctx context.Context) error {
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	return wait, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(mine)
		if c.due[instant] == mine {
			delete(c.due, instant)
		}
	})
}

// maxFailures is how many failures may wait to be logged; more are dropped.
const maxFailures = 256

// logFailures logs why binds fail, which Cyborg's API does not report, until Close. Failures in a loaded state are
// not logged again.
func (c *Conductor) logFailures() {
	waiting := make(chan *store.ARQ, maxFailures) // a commit must not wait for the log
	c.db.DB().OnCommit(func(changes []sim.RecordChange) {
		for _, change := range changes {
			before, changed := change.Before.(*store.ARQ)
			after, there := change.After.(*store.ARQ)
			if !changed || !there || after.Failure == "" || after.Failure == before.Failure {
				continue
			}
			select {
			case waiting <- after:
			default:
			}
		}
	})
	c.work.Start(func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case a := <-waiting:
				c.cfg.Logger.Warn("an accelerator request failed", "arq", a.UUID, "state", a.State, "instance", a.Instance,
					"host", a.Host, "provider", a.Provider, "cause", a.Failure)
			}
		}
	})
}
