package fpga_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const (
	instanceA = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	instanceB = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"
	imageID   = "cccccccc-0000-4000-8000-000000000001"
)

// world is a cloud of one host with real drivers, and a flow against it.
type world struct {
	t     *testing.T
	cloud *simcloud.Cloud
	flow  *spawn.Flow
}

// newWorld lets the host cn0 report with the drivers.
func newWorld(t *testing.T, mode fakecyborg.PlacementMode, images []simcloud.Image, profiles map[string]map[string]string, drivers ...driver.Driver) *world {
	t.Helper()
	model := simcloud.Model{Hosts: []simcloud.Host{}, Images: images, DeviceProfiles: []simcloud.DeviceProfile{}}
	model.Cyborg.PlacementMode = mode
	for name, group := range profiles {
		model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: name, Groups: []map[string]string{group}})
	}
	w := &world{t: t, cloud: simcloud.Run(t, model)}
	w.addHost(driver.Host{Name: "cn0", Drivers: drivers})
	w.report()
	w.makeFlow()
	return w
}

// addHost adds a compute node to Placement and its agent to Cyborg.
func (w *world) addHost(host driver.Host) {
	w.t.Helper()
	if _, err := w.cloud.Placement.CreateProvider(placementsim.ResourceProvider{
		Name: host.Name, Traits: []string{"COMPUTE_ACCELERATORS", "OWNER_NOVA"},
		Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 64}, "MEMORY_MB": {Total: 65536}, "DISK_GB": {Total: 4000}},
	}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.cloud.Cyborg.AddHost(host); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) makeFlow() {
	w.t.Helper()
	events := externalevent.NewRegistry()
	w.cloud.HandleEvents(events.Handler())
	flow, err := spawn.NewFromProvider(w.cloud.Provider(w.t), spawn.WithServiceProvider(w.cloud.ServiceProvider(w.t)),
		spawn.WithEvents(events), spawn.WithConfig(spawn.Config{Weighers: []spawn.Weigher{spawn.WeigherFunction}}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.flow = flow
}

func (w *world) report() {
	w.t.Helper()
	if err := w.cloud.Cyborg.Report(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// spawn walks from the profile to the XML.
func (w *world) spawn(instance, profile string) (*spawn.Result, error) {
	w.t.Helper()
	result, err := w.flow.Run(w.t.Context(), spawn.Request{Instance: instance, Flavor: requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 2, MemoryMB: 2048, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}})
	if err == nil {
		guest := sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}
		if err := w.cloud.DefineGuest(guest); err != nil {
			w.t.Fatal(err)
		}
		validate(w.t, result.Domain)
	}
	w.cloud.CheckNoLeaks(w.t)
	return result, err
}

func (w *world) mustSpawn(instance, profile string) *spawn.Result {
	w.t.Helper()
	result, err := w.spawn(instance, profile)
	if err != nil {
		w.t.Fatalf("%s: %v", profile, err)
	}
	return result
}

// give spawns a guest that must get these functions.
func (w *world) give(instance, profile string, functions ...string) *spawn.Result {
	w.t.Helper()
	result := w.mustSpawn(instance, profile)
	if diff := cmp.Diff(functions, given(w.t, result)); diff != "" {
		w.t.Errorf("%s: given (-want +got):\n%s", profile, diff)
	}
	return result
}

// release ends a guest.
func (w *world) release(instance string) {
	w.t.Helper()
	if err := w.flow.Release(w.t.Context(), instance); err != nil {
		w.t.Fatal(err)
	}
	w.cloud.RemoveGuest(instance)
}

// validate asks libvirt's own schema, where it is installed.
func validate(t *testing.T, domain []byte) {
	t.Helper()
	tool, err := exec.LookPath("virt-xml-validate")
	if err != nil {
		return
	}
	file := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(file, domain, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), tool, file, "domain").CombinedOutput(); err != nil {
		t.Errorf("virt-xml-validate: %v\n%s", err, out)
	}
}

// given are the functions that a result has in its domain, as bus:device.function.
func given(t *testing.T, r *spawn.Result) []string {
	t.Helper()
	var list []string
	for _, arq := range r.ARQs {
		info := make(map[string]string)
		for key, value := range arq.AttachHandleInfo {
			info[key] = fmt.Sprint(value)
		}
		at := info["bus"] + ":" + info["device"] + "." + info["function"]
		text := `bus="0x` + info["bus"] + `" slot="0x` + info["device"] + `" function="0x` + info["function"] + `"`
		if !strings.Contains(string(r.Domain), text) {
			t.Errorf("the domain lacks %s:\n%s", text, r.Domain)
		}
		list = append(list, at)
	}
	slices.Sort(list)
	return list
}

func newIntel(t *testing.T, config fpga.Config, tree driver.Tree) *fpga.Intel {
	t.Helper()
	if config.Host == "" {
		config.Host = "cn0"
	}
	d, err := fpga.NewIntel(config, tree)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func image(t *testing.T, kind string, functions ...string) []simcloud.Image {
	return []simcloud.Image{{ID: imageID, Data: string(gbs(t, kind, functions...)), Properties: map[string]string{"accel:function_id": id(functions[0])}}}
}

func TestACardIsProgrammedOnTheWayToTheGuest(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2))
	w := newWorld(t, fakecyborg.ModeNested, image(t, "2", "c"), map[string]map[string]string{
		"orchestrated": {"resources:FPGA": "1", "trait:CUSTOM_FPGA_REGION_INTEL_" + traitID("2"): "required",
			"trait:CUSTOM_PROGRAMMABLE": "required", "accel:function_id": id("c")},
		"programmed": {"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("c"): "required"},
		"former":     {"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("b"): "required"},
	}, newIntel(t, fpga.Config{}, tree))
	w.give(instanceA, "orchestrated", "5e:00.2")
	afu, err := tree.ReadFile("class/fpga/intel-fpga-dev.2/intel-fpga-port.1/afu_id")
	if err != nil || strings.TrimSpace(string(afu)) != id("c") {
		t.Errorf("the kernel shows %q, %v", afu, err)
	}
	w.report() // and the driver believes the kernel
	if diff := cmp.Diff(map[string]string{"_region0": "a", "_region1": "c"}, loaded(intel(t, fpga.Config{}, tree))); diff != "" {
		t.Errorf("the next discovery (-want +got):\n%s", diff)
	}
	if _, err := w.spawn(instanceB, "former"); err == nil {
		t.Error("the function that was replaced is still to be had")
	}
	w.release(instanceA)
	if _, err := w.spawn(instanceB, "programmed"); err != nil {
		t.Errorf("the new function is not to be had: %v", err)
	}
}

func TestAPreprogrammedFunctionIsGivenAsItIs(t *testing.T) {
	t.Parallel()
	no := false
	tree := drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2))
	config := fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Regions: []fpga.RegionConfig{{Region: 1, Programmable: &no}}}}}
	group := func(more ...string) map[string]string {
		g := map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_REGION_INTEL_" + traitID("2"): "required"}
		for i := 0; i < len(more); i += 2 {
			g[more[i]] = more[i+1]
		}
		return g
	}
	w := newWorld(t, fakecyborg.ModeTree, image(t, "2", "c"), map[string]map[string]string{
		"afaas":        group("trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_"+traitID("b"), "required"),
		"programmable": group("trait:CUSTOM_PROGRAMMABLE", "required"),
		"anyway":       group("accel:bitstream_id", imageID),
	}, newIntel(t, config, tree))
	if _, err := w.spawn(instanceA, "programmable"); err == nil {
		t.Error("the region is called programmable")
	}
	if _, err := w.spawn(instanceA, "anyway"); err == nil {
		t.Error("the region was programmed")
	}
	if got := loaded(intel(t, config, tree)); got["_region1"] != "b" {
		t.Errorf("functions %v", got)
	}
	w.give(instanceA, "afaas", "5e:00.2")
}

