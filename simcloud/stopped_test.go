package simcloud_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A host that is stopped stays so until it is started, also if a fault rule had stopped its agent for a while before.
func TestAStoppedHostStaysStopped(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]bool{"stopped while the agent is silent": false, "started and stopped again": true} {
		for _, action := range []fault.Action{fault.Drop, fault.Reboot} {
			t.Run(name+", "+string(action), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					cloud := simcloud.Run(t)
					must(t, cloud.Faults().Set(fault.Rule{Operation: fault.AgentReport, Subject: "cn0", Action: action, Delay: time.Minute}))
					if err := cloud.Cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
						t.Fatalf("the rule did not apply: %v", err)
					}
					if start {
						must(t, cloud.StartHost(t.Context(), "cn0"))
					}
					must(t, cloud.StopHost("cn0"))
					time.Sleep(time.Hour)
					synctest.Wait()
					if err := cloud.Cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
						t.Errorf("the agent of the stopped host runs: %v", err)
					}
				})
			})
		}
	}
}

// A rule that stops the agent for a while does not start one that was stopped before.
func TestARuleDoesNotStartAStoppedHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		u := login(t, cloud, "admin", "admin")
		must(t, cloud.StopHost("cn0"))
		must(t, cloud.Faults().Set(fault.Rule{Operation: fault.AgentCall, Subject: "cn0", Action: fault.Drop, Delay: time.Minute}))
		body := bindBody(cloud, u.createARQs("vgpu")[0], spawned{uuid: instance(1), host: "cn0", provider: driver.ProviderUUID("cn0_0000:af:00.0")})
		if answer := u.send("PATCH", "/accelerator/v2/accelerator_requests", accelerator, body); answer.status != 500 || cloud.Faults().Rules()[0].Hits != 1 {
			t.Fatalf("%d %s, rules %+v", answer.status, answer.body, cloud.Faults().Rules())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := cloud.Cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
			t.Errorf("the agent of the stopped host runs: %v", err)
		}
	})
}

// The time for which a rule stops an agent passes on a clock that is set back, too.
func TestASilentAgentReturnsOnAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sim.NewManualClock(time.Now())
		cloud := simcloud.Run(t, simcloud.WithClock(clock))
		must(t, cloud.Faults().Set(fault.Rule{Operation: fault.AgentReport, Subject: "cn0", Action: fault.Drop, Delay: time.Minute}))
		if err := cloud.Cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrAgentDown) {
			t.Fatalf("the rule did not apply: %v", err)
		}
		synctest.Wait()
		must(t, errors.Join(clock.Set(clock.Now().Add(-time.Hour)), clock.Advance(time.Minute)))
		synctest.Wait()
		if err := cloud.Cyborg.Report(t.Context()); err != nil {
			t.Errorf("the agent is still silent: %v", err)
		}
	})
}
