package verbatim_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

func card() driver.Device {
	info := driver.Info{"domain": "0000", "bus": "af", "device": "00", "function": "0"}
	return driver.Device{
		Type: driver.TypeGPU, Vendor: "10de",
		ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: info},
		Deployables: []driver.Deployable{{
			Name: "cn0_card", NumAccelerators: 1, DriverName: "nvidia",
			Class:         "VGPU",
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: info}},
		}},
	}
}

func TestDevicesAreReportedAsGiven(t *testing.T) {
	t.Parallel()
	given := []driver.Device{card()}
	d := verbatim.New(given)
	given[0].Deployables[0].AttachHandles[0].Info["bus"] = "00" // the driver has its own copy
	for range 2 {
		report, err := d.Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(driver.Report{Devices: []driver.Device{card()}}, report); diff != "" {
			t.Fatalf("report (-want +got):\n%s", diff)
		}
		report.Devices[0].Deployables[0].AttachHandles[0].Info["bus"] = "00" // and gives copies
	}
}

func TestMediatedDevicesAreNoted(t *testing.T) {
	t.Parallel()
	d := verbatim.New([]driver.Device{card()})
	m := driver.Mdev{UUID: "6f9619ff-8b86-4011-b42d-00c04fc964ff", Parent: "0000:af:00.0", Type: "nvidia-35"}
	for range 2 { // the agent may ask again
		if err := d.CreateMdev(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]driver.Mdev{m}, d.Mdevs()); diff != "" {
		t.Errorf("after create (-want +got):\n%s", diff)
	}
	bad := m
	bad.Parent = "../../etc"
	if err := d.CreateMdev(t.Context(), bad); !errors.Is(err, driver.ErrHandle) {
		t.Errorf("parent %s: got error %v, want ErrHandle", bad.Parent, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.RemoveMdev(over, m); !errors.Is(err, context.Canceled) || len(d.Mdevs()) != 1 {
		t.Errorf("with a context that is over: %v, %v", err, d.Mdevs())
	}
	for range 2 {
		if err := d.RemoveMdev(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.Mdevs()) != 0 {
		t.Errorf("after remove: %v", d.Mdevs())
	}
}

func TestARefusedImageIsNotWritten(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := verbatim.New([]driver.Device{card()})
	for name, ctx := range map[string]context.Context{"no FPGA": t.Context(), "a context that is over": over} {
		if err := d.Program(ctx, card().ControlPath, "", []byte("bits")); !errors.Is(err, driver.ErrNotWritten) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
