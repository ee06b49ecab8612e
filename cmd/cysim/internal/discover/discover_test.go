package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/internal/osloconf"
	"github.com/gocyborg/gocyborg/internal/testrun"
)

// captures are the trees of real machines, each unpacked once.
var captures struct {
	sync.Mutex
	dirs map[string]string
	all  []func() // remove them
}

// ofAllTests is a testing.TB whose directories stay until all tests have ended.
type ofAllTests struct{ testing.TB }

// TempDir implements testing.TB.
func (t ofAllTests) TempDir() string {
	dir, err := os.MkdirTemp("", "captured-*")
	if err != nil {
		t.Fatal(err)
	}
	captures.all = append(captures.all, func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestMain(m *testing.M) {
	testrun.Main(m)
	for _, remove := range captures.all {
		remove()
	}
}

// capturedTree returns the sys of a real machine, which no test may change.
func capturedTree(t testing.TB, machine string) string {
	t.Helper()
	captures.Lock()
	defer captures.Unlock()
	if captures.dirs == nil {
		captures.dirs = make(map[string]string)
	}
	if captures.dirs[machine] == "" {
		captures.dirs[machine] = drivertest.Unpack(ofAllTests{t}, filepath.Join("..", "..", "..", "..", "driver", "sysfs", "testdata", machine+".tar.gz"))
	}
	return captures.dirs[machine]
}

// must stops a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// laidOut writes a synthetic tree to a directory of the test.
func laidOut(t testing.TB, d sysfs.Description) string {
	t.Helper()
	tree, err := sysfs.Generate(d)
	must(t, err)
	dir := t.TempDir()
	must(t, tree.LayOut(dir))
	return dir
}

// writeFile puts a file into a directory of the test and returns its path.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// outcome is the output and the status of cysim discover.
type outcome struct {
	discovery
	status         int
	stdout, stderr string
}

// runDiscover runs cysim discover and returns its exit status.
func runDiscover(t testing.TB, stdout, stderr *bytes.Buffer, args ...string) int {
	t.Helper()
	var grammar struct {
		Discover Command `cmd:"" help:"."`
	}
	return command.Run(t.Context(), &grammar, append([]string{"discover"}, args...), stdout, stderr)
}

// discover runs cysim discover with JSON output.
func discover(t testing.TB, args ...string) outcome {
	t.Helper()
	var o outcome
	var stdout, stderr bytes.Buffer
	o.status = runDiscover(t, &stdout, &stderr, append([]string{"-o", "json"}, args...)...)
	o.stdout, o.stderr = stdout.String(), stderr.String()
	if o.status == command.StatusBadInput || o.status == command.StatusFailed {
		return o
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o.discovery); err != nil {
		t.Fatalf("%v in %s (%s)", err, o.stdout, o.stderr)
	}
	return o
}

// offered has a line for each device: address, class and traits.
func (o outcome) offered() []string {
	lines := []string{}
	for _, d := range o.Devices {
		lines = append(lines, strings.Join(append([]string{d.Address, d.ResourceClass}, d.Traits...), " "))
	}
	return lines
}

// leftOut has the reason by address and driver.
func (o outcome) leftOut() map[string]string {
	reasons := make(map[string]string)
	for _, l := range o.LeftOut {
		reasons[l.Address+" "+l.Driver] = l.Reason
	}
	return reasons
}

func TestDiscoverOnRealMachines(t *testing.T) {
	t.Parallel()
	const everything = `{"host": "h", "enabled_drivers": ["nvidia_gpu_driver", "intel_fpga_driver", "xilinx_fpga_driver",
		"inspur_fpga_driver", "intel_qat_driver", "intel_nic_driver", "inspur_nvme_ssd_driver", "huawei_ascend_driver",
		"hpts_driver", "pci_driver", "mdev_driver"], "pci": {"passthrough_whitelist": WHITELIST}}`
	vfs := []string{}
	for _, slot := range []string{"10.0", "10.1", "10.4", "10.5", "11.0", "11.1", "11.4", "11.5"} {
		vfs = append(vfs, "0000:05:"+slot+" CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_1520")
	}
	for _, tt := range []struct {
		machine, whitelist string
		bare, listed       []string // without and with the whitelist
		leftOut            map[string]string
	}{
		{"nvidia-p100", `[{"vendor_id": "1af4", "address": "*:04:*.*"}]`,
			[]string{"0000:06:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_15F8"}, []string{"0000:06:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_15F8"},
			map[string]string{"0000:04:00.0 pci": "presumably the display of the host: a VGA controller bound to driver virtio-pci, and no boot_vga file"}},
		{"xeon-i350-sriov", `["{\"vendor_id\": \"8086\", \"product_id\": \"1520\"}", {"vendor_id": "102b"}]`, []string{}, vfs,
			map[string]string{"0000:07:03.0 pci": "presumably the display of the host: a VGA controller bound to driver mgag200, and no boot_vga file"}},
		{"qemu-accel", `{"address": {"domain": ".*", "bus": "00", "slot": "04", "function": "[0-7]"}}`, []string{},
			[]string{"0000:00:04.0 CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_PRODUCT_ID_0005"}, map[string]string{}},
	} {
		t.Run(tt.machine, func(t *testing.T) {
			t.Parallel()
			sys := capturedTree(t, tt.machine)
			bare := discover(t, "--sysfs", sys)
			if diff := cmp.Diff(tt.bare, bare.offered()); diff != "" || len(bare.LeftOut)+len(bare.Problems) > 0 {
				t.Errorf("left out %v, problems %v, offered (-want +got):\n%s", bare.LeftOut, bare.Problems, diff)
			}
			listed := discover(t, "--sysfs", sys, "--driver-config", writeFile(t, "all.json", strings.ReplaceAll(everything, "WHITELIST", tt.whitelist)))
			if diff := cmp.Diff(tt.listed, listed.offered()); diff != "" || len(listed.Problems) > 0 {
				t.Errorf("with a whitelist: problems %v, offered (-want +got):\n%s", listed.Problems, diff)
			}
			if diff := cmp.Diff(tt.leftOut, listed.leftOut()); diff != "" {
				t.Errorf("with a whitelist: left out (-want +got):\n%s", diff)
			}
		})
	}
}

// A device that two drivers are configured for is skipped, with both names.
func TestADeviceClaimedByTwoDriversIsNotOffered(t *testing.T) {
	t.Parallel()
	config := writeFile(t, "cyborg.conf", "[pci]\npassthrough_whitelist = {\"vendor_id\": \"10de\"}\n")
	got := discover(t, "--sysfs", capturedTree(t, "nvidia-p100"), "--driver-config", config)
	var drivers []string
	for _, p := range got.Problems {
		drivers = append(drivers, p.Driver)
		if p.Address != "0000:06:00.0" || !strings.Contains(p.Reason, "nvidia and pci report the device") {
			t.Errorf("problem %+v", p)
		}
	}
	if diff := cmp.Diff([]string{"nvidia", "pci"}, drivers); diff != "" || len(got.Devices) > 0 || got.status != 0 {
		t.Errorf("status %d, offered %v, problems (-want +got):\n%s", got.status, got.offered(), diff)
	}
}

// Programs read the document: its keys do not change, and no list is null.
func TestTheJSONOfDiscoverHasItsKeys(t *testing.T) {
	t.Parallel()
	if got, want := discover(t, "--sysfs", capturedTree(t, "qemu-accel")).stdout, "{\n  \"devices\": [],\n  \"left_out\": [],\n  \"problems\": []\n}\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	config := writeFile(t, "c.json", `{"host": "compute1", "enabled_drivers": ["nvidia_gpu_driver"]}`)
	const want = `{
  "devices": [
    {
      "address": "0000:06:00.0",
      "resource_class": "PGPU",
      "traits": [
        "OWNER_CYBORG",
        "CUSTOM_NVIDIA_15F8"
      ],
      "units": 1,
      "name": "compute1_0000:06:00.0",
      "type": "GPU",
      "vendor": "10de",
      "product": "15f8",
      "model": "NVIDIA Corporation GP100GL [Tesla P100 PCIe 16GB]",
      "driver": "nvidia",
      "iommu_group": null,
      "numa_node": null,
      "health": {},
      "attach_handles": [
        {
          "type": "PCI",
          "info": {
            "bus": "06",
            "device": "00",
            "domain": "0000",
            "function": "0"
          }
        }
      ]
    }
  ],
  "left_out": [],
  "problems": []
}
`
	if diff := cmp.Diff(want, discover(t, "--sysfs", capturedTree(t, "nvidia-p100"), "--driver-config", config).stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheTablesOfDiscover(t *testing.T) {
	t.Parallel()
	sys := laidOut(t, sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:3b:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", IOMMUGroup: number(7)},
		{Address: "0000:3b:00.1", Vendor: "10de", Product: "10f8", Class: "0403", Driver: "snd_hda_intel", IOMMUGroup: number(7)},
		{Address: "0000:5e:00.0", Vendor: "10de", Product: "1eb8", Class: "0300", BootVGA: true},
		{Address: "0000:84:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", IOMMUGroup: number(31), Files: map[string]string{"reset_method": "\n", "numa_node": "1\n"}},
		{Address: "0000:85:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "vfio-pci", IOMMUGroup: number(31), Files: map[string]string{"reset_method": "flr bus\n", "numa_node": "-1\n"}},
		{Address: "0000:86:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", IOMMUGroup: number(32), Files: map[string]string{"reset_method": "flr bus\n", "numa_node": "-1\n"}},
		{Address: "0000:af:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Files: map[string]string{"sriov_numvfs": "many\n"}},
	}})
	tables := printed(t, sys)
	for _, want := range []string{
		"What Cyborg's agent would offer of " + sys, "0000:3b:00.0", "PGPU", "CUSTOM_NVIDIA_1EB8",
		" 31     1     nvidia\n", " 32     -     nvidia\n", "0000:85:00.0  nvidia  group 31 with 0000:84:00.0\n",
		"Warning: 0000:84:00.0 is offered, but the kernel cannot reset it between two guests: its reset_method is empty.\n", "IOMMU group 7 has 0000:3b:00.1, of class 0403, on driver snd_hda_intel: bind it to vfio-pci", `[{"resources:PGPU": "1"}]`,
		"Left out, and why", "boot_vga is 1", "Not understood", `garbled content: "many"`, "bus/pci/devices/0000:af:00.0/sriov_numvfs",
	} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables lack %q:\n%s", want, tables)
		}
	}
	for line := range strings.Lines(tables) {
		if strings.TrimRight(line, " \n")+"\n" != line {
			t.Errorf("blanks at the end of %q", line)
		}
	}
}

// TestARowNamesTheFunctionThatAGuestGets: a virtual function and not its card, also in warnings.
func TestARowNamesTheFunctionThatAGuestGets(t *testing.T) {
	t.Parallel()
	card := driver.Device{Type: driver.TypeQAT, ControlPath: driver.PCIAddress{Bus: 0x3d}.ControlPath()}
	for function := range uint8(2) {
		at := driver.PCIAddress{Bus: 0x3d, Device: 1, Function: function}
		card.Deployables = append(card.Deployables, driver.Deployable{
			Name: "h_" + at.String(), NumAccelerators: 1, AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at.Info()}},
		})
	}
	got := map[string][]string{}
	for _, f := range foundDevices("intel_qat", card, []driver.Notice{
		{Address: "0000:3d:01.1", Reason: "IOMMU group 7 is shared"}, {Address: "0000:3d:00.0", Reason: "link down"}, {Address: "0000:3e:00.0", Reason: "another card"},
	}) {
		got[f.Address] = f.Warnings
	}
	want := map[string][]string{
		"0000:3d:01.0": {"0000:3d:00.0: link down"}, "0000:3d:01.1": {"IOMMU group 7 is shared", "0000:3d:00.0: link down"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings by row (-want +got):\n%s", diff)
	}
}

func number(n int) *int { return &n }

func TestDiscoverRefusesBadInputWithStatus2(t *testing.T) {
	t.Parallel()
	sys := laidOut(t, sysfs.Description{})
	above := filepath.Dir(capturedTree(t, "qemu-accel"))
	garbage := string([]byte{0, 0xff, '[', '\n', 0xfe})
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no directory", []string{"--sysfs", sys + "/none"}, "no such file"},
		{"a directory that holds a sys", []string{"--sysfs", above}, "it may be " + filepath.Join(above, "sys")},
		{"another directory", []string{"--sysfs", t.TempDir()}, "neither a bus nor a devices directory"},
		{"output", []string{"-o", "yaml"}, `--output must be one of "table","json"`},
		{"no config", []string{"--driver-config", sys + "/none"}, "--driver-config: open " + sys + "/none"},
		{"config is a directory", []string{"--driver-config", sys}, "--driver-config: read " + sys},
		{"garbled config", []string{"--driver-config", writeFile(t, "c", garbage)}, "--driver-config"},
		{"garbled JSON", []string{"--driver-config", writeFile(t, "c", `{"host":`)}, "--driver-config"},
		{"unknown field", []string{"--driver-config", writeFile(t, "c", `{"hots": "h"}`)}, "hots"},
		{"two objects", []string{"--driver-config", writeFile(t, "c", `{} {}`)}, "--driver-config"},
		{"unknown driver", []string{"--driver-config", writeFile(t, "c", "[agent]\nenabled_drivers = nvmf_spdk_driver\n")}, "nvmf_spdk_driver"},
		{"a driver twice", []string{"--driver-config", writeFile(t, "c", "[agent]\nenabled_drivers = pci_driver, pci_driver\n")}, "pci_driver"},
		{"no vGPU addresses", []string{"--driver-config", writeFile(t, "c", "[gpu_devices]\nenabled_vgpu_types = nvidia-35\n")},
			"Invalid vGPU config: Missing device addresses config for vgpu type nvidia-35"},
		{"vGPU address twice", []string{"--driver-config", writeFile(t, "c", "[gpu_devices]\nenabled_vgpu_types = nvidia-35,nvidia-36\n"+
			"[vgpu_nvidia-35]\ndevice_addresses = 0000:84:00.0\n[vgpu_nvidia-36]\ndevice_addresses = 0000:84:00.0\n")},
			"Invalid vGPU config: Duplicate types for PCI address 0000:84:00.0"},
		{"vGPU address", []string{"--driver-config", writeFile(t, "c", "[gpu_devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 84:00.0\n")},
			"Invalid vGPU config: Incorrect PCI address: 84:00.0"},
		{"flag", []string{"--driver-config", writeFile(t, "c", "[gpu_devices]\nfilter_sriov_vfs = perhaps\n")}, "[gpu_devices] filter_sriov_vfs"},
		{"mapping", []string{"--driver-config", writeFile(t, "c", "[nic_devices]\nenabled_nic_types = x\n[x]\nphysical_device_mappings = physnet1\n")}, "[x] physical_device_mappings"},
		{"whitelist", []string{"--driver-config", writeFile(t, "c", "[pci]\npassthrough_whitelist = 8086\n")}, "[pci] passthrough_whitelist"},
		{"whitelist entry", []string{"--driver-config", writeFile(t, "c", "[pci]\npassthrough_whitelist = {\"vendor_id\": \"intel\"}\n")}, "vendor_id"},
		{"no nova.conf", []string{"--nova-conf", sys + "/none"}, "--nova-conf: open"},
		{"garbled nova.conf", []string{"--nova-conf", writeFile(t, "c", garbage)}, "--nova-conf"},
		{"device_spec", []string{"--nova-conf", writeFile(t, "c", "[pci]\ndevice_spec = *\n")}, `[pci] device_spec: "*"`},
		{"device_spec entry", []string{"--nova-conf", writeFile(t, "c", "[pci]\ndevice_spec = [{}, {\"address\": \"1:2:3:4\"}]\n")}, "[pci] device_spec entry 1"},
		{"mdev address", []string{"--nova-conf", writeFile(t, "c", "[devices]\nenabled_mdev_types = a\n[mdev_a]\ndevice_addresses = here\n")}, "[mdev_a] device_addresses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := tt.args
			if args[0] != "--sysfs" {
				args = append([]string{"--sysfs", sys}, args...)
			}
			got := discover(t, args...)
			if got.status != command.StatusBadInput || !strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("status %d, %q, output %q; want 2 and one line with %q", got.status, got.stderr, got.stdout, tt.want)
			}
		})
	}
}

