package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// drilledExercise is an operation for drill.Run.
type drilledExercise struct {
	exercise
	// harmed is an operation whose failure may cost the instance its devices if a request was late: a late request
	// may take effect after the caller gave up.
	harmed bool
	// pairs is how many pairs of faults are tried with the tag drill.
	pairs int
}

// drilledExercises are the operations that change the devices or the domain of a guest, and sequences of several
// operations.
func drilledExercises() []drilledExercise {
	fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "fresh"})
	list := []drilledExercise{
		{pairs: 700, exercise: exercise{
			name: "host reboot", launch: anInstance("mixed"), done: running, run: rebootHost,
		}},
		{pairs: 100, exercise: exercise{
			name: "rescue and unrescue", odd: true, launch: anInstance("mixed"), done: running,
			run: func(ctx context.Context, s *site, i *spawn.Instance) (err error) {
				if s.guests.old == nil {
					if s.guests.old, err = s.ops.Rescue(ctx, *i, fresh); err != nil {
						return err
					}
				}
				return s.ops.Unrescue(ctx, *i, s.guests.old)
			},
		}},
		{pairs: 400, exercise: exercise{ // odd: what the dead host cannot remove stays until it is back
			name: "evacuate a vGPU, the host comes back", odd: true, done: running, launch: anInstance("mixed"), happened: hostLost,
			run: evacuateAndReturn, settle: stillOnTheDeadHost,
			model: func() *simcloud.Model { m := simcloud.DefaultModel(); m.Cyborg.BindingStates = true; return &m },
		}},
		{pairs: 300, exercise: exercise{
			name: "host reboot of a vGPU that Nova creates", model: novaMdevModel, launch: anInstance("mixed"), done: running, run: rebootHost,
		}},
		{pairs: 300, exercise: exercise{
			name: "shelve offload and unshelve of a vGPU that Nova creates", model: novaMdevModel, launch: anInstance("mixed"), done: running,
			run: func(ctx context.Context, s *site, i *spawn.Instance) error {
				if i.Host != "" {
					if err := s.ops.ShelveOffload(ctx, *i); err != nil {
						return err
					}
					i.Host, i.ARQs = "", nil
				}
				result, err := s.ops.Unshelve(ctx, *i, spawn.MoveOpts{})
				if result != nil {
					i.Host = result.Host
				}
				return err
			},
		}},
	}
	for _, e := range exercises() {
		each := drilledExercise{exercise: e, pairs: 100}
		switch e.name {
		case "rescue":
			continue // above, to its end
		case "evacuate":
			each.harmed, each.pairs = true, 700
		}
		list = append(list, each)
	}
	return list
}

// rebootHost stops the host of an instance, starts it again, and starts its guest with its devices.
func rebootHost(ctx context.Context, s *site, i *spawn.Instance) error {
	if _, runs := s.guests.runs[s.guests.at(*i)]; runs {
		if err := s.guests.powerCut(i.Host); err != nil {
			return err
		}
	}
	if err := s.cloud.StartHost(ctx, s.guests.node(i.Host)); err != nil {
		return err
	}
	return s.ops.ResumeAfterHostReboot(ctx, *i)
}

// evacuateAndReturn ends after the dead host is back. There nova-compute removes the evacuated guests and the
// definitions of their mediated devices, and the agent removes the ARQs that Cyborg could not delete before.
func evacuateAndReturn(ctx context.Context, s *site, i *spawn.Instance) error {
	for host := range s.guests.down {
		if s.guests.node(i.Host) == host {
			result, err := s.ops.Evacuate(ctx, *i, spawn.MoveOpts{})
			if result == nil {
				return err
			}
			i.Host = result.Host
		}
		if err := s.cloud.StartHost(ctx, host); err != nil {
			return err
		}
		gone := place{i.UUID, host}
		devices, err := domainxml.Read([]byte(s.guests.saved[gone]))
		for _, device := range devices {
			if device.MDEV != "" && s.guests.creator() != nil {
				err = errors.Join(err, s.cloud.RemoveMdev(ctx, host, device.MDEV))
			}
		}
		arqs, listErr := s.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: i.UUID})
		err = errors.Join(err, listErr)
		for _, arq := range arqs {
			if arq.Hostname == host {
				err = errors.Join(err, s.cyborg.DeleteARQs(ctx, []string{arq.UUID}))
			}
		}
		if err != nil {
			return err
		}
		delete(s.guests.down, host)
		delete(s.guests.saved, gone)
	}
	return nil
}

