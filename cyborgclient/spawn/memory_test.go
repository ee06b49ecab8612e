package spawn_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The memory of a device is claimed with the device and is not treated as another device.
func TestDeviceMemoryIsClaimedWithoutADevice(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	info := driver.Info{"domain": "0000", "bus": "41", "device": "00", "function": "0"}
	model.Hosts[0].Devices = append(model.Hosts[0].Devices, driver.Device{
		Type: driver.TypeFPGA, Vendor: "10ee",
		ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: info},
		Deployables: []driver.Deployable{{
			Name: "cn0_0000:41:00.0", NumAccelerators: 1, DriverName: "xilinx",
			Class: "FPGA", Traits: []string{"CUSTOM_FPGA_WITH_DDR"},
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: info}},
		}},
	})
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{
		Name: "ddr", Groups: []map[string]string{{
			"resources:FPGA": "1", "resources:CUSTOM_ACCELERATOR_MEMORY_DDR": "4096", "trait:CUSTOM_FPGA_WITH_DDR": "required",
		}},
	})
	w := newWorld(t, worldOpts{model: &model})
	w.giveMemory(t, "cn0_0000:41:00.0", "CUSTOM_ACCELERATOR_MEMORY_DDR", 8192)
	result := w.spawned(t, request("ddr"))
	if len(result.ARQs) != 1 || len(result.Devices) != 1 {
		t.Errorf("got %d ARQs and %d devices, want one of each", len(result.ARQs), len(result.Devices))
	}
	w.cloud.Placement.CheckUsage(t, result.ARQs[0].DeviceRPUUID, "CUSTOM_ACCELERATOR_MEMORY_DDR", 4096)
}

// giveMemory adds an inventory to a provider that Cyborg reported.
func (w *world) giveMemory(t *testing.T, provider, class string, total int) {
	t.Helper()
	for _, p := range w.cloud.Placement.ResourceProviders() {
		if p.Name != provider {
			continue
		}
		inventories := p.Inventories
		inventories[class] = placementsim.Inventory{Total: total}
		settled(t, w.cloud.Placement.SetInventory(p.UUID, inventories))
		return
	}
	t.Fatalf("no provider %s", provider)
}
