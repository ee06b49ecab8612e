package guests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Hypervisor has the guests of all hosts of a cloud. It implements [spawn.Hypervisor] as libvirt does: a guest starts only if the
// mediated devices of its domain exist on its host. It is safe for parallel use, and outlives the flows that use it.
type Hypervisor struct {
	cloud cloud
	mdevs func(host string) ([]driver.Mdev, error) // nil: unknown

	mu      sync.Mutex
	domains map[string]map[string][]byte // of guests, by instance and host
	running map[place]bool
	off     map[string]bool // hosts
}

// place is where a guest is. After an evacuation an instance has two until the old host has removed its own.
type place struct{ instance, host string }

// cloud is what a hypervisor needs of one, in this process or in another.
type cloud interface {
	DefineGuest(ctx context.Context, g sim.Guest) error
	RemoveGuest(ctx context.Context, uuid string) error
	Guest(ctx context.Context, uuid string) (g sim.Guest, ok bool, err error)
}

// New returns a hypervisor without guests for a cloud in this process.
func New(c *simcloud.Cloud) *Hypervisor { return newHypervisor(local{c}, c.Mdevs) }

// Remote returns a hypervisor for a cloud that cysim serve runs. A guest that another process has defined there runs. It does not
// look for mediated devices when a guest starts.
func Remote(c sim.Control) *Hypervisor { return newHypervisor(c, nil) }

func newHypervisor(c cloud, mdevs func(string) ([]driver.Mdev, error)) *Hypervisor {
	return &Hypervisor{cloud: c, mdevs: mdevs, domains: map[string]map[string][]byte{}, running: map[place]bool{}, off: map[string]bool{}}
}

// local is a cloud in this process, whose guests only this hypervisor defines.
type local struct{ *simcloud.Cloud }

// Guest implements cloud.
func (local) Guest(context.Context, string) (sim.Guest, bool, error) { return sim.Guest{}, false, nil }

// DefineGuest implements cloud.
func (l local) DefineGuest(_ context.Context, g sim.Guest) error { return l.Cloud.DefineGuest(g) }

// RemoveGuest implements cloud.
func (l local) RemoveGuest(_ context.Context, uuid string) error {
	l.Cloud.RemoveGuest(uuid)
	return nil
}

// PowerOff powers a host off: its guests are off, and calls for it fail until [Hypervisor.PowerOn]. A test that stops a host of the
// cloud ([simcloud.Cloud.StopHost]) calls it, too.
func (h *Hypervisor) PowerOff(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.off[host] = true
	maps.DeleteFunc(h.running, func(at place, _ bool) bool { return at.host == host })
}

// PowerOn lets a host answer again. Its guests are saved, and off.
func (h *Hypervisor) PowerOn(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.off, host)
}

// Running lists the UUIDs of the instances whose guests run on a host, sorted.
func (h *Hypervisor) Running(host string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	running := []string{}
	for at := range h.running {
		if at.host == host {
			running = append(running, at.instance)
		}
	}
	slices.Sort(running)
	return running
}

// call runs a call for the guest of an instance on its host.
func (h *Hypervisor) call(ctx context.Context, i spawn.Instance, run func(at place) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.off[i.Host] {
		return fmt.Errorf("guests: host %s does not answer", i.Host)
	}
	at := place{i.UUID, i.Host}
	err := h.adopt(ctx, i.UUID)
	if err == nil {
		err = run(at)
	}
	if err != nil {
		return fmt.Errorf("guests: instance %s on host %s: %w", i.UUID, i.Host, err)
	}
	return nil
}

// adopt reads a guest that another process has defined: it runs.
func (h *Hypervisor) adopt(ctx context.Context, instance string) error {
	if len(h.domains[instance]) > 0 {
		return nil
	}
	g, ok, err := h.cloud.Guest(ctx, instance)
	if ok {
		h.domains[instance] = map[string][]byte{g.Host: []byte(g.Domain)}
		h.running[place{instance, g.Host}] = true
	}
	return err
}

// register shows the cloud the guest of an instance: of two that on a host that answers.
func (h *Hypervisor) register(ctx context.Context, instance string) error {
	hosts := slices.Sorted(maps.Keys(h.domains[instance]))
	if len(hosts) == 0 {
		delete(h.domains, instance)
		return h.cloud.RemoveGuest(ctx, instance)
	}
	host := hosts[max(0, slices.IndexFunc(hosts, func(host string) bool { return !h.off[host] }))]
	return h.cloud.DefineGuest(ctx, sim.Guest{UUID: instance, Host: host, Domain: string(h.domains[instance][host])})
}

// Domain implements [spawn.Hypervisor].
func (h *Hypervisor) Domain(ctx context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	err = h.call(ctx, i, func(at place) error {
		if h.domains[at.instance][at.host] == nil {
			return spawn.ErrNoGuest
		}
		domain, running = slices.Clone(h.domains[at.instance][at.host]), h.running[at]
		return nil
	})
	return domain, running, err
}

// Define implements [spawn.Hypervisor]. The cloud refuses a host that it does not have, and a text that is not the XML of a domain.
func (h *Hypervisor) Define(ctx context.Context, i spawn.Instance, domain []byte) error {
	return h.call(ctx, i, func(at place) error {
		earlier, defined := h.domains[at.instance][at.host]
		if h.domains[at.instance] == nil {
			h.domains[at.instance] = map[string][]byte{}
		}
		h.domains[at.instance][at.host] = append([]byte{}, domain...)
		err := h.register(ctx, i.UUID)
		switch {
		case err == nil:
		case defined:
			h.domains[at.instance][at.host] = earlier
		default:
			delete(h.domains[at.instance], at.host)
		}
		return err
	})
}

// Start implements [spawn.Hypervisor].
func (h *Hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, func(at place) error {
		switch {
		case h.domains[at.instance][at.host] == nil:
			return spawn.ErrNoGuest
		case h.running[at]:
			return errors.New("the guest runs already")
		}
		if err := h.checkMdevs(at); err != nil {
			return err
		}
		h.running[at] = true
		return nil
	})
}

// checkMdevs returns an error if a mediated device of a guest does not exist on its host.
func (h *Hypervisor) checkMdevs(at place) error {
	if h.mdevs == nil {
		return nil
	}
	devices, err := domainxml.Read(h.domains[at.instance][at.host])
	if err != nil {
		return err
	}
	mdevs, err := h.mdevs(at.host)
	if err != nil {
		return err
	}
	exists := map[string]bool{"": true}
	for _, m := range mdevs {
		exists[m.UUID] = true
	}
	for _, d := range devices {
		if !exists[d.MDEV] {
			return fmt.Errorf("mediated device %s does not exist", d.MDEV)
		}
	}
	return nil
}

// Shutdown implements [spawn.Hypervisor]. Every guest obeys.
func (h *Hypervisor) Shutdown(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, h.powerOff)
}

// Destroy implements [spawn.Hypervisor].
func (h *Hypervisor) Destroy(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, h.powerOff)
}

func (h *Hypervisor) powerOff(at place) error {
	delete(h.running, at)
	return nil
}

// Undefine implements [spawn.Hypervisor].
func (h *Hypervisor) Undefine(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, func(at place) error {
		if h.running[at] {
			return errors.New("the guest runs")
		}
		delete(h.domains[at.instance], at.host)
		return h.register(ctx, i.UUID)
	})
}
