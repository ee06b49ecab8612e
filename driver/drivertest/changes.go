package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// host is a driver that changes its hardware, and that hardware.
type host struct {
	driver driver.Driver
	tree   driver.Tree
	// before is the report at first. Nothing that the driver does changes what it offers.
	before driver.Report
	// readsTree is unset for a driver whose hardware is something else.
	readsTree bool
}

// onEachTree runs a test of changes in memory and on a directory, which accepts only writes that
// make and remove mediated devices and vGPUs.
func onEachTree(t *testing.T, c Case, test func(*testing.T, host)) {
	run := func(t *testing.T, tree driver.Tree) {
		record := &recorder{Tree: tree, names: make(map[string]bool)}
		d := c.newDriver(t, record)
		before := Discover(t, d)
		test(t, host{d, tree, before, len(record.names) > 0})
	}
	memory := generate(t, c.Hardware)
	t.Run("in memory", func(t *testing.T) { run(t, memory) })
	dir := t.TempDir()
	if err := generate(t, c.Hardware).LayOut(dir); err != nil {
		t.Fatal(err)
	}
	tree, err := sysfs.OpenDir(dir, sysfs.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	t.Run("on a directory", func(t *testing.T) { run(t, tree) })
}

// testMdevs makes the mediated devices of all such handles, and removes them.
func testMdevs(t *testing.T, c Case) {
	if _, ok := c.newDriver(t, generate(t, c.Hardware)).(driver.MdevDriver); ok {
		onEachTree(t, c, testMdevsOf)
	}
}

func testMdevsOf(t *testing.T, h host) {
	maker := h.driver.(driver.MdevDriver)
	there, known := h.mdevs(t)
	step := func(name string, do func(context.Context, driver.Mdev) error, m driver.Mdev, want error) {
		if err := do(t.Context(), m); !errors.Is(err, want) {
			t.Errorf("%s %+v: error %v, want %v", name, m, err, want)
		}
		if after, _ := h.mdevs(t); known && !slices.Equal(after, there) {
			t.Errorf("after %s %+v there are the mediated devices\n%+v\nand not\n%+v", name, m, after, there)
		}
		if after := Discover(t, h.driver); !reflect.DeepEqual(h.before.Devices, after.Devices) {
			t.Errorf("%s %+v changes the devices:\n%+v\n%+v", name, m, h.before.Devices, after.Devices)
		}
	}
	made := mdevsOf(t, h.before)
	create := func() {
		for _, m := range made {
			there = sorted(append(there, m))
			step("create", maker.CreateMdev, m, nil)
			step("create again", maker.CreateMdev, m, nil)
		}
	}
	create()
	if machine, ok := h.driver.(driver.Machine); ok {
		machine.Reboot()
		there = nil
		create()
	}
	for _, m := range made {
		for _, bad := range impossible(m) {
			step("create", maker.CreateMdev, bad, driver.ErrHandle)
			step("remove", maker.RemoveMdev, bad, driver.ErrHandle)
		}
		there = slices.DeleteFunc(there, func(o driver.Mdev) bool { return o == m })
		step("remove", maker.RemoveMdev, m, nil)
		step("remove again", maker.RemoveMdev, m, nil)
	}
}

// mdevs returns the existing mediated devices, as an agent sees them. They are unknown if the
// driver is not a driver.Machine and reads no tree.
func (h host) mdevs(t testing.TB) (list []driver.Mdev, known bool) {
	t.Helper()
	if machine, ok := h.driver.(driver.Machine); ok {
		return sorted(machine.Mdevs()), true
	}
	list, err := sysfs.Mdevs(h.tree)
	if err != nil {
		t.Error(err)
	}
	return sorted(list), h.readsTree
}

func sorted(list []driver.Mdev) []driver.Mdev {
	return slices.SortedFunc(slices.Values(list), func(a, b driver.Mdev) int { return cmp.Compare(a.UUID, b.UUID) })
}

// mdevsOf returns a mediated device for each MDEV handle of a report.
func mdevsOf(t testing.TB, report driver.Report) (list []driver.Mdev) {
	t.Helper()
	for _, h := range allHandles(report) {
		if h.Type != driver.HandleMDEV {
			continue
		}
		m, err := h.Mdev(fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(list)))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// impossible are mediated devices whose names lead elsewhere in a tree.
func impossible(m driver.Mdev) []driver.Mdev {
	list := []driver.Mdev{m, m, m}
	list[0].UUID, list[1].Parent, list[2].Type = "../"+m.UUID, "../"+m.Parent, "../"+m.Type
	return list
}

// testVGPUs writes the types of all virtual functions that are such handles, and clears them.
func testVGPUs(t *testing.T, c Case) {
	if _, ok := c.newDriver(t, generate(t, c.Hardware)).(driver.VGPUDriver); ok {
		onEachTree(t, c, testVGPUsOf)
	}
}

func testVGPUsOf(t *testing.T, h host) {
	maker := h.driver.(driver.VGPUDriver)
	there := h.vgpus(t)
	step := func(name string, v driver.VGPU, refused bool, do func() error) {
		if err := do(); (err != nil) != refused {
			t.Errorf("%s %+v: %v", name, v, err)
		}
		if after := h.vgpus(t); h.readsTree && !maps.Equal(after, there) {
			t.Errorf("after %s %+v the functions have the types %v, want %v", name, v, after, there)
		}
		if after := Discover(t, h.driver); len(allHandles(h.before)) != len(allHandles(after)) {
			t.Errorf("%s %+v changes the handles:\n%+v\n%+v", name, v, h.before.Devices, after.Devices)
		}
	}
	set := func(v driver.VGPU, bound bool) func() error {
		return func() error { return maker.SetVGPU(t.Context(), v, bound) }
	}
	clearType := func(v driver.VGPU) func() error {
		return func() error { return maker.ClearVGPU(t.Context(), v) }
	}
	made := vgpusOf(t, h.before)
	for _, v := range made {
		there[v.Function] = v.Type
		step("set", v, false, set(v, false))
		step("set again after a bind", v, false, set(v, true))
		step("set of what is set", v, true, set(v, false))
		other := driver.VGPU{Function: v.Function, Type: v.Type + 1}
		step("set of what has another type", other, true, set(other, true))
		step("clear of another type", other, false, clearType(other))
	}
	for _, v := range made {
		delete(there, v.Function)
		step("clear", v, false, clearType(v))
		step("clear again", v, false, clearType(v))
	}
	if after := Discover(t, h.driver); !reflect.DeepEqual(h.before.Devices, after.Devices) {
		t.Errorf("vGPUs that came and went change the devices:\n%+v\n%+v", h.before.Devices, after.Devices)
	}
}

// vgpus are the types that virtual functions have.
func (h host) vgpus(t testing.TB) map[driver.PCIAddress]int {
	t.Helper()
	types, err := sysfs.VGPUs(h.tree)
	if err != nil {
		t.Error(err)
	}
	list := make(map[driver.PCIAddress]int)
	for function, id := range types {
		if id != 0 {
			list[function] = id
		}
	}
	return list
}

// vgpusOf returns the vGPU of each handle of a report that has one.
func vgpusOf(t testing.TB, report driver.Report) (list []driver.VGPU) {
	t.Helper()
	for _, h := range allHandles(report) {
		v, found, err := h.VGPU()
		if err != nil {
			t.Fatal(err)
		}
		if found {
			list = append(list, v)
		}
	}
	return list
}

func allHandles(report driver.Report) []driver.AttachHandle {
	var list []driver.AttachHandle
	for _, d := range report.Devices {
		for _, p := range d.Deployables {
			list = append(list, p.AttachHandles...)
		}
	}
	return list
}

// testProgram has each deployable programmed too late: a driver that refuses to says that nothing was written.
func testProgram(t *testing.T, c Case) {
	d := c.newDriver(t, generate(t, c.Hardware))
	programmer, ok := d.(driver.Programmer)
	if !ok {
		return
	}
	before := Discover(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, device := range before.Devices {
		for _, p := range device.Deployables {
			err := programmer.Program(ctx, device.ControlPath, p.Name, nil)
			if err != nil && !errors.Is(err, driver.ErrNotWritten) {
				t.Errorf("%s, programmed with a context that has ended: %v, which is not ErrNotWritten", p.Name, err)
			}
		}
	}
	if after := Discover(t, d); !reflect.DeepEqual(before, after) {
		t.Errorf("a programming that was refused changes the report:\n%+v\n%+v", before, after)
	}
}
