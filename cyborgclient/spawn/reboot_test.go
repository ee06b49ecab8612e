package spawn_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
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
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// The host is back before Cyborg missed its agent. Cyborg shows Bound, and the mediated devices do not exist.
func TestAStaleBoundDoesNotKeepAGuestOff(t *testing.T) {
	t.Parallel()
	for _, agent := range []time.Duration{5 * time.Second, 25 * time.Second, time.Minute, -1} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: statesModel()})
			i := s.spawn(t, "mixed")
			saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
			s.powerCut(t, i.Host)
			if agent > 0 {
				time.AfterFunc(agent, func() {
					if err := s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host); err != nil {
						t.Error(err)
					}
				})
			}
			err := s.ops.ResumeAfterHostReboot(t.Context(), i)
			if agent < 0 {
				if !errors.Is(err, externalevent.ErrTimeout) || !strings.Contains(err.Error(), "did not start") {
					t.Errorf("agent never: error %v, want the timeout and the failed start", err)
				}
				s.stayed(t, i, saved, before)
				return
			}
			if err != nil {
				t.Fatalf("agent after %s: %v", agent, err)
			}
			s.running(t, i, true)
			s.sound(t)
		})
	}
}

func TestAResumedGuestGetsWhatItsDomainLacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: statesModel()})
		i := s.spawn(t, "mixed")
		s.powerCut(t, i.Host)
		if err := s.cloud.StartHost(t.Context(), i.Host); err != nil {
			t.Fatal(err)
		}
		// Nova has defined the domain anew, without accelerators.
		bare := domainxml.NewDomain(domainxml.DomainOpts{Name: "bare"})
		if err := s.guests.Define(t.Context(), i, bare); err != nil {
			t.Fatal(err)
		}
		if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		devices, err := domainxml.Read([]byte(s.guests.runs[placeOf(i)]))
		if err != nil || len(devices) != 4 {
			t.Errorf("the guest has %v, %v; want its four devices", devices, err)
		}
		s.sound(t)
	})
}

func TestAFailedRestorationLeavesTheGuestOff(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"resume", "hard reboot", "start"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, worldOpts{model: statesModel()})
				i := s.spawn(t, "vgpu")
				saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
				s.powerCut(t, i.Host)
				s.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status, Times: -1})
				_ = s.cloud.StartHost(t.Context(), i.Host)
				for range 2 { // Cyborg gives up after three reports
					_ = s.cloud.Cyborg.Report(t.Context())
				}
				run := map[string]func() error{
					"resume":      func() error { return s.ops.ResumeAfterHostReboot(t.Context(), i) },
					"hard reboot": func() error { return s.ops.HardReboot(t.Context(), i, nil) },
					"start":       func() error { return s.ops.Start(t.Context(), i) },
				}[op]
				began := time.Now()
				err := run()
				var notBound *spawn.NotBoundError
				if !errors.As(err, &notBound) || notBound.ARQs[0].State != cyborgclient.StateBindFailed {
					t.Errorf("error %v, want a NotBoundError with BindFailed", err)
				}
				if waited := time.Since(began); waited > time.Second {
					t.Errorf("waited %s although the outcome is known", waited)
				}
				s.stayed(t, i, saved, before)
			})
		})
	}
}

