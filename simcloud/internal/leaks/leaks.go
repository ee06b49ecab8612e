package leaks

import (
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// The kinds of leaks.
const (
	KindARQ        = "arq"
	KindHandle     = "handle"
	KindAllocation = "allocation"
	KindMdev       = "mdev"
	KindVGPU       = "vgpu"
	KindGuest      = "guest"
	KindHost       = "host"
)

// Leak is an inconsistency between the services.
type Leak struct {
	Kind, Subject, Text string
	ARQ                 string // UUID of the accelerator request that it is about, if there is one
}

// State is what the services hold. Check and Usage do not change it.
type State struct {
	Guests      []nova.Guest
	Servers     []client.Server // guests of a real Nova; nil without one
	ARQs        []fakecyborg.ARQ
	Handles     []fakecyborg.StoredAttachHandle
	Deployables []fakecyborg.StoredDeployable
	Providers   func() []placementsim.ResourceProvider // for their names and parents; may be nil
	Allocations []placementsim.Allocation              // ordered by consumer
	Roots       map[string][]string                    // providers of hosts, with the names of the host
	Mdevs       []Mdev
	Defined     []Mdev // in libvirt, which creates them when their host starts
	// MdevCreation says which service creates them for bound requests.
	MdevCreation fakecyborg.MdevCreation
	VGPUs        []VGPU // ordered by address within a host
	Events       []sim.ReceivedEvent
	Unread       []Leak // what could not be read

	// ProjectOf is the project that a consumer's allocations count for. Nil: projects are not checked.
	ProjectOf func(consumer string) string
	// HasProject reports whether Keystone knows a project. It is not nil if ProjectOf is not.
	HasProject func(project string) bool
}

// Mdev is a mediated device of a host.
type Mdev struct {
	Host string
	driver.Mdev
	// Older is set for a device that existed before the cloud. Without an attach handle it
	// belongs to another program.
	Older bool
}

// VGPU is a virtual function of a host with a vGPU type.
type VGPU struct {
	Host string
	driver.VGPU
	Older bool // as in Mdev
}

// Check finds the leaks, what could not be read first, in the order of the lists of the state.
func Check(state State) []Leak {
	s := index(state)
	s.checkARQs()
	if s.ProjectOf != nil {
		s.checkProjects()
	}
	s.checkHandles()
	s.checkAllocations()
	s.checkMdevs()
	s.checkVGPUs()
	for i := range s.guests {
		s.checkGuest(&s.guests[i])
	}
	s.checkEvents()
	return s.leaks
}

func (s *indexed) checkARQs() {
	for i := range s.requests {
		r := &s.requests[i]
		if r.owner != nil {
			continue
		}
		owner, and, holds := "no instance", " and", ""
		if r.InstanceUUID != "" {
			owner, and = "instance "+r.InstanceUUID+", which is "+s.noGuest(), ", and"
		}
		if r.AttachHandleUUID != "" {
			holds = fmt.Sprintf("%s holds %s of provider %s on host %s", and, r.handleText(), s.providerText(r.DeviceRPUUID), r.Hostname)
		}
		s.leakOf(r, KindARQ, r.UUID, "%s belongs to %s%s", r.text(), owner, holds)
	}
}

func (s *indexed) checkHandles() {
	for _, h := range s.handles {
		if !h.InUse || h.holder != nil && h.holder.AttachHandleUUID == h.UUID {
			continue
		}
		by := "no accelerator request"
		if h.ARQ != "" {
			by = "ARQ " + h.ARQ + ", which does not hold it"
		}
		s.leakOf(h.holder, KindHandle, h.UUID, "attach handle %s of provider %s on host %s is in use by %s", h.UUID, s.providerText(h.ProviderUUID), h.Hostname, by)
	}
}

func (s *indexed) checkAllocations() {
	for _, c := range s.consumers {
		if s.guest[c.id] == nil && slices.ContainsFunc(c.allocations, s.ours) {
			s.leak(KindAllocation, c.id, "consumer %s, which is %s, has allocated %s", c.id, s.noGuest(), s.amountsText(c.allocations))
		}
	}
}

// ours reports whether an allocation is on a compute root or on a provider of Cyborg's.
func (s *indexed) ours(a placementsim.Allocation) bool {
	return s.Roots[a.Provider] != nil || s.classes[a.Provider] != nil || isMemory(a.Class) && s.memoryHost(a.Provider) != ""
}

// checkMdevs finds mediated devices, and definitions of them, without a bound request. An attach handle held by no
// request and a request of no guest are leaks of their own.
func (s *indexed) checkMdevs() {
	for _, m := range s.Mdevs {
		h := s.handleOf(m)
		if to := h.unbound(); to != "" && (h != nil || !m.Older) {
			s.leakOf(h.request(), KindMdev, m.UUID, "mediated device %s (%s on %s) of host %s belongs to %s", m.UUID, m.Type, m.Parent, m.Host, to)
		}
	}
	for _, m := range s.Defined {
		h := s.handleOf(m)
		if to := h.unbound(); to != "" {
			s.leakOf(h.request(), KindMdev, m.UUID, "the definition of mediated device %s (%s on %s) in libvirt of host %s belongs to %s", m.UUID, m.Type, m.Parent, m.Host, to)
		}
	}
}

// handleOf is the attach handle of a mediated device of a host, or nil.
func (s *indexed) handleOf(m Mdev) *handle {
	if h := s.handle[m.UUID]; h != nil && h.Hostname == m.Host {
		return h
	}
	return nil
}

// checkVGPUs finds virtual functions with a vGPU type and without a bound request.
func (s *indexed) checkVGPUs() {
	for _, v := range s.VGPUs {
		var h *handle
		for h = s.firstOf[hostDevice{v.Host, DeviceAt(v.Function)}]; h != nil; h = h.next {
			if asked, found, _ := h.asked(); found && asked.Type == v.Type {
				break
			}
		}
		if to := h.unbound(); to != "" && (h != nil || !v.Older) {
			s.leakOf(h.request(), KindVGPU, v.Function.String(), "vGPU type %d of virtual function %s of host %s belongs to %s", v.Type, v.Function, v.Host, to)
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
