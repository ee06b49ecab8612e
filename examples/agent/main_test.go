package main

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

const instance = "0a1b2c3d-0000-4000-8000-000000000001"

func TestOperations(t *testing.T) {
	for name, guestsOf := range map[string]func(*simcloud.Cloud) *guests.Hypervisor{
		"in the process": guests.New,
		"over HTTP": func(cloud *simcloud.Cloud) *guests.Hypervisor {
			return guests.Remote(sim.Control{URL: cloud.URL(), Client: &http.Client{Transport: cloud.Transport()}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := simcloud.Run(t)
			hypervisor := guestsOf(cloud)
			flow, err := newFlow(t.Context(), cloud, journal.NewMemory(), hypervisor)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				operation    string
				guests, runs int
			}{{"spawn", 1, 1}, {"stop", 1, 0}, {"start", 1, 1}, {"reboot", 1, 1}, {"delete", 0, 0}} {
				if err := operate(t.Context(), flow, step.operation, instance, "gpu"); err != nil {
					t.Fatalf("%s: %v", step.operation, err)
				}
				runs := 0
				for _, host := range cloud.HostNames() {
					runs += len(hypervisor.Running(host))
				}
				if got := len(cloud.Guests()); got != step.guests || runs != step.runs {
					t.Errorf("%s: %d guests, %d run, want %d and %d", step.operation, got, runs, step.guests, step.runs)
				}
				cloud.CheckNoLeaks(t)
			}
			if err := operate(t.Context(), flow, "suspend", instance, "gpu"); err == nil {
				t.Error("no error for an unknown operation")
			}
		})
	}
}

// An agent that is killed in a spawn undoes it at its next start, with the journal in a file.
func TestTheNextProcessUndoesAnUnfinishedSpawn(t *testing.T) {
	cloud := simcloud.Run(t)
	path := filepath.Join(t.TempDir(), "journal")
	hypervisor := guests.New(cloud)
	store, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := newFlow(t.Context(), cloud, store, hypervisor)
	if err != nil {
		t.Fatal(err)
	}
	a, err := killed.Begin(t.Context(), spawn.Request{Instance: instance, Flavor: accelerated("gpu")})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind, a.WaitBound,
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil { // the process is killed here
		t.Fatal(err)
	}
	if len(cloud.Leaks()) == 0 {
		t.Error("the spawn left nothing to undo")
	}

	if store, err = journal.Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	flow, err := newFlow(t.Context(), cloud, store, hypervisor)
	if err != nil {
		t.Fatal(err)
	}
	if err := recoverAll(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	cloud.CheckNoLeaks(t)
	if err := operate(t.Context(), flow, "spawn", instance, "gpu"); err != nil {
		t.Error(err)
	}
	cloud.CheckNoLeaks(t)
}
