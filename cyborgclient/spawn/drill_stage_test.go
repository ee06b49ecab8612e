package spawn_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// stage keeps the state of each run of a drill that is not in its cloud.
type stage struct {
	tokens   credentials                 // of the first agent
	config   spawn.Config                // of all flows
	neighbor string                      // the device profile of the second agent, unless it is chosen
	host     func(node string) string    // the name of Nova's host on a node
	prefers  func(hosts []string) string // the host on which the second agent spawns if it can
	patches  patchLog

	mu   sync.Mutex
	sets map[*simcloud.Cloud]*set
}

// credentials are the users of an agent: for its Cyborg client, for its Placement client, and for the request if that
// differs from the first. The instance belongs to the last project, or to the project of the last user of Cyborg.
type credentials struct{ cyborg, placement, request, project string }

// administrators returns the credentials of an agent that uses only the administrator.
var administrators = credentials{cyborg: "admin", placement: "admin"}

// set is the state of a run's agents and of the hypervisor.
type set struct {
	guests   *hypervisor
	instance spawn.Instance
	flows    []*spawn.Flow
	errs     []error
}

func newStage() *stage {
	return &stage{tokens: administrators, host: sameName, prefers: lastHost, sets: map[*simcloud.Cloud]*set{}}
}

func sameName(node string) string { return node }

// lastHost is a host that no drill stops.
func lastHost(hosts []string) string { return hosts[len(hosts)-1] }

func firstHost(hosts []string) string { return hosts[0] }

// preferring puts the candidates of a host first.
func preferring(cloud *simcloud.Cloud, host string) func([]spawn.Candidate) []spawn.Candidate {
	root := cloud.ProviderUUID(host)
	return func(candidates []spawn.Candidate) []spawn.Candidate {
		slices.SortStableFunc(candidates, func(a, b spawn.Candidate) int {
			return strings.Compare(strings.TrimPrefix(a.Root, root), strings.TrimPrefix(b.Root, root))
		})
		return candidates
	}
}

// on calls f with the set of a run.
func (s *stage) on(cloud *simcloud.Cloud, f func(*set)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[cloud] == nil {
		s.sets[cloud] = &set{}
	}
	f(s.sets[cloud])
}

// unkind returns a cloud in which every service has its own clock and database.
func unkind(m simcloud.Model) simcloud.Model {
	m.Cyborg.AsyncBind, m.Cyborg.BindDelay = true, 2*time.Second
	m.Cyborg.ReadLag, m.Cyborg.ClockSkew = 300*time.Millisecond, 5*time.Minute
	return m
}

// agentOn returns an agent that lives as long as one flow of a drill and receives Nova's events.
func (s *stage) agentOn(ctx context.Context, cloud *simcloud.Cloud) (*world, error) {
	w, err := s.newAgent(ctx, cloud, s.tokens, "")
	if err == nil {
		cloud.HandleEvents(w.events.Handler())
	}
	return w, err
}

// newAgent returns an agent with a name in its User-Agent. Without events it still receives the events of an agent
// with the same registry.
func (s *stage) newAgent(ctx context.Context, cloud *simcloud.Cloud, who credentials, name string) (*world, error) {
	users := map[string]*gophercloud.ProviderClient{}
	for _, user := range []string{who.cyborg, "nova", who.placement, who.request} {
		if user == "" || users[user] != nil {
			continue
		}
		provider, err := cloud.ProviderClient(ctx, user)
		if err != nil {
			return nil, err
		}
		provider.HTTPClient.Transport = s.patches.logging(cloud, provider.HTTPClient.Transport)
		if name != "" {
			provider.UserAgent.Prepend(name)
		}
		users[user] = provider
	}
	w := &world{cloud: cloud, events: externalevent.NewRegistry()}
	var err error
	w.flow, err = spawn.NewFromProvider(users[who.cyborg], spawn.WithServiceProvider(users["nova"]), spawn.WithPlacementProvider(users[who.placement]),
		spawn.WithEvents(w.events), spawn.WithConfig(s.config))
	if err != nil {
		return nil, err
	}
	if who.request != "" {
		user, err := w.flow.Cyborg().ForProvider(users[who.request])
		if err != nil {
			return nil, err
		}
		w.flow = w.flow.As(user)
	}
	w.cyborg = w.flow.Cyborg()
	s.on(cloud, func(set *set) { set.flows = append(set.flows, w.flow) })
	return w, nil
}

