package spawn_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// place is where a guest is.
type place struct{ instance, host string }

func placeOf(i spawn.Instance) place { return place{i.UUID, i.Host} }

// hypervisor has the guests of a cloud: the domains that a host has saved and those that run. Like libvirt it
// requires that a mediated device exists when its guest starts. It registers the guest in the cloud with the domain
// of its current host.
type hypervisor struct {
	mu    *sync.Mutex // of all processes that call
	cloud *simcloud.Cloud
	saved map[place]string
	runs  map[place]string  // the domain that a guest was started with
	home  map[string]string // host in the cloud's registration
	down  map[string]bool   // hosts that do not answer
	own   map[string]bool   // mediated devices of Nova's
	calls []string
	fail  map[string]int    // call -> how many times it fails
	after bool              // a failing call has done its work
	stuck bool              // guests ignore a shutdown
	hook  func(call int)    // called before each call
	old   []byte            // the domain of a guest in rescue
	named map[string]string // hosts by another name
	line  *mortalLine       // of the process that calls; nil: it lives on

	elsewhere spawn.Hypervisor // has the guests, in another process; nil: they are here
}

func newHypervisor(cloud *simcloud.Cloud) *hypervisor {
	return &hypervisor{
		mu: new(sync.Mutex), cloud: cloud, saved: map[place]string{}, runs: map[place]string{}, home: map[string]string{},
		down: map[string]bool{}, own: map[string]bool{}, fail: map[string]int{},
	}
}

var errHypervisor = errors.New("the hypervisor failed")

// call records a call, fails it if a fault is set, and does the work.
func (h *hypervisor) call(ctx context.Context, name string, i spawn.Instance, work func() error) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, name)
	if h.hook != nil {
		h.hook(len(h.calls))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.line != nil {
		if err := h.line.call(); err != nil {
			return err
		}
		defer func() {
			if h.line.dead.Load() {
				err = errDead
			}
		}()
	}
	if h.down[h.node(i.Host)] || i.Host == "" {
		return fmt.Errorf("host %q is down", i.Host)
	}
	rule, failing := h.cloud.Faults().Decide(hypervisorWork+sim.OperationName(name), i.UUID)
	before, after := failing && !rule.Applied(), failing && rule.Applied()
	if h.fail[name] != 0 {
		h.fail[name]--
		before, after = !h.after, h.after
	}
	if before {
		return errHypervisor
	}
	if err := work(); err != nil {
		return err
	}
	if err := h.tell(i.UUID); err != nil {
		return err
	}
	if after {
		return errHypervisor
	}
	return nil
}

// hypervisorWork is the prefix of the names of its calls in fault rules.
const hypervisorWork = "hypervisor."

// work lists the calls for the cloud's fault rules.
func (h *hypervisor) work() []fault.Operation {
	var list []fault.Operation
	for _, call := range []sim.OperationName{"domain", "define", "start", "shutdown", "destroy", "undefine", "create mdev", "remove mdev"} {
		list = append(list, fault.Operation{Name: hypervisorWork + call, Subject: "the uuid of the instance", Actions: []fault.Action{fault.Status}})
	}
	return list
}

// tell registers the guest of the host in the cloud, or removes a guest that no host has.
func (h *hypervisor) tell(instance string) error {
	home := place{instance, h.home[instance]}
	if _, there := h.saved[home]; !there {
		hosts := slices.Sorted(func(yield func(string) bool) {
			for guest := range maps.Keys(h.saved) {
				if guest.instance == instance && !yield(guest.host) {
					return
				}
			}
		})
		if len(hosts) == 0 {
			h.cloud.RemoveGuest(instance)
			return nil
		}
		home.host = hosts[0]
		h.home[instance] = home.host
	}
	domain := h.saved[home]
	if h.down[home.host] {
		domain = "" // a host that is off uses no devices
	}
	return h.cloud.DefineGuest(sim.Guest{UUID: instance, Host: home.host, Domain: domain})
}

// Domain implements spawn.Hypervisor.
func (h *hypervisor) Domain(ctx context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	err = h.call(ctx, "domain", i, func() error {
		saved, there := h.saved[h.at(i)]
		if !there {
			return fmt.Errorf("instance %s: %w", i.UUID, spawn.ErrNoGuest)
		}
		domain = []byte(saved)
		_, running = h.runs[h.at(i)]
		return nil
	})
	return domain, running, err
}

