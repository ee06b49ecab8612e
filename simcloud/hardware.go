package simcloud

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/internal/ordered"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/bus"
	"github.com/gocyborg/gocyborg/simcloud/internal/leaks"
)

// Written lists the files of a host's synthetic sysfs that its drivers have written, or tried to, with UUID
// for each UUID in their names. For a directory there is Overlaid.
func (c *Cloud) Written(host string) []string {
	m := c.machine(host)
	if m == nil || m.written == nil {
		return nil
	}
	return m.written.Written()
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
		var trees bus.Generator
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
				each.agent.Reboot = func() { // what a driver leaves is a leak
					_ = c.reboot(m)
					c.autostart(context.Background(), m)
				}
				if m.written != nil {
					m.written.Has = func(at driver.PCIAddress) bool {
						fallback := m.host.Fallback
						return c.compute.Has(m.host.Name, leaks.DeviceAt(at)) || fallback != "" && c.compute.Has(fallback, leaks.DeviceAt(at))
					}
				}
			}
			if !yield(each) {
				return
			}
		}
	}
}

// closeHosts closes the directories of the hosts.
func (c *Cloud) closeHosts() error {
	var errs []error
	for _, m := range c.machines {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// Agents are the hosts of a model for a Cyborg that is not part of a [Cloud], such as a Cyborg
// that uses a real Placement. Close must be called.
//
// The records are what became of the hardware: writes to directories that were only recorded,
// mediated devices of generated hosts, what drivers remember.
type Agents struct {
	// Hosts have their hardware, drivers and verbatim devices.
	Hosts []driver.Host

	cloud *Cloud // with hosts and without services
}

var _ sim.Recorded = (*Agents)(nil)

// Agents makes the hosts of the model. [WithDriver] is the only option that it uses. The error matches
// [ErrModel].
func (m Model) Agents(opts ...Option) (*Agents, error) {
	set := newSettings(opts)
	if err := errors.Join(set.fault, m.validate(set.drivers)); err != nil {
		return nil, err
	}
	a := &Agents{cloud: &Cloud{model: m.withDefaults(), drivers: set.drivers, machineOf: make(map[string]*machine)}}
	a.cloud.hardware.cloud = a.cloud
	var err error
	for each := range a.cloud.agents() {
		if err = each.err; err != nil {
			break
		}
		a.Hosts = append(a.Hosts, each.agent)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close closes the directories that the hosts read.
func (a *Agents) Close() error { return a.cloud.closeHosts() }

// Overlaid is [Cloud.Overlaid].
func (a *Agents) Overlaid(host string) []string { return a.cloud.Overlaid(host) }

// Records implements [sim.Recorded].
func (a *Agents) Records() iter.Seq2[sim.Record, error] { return a.cloud.hardware.Records() }

// Prepare implements [sim.Recorded].
func (a *Agents) Prepare(records []sim.Record) (commit func(), err error) {
	return a.cloud.hardware.Prepare(records)
}

// OnCommit implements [sim.Recorded].
func (a *Agents) OnCommit(listener func([]sim.RecordChange)) { a.cloud.hardware.OnCommit(listener) }
