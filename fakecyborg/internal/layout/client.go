package layout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/jsonread"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Client calls Placement as upstream's conductor does (cyborg/services/report.py): the same writes in the same order
// and at the same microversions, one by one. It reads only what it cannot know.
type Client struct {
	simhttp.Peer
	Rules
	// GetErrors selects how the release treats a GET that fails.
	GetErrors GetErrors
}

// StandardTraits is how Cyborg treats a standard trait, such as OWNER_CYBORG, before it writes it.
type StandardTraits string

const (
	// StandardTraitsRead asks whether a trait exists before it creates it.
	StandardTraitsRead StandardTraits = "reported"
	// StandardTraitsCreated creates every trait, which Placement refuses for standard ones (400): a new device with one is dropped.
	StandardTraitsCreated StandardTraits = "the device is dropped"
)

// GetErrors is how Cyborg treats a status of 500 and above from a GET.
type GetErrors string

const (
	// GetErrorsRaised ends the change with an error.
	GetErrorsRaised GetErrors = "an error"
	// GetErrorsUnnoticed treats the trait or the provider as missing: a defect.
	GetErrorsUnnoticed GetErrors = "not noticed: the trait or provider seems to be missing"
)

// maxConflicts is the number of tries of a write with generation conflicts. Upstream does not retry before the next
// report.
const maxConflicts = 5

// send makes one call. Version is the minor version, "" for Placement's default.
func (p *Client) send(ctx context.Context, method, path, version string, body any) (simhttp.Answer, error) {
	c := simhttp.PeerCall{Method: method, Path: path, Body: body, StatusOnly: method != http.MethodGet}
	if version != "" {
		c.Version = "placement " + version
	}
	return p.Do(ctx, c)
}

// Must is send for calls that have to succeed; statuses are accepted beside 2xx.
func (p *Client) Must(ctx context.Context, method, path, version string, body any, statuses ...int) (simhttp.Answer, error) {
	got, err := p.send(ctx, method, path, version, body)
	if err != nil {
		return got, err
	}
	if !got.OK() && !slices.Contains(statuses, got.Status) {
		return got, placementError(method, path, got)
	}
	return got, nil
}

// Get reads a JSON body.
func (p *Client) Get(ctx context.Context, path, version string, into any) error {
	got, err := p.Must(ctx, http.MethodGet, path, version, nil)
	if err != nil {
		return err
	}
	return got.Decode(into)
}

// placementError is an error with the details of Placement's error body.
func placementError(method, path string, got simhttp.Answer) error {
	var body struct {
		Errors []struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		} `json:"errors"`
	}
	detail := ""
	if got.Decode(&body) == nil && len(body.Errors) > 0 {
		detail = ": " + strings.TrimSpace(body.Errors[0].Code+" "+strings.Join(strings.Fields(body.Errors[0].Detail), " "))
	}
	return fmt.Errorf("placement answered %d to %s %s%s", got.Status, method, path, detail)
}

// Provider is a resource provider as Placement shows it.
type Provider struct {
	UUID       string `json:"uuid"`
	Name       string `json:"name"`
	Generation int    `json:"generation"`
	Parent     string `json:"parent_provider_uuid"`
}

var (
	// ErrNoParent is matched when the host itself is not in Placement.
	ErrNoParent = errors.New("no resource provider has the name of the host")
	// ErrStandardTrait is public in fakecyborg.
	ErrStandardTrait = errors.New("fakecyborg: this release cannot report standard traits")
)

// Parent finds the provider of a host by its name.
func (p *Client) Parent(ctx context.Context, host string) (Provider, error) {
	list, err := p.List(ctx, "name="+url.QueryEscape(host), "")
	if err != nil {
		return Provider{}, err
	}
	if len(list) == 0 {
		return Provider{}, fmt.Errorf("%w %s", ErrNoParent, host)
	}
	return list[0], nil
}

// List lists the resource providers that a query selects.
func (p *Client) List(ctx context.Context, query, version string) ([]Provider, error) {
	got, err := p.Must(ctx, http.MethodGet, "/resource_providers?"+query, version, nil)
	if err != nil {
		return nil, err
	}
	list, err := readProviders(got.Body)
	if err != nil {
		return nil, fmt.Errorf("answer %d is not the JSON expected: %w", got.Status, err)
	}
	return list, nil
}

