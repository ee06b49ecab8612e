package drivertest_test

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

// printed is a test that prints its failures.
type printed struct{ testing.TB }

// Helper implements testing.TB.
func (printed) Helper() {}

// Errorf implements testing.TB.
func (printed) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// A driver offers two cards under one name. Check says so, and so does Run, which a driver's own
// test calls.
func ExampleCheck() {
	card := func(bus uint8) driver.Device {
		at := driver.PCIAddress{Bus: bus}
		return driver.Device{Vendor: "1d55", Type: driver.TypeAICHIP, ControlPath: at.ControlPath(), Deployables: []driver.Deployable{{
			Name: "compute1_npu", NumAccelerators: 1, Class: "CUSTOM_NPU",
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at.Info()}},
		}}}
	}
	d := verbatim.New([]driver.Device{card(0x3b), card(0x5e)})
	report := driver.Report{Devices: []driver.Device{card(0x3b), card(0x5e)}}
	drivertest.Check(printed{}, []driver.Driver{d}, []driver.Report{report})
	// Output: deployable compute1_npu is reported by verbatim and by verbatim
}
