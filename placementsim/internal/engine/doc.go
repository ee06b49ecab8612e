// Package engine is the state of a Placement service and its transitions:
// providers in trees, inventories, traits, aggregates, consumers and their
// allocations, and the search for allocation candidates.
//
// It deliberately knows nothing of HTTP, JSON, microversions, tokens or
// clocks: callers pass the present time in and get plain values or an *[Error]
// out. Every method takes the lock itself, is atomic, and returns copies.
//
// The behaviour follows placement/objects/resource_provider.py,
// allocation.py, allocation_candidate.py, research_context.py, inventory.py,
// trait.py, resource_class.py, consumer.py and reshaper.py of the Placement
// service (2026 development cycle, microversion 1.39).
//
// Candidates are found tree by tree, and the search stops at the limit. Indexes over blocks of 64
// trees let it skip trees without candidates. Per resource class, and per class and set of
// traits, they hold the largest amount that one provider of each tree can still provide; per
// trait and per aggregate, the trees that have it.
//
//	state := engine.New(traits, collation.Exact, now)
//	_, err := state.CreateProvider(engine.NewProvider{UUID: uuid, Name: "cn0"}, now)
package engine
