package simcloud

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
)

// checkGuest checks that a guest has what it should have, and nothing else.
func (s *snapshot) checkGuest(g sim.Guest) {
	devices, err := s.domains.read(g)
	if err != nil {
		s.leak(LeakGuest, g.UUID, "guest %s: its domain XML cannot be read: %v", g.UUID, err)
		return
	}
	requests := make(map[amount]int)
	for _, a := range s.arqsOf[g.UUID] {
		requests[s.unit(a)]++
		s.checkGuestARQ(g, a, devices)
	}
	for _, a := range s.allocations[g.UUID] {
		n := requests[amount{a.provider, a.class, 1}]
		if s.classes[a.provider][a.class] && a.used > n {
			s.leak(LeakGuest, g.UUID, "guest %s has allocated %s:%d on provider %s, but has %s there",
				g.UUID, a.class, a.used, s.providerText(a.provider), plural.Count(n, "accelerator request"))
		}
	}
	s.checkForeignDevices(g, devices)
}

// checkGuestARQ checks one accelerator request of a guest.
func (s *snapshot) checkGuestARQ(g sim.Guest, a fakecyborg.ARQ, devices domainDevices) {
	subject := fmt.Sprintf("guest %s has %s", g.UUID, arqText(a))
	switch {
	case a.State != fakecyborg.StateBound || a.AttachHandleUUID == "":
		s.leak(LeakGuest, g.UUID, "%s, which is not Bound to an attach handle", subject)
		return
	case g.Host != "" && a.Hostname != g.Host:
		s.leak(LeakGuest, g.UUID, "guest %s runs on host %s, but its %s is on host %s", g.UUID, g.Host, arqText(a), a.Hostname)
	}
	if h := s.handle[a.AttachHandleUUID]; !h.InUse || h.ARQ != a.UUID {
		s.leak(LeakGuest, g.UUID, "%s, but its attach handle %s is not in use by it", subject, a.AttachHandleUUID)
	}
	if !s.hasAllocation(g.UUID, a.DeviceRPUUID) {
		s.leak(LeakGuest, g.UUID, "%s on provider %s, but no allocation there", subject, s.providerText(a.DeviceRPUUID))
	}
	if a.AttachHandleType == driver.HandleMDEV && !s.hasMdev[[2]string{a.Hostname, a.AttachHandleUUID}] {
		s.leak(LeakGuest, g.UUID, "%s, but host %s has no mediated device %s", subject, a.Hostname, a.AttachHandleUUID)
	}
	if a.AttachHandleType != driver.HandleTestPCI && !devices.has(a) {
		s.leak(LeakGuest, g.UUID, "%s, but its %s is not in the guest's domain XML", subject, handleText(a))
	}
}

// checkForeignDevices finds devices of Cyborg's in a guest's domain that the guest does not
// hold. Other devices are not checked, nor are those of a guest without a host, whose
// addresses could be any machine's.
func (s *snapshot) checkForeignDevices(g sim.Guest, devices domainDevices) {
	if g.Host == "" {
		return
	}
	var found []int
	for d := range devices {
		found = append(found, s.handlesOf[hostDevice{g.Host, d}]...)
	}
	slices.Sort(found) // the order of the handles
	for _, i := range found {
		h := s.handles[i]
		if owner, ok := s.owner(s.arq[h.ARQ]); !ok || owner.UUID != g.UUID {
			s.leak(LeakGuest, g.UUID, "guest %s has %s %s of provider %s in its domain XML, but no accelerator request for it",
				g.UUID, h.Type, deviceText(h.Type, h.UUID, h.Info), s.providerText(h.ProviderUUID))
		}
	}
}

// checkProjects finds guests whose bound request belongs to one project while the
// allocation counts for another.
func (s *snapshot) checkProjects(c *Cloud) {
	name := func(project string) string {
		if c.identity.HasProject(project) {
			return fmt.Sprintf("project %s", project)
		}
		return fmt.Sprintf("project %q, which Keystone does not know", project)
	}
	for _, a := range s.arqs {
		g, owned := s.owner(a)
		if !owned || a.State != fakecyborg.StateBound || !s.hasAllocation(g.UUID, a.DeviceRPUUID) {
			continue
		}
		if payer := c.Placement.ConsumerProject(g.UUID); payer != a.ProjectID {
			s.leak(LeakGuest, g.UUID, "guest %s has %s of %s, but its allocation on provider %s counts for %s",
				g.UUID, arqText(a), name(a.ProjectID), s.providerText(a.DeviceRPUUID), name(payer))
		}
	}
}

// boundEvent is the name of the event about the end of a bind.
const boundEvent = "accelerator-request-bound"

// checkEvents compares the last event about each bound request with Cyborg's state. A
// request without an event is consistent: an agent may poll Cyborg instead.
func (s *snapshot) checkEvents(events []sim.ReceivedEvent) {
	last := make(map[string]sim.ReceivedEvent)
	for _, e := range events {
		if e.Name == boundEvent && e.Tag != nil {
			last[*e.Tag] = e
		}
	}
	for _, a := range s.arqs {
		e, found := last[a.UUID]
		g, owned := s.owner(a)
		if !found || !owned || a.State != fakecyborg.StateBound {
			continue
		}
		switch {
		case uuids.Canonical(e.ServerUUID) != g.UUID:
			s.leak(LeakGuest, g.UUID, "guest %s has %s, but the last event to Nova says that it is bound for instance %s", g.UUID, arqText(a), e.ServerUUID)
		case e.Status != "completed":
			s.leak(LeakGuest, g.UUID, "guest %s has %s, but the last event to Nova says that its bind ended as %q", g.UUID, arqText(a), e.Status)
		}
	}
}