// failed records an error of an agent that tries again.
func (s *stage) failed(cloud *simcloud.Cloud, err error) {
	s.on(cloud, func(set *set) { set.errs = append(set.errs, err) })
}

// names reports whether an error of an agent, or one of its suspects, names a leak.
func (s *stage) names(cloud *simcloud.Cloud, flowErr error, left simcloud.Leak) (named bool) {
	s.on(cloud, func(set *set) {
		var all []spawn.Leftover
		for _, err := range append(slices.Clone(set.errs), flowErr) {
			all = append(all, leftoversOf(err)...)
		}
		for _, flow := range set.flows {
			all = append(all, flow.Suspects()...)
		}
		named = slices.ContainsFunc(all, func(l spawn.Leftover) bool { return isLeft(cloud, l, left) })
	})
	return named
}

// leftoversOf lists the leftovers of all errors that are joined in one.
func leftoversOf(err error) []spawn.Leftover {
	var list []spawn.Leftover
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil:
	case *spawn.Error:
		list = append(list, e.Leftovers...)
		list = append(list, leftoversOf(e.Err)...)
	case interface{ Unwrap() error }:
		list = leftoversOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			list = append(list, leftoversOf(each)...)
		}
	}
	return list
}

// isLeft reports whether a leftover names a leak that the cloud found. A mediated device belongs to the ARQ whose
// handle has its UUID.
func isLeft(cloud *simcloud.Cloud, l spawn.Leftover, left simcloud.Leak) bool {
	i := slices.IndexFunc(cloud.Cyborg.ARQs(), func(a fakecyborg.ARQ) bool {
		return a.UUID == left.Subject || left.Kind == simcloud.LeakMdev && a.AttachHandleUUID == left.Subject
	})
	var arq fakecyborg.ARQ
	if i >= 0 {
		arq = cloud.Cyborg.ARQs()[i]
	}
	switch l.Kind {
	case spawn.LeftoverARQ:
		return i >= 0 && l.ID == arq.UUID
	case spawn.LeftoverARQs:
		return i >= 0 && l.ID == arq.InstanceUUID
	case spawn.LeftoverAllocation:
		return left.Kind == simcloud.LeakAllocation && l.ID == left.Subject
	case spawn.LeftoverCreate:
		return i >= 0 && l.ID == arq.DeviceProfileName && arq.InstanceUUID == "" && !arq.CreatedAt.Before(l.Since)
	}
	return false
}

// reconcile reconciles as an administrator's agent does after a crash and at the end of a run.
func (s *stage) reconcile(ctx context.Context, cloud *simcloud.Cloud) error {
	w, err := s.newAgent(ctx, cloud, administrators, "")
	if err != nil {
		return err
	}
	_, err = w.flow.Reconcile(ctx, spawn.ReconcileOpts{
		Hosts: cloud.HostNames(), Free: true,
		Living: func(_ context.Context, instance string) (bool, error) { return isGuest(cloud, instance), nil },
	})
	s.patches.end(cloud)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, cloud)
	return err
}

func isGuest(cloud *simcloud.Cloud, instance string) bool {
	return slices.ContainsFunc(cloud.Guests(), func(g sim.Guest) bool { return g.UUID == instance })
}

// drilled completes the configuration of a drill: its verdict, and every second time an
// unkind cloud.
func (s *stage) drilled(config drill.Config, isUnkind bool) drill.Config {
	config.Names, config.Recover = s.names, s.reconcile
	config.Within = config.Timeout + 3*time.Hour // the second agent tries again for an hour, and for another one
	if isUnkind {
		config.Model = unkind(config.Model)
	}
	return config
}

// bystander is the name of the second agent, neighbor its instance.
const (
	bystander = "second-agent"
	neighbor  = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b0f1"
)

// beside runs a flow next to a second agent with its own client, registry and Flow. The second agent spawns an
// instance, reconciles, deletes it, and spawns and deletes it again, so that late requests of the first life arrive
// in the second. The two agents never act at the same instant.
func (s *stage) beside(flow drill.Flow) drill.Flow {
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		ended := make(chan error, 1)
		go func() { ended <- s.second(context.WithoutCancel(ctx), cloud) }() // it tries again for an hour
		defer func() {                                                       // also when the flow panics
			if err := <-ended; err != nil {
				panic(fmt.Sprintf("the second agent: %v", err))
			}
		}()
		return flow(ctx, cloud)
	}
}

