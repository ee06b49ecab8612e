package spawn_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// eventForms are those of fakecyborg.Config.EventForm.
var eventForms = []string{"shipped", "train", "ussuri"}

// eventWorld is a slow world whose Cyborg sends one form of event, and whose registry
// takes it.
func eventWorld(t *testing.T, form string, opts worldOpts) *world {
	t.Helper()
	if opts.model == nil {
		opts.model = slowModel(10 * time.Second)
	}
	opts.model.Cyborg.EventForm = form
	w := newWorld(t, opts)
	w.events = externalevent.NewRegistry()
	w.events.Accept = []string{externalevent.ARQResolved, externalevent.ARQsBound}
	w.cloud.HandleEvents(w.events.Handler())
	placement, err := openstack.NewPlacementV1(w.cloud.Provider(t), gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	if w.flow, err = spawn.New(w.cyborg, placement, spawn.WithConfig(opts.config), spawn.WithEvents(w.events)); err != nil {
		t.Fatal(err)
	}
	return w
}

// knownARQs are the ARQs of request("mixed") in a world of the default seed.
func knownARQs(t *testing.T) []cyborgclient.ARQ {
	t.Helper()
	w := newWorld(t, worldOpts{})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	if err != nil {
		t.Fatal(err)
	}
	return result.ARQs
}

const forwardEvent = "compute.external_event.forward"

// TestEventsOnTheirWay spawns with what can happen to events between Cyborg and the
// registry, in each form. The ARQs are Bound after 10 s, and always it is Cyborg's word
// that counts.
func TestEventsOnTheirWay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rule  func(tag string) []fault.Rule
		want  error
		after time.Duration
		state cyborgclient.State // of the ARQs in the error
	}{
		{"all well", func(string) []fault.Rule { return nil }, nil, 10 * time.Second, ""},
		{"one lost", func(tag string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Subject: tag, Action: fault.Drop}}
		}, externalevent.ErrTimeout, 300 * time.Second, cyborgclient.StateBound},
		{"all lost before Nova", func(string) []fault.Rule {
			return []fault.Rule{{Operation: "accelerator.event.send", Action: fault.Drop, Times: -1}}
		}, externalevent.ErrTimeout, 300 * time.Second, cyborgclient.StateBound},
		{"one late", func(tag string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Subject: tag, Action: fault.Delay, Delay: 100 * time.Second}}
		}, nil, 110 * time.Second, ""},
		{"one too late", func(tag string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Subject: tag, Action: fault.Delay, Delay: 400 * time.Second}}
		}, externalevent.ErrTimeout, 300 * time.Second, cyborgclient.StateBound},
		{"one twice", func(tag string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Subject: tag, Action: fault.Duplicate}}
		}, nil, 10 * time.Second, ""},
		{"all twice", func(string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Action: fault.Duplicate, Times: -1}}
		}, nil, 10 * time.Second, ""},
		{"one last", func(tag string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Subject: tag, Action: fault.Reorder}}
		}, nil, 10 * time.Second, ""},
		{"backwards", func(string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Action: fault.Reorder, Times: -1}}
		}, nil, 10 * time.Second, ""},
		{"one says failed", func(tag string) []fault.Rule {
			return []fault.Rule{{Operation: forwardEvent, Subject: tag, Action: fault.Status}}
		}, externalevent.ErrFailed, 10 * time.Second, cyborgclient.StateBound},
	}
	for _, form := range eventForms {
		for _, tt := range tests {
			t.Run(form+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					tag := knownARQs(t)[0].UUID
					if form == "ussuri" {
						tag = "mixed"
					}
					w := eventWorld(t, form, worldOpts{})
					rules := tt.rule(tag)
					w.fail(t, rules...)
					start := time.Now()
					result, err := w.flow.Run(t.Context(), request("mixed"))
					if took := time.Since(start); !errors.Is(err, tt.want) || took != tt.after {
						t.Errorf("got error %v after %s, want %v after %s", err, took, tt.want, tt.after)
					}
					if form != "train" || tt.want != externalevent.ErrFailed { // Train's comes while others are on their way
						checkStatesTold(t, err, tt.state)
					}
					for _, rule := range w.cloud.Faults().Rules() {
						if rule.Hits == 0 {
							t.Errorf("the fault never struck: %+v", rule.Rule)
						}
					}
					time.Sleep(200 * time.Second) // whatever is still on its way changes nothing
					w.checkPromise(t, result, err)
				})
			})
		}
	}
}

// checkStatesTold wants a failed wait to tell all ARQs with their state.
func checkStatesTold(t *testing.T, err error, state cyborgclient.State) {
	t.Helper()
	var notBound *spawn.NotBoundError
	if err == nil || !errors.As(err, &notBound) {
		return
	}
	for _, arq := range notBound.ARQs {
		if arq.State != state {
			t.Errorf("ARQ %s is told as %s, want %s", arq.UUID, arq.State, state)
		}
	}
	if len(notBound.ARQs) != 4 {
		t.Errorf("%d ARQs are told, want 4", len(notBound.ARQs))
	}
}

