package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const (
	soakAgents = 3
	soakHosts  = 8
	soakPeriod = 24 * time.Hour * soakAgents / 1000 // of the spawns of an agent: 1,000 a day of all
)

// soak is a cloud with agents that run for days.
type soak struct {
	cloud *simcloud.Cloud

	mu     sync.Mutex
	living map[string]bool // what Nova's database has, instances that are being built included

	spawned, failed, crashed, reconciled, freed atomic.Int64
}

// soakAgent is one of its agents, over all of its processes.
type soakAgent struct {
	*soak
	number int
	hosts  []string
	random *rand.Rand
	line   *mortalLine
	flow   *spawn.Flow
	built  int
	runs   []soakGuest
	errs   []error
}

type soakGuest struct {
	uuid string
	due  time.Time
}

// mortalLine is the network of a process, which may die before or after a request.
type mortalLine struct {
	next http.RoundTripper
	left atomic.Int64 // requests until the process dies; 0: it lives on
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

// RoundTrip implements http.RoundTripper.
func (l *mortalLine) RoundTrip(req *http.Request) (*http.Response, error) {
	if l.dead.Load() {
		return nil, errDead
	}
	n := l.left.Load()
	if n > 0 && l.left.Add(-1) == 0 {
		l.dead.Store(true)
		if n%2 == 0 {
			return nil, errDead
		}
	}
	res, err := l.next.RoundTrip(req)
	if l.dead.Load() && err == nil {
		return nil, errors.Join(errDead, res.Body.Close())
	}
	return res, err
}

// TestSoak lets agents run for days of virtual time on a cloud where requests get lost, late
// and refused, events get lost, tokens last for an hour, and the agents crash. In the end
// nothing is left, and no guest has ever missed its accelerator.
func TestSoak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := simcloud.ScaleModel(soakHosts, 4)
		model.Cyborg.AsyncBind, model.Cyborg.BindDelay = true, time.Second
		s := &soak{cloud: simcloud.Run(t, model), living: map[string]bool{}}
		if err := s.cloud.Faults().Set(soakFaults()...); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(soakTime)
		var agents []*soakAgent
		var group sync.WaitGroup
		for n := range soakAgents {
			a := &soakAgent{soak: s, number: n, random: rand.New(rand.NewPCG(1, uint64(n)))}
			for i, host := range s.cloud.HostNames() {
				if i%soakAgents == n {
					a.hosts = append(a.hosts, host)
				}
			}
			agents = append(agents, a)
			group.Go(func() { a.work(t.Context(), end) })
		}
		group.Wait()
		s.settle(t, agents)
		t.Logf("%s: %d spawns, %d failed, %d crashes, %d reconciliations freed %d things", soakTime,
			s.spawned.Load(), s.failed.Load(), s.crashed.Load(), s.reconciled.Load(), s.freed.Load())
	})
}

// soakFaults strike about one spawn in twenty.
func soakFaults() []fault.Rule {
	const rare = 0.004
	late := func(operation sim.OperationName, delay time.Duration) fault.Rule {
		return fault.Rule{Operation: operation, Action: fault.Late, Delay: delay, Probability: rare}
	}
	return []fault.Rule{
		late(fault.ARQCreate, 5*time.Second), late(fault.ARQCreate, 7*time.Minute),
		late(fault.ARQBind, 20*time.Millisecond), late(fault.ARQBind, 7*time.Minute),
		late(fault.ARQDelete, 7*time.Minute), late(fault.AllocationsPut, 5*time.Second),
		late(fault.AllocationsPut, 7*time.Minute),
		{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After, Probability: rare},
		{Operation: fault.ARQBind, Action: fault.Proxy, Status: http.StatusGatewayTimeout, When: fault.After, Probability: rare},
		{Operation: fault.ARQBind, Action: fault.ExpireToken, Probability: rare},
		{Operation: fault.ARQBind, Action: fault.ExpireServiceToken, Probability: rare},
		{Operation: fault.ARQDelete, Action: fault.Proxy, Status: http.StatusServiceUnavailable, Probability: rare},
		{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After, Probability: rare},
		{Operation: fault.AllocationCandidatesList, Action: fault.Status, Status: http.StatusServiceUnavailable, Probability: rare},
		{Operation: fault.EventSend, Action: fault.Drop, Probability: 10 * rare},
		{Operation: fault.ExternalEventForward, Action: fault.Drop, Probability: 10 * rare},
	}
}

func (s *soak) alive(instance string, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if alive {
		s.living[instance] = true
	} else {
		delete(s.living, instance)
	}
}

