package placementsim

import (
	"net/http"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceAggregateGeneration is the microversion from which aggregates are
// written under a generation.
const sinceAggregateGeneration version = 19

func (c *call) writeAggregates(a engine.ProviderAggregates) error {
	body := map[string]any{"aggregates": a.UUIDs}
	if c.version >= sinceAggregateGeneration {
		body["resource_provider_generation"] = a.Generation
	}
	c.modified(c.now)
	return c.JSON(http.StatusOK, body)
}

func getAggregates(c *call) error {
	a, err := c.server.state.ProviderAggregates(c.PathValue("uuid"))
	if err != nil {
		return err
	}
	return c.writeAggregates(a)
}

func putAggregates(c *call) error {
	uuid := c.PathValue("uuid")
	if _, err := c.server.state.Provider(uuid); err != nil {
		return err
	}
	var uuids []string
	var generation *int
	if c.version < sinceAggregateGeneration {
		body, err := c.body("aggregates-1.1")
		if err != nil {
			return err
		}
		uuids = textList(body)
	} else {
		body, err := c.body("aggregates-1.19")
		if err != nil {
			return err
		}
		given := int(integer(object(body)["resource_provider_generation"]))
		uuids, generation = textList(object(body)["aggregates"]), &given
	}
	a, err := c.state().SetAggregates(uuid, generation, uuids, c.now)
	if err != nil {
		return err
	}
	return c.writeAggregates(a)
}
