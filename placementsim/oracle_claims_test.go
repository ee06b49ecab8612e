//go:build oracle || differential

package placementsim

import (
	"fmt"
	"maps"
	"slices"
)

// consumerGeneration draws the generation of a consumer, mostly the right one,
// nil for a new one.
func (g *oracleGenerator) consumerGeneration(stored int) any {
	switch {
	case g.chance(92) && stored < 0:
		return nil
	case g.chance(92):
		return max(0, stored)
	}
	g.faults++
	return pick[any](g, nil, 0, 1, 2)
}

// resources draws amounts of classes that a provider has, mostly such that
// fit.
func (g *oracleGenerator) resources(uuid string) map[string]any {
	resources := make(map[string]any)
	for _, owned := range g.inspect(uuid).Inventories {
		if g.chance(60) {
			amount := 1 + g.IntN(3)
			if g.chance(70) {
				amount = max(owned.MinUnit, owned.StepSize)
			}
			resources[owned.Class] = amount
		}
	}
	if len(resources) == 0 || g.chance(3) {
		resources[g.class()] = 1 + g.IntN(3)
	}
	return resources
}

// providersWithRoom lists providers that have inventories, or any.
func (g *oracleGenerator) providersWithRoom() []string {
	var list []string
	for _, p := range g.Providers {
		if len(p.Inventories) > 0 {
			list = append(list, p.UUID)
		}
	}
	if len(list) == 0 || g.chance(5) {
		list = append(list, g.provider())
	}
	return list
}

// claims draws resources by provider.
func (g *oracleGenerator) claims() map[string]map[string]any {
	claims := make(map[string]map[string]any)
	for _, uuid := range some(g, 1, 2, g.providersWithRoom()...) {
		claims[uuid] = g.resources(uuid)
	}
	return claims
}

// claimFor is the body of an allocation write for one consumer. A body for a single consumer has
// the form without lists from 1.12 on only.
func (g *oracleGenerator) claimFor(stored int, alone bool, claims map[string]map[string]any) map[string]any {
	body := map[string]any{}
	if g.version >= 12 || !alone {
		byProvider := make(map[string]any)
		for uuid, resources := range claims {
			entry := map[string]any{"resources": resources}
			if g.chance(5) {
				entry["generation"] = g.IntN(4)
			}
			byProvider[uuid] = entry
		}
		body["allocations"] = byProvider
	} else {
		list := []any{}
		for _, uuid := range sortedKeys(claims) {
			list = append(list, map[string]any{"resource_provider": map[string]any{"uuid": uuid}, "resources": claims[uuid]})
		}
		body["allocations"] = list
	}
	if g.version >= 8 {
		body["project_id"], body["user_id"] = pick(g, "p0", "p1"), pick(g, "u0", "u1")
	}
	if g.version >= 28 {
		body["consumer_generation"] = g.consumerGeneration(stored)
	}
	if g.version >= 34 && g.chance(40) {
		body["mappings"] = map[string]any{pick(g, "", "1", "_A"): []string{pick(g, oracleProviders()...)}}
	}
	if g.version >= 38 {
		body["consumer_type"] = pick(g, "INSTANCE", "MIGRATION")
	}
	return body
}

func (g *oracleGenerator) putAllocations() oracleRequest {
	consumer := g.consumer()
	claims := g.claims()
	if g.chance(15) {
		claims = nil
		if g.version < 28 {
			g.faults++
		}
	}
	path := consumer.UUID
	if g.chance(3) {
		g.faults++
		path = pick(g, "x", "cccccccc000040008000000000000001", "CCCCCCCC-0000-4000-8000-000000000002")
	}
	return g.write("PUT", "/allocations/"+path, g.claimFor(consumer.Generation, true, claims))
}

func (g *oracleGenerator) postAllocations() oracleRequest {
	body := make(map[string]any)
	for range 1 + g.IntN(2) {
		consumer := g.consumer()
		claims := g.claims()
		if g.chance(30) {
			claims = nil
		}
		body[consumer.UUID] = g.claimFor(consumer.Generation, false, claims)
	}
	if g.chance(20) {
		g.swap(body)
	}
	return g.write("POST", "/allocations", body)
}

// swap moves all allocations of one consumer to another, as a migration does.
func (g *oracleGenerator) swap(body map[string]any) {
	if len(g.Consumers) == 0 {
		return
	}
	from, to := g.Consumers[g.IntN(len(g.Consumers))], g.consumer()
	if from.UUID == to.UUID || len(from.Allocations) == 0 {
		return
	}
	claims := make(map[string]map[string]any)
	for _, a := range from.Allocations {
		if claims[a.Provider] == nil {
			claims[a.Provider] = make(map[string]any)
		}
		claims[a.Provider][a.Class] = a.Amount
	}
	clear(body)
	body[from.UUID] = g.claimFor(from.Generation, false, nil)
	body[to.UUID] = g.claimFor(to.Generation, false, claims)
}

