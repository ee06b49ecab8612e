package guests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Hypervisor has the guests of all hosts of a cloud. It implements [spawn.Hypervisor] as libvirt does: a guest starts only if the
// mediated devices of its domain exist on its host. If an instance has two guests, the cloud
// shows the one defined last. It is safe for parallel use, and outlives the flows that use it.
type Hypervisor struct {
	cloud cloud
	mdevs func(host string) ([]driver.Mdev, error) // nil: unknown

	mu     sync.Mutex
	guests map[string][]guest // of an instance, in the order in which they were defined
	off    map[string]bool    // hosts
}

// guest is a domain that a host has saved. After an evacuation an instance has two until the old host has removed its own.
type guest struct {
	host    string
	domain  []byte
	running bool
}

// place is where a guest is.
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
	return &Hypervisor{cloud: c, mdevs: mdevs, guests: map[string][]guest{}, off: map[string]bool{}}
}

// local is a cloud in this process.
type local struct{ *simcloud.Cloud }

// Guest implements cloud.
func (l local) Guest(_ context.Context, uuid string) (sim.Guest, bool, error) {
	for _, g := range l.Guests() {
		if g.UUID == uuid {
			return g, true, nil
		}
	}
	return sim.Guest{}, false, nil
}

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
	for _, list := range h.guests {
		for n := range list {
			list[n].running = list[n].running && list[n].host != host
		}
	}
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
	for instance, list := range h.guests {
		if slices.ContainsFunc(list, func(g guest) bool { return g.host == host && g.running }) {
			running = append(running, instance)
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
	if h.off[i.Host] || i.Host == "" {
		return fmt.Errorf("guests: host %q does not answer", i.Host)
	}
	err := h.read(ctx, i.UUID)
	if err == nil {
		err = run(place{i.UUID, i.Host})
	}
	if err != nil {
		return fmt.Errorf("guests: instance %s on host %s: %w", i.UUID, i.Host, err)
	}
	return nil
}

// read reads which guest of an instance the cloud shows: another process may have defined it, which then runs, or removed it.
func (h *Hypervisor) read(ctx context.Context, instance string) error {
	shown, ok, err := h.cloud.Guest(ctx, instance)
	if err != nil {
		return err
	}
	list := h.guests[instance]
	switch last := len(list) - 1; {
	case !ok:
		delete(h.guests, instance)
	case last >= 0 && list[last].host == shown.Host:
		list[last].domain = []byte(shown.Domain)
	default:
		h.set(instance, guest{host: shown.Host, domain: []byte(shown.Domain), running: true})
	}
	return nil
}

// set replaces the guest of an instance on a host.
func (h *Hypervisor) set(instance string, g guest) {
	h.guests[instance] = append(h.without(place{instance, g.host}), g)
}

// without returns the guests of an instance on other hosts.
func (h *Hypervisor) without(at place) []guest {
	return slices.DeleteFunc(slices.Clone(h.guests[at.instance]), func(g guest) bool { return g.host == at.host })
}

// guest returns the guest of an instance on a host; nil without one.
func (h *Hypervisor) guest(at place) *guest {
	list := h.guests[at.instance]
	if n := slices.IndexFunc(list, func(g guest) bool { return g.host == at.host }); n >= 0 {
		return &list[n]
	}
	return nil
}

// show shows the cloud the guest of an instance that was defined last.
func (h *Hypervisor) show(ctx context.Context, instance string) error {
	list := h.guests[instance]
	if len(list) == 0 {
		return h.cloud.RemoveGuest(ctx, instance)
	}
	last := list[len(list)-1]
	return h.cloud.DefineGuest(ctx, sim.Guest{UUID: instance, Host: last.host, Domain: string(last.domain)})
}

// Domain implements [spawn.Hypervisor].
func (h *Hypervisor) Domain(ctx context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	err = h.call(ctx, i, func(at place) error {
		g := h.guest(at)
		if g == nil {
			return spawn.ErrNoGuest
		}
		domain, running = slices.Clone(g.domain), g.running
		return nil
	})
	return domain, running, err
}

// Define implements [spawn.Hypervisor]. The cloud refuses a host that it does not have, and a text that is not the XML of a domain.
func (h *Hypervisor) Define(ctx context.Context, i spawn.Instance, domain []byte) error {
	return h.call(ctx, i, func(at place) error {
		earlier, g := h.guests[i.UUID], guest{host: i.Host, domain: slices.Clone(domain)}
		if defined := h.guest(at); defined != nil {
			g.running = defined.running
		}
		h.set(i.UUID, g)
		err := h.show(ctx, i.UUID)
		if err != nil {
			h.guests[i.UUID] = earlier
		}
		return err
	})
}

// Start implements [spawn.Hypervisor].
func (h *Hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, func(at place) error {
		g := h.guest(at)
		switch {
		case g == nil:
			return spawn.ErrNoGuest
		case g.running:
			return errors.New("the guest runs already")
		}
		if err := h.checkMdevs(g); err != nil {
			return err
		}
		g.running = true
		return nil
	})
}

// checkMdevs returns an error if a mediated device of a guest does not exist on its host.
func (h *Hypervisor) checkMdevs(g *guest) error {
	if h.mdevs == nil {
		return nil
	}
	devices, err := domainxml.Read(g.domain)
	if err != nil {
		return err
	}
	mdevs, err := h.mdevs(g.host)
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
	return h.call(ctx, i, func(at place) error {
		g := h.guest(at)
		if g == nil {
			return spawn.ErrNoGuest
		}
		g.running = false
		return nil
	})
}

// Destroy implements [spawn.Hypervisor].
func (h *Hypervisor) Destroy(ctx context.Context, i spawn.Instance) error {
	if err := h.Shutdown(ctx, i); !errors.Is(err, spawn.ErrNoGuest) {
		return err
	}
	return nil
}

// Undefine implements [spawn.Hypervisor].
func (h *Hypervisor) Undefine(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, func(at place) error {
		if g := h.guest(at); g != nil && g.running {
			return errors.New("the guest runs")
		}
		h.guests[i.UUID] = h.without(at)
		return h.show(ctx, i.UUID)
	})
}
