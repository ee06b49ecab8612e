package fakecyborg

import (
	"context"
	"iter"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/sim"
)

// AddHost makes a host known; it reports when asked, or with WithAgentLoop by
// itself. The error matches [ErrHost]: no name, a name taken, two drivers of
// one name.
func (s *Server) AddHost(h driver.Host) error { return s.conductor.AddHost(h) }

// Report lets the agent of every host report once, in the order in which the
// hosts were added. The error joins a [driver.ReportError] for each problem; all
// else is reported.
func (s *Server) Report(ctx context.Context) error { return s.conductor.Report(ctx) }

// ReportHost lets the agent of one host report once: the drivers look at the
// hardware, and the conductor compares with what it knows, tells Placement the
// difference and stores it. A device whose provider cannot be made is not
// stored; a device that vanished stays while a request holds it. The error
// matches [ErrHost] for an unknown host, and else joins a [driver.ReportError]
// for each problem.
func (s *Server) ReportHost(ctx context.Context, host string) error {
	return s.conductor.ReportHost(ctx, host)
}

// StopAgent lets the agent of a host fall silent, as if the host had gone down:
// it beats, reports, programs and creates mediated devices no more. One that is
// down already stays so. The error matches [ErrHost].
func (s *Server) StopAgent(host string) error { return s.conductor.StopAgent(host) }

// StartAgent starts the agent of a host again, as a host does that comes up: the
// mediated devices of its bound requests are created again and everything is
// reported. With Config.BindingStates these requests are provisioning meanwhile,
// end Bound or BindFailed, and Nova gets the event of a bind for each. With
// Config.UpstreamQuirks nothing is created again.
//
// It returns when all is done; the errors are those of [Server.ReportHost].
func (s *Server) StartAgent(ctx context.Context, host string) error {
	return s.conductor.StartAgent(ctx, host)
}

// Records implements [sim.Recorded]: the tables, the binds in progress, the
// health of the agents, what drivers found, the events, what was written to
// Placement, and the positions in the sequences of identifiers. They do not hold
// the configuration, the hosts with their drivers and hardware, the peers and the
// fault rules, which are given in code, nor tokens.
func (s *Server) Records() iter.Seq2[sim.Record, error] { return s.db.DB().Records() }

// OnCommit implements [sim.Recorded].
func (s *Server) OnCommit(listener func([]sim.RecordChange)) { s.db.DB().OnCommit(listener) }

// Replace implements [sim.Recorded]. It waits for reports in progress, and binds
// that go on in the background come to nothing. What went on in the process that
// the records are of stands still until [Server.Resume].
//
// Hosts are not in records: those that were added are taken for those that the
// records speak of.
func (s *Server) Replace(records []sim.Record) error {
	defer s.conductor.EnterAll()()
	if err := s.db.DB().Replace(records); err != nil {
		return err
	}
	s.conductor.Replaced()
	s.service.IDs.Continue(uint64(s.db.RequestIDs()))
	return nil
}

// Resume goes on with what was going on in the process that the records are of:
// binds of which the PATCH was taken, bitstreams that were being written, hosts
// that were restarting, events that Nova was not notified of. It returns at once;
// the binds end after Config.BindDelay, as if their PATCH had just been answered,
// and a bind that had to be answered ends like one in the background, with its
// event. Without [Server.Replace] before it there is nothing to do.
//
// The drivers of the hosts must be at hand, as for a bind. An event may be sent a
// second time: a simulator that ended while it was sending does not know whether
// Nova has heard it. A request that is BindStarted for ever, by a defect of
// upstream's or by [Server.SetARQState], stays so.
func (s *Server) Resume() { s.conductor.Resume() }
