package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// placementClient speaks to Placement as upstream's conductor does
// (cyborg/services/report.py): the same calls in the same order and at the same
// microversions, one by one.
type placementClient struct {
	peer
	// blind makes the standard traits be created that are there, which Placement
	// refuses: a defect of Zed's, for which devices with OWNER_CYBORG are dropped.
	blind bool
}

// maxConflicts is how often a write is tried that meets another writer's
// generation. Upstream leaves it to the next report.
const maxConflicts = 5

// providerWant is what a deployable is to look like in Placement.
type providerWant struct {
	uuid, name, parent string
	class              string
	total, reserved    int
	traits             []string
	// memory is the local memory on the provider, MiB by resource class; shared is
	// that on the provider of the device, for a region.
	memory, shared map[string]int
	// device and root are set for a region: the name of the provider of its
	// device, which is its parent, and the provider of the host above that.
	device, root string
}

// classes lists the resource classes of a provider, that of the handles first.
func (w providerWant) classes() []string {
	return append([]string{w.class}, slices.Sorted(maps.Keys(w.memory))...)
}

// inventory is the one inventory of a provider; Placement fills in the rest.
type inventory struct {
	Total    int `json:"total"`
	MaxUnit  int `json:"max_unit,omitempty"`
	Reserved int `json:"reserved,omitempty"`
}

// send makes one call. Version is the minor version, "" for Placement's default.
func (p *placementClient) send(ctx context.Context, method, path, version string, body any) (answer, error) {
	c := call{method: method, path: path, body: body}
	if version != "" {
		c.header = map[string]string{"OpenStack-API-Version": "placement " + version}
	}
	return p.do(ctx, c)
}

// must is send for calls that have to succeed; statuses are those that are fine
// beside 2xx.
func (p *placementClient) must(ctx context.Context, method, path, version string, body any, statuses ...int) (answer, error) {
	got, err := p.send(ctx, method, path, version, body)
	if err != nil {
		return got, err
	}
	if !got.ok() && !slices.Contains(statuses, got.status) {
		return got, placementError(method, path, got)
	}
	return got, nil
}

// placementError takes the details out of Placement's error body.
func placementError(method, path string, got answer) error {
	var body struct {
		Errors []struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		} `json:"errors"`
	}
	detail := ""
	if got.decode(&body) == nil && len(body.Errors) > 0 {
		detail = ": " + strings.TrimSpace(body.Errors[0].Code+" "+strings.Join(strings.Fields(body.Errors[0].Detail), " "))
	}
	return fmt.Errorf("placement answered %d to %s %s%s", got.status, method, path, detail)
}

// provider is a resource provider as Placement shows it.
type provider struct {
	UUID       string `json:"uuid"`
	Name       string `json:"name"`
	Generation int    `json:"generation"`
	Parent     string `json:"parent_provider_uuid"`
}

// ErrStandardTrait is matched by the error about a device that Zed with its
// defects cannot report, because it has a trait such as OWNER_CYBORG.
var ErrStandardTrait = errors.New("fakecyborg: zed tries to create a standard trait")

// errNoParent is the cause when the host itself is not in Placement.
var errNoParent = errors.New("no resource provider has the name of the host")

// parent finds the provider of a host by its name.
func (p *placementClient) parent(ctx context.Context, host string) (string, error) {
	list, err := p.list(ctx, "name="+url.QueryEscape(host), "")
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%w %s", errNoParent, host)
	}
	return list[0].UUID, nil
}

func (p *placementClient) list(ctx context.Context, query, version string) ([]provider, error) {
	got, err := p.must(ctx, http.MethodGet, "/resource_providers?"+query, version, nil)
	if err != nil {
		return nil, err
	}
	var body struct {
		Providers []provider `json:"resource_providers"`
	}
	return body.Providers, got.decode(&body)
}

func providerPath(uuid string) string { return "/resource_providers/" + uuid }

// add makes a provider with its inventory and traits. The answer tells whether
// the provider may be one that this call made.
func (p *placementClient) add(ctx context.Context, want providerWant) (made bool, err error) {
	if err := p.ensureClasses(ctx, want.classes()...); err != nil {
		return false, err
	}
	if made, err = p.ensureProvider(ctx, want); err != nil {
		return made, err
	}
	if err := p.putInventory(ctx, want, ""); err != nil {
		return made, err
	}
	return made, p.changeTraits(ctx, want.uuid, want.traits, nil)
}

