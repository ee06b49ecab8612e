package fakecyborg

import (
	"context"
	"errors"
	"slices"
	"time"
)

// bound is how one bind of a PATCH ended.
type bound struct {
	job   *bindJob
	state State
}

// applyPatch executes a checked PATCH: each request in the order of the body.
// The first failure ends it: requests before stay bound, requests after are
// not touched and Nova gets no event, because the answer tells it.
func (s *Server) applyPatch(ctx context.Context, c caller, patches []arqPatch) error {
	if s.cfg.async() || s.programs(c, patches) {
		return s.applyLater(ctx, c, patches)
	}
	nova, run := &telling{s: s}, &bindRun{}
	defer s.endRun(run)
	for i, p := range patches {
		if p.remove {
			if err := s.unbind(ctx, p.arq, s.scope(c)); err != nil {
				return err
			}
			continue
		}
		job, err := s.startBind(ctx, c, patches, i, run)
		if err != nil {
			return err
		}
		if err := s.runBind(ctx, job); err != nil {
			return err
		}
		nova.resolved(ctx, bound{job, StateBound}.resolution())
	}
	return nova.end(ctx)
}

// startBind begins the i-th bind of a PATCH. The look for requests that the
// instance has already is done once and under the same lock as the first bind,
// so that of two PATCHes at a time one is refused.
func (s *Server) startBind(ctx context.Context, c caller, patches []arqPatch, i int, run *bindRun) (*bindJob, error) {
	now := s.clock.Now()
	s.lock(ctx)
	defer s.unlock()
	if i == 0 {
		if err := s.checkUnused(c, patches); err != nil {
			return nil, err
		}
	}
	a, err := s.state.findARQ(patches[i].arq, s.scope(c))
	if err != nil {
		return nil, err
	}
	if shown := s.view()(a).State; shown == StateUnknown {
		return nil, badState(shown, a.uuid)
	}
	job, err := s.state.startBind(a, patches[i].args, c.Project, now)
	if err == nil {
		s.state.track(run, job)
	}
	return job, err
}

// checkUnused refuses a bind for an instance that has requests already. It is
// called under the lock. Upstream looks only at the first request's instance,
// and only at what the caller sees.
func (s *Server) checkUnused(c caller, patches []arqPatch) error {
	sc := scope{all: true}
	if s.cfg.UpstreamQuirks {
		sc, patches = s.scope(c), patches[:1]
	}
	for _, p := range patches {
		if !p.remove && p.args.instance != "" && len(s.state.arqsOf(p.args.instance, sc)) > 0 {
			return badPatch("Instance %s already has accelerator requests. Cannot bind additional ARQs.", p.args.instance)
		}
	}
	return nil
}

// programs reports whether a request of the PATCH wants its device programmed,
// which takes too long to be waited for.
func (s *Server) programs(c caller, patches []arqPatch) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(patches, func(p arqPatch) bool {
		a, err := s.state.findARQ(p.arq, s.scope(c))
		if p.remove || err != nil {
			return false
		}
		wanted, err := a.wanted(s.cfg.UpstreamQuirks)
		part, _ := s.state.partFor(p.args.provider, a)
		return err == nil && wanted.wanted() && (part == nil || !part.carries(wanted, s.cfg.UpstreamQuirks))
	})
}

// runBind finishes a bind: the image is written and the mediated device, if the
// handle is one, is made outside the lock.
func (s *Server) runBind(ctx context.Context, job *bindJob) error {
	ours, err := s.workFor(ctx, job)
	if !ours {
		return errOvertaken(job)
	}
	return s.finishBind(ctx, job, err)
}

// workFor lets the agent do what a bind needs of it. It answers false when the
// request was unbound or deleted before.
func (s *Server) workFor(ctx context.Context, job *bindJob) (ours bool, err error) {
	if !job.mdev && !job.image.wanted() {
		return true, nil
	}
	s.mu.Lock()
	ours = s.state.beginAgent(job)
	work := job.handle.work()
	s.mu.Unlock()
	if !ours {
		return false, nil
	}
	if job.image.wanted() {
		err = s.programHandle(ctx, job)
	}
	if err == nil && job.mdev {
		err = s.createMdev(ctx, work)
	}
	return true, err
}

// finishBind stores how the agent's work ended. If it failed, or the request
// was unbound or deleted meanwhile, nothing of it may stay; upstream leaves the
// handle taken until an unbind.
func (s *Server) finishBind(ctx context.Context, job *bindJob, cause error) error {
	s.lock(ctx)
	if cause == nil && s.state.finishBind(job, s.clock.Now()) {
		s.unlock()
		return nil
	}
	work := job.handle.work()
	s.unlock()
	if cause == nil {
		cause = errOvertaken(job)
	}
	keep := false
	if job.agent && job.mdev {
		keep = s.cfg.UpstreamQuirks || s.removeMdev(s.living(ctx), work) != nil
	}
	s.lock(ctx)
	defer s.unlock()
	if errors.Is(cause, errUnwritten) {
		s.state.abandonBind(job)
		return cause
	}
	s.state.failBind(job, cause, keep, s.clock.Now())
	return cause
}