func TestARegionInUseKeepsItsFunction(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, intelCard(pf, 0, "1", "aa", 2))
	w := newWorld(t, fakecyborg.ModeTree, image(t, "1", "c", "d"), map[string]map[string]string{
		"present": {"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("a"): "required"},
		"another": {"resources:FPGA": "1", "accel:function_id": id("c")},
		"both":    {"resources:FPGA": "2", "accel:function_id": id("c")},
	}, newIntel(t, fpga.Config{}, tree))
	w.mustSpawn(instanceA, "present")
	if _, err := w.spawn(instanceB, "another"); err == nil {
		t.Error("a region was programmed while another guest had it")
	}
	if got := loaded(intel(t, fpga.Config{}, tree))[""]; got != "a" {
		t.Errorf("functions %q, want a", got)
	}
	w.release(instanceA)
	w.give(instanceB, "both", "5e:00.1", "5e:00.2")
	if got := loaded(intel(t, fpga.Config{}, tree))[""]; got != "cd" {
		t.Errorf("functions %q, want one for each port of the image", got)
	}
}

func TestBothFunctionsOfTheDrawingReachTheirGuests(t *testing.T) {
	t.Parallel()
	function := func(digit string) map[string]string {
		return map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID(digit): "required"}
	}
	w := newWorld(t, fakecyborg.ModeNested, nil, map[string]map[string]string{"a": function("a"), "b": function("b")},
		newIntel(t, fpga.Config{SeparateFunctions: true}, drawing(t)))
	for instance, want := range map[string][2]string{instanceB: {"b", "5e:00.2"}, instanceA: {"a", "5e:00.1"}} {
		w.give(instance, want[0], want[1])
	}
}

