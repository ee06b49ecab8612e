package mdev_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	id1   = "11111111-1111-4111-8111-111111111111"
	id2   = "22222222-2222-4222-8222-222222222222"
	types = "class/mdev_bus/mtty/mdev_supported_types"
)

func machine(t testing.TB) *sysfs.Memory {
	t.Helper()
	m, err := sysfs.Generate(sysfs.Description{MdevParents: []sysfs.MdevParent{{Name: "mtty", Types: []sysfs.MdevType{
		{Type: "mtty-1", Name: "Single port serial", AvailableInstances: 24}, {Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 2},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func serial(parents ...string) mdev.Config {
	return mdev.Config{Host: "cn0", EnabledMdevTypes: []mdev.Type{{Name: "mtty-2", Parents: parents, Class: "CUSTOM_SERIAL"}}}
}

func newDriver(t testing.TB, c mdev.Config, tree driver.Tree) *mdev.Driver {
	t.Helper()
	d, err := mdev.New(c, tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAParentThatIsNotOnPCI(t *testing.T) {
	t.Parallel()
	handle := func(i int) driver.AttachHandle {
		return driver.AttachHandle{Type: "MDEV", Info: driver.Info{"parent": "mtty", "asked_type": "mtty-2", "vgpu_mark": fmt.Sprintf("mtty-2_%d", i)}}
	}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "mtty", Model: "Dual port serial", Type: "GPU",
		ControlPath: driver.ControlPath{Type: "MDEV_PARENT", Info: driver.Info{"parent": "mtty"}},
		Deployables: []driver.Deployable{{
			Name: "cn0_mtty", NumAccelerators: 2, DriverName: "mdev",
			Class: "CUSTOM_SERIAL", Traits: []string{"OWNER_CYBORG", "CUSTOM_MDEV_MTTY_2"},
			AttachHandles: []driver.AttachHandle{handle(0), handle(1)},
		}},
	}}}
	if diff := cmp.Diff(want, drivertest.Discover(t, newDriver(t, serial("mtty"), machine(t)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The name of a type is optional in the kernel's interface, and i915 gives its types none. The handles of a PCI function are those that
// Nova reads.
func TestAParentOnPCIWhoseTypeHasNoName(t *testing.T) {
	t.Parallel()
	const gpu, typ = "0000:00:02.0", "i915-GVTg_V5_4"
	tree := drivertest.Tree(t, sysfs.PCIDevice{
		Address: gpu, Vendor: "8086", Product: "1912", Class: "0300", Driver: "i915",
		MdevTypes: []sysfs.MdevType{{Type: typ, AvailableInstances: 2}},
	})
	address := driver.Info{"domain": "0000", "bus": "00", "device": "02", "function": "0"}
	handle := func(i int) driver.AttachHandle {
		info := maps.Clone(address)
		info["asked_type"], info["vgpu_mark"] = typ, fmt.Sprintf("%s_%d", typ, i)
		return driver.AttachHandle{Type: "MDEV", Info: info}
	}
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "8086", Model: typ, Type: "GPU", ControlPath: driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "cn0_" + gpu, NumAccelerators: 2, DriverName: "mdev", Class: "VGPU", Traits: []string{"OWNER_CYBORG", "CUSTOM_MDEV_I915_GVTG_V5_4"},
			AttachHandles: []driver.AttachHandle{handle(0), handle(1)},
		}},
	}}}
	d := newDriver(t, mdev.Config{Host: "cn0", EnabledMdevTypes: []mdev.Type{{Name: typ, Parents: []string{gpu}}}}, tree)
	if diff := cmp.Diff(want, drivertest.Discover(t, d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m := driver.Mdev{UUID: id1, Parent: gpu, Type: typ}
	if err := d.CreateMdev(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, drivertest.Discover(t, d)); diff != "" {
		t.Errorf("with a device (-want +got):\n%s", diff)
	}
	if err := d.RemoveMdev(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestTheLifeOfAMediatedDevice(t *testing.T) {
	t.Parallel()
	tree := machine(t)
	d := newDriver(t, serial("mtty"), tree)
	before := drivertest.Discover(t, d)
	m := driver.Mdev{UUID: id1, Parent: "mtty", Type: "mtty-2"}
	for _, step := range []struct {
		name string
		do   func(context.Context, driver.Mdev) error
		want int // mediated devices
	}{
		{"made", d.CreateMdev, 1},
		{"made again", d.CreateMdev, 1},
		{"removed", d.RemoveMdev, 0},
		{"removed again", d.RemoveMdev, 0},
	} {
		if err := step.do(t.Context(), m); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if mdevs := tree.Mdevs(); len(mdevs) != step.want {
			t.Errorf("%s: mediated devices %v, want %d", step.name, mdevs, step.want)
		}
		if diff := cmp.Diff(before, drivertest.Discover(t, d)); diff != "" {
			t.Errorf("%s: the report changes (-before +after):\n%s", step.name, diff)
		}
	}
}

func TestForeignDevicesLowerTheCapacity(t *testing.T) {
	t.Parallel()
	tree := machine(t)
	d := newDriver(t, serial("mtty"), tree)
	if err := tree.WriteFile(types+"/mtty-1/create", []byte(id2)); err != nil {
		t.Fatal(err)
	}
	report := drivertest.Discover(t, d)
	if len(report.Devices) != 0 || len(report.LeftOut) != 1 || !strings.Contains(report.LeftOut[0].Reason, "type mtty-2 has no available instance") {
		t.Errorf("%+v", report)
	}
	// one kind of parent keeps its other types: 1 left of 2, and 1 exists
	tree.SetFile(types+"/mtty-2/available_instances", []byte("1\n"))
	report = drivertest.Discover(t, d)
	if len(report.Devices) != 1 || report.Devices[0].Deployables[0].NumAccelerators != 1 || len(report.Warnings) != 1 || report.Warnings[0].Address != "mtty" {
		t.Errorf("%+v", report)
	}
}

func TestTroubleWithAParentIsAProblemOfIts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config mdev.Config
		spoil  func(*sysfs.Memory)
		file   string
		want   error
	}{
		{"no such parent", serial("mbochs"), nil, "class/mdev_bus/mbochs/mdev_supported_types", driver.ErrConfig},
		{"no such type", mdev.Config{Host: "h", EnabledMdevTypes: []mdev.Type{{Name: "mtty-9", Parents: []string{"mtty"}}}}, nil, "", driver.ErrMdevType},
		{"types denied", serial("mtty"), func(m *sysfs.Memory) { deny(m, types) }, types, fs.ErrPermission},
		{"instances garbled", serial("mtty"), func(m *sysfs.Memory) { m.SetFile(types+"/mtty-2/available_instances", []byte("many")) }, types + "/mtty-2/available_instances", driver.ErrGarbled},
		{"instances huge", serial("mtty"), func(m *sysfs.Memory) { m.SetFile(types+"/mtty-2/available_instances", []byte("99999")) }, types + "/mtty-2/available_instances", driver.ErrGarbled},
		{"name denied", serial("mtty"), func(m *sysfs.Memory) { deny(m, types+"/mtty-2/name") }, types + "/mtty-2/name", fs.ErrPermission},
		{"interface missing", serial("mtty"), func(m *sysfs.Memory) { m.Remove(types + "/mtty-2/device_api") }, types + "/mtty-2/device_api", fs.ErrNotExist},
		{"interface of a channel", serial("mtty"), func(m *sysfs.Memory) { m.SetFile(types+"/mtty-2/device_api", []byte("vfio-ccw\n")) }, types + "/mtty-2/device_api", driver.ErrMdevType},
		{"devices denied", serial("mtty"), func(m *sysfs.Memory) { deny(m, types+"/mtty-1/devices") }, types + "/mtty-1/devices", fs.ErrPermission},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := machine(t)
			if tt.spoil != nil {
				tt.spoil(tree)
			}
			report := drivertest.Discover(t, newDriver(t, tt.config, tree))
			if len(report.Devices) != 0 || len(report.Problems) != 1 {
				t.Fatalf("%+v", report)
			}
			if p := report.Problems[0]; p.Address != tt.config.EnabledMdevTypes[0].Parents[0] || p.File != tt.file || !errors.Is(p, tt.want) {
				t.Errorf("problem %+v, want file %s, cause %v", p, tt.file, tt.want)
			}
		})
	}
}

func deny(m *sysfs.Memory, name string) {
	if err := m.Deny(name); err != nil {
		panic(err)
	}
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	one := func(types ...mdev.Type) mdev.Config { return mdev.Config{Host: "h", EnabledMdevTypes: types} }
	for want, c := range map[string]mdev.Config{
		"no host name":                        {},
		"trait_shape":                         {Host: "h", Policy: driver.Policy{TraitShape: "train"}},
		`mdev type "../x": the name`:          one(mdev.Type{Name: "../x", Parents: []string{"mtty"}}),
		"missing device_addresses":            one(mdev.Type{Name: "x"}),
		`parent "a/b" is not a file name`:     one(mdev.Type{Name: "x", Parents: []string{"a/b"}}),
		"the address is written 0000:af:00.0": one(mdev.Type{Name: "x", Parents: []string{"0000:AF:00.0"}}),
		"duplicate types for parent mtty":     one(mdev.Type{Name: "x", Parents: []string{"mtty"}}, mdev.Type{Name: "y", Parents: []string{"mtty"}}),
		`resource class "SERIAL" is neither`:  one(mdev.Type{Name: "x", Parents: []string{"mtty"}, Class: "SERIAL"}),
		`type "TPU" is not one of GPU`:        one(mdev.Type{Name: "x", Parents: []string{"mtty"}, DeviceType: "TPU"}),
		"is not allowed":                      one(mdev.Type{Name: "a.b", Parents: []string{"mtty"}}),
	} {
		if _, err := mdev.New(c, sysfs.NewMemory()); !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestMdevErrors(t *testing.T) {
	t.Parallel()
	d := newDriver(t, serial("mtty"), machine(t))
	for _, tt := range []struct {
		m    driver.Mdev
		want error
	}{
		{driver.Mdev{UUID: "x", Parent: "mtty", Type: "mtty-2"}, driver.ErrHandle},
		{driver.Mdev{UUID: id1, Parent: "mtty", Type: "mtty-1"}, driver.ErrConfig},
		{driver.Mdev{UUID: id1, Parent: "mbochs", Type: "mtty-2"}, driver.ErrConfig},
	} {
		if err := d.CreateMdev(t.Context(), tt.m); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.m, err, tt.want)
		}
	}
	if err := d.RemoveMdev(t.Context(), driver.Mdev{UUID: "x", Parent: "mtty", Type: "mtty-2"}); !errors.Is(err, driver.ErrHandle) {
		t.Errorf("RemoveMdev: %v", err)
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{MdevParents: []sysfs.MdevParent{
		{Name: "mtty", Types: []sysfs.MdevType{{Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 12}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := mdev.New(mdev.Config{Host: "cn0", EnabledMdevTypes: []mdev.Type{{Name: "mtty-2", Parents: []string{"mtty"}}}}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, device := range report.Devices {
		p := device.Deployables[0]
		fmt.Println(p.Name, p.NumAccelerators, p.Class, p.Traits)
	}
	// Output:
	// cn0_mtty 12 VGPU [OWNER_CYBORG CUSTOM_MDEV_MTTY_2]
}

// busyTree calls a function after each read of a directory of devices.
type busyTree struct {
	driver.Tree
	changes func()
}

func (b busyTree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := b.Tree.ReadDir(name)
	if strings.HasSuffix(name, "/devices") {
		b.changes()
	}
	return entries, err
}

// Others make and remove devices while a driver counts them.
func TestDevicesThatChangeWhileTheyAreCounted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		changes, handles int
	}{{0, 2}, {1, 2}, {5, 2}, {1000, 0}} {
		m, n := machine(t), 0
		d := newDriver(t, serial("mtty"), busyTree{m, func() {
			if n++; n > tt.changes {
				return
			}
			var err error
			if at := (driver.Mdev{UUID: id1, Parent: "mtty", Type: "mtty-2"}); n%2 > 0 {
				err = m.WriteFile(types+"/mtty-2/create", []byte(id1))
			} else {
				err = m.WriteFile(at.Dir()+"/remove", []byte("1"))
			}
			if err != nil {
				t.Error(err)
			}
		}})
		report, err := d.Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		handles := 0
		for _, device := range report.Devices {
			handles += len(device.Deployables[0].AttachHandles)
		}
		if handles != tt.handles || (handles == 0) != (len(report.Problems) > 0) {
			t.Errorf("%d changes: %d handles, want %d; problems: %v", tt.changes, handles, tt.handles, report.Problems)
		}
	}
}