// A failure event during the wait ends it at once.
func TestAFailedEventEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: statesModel()})
		i := s.spawn(t, "vgpu")
		saved, before := s.guests.saved[placeOf(i)], s.usage(t, i)
		s.powerCut(t, i.Host)
		s.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status, Times: -1})
		began := time.Now()
		go func() {
			time.Sleep(100 * time.Second)
			_ = s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host)
			for range 2 { // Cyborg gives up after three reports
				_ = s.cloud.Cyborg.Report(context.WithoutCancel(t.Context()))
			}
		}()
		time.Sleep(40 * time.Second)
		err := s.ops.ResumeAfterHostReboot(t.Context(), i)
		var notBound *spawn.NotBoundError
		if waited := time.Since(began); !errors.As(err, &notBound) || waited > 111*time.Second {
			t.Fatalf("error %v after %s, want a NotBoundError soon after 100 s", err, waited)
		}
		if got := notBound.ARQs[0].State; got != cyborgclient.StateBindFailed {
			t.Errorf("the error tells of %q, want the state after the event", got)
		}
		s.stayed(t, i, saved, before)
	})
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
		if err := s.cloud.Cyborg.StopAgent(i.Host); err != nil { // the agent alone, the guest runs
			t.Fatal(err)
		}
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
		if err := s.ops.HardReboot(t.Context(), i, nil); err != nil {
			t.Error(err)
		}
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
			if err := s.cloud.Cyborg.DeleteARQs(t.Context(), i.ARQs[0]); err != nil {
				t.Fatal(err)
			}
		}, "not among the ARQs of the instance"},
		{"an ARQ more", func(_ *testing.T, _ *site, i *spawn.Instance) { i.ARQs = i.ARQs[1:] }, "not among those that the instance was given"},
		{"another host", func(_ *testing.T, s *site, i *spawn.Instance) {
			saved := s.guests.saved[placeOf(*i)]
			i.Host = "elsewhere"
			s.guests.saved[placeOf(*i)] = saved
		}, "bound to host"},
		{"being deleted", func(t *testing.T, s *site, i *spawn.Instance) {
			if err := s.cloud.Cyborg.SetARQState(i.ARQs[1], fakecyborg.StateDeleting); err != nil {
				t.Fatal(err)
			}
		}, "not Bound"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
		if err := s.ops.HardReboot(t.Context(), i, domainxml.NewDomain(domainxml.DomainOpts{Name: "regenerated"})); err != nil {
			t.Fatal(err)
		}
		domain := []byte(s.guests.runs[placeOf(i)])
		hostdevs, err := domainxml.Read(domain)
		if err != nil || len(hostdevs) != 1 || strings.Count(string(domain), `<interface type="hostdev"`) != 1 {
			t.Errorf("host devices %v, %v, in\n%s; want one, and one interface", hostdevs, err, domain)
		}
		s.sound(t)
	})
}

// The guest starts when the event arrives, not at the next poll, and there is no wait for devices that were Bound
// before.
func TestAnEventEndsTheWaitAtOnce(t *testing.T) {
	t.Parallel()
	for profile, outage := range map[string]bool{"vgpu": true, "mixed": false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{model: statesModel()})
			i := s.spawn(t, profile)
			s.powerCut(t, i.Host)
			time.Sleep(time.Minute)
			s.fail(t, fault.Rule{Operation: fault.MdevCreate, Action: fault.Delay, Delay: 33 * time.Second, Times: -1})
			if outage { // the first look fails, and the ARQs are not known before it
				i.ARQs = nil
				s.fail(t,
					fault.Rule{Operation: fault.MdevCreate, Action: fault.Delay, Delay: 33 * time.Second, Times: -1},
					fault.Rule{Operation: fault.ARQList, Action: fault.Status, Status: 503, Times: 5},
				)
			}
			began := time.Now()
			done := make(chan time.Duration, 1)
			go func() {
				if err := s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host); err != nil {
					t.Error(err)
				}
				done <- time.Since(began)
			}()
			time.Sleep(time.Second) // the requests are provisioning
			if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			if waited, agent := time.Since(began), <-done; waited > agent+time.Second {
				t.Errorf("%s: the guest started after %s, the agent was done after %s", profile, waited, agent)
			}
			s.sound(t)
		})
	}
}

// Events are registered as soon as the ARQs are known, and then Cyborg is read again, so that earlier events are not
// missed.
func TestAnEventBeforeTheRegistrationIsNotMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: statesModel()})
		i := s.spawn(t, "vgpu")
		s.powerCut(t, i.Host)
		i.ARQs = nil
		s.fail(t,
			fault.Rule{Operation: fault.MdevCreate, Action: fault.Delay, Delay: 10 * time.Second, Times: -1},
			fault.Rule{Operation: fault.ARQList, Action: fault.Delay, When: fault.After, Delay: 20 * time.Second},
		)
		go func() { _ = s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host) }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 20*time.Second {
			t.Errorf("the guest started after %s, the ARQ was known to be Bound after 20 s", waited)
		}
		s.sound(t)
	})
}

func TestALostEventDoesNotKeepAGuestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{model: statesModel()})
		i := s.spawn(t, "vgpu")
		s.powerCut(t, i.Host)
		s.cloud.HandleEvents(http.NotFoundHandler())
		go func() {
			time.Sleep(time.Minute)
			_ = s.cloud.StartHost(context.WithoutCancel(t.Context()), i.Host)
		}()
		if err := s.ops.ResumeAfterHostReboot(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		s.running(t, i, true)
		s.sound(t)
	})
}
