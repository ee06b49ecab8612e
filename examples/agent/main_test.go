package main

import (
	"net/http"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestSpawnAndDelete(t *testing.T) {
	for name, guestsOf := range map[string]func(*simcloud.Cloud) spawn.Hooks{
		"in the process": guestsOf,
		"over HTTP": func(cloud *simcloud.Cloud) spawn.Hooks {
			return simGuests(sim.Control{URL: cloud.URL(), Client: &http.Client{Transport: cloud.Transport()}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := simcloud.Run(t)
			flow, err := newFlow(t.Context(), cloud)
			if err != nil {
				t.Fatal(err)
			}
			guests := guestsOf(cloud)
			result, err := spawnInstance(t.Context(), flow, "0a1b2c3d-0000-4000-8000-000000000001", "gpu", guests)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Devices) != 1 || len(cloud.Guests()) != 1 {
				t.Errorf("%d devices, %d guests", len(result.Devices), len(cloud.Guests()))
			}
			cloud.CheckNoLeaks(t)
			if err := deleteInstance(t.Context(), flow, result, guests); err != nil {
				t.Fatal(err)
			}
			if len(cloud.Guests()) != 0 {
				t.Errorf("%d guests after the deletion", len(cloud.Guests()))
			}
			cloud.CheckNoLeaks(t)
		})
	}
}