// Define implements spawn.Hypervisor.
func (h *hypervisor) Define(ctx context.Context, i spawn.Instance, domain []byte) error {
	return h.call(ctx, "define", i, func() error {
		h.saved[h.at(i)] = string(domain)
		h.home[i.UUID] = h.node(i.Host)
		return nil
	})
}

// Start implements spawn.Hypervisor.
func (h *hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, "start", i, func() error {
		if _, running := h.runs[h.at(i)]; running {
			return errors.New("it runs already")
		}
		if err := h.devicesExist(i); err != nil {
			return err
		}
		h.runs[h.at(i)] = h.saved[h.at(i)]
		return nil
	})
}

func (h *hypervisor) devicesExist(i spawn.Instance) error {
	devices, err := domainxml.Read([]byte(h.saved[h.at(i)]))
	if err != nil {
		return err
	}
	mdevs, err := h.cloud.Mdevs(h.node(i.Host))
	if err != nil {
		return err
	}
	there := maps.Clone(h.own)
	for _, mdev := range mdevs {
		there[mdev.UUID] = true
	}
	for _, d := range devices {
		if d.MDEV != "" && !there[d.MDEV] {
			return fmt.Errorf("device not found: mediated device '%s' not found", d.MDEV)
		}
	}
	return nil
}

// Shutdown implements spawn.Hypervisor.
func (h *hypervisor) Shutdown(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, "shutdown", i, func() error {
		if h.saved[h.at(i)] == "" {
			return spawn.ErrNoGuest
		}
		if h.stuck {
			return errors.New("the guest ignores it")
		}
		delete(h.runs, h.at(i))
		return nil
	})
}

// Destroy implements spawn.Hypervisor.
func (h *hypervisor) Destroy(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, "destroy", i, func() error { delete(h.runs, h.at(i)); return nil })
}

// Undefine implements spawn.Hypervisor.
func (h *hypervisor) Undefine(ctx context.Context, i spawn.Instance) error {
	return h.call(ctx, "undefine", i, func() error { delete(h.saved, h.at(i)); return nil })
}

// rename gives the host of an instance another name, as Nova may have a short one for the compute node.
func (h *hypervisor) rename(i spawn.Instance, to string) { h.named = map[string]string{to: i.Host} }

// node is the name by which the cloud knows a host.
func (h *hypervisor) node(host string) string { return cmp.Or(h.named[host], host) }

// at is where a guest is, by the name of the node.
func (h *hypervisor) at(i spawn.Instance) place { return place{i.UUID, h.node(i.Host)} }

// powerCut stops a host and all of its guests.
func (h *hypervisor) powerCut(host string) error {
	host = h.node(host)
	if err := h.cloud.StopHost(host); err != nil {
		return err
	}
	maps.DeleteFunc(h.runs, func(guest place, _ string) bool { return guest.host == host })
	return nil
}

// guestFuncs is a hypervisor of functions, which are called with the guest and its saved domain. A nil function does
// nothing.
type guestFuncs struct {
	start, destroy func(context.Context, sim.Guest) error
	mdevHooks
	saved map[place]string
}

func (g *guestFuncs) guest(i spawn.Instance) sim.Guest {
	return sim.Guest{UUID: i.UUID, Host: i.Host, Domain: g.saved[placeOf(i)]}
}

// Domain implements spawn.Hypervisor.
func (g *guestFuncs) Domain(context.Context, spawn.Instance) ([]byte, bool, error) {
	return nil, false, spawn.ErrNoGuest
}

// Define implements spawn.Hypervisor.
func (g *guestFuncs) Define(_ context.Context, i spawn.Instance, domain []byte) error {
	if g.saved == nil {
		g.saved = map[place]string{}
	}
	g.saved[placeOf(i)] = string(domain)
	return nil
}

// Start implements spawn.Hypervisor.
func (g *guestFuncs) Start(ctx context.Context, i spawn.Instance) error {
	if g.start == nil {
		return nil
	}
	return g.start(ctx, g.guest(i))
}

// Shutdown implements spawn.Hypervisor.
func (g *guestFuncs) Shutdown(ctx context.Context, i spawn.Instance) error { return g.Destroy(ctx, i) }

// Destroy implements spawn.Hypervisor.
func (g *guestFuncs) Destroy(ctx context.Context, i spawn.Instance) error {
	if g.destroy == nil {
		return nil
	}
	return g.destroy(ctx, g.guest(i))
}

