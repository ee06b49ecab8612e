package placement

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/internal/session"
)

const (
	// microversion is what Nova sends from Zed to 2026.1: it has string suffixes, mappings, root_required and
	// same_subtree.
	microversion = "1.36"
	// oldMicroversion is for a Placement before 1.34. It is sufficient for everything except candidates, whose query
	// has its own microversion: consumer generations came with 1.28, nested providers with 1.29.
	oldMicroversion = "1.29"
	// typeMicroversion has consumer types.
	typeMicroversion = "1.38"
)

// TypeInstance is the consumer type of instances. Nova sets no type, because it uses microversions below 1.38.
const TypeInstance = "INSTANCE"

// Client is a client of Placement. It is safe for parallel use.
type Client struct {
	client  *gophercloud.ServiceClient
	old     atomic.Bool
	untyped atomic.Bool // Placement is older than 1.38
	bodies  sync.Pool   // of *bytes.Buffer, see read
}

// New returns a client that uses a copy of the given one. Old is for a Placement before 1.34. The client
// reauthenticates through the provider of the given one, and follows no redirect to another server.
func New(client *gophercloud.ServiceClient, old bool) (*Client, error) {
	own, err := session.Service(client)
	if err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	c := &Client{client: own}
	c.old.Store(old)
	return c, nil
}

// Old reports whether Placement is older than 1.34.
func (c *Client) Old() bool { return c.old.Load() }

// SetOld records that Placement has refused a microversion that Nova sends today.
func (c *Client) SetOld() { c.old.Store(true) }

// service returns a client with a microversion that Placement supports.
func (c *Client) service() *gophercloud.ServiceClient {
	client := *c.client
	client.Type, client.Microversion = "placement", microversion
	if c.Old() {
		client.Microversion = oldMicroversion
	}
	return &client
}

// typed runs a call with microversion 1.38, and repeats it with the default one if Placement does not support that.
func (c *Client) typed(send func(client *gophercloud.ServiceClient, typed bool) error) error {
	if !c.Old() && !c.untyped.Load() {
		client := c.service()
		client.Microversion = typeMicroversion
		err := send(client, true)
		if !VersionRefused(err) {
			return err
		}
		c.untyped.Store(true)
	}
	return c.supported(func() error { return send(c.service(), false) })
}

// supported runs a call, and repeats it for a Placement before 1.34 if the microversion is not supported. Any call
// may be the first one of a process.
func (c *Client) supported(send func() error) error {
	old := c.Old()
	err := send()
	if old || !VersionRefused(err) {
		return err
	}
	c.SetOld()
	return send()
}

// Call is one call of the client.
type Call struct {
	Operation string // such as "PUT allocations"
	Status    int    // 0: no response
	Duration  time.Duration
}

type observerKey struct{}

// Observe returns a context with which every call is reported to a function.
func Observe(ctx context.Context, observe func(Call)) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// requestTimeout limits a request.
const requestTimeout = 2 * time.Minute

// call runs one call, reports it and decodes its error.
func call(ctx context.Context, op, subject string, success int, send func(context.Context) error) error {
	started := time.Now()
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	watched, tokens := session.Watch(limited)
	err := send(watched)
	status := success
	if err != nil {
		err = decodeError(op, subject, err, tokens)
		status = StatusOf(err)
	}
	if observe, ok := ctx.Value(observerKey{}).(func(Call)); ok {
		observe(Call{Operation: op, Status: status, Duration: time.Since(started)})
	}
	return err
}

// get runs a GET. It decodes the response itself, because gophercloud decodes it three times.
func get[T any](ctx context.Context, c *Client, op, subject string, path ...string) (answer T, err error) {
	err = c.supported(func() error {
		client := c.service()
		return call(ctx, op, subject, http.StatusOK, func(ctx context.Context) (err error) {
			answer, err = getJSON[T](ctx, c, client, path...)
			return err
		})
	})
	return answer, err
}

