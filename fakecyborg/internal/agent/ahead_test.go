package agent

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// counter is a driver that counts its discoveries.
type counter struct{ n atomic.Int64 }

func (c *counter) Name() string { return "test" }

func (c *counter) Discover(context.Context) (driver.Report, error) {
	c.n.Add(1)
	return driver.Report{}, nil
}

// The hardware of a host is read once for a report, and again if it changed since it was read ahead.
func TestHardwareIsReadAhead(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	ruled := fault.NewSet()
	for name, tt := range map[string]struct {
		faults *fault.Set
		before func(c *Conductor) // called before cn2 reports
		want   []int64
	}{
		"unchanged":        {nil, func(*Conductor) {}, []int64{1, 1, 1}},
		"hardware changed": {nil, func(c *Conductor) { c.hardwareChanged("cn2") }, []int64{1, 1, 2}},
		"other hardware":   {nil, func(c *Conductor) { c.hardwareChanged("cn1") }, []int64{1, 1, 1}},
		"state replaced":   {nil, func(c *Conductor) { replace(t, c) }, []int64{1, 1, 2}},
		"fault rules":      {ruled, func(*Conductor) {}, []int64{1, 1, 1}},
	} {
		c := New(Config{Clock: simhttp.Wall{}, Faults: tt.faults}, store.New(store.Config{}))
		ruled.RegisterWork(Operations()...)
		if err := ruled.Set(fault.Rule{Operation: fault.AgentReport, Subject: "cn9", Action: fault.Status}); err != nil {
			t.Fatal(err)
		}
		var counters []*counter
		for i := range 3 {
			counters = append(counters, new(counter))
			if err := c.AddHost(driver.Host{Name: fmt.Sprint("cn", i), Drivers: []driver.Driver{counters[i]}}); err != nil {
				t.Fatal(err)
			}
		}
		names := c.Hosts()
		for i, ahead := range c.readAhead(t.Context(), names) {
			if wasRead := ahead.drivers != nil; wasRead != (i > 0 && tt.faults == nil) {
				t.Errorf("%s: host %d was read ahead: %t", name, i, wasRead)
			}
			if i == 2 {
				tt.before(c)
			}
			c.reportHost(t.Context(), names[i], ahead, nil, func(err error) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		var got []int64
		for _, each := range counters {
			got = append(got, each.n.Load())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: discoveries (-want +got):\n%s", name, diff)
		}
	}
}

// replace replaces the state by itself.
func replace(t *testing.T, c *Conductor) {
	t.Helper()
	records, err := tables.Collect(c.db.DB())
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Replace(t.Context(), c.db.DB(), records); err != nil {
		t.Fatal(err)
	}
}
