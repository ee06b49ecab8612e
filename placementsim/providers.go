package placementsim

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceTrees is the microversion that added parents and roots.
const sinceTrees version = 14

func providerPath(uuid string) string { return "/resource_providers/" + url.PathEscape(uuid) }

// providerLinks are the links of a provider below its own, and the microversions that added them.
var providerLinks = [...]addition{{0, "inventories"}, {0, "usages"}, {1, "aggregates"}, {6, "traits"}, {11, "allocations"}}

// appendProvider writes a provider at the call's microversion. Each report of an agent reads the
// providers of its host; package json would be three times slower.
func (c *call) appendProvider(b []byte, p *engine.Provider) []byte {
	href := c.server.prefix + providerPath(p.UUID)
	b = strconv.AppendInt(append(b, `{"generation":`...), int64(p.Generation), 10)
	b = appendName(append(b, `,"uuid":`...), p.UUID, `","links":[{"rel":"self","href":`)
	b = appendName(b, href, `"}`)
	for _, link := range providerLinks {
		if c.version >= link.since {
			b = appendName(append(b, `,{"rel":`...), link.name, `","href":`)
			b = append(appendName(b, href, "/"), link.name...)
			b = append(b, `"}`...)
		}
	}
	b = simhttp.AppendText(append(b, `],"name":`...), p.Name)
	if c.version < sinceTrees {
		return append(b, '}')
	}
	b = append(b, `,"parent_provider_uuid":`...)
	if p.Parent == "" {
		b = append(b, "null"...)
	} else {
		b = appendName(b, p.Parent, `"`)
	}
	return appendName(append(b, `,"root_provider_uuid":`...), p.Root, `"}`)
}

// provider answers with a provider.
func (c *call) provider(p engine.Provider) error {
	return c.written(func(b []byte) ([]byte, error) { return c.appendProvider(b, &p), nil })
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
	changed := make([]time.Time, len(providers))
	for i, p := range providers {
		changed[i] = p.Changed()
	}
	c.modified(changed...)
	return c.written(func(b []byte) ([]byte, error) {
		b = append(b, `{"resource_providers":[`...)
		for i := range providers {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.appendProvider(b, &providers[i])
		}
		return append(b, "]}"...), nil
	})
}

// providerFilter reads the query string of the provider list.
func (c *call) providerFilter(q query) (f engine.ProviderFilter, err error) {
	if err := c.checkQuery(q, c.schemaFor("providers", 0, 3, 4, sinceTrees, 18)); err != nil {
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
	n := engine.NewProvider{Name: text(body.Get("name")), Parent: text(body.Get("parent_provider_uuid"))}
	if sent, ok := body.Find("uuid"); ok {
		n.UUID = uuids.Canonical(text(sent))
	} else {
		n.UUID = c.server.ids.UUID()
	}
	p, err := c.state().CreateProvider(n, c.now)
	if err != nil {
		return prefixed(err, engine.ErrInvalid, fmt.Sprintf("Unable to create resource provider \"%s\", %s: ", n.Name, n.UUID))
	}
	p.Parent = n.Parent // as it was sent
	c.location(providerPath(p.UUID))
	if c.version < 20 {
		return c.Empty(http.StatusCreated)
	}
	c.modified(p.Changed())
	return c.provider(p)
}

func getProvider(c *call, p engine.Inspection) error {
	c.modified(p.Changed())
	return c.provider(p.Provider)
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
	parent, sent := body.Find("parent_provider_uuid")
	p, err := c.state().UpdateProvider(uuid, engine.ProviderUpdate{
		Name: text(body.Get("name")), SetParent: sent, Parent: text(parent), Reparent: c.version >= 37,
	}, c.now)
	if err != nil {
		return prefixed(err, engine.ErrInvalid, fmt.Sprintf("Unable to save resource provider %s: ", uuid))
	}
	if sent {
		p.Parent = text(parent) // as it was sent
	}
	c.noCache()
	if !before.Updated.IsZero() || before.Parent == "" { // creating a root updates it
		c.modified(before.Changed())
	}
	return c.provider(p)
}

func deleteProvider(c *call) error {
	return c.done(answered(c.state().DeleteProvider(c.PathValue("uuid"))))
}