// getJSON decodes the response to a GET. With an error it returns the zero value.
func getJSON[T any](ctx context.Context, c *Client, client *gophercloud.ServiceClient, path ...string) (answer T, err error) {
	resp, err := client.Get(ctx, client.ServiceURL(path...), nil, &gophercloud.RequestOpts{KeepResponseBody: true})
	if err != nil {
		return answer, err
	}
	err = c.read(resp, func(text []byte) error { return json.Unmarshal(text, &answer) })
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// maxKeptBody is the size of the largest buffer that is reused, in bytes.
const maxKeptBody = 4 << 20

// read decodes the body of a response. Decode must not keep the text.
func (c *Client) read(resp *http.Response, decode func(text []byte) error) error {
	defer resp.Body.Close()
	text, ok := c.bodies.Get().(*bytes.Buffer)
	if !ok {
		text = new(bytes.Buffer)
	}
	text.Reset()
	_, err := text.ReadFrom(resp.Body)
	if err == nil {
		err = decode(text.Bytes())
	}
	if text.Cap() <= maxKeptBody {
		c.bodies.Put(text)
	}
	return err
}

const pathProviders = "resource_providers"

// ProviderName returns the name of a resource provider. The name of a compute node's root provider is its node name,
// which Cyborg's bind takes as hostname.
func (c *Client) ProviderName(ctx context.Context, provider string) (string, error) {
	answer, err := get[struct{ Name string }](ctx, c, "GET resource_providers", provider, pathProviders, provider)
	return answer.Name, err
}

// HostName returns the name of the compute node in whose tree a resource provider is.
func (c *Client) HostName(ctx context.Context, provider string) (string, error) {
	answer, err := get[struct {
		Name string
		Root string `json:"root_provider_uuid"`
	}](ctx, c, "GET resource_providers", provider, pathProviders, provider)
	if err != nil || answer.Root == "" || answer.Root == provider {
		return answer.Name, err
	}
	return c.ProviderName(ctx, answer.Root)
}

// Traits returns the traits of a resource provider.
func (c *Client) Traits(ctx context.Context, provider string) ([]string, error) {
	answer, err := get[struct{ Traits []string }](ctx, c, "GET resource_providers traits", provider, pathProviders, provider, "traits")
	return answer.Traits, err
}

// Named returns the UUID of the provider with a name, or "" if it does not exist.
func (c *Client) Named(ctx context.Context, name string) (string, error) {
	found, err := c.providers(ctx, "GET resource_providers name", name, resourceproviders.ListOpts{Name: name})
	if err == nil {
		err = checkFilter("name "+name, found, func(p resourceproviders.ResourceProvider) bool { return p.Name == name })
	}
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].UUID, nil
}

