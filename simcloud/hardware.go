package simcloud

import (
	"iter"
	"reflect"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/internal/ordered"
)

// generator makes synthetic trees. Successive hosts with the same hardware share the memory of
// theirs.
type generator struct {
	mu   sync.Mutex
	of   *Sysfs
	tree *sysfs.Memory // of the last host that is not the same as the one before
}

func (g *generator) generate(of *Sysfs) (*sysfs.Memory, error) {
	g.mu.Lock()
	like := g.tree
	if like != nil && !reflect.DeepEqual(g.of, of) {
		like = nil
	}
	g.mu.Unlock()
	if like != nil {
		return like.Twin(), nil
	}
	tree, err := sysfs.Generate(sysfs.Description{Devices: of.Devices, MdevParents: of.MdevParents})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of, g.tree = of, tree
	return tree, nil
}

// made is a host with its hardware, or the error of one.
type made struct {
	machine *machine
	agent   driver.Host
	err     error
}

// makeHosts opens or generates the hardware of hosts, side by side, and yields them in order. Every
// machine that was made when the iteration ends is in the list, to be closed.
func makeHosts(m Model, drivers *builtin.Registry, machines *[]*machine) iter.Seq[made] {
	return func(yield func(made) bool) {
		all := make([]*machine, len(m.Hosts))
		defer func() {
			*machines = slices.DeleteFunc(all, func(each *machine) bool { return each == nil })
		}()
		var trees generator
		for _, each := range ordered.Ahead(len(all), func(i int) made {
			machine, agent, err := newAgent(&trees, drivers, m.Seed, i, m.Hosts[i])
			all[i] = machine
			return made{machine, agent, err}
		}) {
			if !yield(each) {
				return
			}
		}
	}
}

// agents are the hosts of the cloud, which closes their hardware, as Cyborg knows them.
func (c *Cloud) agents() iter.Seq[made] {
	return func(yield func(made) bool) {
		for each := range makeHosts(c.model, c.drivers, &c.machines) {
			if m := each.machine; m != nil {
				c.machineOf[m.host.Name] = m
				each.agent.Changed = func() { c.hardware.commit(m) }
				each.agent.Reboot = func() { c.reboot(m) }
			}
			if !yield(each) {
				return
			}
		}
	}
}