// Events of other and of unknown instances do not end a wait.
func TestForeignEventsDoNotEndTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours := knownARQs(t)
		w := eventWorld(t, "shipped", worldOpts{})
		provider, err := w.cloud.ProviderClient(t.Context(), "admin")
		if err != nil {
			t.Fatal(err)
		}
		compute, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{})
		if err != nil {
			t.Fatal(err)
		}
		const other = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b0ff"
		sent := make(chan error, 1)
		go func() {
			time.Sleep(5 * time.Second)
			var foreign []externalevent.Event
			for _, arq := range ours { // our ARQs of another instance
				foreign = append(foreign, externalevent.Event{Name: externalevent.ARQBound, ServerUUID: other, Tag: arq.UUID, Status: externalevent.StatusFailed})
			}
			foreign = append(foreign, // no ARQ of ours, and another event
				externalevent.Event{Name: externalevent.ARQBound, ServerUUID: instance, Tag: other},
				externalevent.Event{Name: "power-update", ServerUUID: instance, Tag: ours[0].UUID})
			_, err := externalevent.Send(t.Context(), compute, foreign)
			sent <- err
		}()
		start := time.Now()
		result, err := w.flow.Run(t.Context(), request("mixed"))
		if took := time.Since(start); err != nil || took != 10*time.Second {
			t.Errorf("got error %v after %s, want success after 10 s", err, took)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		w.checkPromise(t, result, err)
	})
}

// Before the wait, inside the PATCH, every form is early.
func TestEventsInsideThePatchAreEarlyInEachForm(t *testing.T) {
	t.Parallel()
	for _, form := range eventForms {
		model := simcloud.DefaultModel()
		w := eventWorld(t, form, worldOpts{model: &model})
		result, err := w.flow.Run(t.Context(), request("mixed"))
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		want := map[string]int{"shipped": 1, "train": 4, "ussuri": 1}[form]
		posts := 0
		for _, r := range w.cloud.Requests() {
			if r.Operation == "compute.external_events.create" {
				posts++
			}
		}
		if posts != want || len(w.cloud.ReceivedEvents()) == 0 {
			t.Errorf("%s: %d posts of events, want %d", form, posts, want)
		}
		w.checkPromise(t, result, err)
	}
}

// A bind that failed is never a success, in any form of the event.
func TestAFailedBindFailsInEachForm(t *testing.T) {
	t.Parallel()
	for _, form := range eventForms {
		synctest.Test(t, func(t *testing.T) {
			w := eventWorld(t, form, worldOpts{})
			w.fail(t, fault.Rule{Operation: "accelerator.mdev.create", Action: fault.Status})
			result, err := w.flow.Run(t.Context(), request("mixed"))
			if !errors.Is(err, spawn.ErrNotBound) || !errors.Is(err, externalevent.ErrFailed) || !strings.Contains(err.Error(), "BindFailed") {
				t.Errorf("%s: got error %v, want the failed event and the ARQ BindFailed", form, err)
			}
			w.checkPromise(t, result, err)
		})
	}
}

func TestAFailedEventDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
		w.fail(t, fault.Rule{Operation: "accelerator.mdev.create", Action: fault.Status})
		result, err := w.flow.Run(t.Context(), request("mixed"))
		if !errors.Is(err, externalevent.ErrFailed) {
			t.Errorf("got error %v, want ErrFailed", err)
		}
		w.checkPromise(t, result, err)
	})
}

// The server's own filter, 423 while an ARQ is unresolved, does as well as ours, with
// events and without.
func TestResolvedByTheServer(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]bool{"events": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOpts{model: slowModel(10 * time.Second), poll: poll, config: spawn.Config{Compat: spawn.Compat{ResolvedByServer: true}}})
				result, err := w.flow.Run(t.Context(), request("mixed"))
				if err != nil {
					t.Fatal(err)
				}
				locked := slices.ContainsFunc(w.cloud.Requests(), func(r sim.Exchange) bool {
					return r.Status == http.StatusLocked && strings.Contains(r.Query, "bind_state=resolved")
				})
				if !locked {
					t.Error("the server was never asked for resolved ARQs")
				}
				w.checkPromise(t, result, err)
			})
		})
	}
}

func TestATimeoutLeavesNoEventsRegistered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
		w.fail(t, fault.Rule{Operation: "accelerator.event.send", Action: fault.Drop, Times: -1})
		_, err := w.flow.Run(t.Context(), request("gpu"))
		if !errors.Is(err, externalevent.ErrTimeout) || w.events.Pending() != 0 {
			t.Errorf("got error %v and %d events, want the timeout and no event", err, w.events.Pending())
		}
		w.cloud.CheckNoLeaks(t)
	})
}