// Undefine implements spawn.Hypervisor.
func (g *guestFuncs) Undefine(_ context.Context, i spawn.Instance) error {
	delete(g.saved, placeOf(i))
	return nil
}

// failsToStart is a hypervisor whose guests do not start.
func failsToStart(err error) *guestFuncs {
	return &guestFuncs{start: func(context.Context, sim.Guest) error { return err }}
}

// site is a world with guests that run.
type site struct {
	*world
	guests  *hypervisor
	ops     *spawn.Operations
	profile string           // of the flavor
	left    []spawn.Leftover // of the last result
}

func newSite(t *testing.T, opts worldOpts) *site {
	t.Helper()
	s := &site{world: newWorld(t, opts)}
	s.guests = newHypervisor(s.cloud)
	s.renew(t)
	return s
}

// renew creates the operations of the current flow.
func (s *site) renew(t *testing.T) {
	t.Helper()
	var err error
	if s.ops, err = s.starts().Operations(); err != nil {
		t.Fatal(err)
	}
}

// starts returns the flow that starts the guests of its spawns.
func (s *site) starts() *spawn.Flow { return s.flow.On(s.guests.spawns()) }

// powerCut stops a host.
func (s *site) powerCut(t *testing.T, host string) {
	t.Helper()
	settled(t, s.guests.powerCut(host))
}

// loseHost is a powerCut after which the host stays down
func (s *site) loseHost(t *testing.T, host string) {
	t.Helper()
	s.powerCut(t, host)
	s.guests.down[host] = true
}

// spawn runs an instance of a profile of the model, with the ports given.
func (s *site) spawn(t *testing.T, profile string, ports ...spawn.Port) spawn.Instance {
	t.Helper()
	i, err := s.launch(t.Context(), profile, ports...)
	settled(t, err)
	s.guests.calls = nil
	s.cloud.CheckNoLeaks(t)
	s.cloud.ForgetRequests()
	return i
}

// launch is spawn without a testing.T.
func (s *site) launch(ctx context.Context, profile string, ports ...spawn.Port) (i spawn.Instance, err error) {
	req := request(profile)
	if profile == "" {
		req.Flavor = plainFlavor()
	}
	req.Ports = ports
	result, err := s.starts().Run(ctx, req)
	if err != nil {
		return i, err
	}
	s.left = result.Leftovers
	return spawn.InstanceOf(req, result), nil
}

// running checks whether the guest runs, and that a running guest has every device of its ARQs.
func (s *site) running(t *testing.T, i spawn.Instance, want bool) {
	t.Helper()
	if err := s.runs(i, want); err != nil {
		t.Error(err)
	}
}

func (s *site) runs(i spawn.Instance, want bool) error {
	domain, runs := s.guests.runs[s.guests.at(i)]
	if runs != want {
		return fmt.Errorf("the guest runs: %t, want %t", runs, want)
	}
	if want && domain != s.guests.saved[s.guests.at(i)] {
		return fmt.Errorf("the guest runs with another domain than the saved one:\n%s", domain)
	}
	return nil
}

// sound checks that nothing leaks, and that no event is registered.
func (s *site) sound(t *testing.T) {
	t.Helper()
	s.cloud.CheckNoLeaks(t)
	if pending := s.events.Pending(); pending != 0 {
		t.Errorf("%d events are still registered", pending)
	}
}

// asked lists the operations that were requested from Cyborg, without reads.
func (s *site) asked() []string {
	list := []string{}
	for _, r := range s.cloud.Requests() {
		if r.Service == "accelerator" && r.Method != "GET" {
			list = append(list, string(r.Operation)+" "+strings.TrimSuffix(r.Query, r.Query[strings.IndexByte(r.Query+"=", '='):]))
		}
	}
	return list
}

// arqs are the ARQs of the instance as Cyborg has them.
func (s *site) arqs(t *testing.T, i spawn.Instance) []cyborgclient.ARQ {
	t.Helper()
	arqs, err := s.cyborg.ListARQs(t.Context(), cyborgclient.ListARQsOpts{Instance: i.UUID})
	settled(t, err)
	return arqs
}

func plainFlavor() requestspec.Flavor {
	return requestspec.Flavor{Name: "plain", VCPUs: 1, MemoryMB: 512, RootGB: 1}
}
