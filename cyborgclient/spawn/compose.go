package spawn

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/domainxml"
)

// Compose is step 10: the attach handles become devices of the domain. The
// domain is read back: every ARQ must have its device in it, or be of type
// TEST_PCI.
func (a *Attempt) Compose(ctx context.Context) error {
	return a.step(ctx, StepCompose, func(context.Context, *StepTrace) (string, error) {
		if unbound := a.unbound(); len(unbound) > 0 {
			return "", &NotBoundError{ARQs: a.states()}
		}
		handles := make([]domainxml.Handle, len(a.ARQs))
		for i, arq := range a.ARQs {
			handles[i] = domainxml.Handle{
				ARQ: arq.UUID, Type: string(arq.AttachHandleType), UUID: arq.AttachHandleUUID, Info: arq.AttachHandleInfo,
			}
		}
		devices, skipped, err := domainxml.Hostdevs(handles)
		if err != nil {
			return "", fmt.Errorf("instance %s: %w", a.Request.Instance, err)
		}
		domain, err := domainxml.Merge(a.baseDomain(), devices)
		if err != nil {
			return "", fmt.Errorf("instance %s: %w", a.Request.Instance, err)
		}
		if err := a.verify(domain, devices, skipped); err != nil {
			return "", err
		}
		a.Devices, a.Skipped, a.Domain = devices, skipped, domain
		a.end()
		return count(len(devices), "hostdev") + ", " + count(len(skipped), "handle") + " without hardware", nil
	})
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
func (a *Attempt) verify(domain []byte, devices []domainxml.Device, skipped []domainxml.Skipped) error {
	if len(devices)+len(skipped) != len(a.ARQs) {
		return fmt.Errorf("%w: instance %s: %d ARQs but %d devices and %d handles without hardware",
			ErrNotBound, a.Request.Instance, len(a.ARQs), len(devices), len(skipped))
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
