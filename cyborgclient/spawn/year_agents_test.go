package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

// yearAgent is a program that spawns instances, across restarts of its processes.
type yearAgent struct {
	*year
	number int
	hosts  []string
	random *rand.Rand
	line   *mortalLine
	own    *spawn.Flow // an administrator's, for what no instance owns
	flow   *spawn.Flow // with the token of the requests
	ops    *spawn.Operations
	built  int
	has    []*yearInstance // oldest first
}

// mortalLine is the network of a process, which may die before or after a request.
type mortalLine struct {
	next   http.RoundTripper
	left   atomic.Int64 // calls until the process dies; 0: it lives on
	before atomic.Bool  // the last call is not made
	dead   atomic.Bool
	died   func() // called when the process dies; nil: nothing
}

var errDead = errors.New("the process is dead")

// call counts a call, which may be the last one. A dead process makes none.
func (l *mortalLine) call() error {
	switch {
	case l.dead.Load():
		return errDead
	case l.left.Load() == 0 || l.left.Add(-1) != 0 || l.dead.Swap(true):
		return nil
	}
	if l.died != nil {
		l.died()
	}
	if l.before.Load() {
		return errDead
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (l *mortalLine) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := l.call(); err != nil {
		return nil, err
	}
	res, err := l.next.RoundTrip(req)
	if l.dead.Load() && err == nil {
		return nil, errors.Join(errDead, res.Body.Close())
	}
	return res, err
}

// member reports whether the agent's requests come with a member's token. The others are an administrator's.
func (a *yearAgent) member() bool { return a.number%2 == 1 }

// handsOver reports whether the agent is of two processes, a conductor and a compute side.
func (a *yearAgent) handsOver() bool { return a.number >= yearAgents/2 }

// start starts a new process of the agent, which knows only the instances in Nova's database. Only the first agent
// gets events.
func (a *yearAgent) start(ctx context.Context) error {
	line := &mortalLine{next: a.cloud.Transport()}
	own, flow, err := a.connect(ctx, line)
	if err != nil {
		return err
	}
	a.line, a.own, a.flow = line, own, flow
	a.ops, err = flow.On(a.guests).Operations()
	return err
}

// connect makes the flows of a process.
func (a *yearAgent) connect(ctx context.Context, line *mortalLine) (own, flow *spawn.Flow, err error) {
	providers := map[string]*gophercloud.ProviderClient{}
	for _, user := range []string{"admin", "nova", "demo"} {
		p, err := a.cloud.ProviderClient(ctx, user)
		if err != nil {
			return nil, nil, err
		}
		p.HTTPClient.Transport, providers[user] = line, p
	}
	events := externalevent.NewRegistry()
	if a.number == 0 {
		a.cloud.HandleEvents(events.Handler())
	}
	own, err = spawn.NewFromProvider(providers["admin"], spawn.WithServiceProvider(providers["nova"]), spawn.WithPlacementProvider(providers["nova"]), spawn.WithEvents(events))
	if err != nil || !a.member() {
		return own, own, err
	}
	user, err := own.Cyborg().ForProvider(providers["demo"])
	if err != nil {
		return nil, nil, err
	}
	return own, own.As(user), nil
}

// build spawns an instance in one process or in two.
func (a *yearAgent) build(ctx context.Context, req spawn.Request) (*spawn.Result, error) {
	if !a.handsOver() {
		return a.flow.Run(ctx, req)
	}
	return handOver(ctx, a.flow, func(ctx context.Context) (*spawn.Flow, error) {
		_, flow, err := a.connect(ctx, a.line)
		return flow, err
	}, req)
}

// revive replaces a process that died. It repeats this until it succeeds.
func (a *yearAgent) revive(ctx context.Context) {
	for a.line == nil || a.line.dead.Load() {
		if err := a.start(ctx); err == nil {
			a.reconcile(ctx)
			return
		}
		time.Sleep(time.Minute)
	}
}

// work spawns and deletes instances until the end, and reconciles every four hours.
func (a *yearAgent) work(ctx context.Context) {
	period := 24 * time.Hour * yearAgents / spawnsAnDay
	next := a.started.Add(time.Duration(a.number)*period/yearAgents + time.Duration(a.number)*1009*time.Microsecond)
	last := a.started
	for !a.over.Load() {
		time.Sleep(time.Until(next))
		next = next.Add(period + time.Duration(a.random.Int64N(int64(time.Second))) - time.Second/2)
		a.revive(ctx)
		a.tend(ctx)
		a.revive(ctx)
		a.spawn(ctx)
		if a.line.dead.Load() {
			a.counts.crashed.Add(1)
			a.revive(ctx)
		}
		if time.Since(last) >= 4*time.Hour {
			last = time.Now()
			a.reconcile(ctx)
		}
	}
}

// newID is the uuid of the next instance.
func (a *yearAgent) newID() string {
	a.built++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", a.number, a.built)
}

// spawn spawns an instance that lives for some hours. The operator may kill the process during the spawn.
func (a *yearAgent) spawn(ctx context.Context) {
	a.mu.Lock()
	profile := a.profiles[a.random.IntN(len(a.profiles))]
	a.mu.Unlock()
	i := &yearInstance{profile: profile, living: true, busy: true, due: time.Now().Add(2*time.Hour + time.Duration(a.random.Int64N(int64(4*time.Hour))))}
	i.UUID = a.newID()
	a.mu.Lock()
	a.instances[i.UUID] = i
	a.mu.Unlock()
	req := spawn.Request{Instance: i.UUID, Flavor: flavor(profile)}
	result, err := a.build(ctx, req)
	if err == nil {
		i.Instance = spawn.InstanceOf(req, result)
		i.Host = shortName(i.Host)
		err = errors.Join(a.guests.Define(ctx, i.Instance, result.Domain), a.guests.Start(ctx, i.Instance))
	}
	a.mu.Lock()
	i.busy = false
	switch {
	case errors.Is(err, spawn.ErrNoCandidates): // which leaves nothing
		delete(a.instances, i.UUID)
		a.mu.Unlock()
		a.counts.full.Add(1)
		return
	case err != nil:
		i.living, i.trouble = false, time.Now()
	default:
		i.guest = true
		a.has = append(a.has, i)
	}
	a.mu.Unlock()
	a.suspect(i, result)
	a.tried(err, a.values(i)...)
	if err == nil {
		a.counts.spawned.Add(1)
		if profile == yearRegion {
			a.program(ctx, i)
		}
		return
	}
	a.counts.failed.Add(1)
	a.befell("")
	a.happened("spawn %s of %s: %v", i.UUID, profile, err)
	if i.Host != "" { // it was spawned and does not start
		i.guest = false
		a.delete(ctx, i)
	}
}

// values are what an instance of the agent has of the axes of TestDrillAxes, and its device profile.
func (a *yearAgent) values(i *yearInstance) []string {
	list := []string{"one process", "an administrator's token", "profile " + i.profile}
	if a.handsOver() {
		list[0] = "two processes"
	}
	if a.member() {
		list[1] = "a member's token with the request"
	}
	switch node := a.guests.node(i.Host); {
	case node == "":
	case node == i.Host:
		list = append(list, "a short name of the host")
	default:
		list = append(list, "a whole name of the node")
	}
	return list
}

// program loads another function into the region of an instance, as its owner may.
func (a *yearAgent) program(ctx context.Context, i *yearInstance) {
	a.begin(i)
	_, err := a.flow.Program(ctx, spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionName: "gzip"})
	a.tried(err, "program")
	a.ended(i, err)
}