// readProviders decodes a list of providers. Each report needs one, and links make up most of it.
func readProviders(text []byte) (list []Provider, err error) {
	r := jsonread.New(text)
	r.Object(func(key []byte) {
		if string(key) != "resource_providers" {
			r.Skip()
			return
		}
		r.Array(func() { list = append(list, readProvider(&r)) })
	})
	return list, r.End()
}

func readProvider(r *jsonread.Reader) (p Provider) {
	r.Object(func(key []byte) {
		switch string(key) {
		case "uuid":
			p.UUID = string(r.Optional())
		case "name":
			p.Name = string(r.Optional())
		case "generation":
			p.Generation = r.Int()
		case "parent_provider_uuid":
			p.Parent = string(r.Optional())
		default:
			r.Skip()
		}
	})
	return p
}

// ProviderPath is the path of a resource provider.
func ProviderPath(uuid string) string { return "/resource_providers/" + uuid }

// InventoryPath is the path of one inventory of a resource provider.
func InventoryPath(uuid, class string) string { return ProviderPath(uuid) + "/inventories/" + class }

// target is a provider that is written to.
type target struct {
	uuid string
	// generation is what the next write carries, unless the source is unread.
	generation int
	source     source
}

// source says where the generation of a provider comes from.
type source int

const (
	// unread has to be read.
	unread source = iota
	// read was read with what the next write is made from.
	read
	// created is the number of writes to a provider that was created just now: it has no traits, and its classes and traits are
	// ensured only when Placement refuses one, which most often exists.
	created
)

// existing returns a target for an existing provider with unknown contents.
func existing(uuid string) *target { return &target{uuid: uuid} }

// ensureClasses creates custom resource classes.
func (p *Client) ensureClasses(ctx context.Context, classes ...string) error {
	for _, class := range classes {
		if !strings.HasPrefix(class, "CUSTOM_") {
			continue
		}
		if _, err := p.Must(ctx, http.MethodPut, "/resource_classes/"+class, "1.7", nil); err != nil {
			return err
		}
	}
	return nil
}

// ensureProvider creates the provider, or adopts one with the same UUID, name and parent from an earlier Cyborg.
// Upstream first asks whether it exists.
func (p *Client) ensureProvider(ctx context.Context, want provider) (t *target, made bool, err error) {
	t = existing(want.UUID)
	if p.Quirks {
		if there, err := p.exists(ctx, ProviderPath(want.UUID)); err != nil || there {
			_, err := p.adopt(ctx, want, err)
			return t, false, err
		}
	}
	const path = "/resource_providers"
	got, err := p.send(ctx, http.MethodPost, path, "1.20", newProvider{want.Name, want.Parent, want.UUID})
	switch {
	case err != nil:
		return t, p.maybeMade(ctx, want.UUID), err
	case got.OK():
		if !p.Quirks {
			t.source = created
		}
		return t, true, nil
	case got.Status == http.StatusConflict && !p.Quirks:
		if there, err := p.exists(ctx, ProviderPath(want.UUID)); err != nil || there {
			made, err := p.adopt(ctx, want, err)
			return t, made, err
		}
	case got.Status >= http.StatusInternalServerError && !p.Quirks:
		made = p.maybeMade(ctx, want.UUID)
	}
	return t, made, placementError(http.MethodPost, path, got)
}

// newProvider is the body of a request for a provider.
type newProvider struct {
	Name   string `json:"name"`
	Parent string `json:"parent_provider_uuid"`
	UUID   string `json:"uuid"`
}

// lookTime limits the check after a lost response.
const lookTime = 10 * time.Second

// maybeMade reports whether a provider may come from a request whose response was lost or was a server error. A
// provider that has been written to is older.
func (p *Client) maybeMade(ctx context.Context, uuid string) bool {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer end()
	have, err := p.provider(ctx, uuid, "")
	return err != nil || have.untouched()
}

// untouched reports whether nothing has been written to a provider since it was created.
func (p Provider) untouched() bool { return p.Generation == 0 }

// exists reports whether there is something at a path.
func (p *Client) exists(ctx context.Context, path string) (bool, error) {
	got, err := p.send(ctx, http.MethodGet, path, "1.6", nil)
	switch {
	case err != nil, got.OK(), got.Status == http.StatusNotFound:
	case got.Status >= http.StatusInternalServerError && p.GetErrors == GetErrorsUnnoticed:
	default:
		err = placementError(http.MethodGet, path, got)
	}
	return got.OK(), err
}

