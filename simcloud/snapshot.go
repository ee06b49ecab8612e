package simcloud

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// snapshot is the state of all services, read once. The leak check, the summary of a
// failed test and the status page use it.
type snapshot struct {
	guests      []sim.Guest
	guest       map[string]sim.Guest
	arqs        []fakecyborg.ARQ
	arq         map[string]fakecyborg.ARQ
	arqsOf      map[string][]fakecyborg.ARQ // by guest
	handles     []fakecyborg.AttachHandle
	handle      map[string]fakecyborg.AttachHandle
	handlesOf   map[hostDevice][]int // positions in handles, by the device; without TEST_PCI
	deployable  map[string]fakecyborg.Deployable
	onProvider  map[string]fakecyborg.Deployable // by provider; on a flat host one of several
	classes     map[string]map[string]bool       // Cyborg's resource classes, by provider
	providers   []placementsim.ResourceProvider
	provider    map[string]placementsim.ResourceProvider
	roots       map[string]bool // providers of hosts
	allocated   []placementsim.Allocation
	consumers   []string
	allocations map[string][]amount // by consumer
	mdevs       []hostMdev
	hasMdev     map[[2]string]bool // by host and uuid
	domains     *domainReader
	leaks       []Leak
}

// amount is a part of an allocation.
type amount struct {
	provider, class string
	used            int
}

// hostDevice is a device of a host.
type hostDevice struct {
	host string
	domainDevice
}

type hostMdev struct {
	host string
	driver.Mdev
}

// snapshot reads the services one after the other. What cannot be read is a leak.
func (c *Cloud) snapshot() *snapshot {
	s := &snapshot{guests: c.Guests(), arqs: c.Cyborg.ARQs(), handles: c.Cyborg.AttachHandles(), domains: &c.domains}
	s.index(c.Cyborg.Deployables())
	var err error
	if s.providers, s.allocated, err = c.placementState(); err != nil {
		s.leak(LeakHost, "placement", "Placement cannot be read: %v", err)
	}
	s.provider = byKey(s.providers, func(p placementsim.ResourceProvider) string { return p.UUID })
	s.allocations = make(map[string][]amount)
	for _, a := range s.allocated {
		id := uuids.Canonical(a.Consumer)
		if s.allocations[id] == nil {
			s.consumers = append(s.consumers, id)
		}
		s.allocations[id] = append(s.allocations[id], amount{a.Provider, a.Class, a.Used})
	}
	s.roots, s.hasMdev = make(map[string]bool), make(map[[2]string]bool)
	for _, m := range c.machines {
		s.roots[m.provider] = true
		s.readMdevs(m)
	}
	return s
}

// index makes the maps of guests, accelerator requests, attach handles and deployables.
func (s *snapshot) index(deployables []fakecyborg.Deployable) {
	s.guest = byKey(s.guests, func(g sim.Guest) string { return g.UUID })
	s.arq = byKey(s.arqs, func(a fakecyborg.ARQ) string { return a.UUID })
	s.handle = byKey(s.handles, func(h fakecyborg.AttachHandle) string { return h.UUID })
	s.deployable = byKey(deployables, func(d fakecyborg.Deployable) string { return d.UUID })
	s.onProvider = byKey(deployables, func(d fakecyborg.Deployable) string { return d.ProviderUUID })
	s.arqsOf = make(map[string][]fakecyborg.ARQ)
	for _, a := range s.arqs {
		if g, ok := s.owner(a); ok {
			s.arqsOf[g.UUID] = append(s.arqsOf[g.UUID], a)
		}
	}
	s.handlesOf = make(map[hostDevice][]int, len(s.handles))
	for i, h := range s.handles {
		if d, ok := deviceOf(h.Type, h.UUID, h.Info); ok {
			at := hostDevice{h.Hostname, d}
			s.handlesOf[at] = append(s.handlesOf[at], i)
		}
	}
	s.classes = make(map[string]map[string]bool)
	for _, d := range deployables {
		if s.classes[d.ProviderUUID] == nil {
			s.classes[d.ProviderUUID] = make(map[string]bool)
		}
		s.classes[d.ProviderUUID][d.ResourceClass()] = true
	}
}

// byKey makes a map of a list; of two with one key the later counts.
func byKey[T any](list []T, key func(T) string) map[string]T {
	all := make(map[string]T, len(list))
	for _, item := range list {
		all[key(item)] = item
	}
	return all
}

