package fake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fake"
)

func TestTheDriverPassesTheTestForDrivers(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Case{New: func(driver.Tree) (driver.Driver, error) { return fake.New("compute1"), nil }})
}

func TestSixteenHandlesCountedFromOne(t *testing.T) {
	t.Parallel()
	report, err := fake.New("compute1").Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var handles []driver.AttachHandle
	for _, at := range [16][2]string{
		{"0", "1"}, {"0", "2"}, {"0", "3"}, {"0", "4"}, {"0", "5"}, {"0", "6"}, {"0", "7"}, {"1", "0"},
		{"1", "1"}, {"1", "2"}, {"1", "3"}, {"1", "4"}, {"1", "5"}, {"1", "6"}, {"1", "7"}, {"2", "0"},
	} {
		handles = append(handles, driver.AttachHandle{Type: "TEST_PCI",
			Info: driver.Info{"domain": "0000", "bus": "0c", "device": at[0], "function": at[1]}})
	}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "0xABCD", Model: "miss model info", Type: "FPGA",
		StdBoardInfo: `{"device_id": "0xabcd", "class": "Fake class"}`, VendorBoardInfo: "fake_vendor_info",
		ControlPath: driver.ControlPath{Type: "PCI", Info: driver.Info{"domain": "0000", "bus": "0c", "device": "00", "function": "0"}},
		Deployables: []driver.Deployable{{
			Name: "compute1_FakeDevice", NumAccelerators: 16, DriverName: "fake",
			Class: "FPGA", Traits: []string{"CUSTOM_FAKE_DEVICE"},
			AttachHandles: handles,
		}},
	}}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if err := report.Devices[0].Validate(); err != nil {
		t.Errorf("Validate() = %v", err)
	}
}

func TestTheHostNameIsMadeSafe(t *testing.T) {
	t.Parallel()
	report, err := fake.New("node-1.example:é").Discover(t.Context())
	if got := report.Devices[0].Deployables[0].Name; err != nil || got != "node-1_example___FakeDevice" {
		t.Errorf("name = %q, %v", got, err)
	}
}

func TestACancelledDiscoverySaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fake.New("h").Discover(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Discover: %v", err)
	}
}

func Example() {
	report, err := fake.New("compute1").Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	p := report.Devices[0].Deployables[0]
	fmt.Println(p.Name, p.NumAccelerators, p.Class, p.Traits)
	fmt.Println(driver.ProviderUUID(p.Name))
	// Output:
	// compute1_FakeDevice 16 FPGA [CUSTOM_FAKE_DEVICE]
	// f9d7848a-7688-361f-8e4b-3e58185de5fe
}
