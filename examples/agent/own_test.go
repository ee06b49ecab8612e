package main

import (
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

func TestNoHostBinds(t *testing.T) {
	cloud := simcloud.Run(t)
	cloud.Faults().Set(fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 500, Times: -1})
	flow, err := newFlow(t.Context(), cloud, journal.NewMemory(), guests.New(cloud))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spawnInstance(t.Context(), flow, "0a1b2c3d-0000-4000-8000-000000000003", "gpu"); err == nil {
		t.Error("no error")
	}
	cloud.CheckNoLeaks(t)
}
