package simcloud

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/sim"
)

// The kinds of leaks: what it is that nobody owns, or whose owner lacks something.
const (
	LeakARQ        = "arq"        // an accelerator request of no guest
	LeakHandle     = "handle"     // an attach handle taken by no accelerator request
	LeakAllocation = "allocation" // an allocation of no guest
	LeakMdev       = "mdev"       // a mediated device of no guest
	LeakGuest      = "guest"      // a guest without something that it should have
	LeakHost       = "host"       // a host, or an external Placement, that cannot be read
)

// Leak is something that is wrong between the services.
type Leak struct {
	// Kind is one of the Leak constants.
	Kind string `json:"kind"`
	// Subject is the identifier of what leaked.
	Subject string `json:"subject"`
	// Text is one sentence that names both sides.
	Text string `json:"text"`
}

// Leaks judges the state of all services together; it is empty when
//
//   - each accelerator request belongs to a guest, and a bound one to the project that the
//     guest's allocation counts for,
//   - each attach handle in use belongs to the request that holds it,
//   - each allocation that is on a compute root or on a provider of Cyborg's belongs to a
//     guest, and so does each mediated device,
//   - each guest's requests are Bound, on the guest's host, with an allocation on their
//     provider, and their devices are in the guest's domain XML (except TEST_PCI handles,
//     which stand for no device), and the mediated ones exist on the host,
//   - each unit of a provider of Cyborg's that is allocated to a guest has a request,
//   - no guest's domain XML has a device of Cyborg's that is not the guest's,
//   - what Nova was told last of a guest's bound request is that it is bound for the guest.
//
// It looks at each service in turn, so it is for moments when nothing is going on. The
// order is that of the services' own lists, the same in every run.
func (c *Cloud) Leaks() []Leak {
	w := c.look()
	w.judgeARQs()
	w.judgeProjects(c)
	w.judgeHandles()
	w.judgeAllocations()
	w.judgeMdevs()
	for _, g := range w.guests {
		w.judgeGuest(g)
	}
	w.judgeEvents(c.compute)
	return w.leaks
}

// view is the state of all services, read once, and what is wrong with it.
type view struct {
	guests      []sim.Guest
	living      map[string]sim.Guest
	arqs        []fakecyborg.ARQ
	arqByUUID   map[string]fakecyborg.ARQ
	handles     []fakecyborg.AttachHandle
	byHandle    map[string]fakecyborg.AttachHandle
	parts       map[string]fakecyborg.Deployable // by provider; several share one on a flat host
	partByUUID  map[string]fakecyborg.Deployable
	classes     map[string]map[string]bool // that Cyborg has on a provider
	roots       map[string]bool            // providers of hosts
	names       map[string]string          // of providers
	consumers   []string
	allocations map[string][]amount // by consumer
	mdevs       []hostMdev
	leaks       []Leak
}

// amount is a part of an allocation.
type amount struct {
	provider, class string
	used            int
}

type hostMdev struct {
	host string
	driver.Mdev
}

// look reads everything.
func (c *Cloud) look() *view {
	w := &view{
		guests: c.Guests(), living: make(map[string]sim.Guest),
		arqs: c.Cyborg.ARQs(), arqByUUID: make(map[string]fakecyborg.ARQ),
		handles: c.Cyborg.AttachHandles(), byHandle: make(map[string]fakecyborg.AttachHandle),
		parts: make(map[string]fakecyborg.Deployable), partByUUID: make(map[string]fakecyborg.Deployable),
		classes: make(map[string]map[string]bool), roots: make(map[string]bool),
		allocations: make(map[string][]amount), leaks: []Leak{},
	}
	for _, g := range w.guests {
		w.living[g.UUID] = g
	}
	for _, a := range w.arqs {
		w.arqByUUID[a.UUID] = a
	}
	for _, h := range w.handles {
		w.byHandle[h.UUID] = h
	}
	for _, d := range c.Cyborg.Deployables() {
		w.parts[d.ProviderUUID], w.partByUUID[d.UUID] = d, d
		if w.classes[d.ProviderUUID] == nil {
			w.classes[d.ProviderUUID] = make(map[string]bool)
		}
		w.classes[d.ProviderUUID][d.ResourceClass()] = true
	}
	names, allocations, err := c.placementState()
	if err != nil {
		w.leak(LeakHost, "placement", "Placement cannot be read: %v", err)
	}
	w.names = names
	for _, a := range allocations {
		id := nova.CanonicalUUID(a.Consumer)
		if w.allocations[id] == nil {
			w.consumers = append(w.consumers, id)
		}
		w.allocations[id] = append(w.allocations[id], amount{a.Provider, a.Class, a.Used})
	}
	for _, m := range c.machines {
		w.roots[m.provider] = true
		w.lookAtMdevs(m)
	}
	return w
}

