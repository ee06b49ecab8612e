package cloudmodel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// place is where a guest is.
type place struct{ instance, host string }

// guest is a domain that a host has saved.
type guest struct {
	saved   string
	started string // the domain that it runs with; empty: it is off
}

// hypervisor has the guests of all hosts, and registers them with the cloud.
type hypervisor struct {
	mu     sync.Mutex
	cloud  *simcloud.Cloud
	guests map[place]*guest
	down   map[string]bool // the hosts that do not answer
}

func newHypervisor(cloud *simcloud.Cloud) *hypervisor {
	return &hypervisor{cloud: cloud, guests: map[place]*guest{}, down: map[string]bool{}}
}

// calls are those that can be made to fail, as operations of the cloud.
var calls = []sim.OperationName{"hypervisor.domain", "hypervisor.define", "hypervisor.start", "hypervisor.shutdown", "hypervisor.destroy", "hypervisor.undefine", "hypervisor.mdev"}

func work() (operations []fault.Operation) {
	for _, call := range calls {
		operations = append(operations, fault.Operation{Name: call, Subject: "the uuid of the instance", Actions: []fault.Action{fault.Status}})
	}
	return operations
}

var errHypervisor = errors.New("the hypervisor failed")

// call makes a call for a process.
func (h *hypervisor) call(ctx context.Context, process *line, name string, i spawn.Instance, do func(at place) error) error {
	if err := process.pass(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.down[i.Host] {
		return fmt.Errorf("host %s does not answer", i.Host)
	}
	rule, fails := h.cloud.Faults().Decide(sim.OperationName("hypervisor."+name), i.UUID)
	if fails && !rule.Applied() {
		return errHypervisor
	}
	if err := do(place{i.UUID, i.Host}); err != nil {
		return err
	}
	if err := h.tell(i.UUID); err != nil {
		return err
	}
	if fails {
		return errHypervisor
	}
	return process.alive()
}

// tell registers the guest of an instance with the cloud. If there are two, it registers the
// guest whose host answers.
func (h *hypervisor) tell(instance string) error {
	var at *place
	for p := range h.guests {
		if p.instance == instance && (at == nil || h.down[at.host] && !h.down[p.host] || h.down[at.host] == h.down[p.host] && p.host < at.host) {
			at = &p
		}
	}
	if at == nil {
		h.cloud.RemoveGuest(instance)
		return nil
	}
	return h.cloud.DefineGuest(sim.Guest{UUID: instance, Host: at.host, Domain: h.guests[*at].saved})
}

// powerOff is the end of all that runs on a host.
func (h *hypervisor) powerOff(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, g := range h.guests {
		if p.host == host {
			g.started = ""
		}
	}
	h.down[host] = true
}

// removeUnknown removes the guests of instances that do not exist from hosts that answer, as nova-compute does periodically.
func (h *hypervisor) removeUnknown(instances map[string]*instance) error {
	for _, p := range h.places() {
		h.mu.Lock()
		if instances[p.instance] == nil && !h.down[p.host] {
			delete(h.guests, p)
		}
		err := h.tell(p.instance)
		h.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// isDown reports whether a host does not answer.
func (h *hypervisor) isDown(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down[host]
}

// downHosts lists the hosts that do not answer, in order.
func (h *hypervisor) downHosts() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.down))
}

// at returns a copy of the guest at a place.
func (h *hypervisor) at(p place) (guest, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, there := h.guests[p]
	if !there {
		return guest{}, false
	}
	return *g, true
}

// places lists where guests are, in order.
func (h *hypervisor) places() []place {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []place
	for p := range h.guests {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b place) int { return strings.Compare(a.instance+a.host, b.instance+b.host) })
	return list
}

// libvirt is the hypervisor as a process calls it.
type libvirt struct {
	*hypervisor
	process *line
}

// Domain implements spawn.Hypervisor.
func (l libvirt) Domain(ctx context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	err = l.call(ctx, l.process, "domain", i, func(at place) error {
		g := l.guests[at]
		if g == nil {
			return fmt.Errorf("instance %s: %w", i.UUID, spawn.ErrNoGuest)
		}
		domain, running = []byte(g.saved), g.started != ""
		return nil
	})
	return domain, running, err
}

// Define implements spawn.Hypervisor.
func (l libvirt) Define(ctx context.Context, i spawn.Instance, domain []byte) error {
	return l.call(ctx, l.process, "define", i, func(at place) error {
		if l.guests[at] == nil {
			l.guests[at] = &guest{}
		}
		l.guests[at].saved = string(domain)
		return nil
	})
}

// Start implements spawn.Hypervisor. As with libvirt, a mediated device of the domain has to exist.
func (l libvirt) Start(ctx context.Context, i spawn.Instance) error {
	return l.call(ctx, l.process, "start", i, func(at place) error {
		g := l.guests[at]
		switch {
		case g == nil:
			return spawn.ErrNoGuest
		case g.started != "":
			return errors.New("it runs already")
		}
		devices, err := devicesOf(g.saved)
		if err != nil {
			return err
		}
		mdevs, err := l.cloud.Mdevs(i.Host)
		if err != nil {
			return err
		}
		for _, d := range devices {
			exists := false
			for _, m := range mdevs {
				exists = exists || d == "mdev "+m.UUID
			}
			if strings.HasPrefix(d, "mdev ") && !exists && !isNovas(d) {
				return fmt.Errorf("device not found: %s", d)
			}
		}
		g.started = g.saved
		return nil
	})
}

// nodeDevices is a libvirt whose caller defines the mediated devices of guests.
type nodeDevices struct{ libvirt }

// CreateMdev implements spawn.MdevCreator.
func (n nodeDevices) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	d, err := domainxml.NodeDeviceOf(spawn.HandleOf(arq), "")
	if err != nil {
		return err
	}
	info := arq.AttachHandleInfo
	parent := fmt.Sprintf("%s:%s:%s.%s", info["domain"], info["bus"], info["device"], info["function"])
	return n.call(ctx, n.process, "mdev", i, func(at place) error {
		return n.cloud.DefineMdev(ctx, at.host, driver.Mdev{UUID: d.UUID, Parent: parent, Type: d.Type})
	})
}

// RemoveMdev implements spawn.MdevRemover.
func (n nodeDevices) RemoveMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	return n.call(ctx, n.process, "mdev", i, func(at place) error { return n.cloud.RemoveMdev(ctx, at.host, arq.AttachHandleUUID) })
}

// Shutdown implements spawn.Hypervisor.
func (l libvirt) Shutdown(ctx context.Context, i spawn.Instance) error {
	return l.call(ctx, l.process, "shutdown", i, l.stop)
}

// Destroy implements spawn.Hypervisor.
func (l libvirt) Destroy(ctx context.Context, i spawn.Instance) error {
	return l.call(ctx, l.process, "destroy", i, l.stop)
}

func (l libvirt) stop(at place) error {
	if g := l.guests[at]; g != nil {
		g.started = ""
	}
	return nil
}

// Undefine implements spawn.Hypervisor.
func (l libvirt) Undefine(ctx context.Context, i spawn.Instance) error {
	return l.call(ctx, l.process, "undefine", i, func(at place) error { delete(l.guests, at); return nil })
}