// adopt takes over an existing provider, and refuses one that Cyborg cannot have created. Failed is the error of the
// search for it. Made is set for a provider that has never been written to: it comes from a create whose response was
// lost or that was applied late.
func (p *Client) adopt(ctx context.Context, want provider, failed error) (made bool, err error) {
	if failed != nil {
		return false, failed
	}
	have, err := p.provider(ctx, want.UUID, "1.14")
	if err != nil {
		return false, err
	}
	if have.Name != want.Name || have.Parent != want.Parent {
		return false, fmt.Errorf("resource provider %s (name %s, parent %s) exists and was not created by Cyborg", want.UUID, have.Name, have.Parent)
	}
	if want.presence == store.Stored && !p.Quirks && !have.untouched() {
		err = p.checkUnused(ctx, want.UUID)
	}
	return have.untouched(), err
}

// checkUnused returns an error if resources of a provider, or of some of its classes, are allocated: instances have
// functions of it, and this Cyborg cannot know which. Upstream treats all as free.
func (p *Client) checkUnused(ctx context.Context, provider string, classes ...string) error {
	used, err := p.usages(ctx, provider)
	if err != nil {
		return err
	}
	for _, class := range slices.Sorted(maps.Keys(used)) {
		if used[class] > 0 && (len(classes) == 0 || slices.Contains(classes, class)) {
			return fmt.Errorf("%d %s of resource provider %s are allocated, and this Cyborg has no requests of them: an earlier one has; start with its state, or delete the allocations", used[class], class, provider)
		}
	}
	return nil
}

// usages reads how much of each class of a provider is allocated.
func (p *Client) usages(ctx context.Context, provider string) (map[string]int, error) {
	var body struct {
		Usages map[string]int `json:"usages"`
	}
	err := p.Get(ctx, ProviderPath(provider)+"/usages", "", &body)
	return body.Usages, err
}

// generation returns the provider generation for the next write. Upstream always reads it.
func (p *Client) generation(ctx context.Context, t *target) (int, error) {
	if t.source == created || t.source == read && !p.Quirks {
		return t.generation, nil
	}
	have, err := p.provider(ctx, t.uuid, "")
	return have.Generation, err
}

func (p *Client) provider(ctx context.Context, uuid, version string) (have Provider, err error) {
	err = p.Get(ctx, ProviderPath(uuid), version, &have)
	return have, err
}

// write sends a change with the provider's generation. It retries if another client has written in between, and once
// if Placement lacked a name in it. The body is built for each try, before the generation is read.
func (p *Client) write(ctx context.Context, t *target, c providerWrite) error {
	path := ProviderPath(t.uuid) + c.path
	ensure := c.ensure
	for attempt := 1; ; attempt++ {
		got, err := p.try(ctx, t, c, path)
		if t.source == read {
			t.source = unread
		}
		switch {
		case err != nil:
			return err
		case got.OK():
			t.generation++
			return nil
		case got.Status == http.StatusConflict && attempt < maxConflicts:
			t.source = unread
		case got.Status == http.StatusBadRequest && ensure != nil:
			if err := ensure(); err != nil {
				return err
			}
			ensure = nil
		default:
			return placementError(c.method, path, got)
		}
	}
}

// providerWrite is a change of a provider.
type providerWrite struct {
	method, path, version string
	ensure                func() error // creates the names in it; nil if they are known to exist
	body                  func() (writeBody, error)
}

// writeBody is the body of a providerWrite: all inventories, all traits, or one inventory.
type writeBody struct {
	version     string            // overrides the version of the write
	Generation  int               `json:"resource_provider_generation"`
	Inventories map[string]amount `json:"inventories,omitzero"`
	Traits      []string          `json:"traits,omitzero"`
	*oneInventory
}

// oneInventory is one inventory, with its class if it is a new one.
type oneInventory struct {
	Class    string `json:"resource_class,omitempty"`
	Total    int    `json:"total"`
	MaxUnit  int    `json:"max_unit"`
	Reserved int    `json:"reserved"`
}

func (p *Client) try(ctx context.Context, t *target, c providerWrite, path string) (simhttp.Answer, error) {
	body, err := c.body()
	if err != nil {
		return simhttp.Answer{}, err
	}
	if body.Generation, err = p.generation(ctx, t); err != nil {
		return simhttp.Answer{}, err
	}
	return p.send(ctx, c.method, path, cmp.Or(body.version, c.version), body)
}

// amount is an inventory in a body.
type amount struct {
	Total    int `json:"total"`
	MaxUnit  int `json:"max_unit,omitempty"`
	Reserved int `json:"reserved,omitempty"`
}

