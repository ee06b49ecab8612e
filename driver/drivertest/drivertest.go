package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// Case is a driver and hardware to test it on.
type Case struct {
	// Hardware has at least one device that the driver reports.
	Hardware sysfs.Description
	// New returns the driver for a tree of the hardware.
	New func(tree driver.Tree) (driver.Driver, error)
}

// Run tests a driver.
func Run(t *testing.T, c Case) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Case){
		"discover": testDiscover, "cancelled": testCancelled, "broken trees": testBroken, "unreadable once": testUnreadable, "mediated devices": testMdevs, "vGPUs": testVGPUs, "snapshot": testSnapshot,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// Tree returns the tree of a machine with the devices.
func Tree(t testing.TB, devices ...sysfs.PCIDevice) *sysfs.Memory {
	t.Helper()
	return generate(t, sysfs.Description{Devices: devices})
}

func generate(t testing.TB, d sysfs.Description) *sysfs.Memory {
	t.Helper()
	tree, err := sysfs.Generate(d)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Discover returns the report of a driver that must not fail, and checks it as Check does.
func Discover(t testing.TB, d driver.Driver) driver.Report {
	t.Helper()
	report, err := d.Discover(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", d.Name(), err)
	}
	Check(t, []driver.Driver{d}, []driver.Report{report})
	return report
}

// Check tests reports of the drivers of one host, in the order of the drivers: each device
// can be stored, no handle and no name of a deployable is reported twice, and whatever is
// left out, warned of or a problem says what it is about and why.
func Check(t testing.TB, drivers []driver.Driver, reports []driver.Report) {
	t.Helper()
	users := make(map[string]string) // drivers by handle and by name of a deployable
	use := func(what, user string) {
		if other, used := users[what]; used {
			t.Errorf("%s is reported by %s and by %s", what, other, user)
		}
		users[what] = user
	}
	for i, report := range reports {
		name := drivers[i].Name()
		for _, d := range report.Devices {
			if err := d.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, p := range d.Deployables {
				use("deployable "+p.Name, name)
				for _, h := range p.AttachHandles {
					use("handle "+h.Type+h.Key(), name)
				}
			}
		}
		for _, p := range report.Problems {
			if p.Err == nil || p.Address == "" && p.File == "" {
				t.Errorf("%s: problem %+v lacks a subject or a cause", name, p)
			}
		}
		for what, notices := range map[string][]driver.Notice{"left out": report.LeftOut, "warning": report.Warnings} {
			for _, n := range notices {
				if n.Address == "" || n.Reason == "" || n.Driver != name {
					t.Errorf("%s: %s %+v lacks an address, a reason or the driver", name, what, n)
				}
			}
		}
	}
}

// newDriver returns the driver for a tree.
func (c Case) newDriver(t testing.TB, tree driver.Tree) driver.Driver {
	t.Helper()
	d, err := c.New(tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func testDiscover(t *testing.T, c Case) {
	tree := &recorder{Tree: generate(t, c.Hardware), names: make(map[string]bool)}
	d := c.newDriver(t, tree)
	report := Discover(t, d)
	if len(report.Devices) == 0 {
		t.Fatalf("no device is reported; left out: %v, problems: %v", report.LeftOut, report.Problems)
	}
	for name := range tree.names {
		if !fs.ValidPath(name) {
			t.Errorf("%q is read, which is not a name below the tree", name)
		}
	}
	for _, name := range tree.written {
		t.Errorf("%s is written by a discovery", name)
	}
	if again := Discover(t, d); !reflect.DeepEqual(report, again) {
		t.Errorf("the second report differs:\n%+v\n%+v", report, again)
	}
	if other := Discover(t, c.newDriver(t, generate(t, c.Hardware))); !reflect.DeepEqual(report, other) {
		t.Errorf("another driver of the same hardware reports\n%+v\nand not\n%+v", other, report)
	}
	checkComplete(t, d, tree, report)
}

func testCancelled(t *testing.T, c Case) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := c.newDriver(t, generate(t, c.Hardware)).Discover(ctx)
	if !errors.Is(err, context.Canceled) || len(report.Devices) > 0 {
		t.Errorf("report %+v, error %v, want an empty one and context.Canceled", report, err)
	}
}

// checkComplete tests that each function which the driver claims is in the report.
func checkComplete(t testing.TB, d driver.Driver, tree driver.Tree, report driver.Report) {
	t.Helper()
	claimer, ok := d.(driver.Claimer)
	if !ok {
		return
	}
	functions, _, err := driver.NewView(tree).PCIFunctions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	named := report.Addresses()
	for _, f := range functions {
		claimed := slices.ContainsFunc(claimer.Claims(), func(c driver.Claim) bool { return c.Covers(f) })
		if claimed && !named[f.Address.String()] {
			t.Errorf("%s is claimed, and neither reported nor left out nor a problem", f.Address)
		}
	}
}

// testBroken breaks one after the other of the names that the driver reads. The driver may fail if
// that name is not one of a function's, since it cannot know then what there is.
func testBroken(t *testing.T, c Case) {
	record := &recorder{Tree: generate(t, c.Hardware), names: make(map[string]bool)}
	Discover(t, c.newDriver(t, record))
	for _, name := range slices.Sorted(maps.Keys(record.names)) {
		for damage, do := range map[string]func(*sysfs.Memory) error{
			"removed":           func(m *sysfs.Memory) error { m.Remove(name); return nil },
			"not permitted":     func(m *sysfs.Memory) error { return m.Deny(name) },
			"empty":             func(m *sysfs.Memory) error { m.SetFile(name, nil); return nil },
			"garbled":           func(m *sysfs.Memory) error { m.SetFile(name, []byte("\x00\xff-1\n\n../..")); return nil },
			"too large":         func(m *sysfs.Memory) error { m.SetFile(name, make([]byte, 1<<20)); return nil },
			"out of the tree":   func(m *sysfs.Memory) error { m.SetLink(name, "../../../../../../../../etc/passwd"); return nil },
			"a link to itself":  func(m *sysfs.Memory) error { m.SetLink(name, path.Base(name)); return nil },
			"a link to nothing": func(m *sysfs.Memory) error { m.SetLink(name, "nothing"); return nil },
		} {
			tree := generate(t, c.Hardware)
			if err := do(tree); err != nil {
				continue // the name does not exist
			}
			t.Run(fmt.Sprintf("%s %s", name, damage), func(t *testing.T) {
				d := c.newDriver(t, tree)
				report, err := d.Discover(t.Context())
				if err != nil {
					if !strings.Contains(err.Error(), name) || len(report.Devices) > 0 || isOfFunction(name) {
						t.Errorf("error %q and devices %v", err, report.Devices)
					}
					return
				}
				Check(t, []driver.Driver{d}, []driver.Report{report})
				checkComplete(t, d, tree, report)
			})
		}
	}
}

// isOfFunction reports whether a name is below the directory of a PCI function.
func isOfFunction(name string) bool {
	rest, found := strings.CutPrefix(name, "bus/pci/devices/")
	return found && rest != ""
}

// testMdevs makes and removes the mediated devices of the first device that has such
// handles.
func testMdevs(t *testing.T, c Case) {
	if _, ok := c.newDriver(t, generate(t, c.Hardware)).(driver.MdevDriver); ok {
		onEachTree(t, c, mdevFaults)
	}
}

// onEachTree runs a test of writes in memory and on a directory, which takes no writes but those that make and
// remove mediated devices and vGPUs.
func onEachTree(t *testing.T, c Case, faults func(*testing.T, driver.Driver, driver.Tree) []string) {
	test := func(t *testing.T, tree driver.Tree) {
		for _, fault := range faults(t, c.newDriver(t, tree), tree) {
			t.Error(fault)
		}
	}
	memory := generate(t, c.Hardware)
	t.Run("in memory", func(t *testing.T) { test(t, memory) })
	dir := t.TempDir()
	if err := generate(t, c.Hardware).LayOut(dir); err != nil {
		t.Fatal(err)
	}
	tree, err := sysfs.OpenDir(dir, sysfs.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	t.Run("on a directory", func(t *testing.T) { test(t, tree) })
}

func mdevFaults(t *testing.T, d driver.Driver, tree driver.Tree) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	maker := d.(driver.MdevDriver)
	before := Discover(t, d)
	for i, h := range mdevHandles(before) {
		m, err := h.Mdev(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name   string
			do     func(context.Context, driver.Mdev) error
			exists bool
		}{
			{"create", maker.CreateMdev, true}, {"create again", maker.CreateMdev, true},
			{"remove", maker.RemoveMdev, false}, {"remove again", maker.RemoveMdev, false},
		} {
			if err := step.do(t.Context(), m); err != nil {
				fault("%s %+v: %v", step.name, m, err)
			}
			if there, err := mdevsOf(d, tree); err != nil || slices.Contains(there, m) != step.exists {
				fault("after %s %+v there are the mediated devices %+v, error %v", step.name, m, there, err)
			}
			if after := Discover(t, d); !reflect.DeepEqual(before.Devices, after.Devices) {
				fault("%s %+v changes the devices:\n%+v\n%+v", step.name, m, before.Devices, after.Devices)
			}
		}
		m.UUID = "../" + m.UUID
		if err := maker.CreateMdev(t.Context(), m); !errors.Is(err, driver.ErrHandle) {
			fault("create %+v: %v, want ErrHandle", m, err)
		}
	}
	return faults
}

// mdevsOf lists the mediated devices that there are.
func mdevsOf(d driver.Driver, tree driver.Tree) ([]driver.Mdev, error) {
	if machine, ok := d.(driver.Machine); ok {
		return machine.Mdevs(), nil
	}
	return sysfs.Mdevs(tree)
}

// testVGPUs writes and clears the types of the virtual functions that are such handles.
func testVGPUs(t *testing.T, c Case) {
	if _, ok := c.newDriver(t, generate(t, c.Hardware)).(driver.VGPUDriver); ok {
		onEachTree(t, c, vgpuFaults)
	}
}

func vgpuFaults(t *testing.T, d driver.Driver, tree driver.Tree) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	maker := d.(driver.VGPUDriver)
	before := Discover(t, d)
	for _, h := range allHandles(before) {
		v, found, err := h.VGPU()
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			continue
		}
		set := func(bound bool) func() error {
			return func() error { return maker.SetVGPU(t.Context(), v, bound) }
		}
		clearType := func() error { return maker.ClearVGPU(t.Context(), v) }
		for _, step := range []struct {
			name    string
			do      func() error
			refused bool
			want    int // the type that the function has then
		}{
			{"set", set(false), false, v.Type}, {"set again after a bind", set(true), false, v.Type}, {"set of what is set", set(false), true, v.Type},
			{"clear", clearType, false, 0}, {"clear again", clearType, false, 0},
		} {
			if err := step.do(); (err != nil) != step.refused {
				fault("%s %+v: %v", step.name, v, err)
			}
			if types, err := sysfs.VGPUs(tree); err != nil || types[v.Function] != step.want {
				fault("after %s %+v the function has type %d, want %d, error %v", step.name, v, types[v.Function], step.want, err)
			}
			if after := Discover(t, d); len(allHandles(before)) != len(allHandles(after)) {
				fault("%s %+v changes the handles:\n%+v\n%+v", step.name, v, before.Devices, after.Devices)
			}
		}
		if after := Discover(t, d); !reflect.DeepEqual(before.Devices, after.Devices) {
			fault("a vGPU that came and went changes the devices:\n%+v\n%+v", before.Devices, after.Devices)
		}
	}
	return faults
}

func mdevHandles(report driver.Report) []driver.AttachHandle {
	return slices.DeleteFunc(allHandles(report), func(h driver.AttachHandle) bool { return h.Type != driver.HandleMDEV })
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

func testSnapshot(t *testing.T, c Case) {
	d, ok := c.newDriver(t, generate(t, c.Hardware)).(driver.Snapshotter)
	if !ok {
		return
	}
	dump := func() string {
		data, err := d.Dump()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := dump()
	for _, bad := range []string{"", "{", `"x"`, before + "{}", `{"schema_version": 0}`} {
		if _, err := d.Prepare([]byte(bad)); !errors.Is(err, driver.ErrSnapshot) {
			t.Errorf("load %q: %v, want ErrSnapshot", bad, err)
		}
	}
	if err := driver.Load(d, []byte(before)); err != nil || dump() != before {
		t.Errorf("loaded: %v, and the snapshot is\n%s\nand not\n%s", err, dump(), before)
	}
}

// recorder records what is read and written.
type recorder struct {
	driver.Tree

	mu      sync.Mutex
	names   map[string]bool // that were read
	written []string
}

func (r *recorder) record(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = true
}

// ReadFile implements driver.Tree.
func (r *recorder) ReadFile(name string) ([]byte, error) {
	r.record(name)
	return r.Tree.ReadFile(name)
}

// ReadDir implements driver.Tree.
func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	r.record(name)
	return r.Tree.ReadDir(name)
}

// Readlink implements driver.Tree.
func (r *recorder) Readlink(name string) (string, error) {
	r.record(name)
	return r.Tree.Readlink(name)
}

// WriteFile implements driver.Tree.
func (r *recorder) WriteFile(name string, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = append(r.written, name)
	return r.Tree.WriteFile(name, data)
}
