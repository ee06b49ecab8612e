//go:build oracle || differential

package placementsim

import (
	"net/url"
	"strings"

	"github.com/gocyborg/gocyborg/internal/differential"
	"github.com/gocyborg/gocyborg/internal/schema"
)

// request draws the next request. A request that asks about a known defect of
// the real service is drawn anew.
func (g *oracleGenerator) request() oracleRequest {
	g.look()
	for {
		req := g.draw()
		if g.avoided(req) == "" {
			return req
		}
	}
}

// oracleKind is a kind of requests with how often it is drawn and the
// microversion that introduced it.
type oracleKind struct {
	weight int
	since  version
	draw   func(*oracleGenerator) oracleRequest
}

func oracleKinds() []oracleKind {
	return []oracleKind{
		{1, 0, func(g *oracleGenerator) oracleRequest { return g.plain("GET", "/") }},
		{5, 0, (*oracleGenerator).listProviders},
		{4, 0, (*oracleGenerator).postProvider},
		{2, 0, func(g *oracleGenerator) oracleRequest { return g.plain("GET", "/resource_providers/"+g.provider()) }},
		{4, 0, (*oracleGenerator).putProvider},
		{2, 0, func(g *oracleGenerator) oracleRequest { return g.plain("DELETE", "/resource_providers/"+g.provider()) }},
		{2, 0, (*oracleGenerator).readProviderPart},
		{4, 0, (*oracleGenerator).postInventory},
		{5, 0, (*oracleGenerator).putInventories},
		{5, 0, (*oracleGenerator).putInventory},
		{1, 0, func(g *oracleGenerator) oracleRequest {
			return g.plain("DELETE", "/resource_providers/"+g.provider()+"/inventories")
		}},
		{2, 0, func(g *oracleGenerator) oracleRequest {
			return g.plain("GET", "/resource_providers/"+g.provider()+"/inventories/"+g.class())
		}},
		{2, 0, func(g *oracleGenerator) oracleRequest {
			return g.plain("DELETE", "/resource_providers/"+g.provider()+"/inventories/"+g.class())
		}},
		{4, 1, (*oracleGenerator).putAggregates},
		{4, 6, (*oracleGenerator).putTraits},
		{1, 6, func(g *oracleGenerator) oracleRequest {
			return g.plain("DELETE", "/resource_providers/"+g.provider()+"/traits")
		}},
		{3, 6, (*oracleGenerator).listTraits},
		{2, 6, func(g *oracleGenerator) oracleRequest {
			return g.plain(pick(g, "GET", "PUT", "DELETE"), "/traits/"+g.trait())
		}},
		{4, 2, (*oracleGenerator).classes},
		{3, 0, func(g *oracleGenerator) oracleRequest { return g.plain("GET", "/allocations/"+g.consumer().UUID) }},
		{8, 0, (*oracleGenerator).putAllocations},
		{2, 0, func(g *oracleGenerator) oracleRequest { return g.plain("DELETE", "/allocations/"+g.consumer().UUID) }},
		{6, 13, (*oracleGenerator).postAllocations},
		{30, 10, (*oracleGenerator).candidates},
		{4, 9, (*oracleGenerator).usages},
		{7, 30, (*oracleGenerator).reshape},
		{2, 0, (*oracleGenerator).odd},
	}
}

// draw draws a kind, a microversion that mostly knows it, and a request, in
// which a header is seldom spoilt.
func (g *oracleGenerator) draw() oracleRequest {
	kind := g.kind()
	switch {
	case g.chance(3):
		g.version = version(g.IntN(int(maxVersion) + 1))
	case g.chance(45):
		g.version = maxVersion
	default:
		g.version = kind.since + version(g.IntN(int(maxVersion-kind.since)+1))
	}
	g.faults = 0
	req := kind.draw(g)
	if g.chance(4) {
		g.faults++
		g.spoilHeader(&req)
	}
	req.faults = g.faults
	return req
}

