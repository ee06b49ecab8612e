package sysfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func open(t testing.TB, dir string, opts sysfs.DirOptions) *sysfs.DirTree {
	t.Helper()
	tree, err := sysfs.OpenDir(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

// onDisk is the generated machine in a directory.
func onDisk(t testing.TB) string {
	t.Helper()
	return layOut(t, generate(t, machine()))
}

// withMdev is onDisk with a mediated device.
func withMdev(t testing.TB) string {
	t.Helper()
	m := generate(t, machine())
	write(t, m, t35+"/create", id1)
	return layOut(t, m)
}

func TestACapturedTreeIsReadThroughItsLinks(t *testing.T) {
	t.Parallel()
	tree := open(t, drivertest.Unpack(t, "testdata/nvidia-p100.tar.gz"), sysfs.DirOptions{})
	if got := read(t, tree, "bus/pci/devices/0000:06:00.0/vendor"); got != "0x10de\n" {
		t.Errorf("vendor = %q", got)
	}
	target, err := tree.Readlink("bus/pci/devices/0000:06:00.0/driver")
	if err != nil || target != "../../../../bus/pci/drivers/nvidia" {
		t.Errorf("driver -> %q, %v", target, err)
	}
	if got := len(list(t, tree, "bus/pci/devices")); got != 29 {
		t.Errorf("%d functions, want 29", got)
	}
	if mdevs, err := sysfs.Mdevs(tree); err != nil || len(mdevs) != 0 {
		t.Errorf("Mdevs() = %v, %v, want none", mdevs, err)
	}
}

func TestTheGeneratedTreeIsTheSameOnDisk(t *testing.T) {
	t.Parallel()
	m := generate(t, machine())
	tree := open(t, onDisk(t), sysfs.DirOptions{})
	writeOnly := func(lines []string) []string {
		for i, l := range lines {
			lines[i] = strings.TrimSuffix(l, " (permission denied)")
		}
		return lines
	}
	if diff := cmp.Diff(writeOnly(dump(t, m, ".")), writeOnly(dump(t, tree, "."))); diff != "" {
		t.Errorf("(-memory +directory):\n%s", diff)
	}
}

func TestOpenDirRefusesWhatIsNoMount(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	if err := os.MkdirAll(filepath.Join(above, "sys", "bus"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(above, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ dir, want string }{
		"nothing there":        {filepath.Join(above, "none"), "no such file"},
		"a file":               {file, "not a directory"},
		"an unrelated one":     {t.TempDir(), "neither a bus nor a devices directory"},
		"one that holds a sys": {above, "it may be " + filepath.Join(above, "sys")},
		"no name":              {"", "open"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sysfs.OpenDir(tt.dir, sysfs.DirOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("OpenDir(%q): %v, want %q in it", tt.dir, err, tt.want)
			}
		})
	}
}

// broken is the generated machine with everything in it that is no attribute.
func broken(t *testing.T) string {
	t.Helper()
	dir := onDisk(t)
	outside := filepath.Join(t.TempDir(), "secret")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside, []byte("secret"), 0o644))
	must(os.Symlink(outside, filepath.Join(dir, "devices", "absolute")))
	must(os.Symlink("../../../../../../../../../../.."+outside, filepath.Join(dir, "devices", "out")))
	must(os.Symlink("../../"+filepath.Base(dir), filepath.Join(dir, "devices", "back"))) // out and in again
	must(os.Symlink("loop", filepath.Join(dir, "devices", "loop")))
	must(os.Symlink("none", filepath.Join(dir, "devices", "dangling")))
	must(os.Symlink("/proc/self/root/etc/passwd", filepath.Join(dir, "devices", "magic")))
	must(os.WriteFile(filepath.Join(dir, "devices", "huge"), make([]byte, 1<<20), 0o644))
	must(os.WriteFile(filepath.Join(dir, "devices", "large"), make([]byte, 64<<10), 0o644))
	must(os.WriteFile(filepath.Join(dir, "devices", "page"), make([]byte, 513), 0o644))
	must(os.WriteFile(filepath.Join(dir, "devices", "empty"), nil, 0o644))
	must(mkfifo(filepath.Join(dir, "devices", "pipe"), 0o644))
	return dir
}

// wantRefusals are the errors of reading the names of a broken tree; nil is any.
func wantRefusals() map[string]error {
	return map[string]error{
		"devices/absolute":   nil,
		"devices/out":        nil,
		"devices/magic":      nil,
		"devices/back":       nil,
		"devices/back/bus":   nil,
		"devices/loop":       syscall.ELOOP,
		"devices/loop/a":     syscall.ELOOP,
		"devices/dangling":   fs.ErrNotExist,
		"devices/huge":       sysfs.ErrTooLarge,
		"devices/pipe":       sysfs.ErrNotRegular,
		"devices":            sysfs.ErrNotRegular,
		"devices/none":       fs.ErrNotExist,
		"devices/empty/none": syscall.ENOTDIR,
		"../secret":          fs.ErrInvalid,
		"/etc/passwd":        fs.ErrInvalid,
		"":                   fs.ErrInvalid,
	}
}

func TestDirTreeRefusesWhatIsNoAttribute(t *testing.T) {
	t.Parallel()
	tree := open(t, broken(t), sysfs.DirOptions{})
	for name, want := range wantRefusals() {
		data, err := tree.ReadFile(name)
		var p *fs.PathError
		if !errors.As(err, &p) || p.Path != name || want != nil && !errors.Is(err, want) {
			t.Errorf("ReadFile(%q): %q, %v, want a path error with %v", name, data, err, want)
		}
	}
	for name, size := range map[string]int{"devices/large": 64 << 10, "devices/page": 513, "devices/empty": 0} {
		if got := read(t, tree, name); len(got) != size {
			t.Errorf("%s has %d bytes, want %d", name, len(got), size)
		}
	}
}

func TestAClosedTreeSaysSo(t *testing.T) {
	t.Parallel()
	tree := open(t, onDisk(t), sysfs.DirOptions{})
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	_, err1 := tree.ReadFile(t35 + "/name")
	_, err2 := tree.ReadDir("devices")
	_, err3 := tree.Readlink("class/net/eth2")
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("got %v, want fs.ErrClosed", err)
		}
	}
}

