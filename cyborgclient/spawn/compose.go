package spawn

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/domainxml"
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
		if err := a.ownedByNova(); err != nil {
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