// lookAtMdevs leaves out those that were there before the cloud was made.
func (w *view) lookAtMdevs(m *machine) {
	mdevs, err := m.mdevs()
	if err != nil {
		w.leak(LeakHost, m.host.Name, "host %s: its mediated devices cannot be read: %v", m.host.Name, err)
	}
	for _, mdev := range mdevs {
		if !m.before[mdev.UUID] {
			w.mdevs = append(w.mdevs, hostMdev{m.host.Name, mdev})
		}
	}
}

func (w *view) leak(kind, subject, format string, args ...any) {
	w.leaks = append(w.leaks, Leak{Kind: kind, Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// unit is what an accelerator request has of a provider: an amount of one.
func (w *view) unit(arq fakecyborg.ARQ) amount {
	part, bound := w.partByUUID[w.byHandle[arq.AttachHandleUUID].DeployableUUID]
	if !bound {
		part = w.parts[arq.DeviceRPUUID]
	}
	return amount{arq.DeviceRPUUID, part.ResourceClass(), 1}
}

// owner returns the guest that an accelerator request belongs to.
func (w *view) owner(arq fakecyborg.ARQ) (sim.Guest, bool) {
	g, ok := w.living[nova.CanonicalUUID(arq.InstanceUUID)]
	return g, ok && arq.InstanceUUID != ""
}

func (w *view) judgeARQs() {
	for _, a := range w.arqs {
		if _, owned := w.owner(a); owned {
			continue
		}
		holds := ""
		if a.AttachHandleUUID != "" {
			holds = fmt.Sprintf(" and holds %s of provider %s on host %s", w.handleText(a), w.providerText(a.DeviceRPUUID), a.Hostname)
		}
		to := "belongs to no instance"
		if a.InstanceUUID != "" {
			to = "belongs to instance " + a.InstanceUUID + ", which is no guest,"
		}
		w.leak(LeakARQ, a.UUID, "%s %s%s", w.arqText(a), to, holds)
	}
}

func (w *view) judgeHandles() {
	for _, h := range w.handles {
		if !h.InUse {
			continue
		}
		part := w.providerText(h.ProviderUUID)
		if h.ARQ == "" {
			w.leak(LeakHandle, h.UUID, "attach handle %s of provider %s on host %s is in use by no accelerator request", h.UUID, part, h.Hostname)
			continue
		}
		if arq, ok := w.arqByUUID[h.ARQ]; !ok || arq.AttachHandleUUID != h.UUID {
			w.leak(LeakHandle, h.UUID, "attach handle %s of provider %s on host %s is in use by ARQ %s, which does not hold it", h.UUID, part, h.Hostname, h.ARQ)
		}
	}
}

func (w *view) judgeAllocations() {
	for _, consumer := range w.consumers {
		if _, living := w.living[consumer]; living {
			continue
		}
		if slices.ContainsFunc(w.allocations[consumer], w.ours) {
			w.leak(LeakAllocation, consumer, "consumer %s, which is no guest, has allocated %s", consumer, w.amountsText(w.allocations[consumer]))
		}
	}
}

// ours tells whether an allocation is on a compute root or on a provider of Cyborg's.
func (w *view) ours(a amount) bool {
	_, cyborgs := w.parts[a.provider]
	return cyborgs || w.roots[a.provider]
}

func (w *view) judgeMdevs() {
	for _, m := range w.mdevs {
		what := fmt.Sprintf("mediated device %s (%s on %s) of host %s", m.UUID, m.Type, m.Parent, m.host)
		h, known := w.byHandle[m.UUID]
		arq, held := w.arqByUUID[h.ARQ]
		switch {
		case !known || h.Hostname != m.host:
			w.leak(LeakMdev, m.UUID, "%s belongs to no attach handle", what)
		case !h.InUse:
			w.leak(LeakMdev, m.UUID, "%s belongs to attach handle %s, which is not in use", what, h.UUID)
		case held && arq.State != fakecyborg.StateBound:
			w.leak(LeakMdev, m.UUID, "%s belongs to %s, which is not Bound", what, w.arqText(arq))
		}
		// A handle that nobody holds and a request of no guest are leaks of their own.
	}
}

func (w *view) arqText(a fakecyborg.ARQ) string {
	return fmt.Sprintf("ARQ %s (%s, device profile %s)", a.UUID, a.State, a.DeviceProfileName)
}

func (w *view) handleText(a fakecyborg.ARQ) string {
	return fmt.Sprintf("%s handle %s", a.AttachHandleType, deviceText(a.AttachHandleType, a.AttachHandleUUID, a.AttachHandleInfo))
}

func deviceText(kind, handle string, info map[string]string) string {
	if address, err := driver.PCIAddressOf(info); err == nil && kind == driver.HandlePCI {
		return address.String()
	}
	return handle
}

func (w *view) providerText(id string) string {
	if name, ok := w.names[id]; ok {
		return name
	}
	return id
}

func (w *view) amountsText(amounts []amount) string {
	var words []string
	for _, a := range amounts {
		words = append(words, fmt.Sprintf("%s:%d on %s", a.class, a.used, w.providerText(a.provider)))
	}
	return strings.Join(words, ", ")
}