func TestDirTreeReportsPermissionDenied(t *testing.T) {
	t.Parallel()
	dir := onDisk(t)
	name := "bus/pci/devices/" + t4 + "/vendor"
	if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
		t.Skip("the superuser may read everything")
	}
	if _, err := open(t, dir, sysfs.DirOptions{}).ReadFile(name); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("ReadFile: %v", err)
	}
}

func TestWithoutWriteTheDirectoryStaysAsItIs(t *testing.T) {
	t.Parallel()
	dir := onDisk(t)
	tree := open(t, dir, sysfs.DirOptions{})
	before := dump(t, open(t, dir, sysfs.DirOptions{}), ".")
	write(t, tree, t35+"/create", id1)
	if got := read(t, tree, "bus/pci/devices/"+t4+"/mdev_supported_types/nvidia-35/available_instances"); got != "1\n" {
		t.Errorf("available_instances = %q", got)
	}
	if err := tree.WriteFile(vfs0, []byte("2")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("sriov_numvfs: %v, want ErrPermission", err)
	}
	if diff := cmp.Diff([]string{t35 + "/create <- " + id1}, tree.Overlaid()); diff != "" {
		t.Errorf("Overlaid() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, dump(t, open(t, dir, sysfs.DirOptions{}), ".")); diff != "" {
		t.Errorf("the directory has changed:\n%s", diff)
	}
}

func TestWithWriteTheDirectoryChanges(t *testing.T) {
	t.Parallel()
	dir := onDisk(t)
	tree := open(t, dir, sysfs.DirOptions{Write: true})
	write(t, tree, t35+"/create", id1)
	if got, err := os.ReadFile(filepath.Join(dir, t35, "create")); err != nil || string(got) != id1 {
		t.Errorf("create = %q, %v", got, err)
	}
	if got := tree.Overlaid(); got != nil {
		t.Errorf("Overlaid() = %v", got)
	}
	if err := tree.WriteFile("class/mdev_bus/"+t4+"/mdev_supported_types/nvidia-99/create", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A tree may be anything, and the agent runs as root.
func TestOnlyTheFilesOfMdevsAndVGPUsAreWritten(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	dir := layOut(t, generate(t, blackwell()))
	at := func(name string) string { return filepath.Join(dir, name) }
	card := "bus/pci/devices/" + gpu
	types := "class/mdev_bus/x/mdev_supported_types/"
	for _, d := range []string{types + "t/devices/" + id1, types + "out", "bus/mdev/devices/" + id2} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		types + "t/create":                     at(card + "/sriov_numvfs"), // absolute, and a way out for os.Root
		types + "t/devices/" + id1 + "/remove": "../../../../../../../" + card + "/sriov_numvfs",
		types + "out/create":                   outside,
		"bus/mdev/devices/" + id2 + "/remove":  "../../../../" + card + "/sriov_numvfs",
		"class/mdev_bus/out":                   filepath.Dir(outside),
		"bus/pci/devices/0000:99:00.0":         filepath.Dir(outside),
		"bus/pci/devices/0000:99:00.1":         "../../..",
		"class/mdev_bus/y":                     "../../" + card,
	} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	before := dump(t, open(t, dir, sysfs.DirOptions{}), "devices")
	tree := open(t, dir, sysfs.DirOptions{Write: true})
	for _, name := range []string{
		card + "/sriov_numvfs", card + "/vendor", card + "/remove", card + "/rescan", card + "/reset", card + "/driver_override",
		card + "/driver/unbind", "bus/pci/drivers/nvidia/bind", "bus/pci/rescan", "devices/new",
		types + "t/create", types + "t/devices/" + id1 + "/remove", types + "out/create", "bus/mdev/devices/" + id2 + "/remove",
		"class/mdev_bus/out/mdev_supported_types/t/create", "class/mdev_bus/y/remove", "bus/mdev/devices/../../x/remove",
		"bus/pci/devices/0000:99:00.0/nvidia/current_vgpu_type", "bus/pci/devices/0000:99:00.1/nvidia/current_vgpu_type",
		card + "/nvidia/current_vgpu_type", "bus/pci/devices/" + vf1 + "/nvidia/vgpu_params", "bus/pci/devices/" + vf1 + "/nvidia/creatable_vgpu_types",
		types + "t/name", "../outside", "/etc/hostname", "",
	} {
		if err := tree.WriteFile(name, []byte("1")); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file outside of the tree: %v", err)
	}
	if diff := cmp.Diff(before, dump(t, open(t, dir, sysfs.DirOptions{}), "devices")); diff != "" {
		t.Errorf("the directory has changed:\n%s", diff)
	}
	write(t, tree, "bus/pci/devices/"+vf1+"/nvidia/current_vgpu_type", "1555")
	if got := read(t, tree, "bus/pci/devices/"+vf1+"/nvidia/current_vgpu_type"); got != "1555" {
		t.Errorf("current_vgpu_type = %q", got)
	}
}

// mdevStep is a write to a type of the card.
type mdevStep struct{ name, text string }

func drawStep(t *rapid.T) mdevStep {
	typ := rapid.SampledFrom([]string{t35, t36}).Draw(t, "type")
	id := rapid.SampledFrom([]string{id1, id2, id3, "nonsense"}).Draw(t, "uuid")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return mdevStep{typ + "/devices/" + id + "/remove", rapid.SampledFrom([]string{"0", "1", "x"}).Draw(t, "text")}
	case 1:
		return mdevStep{"bus/mdev/devices/" + id + "/remove", "1"}
	}
	return mdevStep{typ + "/create", id}
}

// TestTheOverlayShowsWhatTheKernelWould holds the overlay over a directory against the
// tree in memory, whose files it reads with other code.
func TestTheOverlayShowsWhatTheKernelWould(t *testing.T) {
	t.Parallel()
	dir := onDisk(t)
	rapid.Check(t, func(t *rapid.T) {
		m, err := sysfs.Generate(machine())
		if err != nil {
			t.Fatal(err)
		}
		tree, err := sysfs.OpenDir(dir, sysfs.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			s := drawStep(t)
			want, got := m.WriteFile(s.name, []byte(s.text)), tree.WriteFile(s.name, []byte(s.text))
			if (want == nil) != (got == nil) {
				t.Fatalf("write %v: memory %v, overlay %v", s, want, got)
			}
			if diff := cmp.Diff(view(t, m), view(t, tree)); diff != "" {
				t.Fatalf("after %v (-memory +overlay):\n%s", s, diff)
			}
		}
	})
}

// view gathers all that shows mediated devices.
func view(t *rapid.T, tree driver.Tree) map[string]any {
	v := make(map[string]any)
	for _, name := range []string{t35 + "/available_instances", t36 + "/available_instances"} {
		data, err := tree.ReadFile(name)
		v[name] = string(data) + errString(err)
	}
	for _, name := range []string{"bus/mdev/devices", t35 + "/devices", t36 + "/devices", "bus/pci/devices/" + t4} {
		entries, err := tree.ReadDir(name)
		names := []string{errString(err)}
		for _, e := range entries {
			names = append(names, e.Name()+" "+e.Type().String())
		}
		v[name] = names
	}
	mdevs, err := sysfs.Mdevs(tree)
	v["mdevs"], v["error"] = mdevs, errString(err)
	for _, m := range mdevs {
		for _, name := range []string{"bus/mdev/devices/" + m.UUID, "class/mdev_bus/" + m.Parent + "/mdev_supported_types/" + m.Type + "/devices/" + m.UUID} {
			target, err := tree.Readlink(name)
			v[name] = target + errString(err)
		}
	}
	return v
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return "error"
}

// TestTheOverlayCountsExistingDevices starts from a tree that has a device.
func TestTheOverlayCountsExistingDevices(t *testing.T) {
	t.Parallel()
	tree := open(t, withMdev(t), sysfs.DirOptions{})
	for _, tt := range []struct{ name, text, left string }{
		{t35 + "/create", id2, "0\n"},
		{"bus/mdev/devices/" + id1 + "/remove", "1", "1\n"},
		{t35 + "/create", id1, "0\n"},
		{t35 + "/devices/" + id2 + "/remove", "1", "1\n"},
		{t35 + "/devices/" + id1 + "/remove", "1", "2\n"},
	} {
		write(t, tree, tt.name, tt.text)
		if got := read(t, tree, t35+"/available_instances"); got != tt.left {
			t.Errorf("after %s <- %s: available_instances = %q, want %q", tt.name, tt.text, got, tt.left)
		}
	}
	if mdevs, err := sysfs.Mdevs(tree); err != nil || len(mdevs) != 0 {
		t.Errorf("Mdevs() = %v, %v, want none", mdevs, err)
	}
	if _, err := tree.ReadFile("bus/mdev/devices/" + id1 + "/uevent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of a device removed: %v", err)
	}
}

// TestRecordsOfUdevAreNextToTheSysfs has /sys and /run/udev/data of a machine, and a link in the latter.
func TestRecordsOfUdevAreNextToTheSysfs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{"sys/bus/pci/x": "", "run/udev/data/b259:0": "E:ID_FS_TYPE=ext4\n", "etc/secret": "x"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../etc/secret", filepath.Join(root, "run/udev/data/b259:1")); err != nil {
		t.Fatal(err)
	}
	tree := open(t, filepath.Join(root, "sys"), sysfs.DirOptions{Write: true})
	if data, err := tree.ReadFile("run/udev/data/b259:0"); err != nil || string(data) != "E:ID_FS_TYPE=ext4\n" {
		t.Errorf("%q, %v", data, err)
	}
	for name, want := range map[string]error{"run/udev/data/b259:7": fs.ErrNotExist, "run/udev/data/b259:1": nil, "run/udev/data/../x": nil} {
		if data, err := tree.ReadFile(name); err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if err := tree.WriteFile("run/udev/data/b259:0", []byte("x")); err == nil {
		t.Error("a record is written")
	}
}