func (s *soak) isLiving(_ context.Context, instance string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.living[instance], nil
}

// settle ends the faults and all instances, lets every agent reconcile once what may still
// have come true has done so, and checks what is left.
func (s *soak) settle(t *testing.T, agents []*soakAgent) {
	t.Helper()
	s.cloud.Faults().Clear()
	for _, a := range agents {
		for len(a.runs) > 0 {
			a.remove(t.Context(), 0)
		}
	}
	time.Sleep(20 * time.Minute)
	for _, a := range agents {
		a.reconcile(t.Context())
		if err := errors.Join(a.errs...); err != nil {
			t.Errorf("agent %d: %v", a.number, err)
		}
	}
	s.cloud.CheckNoLeaks(t)
}

// start is a new process of the agent: it has forgotten everything but the instances, which
// Nova knows. Only the first agent gets events.
func (a *soakAgent) start(ctx context.Context) error {
	a.line = &mortalLine{next: a.cloud.Transport()}
	var providers [2]*gophercloud.ProviderClient
	for i, user := range []string{"admin", "nova"} {
		p, err := a.cloud.ProviderClient(ctx, user)
		if err != nil {
			return err
		}
		p.HTTPClient.Transport, providers[i] = a.line, p
	}
	events := externalevent.NewRegistry()
	if a.number == 0 {
		a.cloud.HandleEvents(events.Handler())
	}
	var err error
	if a.flow, err = spawn.NewFromProvider(providers[0], spawn.WithServiceProvider(providers[1]), spawn.WithEvents(events)); err == nil {
		a.reconcile(ctx)
	}
	return err
}

// work spawns and deletes until the end, and reconciles every hour.
func (a *soakAgent) work(ctx context.Context, end time.Time) {
	time.Sleep(time.Duration(a.number) * 17 * time.Second)
	if err := a.start(ctx); err != nil {
		a.errs = append(a.errs, err)
		return
	}
	hour := time.Now()
	for time.Now().Before(end) {
		next := time.Now().Add(soakPeriod)
		for len(a.runs) > 0 && !time.Now().Before(a.runs[0].due) {
			a.remove(ctx, 0)
		}
		a.spawn(ctx)
		if a.line.dead.Load() {
			a.crashed.Add(1)
			if err := a.start(ctx); err != nil {
				a.errs = append(a.errs, err)
				return
			}
		}
		if time.Since(hour) >= time.Hour {
			hour = time.Now()
			a.reconcile(ctx)
		}
		time.Sleep(time.Until(next))
	}
}

// spawn makes an instance of half an hour or so. One process in fifty dies meanwhile.
func (a *soakAgent) spawn(ctx context.Context) {
	a.built++
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", a.number, a.built)
	a.line.left.Store(0)
	if a.random.IntN(50) == 0 {
		a.line.left.Store(1 + a.random.Int64N(12))
	}
	a.alive(id, true)
	result, err := a.flow.Run(ctx, spawn.Request{Instance: id, Flavor: flavor("gpu")})
	if err == nil {
		err = a.cloud.DefineGuest(sim.Guest{UUID: id, Host: result.Host, Domain: string(result.Domain)})
	}
	if err != nil {
		a.failed.Add(1)
		a.alive(id, false)
		return
	}
	a.spawned.Add(1)
	lifetime := 20*time.Minute + time.Duration(a.random.Int64N(int64(20*time.Minute)))
	a.runs = append(a.runs, soakGuest{id, time.Now().Add(lifetime)})
}

// remove deletes an instance, which must have had its accelerator until now. What cannot be
// released is no instance's any more.
func (a *soakAgent) remove(ctx context.Context, n int) {
	id := a.runs[n].uuid
	a.runs = slices.Delete(a.runs, n, n+1)
	whole := slices.ContainsFunc(a.cloud.Cyborg.ARQs(), func(arq fakecyborg.ARQ) bool {
		return arq.InstanceUUID == id && arq.State == fakecyborg.StateBound
	})
	if !whole {
		a.errs = append(a.errs, fmt.Errorf("instance %s has lost its accelerator", id))
	}
	a.cloud.RemoveGuest(id)
	a.alive(id, false)
	_ = a.flow.Release(ctx, id) // Reconcile frees what is left
}

// reconcile frees what crashes and late requests left on the agent's hosts.
func (a *soakAgent) reconcile(ctx context.Context) {
	a.reconciled.Add(1)
	found, _ := a.flow.Reconcile(ctx, spawn.ReconcileOpts{Hosts: a.hosts, Living: a.isLiving, Free: true}) // again in an hour
	a.freed.Add(int64(len(found)))
}
