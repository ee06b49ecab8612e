package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

// tally counts how often each name of a tree is read, by any method.
type tally struct {
	driver.Tree
	mu    sync.Mutex
	reads map[string]int
}

func (c *tally) note(kind, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads[kind+" "+name]++
}

func (c *tally) ReadFile(name string) ([]byte, error) {
	c.note("file", name)
	return c.Tree.ReadFile(name)
}

func (c *tally) ReadDir(name string) ([]fs.DirEntry, error) {
	c.note("dir", name)
	return c.Tree.ReadDir(name)
}

func (c *tally) Readlink(name string) (string, error) {
	c.note("link", name)
	return c.Tree.Readlink(name)
}

func p100(address string, change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: address, Vendor: "10de", Product: "15f8", Class: "0302", Driver: "nvidia"}
	for _, c := range change {
		c(&d)
	}
	return d
}

func gpusOf(t testing.TB, tree driver.Tree, policy driver.Policy) driver.Driver {
	t.Helper()
	d, err := nvidia.New(nvidia.Config{Host: "h", Policy: policy}, tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func passthrough(t testing.TB, tree driver.Tree, policy driver.Policy, specs ...pci.Spec) driver.Driver {
	t.Helper()
	d, err := pci.New(pci.Config{Host: "h", Policy: policy, PassthroughWhitelist: specs}, tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAViewReadsEverythingOnceAndForgetsNothing(t *testing.T) {
	t.Parallel()
	var devices []sysfs.PCIDevice
	for i := range 100 { // enough to be read side by side
		devices = append(devices, p100(fmt.Sprintf("0000:%02x:00.0", i+1)))
	}
	m := drivertest.Tree(t, devices...)
	c := &tally{Tree: m, reads: make(map[string]int)}
	reports := driver.DiscoverAll(t.Context(), []driver.Driver{
		gpusOf(t, c, driver.Policy{}), passthrough(t, c, driver.Policy{}, pci.Spec{ProductID: "1234"}, pci.Spec{VendorID: "8086"}),
	})
	if len(reports[0].Devices) != 100 {
		t.Fatalf("%d devices, %v", len(reports[0].Devices), reports[0].Err)
	}
	for name, n := range c.reads {
		if n > 1 {
			t.Errorf("%s is read %d times", name, n)
		}
	}
	view := driver.NewView(m)
	before, err := view.ReadFile("bus/pci/devices/0000:01:00.0/vendor")
	if err != nil {
		t.Fatal(err)
	}
	m.SetFile("bus/pci/devices/0000:01:00.0/vendor", []byte("0x8086\n"))
	if after, err := view.ReadFile("bus/pci/devices/0000:01:00.0/vendor"); err != nil || string(after) != string(before) {
		t.Errorf("a view changes under its reader: %q, then %q, %v", before, after, err)
	}
	if reports = driver.DiscoverAll(t.Context(), []driver.Driver{gpusOf(t, c, driver.Policy{})}); err != nil || len(reports[0].Devices) != 99 {
		t.Errorf("the next discovery sees %d devices, want the present 99", len(reports[0].Devices))
	}
}

func TestAViewNeverWritesAndKnowsWhatIsAbsent(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, p100("0000:01:00.0"))
	c := &tally{Tree: m, reads: make(map[string]int)}
	view := driver.NewView(c)
	if driver.NewView(view) != view {
		t.Error("a view of a view is another one")
	}
	if err := view.WriteFile("bus/pci/devices/0000:01:00.0/vendor", nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("WriteFile: %v", err)
	}
	dir := "bus/pci/devices/0000:01:00.0"
	if _, err := view.ReadDir(dir); err != nil {
		t.Fatal(err)
	}
	_, err1 := view.ReadFile(dir + "/boot_vga")
	_, err2 := view.ReadDir(dir + "/net")
	_, err3 := view.Readlink(dir + "/physfn")
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want that it does not exist", err)
		}
	}
	if len(c.reads) != 1 {
		t.Errorf("the tree was asked for %v", c.reads)
	}
}

func TestTwoDriversThatReportOneAddress(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, p100("0000:01:00.0"), p100("0000:02:00.0"))
	drivers := []driver.Driver{
		fake.New("h"), gpusOf(t, m, driver.Policy{}),
		passthrough(t, m, driver.Policy{}, pci.Spec{Address: &pci.AddressPattern{Glob: "0000:02:00.0"}}),
	}
	reports := driver.DiscoverAll(t.Context(), drivers)
	if len(reports[0].Devices) != 1 || len(reports[1].Devices) != 1 || len(reports[2].Devices) != 0 {
		t.Errorf("reports: %+v", reports)
	}
	for _, i := range []int{1, 2} {
		if len(reports[i].Problems) != 1 {
			t.Fatalf("problems: %v", reports[i].Problems)
		}
		p := reports[i].Problems[0]
		if p.Address != "0000:02:00.0" || !errors.Is(p, driver.ErrDoubleClaim) || !strings.Contains(p.Error(), "nvidia and pci") {
			t.Errorf("problem: %v", p)
		}
	}
}

