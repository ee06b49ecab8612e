package main

import (
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

func TestSpawnAndDelete(t *testing.T) {
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
	cloud.CheckNoLeaks(t)
}
