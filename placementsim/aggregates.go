package placementsim

import (
	"net/http"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceAggregateGeneration is the microversion from which aggregates are
// written under a generation.
const sinceAggregateGeneration version = 19

func (c *call) writeAggregates(p engine.Inspection) error {
	body := map[string]any{"aggregates": p.Aggregates}
	if c.version >= sinceAggregateGeneration {
		body["resource_provider_generation"] = p.Generation
	}
	c.modified()
	return c.JSON(http.StatusOK, body)
}

func putAggregates(c *call) error {
	uuid := c.PathValue("uuid")
	if _, err := c.server.state.Inspect(uuid); err != nil {
		return err
	}
	body, err := c.anyBody(c.schemaFor("aggregates", 1, sinceAggregateGeneration))
	if err != nil {
		return err
	}
	list, generation := body, (*int)(nil) // the body is the list itself at first
	if c.version >= sinceAggregateGeneration {
		list, generation = object(body).Get("aggregates"), generationIn(object(body))
	}
	p, err := c.state().SetAggregates(uuid, generation, textList(list), c.now)
	if err != nil {
		return err
	}
	p.Aggregates = textList(list) // as they were sent
	return c.writeAggregates(p)
}
