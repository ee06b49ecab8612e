package nic_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// toGuest does what libvirt does to the port before a guest starts: its interface goes.
func toGuest(m *sysfs.Memory) {
	const at = "devices/pci0000:18/0000:18:00.0"
	m.Remove(at + "/net")
	m.Remove("class/net/eth2")
	m.Remove(at + "/driver")
	m.SetLink(at+"/driver", "../../../bus/pci/drivers/vfio-pci")
}

// A port that a guest has shows no interface, by which it is mapped. It stays what it was, for the
// guest and for the next one.
func TestAPortThatAGuestHasKeepsItsNetwork(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, port())
	d, err := nic.New(nic.Config{Host: "cn0", EnabledNICTypes: []nic.Type{
		{Name: "x710_static", PhysicalDeviceMappings: nic.Mappings{"physnet1": {"eth2"}}},
	}}, tree)
	if err != nil {
		t.Fatal(err)
	}
	cloud := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}, DeviceProfiles: []simcloud.DeviceProfile{
		{Name: "port", Groups: []map[string]string{{"resources:CUSTOM_NIC": "1", "trait:CUSTOM_PHYSNET1": "required"}}},
	}})
	if _, err := cloud.Placement.CreateProvider(placementsim.ResourceProvider{
		Name: "cn0", Traits: []string{"COMPUTE_ACCELERATORS", "OWNER_NOVA"},
		Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 64}, "MEMORY_MB": {Total: 65536}, "DISK_GB": {Total: 4000}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := cloud.Cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{d}}); err != nil {
		t.Fatal(err)
	}
	report := func() {
		t.Helper()
		if err := cloud.Cyborg.Report(t.Context()); err != nil {
			t.Errorf("report: %v", err)
		}
	}
	report()
	events := externalevent.NewRegistry()
	cloud.HandleEvents(events.Handler())
	flow, err := spawn.NewFromProvider(cloud.Provider(t), spawn.WithServiceProvider(cloud.ServiceProvider(t)), spawn.WithEvents(events))
	if err != nil {
		t.Fatal(err)
	}
	run := func(instance string) *spawn.Result {
		t.Helper()
		result, err := flow.Run(t.Context(), spawn.Request{
			Instance: instance, Flavor: requestspec.Flavor{Name: "f", VCPUs: 1, MemoryMB: 512, RootGB: 1},
			Ports: []spawn.Port{{MAC: "52:54:00:1e:59:c3",
				Port: requestspec.Port{UUID: "ce531f90-199f-48c0-816c-13e38010b442", VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: "port"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	first := run("2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001")
	provider := first.ARQs[0].DeviceRPUUID
	before, err := cloud.Placement.ResourceProvider(provider)
	if err != nil {
		t.Fatal(err)
	}
	toGuest(tree)
	report()
	if during, err := cloud.Placement.ResourceProvider(provider); err != nil || !cmp.Equal(before.Traits, during.Traits) {
		t.Errorf("while the guest has it: traits %v, %v, before %v", during.Traits, err, before.Traits)
	}
	if err := flow.Release(t.Context(), "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"); err != nil {
		t.Fatal(err)
	}
	if second := run("2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"); !cmp.Equal(first.ARQs[0].AttachHandleInfo, second.ARQs[0].AttachHandleInfo) {
		t.Errorf("the next guest has %v, the first had %v", second.ARQs[0].AttachHandleInfo, first.ARQs[0].AttachHandleInfo)
	}
}
