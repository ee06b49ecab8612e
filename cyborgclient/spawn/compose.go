package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Compose is step 10: the attach handles become devices of the domain, and
// those of ports their binding profiles. The domain is read back: every ARQ of
// the flavor must have its device in it, or be of type TEST_PCI. A device that
// Nova has, too, is an [*OwnerConflictError].
func (a *Attempt) Compose(ctx context.Context) error {
	return a.step(ctx, StepCompose, func(ctx context.Context) (string, error) {
		if unbound := a.unbound(); len(unbound) > 0 {
			return "", &NotBoundError{ARQs: a.states()}
		}
		if err := a.checkNovaPCI(); err != nil {
			return "", fmt.Errorf("instance %s: %w", a.Request.Instance, err)
		}
		ports, interfaces, err := a.bindPorts()
		if err != nil {
			return "", err
		}
		devices, skipped, err := a.hostdevs()
		if err != nil {
			return "", fmt.Errorf("instance %s: %w", a.Request.Instance, err)
		}
		if err := a.createMdevs(ctx); err != nil {
			return "", err
		}
		domain, err := domainxml.Merge(a.baseDomain(), slices.Concat(devices, interfaces))
		if err != nil {
			return "", fmt.Errorf("instance %s: %w", a.Request.Instance, a.domainConflict(err))
		}
		if err := a.verify(domain, devices, len(devices)+len(skipped)+len(ports)); err != nil {
			return "", err
		}
		a.Devices, a.Skipped, a.Ports, a.Domain = devices, skipped, ports, domain
		if a.Request.Hooks.Start == nil {
			a.end()
		}
		return composed(len(devices), len(skipped), len(ports)), nil
	})
}

func composed(devices, skipped, ports int) string {
	text := count(devices, "hostdev") + ", " + count(skipped, "handle") + " without hardware"
	if ports > 0 {
		text += ", " + count(ports, "port")
	}
	return text
}

// hostdevs makes the devices of the flavor's ARQs.
func (a *Attempt) hostdevs() ([]domainxml.Device, []domainxml.Skipped, error) {
	var handles []domainxml.Handle
	for _, arq := range a.ARQs {
		if _, port := a.PortOf[arq.UUID]; !port {
			handles = append(handles, handleOf(arq))
		}
	}
	return domainxml.Hostdevs(handles)
}

func (a *Attempt) baseDomain() []byte {
	if len(a.Request.Domain) > 0 {
		return a.Request.Domain
	}
	return domainxml.NewDomain(domainxml.DomainOpts{
		Name: "instance-" + a.Request.Instance[:8], UUID: a.Request.Instance,
		MemoryMiB: a.Request.Flavor.MemoryMB, VCPUs: a.Request.Flavor.VCPUs,
	})
}

// verify holds the flow to its promise, from the document itself.
func (a *Attempt) verify(domain []byte, devices []domainxml.Device, composed int) error {
	if composed != len(a.ARQs) {
		return fmt.Errorf("%w: instance %s: %d ARQs but %d devices, ports and handles without hardware",
			ErrNotBound, a.Request.Instance, len(a.ARQs), composed)
	}
	for _, device := range devices {
		present, err := domainxml.Has(domain, device)
		if err != nil {
			return fmt.Errorf("instance %s: ARQ %s: %w", a.Request.Instance, device.ARQ, err)
		}
		if !present {
			return fmt.Errorf("%w: instance %s: the device of ARQ %s is not in the domain", ErrNotBound, a.Request.Instance, device.ARQ)
		}
	}
	return nil
}

// checkNovaPCI returns an [*OwnerConflictError] for a device that Nova offers by
// its PCI configuration.
func (a *Attempt) checkNovaPCI() error {
	for _, arq := range a.ARQs {
		address, ok := handleAddress(arq)
		if !ok {
			continue // TEST_PCI, or domainxml reports what is wrong with it
		}
		for _, spec := range a.flow.novaPCI {
			if spec.Matches(address) {
				return &OwnerConflictError{
					Address: address.String(),
					Owners:  [2]string{"Nova ([pci]device_spec " + spec.String() + " of host " + a.Host + ")", "ARQ " + arq.UUID},
				}
			}
		}
	}
	return nil
}

// handleAddress is the PCI address of a device, or of the parent of a mediated one.
func handleAddress(arq cyborgclient.ARQ) (domainxml.PCIAddress, bool) {
	if arq.AttachHandleType == cyborgclient.HandleTestPCI {
		return domainxml.PCIAddress{}, false
	}
	handle := handleOf(arq)
	handle.Type = domainxml.HandlePCI
	devices, _, err := domainxml.Hostdevs([]domainxml.Handle{handle})
	if err != nil {
		return domainxml.PCIAddress{}, false
	}
	return *devices[0].PCI, true
}

// domainConflict turns a device that the domain has already into a conflict of
// owners: what is in the domain is Nova's.
func (a *Attempt) domainConflict(err error) error {
	var duplicate *domainxml.DuplicateError
	if !errors.As(err, &duplicate) {
		return err
	}
	_, address, _ := strings.Cut(duplicate.Device, " ") // "pci 0000:3b:00.0"
	return &OwnerConflictError{
		Address: address, Err: err,
		Owners: [2]string{duplicate.Holder + " (instance " + a.Request.Instance + ")", "ARQ " + duplicate.ARQ},
	}
}