func (g *oracleGenerator) reshape() oracleRequest {
	inventories, allocations := make(map[string]any), make(map[string]any)
	if g.chance(60) {
		g.moveClass(inventories, allocations)
	}
	if len(inventories) == 0 {
		for _, uuid := range some(g, 1, 2, oracleProviders()...) {
			inventories[uuid] = g.newInventories(uuid)
		}
		for range g.IntN(3) {
			consumer := g.consumer()
			claims := g.claims()
			if g.chance(20) {
				claims = nil
			}
			allocations[consumer.UUID] = g.claimFor(consumer.Generation, false, claims)
		}
	}
	return g.write("POST", "/reshaper", map[string]any{"inventories": inventories, "allocations": allocations})
}

// moveClass moves an inventory from one provider to another with all that is
// allocated of it.
func (g *oracleGenerator) moveClass(inventories, allocations map[string]any) {
	if len(g.Providers) < 2 {
		return
	}
	from, to := g.Providers[g.IntN(len(g.Providers))], g.Providers[g.IntN(len(g.Providers))]
	if from.UUID == to.UUID || len(from.Inventories) == 0 {
		return
	}
	moved := from.Inventories[g.IntN(len(from.Inventories))]
	kept, grown := make(map[string]any), make(map[string]any)
	for _, owned := range from.Inventories {
		if owned.Class != moved.Class {
			kept[owned.Class] = map[string]any{"total": owned.Total}
		}
	}
	for _, owned := range to.Inventories {
		grown[owned.Class] = map[string]any{"total": owned.Total}
	}
	grown[moved.Class] = map[string]any{"total": moved.Total}
	inventories[from.UUID] = map[string]any{"resource_provider_generation": g.generation(from.UUID), "inventories": kept}
	inventories[to.UUID] = map[string]any{"resource_provider_generation": g.generation(to.UUID), "inventories": grown}
	for _, consumer := range g.Consumers {
		claims := make(map[string]map[string]any)
		for _, a := range consumer.Allocations {
			provider := a.Provider
			if provider == from.UUID && a.Class == moved.Class {
				provider = to.UUID
			}
			if claims[provider] == nil {
				claims[provider] = make(map[string]any)
			}
			claims[provider][a.Class] = a.Amount
		}
		if slices.ContainsFunc(sortedKeys(claims), func(uuid string) bool { return uuid == to.UUID }) && g.chance(95) {
			allocations[consumer.UUID] = g.claimFor(consumer.Generation, false, claims)
		}
	}
}

// rawJSON is JSON text that a value cannot hold.
type rawJSON string

// MarshalJSON implements [encoding/json.Marshaler].
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// spoil changes one place of a body: a key is dropped, added or doubled, or a
// value replaced. Sometimes the text is not JSON at all.
func (g *oracleGenerator) spoil(body any) string {
	g.faults++
	if g.chance(8) {
		return pick(g, "{", "null", "[]", `"x"`, "1", `{"a":`, "{}", "true", `{"name":"n0"} x`, "\xff\xfe")
	}
	type place struct {
		set  func(any)
		drop func()
		at   any
	}
	var places []place
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range sortedKeys(value) {
				places = append(places, place{func(v any) { value[key] = v }, func() { delete(value, key) }, value[key]})
				walk(value[key])
			}
		case []any:
			for i := range value {
				places = append(places, place{func(v any) { value[i] = v }, nil, value[i]})
				walk(value[i])
			}
		}
	}
	walk(body)
	if len(places) == 0 {
		return asJSON(g.junk())
	}
	at := places[g.IntN(len(places))]
	within, isObject := at.at.(map[string]any)
	switch {
	case g.chance(25) && at.drop != nil:
		at.drop()
	case g.chance(25) && isObject:
		within[pick(g, "unknown", "uuid", "VCPU", "not a class", "total", "generation")] = g.junk()
	default:
		at.set(g.junk())
	}
	return asJSON(body)
}

// junk draws a value that few places want, and that mostly breaks one rule.
func (g *oracleGenerator) junk() any {
	if g.chance(75) {
		return pick[any](g, nil, true, -1, 0, 1, 1.5, rawJSON("4.0"), rawJSON("1e30"), int64(2147483647), int64(2147483648), "x", "VCPU",
			"\u2603", oracleProviders()[0], "AAAAAAAA-0000-4000-8000-000000000001")
	}
	g.faults++ // it can break several rules at once
	return pick[any](g, "", []any{}, map[string]any{}, []any{"x"}, []any{"x", "x"}, map[string]any{"x": 1}, fmt.Sprintf("%0300d", 0))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
