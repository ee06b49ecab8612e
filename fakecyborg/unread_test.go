package fakecyborg_test

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// exhausted is a tree in which one file cannot be read, as in a process without free file descriptors.
type exhausted struct {
	driver.Tree
	mu         sync.Mutex
	unreadable string
	read       map[string]bool
}

func (e *exhausted) look(op, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read[name] = true
	if name == e.unreadable {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
	}
	return nil
}

func (e *exhausted) ReadFile(name string) ([]byte, error) {
	if err := e.look("read", name); err != nil {
		return nil, err
	}
	return e.Tree.ReadFile(name)
}

func (e *exhausted) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := e.look("readdir", name); err != nil {
		return nil, err
	}
	return e.Tree.ReadDir(name)
}

func (e *exhausted) Readlink(name string) (string, error) {
	if err := e.look("readlink", name); err != nil {
		return "", err
	}
	return e.Tree.Readlink(name)
}

// manyKinds is a machine whose devices are found in several directories.
func manyKinds(t *testing.T) *sysfs.Memory {
	t.Helper()
	return machineOf(t, []sysfs.PCIDevice{
		{Address: "0000:10:00.0", Vendor: "10de", Product: "15f8", Class: "0302", Driver: "nvidia"},
		{Address: "0000:12:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
			VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "09c5"},
			FPGA: &sysfs.FPGA{Regions: []sysfs.FPGARegion{{Number: 1, InterfaceID: "a1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
				Ports: []sysfs.FPGAPort{
					{Number: 1, AFUID: "d8424dc4a4a3c413f89e433683f9040b", VF: 1}, {Number: 2, AFUID: "f7df405cbd7acf7222f144b0b93acd18", VF: 2},
				}}},
		{Address: "0000:16:00.0", Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx",
			VFs: &sysfs.VFs{Total: 2, Enabled: 2, Product: "37c9"}},
		{Address: "0000:1b:00.0", Vendor: "1cf2", Product: "0001", Class: "0880", Clocks: []sysfs.Clock{{Name: "ptp0", ClockName: "zte hpts"}}},
	}...)
}

// TestWhatCouldNotBeReadIsKept makes one name after the other unreadable for one report.
func TestWhatCouldNotBeReadIsKept(t *testing.T) {
	t.Parallel()
	tree := &exhausted{Tree: manyKinds(t), read: make(map[string]bool)}
	drivers, err := builtin.New(builtin.Config{Host: "cn0", EnabledDrivers: []string{
		builtin.NVIDIA, builtin.IntelFPGA, builtin.IntelQAT, builtin.HPTS,
	}}, tree)
	settled(t, err)
	placement := newPlacement(t)
	cyborg := newWorld(t, fakecyborg.Config{}, drivers, withPlacement(placement)).server
	for _, d := range cyborg.Devices() {
		settled(t, cyborg.SetDeviceStatus(t.Context(), d.UUID, fakecyborg.StatusMaintaining))
	}
	type state struct {
		Devices     []fakecyborg.StoredDevice
		Deployables []fakecyborg.StoredDeployable
		Handles     []fakecyborg.StoredAttachHandle
		Attributes  []fakecyborg.StoredAttribute
		Providers   []placementsim.ResourceProvider
	}
	now := func() state {
		return state{cyborg.Devices(), cyborg.Deployables(), cyborg.AttachHandles(), cyborg.Attributes(), placement.ResourceProviders()}
	}
	before := now()
	if len(before.Devices) != 4 || len(before.Handles) != 6 {
		t.Fatalf("devices %v, handles %v", before.Devices, before.Handles)
	}
	for _, name := range slices.Sorted(maps.Keys(tree.read)) {
		for _, tree.unreadable = range []string{name, ""} {
			err := cyborg.Report(t.Context())
			if err != nil && tree.unreadable == "" {
				t.Errorf("after %s was unreadable: %v", name, err)
			}
			if diff := cmp.Diff(before, now()); diff != "" {
				t.Fatalf("%s unreadable: %t (-want +got):\n%s", name, tree.unreadable != "", diff)
			}
		}
	}
}

// TestAConfiguredCardThatVanishedIsRemoved has a card that the configuration divides. Its absence
// is a problem, but its devices are removed.
func TestAConfiguredCardThatVanishedIsRemoved(t *testing.T) {
	t.Parallel()
	const card = "0000:84:00.0"
	tree := machineOf(t, sysfs.PCIDevice{
		Address: card, Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
		MdevTypes: []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 3}},
	})
	d, err := nvidia.New(nvidia.Config{Host: "cn0", EnabledVGPUTypes: []nvidia.VGPUType{{Name: "nvidia-35", DeviceAddresses: []string{card}}}}, tree)
	settled(t, err)
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{d})
	tree.Remove("bus/pci/devices/" + card)
	if err := w.server.Report(t.Context()); !errors.Is(err, driver.ErrConfig) {
		t.Errorf("the report: %v, want ErrConfig", err)
	}
	if devices := w.server.Devices(); len(devices) != 0 {
		t.Errorf("devices: %+v", devices)
	}
}
