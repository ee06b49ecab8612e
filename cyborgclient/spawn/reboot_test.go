package spawn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// statesModel shows the binding states of the Wallaby specification.
func statesModel() *simcloud.Model {
	model := simcloud.DefaultModel()
	model.Cyborg.BindingStates = true
	return &model
}

// stayed checks the state after a failed start: the guest is off, and its old XML, its ARQs and its allocation
// remain.
func (s *site) stayed(t *testing.T, i spawn.Instance, saved string, before usage) {
	t.Helper()
	s.running(t, i, false)
	if got := s.guests.saved[placeOf(i)]; got != saved {
		t.Errorf("the saved XML changed:\n%s", got)
	}
	after := s.usage(t, i)
	if len(after.ARQs) != len(before.ARQs) || len(after.Allocations) != len(before.Allocations) {
		t.Errorf("usage changed: %+v", after)
	}
	for n, arq := range after.ARQs {
		if arq.UUID != before.ARQs[n].UUID || arq.InstanceUUID != i.UUID {
			t.Errorf("ARQ %s is %+v now", before.ARQs[n].UUID, arq)
		}
	}
	if pending := s.events.Pending(); pending != 0 {
		t.Errorf("%d events are still registered", pending)
	}
}

// TestHostReboot starts nova-compute and Cyborg's agent in each order.
func TestHostReboot(t *testing.T) {
	t.Parallel()
	// started is how long after the compute service the agent starts. It is negative if the agent never starts.
	tests := []struct {
		name    string
		profile string
		agent   time.Duration
		slow    time.Duration // how long the creation of a mediated device takes
		poll    bool
		want    error
	}{
		{"agent first", "vgpu", 0, 0, false, nil},
		{"agent first, still at work", "vgpu", 39 * time.Second, 30 * time.Second, false, nil},
		{"compute first", "vgpu", 2 * time.Minute, 0, false, nil},
		{"compute first, agent silent for long", "vgpu", 4 * time.Minute, 10 * time.Second, false, nil},
		{"compute first, polled", "vgpu", 2 * time.Minute, 0, true, nil},
		{"agent never", "vgpu", -1, 0, false, externalevent.ErrTimeout},
		{"agent never, polled", "vgpu", -1, 0, true, externalevent.ErrTimeout},
		{"agent too late", "vgpu", 6 * time.Minute, 0, false, externalevent.ErrTimeout},
		{"a PCI device: no event tells of its agent", "gpu", 2 * time.Minute, 0, false, nil},
		{"a PCI device, agent never", "gpu", -1, 0, false, externalevent.ErrTimeout},
		{"several devices", "mixed", 2 * time.Minute, 10 * time.Second, false, nil},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: statesModel(), poll: tt.poll})
			i := s.spawn(t, tt.profile)
			saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
			s.powerCut(t, i.Host)
			if tt.slow > 0 {
				s.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Delay, Delay: tt.slow, Times: -1})
			}
			if tt.agent >= 0 {
				go func() {
					time.Sleep(tt.agent)
					if err := s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host); err != nil {
						t.Error(err)
					}
				}()
			}
			time.Sleep(40 * time.Second) // the beats are missed
			err := s.ops.ResumeAfterHostReboot(t.Context(), i)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if tt.want == nil {
				s.running(t, i, true)
				s.sound(t)
			} else {
				s.stayed(t, i, saved, before)
				time.Sleep(time.Hour) // let an agent that is too late come
			}
		})
	}
}

func TestTheWaitForTheAgentEndsWithTheContext(t *testing.T) {
	t.Parallel()
	for _, poll := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: statesModel(), poll: poll})
			i := s.spawn(t, "vgpu")
			saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
			s.powerCut(t, i.Host)
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			defer cancel()
			err := s.ops.ResumeAfterHostReboot(ctx, i)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), "unknown") {
				t.Errorf("poll %t: error %v, want the deadline with the state unknown", poll, err)
			}
			s.stayed(t, i, saved, before)
		})
	}
}

func TestAHardRebootWaitsBeforeItForcesTheGuestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: statesModel()})
		i := s.spawn(t, "gpu")
		settled(t, s.cloud.Cyborg.StopAgent(i.Host)) // the agent alone, the guest runs
		time.Sleep(time.Minute)
		if err := s.ops.HardReboot(t.Context(), i, nil); !errors.Is(err, externalevent.ErrTimeout) {
			t.Errorf("error %v, want the timeout", err)
		}
		s.running(t, i, true)
		if slices.Contains(s.guests.calls, "destroy") {
			t.Errorf("calls %v: the guest was forced off", s.guests.calls)
		}
		go func() {
			time.Sleep(time.Minute)
			_ = s.cloud.Cyborg.StartAgent(context.WithoutCancel(t.Context()), i.Host)
		}()
		settled(t, s.ops.HardReboot(t.Context(), i, nil))
		s.running(t, i, true)
		s.sound(t)
	})
}

func TestARebootFailsWithARQsOfOtherInstances(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		harm    func(t *testing.T, s *site, i *spawn.Instance)
		problem string
	}{
		{"an ARQ was deleted", func(t *testing.T, s *site, i *spawn.Instance) {
			settled(t, s.cloud.Cyborg.DeleteARQs(t.Context(), i.ARQs[0]))
		}, "not among the ARQs of the instance"},
		{"an ARQ more", func(_ *testing.T, _ *site, i *spawn.Instance) { i.ARQs = i.ARQs[1:] }, "not among those that the instance was given"},
		{"another host", func(_ *testing.T, s *site, i *spawn.Instance) {
			saved := s.guests.saved[placeOf(*i)]
			i.Host = "elsewhere"
			s.guests.saved[placeOf(*i)] = saved
		}, "bound to host"},
		{"being deleted", func(t *testing.T, s *site, i *spawn.Instance) {
			settled(t, s.cloud.Cyborg.SetARQState(i.ARQs[1], fakecyborg.StateDeleting))
		}, "not Bound"},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "mixed")
			tt.harm(t, s, &i)
			s.guests.calls = nil
			err := s.ops.HardReboot(t.Context(), i, nil)
			if !errors.Is(err, spawn.ErrNotBound) || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want ErrNotBound with %q", err, tt.problem)
			}
			if len(s.guests.calls) > 0 {
				t.Errorf("the guest was touched: %v", s.guests.calls)
			}
		})
	}
}

// A port's function belongs to the interface, also after a reboot. Nova adds it a second time as a host device, and
// libvirt refuses the domain.
func TestAPortsDeviceStaysAnInterface(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: portModel()})
		i := s.spawn(t, "gpu", acceleratedPort(port1, "nic", "52:54:00:1e:59:c3"))
		settled(t, s.ops.HardReboot(t.Context(), i, domainxml.NewDomain(domainxml.DomainOpts{Name: "regenerated"})))
		domain := []byte(s.guests.runs[placeOf(i)])
		hostdevs, err := domainxml.Read(domain)
		if err != nil || len(hostdevs) != 1 || strings.Count(string(domain), `<interface type="hostdev"`) != 1 {
			t.Errorf("host devices %v, %v, in\n%s; want one, and one interface", hostdevs, err, domain)
		}
		s.sound(t)
	})
}
