package placementsim

import (
	"cmp"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

const (
	// sinceConsumerGeneration is the microversion from which writes of
	// allocations name the consumer's generation.
	sinceConsumerGeneration version = 28
	// sinceConsumerType is the microversion that added consumer types.
	sinceConsumerType version = 38

	// incompleteConsumer is the project and user of consumers written before
	// microversion 1.8.
	incompleteConsumer = "00000000-0000-0000-0000-000000000000"
	// unknownType is the type under which a consumer without a type is listed.
	unknownType = "unknown"
)

// schemaFor returns the name of the newest schema that the call's microversion
// has.
func (c *call) schemaFor(name string, versions ...version) string {
	best := versions[0]
	for _, v := range versions {
		if c.version >= v {
			best = v
		}
	}
	return name + "-" + best.String()
}

// readClaim reads the new allocations of one consumer.
func (c *call) readClaim(consumer string, body *schema.Object) engine.Claim {
	claim := engine.Claim{
		Consumer: consumer, Project: incompleteConsumer, User: incompleteConsumer,
		CheckGeneration: c.version >= sinceConsumerGeneration,
		SetType:         c.version >= sinceConsumerType, Type: text(body.Get("consumer_type")),
	}
	if c.version >= 8 {
		claim.Project, claim.User = text(body.Get("project_id")), text(body.Get("user_id"))
	}
	if given := body.Get("consumer_generation"); given != nil {
		generation := int(integer(given))
		claim.Generation = &generation
	}
	claim.Allocations = readAllocations(body.Get("allocations"))
	return claim
}

// readAllocations reads both forms, in the order in which they were sent: a list of
// providers, or a map. A provider that a list names twice counts once, with its last resources.
func readAllocations(value any) []engine.ProviderAmount {
	entries := value
	if list, isList := value.([]any); isList {
		byProvider := new(schema.Object)
		for _, item := range list {
			byProvider.Set(text(object(object(item).Get("resource_provider")).Get("uuid")), item)
		}
		entries = byProvider
	}
	var amounts []engine.ProviderAmount
	for provider, entry := range object(entries).All() {
		for class, amount := range object(object(entry).Get("resources")).All() {
			amounts = append(amounts, engine.ProviderAmount{Provider: provider, Class: class, Amount: integer(amount)})
		}
	}
	return amounts
}

func (c *call) writes() engine.Writes {
	w := engine.Writes{Now: c.now, KeepLeftovers: !c.server.config.NoLeftoverConsumers}
	if c.server.release.overfull == refused {
		w.Capacity = engine.CapacityKept
	}
	return w
}

func putAllocations(c *call) error {
	consumer := c.PathValue("consumer")
	if !uuids.Like(consumer) {
		return badRequest("Malformed consumer_uuid: " + consumer)
	}
	consumer = uuids.Canonical(consumer)
	body, err := c.body(c.schemaFor("allocations-put", 0, 8, 12, 28, 34, 38))
	if err != nil {
		return err
	}
	claim := c.readClaim(consumer, body)
	err = c.claim(consumer, []engine.Claim{claim})
	return c.done(prefixed(err, engine.ErrUnknownClass, "Unable to allocate inventory for consumer "+consumer+": "))
}

func postAllocations(c *call) error {
	body, err := c.anyBody(c.schemaFor("allocations-post", 13, 28, 34, 38))
	if err != nil {
		return err
	}
	err = c.claim("", c.readClaims(body))
	return c.done(prefixed(err, engine.ErrUnknownClass, "Unable to allocate inventory "))
}

// readClaims reads a map of claims by consumer.
func (c *call) readClaims(body any) []engine.Claim {
	var claims []engine.Claim
	for consumer, claim := range object(body).All() {
		claims = append(claims, c.readClaim(consumer, object(claim)))
	}
	return claims
}

func deleteAllocations(c *call) error {
	return c.done(answered(c.state().Release(c.PathValue("consumer"))))
}

type resourcesBody struct {
	Resources  listing[int64] `json:"resources"`
	Generation int            `json:"generation"`
}

type consumerBody struct {
	Allocations listing[*resourcesBody] `json:"allocations"`
	Project     string                  `json:"project_id,omitempty"`
	User        string                  `json:"user_id,omitempty"`
	Generation  *int                    `json:"consumer_generation,omitempty"`
	Type        string                  `json:"consumer_type,omitempty"`
}

func getAllocations(c *call) error {
	consumer, generations, found := c.server.state.ConsumerAllocations(c.PathValue("consumer"))
	var body consumerBody
	if !found {
		c.modified()
		return c.JSON(http.StatusOK, body)
	}
	entries := make(map[string]*resourcesBody)
	for _, a := range consumer.Allocations {
		entry, ok := entries[a.Provider]
		if !ok {
			entry = &resourcesBody{Generation: generations[a.Provider]}
			entries[a.Provider] = entry
			body.Allocations.add(a.Provider, entry)
		}
		entry.Resources.add(a.Class, a.Amount)
	}
	if c.version >= 12 {
		body.Project, body.User = consumer.Project, consumer.User
	}
	if c.version >= sinceConsumerGeneration {
		body.Generation = &consumer.Generation
	}
	if c.version >= sinceConsumerType {
		body.Type = typeOrUnknown(consumer.Type)
	}
	c.modified(consumer.Created)
	return c.JSON(http.StatusOK, body)
}

func typeOrUnknown(kind string) string { return cmp.Or(kind, unknownType) }

func getProviderAllocations(c *call, p engine.Inspection) error {
	generation, consumers, err := c.server.state.ProviderAllocations(p.UUID)
	if err != nil {
		return err
	}
	type entry struct {
		Resources  listing[int64] `json:"resources"`
		Generation *int           `json:"consumer_generation,omitempty"`
	}
	var entries listing[entry]
	var created []time.Time
	for _, consumer := range consumers {
		var e entry
		for _, a := range consumer.Allocations {
			e.Resources.add(a.Class, a.Amount)
		}
		if c.version >= sinceConsumerGeneration {
			e.Generation = &consumer.Generation
		}
		entries.add(consumer.UUID, e)
		created = append(created, consumer.Created)
	}
	c.modified(created...)
	return c.JSON(http.StatusOK, map[string]any{"resource_provider_generation": generation, "allocations": entries})
}
