package leaks

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// checkGuest checks that a guest has what it should have, and nothing else.
func (s *indexed) checkGuest(g *guest) {
	units := make(map[unit]int)
	for _, r := range g.requests {
		units[s.unit(r)]++
		s.checkRequest(g, r)
	}
	for _, a := range g.allocations {
		n := units[unit{a.Provider, a.Class}]
		if a.Used > n && slices.Contains(s.classes[a.Provider], a.Class) && !s.isLeft(g, a.Provider) {
			s.leak(KindGuest, g.UUID, "guest %s has allocated %s:%d on provider %s, but has %s there",
				g.UUID, a.Class, a.Used, s.providerText(a.Provider), plural.Count(n, "accelerator request"))
		}
		if isMemory(a.Class) {
			s.checkMemory(g, a)
		}
	}
	s.checkAmounts(g)
	s.checkElsewhere(g)
	s.checkForeignDevices(g)
}

// checkElsewhere finds what a guest has allocated on a host that it does not run on, except
// devices and their memory, which are found by their requests. Servers of a Nova are not checked:
// while one is migrated it has its allocations where it goes.
func (s *indexed) checkElsewhere(g *guest) {
	if s.Servers != nil || g.Host == "" {
		return
	}
	var elsewhere []placementsim.Allocation
	for _, a := range g.allocations {
		if slices.Contains(s.Roots[a.Provider], g.Host) || isMemory(a.Class) || slices.Contains(s.classes[a.Provider], a.Class) {
			continue
		}
		if names := s.hostNames(a.Provider); names != nil && !slices.Contains(names, g.Host) {
			elsewhere = append(elsewhere, a)
		}
	}
	if len(elsewhere) > 0 && s.isHost(g.Host) {
		s.leak(KindGuest, g.UUID, "guest %s runs on host %s, but has allocated %s", g.UUID, g.Host, s.amountsText(elsewhere))
	}
}