func TestDiscoverRefusesAHugeConfiguration(t *testing.T) {
	t.Parallel()
	huge := writeFile(t, "huge.conf", "")
	must(t, os.Truncate(huge, osloconf.MaxSize+1))
	for _, flag := range []string{"--driver-config", "--nova-conf"} {
		if got := discover(t, flag, huge); got.status != command.StatusBadInput || !strings.Contains(got.stderr, "has more than") {
			t.Errorf("%s: status %d, %q", flag, got.status, got.stderr)
		}
	}
}

// The test expects no hardware: the command succeeds, and finds the same twice.
func TestDiscoverOnTheMachineItRunsOn(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/sys/bus"); err != nil {
		t.Skipf("no sysfs here: %v", err)
	}
	first, second := discover(t), discover(t, "--sysfs", "/sys")
	if first.status != 0 || first.stderr != "" {
		t.Errorf("status %d, %s", first.status, first.stderr)
	}
	if diff := cmp.Diff(first.stdout, second.stdout); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	t.Log(first.stdout)
}

// snapshot has the type, the mode, the time and the content of all files below a directory.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case e.Type().IsRegular():
			if content, err = os.ReadFile(path); errors.Is(err, fs.ErrPermission) {
				err = nil // written to only
			}
		case e.Type()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(path)
			content = []byte(target)
		}
		found[path] = fmt.Sprintf("%s %s %q", info.Mode(), info.ModTime(), content)
		return err
	}))
	return found
}