// A region with two functions gives a guest the function that its profile names, in any order, or refuses.
func TestARegionWithTwoFunctionsAttachesTheNamedOne(t *testing.T) {
	t.Parallel()
	group := func(key, value string) map[string]string { return map[string]string{"resources:FPGA": "1", key: value} }
	profiles := map[string]map[string]string{"any": {"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required"}}
	for _, digit := range []string{"a", "b", "c", "d"} {
		profiles["trait-"+digit] = group("trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_"+traitID(digit), "required")
		profiles["id-"+digit] = group("accel:function_id", id(digit))
	}
	profiles["name-c"] = group("accel:function_name", "both")
	for _, tt := range []struct {
		name            string
		image           []string // the functions of an image
		named           string   // that of them which its properties name
		spawns          [][2]string
		refused, reason string
	}{
		{"by trait", nil, "", [][2]string{{"trait-b", "5e:00.2"}, {"trait-a", "5e:00.1"}}, "", ""},
		{"by id", nil, "", [][2]string{{"id-b", "5e:00.2"}, {"id-a", "5e:00.1"}}, "", ""},
		{"used up", nil, "", [][2]string{{"id-b", "5e:00.2"}}, "trait-b", "has no free attach handle that leads to function CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("b")},
		{"given away", nil, "", [][2]string{{"any", "5e:00.1"}}, "id-a", "has no free attach handle that leads to function CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("a")},
		{"written", []string{"c", "d"}, "c", [][2]string{{"id-c", "5e:00.1"}, {"trait-d", "5e:00.2"}}, "", ""},
		{"the second one written", []string{"d", "c"}, "c", [][2]string{{"id-c", "5e:00.2"}, {"trait-d", "5e:00.1"}}, "", ""},
		{"by name", []string{"d", "c"}, "c", [][2]string{{"name-c", "5e:00.2"}, {"id-d", "5e:00.1"}}, "", ""},
	} {
		for _, mode := range []fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested} {
			t.Run(tt.name+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				var images []simcloud.Image
				if tt.image != nil {
					images = image(t, "1", tt.image...)
					images[0].Properties = map[string]string{"accel:function_id": id(tt.named), "accel:function_name": "both"}
				}
				w := newWorld(t, mode, images, profiles, newIntel(t, fpga.Config{}, drawing(t)))
				for n, want := range tt.spawns {
					w.give([]string{instanceA, instanceB}[n], want[0], want[1])
					w.report()
				}
				if tt.refused == "" {
					return
				}
				if _, err := w.spawn(instanceB, tt.refused); err == nil || !strings.Contains(err.Error(), tt.reason) {
					t.Errorf("%s: got %v, want that it %s", tt.refused, err, tt.reason)
				}
			})
		}
	}
}

