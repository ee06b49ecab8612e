package builtin_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/qat"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func discover(t testing.TB, c builtin.Config, tree driver.Tree) map[string]driver.Report {
	t.Helper()
	drivers := load(t, c, tree)
	reports := driver.DiscoverAll(t.Context(), drivers)
	drivertest.Check(t, drivers, reports)
	byName := make(map[string]driver.Report)
	for i, d := range drivers {
		byName[d.Name()] = reports[i]
	}
	return byName
}

// offered lists devices with their resource classes, and what was skipped.
func offered(report driver.Report) []string {
	var list []string
	for _, d := range report.Devices {
		text := d.Type + " " + d.ControlPath.Address().String()
		for _, p := range d.Deployables {
			text += fmt.Sprintf(" %s:%d", p.Class, p.NumAccelerators)
		}
		list = append(list, text)
	}
	for _, l := range report.LeftOut {
		list = append(list, "left out "+l.Address)
	}
	return list
}

func TestEveryDeviceOfOneHostIsReportedOnce(t *testing.T) {
	t.Parallel()
	got := make(map[string][]string)
	for name, report := range discover(t, allOn(), generate(t, everything())) {
		if len(report.Problems) > 0 {
			t.Errorf("%s: %v", name, report.Problems)
		}
		got[name] = offered(report)
	}
	want := map[string][]string{
		"fake":        {"FPGA 0000:0c:00.0 FPGA:16"},
		"nvidia":      {"GPU 0000:10:00.0 PGPU:1", "GPU 0000:11:00.0 VGPU:16", "GPU 0000:1f:00.0 VGPU:2", "left out 0000:1f:00.4", "left out 0000:1f:00.5"},
		"intel_fpga":  {"FPGA 0000:12:00.0 FPGA:1", "FPGA 0000:13:00.0 FPGA:1 FPGA:1", "FPGA 0000:20:00.0 FPGA:1", "left out 0000:13:00.0"},
		"xilinx_fpga": {"FPGA 0000:14:00.0 FPGA:1", "left out 0000:14:00.0"},
		"inspur_fpga": {"FPGA 0000:15:00.0 FPGA:1"},
		"intel_qat":   {"QAT 0000:16:00.0 CUSTOM_QAT:1 CUSTOM_QAT:1", "left out 0000:16:00.0"},
		"intel_nic":   {"NIC 0000:17:00.0 CUSTOM_NIC:1 CUSTOM_NIC:1", "left out 0000:17:00.0"},
		"inspur_ssd":  {"SSD 0000:18:00.0 CUSTOM_SSD:1", "left out 0000:19:00.0"},
		"ascend":      {"AICHIP 0000:1a:00.0 CUSTOM_AICHIP:1"},
		"hpts":        {"HPTS 0000:1b:00.0 CUSTOM_ACCELERATOR_HPTS:1"},
		"pci":         {"GPU 0000:1c:00.1 CUSTOM_PCI:1", "GPU 0000:1c:00.2 CUSTOM_PCI:1", "left out 0000:1d:00.0"},
		"mdev":        {"GPU mtty CUSTOM_MTTY:12"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOneShapeForAllDrivers(t *testing.T) {
	t.Parallel()
	for shape, tt := range map[driver.TraitShape]struct{ class, traits string }{
		driver.ShapeRockyScheduling: {"CUSTOM_ACCELERATOR_", "OWNER_CYBORG CUSTOM_"},
		driver.ShapeRockyAgent:      {"CUSTOM_ACCELERATOR_", "OWNER_CYBORG CUSTOM_"},
		driver.ShapeWallaby:         {"", "OWNER_CYBORG CUSTOM_"},
	} {
		c := allOn()
		c.TraitShape = shape
		for name, report := range discover(t, c, generate(t, everything())) {
			if name == "fake" {
				continue // it is no hardware
			}
			for _, d := range report.Devices {
				for _, p := range d.Deployables {
					traits, middle := strings.Join(p.Traits, " "), ""
					if shape != driver.ShapeWallaby {
						middle = d.Type
					}
					if !strings.HasPrefix(traits, tt.traits+middle) || !strings.HasPrefix(p.Class, tt.class+middle) && tt.class != "" {
						t.Errorf("%s: %s: %s %s", shape, p.Name, p.Class, traits)
					}
				}
			}
		}
	}
}

func TestTwoDriversOfOneHostThatWantOneAddress(t *testing.T) {
	t.Parallel()
	c := allOn()
	c.NVIDIA = &nvidia.Config{EnabledVGPUTypes: c.NVIDIA.EnabledVGPUTypes[:1]} // pci takes no functions with vGPU types
	c.PCI.PassthroughWhitelist = pci.Whitelist{{VendorID: "10de"}, {VendorID: "8086", ProductID: "37c9"}}
	reports := discover(t, c, generate(t, everything()))
	for name, want := range map[string]string{"nvidia": "nvidia and pci", "intel_qat": "intel_qat and pci"} {
		if len(reports[name].Devices) > 0 || len(reports[name].Problems) == 0 || !strings.Contains(reports[name].Problems[0].Error(), want) {
			t.Errorf("%s: %+v", name, reports[name])
		}
	}
	if len(reports["pci"].Devices) > 0 {
		t.Errorf("pci: %v", offered(reports["pci"]))
	}
}

// tally counts how often each file, directory and link of a tree is read, by the name as
// it is given, or with resolve by the place that the name leads to.
type tally struct {
	driver.Tree
	resolve bool
	mu      sync.Mutex
	reads   map[string]int
}

// place follows the links on the way of a name.
func (c *tally) place(name string, last bool) string {
	done := "."
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target, err := c.Tree.Readlink(next)
		if err != nil || len(rest) == 0 && !last {
			done = next
			continue
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done
}

func (c *tally) note(name string) {
	if kind, where, _ := strings.Cut(name, " "); c.resolve {
		name = kind + " " + c.place(where, kind != "link")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads[name]++
}

func (c *tally) ReadFile(name string) ([]byte, error) {
	c.note("file " + name)
	return c.Tree.ReadFile(name)
}

func (c *tally) ReadDir(name string) ([]fs.DirEntry, error) {
	c.note("dir " + name)
	return c.Tree.ReadDir(name)
}

func (c *tally) Readlink(name string) (string, error) {
	c.note("link " + name)
	return c.Tree.Readlink(name)
}

func TestOneDiscoveryOpensEachFileAtMostOnce(t *testing.T) {
	t.Parallel()
	c := &tally{Tree: generate(t, crowded(everything(), 200)), resolve: true, reads: make(map[string]int)}
	discover(t, allOn(), c)
	files := 0
	for name, n := range c.reads {
		counts := strings.Contains(name, "/mdev_supported_types/") && (strings.HasSuffix(name, "/devices") || strings.HasSuffix(name, "/available_instances"))
		if n > 1 && !counts { // mediated devices are counted twice, since they change
			t.Errorf("%s is read %d times", name, n)
		}
		if strings.HasPrefix(name, "file ") {
			files++
		}
	}
	if files < 3*200 {
		t.Errorf("%d files were read, which cannot be all", files)
	}
}

func TestEveryDiscoverySeesThePresentTree(t *testing.T) {
	t.Parallel()
	m := generate(t, everything())
	drivers := load(t, allOn(), m)
	count := func() (n int) {
		reports := driver.DiscoverAll(t.Context(), drivers)
		for _, r := range reports {
			for _, d := range r.Devices {
				n += len(d.Deployables)
			}
		}
		return n
	}
	before := count()
	if err := m.WriteFile("bus/pci/devices/0000:16:00.0/sriov_numvfs", []byte("0")); err != nil {
		t.Fatal(err)
	}
	if after := count(); after != before-1 { // two virtual functions went, the physical one came
		t.Errorf("%d deployables, then %d", before, after)
	}
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	tree := sysfs.NewMemory()
	vgpu := func(types ...nvidia.VGPUType) builtin.Config {
		return builtin.Config{EnabledDrivers: []string{builtin.NVIDIA}, Host: "h", NVIDIA: &nvidia.Config{EnabledVGPUTypes: types}}
	}
	one := func(name string) builtin.Config { return builtin.Config{EnabledDrivers: []string{name}, Host: "h"} }
	spoiled := func(c builtin.Config, change func(*builtin.Config)) builtin.Config {
		change(&c)
		return c
	}
	for want, c := range map[string]builtin.Config{
		`enabled_drivers[0]: unknown driver "amd_driver" (known: fake_driver, nvidia_gpu_driver`: one("amd_driver"),
		`enabled_drivers[1]: "pci_driver" occurs twice`:                                          {EnabledDrivers: []string{"pci_driver", "pci_driver"}, Host: "h"},
		"no host name": {EnabledDrivers: []string{builtin.PCI}},
		"Invalid vGPU config: Missing device addresses config for vgpu type a": vgpu(nvidia.VGPUType{Name: "a"}),
		"Invalid vGPU config: Duplicate types for PCI address 0000:01:00.0":    vgpu(nvidia.VGPUType{Name: "a", DeviceAddresses: []string{"0000:01:00.0"}}, nvidia.VGPUType{Name: "b", DeviceAddresses: []string{"0000:01:00.0"}}),
		"Invalid vGPU config: Incorrect PCI address: 01:00.0":                  vgpu(nvidia.VGPUType{Name: "a", DeviceAddresses: []string{"01:00.0"}}),
		`qat.host: "other" is not "h"`:                                         spoiled(one(builtin.IntelQAT), func(c *builtin.Config) { c.QAT = &qat.Config{Host: "other"} }),
		`trait shape "train"`:                                                  spoiled(one(builtin.HPTS), func(c *builtin.Config) { c.TraitShape = "train" }),
		"passthrough_whitelist entry 0":                                        spoiled(one(builtin.PCI), func(c *builtin.Config) { c.PCI = &pci.Config{PassthroughWhitelist: pci.Whitelist{{VendorID: "x"}}} }),
	} {
		if _, err := builtin.New(c, tree); !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := builtin.New(one(builtin.NVIDIA), nil); !errors.Is(err, driver.ErrConfig) {
		t.Errorf("without a tree: %v", err)
	}
	for name, want := range map[*builtin.Config][]string{
		{Host: "h"}: nil, {Host: "h", EnabledDrivers: []string{}}: nil, {Host: "h", Fake: true}: {"fake"},
	} {
		drivers, err := builtin.New(*name, nil)
		var got []string
		for _, d := range drivers {
			got = append(got, d.Name())
		}
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
}

func TestASectionsOptionsWin(t *testing.T) {
	t.Parallel()
	c := allOn()
	c.ExtraTraits, c.NVIDIA.ExtraTraits = []string{"CUSTOM_ALL"}, []string{"CUSTOM_GPU"}
	reports := discover(t, c, generate(t, everything()))
	for name, want := range map[string]string{"nvidia": "CUSTOM_GPU", "intel_qat": "CUSTOM_ALL"} {
		traits := reports[name].Devices[0].Deployables[0].Traits
		if !slices.Contains(traits, want) || slices.Contains(traits, "CUSTOM_ALL") != (want == "CUSTOM_ALL") {
			t.Errorf("%s: %v", name, traits)
		}
	}
}

func TestParseConfigRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"enabled_driver": []}`, `{"pci": {"whitelist": []}}`, `{"nvidia": {"trait_shapes": "x"}}`, `[]`, `{} {}`, ``, `{"host": 5}`} {
		if _, err := builtin.ParseConfig([]byte(text)); !errors.Is(err, driver.ErrConfig) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := builtin.ParseConfig([]byte(`{"enabled_drivers": ["pci_driver"], "host": "cn0", "trait_shape": "wallaby", "mounts": [],
		"pci": {"passthrough_whitelist": {"vendor_id": "8086"}, "extra_traits": ["CUSTOM_A"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := builtin.Config{EnabledDrivers: []string{"pci_driver"}, Host: "cn0", Policy: driver.Policy{TraitShape: "wallaby", Mounts: []string{}},
		PCI: &pci.Config{PassthroughWhitelist: pci.Whitelist{{VendorID: "8086"}}, Policy: driver.Policy{ExtraTraits: []string{"CUSTOM_A"}}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACaseOfBrokenFilesNamesEachDeviceOnce(t *testing.T) {
	t.Parallel()
	m := generate(t, everything())
	for _, address := range []string{"0000:10:00.0", "0000:16:00.0", "0000:18:00.0"} {
		m.SetFile("bus/pci/devices/"+address+"/class", []byte("?"))
	}
	m.SetFile("bus/pci/devices/nonsense/vendor", nil)
	problems := map[string]int{}
	for _, report := range discover(t, allOn(), m) {
		for _, p := range report.Problems {
			problems[p.Address]++
		}
	}
	want := map[string]int{"0000:10:00.0": 1, "0000:16:00.0": 1, "0000:18:00.0": 1, "nonsense": 1}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