// isHost reports whether a host of the cloud has a name.
func (s *indexed) isHost(name string) bool {
	for _, names := range s.Roots {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// checkMemory finds device memory that a guest has allocated on a host where it has no
// accelerator request. It is not known which region the memory belongs to.
func (s *indexed) checkMemory(g *guest, a placementsim.Allocation) {
	host := s.memoryHost(a.Provider)
	isThere := func(r *request) bool { return r.Hostname == host || r.handle != nil && r.handle.Hostname == host }
	if host != "" && !slices.Contains(g.left, host) && !slices.ContainsFunc(g.requests, isThere) {
		s.leak(KindGuest, g.UUID, "guest %s has allocated %s:%d on provider %s, but has no accelerator request on host %s",
			g.UUID, a.Class, a.Used, s.providerText(a.Provider), host)
	}
}

// checkAmounts checks that the guest does not hold more units than it has allocated. The check
// of the request covers guests without an allocation.
func (s *indexed) checkAmounts(g *guest) {
	held := make(map[unit]int)
	var units []unit // in the order of the requests
	for _, r := range g.requests {
		if r.State != fakecyborg.StateBound || r.handle == nil {
			continue
		}
		u := s.unit(r)
		if held[u]++; held[u] == 1 {
			units = append(units, u)
		}
	}
	for _, u := range units {
		used := g.allocated(u)
		if used > 0 && held[u] > used && held[u] > used*s.requestsPerUnit(u) {
			s.leak(KindGuest, g.UUID, "guest %s has %s on provider %s, but has allocated %s:%d there",
				g.UUID, plural.Count(held[u], "bound accelerator request"), s.providerText(u.provider), u.class, used)
		}
	}
}

// isLeft reports whether a provider is on a host that the guest was evacuated from.
func (s *indexed) isLeft(g *guest, provider string) bool {
	return len(g.left) > 0 && slices.ContainsFunc(s.Deployables, func(d fakecyborg.StoredDeployable) bool {
		return d.ProviderUUID == provider && slices.Contains(g.left, d.Hostname)
	})
}

// checkRequest checks one accelerator request of a guest.
func (s *indexed) checkRequest(g *guest, r *request) {
	lacks := func(format string, args ...any) {
		s.leakOf(r, KindGuest, g.UUID, "guest %s has %s%s", g.UUID, r.text(), fmt.Sprintf(format, args...))
	}
	if r.State != fakecyborg.StateBound || r.AttachHandleUUID == "" {
		lacks(", which is not Bound to an attach handle")
		return
	}
	if g.Host != "" && r.Hostname != g.Host {
		s.leakOf(r, KindGuest, g.UUID, "guest %s runs on host %s, but its %s is on host %s", g.UUID, g.Host, r.text(), r.Hostname)
	}
	s.checkHandleOf(r, lacks)
	switch u := s.unit(r); {
	case !g.hasAllocation(u.provider):
		lacks(" on provider %s, but no allocation there", s.providerText(u.provider))
	case r.handle != nil && u.class != "" && g.allocated(u) == 0:
		lacks(" on provider %s, but no allocation of %s there", s.providerText(u.provider), u.class)
	}
	if r.AttachHandleType == driver.HandleMDEV {
		s.checkMdevOf(r, lacks)
	}
	if r.handle != nil {
		if v, found, _ := r.handle.asked(); found && s.vgpu[hostFunction{r.Hostname, v.Function}] != v.Type {
			lacks(", but virtual function %s of host %s has no vGPU type %d", v.Function, r.Hostname, v.Type)
		}
	}
	device, ok := deviceOf(r.AttachHandleType, r.AttachHandleUUID, r.AttachHandleInfo)
	if g.isDescribed && r.AttachHandleType != driver.HandleTestPCI && !(ok && slices.Contains(g.Devices, device)) {
		lacks(", but its %s is not in the guest's domain XML", r.handleText())
	}
	r.checkShared(lacks)
}

// checkShared finds the requests of guests that hold other handles of the device of a request. If
// there are two, it finds the one with the later handle.
func (r *request) checkShared(lacks func(format string, args ...any)) {
	if r.handle == nil {
		return
	}
	for h := r.handle.next; h != nil; h = h.next {
		if other := h.holder; h.InUse && other != nil && other.handle == h && other.owner != nil {
			lacks(", but its %s is the device of %s of guest %s, too", r.handleText(), other.text(), other.owner.UUID)
		}
	}
}

// checkHandleOf finds a request whose attach handle is not in use by it, or is one of another host or of another provider.
func (s *indexed) checkHandleOf(r *request, lacks func(format string, args ...any)) {
	h := r.handle
	if h == nil || !h.InUse || h.ARQ != r.UUID {
		lacks(", but its attach handle %s is not in use by it", r.AttachHandleUUID)
	}
	switch {
	case h == nil:
	case h.Hostname != r.Hostname && s.hasDevices[r.Hostname]:
		lacks(" on host %s, but its attach handle is one of host %s", r.Hostname, h.Hostname)
	case h.ProviderUUID != r.DeviceRPUUID && h.ProviderUUID != "":
		lacks(" on provider %s, but its attach handle is one of provider %s", s.providerText(r.DeviceRPUUID), s.providerText(h.ProviderUUID))
	}
}

// checkMdevOf compares the mediated device of a request with the device of its attach handle.
func (s *indexed) checkMdevOf(r *request, lacks func(format string, args ...any)) {
	has, found := s.mdev[[2]string{r.Hostname, r.AttachHandleUUID}]
	if !found {
		creator := ""
		if s.MdevCreation == fakecyborg.MdevsByNova {
			creator = ", which nova-compute creates"
		}
		lacks(", but host %s has no mediated device %s%s", r.Hostname, r.AttachHandleUUID, creator)
		return
	}
	if r.handle == nil {
		return
	}
	wants, err := driver.AttachHandle{Type: r.handle.Type, Info: r.handle.Info}.Mdev(r.AttachHandleUUID)
	if err == nil && wants != has {
		lacks(", but mediated device %s of host %s is %s on %s, not %s on %s", has.UUID, r.Hostname, has.Type, has.Parent, wants.Type, wants.Parent)
	}
}

// checkForeignDevices finds devices of Cyborg's in a guest's domain that the guest does not
// hold. Other devices are not checked. Guests without a host are skipped, because an address
// alone does not identify a machine.
func (s *indexed) checkForeignDevices(g *guest) {
	if g.Host == "" {
		return
	}
	for _, d := range g.Devices {
		for h := s.firstOf[hostDevice{g.Host, d}]; h != nil; h = h.next {
			if h.holder == nil || h.holder.owner != g {
				s.leakOf(h.holder, KindGuest, g.UUID, "guest %s has %s %s of provider %s in its domain XML, but no accelerator request for it",
					g.UUID, h.Type, deviceText(h.Type, h.UUID, h.Info), s.providerText(h.ProviderUUID))
			}
		}
	}
}

// checkProjects finds guests whose bound request belongs to one project while the
// allocation counts for another. A Cyborg up to about 2026.1 has requests without a project. Nova itself makes the
// requests of a server that an administrator evacuates the administrator's, so that its servers are not checked.
func (s *indexed) checkProjects() {
	name := func(project string) string {
		if s.HasProject(project) {
			return fmt.Sprintf("project %s", project)
		}
		return fmt.Sprintf("project %q, which Keystone does not know", project)
	}
	for i := range s.requests {
		r := &s.requests[i]
		g := r.owner
		if g == nil || !g.isDescribed || r.State != fakecyborg.StateBound || r.ProjectID == "" || !g.hasAllocation(r.DeviceRPUUID) {
			continue
		}
		if payer := s.ProjectOf(g.UUID); payer != r.ProjectID {
			s.leakOf(r, KindGuest, g.UUID, "guest %s has %s of %s, but its allocation on provider %s counts for %s",
				g.UUID, r.text(), name(r.ProjectID), s.providerText(r.DeviceRPUUID), name(payer))
		}
	}
}

// boundEvent is the name of the event about the end of a bind.
const boundEvent = "accelerator-request-bound"

// checkEvents compares the last event about each bound request with Cyborg's state. A
// request without an event is consistent: an agent may poll Cyborg instead.
func (s *indexed) checkEvents() {
	last := make(map[string]sim.ReceivedEvent)
	for _, e := range s.Events {
		if e.Name == boundEvent && e.Tag != nil {
			last[*e.Tag] = e
		}
	}
	for i := range s.requests {
		r := &s.requests[i]
		g := r.owner
		e, found := last[r.UUID]
		if !found || g == nil || r.State != fakecyborg.StateBound {
			continue
		}
		switch {
		case uuids.Canonical(e.ServerUUID) != g.UUID:
			s.leakOf(r, KindGuest, g.UUID, "guest %s has %s, but the last event to Nova says that it is bound for instance %s", g.UUID, r.text(), e.ServerUUID)
		case e.Status != "completed":
			s.leakOf(r, KindGuest, g.UUID, "guest %s has %s, but the last event to Nova says that its bind ended as %q", g.UUID, r.text(), e.Status)
		}
	}
}
