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
	// Change has a driver that is a driver.Snapshotter remember something, so that another dump can be loaded. Nil makes
	// its mediated devices.
	Change func(ctx context.Context, d driver.Driver) error
}

// Run tests a driver.
func Run(t *testing.T, c Case) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Case){
		"discover": testDiscover, "cancelled": testCancelled, "broken trees": testBroken, "unreadable once": testUnreadable,
		"mediated devices": testMdevs, "vGPUs": testVGPUs,
		"program": testProgram, "snapshot": testSnapshot,
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

// discover has a driver discover. A TreeDriver has two methods for that, with one result: agents give it a view.
func discover(ctx context.Context, t testing.TB, d driver.Driver) (driver.Report, error) {
	t.Helper()
	report, err := d.Discover(ctx)
	if reader, ok := d.(driver.TreeDriver); ok && reader.Tree() != nil {
		in, errIn := reader.DiscoverIn(ctx, driver.NewView(reader.Tree()))
		if !reflect.DeepEqual(report, in) || fmt.Sprint(err) != fmt.Sprint(errIn) {
			t.Errorf("%s: Discover reports\n%+v, %v\nand DiscoverIn\n%+v, %v", d.Name(), report, err, in, errIn)
		}
	}
	return report, err
}

// Check tests reports of the drivers of one host, in the order of the drivers: each device can be
// stored; no handle, name of a deployable or trait of a deployable is reported twice; and each
// skipped device, warning and problem has a subject and a reason.
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
				if traits := slices.Sorted(slices.Values(p.Traits)); len(slices.Compact(traits)) < len(p.Traits) {
					t.Errorf("%s: deployable %s has a trait twice: %v", name, p.Name, p.Traits)
				}
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
	if _, err := discover(t.Context(), t, d); err != nil {
		t.Error(err)
	}
	if other := Discover(t, c.newDriver(t, generate(t, c.Hardware))); !reflect.DeepEqual(report, other) {
		t.Errorf("another driver of the same hardware reports\n%+v\nand not\n%+v", other, report)
	}
	checkComplete(t, d, tree, report)
}

func testCancelled(t *testing.T, c Case) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := discover(ctx, t, c.newDriver(t, generate(t, c.Hardware)))
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
				report, err := discover(t.Context(), t, d)
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