func TestACardOfEachVendorReachesAGuest(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, append(alveo("0000:3b:00"), intelCard(pf, 0, "1", "a", 0), inspurCard("0000:3c:00.0"))...)
	config := fpga.Config{Host: "cn0"}
	doubled := fpga.Config{Host: "cn0", DoubledHandles: true}
	made := func(d driver.Driver, err error) driver.Driver {
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, tt := range []struct {
		name   string
		driver driver.Driver
		group  map[string]string
		want   []string
	}{
		{"intel", newIntel(t, config, tree), map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INTEL": "required"}, []string{"5e:00.0"}},
		{"xilinx", made(fpga.NewXilinx(config, tree)), map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_PRODUCT_ID_5001": "required"}, []string{"3b:00.1"}},
		{"xilinx doubled", made(fpga.NewXilinx(doubled, tree)), map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"}, []string{"3b:00.0", "3b:00.1"}},
		{"xilinx programmed", made(fpga.NewXilinx(config, tree)), map[string]string{"resources:FPGA": "1", "accel:bitstream_id": imageID}, []string{"3b:00.1"}},
		{"inspur", made(fpga.NewInspur(config, tree)), map[string]string{"resources:FPGA": "1", "trait:CUSTOM_FPGA_INSPUR": "required"}, []string{"3c:00.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fakecyborg.ModeTree, image(t, "", "c"), map[string]map[string]string{"p": tt.group}, tt.driver)
			w.give(instanceA, "p", tt.want...)
		})
	}
}

// TestAFunctionKeepsItsTrait: AFaaS, in each shape of names. Glance, the flavor and the kernel write the
// id of the function in three forms; its trait is the same after the programming and after each report.
func TestAFunctionKeepsItsTrait(t *testing.T) {
	t.Parallel()
	const dashed, bare = "d8424dc4-a4a3-c413-f89e-433683f9040b", "d8424dc4a4a3c413f89e433683f9040b"
	for shape, want := range map[driver.TraitShape]struct{ class, trait string }{
		driver.ShapeShipped:         {"FPGA", "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B"},
		driver.ShapeWallaby:         {"FPGA", "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B"},
		driver.ShapeRockyScheduling: {"CUSTOM_ACCELERATOR_FPGA", "CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B"},
		driver.ShapeRockyAgent:      {"CUSTOM_ACCELERATOR_FPGA", "CUSTOM_FPGA_INTEL_FUNCTION_D8424DC4_A4A3_C413_F89E_433683F9040B"},
	} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			group := func(key, value string) map[string]string {
				return map[string]string{"resources:" + want.class: "1", key: value}
			}
			tree := drivertest.Tree(t, intelCard(pf, 0, "1", "a", 1), intelCard("0000:5f:00.0", 1, "1", "a", 1))
			w := newWorld(t, fakecyborg.ModeTree,
				[]simcloud.Image{{ID: imageID, Data: string(marshal(t, fpga.Bitstream{RegionType: id("1"), Functions: []string{bare}})), Properties: map[string]string{"accel:function_id": dashed}}},
				map[string]map[string]string{"orchestrated": group("accel:function_id", bare), "pre-programmed": group("trait:"+want.trait, "required")},
				newIntel(t, fpga.Config{Policy: driver.Policy{TraitShape: shape}}, tree))
			if _, err := w.spawn(instanceA, "pre-programmed"); err == nil {
				t.Fatal("no region has the function yet")
			}
			result := w.mustSpawn(instanceA, "orchestrated")
			region := result.ARQs[0].DeviceRPUUID
			for report := range 4 { // the first look is before the first report
				if diff := cmp.Diff([]string{want.trait}, w.functions(region)); diff != "" {
					t.Errorf("after %d reports (-want +got):\n%s", report, diff)
				}
				w.report()
			}
			if got := w.bitstream(region); got != imageID {
				t.Errorf("bitstream %q, want %s", got, imageID)
			}
			w.release(instanceA)
			for i, profile := range []string{"pre-programmed", "orchestrated"} { // the weigher prefers the loaded region
				instance := []string{instanceA, instanceB}[i]
				again := w.mustSpawn(instance, profile)
				if got := again.ARQs[0].DeviceRPUUID; got != region {
					t.Errorf("%s: provider %s, want %s", profile, got, region)
				}
				w.release(instance)
			}
		})
	}
}

// functions are the traits of functions of a provider in Placement.
func (w *world) functions(provider string) (list []string) {
	w.t.Helper()
	p, err := w.cloud.Placement.ResourceProvider(provider)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, trait := range p.Traits {
		if strings.Contains(trait, "_FUNCTION_") {
			list = append(list, trait)
		}
	}
	return list
}

// bitstream is what Cyborg knows to be in the region of a provider.
func (w *world) bitstream(provider string) string {
	for _, d := range w.cloud.Cyborg.Deployables() {
		if d.ProviderUUID == provider {
			return d.BitstreamID
		}
	}
	return "no such region"
}
