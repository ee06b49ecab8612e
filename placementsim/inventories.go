package placementsim

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
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
	Generation  int                    `json:"resource_provider_generation"`
	Inventories listing[inventoryBody] `json:"inventories"`
}

func newInventoryBody(i engine.Inventory) inventoryBody {
	return inventoryBody{
		Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit,
		StepSize: i.StepSize, AllocationRatio: ratioBody(i.AllocationRatio),
	}
}

// echo is an inventory as the service repeats it after a write: numbers as they were sent, and the defaults of the
// other fields.
func echo(sent *schema.Object) listing[json.RawMessage] {
	var body listing[json.RawMessage]
	for _, field := range [...]struct{ name, fallback string }{
		{"total", "0"}, {"reserved", "0"}, {"min_unit", "1"}, {"max_unit", "2147483647"}, {"step_size", "1"}, {"allocation_ratio", "1.0"},
	} {
		text := field.fallback
		if value, found := sent.Find(field.name); found {
			text = schema.Repr(value)
		}
		body.add(field.name, json.RawMessage(text))
	}
	return body
}

// writeEcho answers the write of one inventory.
func (c *call) writeEcho(status int, p engine.Inspection, sent *schema.Object) error {
	c.modified()
	body := echo(sent)
	body.add("resource_provider_generation", json.RawMessage(strconv.Itoa(p.Generation)))
	return c.JSON(status, body)
}

// readInventory fills in the defaults of what a body leaves out.
func readInventory(fields *schema.Object) engine.Inventory {
	get := func(key string, fallback int) int {
		if value, sent := fields.Find(key); sent {
			return int(integer(value))
		}
		return fallback
	}
	i := engine.Inventory{
		Total: get("total", 0), Reserved: get("reserved", 0), MinUnit: get("min_unit", 1),
		MaxUnit: get("max_unit", math.MaxInt32), StepSize: get("step_size", 1), AllocationRatio: 1,
	}
	if value, sent := fields.Find("allocation_ratio"); sent {
		i.AllocationRatio = number(value)
	}
	return i
}

func (c *call) inventoryWrite() engine.InventoryWrite {
	return engine.InventoryWrite{AllowFull: c.version >= 26, Now: c.now}
}

// writeInventories answers all inventories. Without any, the answer has no
// last-modified, as in the service.
func (c *call) writeInventories(p engine.Inspection) error {
	body := inventoriesBody{Generation: p.Generation}
	var changed []time.Time
	for _, i := range p.Inventories {
		body.Inventories.add(i.Class, newInventoryBody(i.Inventory))
		changed = append(changed, i.Changed)
	}
	if changed == nil {
		c.noCache()
	} else {
		c.modified(changed...)
	}
	return c.JSON(http.StatusOK, body)
}

func getInventory(c *call, p engine.Inspection) error {
	class := c.PathValue("class")
	for _, i := range p.Inventories {
		if i.Class == class {
			c.modified(i.Changed)
			return c.JSON(http.StatusOK, oneInventoryBody{p.Generation, newInventoryBody(i.Inventory)})
		}
	}
	return &simhttp.Error{Status: http.StatusNotFound, Text: "No inventory of class " + class + " for " + c.PathValue("uuid")}
}

// inventoryFailure words a refused write.
func inventoryFailure(err error, verb, uuid string) error {
	return prefixed(err, engine.ErrCapacity, "Unable to "+verb+" inventory for resource provider "+uuid+": ")
}

func postInventory(c *call) error {
	uuid := c.PathValue("uuid")
	body, err := c.bodyAbout(uuid, "inventory-post")
	if err != nil {
		return err
	}
	class, spec := text(body.Get("resource_class")), readInventory(body)
	p, err := c.state().AddInventory(uuid, class, spec, c.inventoryWrite())
	if err != nil {
		return prefixed(inventoryFailure(err, "create", uuid), engine.ErrUnknownClass,
			"Unable to create inventory for resource provider "+uuid+": ")
	}
	c.location(providerPath(uuid) + "/inventories/" + url.PathEscape(class))
	return c.writeEcho(http.StatusCreated, p, body)
}

