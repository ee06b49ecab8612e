package simcloud

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// snapshot is the state of all services, read once. The leak check, the summary of a
// failed test and the status page use it.
type snapshot struct {
	guests      []guest
	besideNova  bool // the servers of a real Nova are among them
	guest       map[string]*guest
	requests    []request
	handles     []handle
	handle      map[string]*handle
	firstOf     map[hostDevice]*handle // without TEST_PCI
	deployables []fakecyborg.Deployable
	classes     map[string][]string       // Cyborg's resource classes by provider; on a flat host there may be several
	class       map[string]string         // and by deployable; nil until it is needed
	roots       map[string]bool           // providers of hosts
	allocated   []placementsim.Allocation // ordered by consumer
	consumers   []consumer
	providers   func() []placementsim.ResourceProvider
	names       map[string]string // of providers; nil until a text needs one
	mdevs       []hostMdev
	hasMdev     map[[2]string]bool // by host and uuid
	vgpus       []hostVGPU         // ordered by address within a host
	hasVGPU     map[hostVGPU]bool
	leaks       []Leak
}

// guest is a guest with what belongs to it.
type guest struct {
	nova.Guest
	isDescribed bool     // its domain is known
	left        []string // hosts that it was evacuated from, where Nova keeps its allocations
	requests    []*request
	allocations []placementsim.Allocation
}

// request is an accelerator request with what it refers to, nil where that does not exist.
type request struct {
	*fakecyborg.ARQ
	owner  *guest
	handle *handle
}

// handle is an attach handle with the request that it says holds it.
type handle struct {
	*fakecyborg.AttachHandle
	holder *request
	next   *handle // of the same device
}

// consumer is a consumer of Placement with all that it has.
type consumer struct {
	id          string
	allocations []placementsim.Allocation
}

// unit is what an accelerator request uses: one of a resource class of a provider.
type unit struct{ provider, class string }

// hostDevice is a device of a host.
type hostDevice struct {
	host string
	nova.Device
}

type hostMdev struct {
	host string
	driver.Mdev
}

type hostVGPU struct {
	host string
	driver.VGPU
}

func (v hostVGPU) device() hostDevice { return hostDevice{v.host, deviceAt(v.Function)} }

// snapshot reads Nova's part, and then the other services side by side. What cannot be read is a
// leak. The servers of a real Nova are guests, too; nil: there is none.
func (c *Cloud) snapshot(servers []client.Server) *snapshot {
	s := &snapshot{besideNova: servers != nil}
	for _, g := range c.compute.Guests() {
		s.guests = append(s.guests, guest{Guest: g, isDescribed: true})
	}
	s.addServers(servers)
	var arqs []fakecyborg.ARQ
	var handles []fakecyborg.AttachHandle
	var deployables []fakecyborg.Deployable
	var err error
	var reads sync.WaitGroup
	reads.Go(func() { arqs = c.Cyborg.ARQs() })
	reads.Go(func() { handles = c.Cyborg.AttachHandles() })
	reads.Go(func() { deployables = c.Cyborg.Deployables() })
	s.providers, s.allocated, err = c.placementState()
	reads.Wait()
	s.index(arqs, handles, deployables)
	if err != nil {
		s.leak(LeakHost, "placement", "Placement cannot be read: %v", err)
	}
	s.indexAllocations()
	s.roots, s.hasMdev = make(map[string]bool, len(c.machines)), make(map[[2]string]bool)
	s.hasVGPU = make(map[hostVGPU]bool)
	ofNova := c.novaRoots(s.providers)
	for _, m := range c.machines {
		s.roots[cmp.Or(m.provider, ofNova[m.host.Name])] = true
		s.readMdevs(m)
		s.readVGPUs(m)
	}
	return s
}

// index finds what guests, accelerator requests and attach handles have to do with each other.
func (s *snapshot) index(arqs []fakecyborg.ARQ, handles []fakecyborg.AttachHandle, deployables []fakecyborg.Deployable) {
	s.requests, s.handles, s.deployables = make([]request, len(arqs)), make([]handle, len(handles)), deployables
	for i := range arqs {
		s.requests[i].ARQ = &arqs[i]
	}
	for i := range handles {
		s.handles[i].AttachHandle = &handles[i]
	}
	s.guest = byKey(s.guests, func(g *guest) string { return g.UUID })
	s.handle = byKey(s.handles, func(h *handle) string { return h.UUID })
	request := byKey(s.requests, func(r *request) string { return r.UUID })
	for i := range s.requests {
		r := &s.requests[i]
		if r.InstanceUUID != "" {
			r.owner = s.guest[uuids.Canonical(r.InstanceUUID)]
		}
		if r.owner != nil {
			r.owner.requests = append(r.owner.requests, r)
		}
		r.handle = s.handle[r.AttachHandleUUID]
	}
	s.firstOf = make(map[hostDevice]*handle, len(s.handles))
	for i := range slices.Backward(s.handles) {
		h := &s.handles[i]
		h.holder = request[h.ARQ]
		if d, ok := deviceOf(h.Type, h.UUID, h.Info); ok {
			at := hostDevice{h.Hostname, d}
			h.next, s.firstOf[at] = s.firstOf[at], h
		}
	}
	s.classes = make(map[string][]string, len(deployables))
	for _, d := range deployables {
		class := d.ResourceClass()
		if all := s.classes[d.ProviderUUID]; !slices.Contains(all, class) {
			s.classes[d.ProviderUUID] = append(all, class)
		}
	}
}

// byKey makes a map of a list; of two with one key the later counts.
func byKey[T any](list []T, key func(*T) string) map[string]*T {
	all := make(map[string]*T, len(list))
	for i := range list {
		all[key(&list[i])] = &list[i]
	}
	return all
}

