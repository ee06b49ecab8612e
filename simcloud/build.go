package simcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// build creates the world of the model through the services' APIs.
func (c *Cloud) build(ctx context.Context) error {
	admin := &api{simhttp.Peer{Endpoint: c.peer("", "admin"), Agent: "simcloud"}}
	var reported error
	for host := range c.agents() {
		if host.err != nil {
			return host.err
		}
		if err := admin.addComputeRoot(ctx, c.model.Seed, host.machine); err != nil {
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
		if err := admin.createProfile(ctx, p); err != nil {
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
// use, or about a device that the Zed release cannot report.
func (m *machine) ignores(err error) bool {
	unreadable := m.dir != nil && errors.As(err, new(driver.Problem))
	return unreadable || errors.Is(err, fakecyborg.ErrStandardTrait)
}

// api is a client of the cloud's services.
type api struct{ simhttp.Peer }

// The microversions of the requests.
const (
	placementVersion   = "placement 1.39"
	acceleratorVersion = "accelerator 2.2"
)

func (a *api) addComputeRoot(ctx context.Context, seed uint64, m *machine) error {
	h := m.host
	root := Provider{Name: h.Name, Traits: h.Traits, Inventory: map[string]int{
		"VCPU": h.VCPUs, "MEMORY_MB": h.MemoryMB, "DISK_GB": h.DiskGB,
	}}
	if err := a.createProvider(ctx, m.provider, "", root); err != nil {
		return err
	}
	m.created = true
	if err := a.fillProvider(ctx, m.provider, root); err != nil {
		return err
	}
	for _, p := range slices.Concat(h.Providers, h.Nova.providers(h.Name)) {
		if err := a.addProvider(ctx, providerUUID(seed, p.Name), m.provider, p); err != nil {
			return err
		}
	}
	return nil
}

func (a *api) addProvider(ctx context.Context, id, parent string, p Provider) error {
	if err := a.createProvider(ctx, id, parent, p); err != nil {
		return err
	}
	return a.fillProvider(ctx, id, p)
}

func (a *api) createProvider(ctx context.Context, id, parent string, p Provider) error {
	body := map[string]any{"uuid": id, "name": p.Name}
	if parent != "" {
		body["parent_provider_uuid"] = parent
	}
	return a.placement(ctx, http.MethodPost, "/resource_providers", body)
}

// fillProvider sets the inventories and traits of a new provider.
func (a *api) fillProvider(ctx context.Context, id string, p Provider) error {
	inventories := make(map[string]any)
	for _, class := range slices.Sorted(maps.Keys(p.Inventory)) {
		if strings.HasPrefix(class, "CUSTOM_") {
			if err := a.placement(ctx, http.MethodPut, "/resource_classes/"+class, nil); err != nil {
				return err
			}
		}
		total := p.Inventory[class]
		inventories[class] = map[string]any{
			"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": 1.0,
		}
	}
	generation := 0
	if len(inventories) > 0 {
		err := a.placement(ctx, http.MethodPut, "/resource_providers/"+id+"/inventories",
			map[string]any{"resource_provider_generation": generation, "inventories": inventories})
		if err != nil {
			return err
		}
		generation++
	}
	return a.setTraits(ctx, id, generation, p.Traits)
}

func (a *api) setTraits(ctx context.Context, id string, generation int, traits []string) error {
	if len(traits) == 0 {
		return nil
	}
	for _, trait := range traits {
		if strings.HasPrefix(trait, "CUSTOM_") {
			if err := a.placement(ctx, http.MethodPut, "/traits/"+trait, nil); err != nil {
				return err
			}
		}
	}
	return a.placement(ctx, http.MethodPut, "/resource_providers/"+id+"/traits",
		map[string]any{"resource_provider_generation": generation, "traits": traits})
}

// createProfile creates a device profile; Cyborg expects a list of one.
func (a *api) createProfile(ctx context.Context, p DeviceProfile) error {
	body := map[string]any{"name": p.Name, "groups": p.Groups}
	if p.Description != "" {
		body["description"] = p.Description
	}
	return a.call(ctx, http.MethodPost, "/accelerator/v2/device_profiles", acceleratorVersion, []any{body})
}

func (a *api) placement(ctx context.Context, method, path string, body any) error {
	return a.call(ctx, method, "/placement"+path, placementVersion, body)
}

// call sends a request that has to succeed; the error has the service's answer.
func (a *api) call(ctx context.Context, method, path, version string, body any) error {
	_, err := a.exchange(ctx, method, path, version, body)
	return err
}

// exchange sends a request that has to succeed and returns the answer.
func (a *api) exchange(ctx context.Context, method, path, version string, body any) (simhttp.Answer, error) {
	answer, err := a.Do(ctx, simhttp.PeerCall{Method: method, Path: path, Header: map[string]string{simhttp.VersionHeader: version}, Body: body})
	if err == nil && !answer.OK() {
		err = fmt.Errorf("%s %s: %d %s: %s", method, path, answer.Status, http.StatusText(answer.Status), bytes.TrimSpace(answer.Body))
	}
	return answer, err
}