func TestDiscoverWritesNothing(t *testing.T) {
	t.Parallel()
	dir := laidOut(t, shared())
	config := writeFile(t, "cyborg.conf", "[gpu_devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 0000:84:00.0\n")
	before := snapshot(t, dir)
	if got := discover(t, "--sysfs", dir, "--driver-config", config); got.status != 0 || len(got.Devices) == 0 {
		t.Fatalf("status %d, %s, devices %v", got.status, got.stderr, got.Devices)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the tree changed (-before +after):\n%s", diff)
	}
}

// A function that is unplugged during the search is offered, missing or a problem; the
// others are always found.
func TestDiscoverWhileAFunctionComesAndGoes(t *testing.T) {
	t.Parallel()
	dir := laidOut(t, shared())
	bus, card := filepath.Join(dir, "bus/pci/devices/0000:3b:00.0"), filepath.Join(dir, "devices/pci0000:3b/0000:3b:00.0")
	target, err := os.Readlink(bus)
	must(t, err)
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			default:
				err = errors.Join(os.Remove(bus), os.Rename(card, card+".off"), os.Rename(card+".off", card), os.Symlink(target, bus))
			}
		}
		<-stop
		done <- err
	}()
	for range 50 {
		got := discover(t, "--sysfs", dir)
		if got.status != 0 {
			t.Fatalf("status %d, %s", got.status, got.stderr)
		}
		for _, p := range got.Problems {
			if p.Address != "0000:3b:00.0" || p.File == "" || p.Reason == "" {
				t.Errorf("problem %+v", p)
			}
		}
		others := slices.DeleteFunc(got.offered(), func(line string) bool { return strings.HasPrefix(line, "0000:3b:00.0 ") })
		if diff := cmp.Diff([]string{"0000:84:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_1EB8", "0000:3d:00.0 CUSTOM_QAT"}, others); diff != "" {
			t.Errorf("the others (-want +got):\n%s", diff)
		}
	}
	close(stop)
	must(t, <-done)
}