func errOvertaken(job *bindJob) error {
	return refuse(kindConflict, "ARQ %s was unbound or deleted while it was being bound", job.uuid)
}

// applyLater is applyPatch for binds that take their time: everything that can
// be refused is refused now, the rest happens in the background.
func (s *Server) applyLater(ctx context.Context, c caller, patches []arqPatch) (err error) {
	run := &bindRun{}
	defer func() {
		s.mu.Lock()
		run.silent = err != nil // the answer tells Nova
		s.mu.Unlock()
		if len(run.jobs) > 0 {
			s.goWithin(func(ctx context.Context) { s.bindLater(ctx, run) })
		}
	}()
	for i, p := range patches {
		if p.remove {
			if err := s.unbind(ctx, p.arq, s.scope(c)); err != nil {
				return err
			}
			continue
		}
		if _, err := s.startBind(ctx, c, patches, i, run); err != nil {
			return err
		}
	}
	return nil
}

// bindLater ends the binds of a PATCH after the configured delay and tells
// Nova. Binds that would take longer than the bind timeout fail; upstream stops
// watching them instead and never sends their event, and sends none of a PATCH
// of which one request was left BindStarted.
func (s *Server) bindLater(ctx context.Context, run *bindRun) {
	late := s.cfg.BindDelay > s.cfg.BindTimeout
	wait := s.cfg.BindDelay
	if late && !s.cfg.UpstreamQuirks {
		wait = s.cfg.BindTimeout
	}
	if s.clock.Wait(ctx, wait) != nil {
		return
	}
	silent := run.silent || late && s.cfg.UpstreamQuirks
	nova := &telling{s: s}
	within, cancel := s.limited(ctx, s.cfg.BindTimeout-wait)
	defer cancel()
	for _, job := range s.jobsOf(run) {
		state := s.endLater(within, job, late)
		silent = silent || state == StateBindStarted
		if !silent {
			nova.resolved(ctx, bound{job, state}.resolution())
			if s.cfg.EventForm == EventFormTrain && ctx.Err() == nil {
				s.told(run, job)
			}
		}
	}
	if !silent {
		_ = nova.end(ctx) // nobody is left to be told; upstream logs it
	}
	s.leaveRun(ctx, run)
}

// limited is a context that ends after d on the server's clock, so that an image
// service or an agent that hangs does not keep a bind for ever. Upstream's job
// goes on behind the back of the monitor that gave up.
func (s *Server) limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if !s.cfg.UpstreamQuirks && d > 0 {
		go func() {
			if s.clock.Wait(ctx, d) == nil {
				cancel()
			}
		}()
	}
	return ctx, cancel
}

func (s *Server) endLater(ctx context.Context, job *bindJob, late bool) State {
	if job.ended != "" { // in an earlier life, see Resume
		return job.ended
	}
	var err error
	ours := true
	if late && !s.cfg.UpstreamQuirks {
		err = refuse(kindServer, "bind timeout")
	} else {
		ours, err = s.workFor(ctx, job)
	}
	switch {
	case !ours:
		return StateBindFailed
	case err != nil && s.life.Err() != nil && s.interrupt(job):
		return StateBindStarted
	}
	err = s.finishBind(ctx, job, err)
	switch {
	case errors.Is(err, errUnwritten):
		return StateBindStarted
	case err != nil:
		return StateBindFailed
	}
	return StateBound
}

// unbind frees the handle of a request and makes it Unbound, from any state.
func (s *Server) unbind(ctx context.Context, uuid string, sc scope) error {
	return s.release(ctx, uuid, sc, func(a *arqRow, now time.Time) { s.state.clearBinding(a, now) })
}

// remove deletes a request after freeing its handle.
func (s *Server) remove(ctx context.Context, uuid string, sc scope) error {
	return s.release(ctx, uuid, sc, func(a *arqRow, _ time.Time) { s.state.removeARQ(a) })
}

// release frees the handle, removing its mediated device outside the lock, and
// then does the rest under the lock. A device that cannot be removed leaves
// everything as it was, so that the same call may be tried again.
func (s *Server) release(ctx context.Context, uuid string, sc scope, then func(*arqRow, time.Time)) error {
	s.lock(ctx)
	defer s.unlock()
	a, err := s.state.findARQ(uuid, sc)
	if err != nil {
		return err
	}
	for !a.deleted {
		h := s.state.releaseARQ(a, s.cfg.BindingStates && s.down(a.host))
		attempt := a.attempt
		if h != nil {
			if err := s.removeHandle(ctx, h); err != nil {
				return err
			}
		}
		if a.attempt == attempt {
			then(a, s.clock.Now())
			break
		} // else somebody else unbound it and it may be bound again
	}
	return nil
}

// removeHandle removes the mediated device of a handle that is being released.
// It is called under the lock, gives it up meanwhile and holds it again after.
func (s *Server) removeHandle(ctx context.Context, h *handleRow) error {
	work := h.work()
	s.unlock()
	err := s.removeMdev(ctx, work)
	s.lock(ctx)
	s.state.endRelease(h, err == nil, s.clock.Now())
	if err != nil && s.cfg.UpstreamQuirks {
		return refuse(kindServer, "'UnbindFailed'")
	}
	return err
}
