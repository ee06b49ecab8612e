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