// kind draws a kind by weight.
func (g *oracleGenerator) kind() oracleKind {
	kinds := oracleKinds()
	if g.quiet {
		kinds = []oracleKind{{8, 10, (*oracleGenerator).candidates}, {1, 0, (*oracleGenerator).listProviders}, {1, 0, (*oracleGenerator).readProviderPart}}
	}
	total := 0
	for _, kind := range kinds {
		total += kind.weight
	}
	n, i := g.IntN(total), 0
	for ; n >= kinds[i].weight; i++ {
		n -= kinds[i].weight
	}
	return kinds[i]
}

// plain is a request without a body.
func (g *oracleGenerator) plain(method, target string) oracleRequest {
	return g.build(int(g.version), method, target, nil)
}

// write is a request with a body that is seldom spoilt.
func (g *oracleGenerator) write(method, target string, body any) oracleRequest {
	req := g.plain(method, target).with(g.inAnyOrder(decode(body)))
	if g.chance(15) {
		req.body = g.spoil(decode(body))
	}
	return req
}

// set changes a header, or adds it.
func (r *oracleRequest) set(name, value string) {
	for i := range r.header {
		if r.header[i][0] == name {
			r.header[i][1] = value
			return
		}
	}
	r.header = append(r.header, [2]string{name, value})
}

// spoilHeader changes a header, or takes one away.
func (g *oracleGenerator) spoilHeader(req *oracleRequest) {
	switch g.IntN(5) {
	case 0:
		req.set("OpenStack-API-Version", pick(g, "placement 1.40", "placement 2.0", "placement x.y", "placement 1.2.3", "placement latest", "compute 2.1",
			"compute 2.1, placement 1.17", "PLACEMENT 1.20", "1.5", "placement 0.9", "placement", "placement 1.1,placement 1.39"))
	case 1:
		req.set("X-Auth-Token", pick(g, "someone", "someone:project", "admin:project"))
	case 2:
		req.set("Content-Type", pick(g, "text/plain", "application/json; charset=utf-8", "application/xml"))
	case 3:
		req.set("Accept", pick(g, "text/html", "text/plain", "application/json", "*/*", "application/*", "text/html, application/json;q=0.5", "image/png"))
	case 4:
		i := g.IntN(len(req.header))
		req.header = append(req.header[:i:i], req.header[i+1:]...)
	}
}