// second runs the second agent. It returns the errors of up to four tries.
func (s *stage) second(ctx context.Context, cloud *simcloud.Cloud) error {
	profile := cmp.Or(s.neighbor, "vgpu")
	s.on(cloud, func(set *set) {
		if set.guests != nil && s.neighbor == "" {
			profile = "gpu" // which needs no agent: hosts go down
		}
	})
	order := preferring(cloud, s.prefers(cloud.HostNames()))
	spawnIt := func(w *world) error {
		isBroken := slices.ContainsFunc(cloud.Faults().Rules(), func(r fault.State) bool { return r.Rule.Operation == fault.MdevCreate && r.Rule.Times == -1 })
		if isBroken { // with a dead agent of the other host no host has a vGPU
			profile = "gpu"
		}
		result, err := w.flow.Run(ctx, spawn.Request{Instance: neighbor, Flavor: flavor(profile), Order: order})
		if err != nil {
			return err
		}
		if len(result.Suspects) > 0 { // which the flow itself forgets after an hour
			s.failed(cloud, &spawn.Error{Instance: neighbor, Leftovers: result.Suspects})
		}
		return cloud.DefineGuest(sim.Guest{UUID: neighbor, Host: result.Host, Domain: string(result.Domain)})
	}
	deleteIt := func(w *world) error {
		bound := func(a fakecyborg.ARQ) bool {
			return a.InstanceUUID == neighbor && a.State == fakecyborg.StateBound
		}
		claimed := func(a placementsim.Allocation) bool { return a.Consumer == neighbor }
		switch {
		case !isGuest(cloud, neighbor):
		case !slices.ContainsFunc(cloud.Cyborg.ARQs(), bound):
			return errors.New("its guest has lost its accelerator")
		case !slices.ContainsFunc(cloud.Placement.Allocations(), claimed):
			return errors.New("its guest has lost its allocation")
		}
		cloud.RemoveGuest(neighbor)
		return w.flow.Release(ctx, neighbor)
	}
	reconcile := func(w *world) error { // every instance lives, or will
		_, err := w.flow.Reconcile(ctx, spawn.ReconcileOpts{
			Hosts: cloud.HostNames(), Free: true,
			Living: func(context.Context, string) (bool, error) { return true, nil },
		})
		return err
	}
	var w *world // nil after a failure, as after a crash
	for _, step := range []struct {
		after time.Duration
		do    func(w *world) error
	}{
		{137 * time.Millisecond, spawnIt}, {3011 * time.Millisecond, reconcile}, {6007 * time.Millisecond, deleteIt},
		{83 * time.Second, spawnIt}, {509 * time.Second, deleteIt},
	} {
		time.Sleep(step.after)
		var err error
		if w, err = s.insist(ctx, w, cloud, step.do); err != nil {
			return err
		}
	}
	return nil
}

// insist tries four times, because two faults hit at most two tries. Before it tries again, it releases the effects
// of late requests. The first time it does so soon, so that more late requests follow, and then as after a crash,
// when no request is in transit.
func (s *stage) insist(ctx context.Context, w *world, cloud *simcloud.Cloud, do func(*world) error) (*world, error) {
	var failures []error
	for try := range 4 {
		var err error
		if w == nil {
			w, err = s.newAgent(ctx, cloud, administrators, bystander)
		}
		if err == nil && try > 0 && !isGuest(cloud, neighbor) {
			err = w.flow.Release(ctx, neighbor)
		}
		if err == nil && try > 1 {
			time.Sleep(8*time.Minute + 43*time.Millisecond) // until that release cannot come true late itself
		}
		if err == nil {
			err = do(w)
		}
		if err == nil {
			return w, nil
		}
		s.failed(cloud, err)
		failures = append(failures, err)
		if try == 0 {
			time.Sleep(43*time.Second + 41*time.Millisecond)
			continue
		}
		w = nil
		time.Sleep(16*time.Minute + 41*time.Millisecond)
	}
	return nil, errors.Join(failures...)
}