// ensureClass makes a custom resource class known.
func (p *placementClient) ensureClass(ctx context.Context, class string) error {
	if !strings.HasPrefix(class, "CUSTOM_") {
		return nil
	}
	_, err := p.must(ctx, http.MethodPut, "/resource_classes/"+class, "1.7", nil)
	return err
}

func (p *placementClient) ensureClasses(ctx context.Context, classes ...string) error {
	for _, class := range classes {
		if err := p.ensureClass(ctx, class); err != nil {
			return err
		}
	}
	return nil
}

// ensureProvider creates the provider, or takes over one that an earlier life
// of Cyborg made: it has the same uuid, name and parent.
func (p *placementClient) ensureProvider(ctx context.Context, want providerWant) (made bool, err error) {
	got, err := p.must(ctx, http.MethodGet, providerPath(want.uuid), "1.6", nil, http.StatusNotFound)
	if err != nil {
		return false, err
	}
	if got.status != http.StatusOK {
		got, err := p.must(ctx, http.MethodPost, "/resource_providers", "1.20",
			map[string]string{"uuid": want.uuid, "name": want.name, "parent_provider_uuid": want.parent})
		return err == nil || got.status == 0, err
	}
	return false, p.checkOurs(ctx, want)
}

// checkOurs refuses a provider that Cyborg cannot have made.
func (p *placementClient) checkOurs(ctx context.Context, want providerWant) error {
	got, err := p.must(ctx, http.MethodGet, providerPath(want.uuid), "1.14", nil)
	if err != nil {
		return err
	}
	var have provider
	if err := got.decode(&have); err != nil {
		return err
	}
	if have.Name != want.name || have.Parent != want.parent {
		return fmt.Errorf("resource provider %s (name %s, parent %s) is there and was not made by Cyborg", want.uuid, have.Name, have.Parent)
	}
	return nil
}

// generation reads the number that the next write of the provider must carry.
func (p *placementClient) generation(ctx context.Context, uuid string) (int, error) {
	got, err := p.must(ctx, http.MethodGet, providerPath(uuid), "", nil)
	if err != nil {
		return 0, err
	}
	var have provider
	return have.Generation, got.decode(&have)
}

// write tries a change that carries the provider's generation until no other
// writer is in between.
func (p *placementClient) write(ctx context.Context, uuid string, put func(generation int) (answer, error)) error {
	for attempt := 1; ; attempt++ {
		generation, err := p.generation(ctx, uuid)
		if err != nil {
			return err
		}
		got, err := put(generation)
		switch {
		case err != nil:
			return err
		case got.status == http.StatusConflict && attempt < maxConflicts:
		case !got.ok():
			return placementError(http.MethodPut, providerPath(uuid), got)
		default:
			return nil
		}
	}
}

// putInventory replaces the inventory. Version is "" as in a report, or newer.
func (p *placementClient) putInventory(ctx context.Context, want providerWant, version string) error {
	amounts := memoryAmounts(want.memory, want.reserved > 0)
	amounts[want.class] = inventory{Total: want.total, MaxUnit: want.total, Reserved: want.reserved}
	if want.reserved > 0 && version == "" {
		version = "1.26" // before, the total could not be reserved as a whole
	}
	return p.putAmounts(ctx, want.uuid, amounts, version)
}

// memoryAmounts are inventories of local memory. That of a device which is not to be
// given out is reserved, too.
func memoryAmounts(memory map[string]int, reserved bool) map[string]inventory {
	amounts := make(map[string]inventory, len(memory)+1)
	for class, mib := range memory {
		amount := inventory{Total: mib, MaxUnit: mib}
		if reserved {
			amount.Reserved = mib
		}
		amounts[class] = amount
	}
	return amounts
}

func (p *placementClient) putAmount(ctx context.Context, uuid, class string, amount inventory, version string) error {
	return p.putAmounts(ctx, uuid, map[string]inventory{class: amount}, version)
}