func TestDiscoverReportsUnreadableFiles(t *testing.T) {
	t.Parallel()
	dir := laidOut(t, shared())
	file := "devices/pci0000:3b/0000:3b:00.0/vendor"
	must(t, os.Chmod(filepath.Join(dir, file), 0))
	if _, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
		t.Skip("the superuser may read everything")
	}
	got := discover(t, "--sysfs", dir)
	want := []foundProblem{{Address: "0000:3b:00.0", File: "bus/pci/devices/0000:3b:00.0/vendor", Driver: "nvidia", Reason: "permission denied"}}
	if diff := cmp.Diff(want, got.Problems); diff != "" || len(got.Devices) != 2 {
		t.Errorf("devices %v, problems (-want +got):\n%s", got.offered(), diff)
	}
}

// The operators' page has the real output, and names every driver and status.
func TestTheOperatorsPageShowsWhatDiscoverPrints(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../docs/operators.md")
	must(t, err)
	_, section, _ := strings.Cut(string(data), "\n## 8. What is in this host\n")
	_, want, _ := strings.Cut(section, "```text\n")
	want, _, _ = strings.Cut(want, "```")
	sys := capturedTree(t, "nvidia-p100")
	if diff := cmp.Diff(want, strings.ReplaceAll(printed(t, sys), sys, "captured/sys")); diff != "" {
		t.Errorf("(-docs +cysim discover):\n%s", diff)
	}
	var help, stderr bytes.Buffer
	if status := runDiscover(t, &help, &stderr, "--help"); status != 0 {
		t.Fatalf("status %d, %s", status, stderr.String())
	}
	for _, name := range builtin.Hardware() {
		if !strings.Contains(section, "`"+name+"`") || !strings.Contains(help.String(), name) {
			t.Errorf("driver %s is missing from the page or the help", name)
		}
	}
	for _, status := range []int{0, command.StatusFailed, command.StatusBadInput, command.StatusClaimedTwice} {
		if !strings.Contains(section, fmt.Sprintf("\n| %d | ", status)) || !strings.Contains(help.String(), fmt.Sprint(status)) {
			t.Errorf("exit status %d is missing from the page or the help", status)
		}
	}
}