// odd is a request for no route, or with a method that the route has not.
func (g *oracleGenerator) odd() oracleRequest {
	target := pick(g, "/", "/resource_providers", "/resource_providers/"+g.provider(), "/allocations", "/allocations/"+g.consumer().UUID, "/traits",
		"/traits/CUSTOM_T0", "/usages", "/reshaper", "/allocation_candidates", "/resource_classes", "/resource_classes/VCPU",
		"/resource_providers/"+g.provider()+"/inventories", "/resource_providers/"+g.provider()+"/aggregates", "/resource_providers/"+g.provider()+"/usages",
		"/resource_providers/"+g.provider()+"/traits/CUSTOM_T0", "/nowhere", "/resource_providers/", "/traits/CUSTOM%5FT0",
		"/resource_classes/CUSTOM%5FR0", "/traits/CUSTOM_%E2%98%83", "/allocations/a%20b", "/resource_classes/CUSTOM_x",
		"/allocations/"+g.consumer().UUID+"/")
	req := g.plain(pick(g, "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "DELETE"), target)
	if g.chance(40) && req.method != "HEAD" {
		return req.with(map[string]any{})
	}
	return req
}

func (g *oracleGenerator) name() string {
	return pick(g, "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "a name", "n\u2603", "n<b>&amp;\"'", "N0")
}

func (g *oracleGenerator) postProvider() oracleRequest {
	body := map[string]any{"name": g.name()}
	invents := !g.chance(85)
	if !invents {
		body["uuid"] = pick(g, oracleProviders()...)
		if g.chance(5) {
			body["uuid"] = strings.ToUpper(text(body["uuid"]))
		}
	}
	if g.version >= 14 && g.chance(50) {
		body["parent_provider_uuid"] = g.parent()
	}
	req := g.write("POST", "/resource_providers", body)
	if !strings.Contains(req.body, `"uuid":`) {
		req.invents = true
	}
	return req
}

func (g *oracleGenerator) parent() any {
	if g.chance(20) {
		return nil
	}
	return g.provider()
}

func (g *oracleGenerator) putProvider() oracleRequest {
	uuid := g.provider()
	body := map[string]any{"name": g.name()}
	if g.chance(60) {
		body["name"] = g.inspect(uuid).Name
	}
	if g.version >= 14 && g.chance(60) {
		body["parent_provider_uuid"] = g.parent()
	}
	return g.write("PUT", "/resource_providers/"+uuid, body)
}

func (g *oracleGenerator) readProviderPart() oracleRequest {
	part := pick(g, "inventories", "usages", "allocations", "aggregates", "traits")
	return g.plain("GET", "/resource_providers/"+g.provider()+"/"+part)
}

// inventory draws a record with all its rules.
func (g *oracleGenerator) inventory() map[string]any {
	inventory := map[string]any{"total": 1 + g.IntN(12)}
	g.spice(inventory, 25)
	if g.chance(5) {
		inventory["reserved"] = inventory["total"]
	}
	return inventory
}

func (g *oracleGenerator) postInventory() oracleRequest {
	uuid := g.provider()
	body := g.inventory()
	body["resource_class"] = g.class()
	if g.chance(40) {
		body["resource_provider_generation"] = g.generation(uuid)
	}
	return g.write("POST", "/resource_providers/"+uuid+"/inventories", body)
}

func (g *oracleGenerator) putInventory() oracleRequest {
	uuid := g.provider()
	body := g.inventory()
	body["resource_provider_generation"] = g.generation(uuid)
	class := g.class()
	if owned := g.inspect(uuid).Inventories; len(owned) > 0 && g.chance(70) {
		class = owned[g.IntN(len(owned))].Class
	}
	return g.write("PUT", "/resource_providers/"+uuid+"/inventories/"+class, body)
}

// newInventories draws all inventories of a provider, mostly with the classes
// it has now.
func (g *oracleGenerator) newInventories(uuid string) map[string]any {
	inventories := make(map[string]any)
	for _, owned := range g.inspect(uuid).Inventories {
		if g.chance(85) {
			inventories[owned.Class] = g.inventory()
		}
	}
	for range g.IntN(3) {
		inventories[g.class()] = g.inventory()
	}
	return map[string]any{"resource_provider_generation": g.generation(uuid), "inventories": inventories}
}

func (g *oracleGenerator) putInventories() oracleRequest {
	uuid := g.provider()
	return g.write("PUT", "/resource_providers/"+uuid+"/inventories", g.newInventories(uuid))
}

func (g *oracleGenerator) putAggregates() oracleRequest {
	uuid := g.provider()
	list := some(g, 0, 2, oracleAggregates()...)
	if g.chance(10) {
		g.faults++ // it can come twice
		list = append(list, g.aggregate())
	}
	var body any = list
	if g.version >= 19 {
		body = map[string]any{"aggregates": list, "resource_provider_generation": g.generation(uuid)}
	}
	return g.write("PUT", "/resource_providers/"+uuid+"/aggregates", body)
}

func (g *oracleGenerator) putTraits() oracleRequest {
	uuid := g.provider()
	list := some(g, 0, 3, oracleTraits()...)
	if g.chance(25) {
		list = append(list, g.trait())
	}
	return g.write("PUT", "/resource_providers/"+uuid+"/traits", map[string]any{"traits": list, "resource_provider_generation": g.generation(uuid)})
}

func (g *oracleGenerator) listTraits() oracleRequest {
	var pairs []string
	if g.chance(70) {
		pairs = append(pairs, "name="+url.QueryEscape(pick(g, "in:CUSTOM_T0,CUSTOM_NONE,HW_CPU_X86_AVX", "startswith:CUSTOM", "startswith:HW",
			"startswith:NOPE", "CUSTOM_T0", "in:", "other:CUSTOM", "", "in:"+g.trait(), "startswith:")))
	}
	if g.chance(50) {
		pairs = append(pairs, "associated="+pick(g, "true", "false", "True", "maybe", ""))
	}
	if g.chance(5) {
		pairs = append(pairs, "unknown=1")
	}
	return g.plain("GET", joinQuery("/traits", pairs))
}

func joinQuery(path string, pairs []string) string {
	if len(pairs) == 0 {
		return path
	}
	return path + "?" + strings.Join(pairs, "&")
}

func (g *oracleGenerator) classes() oracleRequest {
	name := pick(g, "CUSTOM_R0", "CUSTOM_R1", "CUSTOM_R2", "VCPU", "CUSTOM_NONE", "bad", "CUSTOM_")
	switch g.IntN(5) {
	case 0:
		return g.plain("GET", "/resource_classes")
	case 1:
		return g.plain("GET", "/resource_classes/"+name)
	case 2:
		return g.plain("DELETE", "/resource_classes/"+name)
	case 3:
		return g.write("POST", "/resource_classes", map[string]any{"name": name})
	}
	if g.version >= 7 && g.chance(50) {
		return g.plain("PUT", "/resource_classes/"+name)
	}
	return g.write("PUT", "/resource_classes/"+name, map[string]any{"name": pick(g, "CUSTOM_R1", "CUSTOM_R2", "CUSTOM_R3", "VCPU")})
}

func (g *oracleGenerator) usages() oracleRequest {
	pairs := []string{"project_id=" + pick(g, "p0", "p1", "p2", "00000000-0000-0000-0000-000000000000")}
	if g.chance(40) {
		pairs = append(pairs, "user_id="+pick(g, "u0", "u1"))
	}
	if g.chance(30) || g.version >= 38 && g.chance(60) {
		pairs = append(pairs, "consumer_type="+pick(g, "INSTANCE", "MIGRATION", "unknown", "all", "NONE", "lower"))
	}
	if g.chance(10) {
		pairs = pairs[1:]
	}
	if g.chance(5) {
		pairs = append(pairs, pick(g, "unknown=1", "project_id=", "user_id=", "project_id=p2"))
	}
	return g.plain("GET", joinQuery("/usages", pairs))
}

// oracleAvoid is something the random requests do not ask, because the real
// service is known to answer it wrongly.
type oracleAvoid struct {
	name  string
	about func(*oracleGenerator, oracleRequest) bool
}

// oracleAvoids lists what is not asked. These are judged by the slow
// enumerator of the engine's tests, or by tests of their own.
func oracleAvoids() []oracleAvoid {
	return []oracleAvoid{
		{differential.MarkSharedClass, (*oracleGenerator).sharesClass},
		{differential.MarkLostAnchors, (*oracleGenerator).losesAnchors},
		{differential.MarkMalformed, malformedInventory},
	}
}

// avoided names what a request asks that is not to be asked.
func (g *oracleGenerator) avoided(req oracleRequest) string {
	for _, subject := range oracleAvoids() {
		if subject.about(g, req) {
			return subject.name
		}
	}
	return ""
}

func malformedInventory(_ *oracleGenerator, req oracleRequest) bool {
	value, err := schema.Decode([]byte(req.body))
	if err != nil {
		return false
	}
	bodies := []any{value}
	for _, inner := range fields(fields(value)["inventories"]) {
		bodies = append(bodies, inner)
	}
	for _, body := range bodies {
		for class, record := range fields(fields(body)["inventories"]) {
			total, sent := fields(record)["total"]
			_, isInteger := total.(int64)
			if (object(record) == nil || sent && !isInteger) && strings.Trim(class, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
				return true
			}
		}
	}
	return false
}
