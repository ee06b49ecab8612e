package npu_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"

	"example.org/npu"
)

const (
	whole, sliced = "0000:3b:00.0", "0000:5e:00.0"
	instance      = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
)

func cards() []sysfs.PCIDevice {
	return []sysfs.PCIDevice{
		{Address: whole, Vendor: "1d55", Product: "1000", Class: "1200", Driver: "acme"},
		{Address: sliced, Vendor: "1d55", Product: "1000", Class: "1200", Driver: "acme",
			MdevTypes: []sysfs.MdevType{{Type: "acme-slice", Name: "Acme slice", AvailableInstances: 4}}},
	}
}

// The driver passes the test that every driver has to pass.
func TestDriver(t *testing.T) {
	drivertest.Run(t, drivertest.Case{
		Hardware: sysfs.Description{Devices: cards()},
		New: func(tree driver.Tree) (driver.Driver, error) {
			return npu.New("compute1", npu.Config{Sliced: []string{sliced}}, tree)
		},
	})
}

func TestNamesAndUnits(t *testing.T) {
	drivertest.Table(t, []drivertest.Row{{
		Name: "a whole card and one in slices", Devices: cards(),
		New: func(tree driver.Tree) (driver.Driver, error) {
			return npu.Load("compute1", json.RawMessage(`{"sliced": ["`+sliced+`"]}`), tree)
		},
		Offered: map[string]string{
			whole:  "CUSTOM_NPU OWNER_CYBORG CUSTOM_ACME_NPU",
			sliced: "CUSTOM_NPU_SLICE OWNER_CYBORG CUSTOM_ACME_NPU_SLICE",
		},
	}})
}

// model has a host with the cards, whose agent loads the driver by its name.
func model() simcloud.Model {
	return simcloud.Model{
		Hosts: []simcloud.Host{{
			Name: "compute1", Sysfs: &simcloud.Sysfs{Devices: cards()},
			Drivers: &builtin.Config{
				EnabledDrivers: []string{npu.EntryPoint},
				Sections:       map[string]json.RawMessage{npu.EntryPoint: json.RawMessage(`{"sliced": ["` + sliced + `"]}`)},
			},
		}},
		DeviceProfiles: []simcloud.DeviceProfile{{Name: "npu", Groups: []map[string]string{
			{"resources:CUSTOM_NPU": "1"}, {"resources:CUSTOM_NPU_SLICE": "1"},
		}}},
	}
}

// The host of the driver is one like any other: spawns, leaks, reboots and states.
func TestCloud(t *testing.T) {
	ctx := context.Background()
	withDriver := simcloud.WithDriver(npu.EntryPoint, npu.Load)
	cloud, err := simcloud.New(ctx, model(), withDriver)
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	spawnGuest(t, cloud)
	cloud.CheckNoLeaks(t)

	if err := cloud.StopHost("compute1"); err != nil {
		t.Fatal(err)
	}
	if leaks := cloud.Leaks(); len(leaks) != 1 || !strings.Contains(leaks[0].Text, "no mediated device") {
		t.Errorf("while the host is down: %v", leaks)
	}
	if err := cloud.StartHost(ctx, "compute1"); err != nil {
		t.Fatal(err)
	}
	if err := cloud.Cyborg.Report(ctx); err != nil { // the agent makes the slice again
		t.Fatal(err)
	}
	cloud.CheckNoLeaks(t)

	state, err := cloud.Dump()
	if err != nil {
		t.Fatal(err)
	}
	again, err := simcloud.FromState(ctx, state, withDriver)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.CheckNoLeaks(t)
	if mdevs, err := again.Mdevs("compute1"); err != nil || len(mdevs) != 1 {
		t.Errorf("mediated devices of the loaded cloud: %v, %v", mdevs, err)
	}
	if err := again.Cyborg.Report(ctx); err != nil {
		t.Errorf("the agent of the loaded cloud: %v", err)
	}
	again.CheckNoLeaks(t)
}

func spawnGuest(t *testing.T, cloud *simcloud.Cloud) {
	t.Helper()
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	flow, err := spawn.NewFromProvider(cloud.Provider(t), spawn.WithServiceProvider(cloud.ServiceProvider(t)), spawn.WithEvents(events))
	if err != nil {
		t.Fatal(err)
	}
	result, err := flow.Run(t.Context(), spawn.Request{Instance: instance, Flavor: requestspec.Flavor{
		Name: "npu", VCPUs: 1, MemoryMB: 512, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "npu"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.DefineGuest(sim.Guest{UUID: instance, Host: result.Host, Domain: string(result.Domain)}); err != nil {
		t.Fatal(err)
	}
}