// putAmounts replaces all inventories of a provider.
func (p *placementClient) putAmounts(ctx context.Context, uuid string, amounts map[string]inventory, version string) error {
	return p.write(ctx, uuid, func(generation int) (answer, error) {
		return p.send(ctx, http.MethodPut, providerPath(uuid)+"/inventories", version, map[string]any{
			"resource_provider_generation": generation,
			"inventories":                  amounts,
		})
	})
}

// changeTraits adds and removes traits of a provider and leaves all others.
func (p *placementClient) changeTraits(ctx context.Context, uuid string, add, drop []string) error {
	for _, trait := range add {
		there, err := p.knowsTrait(ctx, trait)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		_, err = p.must(ctx, http.MethodPut, "/traits/"+trait, "1.6", nil)
		if err != nil && p.blind && !strings.HasPrefix(trait, "CUSTOM_") {
			return fmt.Errorf("%w: %w", ErrStandardTrait, err)
		}
		if err != nil {
			return err
		}
	}
	if len(add)+len(drop) == 0 {
		return nil
	}
	return p.putTraits(ctx, uuid, add, drop)
}

// knowsTrait asks whether a trait is there.
func (p *placementClient) knowsTrait(ctx context.Context, trait string) (bool, error) {
	if p.blind && !strings.HasPrefix(trait, "CUSTOM_") {
		return false, nil
	}
	got, err := p.must(ctx, http.MethodGet, "/traits/"+trait, "1.6", nil, http.StatusNotFound)
	return got.ok(), err
}

// putTraits replaces the traits by those that are there, with add and without
// drop; both are read again when another writer comes in between.
func (p *placementClient) putTraits(ctx context.Context, uuid string, add, drop []string) error {
	for attempt := 1; ; attempt++ {
		traits, err := p.traits(ctx, uuid)
		if err != nil {
			return err
		}
		wanted := slices.DeleteFunc(slices.Concat(traits, add), func(t string) bool {
			return slices.Contains(drop, t) && !slices.Contains(add, t)
		})
		slices.Sort(wanted)
		generation, err := p.generation(ctx, uuid)
		if err != nil {
			return err
		}
		got, err := p.send(ctx, http.MethodPut, providerPath(uuid)+"/traits", "1.6", map[string]any{
			"resource_provider_generation": generation, "traits": slices.Compact(wanted),
		})
		switch {
		case err != nil:
			return err
		case got.ok():
			return nil
		case got.status != http.StatusConflict || attempt == maxConflicts:
			return placementError(http.MethodPut, providerPath(uuid)+"/traits", got)
		}
	}
}

func (p *placementClient) traits(ctx context.Context, uuid string) ([]string, error) {
	got, err := p.must(ctx, http.MethodGet, providerPath(uuid)+"/traits", "1.6", nil)
	if err != nil {
		return nil, err
	}
	var body struct {
		Traits []string `json:"traits"`
	}
	return body.Traits, got.decode(&body)
}

// remove deletes a provider and then what nobody else uses of its traits and
// its class. A provider that has children Cyborg did not make stays, because
// Placement refuses to delete it.
func (p *placementClient) remove(ctx context.Context, want providerWant) error {
	if _, err := p.must(ctx, http.MethodGet, "/resource_providers?in_tree="+want.uuid, "1.14", nil); err != nil {
		return err
	}
	if _, err := p.must(ctx, http.MethodDelete, providerPath(want.uuid), "", nil, http.StatusNotFound); err != nil {
		return err
	}
	p.dropTraits(ctx, want.traits)
	for _, class := range want.classes() {
		p.dropClass(ctx, class)
	}
	return nil
}

// dropTraits deletes custom traits that nobody uses. Placement refuses the
// others, which is as it should be.
func (p *placementClient) dropTraits(ctx context.Context, traits []string) {
	for _, trait := range traits {
		if strings.HasPrefix(trait, "CUSTOM_") {
			_, _ = p.send(ctx, http.MethodDelete, "/traits/"+trait, "1.6", nil)
		}
	}
}

// dropClass deletes a custom class that nobody uses. Upstream asks at
// microversion 1.0, where Placement has no such route.
func (p *placementClient) dropClass(ctx context.Context, class string) {
	if strings.HasPrefix(class, "CUSTOM_") {
		_, _ = p.send(ctx, http.MethodDelete, "/resource_classes/"+class, "1.7", nil)
	}
}
