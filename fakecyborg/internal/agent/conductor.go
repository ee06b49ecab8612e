package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Config is the configuration of a Conductor. Fields without a comment are copied from fakecyborg.Config.
type Config struct {
	layout.Rules
	Async              bool // binds end after the response to their PATCH
	BindDelay          time.Duration
	BindTimeout        time.Duration
	EventForm          string
	BindingStates      bool
	HeartbeatPeriod    time.Duration
	MissedBeats        int
	RuntimeProgramming bool
	RootName           RootName

	Clock     sim.Clock
	Faults    *fault.Set
	Placement *layout.Client // nil: none, as of the other peers
	Nova      *simhttp.Peer
	Glance    *simhttp.Peer
	// Logger, unless nil, logs why binds fail.
	Logger *slog.Logger
	// Loop makes the agents report periodically.
	Loop bool
	// DriverReport is what a driver of the release reports where the driver of the host reports found.
	DriverReport func(name string, found driver.Report) driver.Report
	// Reported, unless nil, is called with the end of each report.
	Reported func(host string, err error)
}

// Conductor is Cyborg's conductor with the agents of its hosts.
type Conductor struct {
	cfg    Config
	db     *store.Store
	mirror *layout.Mirror
	work   simhttp.Background

	mu        sync.RWMutex
	hosts     map[string]*host // by each of their names
	added     []*host          // in the order in which they were added
	reported  map[string]time.Time
	agentless chan struct{}           // the turn of all hosts without an agent
	reporting chan struct{}           // a place for each report of a loop
	resumed   bool                    // what an earlier process left
	due       map[int64]chan struct{} // ends with the bind in the background that joined last, by instant
}

// host is a compute host with an agent.
type host struct {
	driver.Host
	guard   driver.Guard
	turn    chan struct{} // holds one token: reports of a host follow each other
	changes uint64        // of its hardware, see hardwareVersion
}

// New returns a conductor without hosts.
func New(cfg Config, db *store.Store) *Conductor {
	c := &Conductor{
		cfg: cfg, db: db,
		hosts: make(map[string]*host), reported: make(map[string]time.Time), due: make(map[int64]chan struct{}), agentless: make(chan struct{}, 1), resumed: true,
		reporting: make(chan struct{}, maxReports),
	}
	c.mirror = layout.NewMirror(cfg.Placement, db, c.change, cfg.Rules)
	if cfg.Logger != nil {
		c.logFailures()
	}
	return c
}

// Close ends the agents and the binds in the background, and waits for them.
func (c *Conductor) Close() { c.work.Close() }

// update changes the database for the request of ctx, unless its state was replaced.
func (c *Conductor) update(ctx context.Context, write func(store.Tx)) {
	c.db.Update(simhttp.ChangeLogOf(ctx), func(tx store.Tx) {
		if isFor(ctx, tx) {
			write(tx)
		}
	})
}

// change is update for what the request's record does not show.
func (c *Conductor) change(ctx context.Context, write func(store.Tx)) {
	c.update(simhttp.WithoutChangeLog(ctx), write)
}

func (c *Conductor) now() time.Time { return c.cfg.Clock.Now() }