// indexAllocations finds the consumers, each of which has its allocations in a row.
func (s *snapshot) indexAllocations() {
	for rest := s.allocated; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(a placementsim.Allocation) bool { return a.Consumer != rest[0].Consumer })
		if n < 0 {
			n = len(rest)
		}
		c := consumer{uuids.Canonical(rest[0].Consumer), rest[:n:n]}
		s.consumers = append(s.consumers, c)
		if g := s.guest[c.id]; g != nil {
			g.allocations = append(c.allocations, g.allocations...)
		}
		rest = rest[n:]
	}
}

// readMdevs leaves out the mediated devices that are older than the cloud.
func (s *snapshot) readMdevs(m *machine) {
	mdevs, err := m.mdevs()
	if err != nil {
		s.leak(LeakHost, m.host.Name, "host %s: its mediated devices cannot be read: %v", m.host.Name, err)
	}
	for _, mdev := range mdevs {
		if !m.older[mdev.UUID] {
			s.mdevs = append(s.mdevs, hostMdev{m.host.Name, mdev})
			s.hasMdev[[2]string{m.host.Name, mdev.UUID}] = true
		}
	}
}

// readVGPUs leaves out the vGPUs that are older than the cloud.
func (s *snapshot) readVGPUs(m *machine) {
	if m.tree == nil {
		return
	}
	types, err := sysfs.VGPUs(m.tree)
	if err != nil {
		s.leak(LeakHost, m.host.Name, "host %s: its vGPUs cannot be read: %v", m.host.Name, err)
	}
	for _, function := range slices.SortedFunc(maps.Keys(types), driver.PCIAddress.Compare) {
		if !m.older[function.String()] {
			v := hostVGPU{m.host.Name, driver.VGPU{Function: function, Type: types[function]}}
			s.vgpus, s.hasVGPU[v] = append(s.vgpus, v), true
		}
	}
}

func (s *snapshot) leak(kind, subject, format string, args ...any) {
	s.leaks = append(s.leaks, Leak{Kind: kind, Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// unit is what an accelerator request uses. One that is not bound may use any class that
// Cyborg has on the provider.
func (s *snapshot) unit(r *request) unit {
	classes := s.classes[r.DeviceRPUUID]
	switch {
	case len(classes) == 0:
		return unit{r.DeviceRPUUID, ""}
	case len(classes) == 1 || r.handle == nil:
		return unit{r.DeviceRPUUID, classes[len(classes)-1]}
	}
	if s.class == nil {
		s.class = make(map[string]string, len(s.deployables))
		for _, d := range s.deployables {
			s.class[d.UUID] = d.ResourceClass()
		}
	}
	return unit{r.DeviceRPUUID, s.class[r.handle.DeployableUUID]}
}

func (g *guest) hasAllocation(provider string) bool {
	return slices.ContainsFunc(g.allocations, func(a placementsim.Allocation) bool { return a.Provider == provider })
}

// deviceOf is the device of an attach handle. A TEST_PCI handle has none, nor has a handle
// without a readable address.
func deviceOf(kind, handle string, info map[string]string) (nova.Device, bool) {
	switch kind {
	case driver.HandleTestPCI:
		return nova.Device{}, false
	case driver.HandleMDEV:
		return nova.Device{Mdev: uuids.Canonical(handle)}, true
	}
	a, err := driver.PCIAddressOf(info)
	return deviceAt(a), err == nil
}

func deviceAt(a driver.PCIAddress) nova.Device {
	return nova.Device{Domain: a.Domain, Bus: a.Bus, Slot: a.Device, Function: a.Function}
}

// asked is the vGPU that a handle of a virtual function stands for.
func (h *handle) asked() (v driver.VGPU, found bool, err error) {
	return driver.AttachHandle{Type: h.Type, Info: h.Info}.VGPU()
}

func (r *request) text() string {
	return fmt.Sprintf("ARQ %s (%s, device profile %s)", r.UUID, r.State, r.DeviceProfileName)
}

func (r *request) handleText() string {
	return fmt.Sprintf("%s handle %s", r.AttachHandleType, deviceText(r.AttachHandleType, r.AttachHandleUUID, r.AttachHandleInfo))
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
	if s.names == nil && s.providers != nil {
		s.names = make(map[string]string)
		for _, p := range s.providers() {
			s.names[p.UUID] = p.Name
		}
	}
	return cmp.Or(s.names[id], id)
}

func (s *snapshot) amountsText(amounts []placementsim.Allocation) string {
	var words []string
	for _, a := range amounts {
		words = append(words, fmt.Sprintf("%s:%d on %s", a.Class, a.Used, s.providerText(a.Provider)))
	}
	return strings.Join(words, ", ")
}

// usage draws what is in use as a tree: providers, their attach handles and accelerator
// requests, and consumers.
func (s *snapshot) usage() string {
	var b strings.Builder
	b.WriteString("in use:\n")
	used := make(map[string][]string) // lines by provider
	for _, c := range s.consumers {
		for _, a := range c.allocations {
			used[a.Provider] = append(used[a.Provider], fmt.Sprintf("%s:%d allocated to %s", a.Class, a.Used, c.id))
		}
	}
	for _, h := range s.handles {
		if h.InUse {
			arq := new(fakecyborg.ARQ)
			if h.holder != nil {
				arq = h.holder.ARQ
			}
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
	for _, r := range s.requests {
		if r.AttachHandleUUID == "" {
			fmt.Fprintf(&b, "  %s without a handle, instance %s\n", r.text(), orNone(r.InstanceUUID))
		}
	}
	for _, g := range s.guests {
		fmt.Fprintf(&b, "  guest %s on host %s\n", g.UUID, orNone(g.Host))
	}
	return b.String()
}

func orNone(text string) string { return cmp.Or(text, "none") }
