package cloudmodel

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// tokens are the users of an agent: whose token Cyborg gets with a request, and who the agent itself is, as
// nova-compute is the user nova.
type tokens struct {
	name, user, own string
	events          bool // Nova's events reach it
}

var kinds = []tokens{
	{name: "an administrator", user: "admin", own: "admin", events: true},
	{name: "a member, and the service user nova", user: "demo", own: "nova"},
	{name: "a member of another project, and the service user nova", user: "alice", own: "nova"},
	{name: "an administrator without events", user: "admin", own: "admin"},
}

// line is the network of a process: each request takes a time of its own agent, so that the virtual clock orders all requests.
// At a request it may cut the caller off, or the process may die.
type line struct {
	next  http.RoundTripper
	takes time.Duration

	mu       sync.Mutex
	cutAt    int // requests until cut is called; 0: never
	dieAt    int
	cut      func()
	isDead   bool
	requests int
}

var errDead = errors.New("the process is dead")

// pass counts a request, which is not sent when the process dies at it and is in the way of no other.
func (l *line) pass() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if l.cutAt > 0 {
		if l.cutAt--; l.cutAt == 0 {
			l.cut()
		}
	}
	if l.isDead {
		return errDead
	}
	if l.dieAt > 0 {
		if l.dieAt--; l.dieAt == 0 {
			l.isDead = true
			if l.requests%2 == 0 { // half of the last requests are sent
				return errDead
			}
		}
	}
	return nil
}

func (l *line) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDead {
		return errDead
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	time.Sleep(l.takes)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	answer, err := l.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.alive(), req.Context().Err()); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

// agent is a program that makes instances: a conductor's process and a compute process, which die and start again together.
type agent struct {
	*world
	number    int
	tokens    tokens
	line      *line
	flow      *spawn.Flow // of the user
	compute   *spawn.Flow // of the user, in the other process
	bare      *spawn.Flow // of the user, without a hypervisor
	own       *spawn.Flow
	ops       *spawn.Operations
	incarnate int
}

// start starts the processes anew.
func (a *agent) start(ctx context.Context) error {
	a.incarnate++
	a.line = &line{next: a.cloud.Transport(), takes: time.Millisecond + time.Duration(a.number)*137*time.Microsecond}
	registry := externalevent.NewRegistry()
	if a.tokens.events {
		a.cloud.HandleEvents(registry.Handler())
	}
	var err error
	guests := spawn.WithHypervisor(a.hypervisor())
	if a.own, a.flow, err = a.process(ctx, registry, guests); err != nil {
		return err
	}
	if _, a.compute, err = a.process(ctx, registry, guests); err != nil {
		return err
	}
	if _, a.bare, err = a.process(ctx, registry); err != nil {
		return err
	}
	a.ops, err = a.flow.Operations()
	return err
}

// hypervisor creates mediated devices where Cyborg's agent does not.
func (a *agent) hypervisor() spawn.Hypervisor {
	guests := libvirt{a.guests, a.line}
	if a.cloud.Model().Cyborg.MdevCreation == fakecyborg.MdevsByNova {
		return nodeDevices{guests}
	}
	return guests
}

// process is one process of the agent, with a flow of its own user and one of the requests' user.
func (a *agent) process(ctx context.Context, registry *externalevent.Registry, options ...spawn.Option) (own, user *spawn.Flow, err error) {
	client, err := a.cloud.ProviderClient(ctx, a.tokens.own)
	if err != nil {
		return nil, nil, err
	}
	service, err := a.cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, nil, err
	}
	person, err := a.cloud.ProviderClient(ctx, a.tokens.user)
	if err != nil {
		return nil, nil, err
	}
	client.HTTPClient.Transport, service.HTTPClient.Transport, person.HTTPClient.Transport = a.line, a.line, a.line
	options = append(options, spawn.WithServiceProvider(service), spawn.WithPlacementProvider(client))
	if a.tokens.events {
		options = append(options, spawn.WithEvents(registry))
	}
	if own, err = spawn.NewFromProvider(client, options...); err != nil {
		return nil, nil, err
	}
	cyborg, err := own.Cyborg().ForProvider(person)
	if err != nil {
		return nil, nil, err
	}
	return own, own.As(cyborg), nil
}

// disturb lets the caller be cut off, and the process die, at a request from now on; zero: never.
func (a *agent) disturb(cutAt, dieAt int, cut func()) {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	a.line.cutAt, a.line.dieAt, a.line.cut = cutAt, dieAt, cut
}
