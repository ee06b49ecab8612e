package driver_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
)

// foreign is a vendor's driver with a defect.
type foreign struct {
	discover func(context.Context) (driver.Report, error)
}

func (foreign) Name() string { return "shark" }

func (f foreign) Discover(ctx context.Context) (driver.Report, error) { return f.discover(ctx) }

func TestADriverThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	var devices []driver.Device
	for name, tt := range map[string]struct {
		discover func(context.Context) (driver.Report, error)
		want     string
	}{
		"a value":         {func(context.Context) (driver.Report, error) { panic("no tool") }, "shark: discover: panic: no tool at guard_test.go:"},
		"an index":        {func(context.Context) (driver.Report, error) { return driver.Report{Devices: devices[3:4]}, nil }, "slice bounds out of range [:4] with capacity 0 at guard_test.go:"},
		"a nil pointer":   {func(context.Context) (driver.Report, error) { return *(*driver.Report)(nil), nil }, "nil pointer dereference at guard_test.go:"},
		"its goroutine":   {func(context.Context) (driver.Report, error) { runtime.Goexit(); return driver.Report{}, nil }, "shark: discover: the driver ended its goroutine"},
		"no error at all": {func(context.Context) (driver.Report, error) { return driver.Report{}, nil }, ""},
	} {
		reports := driver.DiscoverAll(t.Context(), []driver.Driver{foreign{tt.discover}, gpusOf(t, drivertest.Tree(t, p100("0000:01:00.0")), driver.Policy{})})
		if err := reports[0].Err; (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
		if len(reports[1].Devices) != 1 {
			t.Errorf("%s: the other driver reports %+v", name, reports[1])
		}
	}
}

func TestADriverThatIgnoresItsContextIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := make(chan struct{})
		calls := 0
		drivers := []driver.Driver{foreign{func(context.Context) (driver.Report, error) {
			if calls++; calls == 1 {
				<-hanging
			}
			return driver.Report{}, nil
		}}, gpusOf(t, drivertest.Tree(t, p100("0000:01:00.0")), driver.Policy{})}
		guard := new(driver.Guard)
		for i, want := range []struct {
			err  string
			took time.Duration
		}{
			{"shark: discover: no answer, and the driver ignores its context", 31 * time.Second},
			{"shark: discover: not tried, the driver has not returned from the step discover, given up at 2000-01-01T00:00:31Z", 0},
			{"", 0},
		} {
			begin := time.Now()
			reports := guard.DiscoverAll(t.Context(), drivers)
			if err := reports[0].Err; (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
				t.Errorf("discovery %d: error %v, want %q", i, err, want.err)
			}
			if took := time.Since(begin); took != want.took || len(reports[1].Devices) != 1 {
				t.Errorf("discovery %d: %v, and the other driver reports %d devices", i, took, len(reports[1].Devices))
			}
			if i == 1 {
				close(hanging)
				synctest.Wait()
			}
		}
	})
}

func TestACallReturnsTheDriversError(t *testing.T) {
	t.Parallel()
	cause := errors.New("busy")
	guard, d := new(driver.Guard), foreign{}
	if err := guard.Call(t.Context(), d, "create", time.Minute, func(context.Context) error { return cause }); err != cause {
		t.Errorf("%v", err)
	}
	err := guard.Call(t.Context(), d, "create", time.Nanosecond, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a driver that honours its context: %v", err)
	}
}
