//go:build histories

package linearizability

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The most objects that a model has. Smaller ones leave the rest unused.
const (
	maxProviders = 6
	maxConsumers = 4
	classes      = 2
)

// amounts are amounts by resource class.
type amounts [classes]int

// world is the part of Placement that a piece is about. It is comparable.
type world struct {
	providers [maxProviders]struct {
		generation int
		total      amounts // 0: no inventory of the class
		trait      bool
	}
	consumers [maxConsumers]struct {
		generation int // 0: there is no such consumer
		held       [maxProviders]amounts
	}
}

// The calls.
type (
	readProvider struct{ provider int }
	readConsumer struct{ consumer int }
	putInventory struct {
		provider, generation int
		total                amounts
	}
	putTraits struct {
		provider, generation int
		trait                bool
	}
	claim struct {
		consumer, generation int // generation 0: null
		wanted               [maxProviders]amounts
	}
	putClaims []claim // one with PUT, several with POST
	release   struct{ consumer int }
	reshape   struct {
		inventories []putInventory
		claims      []claim
	}
)

const (
	concurrentUpdate = "placement.concurrent_update"
	inUse            = "placement.inventory.inuse"
	undefinedCode    = "placement.undefined_code"
)

func refused(code string) outcome { return outcome{status: 409, code: code} }

// placementModel is the sequential specification, from a state.
func placementModel(initial world) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, output any) (bool, any) {
			want, next := state.(world).apply(input)
			got := output.(outcome)
			return got.unknown || got == want, next
		},
		Hash: func(state any) uint64 { return maphash.Comparable(seed, state.(world)) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%T%+v -> %+v", input, input, output)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// apply returns the answer to a call, and the world after it.
func (w world) apply(input any) (outcome, world) {
	switch in := input.(type) {
	case readProvider:
		return outcome{status: 200, body: w.showProvider(in.provider)}, w
	case readConsumer:
		return outcome{status: 200, body: w.showConsumer(in.consumer)}, w
	case putInventory:
		return w.putInventory(in)
	case putTraits:
		return w.putTraits(in)
	case putClaims:
		return w.claim(in)
	case release:
		return w.release(in.consumer)
	case reshape:
		return w.reshape(in)
	}
	panic(fmt.Sprintf("no such call: %T", input))
}

func (w world) showProvider(p int) string {
	return fmt.Sprint(w.providers[p].generation, w.providers[p].total)
}

func (w world) showConsumer(c int) string {
	var b strings.Builder
	fmt.Fprint(&b, w.consumers[c].generation)
	for p, held := range w.consumers[c].held {
		if held != (amounts{}) {
			fmt.Fprint(&b, " ", p, held, "@", w.providers[p].generation)
		}
	}
	return b.String()
}

// used is what all consumers have of a class of a provider.
func (w *world) used(p, class int) (sum int) {
	for _, c := range w.consumers {
		sum += c.held[p][class]
	}
	return sum
}

func (w world) putInventory(in putInventory) (outcome, world) {
	p := &w.providers[in.provider]
	if p.generation != in.generation {
		return refused(concurrentUpdate), w
	}
	for class, total := range in.total {
		if total == 0 && w.used(in.provider, class) > 0 {
			return refused(inUse), w
		}
	}
	p.total, p.generation = in.total, p.generation+1
	return outcome{status: 200, body: w.showProvider(in.provider)}, w
}

func (w world) putTraits(in putTraits) (outcome, world) {
	p := &w.providers[in.provider]
	if p.generation != in.generation {
		return refused(concurrentUpdate), w
	}
	if p.trait != in.trait {
		p.trait, p.generation = in.trait, p.generation+1
	}
	return outcome{status: 200, body: fmt.Sprint(p.generation, p.trait)}, w
}

// release does not change generations of providers.
func (w world) release(c int) (outcome, world) {
	consumer := &w.consumers[c]
	if consumer.generation == 0 {
		return outcome{status: 404, code: undefinedCode}, w
	}
	*consumer = world{}.consumers[c]
	return outcome{status: 204}, w
}

func (w world) claim(claims []claim) (outcome, world) {
	if code := w.checkConsumers(claims); code != "" {
		return refused(code), w
	}
	if !w.fits(claims, w.totals()) {
		return refused(undefinedCode), w
	}
	w.store(claims)
	return outcome{status: 204}, w
}

func (w *world) totals() (totals [maxProviders]amounts) {
	for p := range w.providers {
		totals[p] = w.providers[p].total
	}
	return totals
}

func (w *world) checkConsumers(claims []claim) string {
	for _, c := range claims {
		if w.consumers[c.consumer].generation != c.generation {
			return concurrentUpdate
		}
	}
	return ""
}

// fits reports whether the claims together fit into the inventories. Amounts that the same
// consumers release are available. A class may stay overcommitted if its usage does not increase.
func (w *world) fits(claims []claim, totals [maxProviders]amounts) bool {
	var taken, freed [maxProviders]amounts
	for _, c := range claims {
		for p := range c.wanted {
			for class := range classes {
				taken[p][class] += c.wanted[p][class]
				freed[p][class] += w.consumers[c.consumer].held[p][class]
			}
		}
	}
	for p := range taken {
		for class, amount := range taken[p] {
			if amount == 0 {
				continue
			}
			after := w.used(p, class) - freed[p][class] + amount
			if totals[p][class] == 0 || after > totals[p][class] && amount > freed[p][class] {
				return false
			}
		}
	}
	return true
}

// store changes the generations of the providers of the new allocations, and of those that an emptied consumer had.
func (w *world) store(claims []claim) {
	var changed [maxProviders]bool
	for _, c := range claims {
		consumer := &w.consumers[c.consumer]
		empty := c.wanted == [maxProviders]amounts{}
		for p := range c.wanted {
			changed[p] = changed[p] || c.wanted[p] != (amounts{}) || empty && consumer.held[p] != (amounts{})
		}
		consumer.held, consumer.generation = c.wanted, consumer.generation+1
		if empty {
			consumer.generation = 0
		}
	}
	for p := range changed {
		if changed[p] {
			w.providers[p].generation++
		}
	}
}

// reshape replaces inventories and allocations. Claims are checked while old and new classes are both there.
func (w world) reshape(in reshape) (outcome, world) {
	for _, i := range in.inventories {
		if w.providers[i.provider].generation != i.generation {
			return refused(concurrentUpdate), w
		}
	}
	if code := w.checkConsumers(in.claims); code != "" {
		return refused(code), w
	}
	between := w.totals()
	for _, i := range in.inventories {
		for class, total := range i.total {
			if total > 0 {
				between[i.provider][class] = total
			}
		}
	}
	if !w.fits(in.claims, between) {
		return refused(undefinedCode), w
	}
	after := w
	after.store(in.claims)
	for _, i := range in.inventories {
		for class, total := range i.total {
			if total == 0 && w.providers[i.provider].total[class] > 0 && after.used(i.provider, class) > 0 {
				return refused(inUse), w
			}
		}
		after.providers[i.provider].total = i.total
		after.providers[i.provider].generation += 2 // for the new classes, and for the removal of the old ones
		if i.total == (amounts{}) {
			after.providers[i.provider].generation--
		}
	}
	return outcome{status: 204}, after
}

// isRead reports whether a call changes nothing.
func isRead(input any) bool {
	switch input.(type) {
	case readProvider, readConsumer:
		return true
	}
	return false
}
