package fakecyborg

import (
	"context"
	"iter"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// AddHost adds a host. It reports by [Server.Report], or with WithAgentLoop by itself. The error matches
// [ErrHost]: no name, a name taken, two drivers of one name.
func (s *Server) AddHost(h driver.Host) error { return s.conductor.AddHost(h) }

// Report makes the agent of every host report once, in the order in which the hosts were added. The
// error joins a [driver.ReportError] for each problem; all else is reported.
func (s *Server) Report(ctx context.Context) error { return s.conductor.Report(ctx) }

// ReportHost makes the agent of one host report once: the drivers read the hardware, and the conductor
// applies the difference to Placement and to its store. A device whose provider cannot be created is not
// stored; a device that vanished stays while a request holds it. The error matches [ErrHost] for an
// unknown host, and else joins a [driver.ReportError] for each problem.
func (s *Server) ReportHost(ctx context.Context, host string) error {
	return s.conductor.ReportHost(ctx, host)
}

// StopAgent stops the agent of a host, as if the host were down: no heartbeats, reports, programming and
// mediated devices, and what was programmed is lost. It may be stopped already. The error matches [ErrHost].
func (s *Server) StopAgent(host string) error { return s.conductor.StopAgent(host) }

// StartAgent starts the agent of a host again: the mediated devices of its bound requests are created
// again and everything is reported. With Config.BindingStates these requests are provisioning
// during the call, end Bound or BindFailed, and Nova gets the event of a bind for each. With
// Config.UpstreamQuirks nothing is created again. The errors are those of [Server.ReportHost].
func (s *Server) StartAgent(ctx context.Context, host string) error {
	return s.conductor.StartAgent(ctx, host)
}

// Records implements [sim.Recorded]: the tables, the binds in progress, the health of the agents, what
// drivers found, the events, what was written to Placement, and the positions in the sequences of
// identifiers; but not the configuration, the hosts with their drivers and hardware, the peers, the fault
// rules and tokens.
func (s *Server) Records() iter.Seq2[sim.Record, error] { return s.db.DB().Records() }

// OnCommit implements [sim.Recorded].
func (s *Server) OnCommit(listener func([]sim.RecordChange)) { s.db.DB().OnCommit(listener) }

// Prepare implements [sim.Recorded]. Binds in the background end without effect. Work in progress of the
// records waits for [Server.Resume]. Hosts are not in records: add those with the names in the records.
func (s *Server) Prepare(records []sim.Record) (commit func(), err error) {
	replace, err := simhttp.Recorded{Recorded: s.db.DB(), Service: s.service}.Prepare(records)
	if err != nil {
		return nil, err
	}
	return func() {
		replace()
		s.service.IDs.Continue(uint64(s.db.RequestIDs()))
		s.conductor.Replaced()
	}, nil
}

// Pause implements [sim.Pauser]: it waits for reports in progress.
func (s *Server) Pause(ctx context.Context) (proceed func(), err error) {
	return s.conductor.EnterAll(ctx)
}

// Resume continues the work in progress of the records after the records were replaced: binds, the programming of
// bitstreams, restarts of hosts, events that were not sent. It returns at once; the binds end after
// Config.BindDelay, as if their PATCH had just been answered, and a bind whose PATCH was not answered ends
// like one in the background, with its event.
//
// The hosts must have been added. An event may be sent a second time: whether Nova got it before the
// records were made is unknown. A request that is BindStarted without a bind, by a defect of upstream or
// by [Server.SetARQState], stays so.
func (s *Server) Resume() { s.conductor.Resume() }