// suspect records that an earlier attempt has leftovers.
func (a *yearAgent) suspect(i *yearInstance, result *spawn.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if result != nil && len(result.Suspects) > 0 {
		i.trouble = time.Now()
		a.trouble[""] = i.trouble
	}
}

// tend deletes the agent's instances that are due, and runs an operation on one of the others.
func (a *yearAgent) tend(ctx context.Context) {
	for _, i := range slices.Clone(a.has) {
		switch {
		case a.line.dead.Load():
			return
		case a.guests.isDown(i.Host):
			a.evacuate(ctx, i)
		case !time.Now().Before(i.due):
			a.delete(ctx, i)
		case !a.guests.isRunning(i.Instance):
			a.begin(i)
			a.ended(i, a.ops.ResumeAfterHostReboot(ctx, i.Instance))
		}
	}
	if len(a.has) == 0 || a.random.IntN(8) > 0 || a.line.dead.Load() {
		return
	}
	a.operate(ctx, a.has[a.random.IntN(len(a.has))], a.random.IntN(5))
}

// evacuate moves an instance away from a host that has been down for long.
func (a *yearAgent) evacuate(ctx context.Context, i *yearInstance) {
	a.mu.Lock()
	down := time.Since(a.trouble[a.guests.node(i.Host)])
	a.mu.Unlock()
	if down < 25*time.Minute {
		return
	}
	a.begin(i)
	result, err := a.ops.Evacuate(ctx, i.Instance, spawn.MoveOpts{})
	a.suspect(i, result)
	if result != nil { // also when something of the old host could not be given up
		a.mu.Lock()
		i.Host, i.ARQs = result.Host, uuidsOf(result.ARQs)
		a.mu.Unlock()
	}
	a.ended(i, err)
}

