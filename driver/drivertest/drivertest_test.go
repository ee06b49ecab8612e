package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func TestADescribedDriverPasses(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Case{
		Hardware: sysfs.Description{Devices: []sysfs.PCIDevice{
			{Address: "0000:3b:00.0", Vendor: "1d55", Product: "1000", Class: "1200", VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "1001"}},
			{Address: "0000:5e:00.0", Vendor: "1d55", Product: "1000", Class: "1200"},
		}},
		New: func(tree driver.Tree) (driver.Driver, error) {
			return driver.NewPCIDriver(driver.PCISpec{
				Driver: "widget", Host: "compute1", Claims: []driver.Claim{{Vendor: 0x1d55, Why: "Widget"}},
				Device: func(u driver.Unit) driver.Device {
					return driver.Device{Vendor: u.VendorID(), Model: "Widget", Type: driver.TypeAICHIP}
				},
				Subject: func(driver.Unit) driver.Subject { return driver.Subject{ShippedClass: "CUSTOM_WIDGET"} },
			}, tree)
		},
	})
}

// failures records what a test would fail with.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func TestCheckNamesEachFault(t *testing.T) {
	t.Parallel()
	at := driver.PCIAddress{Bus: 0x3b}
	device := driver.Device{Vendor: "v", Type: driver.TypeGPU, ControlPath: at.ControlPath(), Deployables: []driver.Deployable{{
		Name: "h_0000:3b:00.0", NumAccelerators: 1, Class: "PGPU",
		AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at.Info()}},
	}}}
	record := &failures{TB: t}
	drivertest.Check(record, []driver.Driver{namedDriver("widget"), namedDriver("other")}, []driver.Report{
		{Devices: []driver.Device{device}},
		{
			Devices:  []driver.Device{device, {}},
			Problems: []driver.Problem{{Err: errors.New("x")}},
			LeftOut:  []driver.Notice{{Address: "a", Reason: "r", Driver: "widget"}},
			Warnings: []driver.Notice{{Reason: "r", Driver: "other"}},
		},
	})
	got := strings.Join(record.texts, "\n")
	for _, want := range []string{
		"deployable h_0000:3b:00.0 is reported by widget and by other", "is reported by widget and by other", "invalid device",
		"lacks a subject or a cause", "left out", "warning",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// namedDriver is a driver that is asked for its name only.
type namedDriver string

func (n namedDriver) Name() string { return string(n) }

func (n namedDriver) Discover(context.Context) (driver.Report, error) { return driver.Report{}, nil }
