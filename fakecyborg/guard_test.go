package fakecyborg_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// defective is a vendor's driver that discovers with a function of the test.
type defective struct {
	*hardware
	discover func(context.Context) (driver.Report, error)
}

func (d *defective) Discover(ctx context.Context) (driver.Report, error) {
	d.mu.Lock()
	discover := d.discover
	d.mu.Unlock()
	if discover != nil {
		return discover(ctx)
	}
	return d.hardware.Discover(ctx)
}

// TestADefectiveDriverDoesNotAffectOthers has a driver that panics, and then one that hangs, on the first of
// two hosts.
func TestADefectiveDriverDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &defective{hardware: newHardware("shark", gpu("3b", "PGPU", nil, "0"))}
		w := newWorld(t, fakecyborg.Config{}, []driver.Driver{bad, newHardware("test", gpu("5e", "PGPU", nil, "0"))})
		second := newHardware("test")
		settled(t, w.server.AddHost(driver.Host{Name: "cn1", Drivers: []driver.Driver{second}}))
		hanging := make(chan struct{})
		for _, tt := range []struct {
			name     string
			discover func(context.Context) (driver.Report, error)
			want     string
			took     time.Duration
		}{
			{"a panic", func(context.Context) (driver.Report, error) { panic("no tool") }, "shark: discover: panic: no tool", 0},
			{"a hanging call", func(context.Context) (driver.Report, error) { <-hanging; return driver.Report{}, nil }, "shark: discover: no answer", 31 * time.Second},
			{"the next report", nil, "shark: discover: not tried", 0},
		} {
			bad.mu.Lock()
			bad.discover = tt.discover
			bad.mu.Unlock()
			card := gpu("84", "PGPU", nil, "0")
			card.Deployables[0].Name = "cn1_" + tt.name
			second.set(card)
			begin := time.Now()
			err := w.server.Report(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(begin) != tt.took {
				t.Errorf("%s: error %v after %v, want %q after %v", tt.name, err, time.Since(begin), tt.want, tt.took)
			}
			if devices, deployables := w.server.Devices(), w.server.Deployables(); len(devices) != 3 || deployables[2].Name != "cn1_"+tt.name {
				t.Errorf("%s: devices %+v, deployables %+v", tt.name, devices, deployables)
			}
		}
		close(hanging)
		synctest.Wait()
		if err := w.server.Report(t.Context()); err != nil {
			t.Errorf("once the driver has returned: %v", err)
		}
	})
}

// TestAPanicOfABindFailsTheBind has a driver that panics while a mediated device is created, while one
// is removed, and when the process tries again.
func TestAPanicOfABindFailsTheBind(t *testing.T) {
	t.Parallel()
	h := newHardware("test", vgpu("3b", 1))
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{h})
	w.profile("vgpu", `[{"resources:VGPU":"1"}]`)
	arq := w.arqs("vgpu")[0]
	h.during = func() { panic(errors.New("create")) }
	h.dropping = func() { panic(errors.New("remove")) }
	w.patch(binding(instanceA, driver.ProviderUUID("cn0_0000:3b:00.0"), arq))
	if states := w.states(); len(states) != 1 || states[0] != fakecyborg.StateBindFailed {
		t.Errorf("states %v", states)
	}
	w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: unbinding(arq)})
	h.mu.Lock()
	h.during, h.dropping = nil, nil
	h.mu.Unlock()
	w.delete("/v2/accelerator_requests?arqs=" + arq)
	if err := w.server.Report(t.Context()); err != nil {
		t.Errorf("the report that cleans up: %v", err)
	}
	w.checkFreed(h)
}
