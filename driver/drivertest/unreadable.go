package drivertest

import (
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
)

// testUnreadable makes each name that the driver reads unreadable for one discovery, as for a
// process that has no file descriptor left. What was reported before must be reported again, or
// the report must say that it could not be read: an agent removes a device that is in neither.
func testUnreadable(t *testing.T, c Case) {
	record := &recorder{Tree: generate(t, c.Hardware), names: make(map[string]bool)}
	Discover(t, c.newDriver(t, record))
	tree := &exhausted{Tree: record.Tree}
	d := c.newDriver(t, tree)
	before := Discover(t, d)
	for _, name := range slices.Sorted(maps.Keys(record.names)) {
		tree.name.Store(&name)
		report, err := discover(t.Context(), t, d)
		tree.name.Store(nil)
		switch {
		case err == nil:
			Check(t, []driver.Driver{d}, []driver.Report{report})
			checkKept(t, name, before, report)
		case !strings.Contains(err.Error(), name+":") || len(report.Devices) > 0 || isOfFunction(name):
			t.Errorf("%s is unreadable: error %q and devices %v", name, err, report.Devices)
		}
		if again := Discover(t, d); !reflect.DeepEqual(before, again) {
			t.Errorf("%s was unreadable, and the next report differs:\n%+v\n%+v", name, before, again)
		}
	}
}

// checkKept tests what a driver reports while a name is unreadable.
func checkKept(t testing.TB, name string, before, after driver.Report) {
	t.Helper()
	unread := make(map[driver.Address]bool)
	for _, p := range after.Problems {
		if p.Address != "" && !errors.Is(p, driver.ErrConfig) {
			unread[driver.ParseAddress(p.Address)] = true
		}
	}
	for _, d := range before.Devices {
		i := slices.IndexFunc(after.Devices, func(o driver.Device) bool { return o.ControlPath.Key() == d.ControlPath.Key() })
		switch {
		case i < 0:
			if !unread[d.ControlPath.Address()] && !slices.ContainsFunc(d.Addresses(), func(at driver.Address) bool { return unread[at] }) {
				t.Errorf("%s is unreadable: %s is lost, and no problem says why; left out: %v", name, d.ControlPath.Address(), after.LeftOut)
			}
		case !reflect.DeepEqual(d, after.Devices[i]):
			rest := after.Devices[i].Addresses()
			lost := slices.DeleteFunc(d.Addresses(), func(at driver.Address) bool { return slices.Contains(rest, at) })
			if !slices.ContainsFunc(lost, func(at driver.Address) bool { return unread[at] }) {
				t.Errorf("%s is unreadable: %s changes, and no problem says why:\n%+v\n%+v", name, d.ControlPath.Address(), d, after.Devices[i])
			}
		}
	}
	for _, d := range after.Devices {
		for _, at := range d.Addresses() {
			if !slices.ContainsFunc(before.Devices, func(o driver.Device) bool { return slices.Contains(o.Addresses(), at) }) {
				t.Errorf("%s is unreadable: %s is offered, which is not otherwise", name, at)
			}
		}
	}
}

// exhausted is a tree that refuses to read one name.
type exhausted struct {
	driver.Tree
	name atomic.Pointer[string] // nil: none
}

func (e *exhausted) refuse(op, name string) error {
	if unreadable := e.name.Load(); unreadable != nil && *unreadable == name {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
	}
	return nil
}

// ReadFile implements driver.Tree.
func (e *exhausted) ReadFile(name string) ([]byte, error) {
	if err := e.refuse("read", name); err != nil {
		return nil, err
	}
	return e.Tree.ReadFile(name)
}

// ReadDir implements driver.Tree.
func (e *exhausted) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := e.refuse("readdir", name); err != nil {
		return nil, err
	}
	return e.Tree.ReadDir(name)
}

// Readlink implements driver.Tree.
func (e *exhausted) Readlink(name string) (string, error) {
	if err := e.refuse("readlink", name); err != nil {
		return "", err
	}
	return e.Tree.Readlink(name)
}
