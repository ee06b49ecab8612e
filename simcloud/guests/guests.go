package guests

import (
	"cmp"
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

// Hypervisor has the guests of all hosts of a cloud. It implements [spawn.Hypervisor] as libvirt does: a guest that is started
// runs with the domain that was saved at its start, and starting needs the mediated devices of that domain. It is safe for parallel
// use, and outlives the flows that use it.
type Hypervisor struct {
	cloud cloud
	mdevs func(host string) ([]driver.Mdev, error) // nil: unknown

	mu     sync.Mutex
	guests map[place]*guest
	off    map[string]bool // hosts
}

// place is where a guest is. After an evacuation an instance has two until the old host has removed its own.
type place struct{ instance, host string }

type guest struct {
	saved   []byte
	started []byte // the domain with which it runs; nil: it is off
}

// cloud is what a hypervisor needs of one, in this process or in another.
type cloud interface {
	DefineGuest(ctx context.Context, g sim.Guest) error
	RemoveGuest(ctx context.Context, uuid string) error
}

// New returns a hypervisor without guests for a cloud in this process.
func New(c *simcloud.Cloud) *Hypervisor { return newHypervisor(local{c}, c.Mdevs) }

// Remote returns a hypervisor without guests for a cloud that cysim serve runs. It does not look for mediated devices
// when a guest starts.
func Remote(c sim.Control) *Hypervisor { return newHypervisor(c, nil) }

func newHypervisor(c cloud, mdevs func(string) ([]driver.Mdev, error)) *Hypervisor {
	return &Hypervisor{cloud: c, mdevs: mdevs, guests: map[place]*guest{}, off: map[string]bool{}}
}

// local is a cloud in this process.
type local struct{ *simcloud.Cloud }

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
	for at, g := range h.guests {
		if at.host == host {
			g.started = nil
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
	for at, g := range h.guests {
		if at.host == host && g.started != nil {
			running = append(running, at.instance)
		}
	}
	slices.Sort(running)
	return running
}

// call runs a call for the guest of an instance on its host; nil without one.
func (h *Hypervisor) call(ctx context.Context, i spawn.Instance, run func(at place, g *guest) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.off[i.Host] {
		return fmt.Errorf("guests: host %s does not answer", i.Host)
	}
	at := place{i.UUID, i.Host}
	if err := run(at, h.guests[at]); err != nil {
		return fmt.Errorf("guests: instance %s on host %s: %w", i.UUID, i.Host, err)
	}
	return nil
}

// register shows the cloud the guest of an instance: of two the one whose host answers.
func (h *Hypervisor) register(ctx context.Context, instance string) error {
	var places []place
	for at := range h.guests {
		if at.instance == instance {
			places = append(places, at)
		}
	}
	if len(places) == 0 {
		return h.cloud.RemoveGuest(ctx, instance)
	}
	at := slices.MinFunc(places, func(a, b place) int {
		switch {
		case h.off[a.host] == h.off[b.host]:
			return cmp.Compare(a.host, b.host)
		case h.off[a.host]:
			return 1
		default:
			return -1
		}
	})
	return h.cloud.DefineGuest(ctx, sim.Guest{UUID: instance, Host: at.host, Domain: string(h.guests[at].saved)})
}

// Domain implements [spawn.Hypervisor].
func (h *Hypervisor) Domain(ctx context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	err = h.call(ctx, i, func(_ place, g *guest) error {
		if g == nil {
			return spawn.ErrNoGuest
		}
		domain, running = slices.Clone(g.saved), g.started != nil
		return nil
	})
	return domain, running, err
}

// Define implements [spawn.Hypervisor]. The cloud refuses a host that it does not have, and what is not the XML of a domain.
func (h *Hypervisor) Define(ctx context.Context, i spawn.Instance, domain []byte) error {
	return h.call(ctx, i, func(at place, g *guest) error {
		defined := &guest{saved: slices.Clone(domain)}
		if g != nil {
			defined.started = g.started
		}
		h.guests[at] = defined
		err := h.register(ctx, i.UUID)
		if err != nil {
			h.guests[at] = g
			if g == nil {
				delete(h.guests, at)
			}
		}
		return err
	})
}

// Start implements [spawn.Hypervisor].
func (h *Hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, func(at place, g *guest) error {
		switch {
		case g == nil:
			return spawn.ErrNoGuest
		case g.started != nil:
			return errors.New("the guest runs already")
		}
		if err := h.checkMdevs(at.host, g.saved); err != nil {
			return err
		}
		g.started = g.saved
		return nil
	})
}

// checkMdevs returns an error if a mediated device of a domain does not exist on its host.
func (h *Hypervisor) checkMdevs(host string, domain []byte) error {
	if h.mdevs == nil {
		return nil
	}
	devices, err := domainxml.Read(domain)
	if err != nil {
		return err
	}
	mdevs, err := h.mdevs(host)
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
	return h.call(ctx, i, powerOff)
}

// Destroy implements [spawn.Hypervisor].
func (h *Hypervisor) Destroy(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, powerOff)
}

func powerOff(_ place, g *guest) error {
	if g != nil {
		g.started = nil
	}
	return nil
}

// Undefine implements [spawn.Hypervisor]. A guest that this hypervisor does not know is removed from the cloud as well: another
// process may have defined it.
func (h *Hypervisor) Undefine(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, i, func(at place, g *guest) error {
		if g != nil && g.started != nil {
			return errors.New("the guest runs")
		}
		delete(h.guests, at)
		return h.register(ctx, i.UUID)
	})
}
