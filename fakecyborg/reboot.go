package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrAgentDown is matched by the error about an agent that does not run.
var ErrAgentDown = errors.New("fakecyborg: the agent is down")

// lifeSigns are what the conductor knows of an agent's health.
type lifeSigns struct {
	down    bool
	started time.Time // the first beat
	last    time.Time // the last beat of an agent that is down
	returns time.Time // when an agent that is down starts again; zero if nobody knows
}

// lastBeat is when the agent was heard last. One that runs beats when it starts
// and then every period; nobody has to wake up for it.
func (l lifeSigns) lastBeat(now time.Time, period time.Duration) time.Time {
	if l.down {
		return l.last
	}
	return l.started.Add(now.Sub(l.started) / period * period)
}

// silent reports whether more beats of the agent are missing than allowed.
func (s *Server) silent(host string, now time.Time) bool {
	a, ok := s.agents[host]
	if !ok {
		return false // the host was never an agent's; nothing can be missed
	}
	period := s.cfg.HeartbeatPeriod
	return now.Sub(a.signs.lastBeat(now, period)) > time.Duration(s.cfg.MissedBeats)*period
}

// StopAgent lets the agent of a host fall silent, as if the host had gone down:
// it beats, reports, programs and makes mediated devices no more. One that is
// down already stays so. The error matches [ErrHost].
func (s *Server) StopAgent(host string) error {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.agents[host]
	if !ok {
		return fmt.Errorf("%w %s: it is not there", ErrHost, host)
	}
	a.signs.last = a.signs.lastBeat(now, s.cfg.HeartbeatPeriod)
	a.signs.down = true
	return nil
}

// StartAgent starts the agent of a host again, as a host does that comes up: the
// mediated devices of its bound requests are made again and everything is
// reported. With Config.BindingStates these requests are provisioning meanwhile,
// end Bound or BindFailed, and Nova gets the event of a bind for each. With
// Config.UpstreamQuirks nothing is made again.
//
// It returns when all is done; the errors are those of [Server.ReportHost].
func (s *Server) StartAgent(ctx context.Context, host string) error {
	now := s.clock.Now()
	s.mu.Lock()
	a, ok := s.agents[host]
	if !ok {
		s.mu.Unlock()
		return fmt.Errorf("%w %s: it is not there", ErrHost, host)
	}
	a.signs = lifeSigns{started: now}
	if s.cfg.BindingStates && !s.cfg.UpstreamQuirks {
		for _, h := range s.state.boundMdevs(host) {
			h.arq.state, h.arq.updated = StateProvisioning, now
		}
	}
	s.mu.Unlock()
	return s.ReportHost(ctx, host)
}

// down reports whether the agent of a host is there and does not run.
func (s *Server) down(host string) bool {
	a, ok := s.agents[host]
	return ok && a.signs.down
}

// restored is how the restoration of a mediated device ended: a request that was
// provisioning is resolved again. It is called under the lock.
func (s *Server) restored(h *handleRow, err error) (resolution, bool) {
	a := h.arq
	if a.state != StateProvisioning || err != nil && s.down(a.host) {
		return resolution{}, false // the next start tries again
	}
	a.state, a.updated = StateBound, s.clock.Now()
	if err != nil {
		a.state, a.failure = StateBindFailed, err.Error()
	}
	return resolution{server: a.instance, arq: a.uuid, profile: a.profile.name, bound: err == nil}, true
}

// sendRestored tells Nova of the requests of a host that came up again, one
// instance after the other.
func (s *Server) sendRestored(ctx context.Context, list []resolution) error {
	var errs []error
	for len(list) > 0 {
		nova := &telling{s: s}
		var later []resolution
		for _, r := range list {
			if r.server == list[0].server {
				nova.resolved(ctx, r)
			} else {
				later = append(later, r)
			}
		}
		errs = append(errs, nova.end(ctx))
		list = later
	}
	return errors.Join(errs...)
}

// view shows requests as they are at one moment: what an agent is silent about
// is unknown. Call it, and what it returns, under the lock.
func (s *Server) view() func(*arqRow) ARQ {
	if !s.cfg.BindingStates {
		return (*arqRow).value
	}
	now := s.clock.Now()
	hosts := make(map[string]bool)
	return func(a *arqRow) ARQ {
		v := a.value()
		if a.state != StateBound && a.state != StateProvisioning {
			return v
		}
		silent, known := hosts[a.host]
		if !known {
			silent = s.silent(a.host, now)
			hosts[a.host] = silent
		}
		if silent {
			v.State = StateUnknown
		}
		return v
	}
}