// readMdevs leaves out the mediated devices that are older than the cloud.
func (s *snapshot) readMdevs(m *machine) {
	mdevs, err := m.mdevs()
	if err != nil {
		s.leak(LeakHost, m.host.Name, "host %s: its mediated devices cannot be read: %v", m.host.Name, err)
	}
	for _, mdev := range mdevs {
		if !m.ownMdevs[mdev.UUID] {
			s.mdevs = append(s.mdevs, hostMdev{m.host.Name, mdev})
			s.hasMdev[[2]string{m.host.Name, mdev.UUID}] = true
		}
	}
}

func (s *snapshot) leak(kind, subject, format string, args ...any) {
	s.leaks = append(s.leaks, Leak{Kind: kind, Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// owner returns the guest that an accelerator request belongs to.
func (s *snapshot) owner(arq fakecyborg.ARQ) (sim.Guest, bool) {
	g, ok := s.guest[uuids.Canonical(arq.InstanceUUID)]
	return g, ok && arq.InstanceUUID != ""
}

// unit is what an accelerator request uses of a provider: an amount of one.
func (s *snapshot) unit(arq fakecyborg.ARQ) amount {
	d, bound := s.deployable[s.handle[arq.AttachHandleUUID].DeployableUUID]
	if !bound {
		d = s.onProvider[arq.DeviceRPUUID]
	}
	return amount{arq.DeviceRPUUID, d.ResourceClass(), 1}
}

func (s *snapshot) hasAllocation(consumer, provider string) bool {
	return slices.ContainsFunc(s.allocations[consumer], func(a amount) bool { return a.provider == provider })
}

func arqText(a fakecyborg.ARQ) string {
	return fmt.Sprintf("ARQ %s (%s, device profile %s)", a.UUID, a.State, a.DeviceProfileName)
}

func handleText(a fakecyborg.ARQ) string {
	return fmt.Sprintf("%s handle %s", a.AttachHandleType, deviceText(a.AttachHandleType, a.AttachHandleUUID, a.AttachHandleInfo))
}

// deviceText is the PCI address of an attach handle, or its uuid.
func deviceText(kind, handle string, info map[string]string) string {
	if address, err := driver.PCIAddressOf(info); err == nil && kind == driver.HandlePCI {
		return address.String()
	}
	return handle
}

// providerText is the name of a provider, or its uuid if it does not exist.
func (s *snapshot) providerText(id string) string {
	return cmp.Or(s.provider[id].Name, id)
}

func (s *snapshot) amountsText(amounts []amount) string {
	var words []string
	for _, a := range amounts {
		words = append(words, fmt.Sprintf("%s:%d on %s", a.class, a.used, s.providerText(a.provider)))
	}
	return strings.Join(words, ", ")
}

// usage draws what is in use as a tree: providers, their attach handles and accelerator
// requests, and consumers.
func (s *snapshot) usage() string {
	var b strings.Builder
	b.WriteString("in use:\n")
	used := make(map[string][]string) // lines by provider
	for _, consumer := range s.consumers {
		for _, a := range s.allocations[consumer] {
			used[a.provider] = append(used[a.provider], fmt.Sprintf("%s:%d allocated to %s", a.class, a.used, consumer))
		}
	}
	for _, h := range s.handles {
		if h.InUse {
			arq := s.arq[h.ARQ]
			used[h.ProviderUUID] = append(used[h.ProviderUUID], fmt.Sprintf("%s %s held by ARQ %s (%s), instance %s",
				h.Type, deviceText(h.Type, h.UUID, h.Info), orNone(h.ARQ), orNone(string(arq.State)), orNone(arq.InstanceUUID)))
		}
	}
	byName := func(a, b string) int {
		return cmp.Or(strings.Compare(s.providerText(a), s.providerText(b)), strings.Compare(a, b))
	}
	for _, id := range slices.SortedFunc(maps.Keys(used), byName) {
		fmt.Fprintf(&b, "  %s %s\n", s.providerText(id), id)
		for _, line := range used[id] {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	for _, a := range s.arqs {
		if a.AttachHandleUUID == "" {
			fmt.Fprintf(&b, "  %s without a handle, instance %s\n", arqText(a), orNone(a.InstanceUUID))
		}
	}
	for _, g := range s.guests {
		fmt.Fprintf(&b, "  guest %s on host %s\n", g.UUID, orNone(g.Host))
	}
	return b.String()
}

func orNone(text string) string { return cmp.Or(text, "none") }
