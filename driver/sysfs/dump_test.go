package sysfs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// restless has hardware of every kind that writes change, much of it competing for
// numbers: two functions whose VFs take IOMMU groups, one whose VFs carry mediated devices
// from the start, three FPGAs whose ports move to VFs, and parents with one type at a time
// and with several, and a card with vGPUs in MIG mode.
func restless() sysfs.Description {
	d := classes()
	d.Devices = append(d.Devices[5:], machine().Devices...) // no disks: nothing that is written changes them
	return sysfs.Description{MdevParents: d.MdevParents, Devices: append(d.Devices,
		sysfs.PCIDevice{Address: "0000:41:00.0", Vendor: "10de", Product: "2235", Class: "0302", Driver: "nvidia", IOMMUGroup: ptr(9),
			VFs: &sysfs.VFs{Total: 4, Enabled: 2, Offset: 4, Driver: "nvidia-vf", MdevTypes: []sysfs.MdevType{
				{Type: "nvidia-558", Name: "NVIDIA A40-4Q", AvailableInstances: 1}, {Type: "nvidia-559", Name: "NVIDIA A40-8Q", AvailableInstances: 1},
			}}},
		sysfs.PCIDevice{Address: "0000:42:00.0", Vendor: "10de", Product: "2bb5", Class: "0302", Driver: "nvidia", IOMMUGroup: ptr(10),
			VFs: &sysfs.VFs{Total: 4, Enabled: 4, Offset: 2, Driver: "nvidia", VGPUs: &sysfs.VGPUCard{MIG: true, GPUInstances: []int{1, 1}, Types: []sysfs.VGPUType{
				{ID: 1561, Name: "NVIDIA DC-1-24Q", FramebufferMiB: 24576, MaxInstances: 1, Slices: 1},
				{ID: 1570, Name: "NVIDIA DC-1-12Q", FramebufferMiB: 12288, MaxInstances: 2, Slices: 1},
			}}}},
		sysfs.PCIDevice{Address: "0000:60:00.0", Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci", IOMMUGroup: ptr(3),
			VFs: &sysfs.VFs{Total: 2, Enabled: 1, Offset: 8, Product: "09c5", Driver: "vfio-pci"},
			FPGA: &sysfs.FPGA{Dev: 1, InterfaceID: region2, Ports: []sysfs.FPGAPort{
				{Number: 0, AFUID: afu1, VF: 2}, {Number: 1, VF: 1},
			}}},
		dflCard,
	)}
}

