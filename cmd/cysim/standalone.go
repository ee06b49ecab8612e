package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// standalone is a Cyborg whose other services are not part of the process.
type standalone struct {
	log       *slog.Logger
	model     simcloud.Model
	services  *services
	agents    *simcloud.Agents
	faults    *fault.Set
	setFaults func(context.Context, *fault.Set) error // from the command line
	kept      *keptState                              // nil: in memory only
	waiting   readiness

	api    atomic.Pointer[fakecyborg.Server] // nil until the services are known
	keeper atomic.Pointer[tables.Keeper]
}

// control is the API with the simulator's own routes. A change is answered after it is on disk.
// Changes are refused until the state is loaded, which would overwrite them.
func (s *standalone) control(routes []sim.Route) http.Handler {
	synced := simhttp.Synced(s.routes(routes), func() error { return s.keeper.Load().Sync() })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.kept != nil && s.api.Load() == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, cmp.Or(s.waiting.String(), "not ready: the state is not loaded"), http.StatusServiceUnavailable)
			return
		}
		synced.ServeHTTP(w, r)
	})
}

func (s *standalone) routes(routes []sim.Route) http.Handler {
	return withControl(http.HandlerFunc(s.serve), simhttp.Control{
		Faults: s.faults, Routes: routes,
		More: []simhttp.ControlRoute{
			{Pattern: "GET /_sim/health", Answer: "status", Help: "200 when all hosts have reported to Placement, 503 with the reason before.", Handler: s.waiting.serveHealth},
			{Pattern: "POST /_sim/report", Help: "Makes the agents of all hosts report now.", Handler: s.report},
		},
	})
}

func (s *standalone) serve(w http.ResponseWriter, r *http.Request) {
	server := s.api.Load()
	if server == nil {
		http.Error(w, s.waiting.String(), http.StatusServiceUnavailable)
		return
	}
	server.ServeHTTP(w, r)
}

// report makes the agents report now.
func (s *standalone) report(w http.ResponseWriter, r *http.Request) {
	server := s.api.Load()
	if server == nil {
		http.Error(w, s.waiting.String(), http.StatusServiceUnavailable)
		return
	}
	if err := server.Report(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// prepare starts Cyborg and waits until Placement has what the agents of all hosts found.
func (s *standalone) prepare(ctx context.Context, base string) (e environment, err error) {
	options, err := s.services.connect(ctx, s.log, func(err error) { s.waiting.problem(s.log, "", err) })
	if err != nil {
		return e, err
	}
	options = append(options, fakecyborg.WithFaults(s.faults), fakecyborg.WithLogger(s.log), fakecyborg.WithReportObserver(func(host string, err error) {
		if ctx.Err() == nil {
			s.waiting.reported(s.log, host, err)
		}
	}))
	server, err := fakecyborg.New(s.model.Cyborg, options...)
	if err != nil {
		return e, err
	}
	if err := s.fill(ctx, server); err != nil {
		server.Close()
		return e, command.BadInput(err)
	}
	s.api.Store(server)
	if err := s.waiting.wait(ctx); err != nil {
		return e, err
	}
	logFindings(s.log, server.DriverReports())
	return environment{set: []variable{{"CYSIM_ACCELERATOR_URL", base + "/v2"}}}, nil
}

// fill loads the state or creates the model's device profiles, and then starts the agents.
func (s *standalone) fill(ctx context.Context, server *fakecyborg.Server) error {
	if !s.kept.hasRecords() {
		for _, profile := range s.model.DeviceProfiles {
			if _, err := server.CreateDeviceProfile(profile.Name, profile.Groups); err != nil {
				return err
			}
		}
	}
	if s.kept != nil {
		keeper, err := s.kept.keep(tables.Group{
			{Name: "accelerator", Recorded: server}, {Name: "hardware", Recorded: s.agents}, {Name: "sim.faults", Recorded: s.faults},
		}, s.faults.CommitCounts)
		if err != nil {
			return err
		}
		s.keeper.Store(keeper)
		if err := s.setFaults(ctx, s.faults); err != nil {
			return err
		}
	}
	for _, host := range s.agents.Hosts {
		if err := server.AddHost(host); err != nil {
			return err
		}
	}
	server.Resume()
	return nil
}

// close ends the agents and the work in the background, and writes what is not written.
func (s *standalone) close() error {
	if server := s.api.Load(); server != nil {
		server.Close()
	}
	for _, host := range s.agents.Hosts {
		for _, write := range s.agents.Overlaid(host.Name) {
			s.log.Info("recorded, not written to the hardware", "host", host.Name, "write", write)
		}
	}
	return errors.Join(s.keeper.Swap(nil).Close(), s.kept.close(), s.agents.Close())
}

// readiness is the condition that a Cyborg waits for: the first report of each host that reaches Placement.
type readiness struct {
	mu    sync.Mutex
	hosts map[string]bool   // that have not reported yet
	last  map[string]string // problem of each host, of the login under ""
	ready chan struct{}
}

func (r *readiness) begin(hosts []driver.Host) {
	r.hosts, r.last, r.ready = make(map[string]bool), make(map[string]string), make(chan struct{})
	for _, host := range hosts {
		r.hosts[host.Name] = true
	}
	if len(hosts) == 0 {
		close(r.ready)
	}
}

// isTransport reports whether a service did not answer.
func isTransport(err error) bool { return errors.As(err, new(*url.Error)) }

// reported is called after each report.
func (r *readiness) reported(log *slog.Logger, host string, err error) {
	r.problem(log, host, err)
	if errors.Is(err, fakecyborg.ErrNotReported) || isTransport(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[host] {
		if delete(r.hosts, host); len(r.hosts) == 0 {
			close(r.ready)
		}
	}
}

// problem logs a problem that will be tried again, unless it is the same as before, and its end, in the order
// of the reports.
func (r *readiness) problem(log *slog.Logger, host string, err error) {
	text := ""
	if err != nil {
		text = command.OneLine(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last[host]
	r.last[host] = text
	switch {
	case text == before:
	case text == "":
		log.Info("reports again", "host", host)
	case host == "":
		log.Warn("Keystone was not reached, will be repeated", "error", text)
	default:
		log.Warn("report failed, will be repeated", "host", host, "error", text)
	}
}

// wait returns when all hosts have reported.
func (r *readiness) wait(ctx context.Context) error {
	r.mu.Lock()
	delete(r.last, "") // Keystone was reached
	r.mu.Unlock()
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// String says what is waited for, "" for nothing.
func (r *readiness) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.hosts) == 0 {
		return ""
	}
	text := "not ready: no host"
	for host := range r.hosts {
		text = "not ready: waiting for the first report to Placement of " + plural.Count(len(r.hosts), "host") + ", such as " + host
		if problem := r.last[host]; problem != "" {
			return text + ": " + problem
		}
	}
	if problem := r.last[""]; problem != "" {
		text += ": " + problem
	}
	return text
}

// serveHealth answers 503 until Cyborg is ready.
func (r *readiness) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if text := r.String(); text != "" {
		simhttp.WriteControl(w, http.StatusServiceUnavailable, simhttp.ControlBody("status", text))
		return
	}
	simhttp.WriteControl(w, http.StatusOK, simhttp.ControlBody("status", "ok"))
}
