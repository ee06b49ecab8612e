//go:build oracle || differential

package placementsim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// oracleGenerator draws requests that suit what the services hold.
type oracleGenerator struct {
	*rand.Rand
	pair *oraclePair
	dump
	version version
	faults  int      // made in the request that is being drawn
	home    []string // classes of the tree that a query would like to be served by
	quiet   bool     // the world is only asked, not changed
}

func newOracleGenerator(r *rand.Rand, pair *oraclePair) *oracleGenerator {
	g := &oracleGenerator{Rand: r, pair: pair}
	g.quiet = g.chance(35)
	return g
}

func (g *oracleGenerator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *oracleGenerator, from ...T) T { return from[g.IntN(len(from))] }

// some draws a part of a list, of least to most items, in random order.
func some[T any](g *oracleGenerator, least, most int, from ...T) []T {
	shuffled := slices.Clone(from)
	g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return shuffled[:min(len(shuffled), least+g.IntN(most-least+1))]
}

// look notes what there is, invented uuids labelled.
func (g *oracleGenerator) look() {
	g.dump = dumpOf(g.pair.ours)
	label := g.pair.oursIDs.labels
	for i := range g.Providers {
		p := &g.Providers[i]
		p.UUID, p.Parent, p.Root = label(p.UUID), label(p.Parent), label(p.Root)
	}
	for i := range g.Consumers {
		for j := range g.Consumers[i].Allocations {
			a := &g.Consumers[i].Allocations[j]
			a.Provider = label(a.Provider)
		}
	}
}

func numbered(prefix string, n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d", prefix, i))
	}
	return list
}

func oracleProviders() []string {
	return numbered("aaaaaaaa-0000-4000-8000-00000000000", 9)
}

func oracleConsumers() []string {
	return numbered("cccccccc-0000-4000-8000-00000000000", 6)
}

func oracleAggregates() []string {
	return numbered("eeeeeeee-0000-4000-8000-00000000000", 3)
}

func oracleTraits() []string {
	return []string{"CUSTOM_T0", "CUSTOM_T1", "CUSTOM_T2", "HW_CPU_X86_AVX", "STORAGE_DISK_SSD"}
}

func oracleClasses() []string {
	return []string{"VCPU", "MEMORY_MB", "DISK_GB", "FPGA", "CUSTOM_R0"}
}

const sharingTrait = "MISC_SHARES_VIA_AGGREGATE"

// build makes a request that is well formed, with the microversion given.
func (g *oracleGenerator) build(minor int, method, target string, body any) oracleRequest {
	req := oracleRequest{method: method, target: target}
	req.header = [][2]string{{"X-Auth-Token", "admin"}, {"OpenStack-API-Version", fmt.Sprintf("placement 1.%d", minor)}}
	if body == nil {
		return req
	}
	return req.with(body)
}

// builders make the requests that build a world: names first, then trees, then
// what providers have, then allocations.
func (g *oracleGenerator) builders() []func() []oracleRequest {
	builders := []func() []oracleRequest{g.buildNames}
	sharing := g.IntN(3) // providers
	for i, uuid := range oracleProviders()[:3+g.IntN(5)] {
		builders = append(builders, func() []oracleRequest { return g.buildProvider(i, uuid, i < sharing) })
	}
	for range g.IntN(5) {
		builders = append(builders, func() []oracleRequest {
			g.look()
			g.version = 39
			return []oracleRequest{g.build(39, "PUT", "/allocations/"+pick(g, oracleConsumers()...), g.claimFor(-1, true, g.claims()))}
		})
	}
	return builders
}

// with gives a request a body.
func (r oracleRequest) with(body any) oracleRequest {
	r.body = asJSON(body)
	r.header = append(slices.Clone(r.header), [2]string{"Content-Type", "application/json"})
	return r
}

func (g *oracleGenerator) buildNames() []oracleRequest {
	requests := []oracleRequest{g.build(39, "PUT", "/resource_classes/CUSTOM_R0", nil)}
	for _, name := range oracleTraits()[:3] {
		requests = append(requests, g.build(39, "PUT", "/traits/"+name, nil))
	}
	return requests
}

