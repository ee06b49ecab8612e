//go:build histories

package linearizability

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

const (
	placement139 = "placement 1.39"
	trait        = "HW_CPU_X86_AVX"
)

func classNames() [classes]string { return [classes]string{"VCPU", "FPGA"} }

// mix says how often a call is drawn.
type mix struct{ reads, inventories, traits, claims, releases, reshapes int }

// tree is a group's resource providers, of one tree or several of two providers each, and consumers.
type tree struct {
	mix
	providers, consumers []string
	made                 bool
	mu                   sync.Mutex // of known, which is all that the clients of a group share
	known                [clientsOfGroup]world
}

// newTree has so many trees; names are derived from the name.
func newTree(name string, trees int, m mix) *tree {
	id := func(kind string, n int) string {
		return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%s/%d", name, kind, n)).String()
	}
	o := &tree{mix: m}
	for i := range 2 * trees {
		o.providers = append(o.providers, id("provider", i))
	}
	for i := range maxConsumers {
		o.consumers = append(o.consumers, id("consumer", i))
	}
	return o
}

// prepare makes the providers once, and reads all objects.
func (o *tree) prepare(c *caller) (porcupine.Model, bool) {
	if !o.made {
		for i, id := range o.providers {
			body := map[string]any{"name": id, "uuid": id}
			if i%2 == 1 {
				body["parent_provider_uuid"] = o.providers[i-1]
			}
			if a := c.send(http.MethodPost, "/placement/resource_providers", placement139, body); a.status == 0 {
				return porcupine.Model{}, false
			}
		}
		o.made = true
	}
	var w world
	for i := range o.providers {
		if !o.readProvider(&caller{c.server, c.client}, &w, i) || !o.readTraits(c, &w, i) {
			return porcupine.Model{}, false
		}
	}
	for i := range o.consumers {
		if _, ok := o.readConsumer(&caller{c.server, c.client}, &w, i); !ok {
			return porcupine.Model{}, false
		}
	}
	for client := range o.known {
		o.known[client] = w
	}
	return placementModel(w), true
}

func (o *tree) parts(op porcupine.Operation) []porcupine.Operation {
	if isRead(op.Input) && op.Output.(outcome).unknown {
		return nil // it changed nothing and showed nothing
	}
	return []porcupine.Operation{op}
}

func (o *tree) reads() (calls []any) {
	for i := range o.providers {
		calls = append(calls, readProvider{i})
	}
	for i := range o.consumers {
		calls = append(calls, readConsumer{i})
	}
	return calls
}

// draw chooses a call by what the client knows, which may be out of date.
func (o *tree) draw(client int, random *rand.Rand) any {
	o.mu.Lock()
	w := o.known[client]
	o.mu.Unlock()
	provider, consumer := random.IntN(len(o.providers)), random.IntN(len(o.consumers))
	n := random.IntN(o.mix.reads + o.inventories + o.traits + o.claims + o.releases + o.reshapes)
	chosen := func(weight int) bool { n -= weight; return n < 0 }
	switch {
	case chosen(o.mix.reads):
		if random.IntN(2) == 0 {
			return readProvider{provider}
		}
		return readConsumer{consumer}
	case chosen(o.inventories):
		return putInventory{provider, w.providers[provider].generation, amounts{random.IntN(9), random.IntN(9)}}
	case chosen(o.traits):
		return putTraits{provider, w.providers[provider].generation, random.IntN(2) == 0}
	case chosen(o.claims):
		claims := putClaims{o.drawClaim(w, consumer, random)}
		if random.IntN(3) == 0 {
			claims = append(claims, o.drawClaim(w, (consumer+1)%len(o.consumers), random))
		}
		return claims
	case chosen(o.releases):
		return release{consumer}
	}
	return o.drawReshape(w, random)
}

// drawClaim draws a claim for a little of one or two providers, or the removal of all.
func (o *tree) drawClaim(w world, consumer int, random *rand.Rand) claim {
	c := claim{consumer: consumer, generation: w.consumers[consumer].generation}
	if c.generation > 0 && random.IntN(8) == 0 {
		return c
	}
	for range 1 + random.IntN(2) {
		c.wanted[random.IntN(len(o.providers))][random.IntN(classes)] = 1 + random.IntN(3)
	}
	return c
}