// walk lists everything there is in a tree: directories, files with their content, links,
// and what each entry looks like.
func walk(t rapid.TB, tree driver.Tree, name string) []string {
	t.Helper()
	entries, err := tree.ReadDir(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{name + "/"}
	for _, e := range entries {
		at := path.Join(name, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.IsDir():
			lines = append(lines, walk(t, tree, at)...)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := tree.Readlink(at)
			lines = append(lines, fmt.Sprint(at, " -> ", target, err, info.Mode()))
		default:
			data, err := tree.ReadFile(at)
			lines = append(lines, fmt.Sprintf("%s = %q %v %v", at, data, err, info.Mode()))
		}
	}
	return lines
}

func sameTrees(t rapid.TB, when string, kept, loaded driver.Tree) {
	t.Helper()
	if want, got := walk(t, kept, "."), walk(t, loaded, "."); !slices.Equal(want, got) {
		t.Fatalf("%s (-kept +loaded):\n%s", when, cmp.Diff(want, got))
	}
}

// dumper is a tree with a dump.
type dumper interface {
	driver.Tree
	driver.Snapshotter
}

func dumped(t rapid.TB, tree dumper) []byte {
	t.Helper()
	data, err := tree.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reload loads the dump of a tree into another, whose dump must then be the same.
func reload(t rapid.TB, from, to dumper) {
	t.Helper()
	once := dumped(t, from)
	if err := driver.Load(to, once); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(once), string(dumped(t, to))); diff != "" {
		t.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
	}
}

// disturb draws something that changes a tree, to be done to several.
func disturb(t *rapid.T) func(*sysfs.Memory) error {
	id := rapid.SampledFrom([]string{id1, id2, id3, strings.ToUpper("44444444-4444-4444-8444-44444444444a")}).Draw(t, "uuid")
	switch rapid.IntRange(0, 15).Draw(t, "kind") {
	case 0, 1, 2, 3, 4:
		at := rapid.SampledFrom([]string{nic, fpga, "0000:41:00.0", "0000:60:00.0", dflCard.Address}).Draw(t, "function")
		n := rapid.SampledFrom([]string{"0", "0", "1", "2", "4"}).Draw(t, "VFs")
		return func(m *sysfs.Memory) error { return m.WriteFile("bus/pci/devices/"+at+"/sriov_numvfs", []byte(n)) }
	case 5, 6, 7, 8:
		typ := rapid.SampledFrom([]string{
			t4 + "/mdev_supported_types/nvidia-35", t4 + "/mdev_supported_types/nvidia-36", "0000:41:00.4/mdev_supported_types/nvidia-558",
			"0000:41:00.5/mdev_supported_types/nvidia-559", "mtty/mdev_supported_types/mtty-1", "mtty/mdev_supported_types/mtty-2",
		}).Draw(t, "type")
		return func(m *sysfs.Memory) error { return m.WriteFile("class/mdev_bus/"+typ+"/create", []byte(id)) }
	case 9, 10:
		return func(m *sysfs.Memory) error {
			return m.WriteFile("bus/mdev/devices/"+strings.ToLower(id)+"/remove", []byte("1"))
		}
	case 12, 13:
		vf := rapid.SampledFrom([]string{"0000:42:00.2", "0000:42:00.3", "0000:42:00.4"}).Draw(t, "function")
		text := rapid.SampledFrom([]string{"0", "1561", "1570"}).Draw(t, "type")
		return func(m *sysfs.Memory) error { return m.WriteFile(currentType(vf), []byte(text)) }
	case 14:
		held := rapid.Bool().Draw(t, "held")
		return func(m *sysfs.Memory) error { return m.HoldVGPU(driver.PCIAddress{Bus: 0x42, Function: 2}, held) }
	case 11:
		at := rapid.SampledFrom([]string{fpga, "0000:5e:01.0", "0000:60:00.0", "0000:60:01.1", dflCard.Address}).Draw(t, "card")
		port := rapid.SampledFrom([]int{0, 1, 4, 5, 6, 20, 21}).Draw(t, "port")
		afu := rapid.SampledFrom([]string{afu1, strings.ToUpper(region1)}).Draw(t, "function")
		return func(m *sysfs.Memory) error { return m.Program(at, port, afu) }
	}
	return func(m *sysfs.Memory) error { m.Reboot(); return nil }
}

func TestALoadedTreeEqualsTheDump(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := generate(t, restless())
		for range rapid.IntRange(0, 25).Draw(rt, "before") {
			_ = disturb(rt)(m)
		}
		other := generate(t, restless())
		for range rapid.IntRange(0, 3).Draw(rt, "in the way") { // the load replaces the state of a used tree
			_ = disturb(rt)(other)
		}
		reload(rt, m, other)
		sameTrees(rt, "trees", m, other)
		for range rapid.IntRange(0, 15).Draw(rt, "after") {
			change := disturb(rt)
			if diff := cmp.Diff(fmt.Sprint(change(m)), fmt.Sprint(change(other))); diff != "" {
				rt.Fatalf("a write (-kept +loaded):\n%s", diff)
			}
			sameTrees(rt, "trees after a write", m, other)
		}
		m.Reboot()
		other.Reboot()
		sameTrees(rt, "trees after a restart", m, other)
	})
}

// troubled is a tree with something in each member of its dump.
func troubled(t testing.TB) (*sysfs.Memory, string) {
	t.Helper()
	m := generate(t, restless())
	write(t, m, vfs0, "3")
	write(t, m, vfs0, "0")
	write(t, m, "bus/pci/devices/"+fpga+"/sriov_numvfs", "2")
	write(t, m, t35+"/create", id1)
	write(t, m, "class/mdev_bus/0000:41:00.4/mdev_supported_types/nvidia-558/create", id2)
	if err := m.Program(fpga, 4, region1); err != nil {
		t.Fatal(err)
	}
	return m, string(dumped(t, m))
}

