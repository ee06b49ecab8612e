package sysfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// dump lists every file and link of a tree below a name.
func dump(t *testing.T, tree driver.Tree, name string) []string {
	t.Helper()
	var lines []string
	entries, err := tree.ReadDir(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		at := path.Join(name, e.Name())
		switch {
		case e.IsDir():
			lines = append(lines, dump(t, tree, at)...)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := tree.Readlink(at)
			lines = append(lines, fmt.Sprintf("%s -> %s%v", at, target, errText(err)))
		default:
			data, err := tree.ReadFile(at)
			lines = append(lines, fmt.Sprintf("%s = %q%v", at, data, errText(err)))
		}
	}
	return lines
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return " (" + errors.Unwrap(err).Error() + ")"
}

func TestGenerateLaysOutACardAsTheKernelDoes(t *testing.T) {
	t.Parallel()
	m := generate(t, machine())
	write(t, m, t35+"/create", id1)
	want := strings.Split(strings.TrimSpace(`
devices/pci0000:80/0000:80:02.0/0000:84:00.0/11111111-1111-4111-8111-111111111111/driver -> ../../../../../bus/mdev/drivers/vfio_mdev
devices/pci0000:80/0000:80:02.0/0000:84:00.0/11111111-1111-4111-8111-111111111111/mdev_type -> ../mdev_supported_types/nvidia-35
devices/pci0000:80/0000:80:02.0/0000:84:00.0/11111111-1111-4111-8111-111111111111/remove = "" (permission denied)
devices/pci0000:80/0000:80:02.0/0000:84:00.0/11111111-1111-4111-8111-111111111111/subsystem -> ../../../../../bus/mdev
devices/pci0000:80/0000:80:02.0/0000:84:00.0/11111111-1111-4111-8111-111111111111/uevent = "DRIVER=vfio_mdev\nMODALIAS=mdev:c1\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/class = "0x030200\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/device = "0x1eb8\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/driver -> ../../../../bus/pci/drivers/nvidia
devices/pci0000:80/0000:80:02.0/0000:84:00.0/iommu_group -> ../../../../kernel/iommu_groups/42
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-35/available_instances = "1\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-35/create = "" (permission denied)
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-35/description = "\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-35/device_api = "vfio-pci\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-35/devices/11111111-1111-4111-8111-111111111111 -> ../../../11111111-1111-4111-8111-111111111111
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-35/name = "GRID T4-1B\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-36/available_instances = "0\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-36/create = "" (permission denied)
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-36/description = "\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-36/device_api = "vfio-pci\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/mdev_supported_types/nvidia-36/name = "GRID T4-2B\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/modalias = "pci:v000010DEd00001EB8sv000010DEsd000012A2bc03sc02i00\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/numa_node = "1\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/revision = "0xa1\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/subsystem -> ../../../../bus/pci
devices/pci0000:80/0000:80:02.0/0000:84:00.0/subsystem_device = "0x12a2\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/subsystem_vendor = "0x10de\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/uevent = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:1EB8\nPCI_SUBSYS_ID=10DE:12A2\nPCI_SLOT_NAME=0000:84:00.0\nMODALIAS=pci:v000010DEd00001EB8sv000010DEsd000012A2bc03sc02i00\n"
devices/pci0000:80/0000:80:02.0/0000:84:00.0/vendor = "0x10de\n"
`), "\n")
	if diff := cmp.Diff(want, dump(t, m, "devices/pci0000:80/0000:80:02.0/"+t4)); diff != "" {
		t.Errorf("tree of the card (-want +got):\n%s", diff)
	}
}

func TestGenerateLinksEveryWayToADevice(t *testing.T) {
	t.Parallel()
	m := generate(t, machine())
	write(t, m, t35+"/create", id1)
	write(t, m, vfs0, "3\n")
	wantLinks(t, m, map[string]string{
		"bus/pci/devices/" + t4:                    "../../../devices/pci0000:80/0000:80:02.0/0000:84:00.0",
		"bus/pci/drivers/nvidia/" + t4:             "../../../../devices/pci0000:80/0000:80:02.0/0000:84:00.0",
		"kernel/iommu_groups/42/devices/" + t4:     "../../../../devices/pci0000:80/0000:80:02.0/0000:84:00.0",
		"class/mdev_bus/" + t4:                     "../../devices/pci0000:80/0000:80:02.0/0000:84:00.0",
		"bus/mdev/devices/" + id1:                  "../../../devices/pci0000:80/0000:80:02.0/0000:84:00.0/" + id1,
		"class/net/eth2":                           "../../devices/pci0000:05/0000:05:00.0/net/eth2",
		"class/net/eth2/device":                    "../../../0000:05:00.0",
		"bus/pci/devices/" + nic + "/virtfn0":      "../0000:05:10.0",
		"bus/pci/devices/" + nic + "/virtfn1":      "../0000:05:10.4",
		"bus/pci/devices/" + nic + "/virtfn2":      "../0000:05:11.0",
		"bus/pci/devices/0000:05:10.4/physfn":      "../0000:05:00.0",
		"bus/pci/devices/0000:05:10.4/driver":      "../../../bus/pci/drivers/igbvf",
		"bus/pci/devices/0000:05:10.0/iommu_group": "../../../kernel/iommu_groups/43",
		"bus/pci/devices/0000:05:11.0/iommu_group": "../../../kernel/iommu_groups/45",
	})
	if got := read(t, m, "bus/pci/devices/0000:05:10.4/device"); got != "0x1520\n" {
		t.Errorf("product of a VF = %q", got)
	}
}

