package fakecyborg_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// fallbackWorld is newReportWorld with a host of two names; Placement has cn0.
func fallbackWorld(t *testing.T, names driver.Host) *reportWorld {
	t.Helper()
	w := newReportWorld(t)
	w.cyborg = newServer(t, fakecyborg.Config{}, w.overWire())
	names.Drivers = []driver.Driver{newHardware("test", gpu("3b", "PGPU", nil, "0"))}
	settled(t, w.cyborg.AddHost(names))
	return w
}

func TestTheShortNameIsTheSecondChoice(t *testing.T) {
	t.Parallel()
	for _, names := range []driver.Host{{Name: "cn0.example.org", Fallback: "cn0"}, {Name: "cn0", Fallback: "other"}} {
		w := fallbackWorld(t, names)
		w.report()
		w.report()
		devices := w.cyborg.Devices()
		if len(devices) != 1 || devices[0].Hostname != "cn0" || len(w.cyborg.DriverReports()) != 1 {
			t.Fatalf("%v: devices %+v, reports %v", names.Name, devices, w.cyborg.DriverReports())
		}
		if p, there := w.provider("3b"); !there || p.Parent != w.root {
			t.Errorf("%v: provider %+v", names.Name, p)
		}
		if err := w.cyborg.ReportHost(t.Context(), names.Name); err != nil {
			t.Errorf("by its first name: %v", err)
		}
		w.bind("PGPU", "3b")
		w.free(instanceA)
	}
	w := fallbackWorld(t, driver.Host{Name: "cn7.example.org", Fallback: "cn7"})
	if err := w.cyborg.Report(t.Context()); err == nil || len(w.cyborg.Devices()) != 0 {
		t.Errorf("neither name is known: %v, %v", err, w.cyborg.Devices())
	}
	if err := w.cyborg.AddHost(driver.Host{Name: "cn7"}); err == nil {
		t.Error("the fallback of another host was taken for a name")
	}
}

func TestScenarios122AnAgentWithoutParentGivesUpUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			quirks, silent bool
			want           int
		}{{quirks: true, want: 4}, {want: 16}, {silent: true, want: 16}, {quirks: true, silent: true, want: 11}} {
			calls, reports := 0, 0
			stub := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls++; tt.silent {
					panic(http.ErrAbortHandler)
				}
				simhttp.WriteJSON(w, http.StatusOK, map[string]any{"resource_providers": []string{}})
			})
			observer := fakecyborg.WithReportObserver(func(host string, err error) {
				if reports++; host != "cn0" || !errors.Is(err, fakecyborg.ErrNotReported) {
					t.Errorf("report of %s ended with %v", host, err)
				}
			})
			server := newServer(t, fakecyborg.Config{UpstreamQuirks: tt.quirks}, fakecyborg.WithAgentLoop(), withPlacement(stub), observer)
			settled(t, server.AddHost(driver.Host{Name: "cn0"}))
			time.Sleep(10*time.Minute + 30*time.Second)
			server.Close()
			if calls != tt.want || reports != tt.want {
				t.Errorf("%+v: %d looks for the parent, %d reports", tt, calls, reports)
			}
		}
	})
}