// hypervisorOn returns the hypervisor of a run.
func (s *stage) hypervisorOn(cloud *simcloud.Cloud) *hypervisor {
	guests := newHypervisor(cloud)
	guests.named = map[string]string{}
	for _, node := range cloud.HostNames() {
		guests.named[s.host(node)] = node
	}
	cloud.Faults().RegisterWork(guests.work()...)
	s.on(cloud, func(set *set) { set.guests = guests })
	return guests
}

// siteOn returns a new agent with the guests of a hypervisor.
func (s *stage) siteOn(ctx context.Context, cloud *simcloud.Cloud, guests *hypervisor) (*site, error) {
	w, err := s.agentOn(ctx, cloud)
	if err != nil {
		return nil, err
	}
	w.flow = w.flow.On(guests.spawns())
	at := &site{world: w, guests: guests}
	at.ops, err = w.flow.Operations()
	return at, err
}

// setup prepares the instance.
func (e drilledExercise) setup(stage *stage) drill.Flow {
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		s, err := stage.siteOn(ctx, cloud, stage.hypervisorOn(cloud))
		if err != nil {
			return err
		}
		i, err := e.prepare(ctx, s)
		stage.on(cloud, func(set *set) { set.instance = i })
		return err
	}
}

// flow repeats the operation until it succeeds, each time with a new agent. Two faults hit at most two tries, so the
// fourth has to succeed. No failure may lose a device. flow panics on a violation, and the drill reports the panic.
func (e drilledExercise) flow(stage *stage) drill.Flow {
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		var on set
		stage.on(cloud, func(set *set) { on = *set })
		var failures []error
		for range 4 {
			s, err := stage.siteOn(ctx, cloud, on.guests)
			if err == nil {
				err = e.run(ctx, s, &on.instance)
			}
			if err == nil {
				err = e.done(s, on.instance)
			}
			if err == nil {
				return nil
			}
			failures = append(failures, err)
			stage.failed(cloud, err)
			if s != nil {
				e.afterwards(ctx, stage, s, on.instance)
			}
		}
		panic(fmt.Sprintf("it fails again and again: %v", errors.Join(failures...)))
	}
}

// afterwards waits until delayed requests have ended and the agents have reported, which they do every minute. It
// checks that the failure lost no device, and that its error names every leak.
func (e drilledExercise) afterwards(ctx context.Context, stage *stage, s *site, i spawn.Instance) {
	time.Sleep(15 * time.Minute)
	for range 3 { // the second fault may strike such a report
		_ = s.cloud.Cyborg.Report(ctx)
		time.Sleep(time.Minute)
	}
	if e.settle != nil {
		if err := e.settle(s, i); err != nil {
			panic(err)
		}
	}
	late := slices.ContainsFunc(s.cloud.Faults().Rules(), func(state fault.State) bool {
		return slices.Contains([]fault.Action{fault.Delay, fault.SlowBody, fault.Late}, state.Rule.Action)
	})
	if e.odd || e.harmed && late {
		return
	}
	var lost []string
	for _, leak := range s.cloud.Leaks() {
		if leak.Kind == simcloud.LeakGuest || !stage.names(s.cloud, nil, leak) {
			lost = append(lost, leak.Text)
		}
	}
	if len(lost) > 0 {
		panic("after a failure that is to be tried again: " + strings.Join(lost, "\n"))
	}
}

// Every request, event, agent task and hypervisor call of every operation fails in every way. The instance has all of
// its devices after at most three more tries, and no try leaks.
func TestDrillOperations(t *testing.T) {
	t.Parallel()
	for n, e := range drilledExercises() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			stage := newStage()
			config := drilled(e.pairs)
			config.Setup, config.Timeout = e.setup(stage), 6*time.Hour
			if e.model != nil {
				config.Model = *e.model()
			}
			config.Bystander = bystander // the drills of spawn are its own, too
			drill.Run(t, stage.beside(e.flow(stage)), stage.drilled(config, n%2 == 1))
		})
	}
}
