package simcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	for i, h := range c.model.Hosts {
		m, agent, err := c.newMachine(i, h)
		if err != nil {
			return err
		}
		if err := admin.addComputeRoot(ctx, c.model.Seed, m); err != nil {
			return fmt.Errorf("simcloud: create the providers of host %s: %w", h.Name, err)
		}
		if err := c.Cyborg.AddHost(agent); err != nil {
			return fmt.Errorf("simcloud: add host %s: %w", h.Name, err)
		}
		if err := ignoreUnsupported(m, c.Cyborg.ReportHost(ctx, h.Name)); err != nil {
			return fmt.Errorf("%w: hosts[%d]: %w", ErrModel, i, err)
		}
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

// ignoreUnsupported removes from the errors of a report those about devices of a directory
// that the drivers cannot read, because the other devices of a real machine are still of
// use, and about devices that the Zed release cannot report.
func ignoreUnsupported(m *machine, err error) error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // the outermost error is meant
	if !ok {
		return err
	}
	var rest []error
	for _, each := range joined.Unwrap() {
		unreadable := m.dir != nil && errors.As(each, new(driver.Problem))
		if !unreadable && !errors.Is(each, fakecyborg.ErrStandardTrait) {
			rest = append(rest, each)
		}
	}
	return errors.Join(rest...)
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