func TestMdevWritesHaveTheKernelsEffects(t *testing.T) {
	t.Parallel()
	remove := func(id string) string { return t35 + "/devices/" + id + "/remove" }
	for _, tt := range []struct {
		name   string
		writes [][2]string // all but the last succeed
		want   error
		left   string // of nvidia-35
		mdevs  []driver.Mdev
	}{
		{"one is made", [][2]string{{t35 + "/create", id1}}, nil, "1\n", []driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-35"}}},
		{"line end and case do not matter", [][2]string{{t35 + "/create", strings.ToUpper(id1) + "\n"}}, nil, "1\n", []driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-35"}}},
		{"a uuid is used once", [][2]string{{t35 + "/create", id1}, {t35 + "/create", id1}}, fs.ErrExist, "1\n", []driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-35"}}},
		{"no uuid", [][2]string{{t35 + "/create", "../../x"}}, syscall.EINVAL, "2\n", nil},
		{"no room", [][2]string{{t35 + "/create", id1}, {t35 + "/create", id2}, {t35 + "/create", id3}}, syscall.ENOSPC, "0\n",
			[]driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-35"}, {UUID: id2, Parent: t4, Type: "nvidia-35"}}},
		{"another type has the card", [][2]string{{t36 + "/create", id1}, {t35 + "/create", id2}}, syscall.ENOSPC, "0\n", []driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-36"}}},
		{"removed, there is room again", [][2]string{{t35 + "/create", id1}, {remove(id1), "1"}}, nil, "2\n", nil},
		{"removed through the bus", [][2]string{{t35 + "/create", id1}, {"bus/mdev/devices/" + id1 + "/remove", "1\n"}}, nil, "2\n", nil},
		{"zero removes nothing", [][2]string{{t35 + "/create", id1}, {remove(id1), "0"}}, nil, "1\n", []driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-35"}}},
		{"removed twice", [][2]string{{t35 + "/create", id1}, {remove(id1), "1"}, {remove(id1), "1"}}, fs.ErrNotExist, "2\n", nil},
		{"no number", [][2]string{{t35 + "/create", id1}, {remove(id1), "yes"}}, syscall.EINVAL, "1\n", []driver.Mdev{{UUID: id1, Parent: t4, Type: "nvidia-35"}}},
		{"a file to read", [][2]string{{t35 + "/name", "x"}}, fs.ErrPermission, "2\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := generate(t, machine())
			var err error
			for i, w := range tt.writes {
				if err != nil {
					t.Fatalf("write %d: %v", i, err)
				}
				err = m.WriteFile(w[0], []byte(w[1]))
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("last write: %v, want %v", err, tt.want)
			}
			if got := read(t, m, t35+"/available_instances"); got != tt.left {
				t.Errorf("available_instances = %q, want %q", got, tt.left)
			}
			if diff := cmp.Diff(append([]driver.Mdev{}, tt.mdevs...), m.Mdevs()); diff != "" {
				t.Errorf("mdevs (-want +got):\n%s", diff)
			}
			seen, err := sysfs.Mdevs(m)
			if diff := cmp.Diff(tt.mdevs, seen); err != nil || diff != "" {
				t.Errorf("mdevs read from the tree: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestMixedTypesShareACard(t *testing.T) {
	t.Parallel()
	d := machine()
	d.Devices[1].MixedMdevTypes = true
	m := generate(t, d)
	write(t, m, t35+"/create", id1)
	write(t, m, t36+"/create", id2)
	if got := len(m.Mdevs()); got != 2 {
		t.Errorf("%d mdevs, want 2", got)
	}
}

func TestNumVFsHasTheKernelsEffects(t *testing.T) {
	t.Parallel()
	all := []string{"0000:05:00.0", "0000:05:10.0", "0000:05:10.4", "0000:05:11.0", "0000:80:02.0", "0000:84:00.0"}
	none := []string{"0000:05:00.0", "0000:80:02.0", "0000:84:00.0"}
	for _, tt := range []struct {
		name   string
		writes []string
		want   error
		bus    []string
	}{
		{"all are made", []string{"3"}, nil, all},
		{"the same number again", []string{"3", "3\n"}, nil, all},
		{"another number wants none first", []string{"3", "2"}, syscall.EBUSY, all},
		{"by way of none", []string{"2", "0", "3"}, nil, all},
		{"none again", []string{"3", "0"}, nil, none},
		{"more than there are", []string{"4"}, syscall.ERANGE, none},
		{"negative", []string{"-1"}, syscall.EINVAL, none},
		{"huge", []string{"99999999999999999999"}, syscall.EINVAL, none},
		{"no number", []string{"many"}, syscall.EINVAL, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := generate(t, machine())
			var err error
			for _, text := range tt.writes {
				err = m.WriteFile(vfs0, []byte(text))
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("last write: %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(tt.bus, list(t, m, "bus/pci/devices")); diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
			if got, want := read(t, m, vfs0), fmt.Sprintf("%d\n", len(tt.bus)-3); got != want {
				t.Errorf("sriov_numvfs = %q, want %q", got, want)
			}
		})
	}
}

func TestVFsTakeTheirMdevsWithThem(t *testing.T) {
	t.Parallel()
	d := machine()
	d.Devices[2].VFs.MdevTypes = []sysfs.MdevType{{Type: "nvidia-558", Name: "NVIDIA A40-4Q", AvailableInstances: 1}}
	m := generate(t, d)
	write(t, m, vfs0, "1")
	write(t, m, "class/mdev_bus/0000:05:10.0/mdev_supported_types/nvidia-558/create", id1)
	write(t, m, vfs0, "0")
	if got := m.Mdevs(); len(got) != 0 {
		t.Errorf("mdevs left: %v", got)
	}
	if got := list(t, m, "class/mdev_bus"); !cmp.Equal(got, []string{t4}) {
		t.Errorf("class/mdev_bus = %v", got)
	}
}

func TestRebootLosesMdevsAndRestoresVFs(t *testing.T) {
	t.Parallel()
	d := machine()
	d.Devices[2].VFs.Enabled = 2
	m := generate(t, d)
	before := dump(t, m, "devices")
	write(t, m, t35+"/create", id1)
	write(t, m, vfs0, "0")
	m.Reboot()
	if got := read(t, m, t35+"/available_instances"); got != "2\n" || len(m.Mdevs()) != 0 {
		t.Errorf("after a reboot: available_instances %q, mdevs %v", got, m.Mdevs())
	}
	if diff := cmp.Diff(before, dump(t, m, "devices")); diff != "" {
		t.Errorf("tree after a reboot (-before +after):\n%s", diff)
	}
}

func TestGenerateRefusesWhatNoMachineHas(t *testing.T) {
	t.Parallel()
	gpu := func(change func(*sysfs.PCIDevice)) []sysfs.PCIDevice {
		d := sysfs.PCIDevice{Address: t4, Vendor: "10de", Product: "1eb8", Class: "0302"}
		change(&d)
		return []sysfs.PCIDevice{d}
	}
	for name, devices := range map[string][]sysfs.PCIDevice{
		"address":           gpu(func(d *sysfs.PCIDevice) { d.Address = "84:00.0" }),
		"address twice":     append(gpu(func(*sysfs.PCIDevice) {}), gpu(func(*sysfs.PCIDevice) {})...),
		"no vendor":         gpu(func(d *sysfs.PCIDevice) { d.Vendor = "" }),
		"product":           gpu(func(d *sysfs.PCIDevice) { d.Product = "1eb88" }),
		"class":             gpu(func(d *sysfs.PCIDevice) { d.Class = "gpu" }),
		"driver":            gpu(func(d *sysfs.PCIDevice) { d.Driver = "../nvidia" }),
		"unknown parent":    gpu(func(d *sysfs.PCIDevice) { d.Parent = "0000:00:01.0" }),
		"bad parent":        gpu(func(d *sysfs.PCIDevice) { d.Parent = "up" }),
		"file above":        gpu(func(d *sysfs.PCIDevice) { d.Files = map[string]string{"../x": ""} }),
		"negative group":    gpu(func(d *sysfs.PCIDevice) { d.IOMMUGroup = ptr(-1) }),
		"huge VF count":     gpu(func(d *sysfs.PCIDevice) { d.VFs = &sysfs.VFs{Total: 1 << 30} }),
		"too many enabled":  gpu(func(d *sysfs.PCIDevice) { d.VFs = &sysfs.VFs{Total: 1, Enabled: 2} }),
		"VFs off the bus":   gpu(func(d *sysfs.PCIDevice) { d.Address = "0000:ff:1f.7"; d.VFs = &sysfs.VFs{Total: 1} }),
		"VF on a device":    append(gpu(func(d *sysfs.PCIDevice) { d.VFs = &sysfs.VFs{Total: 1} }), gpu(func(d *sysfs.PCIDevice) { d.Address = "0000:84:00.1" })...),
		"mdev type above":   gpu(func(d *sysfs.PCIDevice) { d.MdevTypes = []sysfs.MdevType{{Type: ".."}} }),
		"mdev type twice":   gpu(func(d *sysfs.PCIDevice) { d.MdevTypes = []sysfs.MdevType{{Type: "a"}, {Type: "a"}} }),
		"negative capacity": gpu(func(d *sysfs.PCIDevice) { d.MdevTypes = []sysfs.MdevType{{Type: "a", AvailableInstances: -1}} }),
		"interface name":    gpu(func(d *sysfs.PCIDevice) { d.Interfaces = []sysfs.Interface{{Name: "a/b"}} }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := sysfs.Generate(sysfs.Description{Devices: devices}); !errors.Is(err, sysfs.ErrDescription) {
				t.Errorf("Generate: %v, want ErrDescription", err)
			}
		})
	}
}

func TestMemoryNamesTheTroubleWithANameOrALink(t *testing.T) {
	t.Parallel()
	m := generate(t, machine())
	m.SetLink("devices/loop", "loop")
	m.SetLink("devices/out", "../../etc/passwd")
	m.SetLink("devices/absolute", "/etc/passwd")
	m.SetFile("devices/huge", make([]byte, 1<<20))
	m.SetFile("devices/secret", []byte("x"))
	if err := m.Deny("devices/secret"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"devices/loop":      syscall.ELOOP,
		"devices/out":       sysfs.ErrEscapes,
		"devices/absolute":  sysfs.ErrEscapes,
		"devices/huge":      sysfs.ErrTooLarge,
		"devices/secret":    fs.ErrPermission,
		"devices":           sysfs.ErrNotRegular,
		"devices/none":      fs.ErrNotExist,
		"devices/huge/none": syscall.ENOTDIR,
		"../etc/passwd":     fs.ErrInvalid,
		"/etc/passwd":       fs.ErrInvalid,
		"":                  fs.ErrInvalid,
	} {
		_, err := m.ReadFile(name)
		var p *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &p) || p.Path != name {
			t.Errorf("ReadFile(%q): %v, want a path error with %v", name, err, want)
		}
	}
}

func TestConcurrentUseKeepsTheCount(t *testing.T) {
	t.Parallel()
	m := generate(t, machine())
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			id := fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)
			for range 50 {
				if m.WriteFile(t35+"/create", []byte(id)) == nil {
					if err := m.WriteFile(t35+"/devices/"+id+"/remove", []byte("1")); err != nil {
						t.Errorf("remove: %v", err)
					}
				}
				if _, err := sysfs.Mdevs(m); err != nil {
					t.Errorf("list: %v", err)
				}
			}
		})
	}
	group.Wait()
	if got := read(t, m, t35+"/available_instances"); got != "2\n" || len(m.Mdevs()) != 0 {
		t.Errorf("at the end: available_instances %q, mdevs %v", got, m.Mdevs())
	}
}

func TestTwinsShareOnlyTheirDescription(t *testing.T) {
	t.Parallel()
	first := generate(t, machine())
	write(t, first, vfs0, "2")
	second := first.Twin()
	third := second.Twin()
	write(t, third, vfs0, "3")
	for want, m := range map[string]*sysfs.Memory{"2\n": first, "0\n": second, "3\n": third} {
		if got := read(t, m, vfs0); got != want {
			t.Errorf("%q virtual functions, want %q", got, want)
		}
	}
}

func TestTwinsShareAViewUntilOneIsChanged(t *testing.T) {
	t.Parallel()
	first := generate(t, machine())
	second := first.Twin()
	view := first.DescribedView()
	if view == nil || view != second.DescribedView() {
		t.Fatal("twins that nothing has changed have different views")
	}
	functions, _, err := view.PCIFunctions(t.Context())
	if want, _, _ := driver.NewView(first).PCIFunctions(t.Context()); err != nil || !slices.Equal(functions, want) {
		t.Errorf("the view has the functions %v, want %v; %v", functions, want, err)
	}
	write(t, second, vfs0, "2")
	if second.DescribedView() != nil || first.DescribedView() != view {
		t.Error("a change of one twin is in the view of the other, or not in its own")
	}
	if err := view.WriteFile(vfs0, []byte("1")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a write through the view: %v", err)
	}
}
