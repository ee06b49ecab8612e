package placementsim

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

type inventoryBody struct {
	Total           int       `json:"total"`
	Reserved        int       `json:"reserved"`
	MinUnit         int       `json:"min_unit"`
	MaxUnit         int       `json:"max_unit"`
	StepSize        int       `json:"step_size"`
	AllocationRatio ratioBody `json:"allocation_ratio"`
}

// ratioBody is a number that is written with a fraction, as Python does.
type ratioBody float64

// MarshalJSON implements json.Marshaler.
func (r ratioBody) MarshalJSON() ([]byte, error) { return []byte(schema.ReprFloat(float64(r))), nil }

type oneInventoryBody struct {
	Generation int `json:"resource_provider_generation"`
	inventoryBody
}

type inventoriesBody struct {
	Generation  int                      `json:"resource_provider_generation"`
	Inventories map[string]inventoryBody `json:"inventories"`
}

func newInventoryBody(i engine.Inventory) inventoryBody {
	return inventoryBody{
		Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit,
		StepSize: i.StepSize, AllocationRatio: ratioBody(i.AllocationRatio),
	}
}

// readInventory fills in the defaults of what a body leaves out.
func readInventory(fields map[string]any) engine.Inventory {
	get := func(key string, fallback int) int {
		if value, sent := fields[key]; sent {
			return int(integer(value))
		}
		return fallback
	}
	i := engine.Inventory{
		Total: get("total", 0), Reserved: get("reserved", 0), MinUnit: get("min_unit", 1),
		MaxUnit: get("max_unit", math.MaxInt32), StepSize: get("step_size", 1), AllocationRatio: 1,
	}
	if value, sent := fields["allocation_ratio"]; sent {
		i.AllocationRatio = number(value)
	}
	return i
}

func (c *call) inventoryWrite() engine.InventoryWrite {
	return engine.InventoryWrite{AllowFull: c.version >= 26, Now: c.now}
}

// writeInventories answers all inventories. Without any, the answer has no
// last-modified, as in the service.
func (c *call) writeInventories(all engine.ProviderInventories) error {
	body := inventoriesBody{all.Generation, make(map[string]inventoryBody, len(all.Inventories))}
	var newest time.Time
	for _, i := range all.Inventories {
		body.Inventories[i.Class] = newInventoryBody(i.Inventory)
		if i.Changed.After(newest) {
			newest = i.Changed
		}
	}
	if len(all.Inventories) > 0 {
		c.modified(newest)
	} else if c.version >= 15 {
		c.W.Header().Set("Cache-Control", "no-cache")
	}
	return c.JSON(http.StatusOK, body)
}

func getInventories(c *call) error {
	all, err := c.server.state.Inventories(c.PathValue("uuid"))
	if err != nil {
		return err
	}
	return c.writeInventories(all)
}

func getInventory(c *call) error {
	uuid, class := c.PathValue("uuid"), c.PathValue("class")
	all, err := c.server.state.Inventories(uuid)
	if err != nil {
		return err
	}
	for _, i := range all.Inventories {
		if i.Class == class {
			c.modified(i.Changed)
			return c.JSON(http.StatusOK, oneInventoryBody{all.Generation, newInventoryBody(i.Inventory)})
		}
	}
	return &simhttp.Error{Status: http.StatusNotFound, Text: "No inventory of class " + class + " for " + uuid}
}

// inventoryFailure words a refused write.
func inventoryFailure(err error, verb, uuid string) error {
	return prefixed(err, engine.ErrCapacity, "Unable to "+verb+" inventory for resource provider "+uuid+": ")
}

func postInventory(c *call) error {
	uuid := c.PathValue("uuid")
	if _, err := c.server.state.Provider(uuid); err != nil {
		return err
	}
	body, err := c.body("inventory-post")
	if err != nil {
		return err
	}
	class, spec := text(object(body)["resource_class"]), readInventory(object(body))
	generation, err := c.state().AddInventory(uuid, class, spec, c.inventoryWrite())
	if err != nil {
		return prefixed(inventoryFailure(err, "create", uuid), engine.ErrUnknownClass,
			"Unable to create inventory for resource provider "+uuid+": ")
	}
	c.location(providerPath(uuid) + "/inventories/" + url.PathEscape(class))
	c.modified(c.now)
	return c.JSON(http.StatusCreated, oneInventoryBody{generation, newInventoryBody(spec)})
}

func putInventory(c *call) error {
	uuid, class := c.PathValue("uuid"), c.PathValue("class")
	if _, err := c.server.state.Provider(uuid); err != nil {
		return err
	}
	body, err := c.body("inventory-put")
	if err != nil {
		return err
	}
	spec := readInventory(object(body))
	given := int(integer(object(body)["resource_provider_generation"]))
	generation, err := c.state().SetInventory(uuid, class, given, spec, c.inventoryWrite())
	if err != nil {
		return inventoryFailure(err, "update", uuid)
	}
	c.modified(c.now)
	return c.JSON(http.StatusOK, oneInventoryBody{generation, newInventoryBody(spec)})
}

func putInventories(c *call) error {
	uuid := c.PathValue("uuid")
	if _, err := c.server.state.Provider(uuid); err != nil {
		return err
	}
	body, err := c.body("inventories-put")
	if err != nil {
		return err
	}
	specs, err := readInventories(object(body)["inventories"])
	if err != nil {
		return err
	}
	given := int(integer(object(body)["resource_provider_generation"]))
	all, err := c.state().SetInventories(uuid, &given, specs, c.inventoryWrite())
	if err != nil {
		err = prefixed(inventoryFailure(err, "update", uuid), engine.ErrInventoryInUse, "update conflict: ")
		return prefixed(err, engine.ErrUnknownClass, "Unknown resource class in inventory for resource provider "+uuid+": ")
	}
	return c.writeInventories(all)
}

// readInventories reads a map of inventories by class. The schema does not look
// at keys that are no class names; they are unknown classes later, provided
// that their values are records at all.
func readInventories(value any) (map[string]engine.Inventory, error) {
	specs := make(map[string]engine.Inventory, len(object(value)))
	for class, record := range object(value) {
		fields, isObject := record.(map[string]any)
		if !isObject || fields["total"] == nil {
			return nil, badRequest("JSON does not validate: 'total' is a required property\n\nOn instance['inventories'][" + schema.Repr(class) + "]")
		}
		specs[class] = readInventory(fields)
	}
	return specs, nil
}

func deleteInventories(c *call) error {
	uuid := c.PathValue("uuid")
	if err := c.state().DeleteInventories(uuid, c.now); err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}

func deleteInventory(c *call) error {
	uuid, class := c.PathValue("uuid"), c.PathValue("class")
	err := c.state().DeleteInventory(uuid, class, c.now)
	if errors.Is(err, engine.ErrConcurrentUpdate) {
		return prefixed(err, engine.ErrConcurrentUpdate, "Unable to delete inventory of class "+class+": ")
	}
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}
