package fakecyborg

import (
	"context"
	"slices"
)

// bindRun is the binds of one PATCH from the first that begins until Nova was
// told how all of them ended. Upstream keeps it in the memory of its API service
// and loses it when that ends; here it is part of a dump.
type bindRun struct {
	jobs   []*bindJob
	silent bool // Nova is not told: the answer to the PATCH did
}

// track makes a job part of a run.
func (st *state) track(run *bindRun, job *bindJob) {
	if len(run.jobs) == 0 {
		st.binds = append(st.binds, run)
	}
	run.jobs = append(run.jobs, job)
}

// forgetRun drops a run that is over.
func (st *state) forgetRun(run *bindRun) {
	st.binds = slices.DeleteFunc(st.binds, func(other *bindRun) bool { return other == run })
}

// endRun is forgetRun under the lock.
func (s *Server) endRun(run *bindRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.forgetRun(run)
}

// leaveRun ends a run that works in the background, unless that was cut short by
// Close: it is then for the next life of the simulator, see Resume.
func (s *Server) leaveRun(ctx context.Context, run *bindRun) {
	if ctx.Err() == nil {
		s.endRun(run)
	}
}

// told drops a job of which Nova has heard from its run.
func (s *Server) told(run *bindRun, job *bindJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run.jobs = slices.DeleteFunc(slices.Clone(run.jobs), func(other *bindJob) bool { return other == job })
}

// jobsOf are the jobs of a run that is still of this state; Load forgets those of
// the state before.
func (s *Server) jobsOf(run *bindRun) []*bindJob {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !slices.Contains(s.state.binds, run) {
		return nil
	}
	return slices.Clone(run.jobs)
}

// interrupt leaves a bind that Close cut short for the next life of the simulator.
func (s *Server) interrupt(job *bindJob) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.interrupt(job)
}

// job is a job of which only Nova has to hear.
func (r resolution) job() *bindJob {
	job := &bindJob{uuid: r.arq, server: r.server, profile: r.profile, ended: StateBindFailed}
	if r.bound {
		job.ended = StateBound
	}
	return job
}

// going reports whether the job still has something to do.
func (j *bindJob) going() bool {
	return j.ended == "" && j.current() && j.arq.state == StateBindStarted && j.arq.handle != nil
}

// outcome is how a job that is not going has ended, or will: one whose request
// was unbound or deleted fails.
func (j *bindJob) outcome() State {
	if j.ended == "" {
		return StateBindFailed
	}
	return j.ended
}
