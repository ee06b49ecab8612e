package fakecyborg_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// TestTwoDriversOfAHost reports a device by one driver, then by two: neither may offer it,
// and what is stored and in use stays as it is.
func TestTwoDriversOfAHost(t *testing.T) {
	t.Parallel()
	mine, other := newHardware("mine", gpu("3b", "PGPU", nil, "0")), newHardware("other")
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{mine, other})
	w.profile("gpu", `[{"resources:PGPU":"1"}]`)
	arq := w.arqs("gpu")[0]
	w.patch(binding(instanceA, driver.ProviderUUID("cn0_0000:3b:00.0"), arq))
	other.set(gpu("3b", "CUSTOM_PCI", nil, "0"), gpu("5e", "CUSTOM_PCI", nil, "0"))
	err := w.server.Report(t.Context())
	if !errors.Is(err, driver.ErrDoubleClaim) || !strings.Contains(err.Error(), "mine and other") {
		t.Errorf("error: %v", err)
	}
	if devices := w.server.Devices(); len(devices) != 2 {
		t.Errorf("stored: %+v", devices)
	}
	if bound := w.used(); bound != 1 {
		t.Errorf("%d handles are in use", bound)
	}
	for _, r := range w.server.DriverReports() {
		if len(r.Problems) != 1 || r.Problems[0].Address != "0000:3b:00.0" {
			t.Errorf("%s: %+v", r.Driver, r.Problems)
		}
	}
}

// A driver from outside may be wrong: two guests would get the function, as they do from upstream.
func TestAFunctionOfTwoDevicesIsOfferedOnce(t *testing.T) {
	t.Parallel()
	second := gpu("5e", "PGPU", nil, "0", "1")
	second.Deployables[0].AttachHandles[1].Info = pciInfo("3b", "0")
	twice := gpu("86", "PGPU", nil, "0")
	twice.Deployables = append(twice.Deployables, twice.Deployables[0])
	twice.Deployables[1].Name += "_1"
	first := gpu("3b", "PGPU", nil, "0")
	for _, tt := range []struct {
		quirks  bool
		refused []string
		devices int
	}{
		{false, []string{"function 0000:3b:00.0 is another device's", "two attach handles stand for function 0000:86:00.0"}, 2},
		{true, []string{"two attach handles stand for function 0000:86:00.0"}, 3},
	} {
		mine := newHardware("mine", first)
		w := newWorld(t, fakecyborg.Config{UpstreamQuirks: tt.quirks}, []driver.Driver{mine})
		mine.set(first, second, twice, gpu("af", "PGPU", nil, "0"))
		err := w.server.Report(t.Context())
		for _, want := range tt.refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("quirks %t: error %v, want one with %q", tt.quirks, err, want)
			}
		}
		if devices := w.server.Devices(); len(devices) != tt.devices {
			t.Errorf("quirks %t: stored: %+v", tt.quirks, devices)
		}
	}
}