// AddHost adds a host. The error matches ErrHost.
func (c *Conductor) AddHost(h driver.Host) error {
	if h.Name == "" {
		return fmt.Errorf("%w: it has no name", ErrHost)
	}
	names := make(map[string]bool)
	for _, d := range h.Drivers {
		if d == nil || d.Name() == "" || names[d.Name()] {
			return fmt.Errorf("%w %s: a driver is missing, has no name or is given twice", ErrHost, h.Name)
		}
		names[d.Name()] = true
	}
	h.Drivers = slices.Clone(h.Drivers)
	added := &host{Host: h, turn: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{h.Name, h.Fallback} {
		if _, taken := c.hosts[name]; taken {
			return fmt.Errorf("%w %s: it is there already", ErrHost, name)
		}
	}
	c.hosts[h.Name] = added
	if h.Fallback != "" {
		c.hosts[h.Fallback] = added // both names are the host's
	}
	c.added = append(c.added, added)
	c.db.Update(nil, func(tx store.Tx) { tx.AddAgent(h.Name, h.Fallback, c.now()) })
	if c.cfg.Loop {
		c.work.Start(func(ctx context.Context) { c.reportLoop(ctx, h.Name) })
	}
	return nil
}

// host finds a host by one of its names.
func (c *Conductor) host(name string) (*host, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if h, ok := c.hosts[name]; ok {
		return h, nil
	}
	return nil, fmt.Errorf("%w %s: it is not there", ErrHost, name)
}

// Hosts are the names under which the devices of the hosts are stored, in the order in which
// the hosts were added.
func (c *Conductor) Hosts() []string {
	c.mu.RLock()
	added := slices.Clone(c.added)
	c.mu.RUnlock()
	names := make([]string, 0, len(added))
	c.db.View(func(tx store.Tx) {
		for _, h := range added {
			names = append(names, h.storedName(tx))
		}
	})
	return names
}

func (h *host) storedName(tx store.Tx) string {
	if a, ok := tx.Agent(h.Name); ok {
		return a.Name()
	}
	return h.Name
}

// enter waits for a turn: an agent does one thing at a time. The error is the context's.
func enter(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enterTurn waits for the turn of the agent of a host. Hosts without an agent, which a loaded state
// can have, share a turn.
func (c *Conductor) enterTurn(ctx context.Context, name string) (leave func(), err error) {
	h, err := c.host(name)
	if err != nil {
		return enter(ctx, c.agentless)
	}
	return enter(ctx, h.turn)
}

// EnterAll waits for the turn of every agent. The error is the context's.
func (c *Conductor) EnterAll(ctx context.Context) (leave func(), err error) {
	c.mu.RLock()
	turns := []chan struct{}{c.agentless}
	for _, h := range c.added {
		turns = append(turns, h.turn)
	}
	c.mu.RUnlock()
	for i, turn := range turns {
		if _, err := enter(ctx, turn); err != nil {
			leaveAll(turns[:i])
			return nil, err
		}
	}
	return func() { leaveAll(turns) }, nil
}

func leaveAll(turns []chan struct{}) {
	for _, turn := range turns {
		<-turn
	}
}

// driverOf finds the driver that reported a device, and its host.
func (c *Conductor) driverOf(name, source string) (*host, driver.Driver, error) {
	h, err := c.host(name)
	if err != nil {
		return nil, nil, fmt.Errorf("no agent on host %s", name)
	}
	if c.down(name) {
		return nil, nil, fmt.Errorf("%w on host %s", ErrAgentDown, name)
	}
	if c.cfg.Quirks && h.Fallback != "" && name != h.Fallback { // the queue is named by [DEFAULT] host
		return nil, nil, fmt.Errorf("%w on host %s: it listens as %s", ErrAgentDown, name, h.Fallback)
	}
	for _, d := range h.Drivers {
		if d.Name() == source {
			return h, d, nil
		}
	}
	return nil, nil, fmt.Errorf("no driver of host %s manages the device", name)
}

func (c *Conductor) down(name string) bool {
	return store.Read(c.db, func(tx store.Tx) bool { return tx.AgentDown(name) })
}

// hardwareChanged notifies the owner of a host's hardware.
func (c *Conductor) hardwareChanged(name string) {
	h, err := c.host(name)
	if err != nil {
		return
	}
	c.mu.Lock()
	h.changes++
	c.mu.Unlock()
	if h.Changed != nil {
		h.Changed()
	}
}

// StateUnknown is what a bound request shows while heartbeats of its host are missing. It is never
// stored.
const StateUnknown = "unknown"

// StopAgent stops the agent of a host, which may restart, until it is started. The error matches ErrHost.
func (c *Conductor) StopAgent(host string) error {
	h, err := c.host(host)
	if err != nil {
		return err
	}
	c.db.Update(nil, func(tx store.Tx) {
		tx.StopAgent(host, c.now(), c.cfg.HeartbeatPeriod)
		tx.LoseFunctions(h.storedName(tx), c.now())
	})
	return nil
}

// StartAgent starts the agent of a host again and returns when everything is reported.
func (c *Conductor) StartAgent(ctx context.Context, host string) error {
	if _, err := c.host(host); err != nil {
		return err
	}
	now := c.now()
	c.db.Update(nil, func(tx store.Tx) {
		tx.StartAgent(host, now)
		if c.cfg.BindingStates && !c.cfg.Quirks {
			tx.MarkProvisioning(host, now)
		}
	})
	return c.ReportHost(ctx, host)
}

// ShownState returns a function that returns the state to show for a request: unknown while heartbeats are missing.
// It is valid as long as the view or transaction.
func (c *Conductor) ShownState(tx store.Tx, now time.Time) func(store.ARQ) string {
	silent := make(map[string]bool)
	return func(a store.ARQ) string {
		if !c.cfg.BindingStates || a.State != store.Bound && a.State != store.Provisioning {
			return a.State
		}
		if _, known := silent[a.Host]; !known {
			agent, there := tx.Agent(a.Host)
			silence := now.Sub(agent.LastBeat(now, c.cfg.HeartbeatPeriod))
			silent[a.Host] = there && silence > time.Duration(c.cfg.MissedBeats)*c.cfg.HeartbeatPeriod
		}
		if silent[a.Host] {
			return StateUnknown
		}
		return a.State
	}
}
