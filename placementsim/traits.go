package placementsim

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

func listTraits(c *call) error {
	filter, err := c.traitFilter(parseQuery(c.URL.RawQuery))
	if err != nil {
		return err
	}
	names := []string{}
	var created []time.Time
	for _, t := range c.server.state.Traits(filter) {
		names = append(names, t.Name)
		created = append(created, t.Created)
	}
	c.modified(created...)
	return c.JSON(http.StatusOK, map[string]any{"traits": names})
}

// traitFilter reads the query string of the trait list. An operator that is
// not known filters nothing.
func (c *call) traitFilter(q query) (f engine.TraitFilter, err error) {
	if err := c.checkQuery(q, "traits"); err != nil {
		return f, err
	}
	if q.has("name") {
		value := q.last("name")
		operator, operand, found := strings.Cut(value, ":")
		switch {
		case !found:
			return f, badRequest(`Badly formatted name parameter. Expected name query string parameter in form: ?name=[in|startswith]:[name1,name2|prefix]. Got: "` + value + `"`)
		case operator == "in":
			f.Names = strings.Split(operand, ",")
		case operator == "startswith" && c.server.config.UpstreamQuirks:
			f.Like = likePattern(operand)
		case operator == "startswith":
			f.Prefix = operand
		}
	}
	if q.has("associated") {
		associated := strings.ToLower(q.last("associated"))
		if associated != "true" && associated != "false" {
			return f, badRequest(`The query parameter "associated" only accepts "true" or "false"`)
		}
		wanted := associated == "true"
		f.Associated = &wanted
	}
	return f, nil
}

func getTrait(c *call) error {
	t, err := c.server.state.Trait(c.PathValue("name"))
	if err != nil {
		return answered(err)
	}
	c.modified(t.Created)
	return c.Empty(http.StatusNoContent)
}

func putTrait(c *call) error {
	name := c.PathValue("name")
	if !customName.MatchString(name) || len(name) > maxName {
		return badRequest(`The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"`)
	}
	t, created := c.state().EnsureTrait(name, c.now)
	c.location("/traits/" + url.PathEscape(name))
	c.modified(t.Created)
	if created {
		return c.Empty(http.StatusCreated)
	}
	return c.Empty(http.StatusNoContent)
}

func deleteTrait(c *call) error {
	return c.done(answered(c.state().DeleteTrait(c.PathValue("name"))))
}

type providerTraitsBody struct {
	Traits     []string `json:"traits"`
	Generation int      `json:"resource_provider_generation"`
}

func (c *call) writeProviderTraits(p engine.Inspection) error {
	if len(p.Traits) == 0 {
		c.modified()
	} else {
		c.modified(p.NewestTrait)
	}
	return c.JSON(http.StatusOK, providerTraitsBody{append([]string{}, p.Traits...), p.Generation})
}

func putProviderTraits(c *call) error {
	body, err := c.body("traits-put")
	if err != nil {
		return err
	}
	p, err := c.state().SetProviderTraits(c.PathValue("uuid"), generationIn(body), textList(body.Get("traits")), c.now)
	if err != nil {
		return unknownTraits(err)
	}
	return c.writeProviderTraits(p)
}

// unknownTraits words the error about traits that do not exist as it is worded
// for the traits of a provider.
func unknownTraits(err error) error {
	var refused *engine.Error
	if !errors.As(err, &refused) || refused.Kind != engine.ErrUnknownTrait {
		return err
	}
	return badRequest("No such trait " + strings.Join(refused.Names, ", "))
}

func deleteProviderTraits(c *call) error {
	_, err := c.state().SetProviderTraits(c.PathValue("uuid"), nil, nil, c.now)
	return c.done(err)
}