// OverwriteInventory replaces all inventories of a provider with one.
func (p *Client) OverwriteInventory(ctx context.Context, uuid string, i store.Inventory) error {
	return p.write(ctx, existing(uuid), providerWrite{method: http.MethodPut, path: "/inventories", version: "1.26", body: func() (writeBody, error) {
		return writeBody{Inventories: map[string]amount{i.Class: {i.Total, i.MaxUnit, i.Reserved}}}, nil
	}})
}

// putInventories replaces all inventories of a provider. Amounts that other clients reserved stay reserved.
func (p *Client) putInventories(ctx context.Context, t *target, list []store.Inventory, own reservation) error {
	c := providerWrite{
		method: http.MethodPut, path: "/inventories",
		body: func() (body writeBody, err error) {
			body.Inventories, err = p.keepReserved(ctx, t, list, own)
			for _, kept := range body.Inventories {
				if kept.Reserved > 0 {
					body.version = "1.26" // before, the total could not be reserved as a whole
				}
			}
			return body, err
		},
	}
	if t.source == created {
		c.ensure = func() error { return p.ensureClasses(ctx, slices.Sorted(slices.Values(classesOf(list)))...) }
	}
	return p.write(ctx, t, c)
}

// putInventory creates or updates one inventory. Amounts that other clients reserved stay reserved.
func (p *Client) putInventory(ctx context.Context, uuid string, i store.Inventory, there bool, own reservation) error {
	t := existing(uuid)
	c := providerWrite{method: http.MethodPost, path: "/inventories", version: "1.26", body: func() (writeBody, error) {
		return writeBody{oneInventory: &oneInventory{Class: i.Class, Total: i.Total, MaxUnit: i.MaxUnit, Reserved: i.Reserved}}, nil
	}}
	if there {
		c.method, c.path = http.MethodPut, "/inventories/"+i.Class
		c.body = func() (writeBody, error) {
			kept, err := p.keepReserved(ctx, t, []store.Inventory{i}, own)
			return writeBody{oneInventory: &oneInventory{Total: i.Total, MaxUnit: i.MaxUnit, Reserved: kept[i.Class].Reserved}}, err
		}
	}
	return p.write(ctx, t, c)
}

// inventory reads an inventory of a provider, or returns nil if it does not exist.
func (p *Client) inventory(ctx context.Context, uuid, class string) (*amount, error) {
	got, err := p.Must(ctx, http.MethodGet, InventoryPath(uuid, class), "1.26", nil, http.StatusNotFound)
	if err != nil || !got.OK() {
		return nil, err
	}
	there := new(amount)
	return there, got.Decode(there)
}

// inventories reads the inventories of a provider, with its generation.
func (p *Client) inventories(ctx context.Context, uuid string) (list map[string]amount, generation int, err error) {
	var body struct {
		Inventories map[string]amount `json:"inventories"`
		Generation  int               `json:"resource_provider_generation"`
	}
	err = p.Get(ctx, ProviderPath(uuid)+"/inventories", "", &body)
	return body.Inventories, body.Generation, err
}

// hasSome reports whether a provider has an inventory of one of the classes. It is true without classes.
func (p *Client) hasSome(ctx context.Context, uuid string, classes []string) (bool, error) {
	list, _, err := p.inventories(ctx, uuid)
	if err != nil {
		return false, err
	}
	return len(classes) == 0 || slices.ContainsFunc(classes, func(class string) bool { _, there := list[class]; return there }), nil
}

// keepReserved adds amounts to inventories that other clients reserved, such as an operator for maintenance, or Nova
// for a one-time-use device. Upstream overwrites them.
func (p *Client) keepReserved(ctx context.Context, t *target, list []store.Inventory, own reservation) (map[string]amount, error) {
	kept := make(map[string]amount, len(list))
	for _, i := range list {
		kept[i.Class] = amount{i.Total, i.MaxUnit, i.Reserved}
	}
	if t.source == created || p.Quirks {
		return kept, nil
	}
	there, generation, err := p.inventories(ctx, t.uuid)
	if err != nil {
		return nil, err
	}
	t.generation, t.source = generation, read
	for class, a := range kept {
		reserved := there[class].Reserved
		a.Reserved = min(a.Total, a.Reserved+reserved-min(reserved, own(class, reserved)))
		kept[class] = a
	}
	return kept, nil
}