func (g *oracleGenerator) buildProvider(i int, uuid string, shares bool) []oracleRequest {
	g.look()
	g.version = 39
	create := map[string]any{"uuid": uuid, "name": fmt.Sprintf("n%d", i)}
	if !shares && i > 1 && g.chance(65) {
		create["parent_provider_uuid"] = g.Providers[g.IntN(len(g.Providers))].UUID
	}
	path := "/resource_providers/" + uuid
	requests := []oracleRequest{g.build(39, "POST", "/resource_providers", create)}
	classes := some(g, 0, 4, oracleClasses()...)
	if g.quiet {
		classes = some(g, 1, 5, oracleClasses()...)
	}
	traits := some(g, 0, 2, oracleTraits()...)
	if shares {
		classes = some(g, 1, 2, "DISK_GB", "CUSTOM_R0")
		traits = append(traits, sharingTrait)
	}
	inventories := make(map[string]any)
	for _, class := range classes {
		inventories[class] = g.plainInventory()
	}
	requests = append(requests,
		g.build(39, "PUT", path+"/inventories", map[string]any{"resource_provider_generation": 0, "inventories": inventories}),
		g.build(39, "PUT", path+"/traits", map[string]any{"resource_provider_generation": 1, "traits": traits}))
	if shares || g.chance(65) {
		requests = append(requests, g.build(18, "PUT", path+"/aggregates", some(g, 1, 2, oracleAggregates()...)))
	}
	return requests
}

// plainInventory is an inventory with room, and seldom a rule.
func (g *oracleGenerator) plainInventory() map[string]any {
	inventory := map[string]any{"total": 1 + g.IntN(12)}
	g.spice(inventory, 15)
	return inventory
}

// spice adds optional keys to an inventory, each with the chance given.
func (g *oracleGenerator) spice(inventory map[string]any, percent int) {
	for _, key := range []string{"reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"} {
		if !g.chance(percent) {
			continue
		}
		switch key {
		case "reserved":
			inventory[key] = g.IntN(3)
		case "max_unit":
			inventory[key] = 1 + g.IntN(8)
		case "allocation_ratio":
			inventory[key] = pick(g, 1, 1.5, 2.0, 0.5, 16.0, 0.3)
		default:
			inventory[key] = 1 + g.IntN(3)
		}
	}
}

// provider draws the uuid of a provider, mostly one that there is.
func (g *oracleGenerator) provider() string {
	if len(g.Providers) > 0 && g.chance(92) {
		return g.Providers[g.IntN(len(g.Providers))].UUID
	}
	g.faults++
	return pick(g, append(oracleProviders(), strings.ToUpper(oracleProviders()[0]), "x", "n0")...)
}

func (g *oracleGenerator) inspect(uuid string) engine.Inspection {
	for _, p := range g.Providers {
		if p.UUID == uuid {
			return p
		}
	}
	return engine.Inspection{}
}

// generation draws the generation of a provider, mostly the right one.
func (g *oracleGenerator) generation(uuid string) int {
	right := g.inspect(uuid).Generation
	if g.chance(90) {
		return right
	}
	g.faults++
	return max(0, right+pick(g, -1, 1))
}

func (g *oracleGenerator) class() string {
	if g.chance(90) {
		return pick(g, oracleClasses()...)
	}
	g.faults++
	return pick(g, "CUSTOM_R1", "CUSTOM_NONE", "PGPU", "vcpu", "CUSTOM_")
}

func (g *oracleGenerator) trait() string {
	if g.chance(95) {
		return pick(g, append(oracleTraits(), sharingTrait)...)
	}
	g.faults++
	return pick(g, "CUSTOM_NONE", "CUSTOM_T3", "bad", "HW_NOT_KNOWN")
}

func (g *oracleGenerator) aggregate() string {
	if g.chance(95) {
		return pick(g, oracleAggregates()...)
	}
	g.faults++
	return pick(g, "eeeeeeee-0000-4000-8000-000000000009", "EEEEEEEE-0000-4000-8000-000000000000", "eeeeeeee000040008000000000000001", "x", "")
}

// consumer draws a consumer, often one that has allocations. A consumer without allocations has
// generation -1.
func (g *oracleGenerator) consumer() engine.Consumer {
	uuid := pick(g, oracleConsumers()...)
	for _, c := range g.Consumers {
		if c.UUID == uuid || g.chance(20) {
			return c
		}
	}
	return engine.Consumer{UUID: uuid, Generation: -1}
}

// decode is a copy of a value as JSON decodes it, to be spoilt.
func decode(value any) any {
	var out any
	if err := json.Unmarshal([]byte(asJSON(value)), &out); err != nil {
		return nil
	}
	return out
}

// inAnyOrder is a value as JSON with the keys of objects in random order.
func (g *oracleGenerator) inAnyOrder(value any) rawJSON {
	switch value := value.(type) {
	case map[string]any:
		var parts []string
		for _, key := range sortedKeys(value) {
			parts = append(parts, asJSON(key)+":"+string(g.inAnyOrder(value[key])))
		}
		return rawJSON("{" + strings.Join(some(g, len(parts), len(parts), parts...), ",") + "}")
	case []any:
		var parts []string
		for _, item := range value {
			parts = append(parts, string(g.inAnyOrder(item)))
		}
		return rawJSON("[" + strings.Join(parts, ",") + "]")
	}
	return rawJSON(asJSON(value))
}
