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
	Trees []host // few hosts with their trees
	Rows  []host // or many without
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
	guests, problems := p.cloud.GuestsOf(names), p.cloud.ProblemsOf(names)
	for i := range hosts {
		hosts[i].Guests, hosts[i].Problems = guests[hosts[i].Name], problems[hosts[i].Name]
		if len(hosts) <= maxTrees {
			hosts[i].Providers = providers(trees[i])
		} else {
			hosts[i].Sums = sums(trees[i])
		}
	}
	if len(hosts) <= maxTrees {
		data.Trees = hosts
	} else {
		data.Rows = hosts
	}
	return data
}

// rootOf is the provider without a parent.
func rootOf(tree []placementsim.UsedProvider) placementsim.UsedProvider {
	at := slices.IndexFunc(tree, func(p placementsim.UsedProvider) bool { return p.Parent == "" })
	return tree[max(at, 0)]
}

// providers puts children behind their parents.
func providers(tree []placementsim.UsedProvider) (list []provider) {
	children := make(map[string][]placementsim.UsedProvider)
	for _, p := range tree {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var add func(p placementsim.UsedProvider, depth int)
	add = func(p placementsim.UsedProvider, depth int) {
		list = append(list, provider{p.ResourceProvider, min(depth, maxDepth), inventories(p)})
		for _, child := range children[p.UUID] {
			add(child, depth+1)
		}
	}
	for _, root := range children[""] {
		add(root, 0)
	}
	return list
}

// inventories are sorted by class.
func inventories(p placementsim.UsedProvider) []inventory {
	list := make([]inventory, 0, len(p.Inventories))
	for class, amount := range p.Inventories {
		list = append(list, inventory{class, p.Used[class], amount.Reserved, amount.Total})
	}
	slices.SortFunc(list, func(a, b inventory) int { return cmp.Compare(a.Class, b.Class) })
	return list
}

// sums adds up the inventories of a tree, by class.
func sums(tree []placementsim.UsedProvider) (list []inventory) {
	byClass := make(map[string]inventory)
	for _, p := range tree {
		for class, amount := range p.Inventories {
			sum := byClass[class]
			byClass[class] = inventory{class, sum.Used + p.Used[class], sum.Reserved + amount.Reserved, sum.Total + amount.Total}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		list = append(list, byClass[class])
	}
	return list
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
