package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// TestDiscoverPrintsTheObjectsOfUpstreamsDrivers, without what upstream cannot store; what was not
// understood is logged.
func TestDiscoverPrintsTheObjectsOfUpstreamsDrivers(t *testing.T) {
	t.Parallel()
	sys := laidOut(t, sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3b:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "vfio-pci"},
		{Address: "0000:70:00.0", Vendor: "1cf2", Product: "1001", Class: "0880", Clocks: []sysfs.Clock{{Name: "ptp0", ClockName: "zte"}}},
		{Address: "0000:af:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Files: map[string]string{"sriov_numvfs": "many\n"}},
	}})
	var stdout, stderr bytes.Buffer
	config := writeFile(t, "c.json", `{"host": "h"}`)
	if status := runDiscover(t, &stdout, &stderr, "--sysfs", sys, "--driver-config", config, "-o", "driver-objects"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	var devices []driver.Device
	must(t, json.Unmarshal(stdout.Bytes(), &devices))
	at := driver.PCIAddress{Bus: 0x3b}
	want := []driver.Device{{
		Vendor: "10de", Model: devices[0].Model, Type: driver.TypeGPU, StdBoardInfo: devices[0].StdBoardInfo, VendorBoardInfo: devices[0].VendorBoardInfo,
		ControlPath: at.ControlPath(), Deployables: []driver.Deployable{{
			Name: "h_0000:3b:00.0", NumAccelerators: 1, DriverName: "NVIDIA", Class: "PGPU", Traits: []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_15F8"},
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at.Info()}},
		}},
	}}
	if diff := cmp.Diff(want, devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if !strings.Contains(stdout.String(), `"cpid_info": "{\"bus\": \"3b\", `) {
		t.Errorf("the information is no text:\n%s", stdout.String())
	}
	for _, logged := range []string{"0000:70:00.0", "HPTS", "0000:af:00.0", "sriov_numvfs"} {
		if !strings.Contains(stderr.String(), logged) {
			t.Errorf("not logged: %s in %s", logged, stderr.String())
		}
	}
}

// TestNoObjectsOfADriverThatFailed: an agent would treat an empty list as removed hardware.
func TestNoObjectsOfADriverThatFailed(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(sys, "bus", "pci"), 0o700))
	must(t, os.WriteFile(filepath.Join(sys, "bus", "pci", "devices"), nil, 0o600))
	var stdout, stderr bytes.Buffer
	if status := runDiscover(t, &stdout, &stderr, "--sysfs", sys, "-o", "driver-objects"); status != 1 || stdout.Len() > 0 || stderr.Len() == 0 {
		t.Errorf("status %d, %q, %q", status, stdout.String(), stderr.String())
	}
}

// TestNoObjectsBesideADeviceThatCouldNotBeRead: upstream has no word for "as before", and would delete the device.
func TestNoObjectsBesideADeviceThatCouldNotBeRead(t *testing.T) {
	t.Parallel()
	sys := laidOut(t, divided())
	numvfs := filepath.Join(sys, "bus", "pci", "devices", ada, "sriov_numvfs")
	must(t, errors.Join(os.Remove(numvfs), os.Symlink("sriov_numvfs", numvfs))) // reading it gives ELOOP
	var stdout, stderr bytes.Buffer
	if status := runDiscover(t, &stdout, &stderr, "--sysfs", sys, "-o", "driver-objects"); status != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), ada) {
		t.Errorf("status %d, %q, %q", status, stdout.String(), stderr.String())
	}
}

// TestNoObjectsOfVGPUsWithoutMediatedDevices: the real agent would hand out functions without a type.
func TestNoObjectsOfVGPUsWithoutMediatedDevices(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := runDiscover(t, &stdout, &stderr, "--sysfs", laidOut(t, divided()), "--driver-config", writeFile(t, "cyborg.conf", dividedConf), "-o", "driver-objects"); status != 0 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	var devices []driver.Device
	must(t, json.Unmarshal(stdout.Bytes(), &devices))
	if len(devices) != 1 || devices[0].ControlPath.Address().String() != t4 || !strings.Contains(stderr.String(), "upstream's agent sets no vGPU types") {
		t.Errorf("devices %v, log %s", devices, stderr.String())
	}
}
