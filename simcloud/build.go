package simcloud

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// build creates the world of the model through the services' APIs.
func (c *Cloud) build(ctx context.Context) error {
	admin := &client.Client{Peer: simhttp.Peer{Endpoint: c.peer("", "admin"), Agent: "simcloud"}, Placement: "/placement"}
	var reported error
	for host := range c.agents() {
		if host.err != nil {
			return host.err
		}
		if err := c.addComputeRoot(ctx, admin, host.machine); err != nil {
			return fmt.Errorf("simcloud: create the providers of host %s: %w", host.agent.Name, err)
		}
		if err := c.Cyborg.AddHost(host.agent); err != nil {
			return fmt.Errorf("simcloud: add host %s: %w", host.agent.Name, err)
		}
		if c.agentLoop { // reports begin with AddHost, and identifiers follow their order
			reported = errors.Join(reported, c.Cyborg.ReportHost(ctx, host.agent.Name))
		}
	}
	if !c.agentLoop {
		reported = c.Cyborg.Report(ctx)
	}
	for i, err := range c.reportErrors(reported) {
		return fmt.Errorf("%w: hosts[%d]: %w", ErrModel, i, err)
	}
	for i, image := range c.model.Images {
		if _, err := c.AddImage(image); err != nil {
			return fmt.Errorf("%w: images[%d]: %w", ErrModel, i, err)
		}
	}
	for i, p := range c.model.DeviceProfiles {
		if err := admin.CreateProfile(ctx, p.Name, p.Description, p.Groups); err != nil {
			return fmt.Errorf("%w: device_profiles[%d]: %w", ErrModel, i, err)
		}
	}
	return nil
}

// reportErrors iterates over the errors of reports by host, in the model's order.
func (c *Cloud) reportErrors(reported error) iter.Seq2[int, error] {
	byHost := make(map[string][]error)
	for _, err := range reportErrors(reported) {
		byHost[err.Host] = append(byHost[err.Host], err)
	}
	return func(yield func(int, error) bool) {
		for i, m := range c.machines {
			errs := byHost[m.host.Name]
			if m.host.Fallback != "" {
				errs = append(errs, byHost[m.host.Fallback]...)
			}
			errs = slices.DeleteFunc(errs, m.ignores)
			if len(errs) > 0 && !yield(i, errors.Join(errs...)) {
				return
			}
		}
	}
}

// reportErrors are the errors that a report joins.
func reportErrors(err error) (list []*driver.ReportError) {
	switch err := err.(type) { //nolint:errorlint // the outermost errors are meant
	case *driver.ReportError:
		return []*driver.ReportError{err}
	case interface{ Unwrap() []error }:
		for _, each := range err.Unwrap() {
			list = append(list, reportErrors(each)...)
		}
	}
	return list
}

// ignores reports whether an error of a report does not matter: it is about a device of a directory
// that the drivers cannot read, because the other devices of a real machine are still of
// use, about a device that Nova offers, too, or that the Zed release cannot report, or about a host that nova-compute has not made.
func (m *machine) ignores(err error) bool {
	unreadable := m.dir != nil && errors.As(err, new(driver.Problem))
	return unreadable || errors.Is(err, fakecyborg.ErrOwnerConflict) || errors.Is(err, fakecyborg.ErrStandardTrait) || m.host.Root == RootNova && errors.Is(err, fakecyborg.ErrNotReported)
}

// addComputeRoot creates the root provider of a host and Nova's below it, unless nova-compute does.
func (c *Cloud) addComputeRoot(ctx context.Context, to *client.Client, m *machine) error {
	h := m.host
	if h.Root == RootNova {
		return nil
	}
	root := Provider{Name: h.Name, Traits: h.Traits, Inventory: map[string]int{
		"VCPU": h.VCPUs, "MEMORY_MB": h.MemoryMB, "DISK_GB": h.DiskGB,
	}}
	if err := to.CreateProvider(ctx, m.provider, root.Name, ""); err != nil {
		return err
	}
	m.created = true
	if err := to.Fill(ctx, m.provider, root.Inventory, root.Traits); err != nil {
		return err
	}
	for _, p := range slices.Concat(h.Providers, h.Nova.providers(h.Name, c.model.novaTraits())) {
		id := providerUUID(c.model.Seed, p.Name)
		if err := to.CreateProvider(ctx, id, p.Name, m.provider); err != nil {
			return err
		}
		if err := to.Fill(ctx, id, p.Inventory, p.Traits); err != nil {
			return err
		}
	}
	return nil
}