// Port is a network port of the instance. An accelerated one gets its device
// from Cyborg, with an accelerator request of its own; the device is not a host
// device of the guest but belongs to the port's interface.
type Port struct {
	requestspec.Port
	// MAC and VLAN are those of the interface that is merged into the domain.
	// Without a MAC the interface is the caller's to make.
	MAC  string `json:"mac,omitempty"`
	VLAN int    `json:"vlan,omitempty"`
	// BindingProfile is what the port's binding:profile holds before.
	BindingProfile map[string]any `json:"binding_profile,omitempty"`
}

// BoundPort is a port with its device.
type BoundPort struct {
	Port string `json:"port"`
	ARQ  string `json:"arq"`
	// BindingProfile is what the port's binding:profile is to hold: what it held
	// before, with arq_uuid, pci_slot and physical_network. When the port is
	// unbound, domainxml.CleanBindingProfile takes them out.
	BindingProfile map[string]any `json:"binding_profile"`
}

func checkPorts(ports []Port) error {
	seen := make(map[string]bool, len(ports))
	for _, port := range ports {
		if err := checkUUID("port", port.UUID); err != nil {
			return err
		}
		if port.Accelerated() && port.DeviceProfile == "" {
			return fmt.Errorf("%w: no device profile for port %s", ErrRequest, port.UUID)
		}
		if seen[port.UUID] {
			return fmt.Errorf("%w: port %s is given twice", ErrRequest, port.UUID)
		}
		seen[port.UUID] = true
	}
	return nil
}

// source is one device profile of the instance, the flavor's or a port's. Each
// is one POST of accelerator requests.
type source struct {
	profile requestspec.DeviceProfile
	port    Port // zero: the flavor's
}

func (s source) ofPort() bool { return s.port.UUID != "" }

// requesterID is the requester id of a group: of a port's profile it ends with
// the port's UUID, without a separator.
func (s source) requesterID(group int) string {
	return requestspec.PortRequesterID(group, s.port.UUID)
}

// mappings are those of this profile, under the requester ids of a flavor's.
func (s source) mappings(all matching.Mappings) matching.Mappings {
	if !s.ofPort() {
		return all
	}
	own := make(matching.Mappings, len(s.profile.Groups))
	for i := range s.profile.Groups {
		if providers, ok := all[s.requesterID(i)]; ok {
			own[requestspec.RequesterID(i)] = providers
		}
	}
	return own
}

// sources lists the profiles in Nova's order of POSTs: the flavor's, then those
// of the ports.
func (a *Attempt) sources() []source {
	list := make([]source, 0, len(a.PortProfiles)+1)
	if a.Profile != nil {
		list = append(list, source{profile: *a.Profile})
	}
	for _, port := range a.Request.Ports {
		if profile, ok := a.PortProfiles[port.UUID]; ok {
			list = append(list, source{profile: profile, port: port})
		}
	}
	return list
}

// accelerated reports whether the instance is to have accelerator requests.
func (a *Attempt) accelerated() bool {
	return a.Profile != nil || len(a.PortProfiles) > 0
}

// deviceGroups are the request groups of all profiles.
func (a *Attempt) deviceGroups() []requestspec.Group {
	groups := a.Spec.DeviceGroups()
	for _, s := range a.sources() {
		if !s.ofPort() {
			continue
		}
		for i := range s.profile.Groups {
			for _, group := range a.Spec.Groups {
				if group.RequesterID == s.requesterID(i) {
					groups = append(groups, group)
				}
			}
		}
	}
	return groups
}

// bindPorts makes the binding profiles of the ports from the handles of their
// requests, and the interfaces of those whose MAC is known.
func (a *Attempt) bindPorts() (bound []BoundPort, interfaces []domainxml.Device, err error) {
	var known []domainxml.Port
	for _, arq := range a.ARQs {
		port, ok := a.portOf(arq.UUID)
		if !ok {
			continue
		}
		handle := handleOf(arq)
		profile, err := domainxml.BindingProfile(port.BindingProfile, handle)
		if err != nil {
			return nil, nil, fmt.Errorf("instance %s: port %s: %w", a.Request.Instance, port.UUID, err)
		}
		bound = append(bound, BoundPort{Port: port.UUID, ARQ: arq.UUID, BindingProfile: profile})
		if port.MAC != "" {
			known = append(known, domainxml.Port{Handle: handle, MAC: port.MAC, VLAN: port.VLAN})
		}
	}
	interfaces, _, err = domainxml.Interfaces(known)
	if err != nil {
		return nil, nil, fmt.Errorf("instance %s: %w", a.Request.Instance, err)
	}
	return bound, interfaces, nil
}

func (a *Attempt) portOf(arq string) (Port, bool) {
	id, ok := a.PortOf[arq]
	if !ok {
		return Port{}, false
	}
	i := slices.IndexFunc(a.Request.Ports, func(p Port) bool { return p.UUID == id })
	if i < 0 {
		return Port{}, false
	}
	return a.Request.Ports[i], true
}

func handleOf(arq cyborgclient.ARQ) domainxml.Handle {
	return domainxml.Handle{
		ARQ: arq.UUID, Type: string(arq.AttachHandleType), UUID: arq.AttachHandleUUID, Info: arq.AttachHandleInfo,
	}
}
