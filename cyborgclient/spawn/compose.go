package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/domainxml"
)

// Compose is step 10: it adds the devices of the attach handles to the domain, and creates the binding profiles of
// ports. It reads the domain back: every ARQ of the flavor must have its device there, or be of type TEST_PCI. A
// device that Nova also uses is an [*OwnerConflictError].
func (a *Attempt) Compose(ctx context.Context) error {
	return a.record.step(ctx, StepCompose, func(ctx context.Context) (string, error) {
		if err := a.checkBound(); err != nil {
			return "", err
		}
		if err := a.compose(ctx); err != nil {
			return "", err
		}
		if !a.startsGuest() {
			if err := a.end(ctx); err != nil {
				return "", err
			}
		}
		decision := count(len(a.Devices), "hostdev") + ", " + count(len(a.Skipped), "handle") + " without hardware"
		if len(a.Ports) > 0 {
			decision += ", " + count(len(a.Ports), "port")
		}
		return decision, nil
	})
}

func (a *Attempt) compose(ctx context.Context) error {
	if err := a.checkNovaPCI(); err != nil {
		return err
	}
	ports := a.portARQs()
	bound, err := a.bindPorts(ports)
	if err != nil {
		return err
	}
	accel, err := acceleratorsOf(a.ARQs, ports)
	if err != nil {
		return err
	}
	if composed := len(accel.hostdevs) + len(accel.skipped) + len(bound); composed != len(a.ARQs) {
		return fmt.Errorf("%w: %d ARQs but %d devices, ports and handles without hardware", ErrNotBound, len(a.ARQs), composed)
	}
	if err := a.flow.createMdevs(ctx, a.journal, a.instance(), accel.mdevs); err != nil {
		return err
	}
	domain, err := domainxml.Merge(a.baseDomain(), accel.devices())
	if err != nil {
		return a.domainConflict(err)
	}
	if err := accel.verify(domain); err != nil {
		return err
	}
	a.Devices, a.Skipped, a.Ports, a.Domain = accel.hostdevs, accel.skipped, bound, domain
	return nil
}

func (a *Attempt) baseDomain() []byte {
	if len(a.Request.Domain) > 0 {
		return a.Request.Domain
	}
	return domainxml.NewDomain(domainxml.DomainOpts{
		Name: "instance-" + a.Request.Instance, UUID: a.Request.Instance,
		MemoryMiB: a.Request.Flavor.MemoryMB, VCPUs: a.Request.Flavor.VCPUs,
	})
}

// accelerators are the devices of the ARQs of an instance.
type accelerators struct {
	hostdevs   []domainxml.Hostdev // of the flavor
	interfaces []domainxml.Hostdev // of ports whose MAC is known
	skipped    []domainxml.Handle
	mdevs      []cyborgclient.ARQ // ARQs of the mediated devices in hostdevs
}

// acceleratorsOf composes the devices of Bound ARQs: ARQs of ports become interfaces, the others host devices. When
// Nova starts a guest again it makes host devices of the ARQs of ports, too, and libvirt rejects the domain.
func acceleratorsOf(arqs []cyborgclient.ARQ, ports map[string]Port) (accelerators, error) {
	var handles []domainxml.Handle
	var known []domainxml.PortHandle
	var mdevs []cyborgclient.ARQ
	for _, arq := range arqs {
		port, ofPort := ports[arq.UUID]
		switch {
		case !ofPort:
			handles = append(handles, HandleOf(arq))
			if arq.AttachHandleType == cyborgclient.HandleMDEV {
				mdevs = append(mdevs, arq)
			}
		case port.MAC != "":
			known = append(known, domainxml.PortHandle{Handle: HandleOf(arq), MAC: port.MAC, VLAN: port.VLAN})
		}
	}
	hostdevs, skipped, err := domainxml.Hostdevs(handles)
	if err != nil {
		return accelerators{}, err
	}
	interfaces, _, err := domainxml.Interfaces(known)
	return accelerators{hostdevs: hostdevs, interfaces: interfaces, skipped: skipped, mdevs: mdevs}, err
}

