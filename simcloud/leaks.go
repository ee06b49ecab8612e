package simcloud

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
)

// The kinds of leaks.
const (
	LeakARQ        = "arq"        // an accelerator request that belongs to no guest
	LeakHandle     = "handle"     // an attach handle in use by no accelerator request
	LeakAllocation = "allocation" // an allocation that belongs to no guest
	LeakMdev       = "mdev"       // a mediated device that belongs to no guest
	LeakGuest      = "guest"      // a guest that lacks something
	LeakHost       = "host"       // a host, or an external Placement, that cannot be read
)

// Leak is an inconsistency between the services.
type Leak struct {
	// Kind is one of the Leak constants.
	Kind string `json:"kind"`
	// Subject is the identifier of what leaked.
	Subject string `json:"subject"`
	// Text is one sentence that names both sides.
	Text string `json:"text"`
}

// Leaks compares the state of all services; it is empty when
//
//   - each accelerator request belongs to a guest, and a bound one to the project that the
//     guest's allocation counts for,
//   - each attach handle in use belongs to the request that holds it,
//   - each allocation on a compute root or on a provider of Cyborg's belongs to a guest, and
//     so does each mediated device,
//   - each guest's requests are Bound, on the guest's host, with an allocation on their
//     provider, and their devices are in the guest's domain XML (except TEST_PCI handles,
//     which have no device), and their mediated devices exist on the host,
//   - each unit of a provider of Cyborg's that is allocated to a guest has a request,
//   - no guest's domain XML has a device of Cyborg's that is not the guest's,
//   - the last event that Nova got about a guest's bound request says that it is bound for
//     the guest.
//
// It reads one service after the other, so requests in progress may appear as leaks. The
// order is that of the services' own lists, the same in every run.
func (c *Cloud) Leaks() []Leak { return c.check(c.snapshot()) }

// check finds the leaks in a snapshot of the cloud.
func (c *Cloud) check(s *snapshot) []Leak {
	s.checkARQs()
	if c.external == nil { // whose consumers are not read
		s.checkProjects(c)
	}
	s.checkHandles()
	s.checkAllocations()
	s.checkMdevs()
	for _, g := range s.guests {
		s.checkGuest(g)
	}
	s.domains.forget(s.guest)
	s.checkEvents(c.compute.Events())
	return s.leaks
}

// CheckNoLeaks fails the test if [Cloud.Leaks] finds anything. The text has a sentence for
// each leak, then the summary of the cloud.
func (c *Cloud) CheckNoLeaks(t sim.TB) {
	t.Helper()
	leaks := c.Leaks()
	if len(leaks) == 0 {
		return
	}
	text := "simcloud: " + plural.Count(len(leaks), "leak") + ":\n"
	for _, l := range leaks {
		text += "  " + l.Text + "\n"
	}
	t.Errorf("%s", text+c.Summary())
}

// maxShown is the number of requests in a summary.
const maxShown = 15

// Summary is what a failed check shows of a cloud: what is in use as a tree, then the last
// requests.
func (c *Cloud) Summary() string {
	text := c.snapshot().usage() + "last requests:\n"
	requests := c.Requests()
	for _, r := range requests[max(0, len(requests)-maxShown):] {
		path := r.Path
		if r.Query != "" {
			path += "?" + r.Query
		}
		text += fmt.Sprintf("  %s %s: %d", r.Method, path, r.Status)
		if r.Fault != "" {
			text += " (fault: " + r.Fault + ")"
		}
		text += "\n"
	}
	return text
}

func (s *snapshot) checkARQs() {
	for _, a := range s.arqs {
		if _, owned := s.owner(a); owned {
			continue
		}
		owner, holds := "no instance", ""
		if a.InstanceUUID != "" {
			owner = "instance " + a.InstanceUUID + ", which is not a registered guest (PUT /_sim/guests/UUID),"
		}
		if a.AttachHandleUUID != "" {
			holds = fmt.Sprintf(" and holds %s of provider %s on host %s", handleText(a), s.providerText(a.DeviceRPUUID), a.Hostname)
		}
		s.leak(LeakARQ, a.UUID, "%s belongs to %s%s", arqText(a), owner, holds)
	}
}

func (s *snapshot) checkHandles() {
	for _, h := range s.handles {
		if !h.InUse {
			continue
		}
		text := fmt.Sprintf("attach handle %s of provider %s on host %s is in use by", h.UUID, s.providerText(h.ProviderUUID), h.Hostname)
		if h.ARQ == "" {
			s.leak(LeakHandle, h.UUID, "%s no accelerator request", text)
		} else if s.arq[h.ARQ].AttachHandleUUID != h.UUID {
			s.leak(LeakHandle, h.UUID, "%s ARQ %s, which does not hold it", text, h.ARQ)
		}
	}
}

func (s *snapshot) checkAllocations() {
	for _, consumer := range s.consumers {
		if _, ok := s.guest[consumer]; !ok && slices.ContainsFunc(s.allocations[consumer], s.ours) {
			s.leak(LeakAllocation, consumer, "consumer %s, which is not a registered guest, has allocated %s", consumer, s.amountsText(s.allocations[consumer]))
		}
	}
}

// ours reports whether an allocation is on a compute root or on a provider of Cyborg's.
func (s *snapshot) ours(a amount) bool {
	_, cyborgs := s.onProvider[a.provider]
	return cyborgs || s.roots[a.provider]
}

// checkMdevs finds mediated devices without a bound request. An attach handle held by no
// request and a request of no guest are leaks of their own.
func (s *snapshot) checkMdevs() {
	for _, m := range s.mdevs {
		text := fmt.Sprintf("mediated device %s (%s on %s) of host %s belongs to", m.UUID, m.Type, m.Parent, m.host)
		h, known := s.handle[m.UUID]
		arq, held := s.arq[h.ARQ]
		switch {
		case !known || h.Hostname != m.host:
			s.leak(LeakMdev, m.UUID, "%s no attach handle", text)
		case !h.InUse:
			s.leak(LeakMdev, m.UUID, "%s attach handle %s, which is not in use", text, h.UUID)
		case held && arq.State != fakecyborg.StateBound:
			s.leak(LeakMdev, m.UUID, "%s %s, which is not Bound", text, arqText(arq))
		}
	}
}
