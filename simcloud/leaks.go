package simcloud

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// The kinds of leaks.
const (
	LeakARQ        = "arq"        // an accelerator request that belongs to no guest
	LeakHandle     = "handle"     // an attach handle in use by no accelerator request
	LeakAllocation = "allocation" // an allocation that belongs to no guest
	LeakMdev       = "mdev"       // a mediated device that belongs to no guest
	LeakVGPU       = "vgpu"       // a virtual function with a vGPU type that belongs to no guest
	LeakGuest      = "guest"      // a guest that lacks something
	LeakHost       = "host"       // a host, an external Placement or a Nova that cannot be read
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
//     so does each mediated device and each virtual function with a vGPU type,
//   - each guest's requests are Bound, on the guest's host, with an allocation on their
//     provider, and their devices are in the guest's domain XML (except TEST_PCI handles,
//     which have no device), and their mediated devices and vGPUs exist on the host,
//   - each unit of a provider of Cyborg's that is allocated to a guest has a request,
//   - no guest's domain XML has a device of Cyborg's that is not the guest's,
//   - the last event that Nova got about a guest's bound request says that it is bound for
//     the guest.
//
// It reads one service after the other, so requests in progress may appear as leaks. The
// order is that of the services' own lists, the same in every run.
//
// With Model.GuestsFrom the guests are the servers of a real Nova, too; if it does not answer, that is the only
// leak.
func (c *Cloud) Leaks() []Leak {
	leaks, err := c.leaksBeside(context.Background(), c.model.GuestsFrom)
	if err != nil {
		return []Leak{{Kind: LeakHost, Subject: "nova", Text: fmt.Sprintf("Nova cannot be asked for its servers: %v", err)}}
	}
	return leaks
}

// check finds the leaks in a snapshot of the cloud.
func (c *Cloud) check(s *snapshot) []Leak {
	s.checkARQs()
	if c.external == nil { // whose consumers are not read
		s.checkProjects(c)
	}
	s.checkHandles()
	s.checkAllocations()
	s.checkMdevs()
	s.checkVGPUs()
	for i := range s.guests {
		s.checkGuest(&s.guests[i])
	}
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
	text := c.snapshot(nil).usage() + "last requests:\n"
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
	for i := range s.requests {
		r := &s.requests[i]
		if r.owner != nil {
			continue
		}
		owner, holds := "no instance", ""
		if r.InstanceUUID != "" {
			owner = "instance " + r.InstanceUUID + ", which is " + s.noGuest() + " (PUT /_sim/guests/UUID),"
		}
		if r.AttachHandleUUID != "" {
			holds = fmt.Sprintf(" and holds %s of provider %s on host %s", r.handleText(), s.providerText(r.DeviceRPUUID), r.Hostname)
		}
		s.leak(LeakARQ, r.UUID, "%s belongs to %s%s", r.text(), owner, holds)
	}
}

func (s *snapshot) checkHandles() {
	for _, h := range s.handles {
		if !h.InUse || h.holder != nil && h.holder.AttachHandleUUID == h.UUID {
			continue
		}
		by := "no accelerator request"
		if h.ARQ != "" {
			by = "ARQ " + h.ARQ + ", which does not hold it"
		}
		s.leak(LeakHandle, h.UUID, "attach handle %s of provider %s on host %s is in use by %s", h.UUID, s.providerText(h.ProviderUUID), h.Hostname, by)
	}
}

func (s *snapshot) checkAllocations() {
	for _, c := range s.consumers {
		if s.guest[c.id] == nil && slices.ContainsFunc(c.allocations, s.ours) {
			s.leak(LeakAllocation, c.id, "consumer %s, which is %s, has allocated %s", c.id, s.noGuest(), s.amountsText(c.allocations))
		}
	}
}

// ours reports whether an allocation is on a compute root or on a provider of Cyborg's.
func (s *snapshot) ours(a placementsim.Allocation) bool {
	return s.roots[a.Provider] || s.classes[a.Provider] != nil
}

// checkMdevs finds mediated devices without a bound request. An attach handle held by no
// request and a request of no guest are leaks of their own.
func (s *snapshot) checkMdevs() {
	for _, m := range s.mdevs {
		h := s.handle[m.UUID]
		if h != nil && h.Hostname != m.host {
			h = nil
		}
		if to := h.unbound(); to != "" {
			s.leak(LeakMdev, m.UUID, "mediated device %s (%s on %s) of host %s belongs to %s", m.UUID, m.Type, m.Parent, m.host, to)
		}
	}
}

// checkVGPUs finds virtual functions with a vGPU type and without a bound request.
func (s *snapshot) checkVGPUs() {
	for _, v := range s.vgpus {
		var h *handle
		for h = s.firstOf[v.device()]; h != nil; h = h.next {
			if asked, found, _ := h.asked(); found && asked.Type == v.Type {
				break
			}
		}
		if to := h.unbound(); to != "" {
			s.leak(LeakVGPU, v.Function.String(), "vGPU type %d of virtual function %s of host %s belongs to %s", v.Type, v.Function, v.host, to)
		}
	}
}

// unbound says what a handle whose device exists belongs to, or "" if that is a bound request.
func (h *handle) unbound() string {
	switch {
	case h == nil:
		return "no attach handle"
	case !h.InUse:
		return "attach handle " + h.UUID + ", which is not in use"
	case h.holder == nil || h.holder.State == fakecyborg.StateBound:
		return ""
	}
	return h.holder.text() + ", which is not Bound"
}
