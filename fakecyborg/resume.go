package fakecyborg

import (
	"context"
	"slices"
)

// halted is what went on when a dump was made and stands still since.
type halted struct {
	runs  []*bindRun
	parts []*deployableRow // an image was being written to them
	hosts bool             // hosts may be restarting
}

// Resume goes on with what was going on when the dump was made that was loaded
// last: binds of which the PATCH was taken, bitstreams that were being written,
// hosts that were restarting, events that Nova has not heard yet. It returns at
// once; the binds end after Config.BindDelay, as if their PATCH had just been
// answered, and a bind that had to be answered ends like one in the background,
// with its event. A second call, or one without [Server.Load], does nothing.
//
// The drivers of the hosts must be at hand, as for a bind. An event may be sent a
// second time: a simulator that ended while it was sending does not know whether
// Nova has heard it. A request that is BindStarted for ever, by a defect
// of upstream's or by [Server.SetARQState], stays so.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	work := s.halted
	s.halted = halted{}
	var programming []*bindRun
	for _, run := range work.runs {
		if len(work.parts) > 0 && slices.ContainsFunc(run.jobs, func(j *bindJob) bool { return j.image.wanted() }) {
			programming = append(programming, run)
			continue
		}
		s.goWithin(func(ctx context.Context) { s.bindLater(ctx, run) })
	}
	s.goWithin(func(ctx context.Context) {
		s.writeAgain(ctx, work.parts)
		for _, run := range programming { // which then find their image on the card
			s.goWithin(func(ctx context.Context) { s.bindLater(ctx, run) })
		}
	})
	if work.hosts {
		s.resumeHosts()
	}
}

// resumeHosts lets hosts come up that were going to, and finishes what those do
// that have just come up. It is called under the lock.
func (s *Server) resumeHosts() {
	now := s.clock.Now()
	for _, name := range s.hostNames {
		signs := s.agents[name].signs
		switch {
		case signs.down && !signs.returns.IsZero():
			s.goWithin(func(ctx context.Context) { s.comeBack(ctx, name, signs.returns.Sub(now)) })
		case !signs.down && slices.ContainsFunc(s.state.boundMdevs(name), provisioning):
			s.goWithin(func(ctx context.Context) { _ = s.ReportHost(ctx, name) }) // kept for DriverReports
		}
	}
}

func provisioning(h *handleRow) bool { return h.arq.state == StateProvisioning }

// writeAgain writes the images to regions whose programming was interrupted, so
// that nobody has to wonder what is on the cards.
func (s *Server) writeAgain(ctx context.Context, parts []*deployableRow) {
	for _, part := range parts {
		within, cancel := s.limited(ctx, s.cfg.BindTimeout)
		if found, err := s.describeImage(within, part.writing); err == nil {
			_ = s.write(within, part, found, true) // nobody is left to be told
		} else {
			s.unclaim(part)
		}
		cancel()
	}
}

func (s *Server) unclaim(part *deployableRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part.writing = ""
}
