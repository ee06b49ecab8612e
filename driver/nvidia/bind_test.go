package nvidia_test

import (
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Somebody else gives a virtual function a type after the report that offers it. The bind fails, and
// what it undoes is not theirs.
func TestABindLeavesTheVGPUOfSomebodyElse(t *testing.T) {
	t.Parallel()
	tree := vgpuTree(t)
	d, err := nvidia.New(nvidia.Config{Host: "cn0", EnabledVGPUTypes: []nvidia.VGPUType{q48}}, tree)
	if err != nil {
		t.Fatal(err)
	}
	cloud := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}, DeviceProfiles: []simcloud.DeviceProfile{
		{Name: "vgpu", Groups: []map[string]string{{"resources:VGPU": "1"}}},
	}})
	if _, err := cloud.Placement.CreateProvider(placementsim.ResourceProvider{
		Name: "cn0", Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 64}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := cloud.Cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{d}}); err != nil {
		t.Fatal(err)
	}
	report := func() {
		t.Helper()
		if err := cloud.Cyborg.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report()
	provider := cloud.Cyborg.Deployables()[0].ProviderUUID
	bind := func(instance string) (fakecyborg.ARQ, error) {
		t.Helper()
		arqs, err := cloud.Cyborg.CreateARQs("vgpu", "project")
		if err != nil {
			t.Fatal(err)
		}
		err = cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance})
		list := cloud.Cyborg.ARQs()
		return list[slices.IndexFunc(list, func(a fakecyborg.ARQ) bool { return a.UUID == arqs[0].UUID })], err
	}
	theirs := driver.VGPUFile(function(2))
	if err := tree.WriteFile(theirs, []byte("1555")); err != nil {
		t.Fatal(err)
	}
	if a, err := bind("2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"); err == nil || a.State != "BindFailed" {
		t.Fatalf("bound to a function of somebody else: %s, %v", a.State, err)
	}
	if now, err := tree.ReadFile(theirs); err != nil || string(now) != "1555\n" {
		t.Errorf("the vGPU of somebody else is %q now, %v", now, err)
	}
	report()
	if a, err := bind("2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"); err != nil || a.AttachHandleInfo["function"] == "2" {
		t.Errorf("after a report: %s with %v, %v", a.State, a.AttachHandleInfo, err)
	}
}