func putInventory(c *call) error {
	uuid, class := c.PathValue("uuid"), c.PathValue("class")
	body, err := c.bodyAbout(uuid, "inventory-put")
	if err != nil {
		return err
	}
	spec := readInventory(body)
	p, err := c.state().SetInventory(uuid, class, generationIn(body), spec, c.inventoryWrite())
	if err != nil {
		return inventoryFailure(err, "update", uuid)
	}
	return c.writeEcho(http.StatusOK, p, body)
}

func putInventories(c *call) error {
	uuid := c.PathValue("uuid")
	body, err := c.bodyAbout(uuid, "inventories-put")
	if err != nil {
		return err
	}
	specs, err := c.readInventories(body.Get("inventories"))
	if err != nil {
		return err
	}
	p, err := c.state().SetInventories(uuid, generationIn(body), specs, c.inventoryWrite())
	if err != nil {
		err = prefixed(inventoryFailure(err, "update", uuid), engine.ErrInventoryInUse, "update conflict: ")
		return prefixed(err, engine.ErrUnknownClass, "Unknown resource class in inventory for resource provider "+uuid+": ")
	}
	var echoes listing[listing[json.RawMessage]]
	for class, sent := range object(body.Get("inventories")).All() {
		echoes.add(class, echo(object(sent)))
	}
	if len(echoes) == 0 {
		c.noCache()
	} else {
		c.modified()
	}
	return c.JSON(http.StatusOK, map[string]any{"resource_provider_generation": p.Generation, "inventories": echoes})
}

// readInventories reads a map of inventories by class. The schema does not look
// at keys that are no class names; they are unknown classes later, provided
// that their values are records at all. The service fails for others.
func (c *call) readInventories(value any) (map[string]engine.Inventory, error) {
	specs := make(map[string]engine.Inventory, object(value).Len())
	for class, record := range object(value).All() {
		fields := object(record)
		if c.server.config.UpstreamQuirks && fields != nil && fields.Get("total") == nil {
			return nil, uncaught("unsupported operand type(s) for -: 'NoneType' and 'int'")
		}
		if fields.Get("total") == nil {
			return nil, badRequest("JSON does not validate: 'total' is a required property\n\nOn instance['inventories'][" + schema.Repr(class) + "]")
		}
		specs[class] = readInventory(fields)
	}
	return specs, nil
}

func deleteInventories(c *call) error {
	return c.done(c.state().DeleteInventories(c.PathValue("uuid"), c.now))
}

func deleteInventory(c *call) error {
	uuid, class := c.PathValue("uuid"), c.PathValue("class")
	if _, err := c.server.state.Inspect(uuid); err != nil {
		return err
	}
	err := answered(c.state().DeleteInventory(uuid, class, c.now))
	return c.done(prefixed(err, engine.ErrConcurrentUpdate, "Unable to delete inventory of class "+class+": "))
}

func postReshaper(c *call) error {
	body, err := c.body(c.schemaFor("reshaper", 30, 34, 38))
	if err != nil {
		return err
	}
	reshape := engine.Reshape{Claims: c.readClaims(body.Get("allocations"))}
	for uuid, value := range object(body.Get("inventories")).All() {
		entry := object(value)
		specs := make(map[string]engine.Inventory)
		for class, record := range object(entry.Get("inventories")).All() {
			specs[class] = readInventory(object(record))
		}
		reshape.Inventories = append(reshape.Inventories, engine.ReshapeInventory{
			Provider: uuid, Generation: int(integer(entry.Get("resource_provider_generation"))), Inventories: specs,
		})
	}
	err = c.state().Reshape(reshape, c.writes())
	if errors.Is(err, engine.ErrNotFound) {
		return &simhttp.Error{Status: http.StatusBadRequest, Code: codeProviderNotFound, Text: err.Error()}
	}
	err = prefixed(err, engine.ErrUnknownClass, "malformed reshaper data: ")
	return c.done(prefixed(err, engine.ErrInventoryInUse, "update conflict: "))
}