// hasTrouble reports whether a host was recently hit by a fault.
func (y *year) hasTrouble(host string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	at, has := y.trouble[host]
	return has && time.Since(at) < time.Hour
}

// begin and ended mark the start and the end of an operation on an instance.
func (a *yearAgent) begin(i *yearInstance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i.busy = true
}

func (a *yearAgent) ended(i *yearInstance, err error) {
	a.mu.Lock()
	i.busy = false
	if err == nil {
		i.attempts = 0
	} else {
		i.attempts++
		i.trouble = time.Now()
	}
	attempts := i.attempts
	a.mu.Unlock()
	if err != nil {
		a.counts.failed.Add(1)
		a.befell("")
		a.happened("instance %s: %v", i.UUID, err)
	}
	const most = 60 // the agent comes by every six minutes
	if attempts > most {
		a.unexplained("instance %s on host %s does not reach its end: %v", i.UUID, i.Host, err)
	}
}

// operate runs one of Nova's operations on an instance, and repeats it until it succeeds.
func (a *yearAgent) operate(ctx context.Context, i *yearInstance, which int) {
	if a.guests.isDown(i.Host) {
		return
	}
	a.begin(i)
	a.counts.operations.Add(1)
	var err error
	switch which {
	case 0:
		err = a.ops.Stop(ctx, i.Instance)
		if err == nil {
			err = a.ops.Start(ctx, i.Instance)
		}
	case 1:
		err = a.ops.HardReboot(ctx, i.Instance, domainxml.NewDomain(domainxml.DomainOpts{Name: "again"}))
	case 2:
		err = a.ops.SoftReboot(ctx, i.Instance)
	case 3:
		err = a.ops.Rebuild(ctx, i.Instance, domainxml.NewDomain(domainxml.DomainOpts{Name: "rebuilt"}))
	default:
		err = a.shelve(ctx, i)
	}
	if err != nil {
		i.due = time.Now() // one that does not work is deleted
		a.mu.Lock()
		i.guest = false
		a.mu.Unlock()
	}
	a.ended(i, err)
}

// shelve shelves an instance and brings it back.
func (a *yearAgent) shelve(ctx context.Context, i *yearInstance) error {
	if err := a.ops.ShelveOffload(ctx, i.Instance); err != nil {
		return err
	}
	a.mu.Lock()
	i.Host, i.ARQs = "", nil
	a.mu.Unlock()
	result, err := a.ops.Unshelve(ctx, i.Instance, spawn.MoveOpts{})
	a.suspect(i, result)
	if err == nil {
		a.mu.Lock()
		i.Host, i.ARQs = result.Host, uuidsOf(result.ARQs)
		a.mu.Unlock()
	}
	return err
}

// delete deletes an instance, which must still have its accelerator. A failed deletion is repeated the next time.
func (a *yearAgent) delete(ctx context.Context, i *yearInstance) {
	if a.guests.isDown(i.Host) {
		return
	}
	a.begin(i)
	i.guest = false
	err := a.ops.Delete(ctx, i.Instance)
	a.ended(i, err)
	if err != nil {
		return
	}
	a.counts.ended.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	i.guest, i.living = false, false
	a.has = slices.DeleteFunc(a.has, func(other *yearInstance) bool { return other == i })
	if i.trouble.IsZero() {
		delete(a.instances, i.UUID)
	}
}

// isLiving is what Nova's database answers.
func (y *year) isLiving(_ context.Context, instance string) (bool, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	i := y.instances[instance]
	return i != nil && i.living, nil
}

// reconcile frees the leaks of crashes and late requests on the agent's hosts.
func (a *yearAgent) reconcile(ctx context.Context) {
	if a.flow == nil {
		return
	}
	a.counts.reconciled.Add(1)
	found, err := a.own.Reconcile(ctx, spawn.ReconcileOpts{Hosts: a.hosts, Living: a.isLiving, Free: true})
	a.counts.freed.Add(int64(len(found)))
	if err != nil {
		a.befell("") // again in an hour
		a.happened("reconcile: %v", err)
	}
}

// settle deletes the agent's instances, without faults.
func (a *yearAgent) settle(ctx context.Context) {
	a.revive(ctx)
	for _, i := range slices.Clone(a.has) {
		if err := a.ops.Delete(ctx, i.Instance); err != nil {
			a.unexplained("after the end: instance %s cannot be deleted: %v", i.UUID, err)
		}
		a.mu.Lock()
		i.living, i.guest = false, false
		a.mu.Unlock()
	}
	a.has = nil
}

// isDown reports whether a host does not answer.
func (h *hypervisor) isDown(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down[h.node(host)]
}

// isRunning reports whether a guest runs.
func (h *hypervisor) isRunning(i spawn.Instance) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, runs := h.runs[h.at(i)]
	return runs
}
