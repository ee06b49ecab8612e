package statuspage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/placementsim"
)

// hostList is the data of the section of hosts.
type hostList struct {
	list
	Trees  []host      // few hosts with their trees
	Rows   []host      // or many without
	Totals []inventory // of all hosts that match, if they are many
}

// host is a compute host with its provider tree.
type host struct {
	Name, Link string
	Guests     []string
	Problems   []string
	Providers  []provider  // each before its children
	Sums       []inventory // of all providers
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
	Held                  int // units that bound accelerator requests have without an allocation
}

func (p *Page) hosts(a address) any {
	var data hostList
	var trees [][]placementsim.UsedProvider
	data.list = a.read(Hosts, func(q Query) (shown, matching int) {
		trees, matching = p.cloud.Trees(q)
		return len(trees), matching
	})
	var names []string
	hosts := make([]host, 0, len(trees))
	for _, tree := range trees {
		root := rootOf(tree)
		names = append(names, root.Name)
		hosts = append(hosts, host{Name: root.Name, Link: a.with(Hosts, Hosts.String(), root.UUID, pageKey(Hosts), "")})
	}
	guests, problems, units := p.cloud.GuestsOf(names), p.cloud.ProblemsOf(names), p.cloud.UnitsInUse(names)
	for i := range hosts {
		hosts[i].Guests, hosts[i].Problems = guests[hosts[i].Name], problems[hosts[i].Name]
		if len(hosts) <= maxTrees {
			hosts[i].Providers = providers(trees[i], units)
		} else {
			hosts[i].Sums = sums(trees[i], units)
		}
	}
	if len(hosts) <= maxTrees {
		data.Trees = hosts
	} else {
		data.Rows = hosts
		inventories, used := p.cloud.Totals(data.Text)
		data.Totals = amounts(placementsim.UsedProvider{ResourceProvider: placementsim.ResourceProvider{Inventories: inventories}, Used: used}, nil)
	}
	return data
}

// rootOf is the provider without a parent.
func rootOf(tree []placementsim.UsedProvider) placementsim.UsedProvider {
	at := slices.IndexFunc(tree, func(p placementsim.UsedProvider) bool { return p.Parent == "" })
	return tree[max(at, 0)]
}

// providers puts children behind their parents. The units in use are those of UnitsInUse.
func providers(tree []placementsim.UsedProvider, units map[[2]string]int) (list []provider) {
	children := make(map[string][]placementsim.UsedProvider)
	for _, p := range tree {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var add func(p placementsim.UsedProvider, depth int)
	add = func(p placementsim.UsedProvider, depth int) {
		list = append(list, provider{p.ResourceProvider, min(depth, maxDepth), amounts(p, units)})
		for _, child := range children[p.UUID] {
			add(child, depth+1)
		}
	}
	for _, root := range children[""] {
		add(root, 0)
	}
	return list
}

// amounts are the inventories of a provider sorted by class, with what is allocated, and what is in use without an allocation.
func amounts(p placementsim.UsedProvider, units map[[2]string]int) []inventory {
	list := make([]inventory, 0, len(p.Inventories))
	for class, amount := range p.Inventories {
		held := max(0, units[[2]string{p.UUID, class}]-p.Used[class])
		list = append(list, inventory{class, p.Used[class], amount.Reserved, amount.Total, held})
	}
	slices.SortFunc(list, func(a, b inventory) int { return cmp.Compare(a.Class, b.Class) })
	return list
}

// sums adds up the inventories of a tree, by class.
func sums(tree []placementsim.UsedProvider, units map[[2]string]int) (list []inventory) {
	byClass := make(map[string]inventory)
	for _, p := range tree {
		for _, i := range amounts(p, units) {
			sum := byClass[i.Class]
			byClass[i.Class] = inventory{i.Class, sum.Used + i.Used, sum.Reserved + i.Reserved, sum.Total + i.Total, sum.Held + i.Held}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		list = append(list, byClass[class])
	}
	return list
}

// maxUnits is the largest inventory whose units are drawn one by one.
const maxUnits = 32

// Units lists the units of an inventory: used, held without an allocation, reserved or free. It is empty for a large
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
		case n < i.Used+i.Held:
			units = append(units, "held")
		case n >= i.Total-i.Reserved:
			units = append(units, "reserved")
		default:
			units = append(units, "free")
		}
	}
	return units
}
