package statuspage

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// World is the state that the page shows.
type World struct {
	Now    time.Time
	Manual bool // the clock is manual
	// Providers are in any order in which parents come before their children.
	Providers   []placementsim.ResourceProvider
	Allocations []placementsim.Allocation
	Guests      []sim.Guest
	ARQs        []fakecyborg.ARQ
	Leaks       []string
	Faults      []fault.State
	// Requests are in the order in which they started.
	Requests []sim.Exchange
}

// host is a compute host with its provider tree.
type host struct {
	Name      string
	Guests    []string
	Providers []provider // each before its children
}

// provider is a resource provider in a tree.
type provider struct {
	placementsim.ResourceProvider
	Depth       int // 0: the root; at most maxDepth
	Inventories []inventory
}

// maxDepth is the deepest indentation of a tree.
const maxDepth = 3

// inventory is an amount of one resource class.
type inventory struct {
	Class                 string
	Used, Reserved, Total int
}

// hosts builds the provider trees.
func (w World) hosts() []host {
	used := make(map[[2]string]int)
	for _, a := range w.Allocations {
		used[[2]string{a.Provider, a.Class}] += a.Used
	}
	children := make(map[string][]placementsim.ResourceProvider)
	for _, p := range w.Providers {
		children[p.Parent] = append(children[p.Parent], p)
	}
	guests := make(map[string][]string)
	for _, g := range w.Guests {
		guests[g.Host] = append(guests[g.Host], g.UUID)
	}
	var hosts []host
	for _, root := range children[""] {
		h := host{Name: root.Name, Guests: guests[root.Name]}
		var add func(p placementsim.ResourceProvider, depth int)
		add = func(p placementsim.ResourceProvider, depth int) {
			node := provider{ResourceProvider: p, Depth: min(depth, maxDepth)}
			for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
				amount := p.Inventories[class]
				node.Inventories = append(node.Inventories, inventory{class, used[[2]string{p.UUID, class}], amount.Reserved, amount.Total})
			}
			h.Providers = append(h.Providers, node)
			for _, child := range children[p.UUID] {
				add(child, depth+1)
			}
		}
		add(root, 0)
		hosts = append(hosts, h)
	}
	return hosts
}

// maxUnits is the largest inventory whose units are drawn one by one.
const maxUnits = 32

// Units lists the units of an inventory: used, reserved or free. It is empty for a large
// inventory, which is drawn as a bar.
func (i inventory) Units() []string {
	if i.Total > maxUnits || i.Total < 0 {
		return nil
	}
	units := make([]string, 0, i.Total)
	for n := range i.Total {
		switch {
		case n < i.Used:
			units = append(units, "used")
		case n >= i.Total-i.Reserved:
			units = append(units, "reserved")
		default:
			units = append(units, "free")
		}
	}
	return units
}

// arqState is a state and the accelerator requests in it.
type arqState struct {
	Name fakecyborg.State
	ARQs []fakecyborg.ARQ
}

// states groups the accelerator requests by state: the usual states, then others that
// occur.
func (w World) states() []arqState {
	states := []arqState{
		{Name: fakecyborg.StateInitial}, {Name: fakecyborg.StateBindStarted}, {Name: fakecyborg.StateBound}, {Name: fakecyborg.StateBindFailed},
	}
	for _, a := range w.ARQs {
		i := slices.IndexFunc(states, func(s arqState) bool { return s.Name == a.State })
		if i < 0 {
			i = len(states)
			states = append(states, arqState{Name: a.State})
		}
		states[i].ARQs = append(states[i].ARQs, a)
	}
	return states
}

// rule is a fault rule as JSON.
type rule struct {
	Text string
	Hits int
}

func (w World) rules() []rule {
	var rules []rule
	for _, r := range w.Faults {
		text, err := json.Marshal(r.Rule)
		if err != nil {
			text = []byte(err.Error())
		}
		rules = append(rules, rule{string(text), r.Hits})
	}
	return rules
}