// drawReshape moves a class from one provider to another, with the allocations.
func (o *tree) drawReshape(w world, random *rand.Rand) reshape {
	from, class := random.IntN(len(o.providers)), random.IntN(classes)
	to := (from + 1 + random.IntN(len(o.providers)-1)) % len(o.providers)
	var r reshape
	for _, p := range []int{from, to} {
		r.inventories = append(r.inventories, putInventory{p, w.providers[p].generation, w.providers[p].total})
	}
	r.inventories[1].total[class] = max(r.inventories[0].total[class], r.inventories[1].total[class], 4)
	r.inventories[0].total[class] = 0
	for i := range o.consumers {
		known := w.consumers[i]
		if known.held[from][class] == 0 {
			continue
		}
		known.held[to][class] += known.held[from][class]
		known.held[from][class] = 0
		r.claims = append(r.claims, claim{i, known.generation, known.held})
	}
	return r
}

// call makes a call, and notes what the client learns.
func (o *tree) call(c *caller, client int, input any) outcome {
	o.mu.Lock()
	w := o.known[client]
	o.mu.Unlock()
	got := o.send(c, &w, input)
	o.mu.Lock()
	o.known[client] = w
	o.mu.Unlock()
	return got
}

func (o *tree) send(c *caller, w *world, input any) outcome {
	switch in := input.(type) {
	case readProvider:
		if !o.readProvider(c, w, in.provider) {
			return outcome{unknown: true}
		}
		return outcome{status: http.StatusOK, body: w.showProvider(in.provider)}
	case readConsumer:
		text, ok := o.readConsumer(c, w, in.consumer)
		return outcome{unknown: !ok, status: http.StatusOK, body: text}.orUnknown()
	case putInventory:
		return o.putInventory(c, w, in)
	case putTraits:
		return o.putTraits(c, w, in)
	case putClaims:
		return o.putClaims(c, w, in)
	case release:
		a := c.do(http.MethodDelete, "/placement/allocations/"+o.consumers[in.consumer], placement139, nil)
		if a.status == http.StatusNoContent {
			w.consumers[in.consumer] = world{}.consumers[in.consumer]
		}
		return written(a)
	case reshape:
		return o.reshape(c, w, in)
	}
	panic(fmt.Sprintf("no such call: %T", input))
}

func (o outcome) orUnknown() outcome {
	if o.unknown {
		return outcome{unknown: true}
	}
	return o
}

// written is the outcome of a write whose answer has no body.
func written(a answer) outcome {
	switch {
	case a.status == 0:
		return outcome{unknown: true}
	case a.status >= 400:
		return outcome{status: a.status, code: a.code()}
	}
	return outcome{status: a.status}
}

type inventoriesBody struct {
	Generation  int                            `json:"resource_provider_generation"`
	Inventories map[string]struct{ Total int } `json:"inventories"`
}

func (b inventoriesBody) totals() (total amounts) {
	for class, name := range classNames() {
		total[class] = b.Inventories[name].Total
	}
	return total
}

func (o *tree) inventoriesPath(p int) string {
	return "/placement/resource_providers/" + o.providers[p] + "/inventories"
}

func (o *tree) readProvider(c *caller, w *world, p int) bool {
	a := c.do(http.MethodGet, o.inventoriesPath(p), placement139, nil)
	if a.status != http.StatusOK {
		return false
	}
	var body inventoriesBody
	a.decode(&body)
	w.providers[p].generation, w.providers[p].total = body.Generation, body.totals()
	return true
}

func (o *tree) readTraits(c *caller, w *world, p int) bool {
	a := c.do(http.MethodGet, "/placement/resource_providers/"+o.providers[p]+"/traits", placement139, nil)
	var body struct{ Traits []string }
	a.decode(&body)
	w.providers[p].trait = slices.Contains(body.Traits, trait)
	return a.status == http.StatusOK
}