// TestAHandleCountsAsAnAddress has a board whose second function another driver offers.
func TestAHandleCountsAsAnAddress(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, p100("0000:02:00.0"))
	first := driver.PCIAddress{Bus: 1}
	board := driver.Device{ControlPath: first.ControlPath(), Deployables: []driver.Deployable{{AttachHandles: []driver.AttachHandle{
		{Type: driver.HandlePCI, Info: first.Info()}, {Type: driver.HandlePCI, Info: driver.PCIAddress{Bus: 2}.Info()},
	}}}}
	reports := driver.DiscoverAll(t.Context(), []driver.Driver{verbatim.New([]driver.Device{board}), gpusOf(t, m, driver.Policy{})})
	if len(reports[0].Devices)+len(reports[1].Devices) != 0 {
		t.Fatalf("%+v", reports)
	}
	if text := reports[0].Problems[0].Error(); !strings.Contains(text, "0000:02:00.0 of the device") {
		t.Errorf("problem: %s", text)
	}
}

// broken cannot look.
type broken struct{ err error }

func (b broken) Name() string { return "broken" }
func (b broken) Discover(context.Context) (driver.Report, error) {
	return driver.Report{Devices: make([]driver.Device, 1)}, b.err
}

// strange is a tree whose values cannot be compared.
type strange struct {
	driver.Tree
	_ []int
}

func TestADriverThatFailsLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	cause := errors.New("no tool")
	m := strange{Tree: drivertest.Tree(t, p100("0000:01:00.0"))}
	reports := driver.DiscoverAll(t.Context(), []driver.Driver{broken{cause}, gpusOf(t, m, driver.Policy{}), passthrough(t, m, driver.Policy{})})
	if len(reports) != 3 || !errors.Is(reports[0].Err, cause) || len(reports[0].Devices) != 0 || reports[1].Err != nil || len(reports[1].Devices) != 1 {
		t.Errorf("reports: %+v", reports)
	}
}

func TestABrokenFunctionIsReportedOnce(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, p100("0000:01:00.0"))
	m.SetFile("bus/pci/devices/0000:01:00.0/vendor", []byte("?"))
	reports := driver.DiscoverAll(t.Context(), []driver.Driver{gpusOf(t, m, driver.Policy{}), passthrough(t, m, driver.Policy{}, pci.Spec{})})
	if len(reports[0].Problems) != 1 || len(reports[1].Problems) != 0 {
		t.Errorf("%+v", reports)
	}
}

func TestLeaveOutMovesWhatNovaClaims(t *testing.T) {
	t.Parallel()
	report, err := gpusOf(t, drivertest.Tree(t, p100("0000:01:00.0"), p100("0000:02:00.0")), driver.Policy{}).Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report.LeaveOut("nvidia", func(d driver.Device) string {
		if d.ControlPath.Address().String() == "0000:01:00.0" {
			return "Nova's"
		}
		return ""
	})
	want := []driver.Notice{{Address: "0000:01:00.0", Driver: "nvidia", Reason: "Nova's"}}
	if diff := cmp.Diff(want, report.LeftOut); diff != "" || len(report.Devices) != 1 {
		t.Errorf("%d devices (-want +got):\n%s", len(report.Devices), diff)
	}
}

func TestAddressesAreTyped(t *testing.T) {
	t.Parallel()
	at := driver.PCIAddress{Bus: 0x3b}
	for _, a := range []driver.Address{{Kind: driver.ControlPathPCI, PCI: at}, driver.ParseAddress("mtty")} {
		if got := a.ControlPath().Address(); got != a {
			t.Errorf("%v becomes %v", a, got)
		}
	}
	if got := driver.ParseAddress("mtty").ControlPath(); got.Type != "MDEV_PARENT" || got.Key() != `{"parent":"mtty"}` {
		t.Errorf("control path %+v", got)
	}
	odd := driver.ControlPath{Type: "USB", Info: driver.Info{"port": "1"}}.Address()
	if odd.Kind != "USB" || odd.String() != `{"port":"1"}` {
		t.Errorf("an address of another kind: %+v", odd)
	}
}

// unreadable is a tree with an unreadable name.
type unreadable struct {
	driver.Tree
	name string
}

func (u *unreadable) ReadFile(name string) ([]byte, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EMFILE}
	}
	return u.Tree.ReadFile(name)
}

func (u *unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.EMFILE}
	}
	return u.Tree.ReadDir(name)
}

func (u *unreadable) Readlink(name string) (string, error) {
	if name == u.name {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EMFILE}
	}
	return u.Tree.Readlink(name)
}

// TestAFunctionOfAHighDomainIsListed has a card below a VMD.
func TestAFunctionOfAHighDomainIsListed(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, p100("10000:01:00.0"), p100("ffff:01:00.0"))
	want := map[string]string{"10000:01:00.0": "its PCI domain 10000 is above ffff, which QEMU refuses", "ffff:01:00.0": "offered"}
	if diff := cmp.Diff(want, outcome(t, gpusOf(t, m, driver.Policy{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	at := driver.PCIAddress{Domain: 0x10000, Bus: 1}
	device := driver.Device{Vendor: "v", Type: driver.TypeGPU, ControlPath: at.ControlPath(), Deployables: []driver.Deployable{{
		Name: "h_10000:01:00.0", NumAccelerators: 1, Class: "PGPU", AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at.Info()}},
	}}}
	if err := device.Validate(); !errors.Is(err, driver.ErrHandle) || !strings.Contains(err.Error(), "its PCI domain 10000 is above ffff") {
		t.Errorf("another driver's device: %v, want ErrHandle", err)
	}
}