// Tree returns the names of the providers in a provider's tree, by UUID. With a trait it returns only providers that
// have the trait, and none if Placement does not know it.
func (c *Client) Tree(ctx context.Context, provider, trait string) (map[string]string, error) {
	found, err := c.providers(ctx, "GET resource_providers in_tree", provider, resourceproviders.ListOpts{InTree: provider, Required: trait})
	if trait != "" && StatusOf(err) == http.StatusBadRequest {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	root := provider
	names := make(map[string]string, len(found))
	for _, p := range found {
		if names[p.UUID] = p.Name; p.UUID == provider {
			root = p.RootProviderUUID
		}
	}
	return names, checkFilter("in_tree "+provider, found, func(p resourceproviders.ResourceProvider) bool { return p.RootProviderUUID == root })
}

// checkFilter rejects a list with a provider that the filter excludes: a proxy may lose the query.
func checkFilter(filter string, found []resourceproviders.ResourceProvider, matches func(resourceproviders.ResourceProvider) bool) error {
	for _, p := range found {
		if !matches(p) {
			return fmt.Errorf("placement: GET resource_providers %s: the answer is not filtered: it has provider %s (%s)", filter, p.UUID, p.Name)
		}
	}
	return nil
}

func (c *Client) providers(ctx context.Context, op, subject string, opts resourceproviders.ListOpts) (found []resourceproviders.ResourceProvider, err error) {
	err = c.supported(func() error {
		return call(ctx, op, subject, http.StatusOK, func(ctx context.Context) error {
			pages, err := resourceproviders.List(c.service(), opts).AllPages(ctx)
			if err == nil {
				found, err = resourceproviders.ExtractResourceProviders(pages)
			}
			return err
		})
	})
	return found, err
}

// Consumers returns the consumers of a resource provider. It returns none for an unknown provider, which Cyborg may
// just have removed.
func (c *Client) Consumers(ctx context.Context, provider string) ([]string, error) {
	answer, err := get[struct{ Allocations map[string]struct{} }](ctx, c, "GET resource_providers allocations", provider, pathProviders, provider, "allocations")
	if UnknownProvider(err) {
		return nil, nil
	}
	return slices.Collect(maps.Keys(answer.Allocations)), err
}

// Exceeded is a resource class whose usage exceeds the capacity of a provider.
type Exceeded struct {
	Class          string
	Used, Capacity int
}

// Exceeded returns the resource classes whose usage exceeds the capacity of a provider, sorted.
func (c *Client) Exceeded(ctx context.Context, provider string) (list []Exceeded, err error) {
	used, err := get[struct{ Usages map[string]int }](ctx, c, "GET resource_providers usages", provider, pathProviders, provider, "usages")
	if err != nil {
		return nil, err
	}
	has, err := get[struct {
		Inventories map[string]struct {
			Total, Reserved int
			Ratio           float64 `json:"allocation_ratio"`
		}
	}](ctx, c, "GET resource_providers inventories", provider, pathProviders, provider, "inventories")
	for _, class := range slices.Sorted(maps.Keys(has.Inventories)) {
		inventory := has.Inventories[class]
		capacity := int(float64(inventory.Total-inventory.Reserved) * inventory.Ratio)
		if used.Usages[class] > capacity {
			list = append(list, Exceeded{class, used.Usages[class], capacity})
		}
	}
	return list, err
}

// Allocation is the allocation of a consumer.
type Allocation struct {
	Resources Resources
	Mappings  map[string][]string // only for writes
	Project   string
	User      string
	// Type is the consumer type; "" before Placement 1.38. Writes set TypeInstance.
	Type string
	// Generation is nil for a consumer that holds nothing.
	Generation *int
}

// allocationDocument is an allocation in JSON.
type allocationDocument struct {
	Allocations map[string]providerAllocation `json:"allocations"`
	Generation  *int                          `json:"consumer_generation"`
	Type        string                        `json:"consumer_type,omitempty"`
	Mappings    map[string][]string           `json:"mappings,omitempty"`
	Project     string                        `json:"project_id"`
	User        string                        `json:"user_id"`
}

type providerAllocation struct {
	Resources map[string]int `json:"resources"`
}

// Allocation returns the allocation of a consumer.
func (c *Client) Allocation(ctx context.Context, consumer string) (held Allocation, err error) {
	var answer allocationDocument
	err = c.typed(func(client *gophercloud.ServiceClient, _ bool) error {
		return call(ctx, "GET allocations", "", http.StatusOK, func(ctx context.Context) (err error) {
			answer, err = getJSON[allocationDocument](ctx, c, client, "allocations", consumer)
			if err == nil && answer.Allocations == nil {
				err = errors.New("the answer has no allocations")
			}
			return err
		})
	})
	held = Allocation{Resources: Resources{}, Generation: answer.Generation, Type: answer.Type}
	for provider, entry := range answer.Allocations {
		held.Resources[provider] = entry.Resources
	}
	if answer.Project != "" && answer.User != "" {
		held.Project, held.User = answer.Project, answer.User
	}
	return held, err
}

// SetAllocation replaces the allocation of a consumer. Without resources the consumer is deleted, if it still has the
// generation. If Placement supports consumer types, the type is set to INSTANCE.
func (c *Client) SetAllocation(ctx context.Context, consumer string, want Allocation) error {
	body := allocationDocument{
		Allocations: make(map[string]providerAllocation, len(want.Resources)), Generation: want.Generation,
		Project: want.Project, User: want.User,
	}
	for provider, resources := range want.Resources {
		body.Allocations[provider] = providerAllocation{resources}
	}
	return c.typed(func(client *gophercloud.ServiceClient, typed bool) error {
		if body.Type = ""; typed {
			body.Type = TypeInstance
		}
		if body.Mappings = want.Mappings; client.Microversion == oldMicroversion {
			body.Mappings = nil
		}
		return call(ctx, "PUT allocations", "", http.StatusNoContent, func(ctx context.Context) error {
			_, err := client.Put(ctx, client.ServiceURL("allocations", consumer), body, nil,
				&gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}})
			return err
		})
	})
}
