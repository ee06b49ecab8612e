package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// ErrHost is matched by the errors about a host that is unknown or cannot be
// added.
var ErrHost = errors.New("fakecyborg: bad host")

// Host is a compute host with an agent. Its name is the name of its resource
// provider in Placement.
type Host struct {
	Name    string
	Drivers []driver.Driver
	// Fallback is the name that counts instead when no resource provider has Name:
	// upstream's agent looks for its fully qualified name and then for [DEFAULT]
	// host. Empty: none.
	Fallback string
	// NovaClaims names the setting of Nova's by which Nova offers a device, too,
	// such as "[pci] device_spec entry 0", or "" if none does. A claimed device
	// is refused (UpstreamQuirks: reported). Nil: Nova's settings are not known.
	NovaClaims func(driver.Device) string
	// Reboot does to the hardware what a restart of the host does; a fault rule with
	// the action reboot calls it. Nil: nothing.
	Reboot func()
	// Changed is called after each change of the hardware: of a mediated device, or of what
	// a region is programmed with. Nil: nothing.
	Changed func()
}

// agent is the part of Cyborg that runs on a host.
type agent struct {
	host Host
	turn chan struct{} // holds one token: reports of a host follow each other
	// fellBack tells that the host is known by its fallback; under the server's
	// lock.
	fellBack bool

	signs lifeSigns // under the server's lock
}

// agentState is what is remembered of an agent from one life of the simulator to
// the next.
type agentState struct {
	signs    lifeSigns
	fellBack bool
}

// enter waits for the agent's turn: what it does about its devices, it does one
// after the other. The error is the context's.
func (a *agent) enter(ctx context.Context) (leave func(), err error) { return enter(ctx, a.turn) }

func enter(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enterTurn is enter for the agent of a host. Those without one, which only a dump
// can know, share a turn.
func (s *Server) enterTurn(ctx context.Context, host string) (leave func(), err error) {
	s.mu.RLock()
	a := s.agents[host]
	s.mu.RUnlock()
	if a == nil {
		return enter(ctx, s.strangers)
	}
	return a.enter(ctx)
}

// AddHost makes a host known; it reports when asked, or with WithAgentLoop by
// itself. The error matches [ErrHost]: no name, a name taken, two drivers of
// one name.
func (s *Server) AddHost(h Host) error {
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
	a := &agent{host: h, turn: make(chan struct{}, 1), signs: lifeSigns{started: s.clock.Now()}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range []string{h.Name, h.Fallback} {
		if _, taken := s.agents[name]; taken {
			return fmt.Errorf("%w %s: it is there already", ErrHost, name)
		}
	}
	s.agents[h.Name] = a
	if h.Fallback != "" {
		s.agents[h.Fallback] = a // both names are the host's
	}
	s.hostNames = append(s.hostNames, a.settle(s.awaited))
	if s.loop {
		s.goWithin(func(ctx context.Context) { s.reportLoop(ctx, h.Name) })
	}
	return nil
}

// settle takes what a dump knows of an agent that is added after it was loaded,
// and answers the name under which the host is known.
func (a *agent) settle(awaited map[string]agentState) string {
	if known, ok := awaited[a.host.Name]; ok {
		delete(awaited, a.host.Name)
		a.signs, a.fellBack = known.signs, known.fellBack && a.host.Fallback != ""
	}
	return a.name()
}

// name is the name under which the devices of the agent are known: the fallback
// once that was found.
func (a *agent) name() string {
	if a.fellBack {
		return a.host.Fallback
	}
	return a.host.Name
}

// driverOf finds the driver that reported a device.
func (s *Server) driverOf(host, source string) (driver.Driver, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	a, ok := s.agents[host]
	if !ok {
		return nil, fmt.Errorf("no agent on host %s", host)
	}
	if a.signs.down {
		return nil, fmt.Errorf("%w on host %s", ErrAgentDown, host)
	}
	for _, d := range a.host.Drivers {
		if d.Name() == source {
			return d, nil
		}
	}
	return nil, fmt.Errorf("no driver of host %s is in charge of the device", host)
}

// hardwareChanged tells the owner of a host's hardware.
func (s *Server) hardwareChanged(host string) {
	s.mu.RLock()
	a, ok := s.agents[host]
	s.mu.RUnlock()
	if ok && a.host.Changed != nil {
		a.host.Changed()
	}
}

// mdevWork is what the agent is to do for a handle.
type mdevWork struct {
	host, source string
	handle       driver.AttachHandle
	uuid         string
}

// work copies what the agent needs, so that it can act outside the lock.
func (h *handleRow) work() mdevWork {
	d := h.deployable.device
	return mdevWork{host: d.host, source: d.source, handle: h.spec(), uuid: h.uuid}
}

// createMdev makes the mediated device of a handle on its host; its uuid is
// the handle's.
func (s *Server) createMdev(ctx context.Context, w mdevWork) error {
	return s.withAgent(ctx, mdevCreateOperation, w, driver.MdevDriver.CreateMdev)
}

// removeMdev removes it; one that is not there is no error.
func (s *Server) removeMdev(ctx context.Context, w mdevWork) error {
	return s.withAgent(ctx, mdevRemoveOperation, w, driver.MdevDriver.RemoveMdev)
}

func (s *Server) withAgent(ctx context.Context, operation string, w mdevWork,
	do func(driver.MdevDriver, context.Context, driver.Mdev) error,
) error {
	fail := func(err error) error {
		return refuse(kindServer, "%s: host %s, mediated device %s: %v", operation, w.host, w.uuid, err)
	}
	m, err := w.handle.Mdev(w.uuid)
	if err != nil {
		return fail(err)
	}
	err = s.perform(ctx, agentCallOperation, w.host, func() error {
		d, err := s.driverOf(w.host, w.source)
		if err != nil {
			return err
		}
		agent, ok := d.(driver.MdevDriver)
		if !ok {
			return fmt.Errorf("driver %s makes no mediated devices", d.Name())
		}
		return s.perform(ctx, operation, w.uuid, func() error {
			defer s.hardwareChanged(w.host)
			return noteMdev(ctx, d, m, operation == mdevCreateOperation, func() error { return do(agent, ctx, m) })
		})
	})
	if err != nil {
		return fail(err)
	}
	return nil
}