// devices returns the devices of the domain.
func (a accelerators) devices() []domainxml.Hostdev { return slices.Concat(a.hostdevs, a.interfaces) }

// complete adds missing devices to a domain, removes stale ones, and sets the aliases of the others. If Cyborg was
// not asked, because the caller does not know of accelerators of the instance, the domain is not changed.
func (a accelerators) complete(domain []byte) ([]byte, error) {
	if len(a.devices())+len(a.skipped) == 0 {
		return domain, nil
	}
	full, err := domainxml.Complete(domain, a.devices())
	if err != nil {
		return nil, err
	}
	return full, a.verify(full)
}

// in reports whether a domain has every device, and no stale one. Aliases are ignored.
func (a accelerators) in(domain []byte) bool {
	if len(a.devices())+len(a.skipped) == 0 {
		return true
	}
	diff, err := domainxml.Diff(domain, a.devices())
	return err == nil && len(diff.Missing)+len(diff.Stale) == 0
}

// verify reads a domain and checks that it has every device.
func (a accelerators) verify(domain []byte) error {
	diff, err := domainxml.Diff(domain, a.devices())
	if err != nil {
		return err
	}
	if len(diff.Missing) > 0 {
		return fmt.Errorf("%w: the device of ARQ %s is not in the domain", ErrNotBound, diff.Missing[0].ARQ)
	}
	return nil
}

// portARQs returns the accelerated ports by their ARQ.
func (a *Attempt) portARQs() map[string]Port {
	ports := make(map[string]Port, len(a.PortOf))
	for arq, id := range a.PortOf {
		for _, port := range a.Request.Ports {
			if port.UUID == id {
				ports[arq] = port
			}
		}
	}
	return ports
}

// bindPorts returns the ports with the binding profiles made from the handles of their ARQs.
func (a *Attempt) bindPorts(ports map[string]Port) ([]Port, error) {
	var bound []Port
	for _, arq := range a.ARQs {
		port, ok := ports[arq.UUID]
		if !ok {
			continue
		}
		profile, err := domainxml.BindingProfile(port.BindingProfile, HandleOf(arq))
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", port.UUID, err)
		}
		port.BindingProfile = profile
		bound = append(bound, port)
	}
	return bound, nil
}

// checkNovaPCI returns an [*OwnerConflictError] for a device that Nova offers by
// its PCI configuration or has a provider for.
func (a *Attempt) checkNovaPCI() error {
	for _, arq := range a.ARQs {
		address, ok := handleAddress(arq)
		if !ok {
			continue // TEST_PCI, or domainxml reports what is wrong with it
		}
		owner := ""
		if name, both := a.tree.nova[address.String()]; both {
			owner = "resource provider " + name
		} else if n := slices.IndexFunc(a.flow.novaPCI, func(spec novaSpec) bool { return spec.matches(address) }); n >= 0 {
			owner = "[pci]device_spec " + a.flow.novaPCI[n].text + " of host " + a.Host
		}
		if owner != "" {
			return &OwnerConflictError{Address: address.String(), Owners: [2]string{"Nova (" + owner + ")", "ARQ " + arq.UUID}}
		}
	}
	return nil
}

// handleAddress returns the PCI address of a device, or of the parent of a mediated device.
func handleAddress(arq cyborgclient.ARQ) (domainxml.PCIAddress, bool) {
	if arq.AttachHandleType == cyborgclient.HandleTestPCI {
		return domainxml.PCIAddress{}, false
	}
	handle := HandleOf(arq)
	handle.Type = domainxml.HandlePCI
	devices, _, err := domainxml.Hostdevs([]domainxml.Handle{handle})
	if err != nil {
		return domainxml.PCIAddress{}, false
	}
	return *devices[0].PCI, true
}

// domainConflict converts the error for a device that is already in the domain, and so belongs to Nova, to an
// [*OwnerConflictError].
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