// readConsumer returns what the answer says, which has generations of providers, too.
func (o *tree) readConsumer(c *caller, w *world, n int) (text string, ok bool) {
	a := c.do(http.MethodGet, "/placement/allocations/"+o.consumers[n], placement139, nil)
	if a.status != http.StatusOK {
		return "", false
	}
	var body struct {
		Generation  int `json:"consumer_generation"`
		Allocations map[string]struct {
			Generation int
			Resources  map[string]int
		}
	}
	a.decode(&body)
	var seen world // the generations of providers as this answer has them
	seen.consumers[n].generation = body.Generation
	for i, id := range o.providers {
		for class, name := range classNames() {
			seen.consumers[n].held[i][class] = body.Allocations[id].Resources[name]
		}
		seen.providers[i].generation = body.Allocations[id].Generation
	}
	w.consumers[n] = seen.consumers[n]
	return seen.showConsumer(n), true
}

// inventories is the body of inventories.
func inventories(i putInventory) map[string]any {
	list := map[string]any{}
	for class, name := range classNames() {
		if i.total[class] > 0 {
			list[name] = map[string]int{"total": i.total[class]}
		}
	}
	return map[string]any{"resource_provider_generation": i.generation, "inventories": list}
}

func (o *tree) putInventory(c *caller, w *world, in putInventory) outcome {
	a := c.do(http.MethodPut, o.inventoriesPath(in.provider), placement139, inventories(in))
	got := written(a)
	if got.status == http.StatusOK {
		var body inventoriesBody
		a.decode(&body)
		w.providers[in.provider].generation, w.providers[in.provider].total = body.Generation, body.totals()
		got.body = w.showProvider(in.provider)
	}
	return got
}

func (o *tree) putTraits(c *caller, w *world, in putTraits) outcome {
	traits := []string{}
	if in.trait {
		traits = append(traits, trait)
	}
	a := c.do(http.MethodPut, "/placement/resource_providers/"+o.providers[in.provider]+"/traits", placement139,
		map[string]any{"resource_provider_generation": in.generation, "traits": traits})
	got := written(a)
	if got.status == http.StatusOK {
		var body struct {
			Generation int `json:"resource_provider_generation"`
			Traits     []string
		}
		a.decode(&body)
		w.providers[in.provider].generation = body.Generation
		got.body = fmt.Sprint(body.Generation, slices.Contains(body.Traits, trait))
	}
	return got
}

// body returns the body of a consumer in a request.
func (o *tree) body(c claim) map[string]any {
	allocations := map[string]any{}
	for i, wanted := range c.wanted {
		resources := map[string]int{}
		for class, name := range classNames() {
			if wanted[class] > 0 {
				resources[name] = wanted[class]
			}
		}
		if len(resources) > 0 {
			allocations[o.providers[i]] = map[string]any{"resources": resources}
		}
	}
	body := map[string]any{"allocations": allocations, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": nil}
	if c.generation > 0 {
		body["consumer_generation"] = c.generation
	}
	return body
}

func (o *tree) bodies(claims []claim) map[string]any {
	bodies := map[string]any{}
	for _, c := range claims {
		bodies[o.consumers[c.consumer]] = o.body(c)
	}
	return bodies
}

func (o *tree) putClaims(c *caller, w *world, in putClaims) outcome {
	var a answer
	if len(in) == 1 {
		a = c.do(http.MethodPut, "/placement/allocations/"+o.consumers[in[0].consumer], placement139, o.body(in[0]))
	} else {
		a = c.do(http.MethodPost, "/placement/allocations", placement139, o.bodies(in))
	}
	if a.status == http.StatusNoContent {
		w.store(in) // a guess: others may have written since
	}
	return written(a)
}

func (o *tree) reshape(c *caller, w *world, in reshape) outcome {
	list := map[string]any{}
	for _, i := range in.inventories {
		list[o.providers[i.provider]] = inventories(i)
	}
	a := c.do(http.MethodPost, "/placement/reshaper", placement139, map[string]any{"inventories": list, "allocations": o.bodies(in.claims)})
	if a.status == http.StatusNoContent {
		if _, after := w.reshape(in); after != *w {
			*w = after
		}
	}
	return written(a)
}
