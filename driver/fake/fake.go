package fake

import (
	"context"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	accelerators = 16
	slotSize     = 8 // functions of one PCI slot
)

// Driver reports the one fake FPGA of a host.
type Driver struct {
	host string
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver of the named host. The deployable is called HOST_FakeDevice,
// where every character of HOST other than letters, digits, underscore and hyphen is an
// underscore, as upstream does it.
func New(host string) *Driver {
	return &Driver{host: host}
}

// Name returns "fake".
func (d *Driver) Name() string { return "fake" }

// Discover reports one device with sixteen TEST_PCI handles: functions 1 to 7 of device
// 0, all of device 1 and function 0 of device 2, because upstream counts from one. The
// error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	if err := ctx.Err(); err != nil {
		return driver.Report{}, err
	}
	return driver.Report{Devices: []driver.Device{{
		Vendor:          "0xABCD",
		Model:           "miss model info",
		Type:            driver.TypeFPGA,
		StdBoardInfo:    `{"device_id": "0xabcd", "class": "Fake class"}`,
		VendorBoardInfo: "fake_vendor_info",
		ControlPath:     driver.ControlPath{Type: driver.ControlPathPCI, Info: info("00", "0")},
		Deployables:     []driver.Deployable{d.deployable()},
	}}}, nil
}

func (d *Driver) deployable() driver.Deployable {
	return driver.Deployable{
		Name:            strings.Map(safe, d.host+"_FakeDevice"),
		NumAccelerators: accelerators,
		DriverName:      "fake",
		Class:           "FPGA",
		Traits:          []string{"CUSTOM_FAKE_DEVICE"},
		AttachHandles:   handles(),
	}
}

func handles() []driver.AttachHandle {
	list := make([]driver.AttachHandle, 0, accelerators)
	for i := 1; i <= accelerators; i++ {
		list = append(list, driver.AttachHandle{
			Type: driver.HandleTestPCI,
			Info: info(strconv.Itoa(i/slotSize), strconv.Itoa(i%slotSize)),
		})
	}
	return list
}

// info is an address on the bus that upstream's driver claims. The device number is padded in the
// control path, but not in a handle.
func info(device, function string) driver.Info {
	return driver.Info{"domain": "0000", "bus": "0c", "device": device, "function": function}
}

func safe(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}
