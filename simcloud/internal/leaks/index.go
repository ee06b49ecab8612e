package leaks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// indexed is a state with what its parts have to do with each other.
type indexed struct {
	State
	guests    []guest
	guest     map[string]*guest
	requests  []request
	handles   []handle
	handle    map[string]*handle
	firstOf   map[hostDevice]*handle // without TEST_PCI
	classes   map[string][]string    // Cyborg's resource classes by provider; on a flat host there may be several
	class     map[string]string      // and by deployable; nil until it is needed
	doubled   map[string]bool        // providers of cards of Xilinx; nil until it is needed
	hostOf    map[string]string      // hosts of providers that may have device memory; nil until it is needed
	consumers []consumer
	names     map[string]string // of providers; nil until a text needs one
	parents   map[string]string // of providers; nil until they are needed
	sharing   map[string]bool   // providers, with parents
	// hasDevices are the hosts with devices of Cyborg's.
	hasDevices map[string]bool
	mdev       map[[2]string]driver.Mdev // by host and uuid
	vgpu       map[hostFunction]int      // the types of virtual functions
	leaks      []Leak
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
	*fakecyborg.StoredAttachHandle
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

// index finds what the parts of a state have to do with each other.
func index(state State) *indexed {
	s := &indexed{State: state, leaks: slices.Clone(state.Unread)}
	for _, g := range s.Guests {
		s.guests = append(s.guests, guest{Guest: g, isDescribed: true})
	}
	s.addServers()
	s.indexRequests()
	s.classes, s.hasDevices = make(map[string][]string, len(s.Deployables)), make(map[string]bool)
	for _, d := range s.Deployables {
		s.hasDevices[d.Hostname] = true
		class := d.ResourceClass()
		if all := s.classes[d.ProviderUUID]; !slices.Contains(all, class) {
			s.classes[d.ProviderUUID] = append(all, class)
		}
	}
	s.indexAllocations()
	s.mdev, s.vgpu = make(map[[2]string]driver.Mdev, len(s.Mdevs)), make(map[hostFunction]int, len(s.VGPUs))
	for _, m := range s.Mdevs {
		s.mdev[[2]string{m.Host, m.UUID}] = m.Mdev
	}
	for _, v := range s.VGPUs {
		s.vgpu[hostFunction{v.Host, v.Function}] = v.Type
	}
	return s
}

// hostFunction is a virtual function of a host.
type hostFunction struct {
	host     string
	function driver.PCIAddress
}

// indexRequests finds what guests, accelerator requests and attach handles have to do with each other.
func (s *indexed) indexRequests() {
	s.requests, s.handles = make([]request, len(s.ARQs)), make([]handle, len(s.Handles))
	for i := range s.ARQs {
		s.requests[i].ARQ = &s.ARQs[i]
	}
	for i := range s.Handles {
		s.handles[i].StoredAttachHandle = &s.Handles[i]
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
}

// byKey makes a map of a list; of two with one key the later counts.
func byKey[T any](list []T, key func(*T) string) map[string]*T {
	all := make(map[string]*T, len(list))
	for i := range list {
		all[key(&list[i])] = &list[i]
	}
	return all
}

// indexAllocations finds the consumers. The allocations of a consumer are consecutive.
func (s *indexed) indexAllocations() {
	for rest := s.Allocations; len(rest) > 0; {
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

func (s *indexed) leak(kind, subject, format string, args ...any) {
	s.leakOf(nil, kind, subject, format, args...)
}

// leakOf adds a leak that is about an accelerator request, unless r is nil.
func (s *indexed) leakOf(r *request, kind, subject, format string, args ...any) {
	l := Leak{Kind: kind, Subject: subject, Text: fmt.Sprintf(format, args...)}
	if r != nil {
		l.ARQ = r.UUID
	}
	s.leaks = append(s.leaks, l)
}

// request is the accelerator request that holds a handle; it may be nil.
func (h *handle) request() *request {
	if h == nil {
		return nil
	}
	return h.holder
}

// unit is what an accelerator request uses. One that is not bound may use any class that
// Cyborg has on the provider.
func (s *indexed) unit(r *request) unit {
	classes := s.classes[r.DeviceRPUUID]
	switch {
	case len(classes) == 0:
		return unit{r.DeviceRPUUID, ""}
	case len(classes) == 1 || r.handle == nil:
		return unit{r.DeviceRPUUID, classes[len(classes)-1]}
	}
	if s.class == nil {
		s.class = make(map[string]string, len(s.Deployables))
		for _, d := range s.Deployables {
			s.class[d.UUID] = d.ResourceClass()
		}
	}
	return unit{r.DeviceRPUUID, s.class[r.handle.DeployableUUID]}
}

func (g *guest) hasAllocation(provider string) bool {
	return slices.ContainsFunc(g.allocations, func(a placementsim.Allocation) bool { return a.Provider == provider })
}

// allocated is how much the guest has allocated of a resource class of a provider.
func (g *guest) allocated(u unit) (used int) {
	for _, a := range g.allocations {
		if a.Provider == u.provider && a.Class == u.class {
			used += a.Used
		}
	}
	return used
}

// xilinxTrait is the trait of cards for which Cyborg makes two requests per unit, one for each function.
const xilinxTrait = "CUSTOM_FPGA_XILINX"

// requestsPerUnit is how many requests a guest may have for a unit that it has allocated.
func (s *indexed) requestsPerUnit(u unit) int {
	if s.doubled == nil {
		s.doubled = make(map[string]bool)
		for _, d := range s.Deployables {
			if slices.Contains(d.Traits(), xilinxTrait) {
				s.doubled[d.ProviderUUID] = true
			}
		}
	}
	if s.doubled[u.provider] {
		return 2
	}
	return 1
}

// isMemory reports whether a resource class is one of device memory, for which Cyborg makes no request.
func isMemory(class string) bool { return strings.HasPrefix(class, "CUSTOM_ACCELERATOR_MEMORY_") }

// memoryHost is the host of a provider that may have device memory: of a deployable, or of the card that has
// several. It is empty for any other provider.
func (s *indexed) memoryHost(provider string) string {
	if s.hostOf == nil {
		ofDeployable := make(map[string]string, len(s.Deployables))
		for _, d := range s.Deployables {
			ofDeployable[d.ProviderUUID] = d.Hostname
		}
		s.hostOf = maps.Clone(ofDeployable)
		for _, p := range s.providers() {
			if host := ofDeployable[p.UUID]; host != "" && s.Roots[p.Parent] == nil {
				s.hostOf[p.Parent] = host
			}
		}
	}
	return s.hostOf[provider]
}

// deviceOf returns the device of an attach handle. A TEST_PCI handle and a handle without a
// readable address have no device.
func deviceOf(kind, handle string, info map[string]string) (nova.Device, bool) {
	switch kind {
	case driver.HandleTestPCI:
		return nova.Device{}, false
	case driver.HandleMDEV:
		return nova.Device{Mdev: uuids.Canonical(handle)}, true
	}
	a, err := driver.PCIAddressOf(info)
	return DeviceAt(a), err == nil
}

// DeviceAt is the function at an address, as a domain names it.
func DeviceAt(a driver.PCIAddress) nova.Device {
	return nova.Device{Domain: a.Domain, Bus: a.Bus, Slot: a.Device, Function: a.Function}
}

// asked returns the vGPU of a handle of a virtual function.
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
func (s *indexed) providerText(id string) string {
	if s.names == nil {
		s.names = make(map[string]string)
		for _, p := range s.providers() {
			s.names[p.UUID] = p.Name
		}
	}
	return cmp.Or(s.names[id], id)
}

// providers returns the providers of Placement, or nil if they are not known.
func (s *indexed) providers() []placementsim.ResourceProvider {
	if s.Providers == nil {
		return nil
	}
	return s.Providers()
}

// hostNames are the names of the host in whose tree a provider is, nil for that of no host, and for one that gives others a share.
func (s *indexed) hostNames(provider string) []string {
	if s.parents == nil {
		s.parents, s.sharing = make(map[string]string), make(map[string]bool)
		for _, p := range s.providers() {
			s.parents[p.UUID] = p.Parent
			s.sharing[p.UUID] = slices.Contains(p.Traits, "MISC_SHARES_VIA_AGGREGATE")
		}
	}
	if s.sharing[provider] {
		return nil
	}
	for provider != "" && s.Roots[provider] == nil {
		provider = s.parents[provider]
	}
	return s.Roots[provider]
}

func (s *indexed) amountsText(amounts []placementsim.Allocation) string {
	var words []string
	for _, a := range amounts {
		words = append(words, fmt.Sprintf("%s:%d on %s", a.Class, a.Used, s.providerText(a.Provider)))
	}
	return strings.Join(words, ", ")
}

// addServers adds the servers of a Nova to the guests. The domain is known if the server is also
// a registered guest.
func (s *indexed) addServers() {
	registered := byKey(s.guests, func(g *guest) string { return g.UUID })
	var list []guest
	for _, server := range s.Servers {
		g := guest{Guest: nova.Guest{Guest: sim.Guest{UUID: uuids.Canonical(server.ID), Host: server.Host}}, left: server.Left}
		if known := registered[g.UUID]; known == nil {
			list = append(list, g)
		} else {
			known.Host, known.left = cmp.Or(g.Host, known.Host), g.left
		}
	}
	s.guests = append(s.guests, list...)
}

// noGuest says what an instance is that is no guest.
func (s *indexed) noGuest() string {
	if s.Servers != nil {
		return "neither a server of Nova's nor a registered guest"
	}
	return "not a registered guest"
}
