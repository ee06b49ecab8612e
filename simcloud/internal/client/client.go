package client

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
)

// The microversions of the requests.
const (
	placementVersion   = "placement 1.39"
	acceleratorVersion = "accelerator 2.2"
)

// Client is a client of the services at an endpoint.
type Client struct {
	simhttp.Peer
	// Placement is the path of that service.
	Placement string
}

// CreateProvider creates a resource provider, a root one without a parent.
func (c *Client) CreateProvider(ctx context.Context, id, name, parent string) error {
	body := map[string]any{"uuid": id, "name": name}
	if parent != "" {
		body["parent_provider_uuid"] = parent
	}
	return c.placement(ctx, http.MethodPost, "/resource_providers", body)
}

// Fill sets the inventories and traits of a new provider.
func (c *Client) Fill(ctx context.Context, id string, inventory map[string]int, traits []string) error {
	inventories := make(map[string]any)
	for _, class := range slices.Sorted(maps.Keys(inventory)) {
		if strings.HasPrefix(class, "CUSTOM_") {
			if err := c.placement(ctx, http.MethodPut, "/resource_classes/"+class, nil); err != nil {
				return err
			}
		}
		total := inventory[class]
		inventories[class] = map[string]any{
			"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": 1.0,
		}
	}
	generation := 0
	if len(inventories) > 0 {
		err := c.placement(ctx, http.MethodPut, "/resource_providers/"+id+"/inventories",
			map[string]any{"resource_provider_generation": generation, "inventories": inventories})
		if err != nil {
			return err
		}
		generation++
	}
	return c.setTraits(ctx, id, generation, traits)
}

func (c *Client) setTraits(ctx context.Context, id string, generation int, traits []string) error {
	if len(traits) == 0 {
		return nil
	}
	for _, trait := range traits {
		if strings.HasPrefix(trait, "CUSTOM_") {
			if err := c.placement(ctx, http.MethodPut, "/traits/"+trait, nil); err != nil {
				return err
			}
		}
	}
	return c.placement(ctx, http.MethodPut, "/resource_providers/"+id+"/traits",
		map[string]any{"resource_provider_generation": generation, "traits": traits})
}

// DeleteProvider deletes a resource provider.
func (c *Client) DeleteProvider(ctx context.Context, id string) error {
	return c.placement(ctx, http.MethodDelete, "/resource_providers/"+id, nil)
}

// CreateProfile creates a device profile; Cyborg expects a list of one.
func (c *Client) CreateProfile(ctx context.Context, name, description string, groups []map[string]string) error {
	body := map[string]any{"name": name, "groups": groups}
	if description != "" {
		body["description"] = description
	}
	return c.call(ctx, http.MethodPost, "/accelerator/v2/device_profiles", acceleratorVersion, []any{body})
}

// Provider is a resource provider as Placement lists it.
type Provider struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Parent string `json:"parent_provider_uuid"`
}

// Tree lists the providers below a root and the root, parents before children.
func (c *Client) Tree(ctx context.Context, root string) ([]Provider, error) {
	list, err := c.providers(ctx, "in_tree="+root)
	if err != nil {
		return nil, err
	}
	depth := make(map[string]int, len(list))
	parent := make(map[string]string, len(list))
	for _, p := range list {
		parent[p.UUID] = p.Parent
	}
	for _, p := range list {
		for at := p.UUID; parent[at] != "" && depth[p.UUID] <= len(parent); at = parent[at] {
			depth[p.UUID]++
		}
	}
	slices.SortStableFunc(list, func(a, b Provider) int { return depth[a.UUID] - depth[b.UUID] })
	return list, nil
}

// Named returns the UUID of the provider with a name, or "".
func (c *Client) Named(ctx context.Context, name string) (string, error) {
	list, err := c.providers(ctx, "name="+url.QueryEscape(name))
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].UUID, nil
}

func (c *Client) providers(ctx context.Context, query string) ([]Provider, error) {
	var body struct {
		Providers []Provider `json:"resource_providers"`
	}
	err := c.get(ctx, "/resource_providers?"+query, &body)
	return body.Providers, err
}

// Allocations lists what is allocated on a provider, sorted by consumer and class.
func (c *Client) Allocations(ctx context.Context, provider string) ([]placementsim.Allocation, error) {
	var body struct {
		Allocations map[string]struct {
			Resources map[string]int `json:"resources"`
		} `json:"allocations"`
	}
	if err := c.get(ctx, "/resource_providers/"+provider+"/allocations", &body); err != nil {
		return nil, err
	}
	var list []placementsim.Allocation
	for consumer, entry := range body.Allocations {
		for class, used := range entry.Resources {
			list = append(list, placementsim.Allocation{Consumer: consumer, Provider: provider, Class: class, Used: used})
		}
	}
	slices.SortFunc(list, func(a, b placementsim.Allocation) int {
		return strings.Compare(a.Consumer+a.Class, b.Consumer+b.Class)
	})
	return list, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	answer, err := c.exchange(ctx, http.MethodGet, c.Placement+path, placementVersion, nil)
	if err != nil {
		return err
	}
	return answer.Decode(into)
}

func (c *Client) placement(ctx context.Context, method, path string, body any) error {
	return c.call(ctx, method, c.Placement+path, placementVersion, body)
}

// call sends a request that has to succeed; the error has the service's answer.
func (c *Client) call(ctx context.Context, method, path, version string, body any) error {
	_, err := c.exchange(ctx, method, path, version, body)
	return err
}

// exchange sends a request that has to succeed and returns the answer.
func (c *Client) exchange(ctx context.Context, method, path, version string, body any) (simhttp.Answer, error) {
	answer, err := c.Do(ctx, simhttp.PeerCall{Method: method, Path: path, Version: version, Body: body})
	if err == nil && !answer.OK() {
		err = fmt.Errorf("%s %s: %d %s: %s", method, path, answer.Status, http.StatusText(answer.Status), bytes.TrimSpace(answer.Body))
	}
	return answer, err
}