// ChangeTraits adds and removes traits of a provider. Other traits are kept.
func (p *Client) ChangeTraits(ctx context.Context, uuid string, add, drop []string) error {
	_, err := p.changeTraits(ctx, existing(uuid), traitsChange{add: add, drop: drop})
	return err
}

// traitsChange is which traits to add to a provider and to remove from it.
type traitsChange struct {
	add, drop []string
	// begin is called before each write, if it is set, with the traits to add that the provider lacks.
	begin func(added []string)
}

// changeTraits returns which of the traits to add the provider lacked.
func (p *Client) changeTraits(ctx context.Context, t *target, change traitsChange) (added []string, err error) {
	add, drop := change.add, change.drop
	c := providerWrite{
		method: http.MethodPut, path: "/traits", version: "1.6",
		body: func() (writeBody, error) {
			traits, err := p.currentTraits(ctx, t)
			added = without(add, traits)
			wanted := []string{} // in JSON not null
			wanted = append(append(wanted, without(traits, without(drop, add))...), add...)
			slices.Sort(wanted)
			if err == nil && !p.Quirks && t.source != created && len(added) == 0 && len(without(traits, wanted)) == 0 {
				err = errUnchanged
			}
			if err == nil && change.begin != nil {
				change.begin(added)
			}
			return writeBody{Traits: slices.Compact(wanted)}, err
		},
	}
	if t.source == created {
		if p.StandardTraits == StandardTraitsCreated {
			if err := p.ensureTraits(ctx, slices.DeleteFunc(slices.Clone(add), func(trait string) bool { return !isStandard(trait) })...); err != nil {
				return nil, err
			}
		}
		c.ensure = func() error { return p.ensureTraits(ctx, add...) }
	} else if err := p.ensureTraits(ctx, add...); err != nil {
		return nil, err
	}
	if len(add)+len(drop) == 0 {
		return nil, nil
	}
	if err = p.write(ctx, t, c); errors.Is(err, errUnchanged) {
		return nil, nil
	}
	return added, err
}

// errUnchanged ends a write that would change nothing.
var errUnchanged = errors.New("nothing to change")

// currentTraits reads the traits. The following write carries the generation of this response, so a change by another
// client in between is noticed; upstream reads the generation later, and overwrites that client's traits.
func (p *Client) currentTraits(ctx context.Context, t *target) ([]string, error) {
	if t.source == created {
		return nil, nil
	}
	var body struct {
		Traits     []string `json:"traits"`
		Generation int      `json:"resource_provider_generation"`
	}
	err := p.Get(ctx, ProviderPath(t.uuid)+"/traits", "1.6", &body)
	t.generation, t.source = body.Generation, read
	return body.Traits, err
}

// ensureTraits creates the traits that do not exist.
func (p *Client) ensureTraits(ctx context.Context, traits ...string) error {
	for _, trait := range traits {
		there, err := p.knowsTrait(ctx, trait)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		_, err = p.Must(ctx, http.MethodPut, "/traits/"+trait, "1.6", nil)
		if err != nil && p.StandardTraits == StandardTraitsCreated && isStandard(trait) {
			return fmt.Errorf("%w: %w", ErrStandardTrait, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// knowsTrait reports whether a trait exists.
func (p *Client) knowsTrait(ctx context.Context, trait string) (bool, error) {
	if p.StandardTraits == StandardTraitsCreated && (p.Quirks || isStandard(trait)) {
		return false, nil
	}
	return p.exists(ctx, "/traits/"+trait)
}

func isStandard(trait string) bool { return !strings.HasPrefix(trait, "CUSTOM_") }

// Traits lists the traits of a provider.
func (p *Client) Traits(ctx context.Context, uuid string) ([]string, error) {
	return p.currentTraits(ctx, existing(uuid))
}

// DropTraits deletes custom traits. Placement refuses those that are in use.
func (p *Client) DropTraits(ctx context.Context, traits ...string) {
	p.drop(ctx, "/traits/", "1.6", traits)
}

// DropClasses deletes custom classes. Placement refuses those that are in use. Upstream asks at
// microversion 1.0, where Placement has no such route.
func (p *Client) DropClasses(ctx context.Context, classes ...string) {
	p.drop(ctx, "/resource_classes/", "1.7", classes)
}

func (p *Client) drop(ctx context.Context, path, version string, names []string) {
	for _, name := range names {
		if strings.HasPrefix(name, "CUSTOM_") {
			_, _ = p.send(ctx, http.MethodDelete, path+name, version, nil)
		}
	}
}