func TestTheDumpOfATreeIsReadable(t *testing.T) {
	t.Parallel()
	_, text := troubled(t)
	want := `{"schema_version":1,"virtual_functions":[{"address":"0000:5e:00.0","enabled":2}],` +
		`"fpga_ports":[{"address":"0000:5e:00.0","port":4,"afu_id":"` + region1 + `"}],` +
		`"mdevs":[{"uuid":"` + id1 + `","parent":"0000:84:00.0","type":"nvidia-35"},{"uuid":"` + id2 + `","parent":"0000:41:00.4","type":"nvidia-558"}]}`
	var got bytes.Buffer
	if err := json.Compact(&got, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// replacing replaces text in a dump.
func replacing(t *testing.T, dump string) func(old, new string) string {
	return func(old, new string) string {
		t.Helper()
		if !strings.Contains(dump, old) {
			t.Fatalf("no %s in the dump", old)
		}
		return strings.Replace(dump, old, new, 1)
	}
}

// badDump is a dump that does not fit, and what the error says.
type badDump struct{ name, text, want string }

// wantRefused checks that a tree refuses dumps and stays as it is.
func wantRefused(t *testing.T, tree dumper, dumps []badDump) {
	t.Helper()
	files := func() []string {
		if m, inMemory := tree.(*sysfs.Memory); inMemory {
			return walk(t, m, ".")
		}
		return nil
	}
	wasThere, before := files(), string(dumped(t, tree))
	for _, tt := range dumps {
		err := driver.Load(tree, []byte(tt.text))
		if !errors.Is(err, driver.ErrSnapshot) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, want ErrSnapshot with %s", tt.name, err, tt.want)
		}
		if diff := cmp.Diff(before, string(dumped(t, tree))) + cmp.Diff(wasThere, files()); diff != "" {
			t.Fatalf("%s: refused, yet changed (-before +after):\n%s", tt.name, diff)
		}
	}
}

func TestADumpThatDoesNotFitIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	m, before := troubled(t)
	replaced := replacing(t, before)
	const vfs = `"address": "0000:5e:00.0"`
	wantRefused(t, m, []badDump{
		{"something follows", before + "{}", "something follows"},
		{"unknown field", replaced(`"mdevs"`, `"devices"`), `unknown field "devices"`},
		{"other version", replaced(`"schema_version": 1`, `"schema_version": 2`), "schema_version 2"},
		{"null", `null`, "schema_version 0"},
		{"cut", before[:len(before)/2], "unexpected EOF"},
		{"function of no description", replaced(vfs, `"address": "0000:99:00.0"`), `function "0000:99:00.0": the description has no such function`},
		{"virtual function", replaced(vfs, `"address": "0000:41:00.4"`), `function "0000:41:00.4": the description has no such function`},
		{"function without VFs", replaced(vfs, `"address": "0000:84:00.0"`), `function "0000:84:00.0": it cannot have 2 virtual functions`},
		{"function twice", replaced(`{
      "address": "0000:5e:00.0",
      "enabled": 2
    }`, `{"address": "0000:5e:00.0", "enabled": 2}, {"address": "0000:5e:00.0", "enabled": 1}`), "appears twice"},
		{"no address", replaced(vfs, `"address": "nic"`), `function "nic"`},
		{"too many VFs", replaced(`"enabled": 2`, `"enabled": 200`), "it cannot have 200 virtual functions"},
		{"fewer than no VFs", replaced(`"enabled": 2`, `"enabled": -1`), "it cannot have -1 virtual functions"},
		{"no such port", replaced(`"port": 4`, `"port": 9`), `fpga port 9 of "0000:5e:00.0"`},
		{"port of another card", replaced(`"port": 4`, `"port": 0`), `fpga port 0 of "0000:5e:00.0"`},
		{"no function", replaced(`"afu_id": "`, `"afu_id": "x`), "afu_id"},
		{"mdev without a parent", replaced(`"parent": "0000:41:00.4"`, `"parent": "0000:41:00.6"`), `on "0000:41:00.6": there is no such parent`},
		{"mdev without a type", replaced(`"nvidia-35"`, `"nvidia-37"`), `mdev "` + id1 + `" of type "nvidia-37"`},
		{"mdev twice", replaced(id1, id2), "file exists"},
		{"no room", replaced(`"0000:84:00.0"`, `"mtty"`), `of type "nvidia-35" on "mtty"`},
		{"no uuid", replaced(id1, "mdev"), `mdev "mdev"`},
	})
}

func TestALoadedOverlayEqualsTheDump(t *testing.T) {
	t.Parallel()
	dir := withMdev(t)
	rapid.Check(t, func(rt *rapid.T) {
		tree, other := open(t, dir, sysfs.DirOptions{}), open(t, dir, sysfs.DirOptions{})
		step := func(trees ...*sysfs.DirTree) {
			s := drawStep(rt)
			var errs []string
			for _, each := range trees {
				errs = append(errs, fmt.Sprint(each.WriteFile(s.name, []byte(s.text))))
			}
			if errs[0] != errs[len(errs)-1] {
				rt.Fatalf("write %v: %q", s, errs)
			}
		}
		for range rapid.IntRange(0, 12).Draw(rt, "before") {
			step(tree)
		}
		reload(rt, tree, other)
		for range rapid.IntRange(0, 8).Draw(rt, "after") {
			step(tree, other)
		}
		if diff := cmp.Diff(view(rt, tree), view(rt, other)); diff != "" {
			rt.Fatalf("(-kept +loaded):\n%s", diff)
		}
		if diff := cmp.Diff(tree.Overlaid(), other.Overlaid()); diff != "" {
			rt.Fatalf("overlaid (-kept +loaded):\n%s", diff)
		}
	})
}

func TestADumpThatDoesNotFitTheDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := withMdev(t)
	tree := replacedMdev(t, dir)
	before := string(dumped(t, tree))
	replaced := replacing(t, before)
	wantRefused(t, tree, []badDump{
		{"something follows", before + "{}", "something follows"},
		{"unknown field", replaced(`"made"`, `"new"`), `unknown field "new"`},
		{"other version", replaced(`"schema_version": 1`, `"schema_version": 2`), "schema_version 2"},
		{"removed one that is not there", replaced(id1, id3), `removed mdev "` + id3 + `" on "0000:84:00.0": `},
		{"made one that is there", `{"schema_version": 1, "made": [{"uuid": "` + id1 + `", "parent": "` + t4 + `", "type": "nvidia-35"}]}`, "file exists"},
		{"removed and made the same", `{"schema_version": 1, "removed": [{"uuid": "` + id1 + `", "parent": "` + t4 + `", "type": "nvidia-35"}], "made": [{"uuid": "` + id1 + `", "parent": "` + t4 + `", "type": "nvidia-35"}]}`, "it is removed, too"},
		{"made on no parent", replaced(t4, "0000:85:00.0"), `made mdev "` + id2 + `" on "0000:85:00.0": `},
		{"made of no type", replaced("nvidia-35", "nvidia-99"), `nvidia-99/available_instances: no such file`},
		{"no uuid", replaced(id2, "mdev"), `made mdev "mdev"`},
		{"a way out", replaced(t4, "../.."), "bad attach handle"},
	})
	through := open(t, dir, sysfs.DirOptions{Write: true})
	if err := driver.Load(through, []byte(before)); !errors.Is(err, driver.ErrSnapshot) || !strings.Contains(err.Error(), "go through") {
		t.Errorf("where writes go through: %v", err)
	}
	if err := driver.Load(through, dumped(t, through)); err != nil {
		t.Errorf("its own dump where writes go through: %v", err)
	}
}

func FuzzLoadTree(f *testing.F) {
	f.Add([]byte(`{"schema_version": 1}`))
	_, text := troubled(f)
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, data []byte) { checkLoad(t, generate(t, restless()), data) })
}

// replacedMdev is an overlay in which the mediated device of withMdev is removed, and another made.
func replacedMdev(t testing.TB, dir string) *sysfs.DirTree {
	t.Helper()
	tree := open(t, dir, sysfs.DirOptions{})
	write(t, tree, t35+"/devices/"+id1+"/remove", "1")
	write(t, tree, t35+"/create", id2)
	return tree
}

func FuzzLoadOverlay(f *testing.F) {
	dir := withMdev(f)
	f.Add(dumped(f, replacedMdev(f, dir)))
	f.Fuzz(func(t *testing.T, data []byte) { checkLoad(t, open(t, dir, sysfs.DirOptions{}), data) })
}

// checkLoad loads anything: what is refused changes nothing, and the dump of what is not
// is loaded again.
func checkLoad(t *testing.T, tree dumper, data []byte) {
	before := dumped(t, tree)
	if err := driver.Load(tree, data); err != nil {
		if !errors.Is(err, driver.ErrSnapshot) || !bytes.Equal(before, dumped(t, tree)) {
			t.Fatalf("refused, yet changed: %v", err)
		}
		return
	}
	once := dumped(t, tree)
	if err := driver.Load(tree, once); err != nil {
		t.Fatal(fmt.Errorf("its own dump: %w", err))
	}
	if twice := dumped(t, tree); !bytes.Equal(once, twice) {
		t.Fatalf("dumps differ:\n%s\n%s", once, twice)
	}
}

// Each dump is consistent: it can be loaded regardless of concurrent work.
func TestADumpIsOfOneMoment(t *testing.T) {
	t.Parallel()
	m := generate(t, restless())
	var group sync.WaitGroup
	for _, at := range []string{nic, fpga, "0000:41:00.0", "0000:60:00.0"} {
		group.Go(func() {
			for range 40 {
				for _, n := range []string{"0", "2"} {
					_ = m.WriteFile("bus/pci/devices/"+at+"/sriov_numvfs", []byte(n))
					_ = m.WriteFile("class/mdev_bus/0000:41:00.4/mdev_supported_types/nvidia-558/create", []byte(id1))
				}
			}
		})
	}
	group.Go(func() {
		for range 40 {
			if err := driver.Load(generate(t, restless()), dumped(t, m)); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
}
