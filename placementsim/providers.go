package placementsim

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceTrees is the microversion that added parents and roots.
const sinceTrees version = 14

type linkBody struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

type providerBody struct {
	Generation int        `json:"generation"`
	UUID       string     `json:"uuid"`
	Links      []linkBody `json:"links"`
	Name       string     `json:"name"`
}

type nestedProviderBody struct {
	providerBody
	Parent *string `json:"parent_provider_uuid"`
	Root   string  `json:"root_provider_uuid"`
}

func providerPath(uuid string) string { return "/resource_providers/" + url.PathEscape(uuid) }

// providerBody is the representation of a provider at the call's microversion.
func (c *call) providerBody(p engine.Provider) any {
	href := c.server.prefix + providerPath(p.UUID)
	body := providerBody{Generation: p.Generation, UUID: p.UUID, Name: p.Name, Links: []linkBody{
		{"self", href}, {"inventories", href + "/inventories"}, {"usages", href + "/usages"},
	}}
	for _, rel := range c.version.names(addition{1, "aggregates"}, addition{6, "traits"}, addition{11, "allocations"}) {
		body.Links = append(body.Links, linkBody{rel, href + "/" + rel})
	}
	if c.version < sinceTrees {
		return body
	}
	return nestedProviderBody{body, orNull(p.Parent), p.Root}
}

// orNull stands for null when the text is empty.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func listProviders(c *call) error {
	filter, err := c.providerFilter(parseQuery(c.URL.RawQuery))
	if err != nil {
		return err
	}
	providers, err := c.server.state.Providers(filter)
	if err != nil {
		err = prefixed(err, engine.ErrUnknownClass, "Invalid resource class in resources parameter: ")
		return prefixed(err, engine.ErrUnknownTrait, `Invalid trait(s) in "required" parameter: `)
	}
	bodies := make([]any, 0, len(providers))
	var changed []time.Time
	for _, p := range providers {
		bodies = append(bodies, c.providerBody(p))
		changed = append(changed, p.Changed())
	}
	c.modified(changed...)
	return c.JSON(http.StatusOK, map[string]any{"resource_providers": bodies})
}

// providerFilter reads the query string of the provider list.
func (c *call) providerFilter(q query) (f engine.ProviderFilter, err error) {
	if err := q.check(c.schemaFor("providers", 0, 3, 4, sinceTrees, 18)); err != nil {
		return f, err
	}
	f.Name, f.UUID, f.InTree = q.last("name"), q.last("uuid"), q.last("in_tree")
	if q.has("member_of") {
		if f.Aggregates, err = parseMemberOf(q.values["member_of"], "", c.version); err != nil {
			return f, err
		}
	}
	if q.has("resources") {
		if f.Resources, err = parseResources(q.last("resources")); err != nil {
			return f, err
		}
	}
	if q.has("required") {
		f.Traits, err = parseRequired(q.values["required"], c.version)
	}
	return f, err
}

func createProvider(c *call) error {
	body, err := c.body(c.schemaFor("provider-post", 0, sinceTrees))
	if err != nil {
		return err
	}
	n := engine.NewProvider{Name: text(body["name"]), Parent: text(body["parent_provider_uuid"])}
	if sent, ok := body["uuid"]; ok {
		n.UUID = uuids.Canonical(text(sent))
	} else {
		n.UUID = c.server.ids.UUID()
	}
	p, err := c.state().CreateProvider(n, c.now)
	if err != nil {
		return prefixed(err, engine.ErrInvalid, fmt.Sprintf("Unable to create resource provider \"%s\", %s: ", n.Name, n.UUID))
	}
	c.location(providerPath(p.UUID))
	if c.version < 20 {
		return c.Empty(http.StatusCreated)
	}
	c.modified(p.Changed())
	return c.JSON(http.StatusOK, c.providerBody(p))
}

func getProvider(c *call, p engine.Inspection) error {
	c.modified(p.Changed())
	return c.JSON(http.StatusOK, c.providerBody(p.Provider))
}

func updateProvider(c *call) error {
	uuid := c.PathValue("uuid")
	before, err := c.server.state.Inspect(uuid)
	if err != nil {
		return err
	}
	body, err := c.body(c.schemaFor("provider-put", 0, sinceTrees))
	if err != nil {
		return err
	}
	parent, sent := body["parent_provider_uuid"]
	p, err := c.state().UpdateProvider(uuid, engine.ProviderUpdate{
		Name: text(body["name"]), SetParent: sent, Parent: text(parent), Reparent: c.version >= 37,
	}, c.now)
	if err != nil {
		return prefixed(err, engine.ErrInvalid, fmt.Sprintf("Unable to save resource provider %s: ", uuid))
	}
	c.noCache()
	if !before.Updated.IsZero() || before.Parent == "" { // creating a root counts as an update of it
		c.modified(before.Changed())
	}
	return c.JSON(http.StatusOK, c.providerBody(p))
}

func deleteProvider(c *call) error {
	return c.done(c.state().DeleteProvider(c.PathValue("uuid")))
}
