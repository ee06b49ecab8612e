package placementsim

import (
	"errors"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

func postReshaper(c *call) error {
	body, err := c.body(c.schemaFor("reshaper", 30, 34, 38))
	if err != nil {
		return err
	}
	reshape := engine.Reshape{Claims: c.readClaims(object(body["allocations"]))}
	inventories := object(body["inventories"])
	for _, uuid := range sortedKeys(inventories) {
		entry := object(inventories[uuid])
		specs, err := readInventories(entry["inventories"])
		if err != nil {
			return err
		}
		reshape.Inventories = append(reshape.Inventories, engine.ReshapeInventory{
			Provider: uuid, Generation: int(integer(entry["resource_provider_generation"])), Inventories: specs,
		})
	}
	err = c.state().Reshape(reshape, c.writes())
	if errors.Is(err, engine.ErrNotFound) {
		return &simhttp.Error{Status: http.StatusBadRequest, Code: codeProviderNotFound, Text: err.Error()}
	}
	return c.done(prefixed(err, engine.ErrInventoryInUse, "update conflict: "))
}
