package nic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// port is the first port of an XXV710 with interface eth2, which is down.
func port(change ...func(*sysfs.PCIDevice)) sysfs.PCIDevice {
	d := sysfs.PCIDevice{Address: "0000:18:00.0", Vendor: "8086", Product: "158b", Class: "0200", Driver: "i40e",
		Interfaces: []sysfs.Interface{{Name: "eth2", MAC: "3c:fd:fe:00:00:02"}}}
	for _, c := range change {
		c(&d)
	}
	return d
}

// second makes it the other port, with interface eth3.
func second(d *sysfs.PCIDevice) {
	d.Address, d.Interfaces = "0000:18:00.1", []sysfs.Interface{{Name: "eth3"}}
}

func up(d *sysfs.PCIDevice) { d.Interfaces[0].Up = true }

func vfs(n int) func(*sysfs.PCIDevice) {
	return func(d *sysfs.PCIDevice) {
		d.VFs = &sysfs.VFs{Total: 64, Enabled: n, Offset: 16, Product: "154c", Driver: "iavf"}
	}
}

// static is upstream's example of a configuration.
func static(t testing.TB) nic.Config {
	t.Helper()
	var c nic.Config
	dec := json.NewDecoder(strings.NewReader(`{"host": "compute1", "enabled_nic_types": [{"name": "x710_static",
		"physical_device_mappings": "physnet1:eth2|eth3", "function_device_mappings": {"GTPv1": ["eth3", "eth2"]}}]}`))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

func discover(t *testing.T, c nic.Config, devices ...sysfs.PCIDevice) driver.Report {
	t.Helper()
	tree := drivertest.Tree(t, devices...)
	c.Host = "compute1"
	d, err := nic.New(c, tree)
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Discover(t, d)
}

func TestAWholePort(t *testing.T) {
	t.Parallel()
	address := driver.Info{"domain": "0000", "bus": "18", "device": "00", "function": "0"}
	handle := driver.Info{"domain": "0000", "bus": "18", "device": "00", "function": "0", "physical_network": "physnet1"}
	want := driver.Device{
		Vendor: "0x8086", Model: "miss_model_info", Type: "NIC",
		StdBoardInfo: `{"product_id": "0x158b"}`, VendorBoardInfo: "miss_vb_info",
		ControlPath: driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "compute1_0000:18:00.0", NumAccelerators: 1, DriverName: "intel_nic",
			Class: "CUSTOM_NIC", Traits: []string{"CUSTOM_PF", "CUSTOM_GTPV1", "CUSTOM_PHYSNET1"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: handle}},
		}},
	}
	report := discover(t, static(t), port(), port(second))
	if len(report.Devices) != 2 || len(report.Problems)+len(report.LeftOut) != 0 {
		t.Fatalf("report: %+v", report)
	}
	if diff := cmp.Diff(want, report.Devices[0]); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
}

func TestVirtualFunctionsShareTheNetworkOfTheirPort(t *testing.T) {
	t.Parallel()
	report := discover(t, static(t), port(vfs(2), up), port(second))
	if len(report.Devices) != 2 || len(report.Devices[0].Deployables) != 2 {
		t.Fatalf("report: %+v", report)
	}
	for i, p := range report.Devices[0].Deployables {
		if want := fmt.Sprintf("compute1_0000:18:02.%d", i); p.Name != want {
			t.Errorf("name %s, want %s", p.Name, want)
		}
		if diff := cmp.Diff([]string{"CUSTOM_VF", "CUSTOM_GTPV1", "CUSTOM_PHYSNET1"}, p.Traits); diff != "" {
			t.Errorf("traits (-want +got):\n%s", diff)
		}
		if got := p.AttachHandles[0].Info["physical_network"]; got != "physnet1" {
			t.Errorf("physical_network %q", got)
		}
	}
	if len(report.LeftOut) != 1 || report.LeftOut[0].Address != "0000:18:00.0" || !strings.Contains(report.LeftOut[0].Reason, "virtual functions (2)") {
		t.Errorf("left out: %+v", report.LeftOut)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	lone := port(func(d *sysfs.PCIDevice) { d.Product, d.Driver = "154c", "iavf" })
	for _, tt := range []struct {
		name    string
		config  nic.Config
		devices []sysfs.PCIDevice
		offered map[string]string // name of the deployable without the host, to its traits
		leftOut map[string]string // address to a part of the reason
	}{
		{name: "a port without a mapping", devices: []sysfs.PCIDevice{port()}, offered: map[string]string{"0000:18:00.0": "CUSTOM_PF"}},
		{name: "an X710", devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Product = "1572" })}, offered: map[string]string{"0000:18:00.0": "CUSTOM_PF"}},
		{name: "a port of a backplane", devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Product = "158a" })}, offered: map[string]string{"0000:18:00.0": "CUSTOM_PF"}},
		{name: "only a listed port", config: listing("0000:18:00.1"), devices: []sysfs.PCIDevice{port(), port(second)},
			offered: map[string]string{"0000:18:00.1": "CUSTOM_PF"}, leftOut: map[string]string{"0000:18:00.0": "device_addresses"}},
		{name: "the virtual functions of a listed port", config: listing("0000:AF:00.0", "0000:18:00.0"), devices: []sysfs.PCIDevice{port(vfs(2))},
			offered: map[string]string{"0000:18:02.0": "CUSTOM_VF", "0000:18:02.1": "CUSTOM_VF"}, leftOut: map[string]string{"0000:18:00.0": "virtual functions (2)"}},
		{name: "a listed virtual function", config: listing("0000:18:02.1"), devices: []sysfs.PCIDevice{port(vfs(2))},
			offered: map[string]string{"0000:18:02.1": "CUSTOM_VF"}, leftOut: map[string]string{"0000:18:00.0": "virtual functions (2)", "0000:18:02.0": "device_addresses"}},
		{name: "none of the virtual functions of a port", config: listing("0000:AF:02.1"), devices: []sysfs.PCIDevice{port(vfs(1))},
			leftOut: map[string]string{"0000:18:00.0": "virtual functions (1)", "0000:18:02.0": "device_addresses"}},
		{name: "an address in the other case", config: listing("0000:AF:00.0"), devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Address = "0000:af:00.0" })},
			offered: map[string]string{"0000:af:00.0": "CUSTOM_PF"}},
		{name: "not a port whose interface is up", devices: []sysfs.PCIDevice{port(up), port(second)},
			offered: map[string]string{"0000:18:00.1": "CUSTOM_PF"}, leftOut: map[string]string{"0000:18:00.0": "network interface eth2 is up"}},
		{name: "not a port with another driver", devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Driver = "igb_uio" })},
			leftOut: map[string]string{"0000:18:00.0": "bound to driver igb_uio"}},
		{name: "not a port whose interface is not to be seen", devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Interfaces = nil })},
			leftOut: map[string]string{"0000:18:00.0": "it may be up in another network namespace"}},
		{name: "a port whose interface is not to be seen, its driver allowed", config: nic.Config{Policy: driver.Policy{AllowedDrivers: []string{"i40e"}}},
			devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Interfaces = nil })}, offered: map[string]string{"0000:18:00.0": "CUSTOM_PF"}},
		{name: "a port for guests", devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Driver, d.Interfaces = "vfio-pci", nil })},
			offered: map[string]string{"0000:18:00.0": "CUSTOM_PF"}},
		{name: "a virtual function in a guest", devices: []sysfs.PCIDevice{lone}, offered: map[string]string{"0000:18:00.0": "CUSTOM_VF"}},
		{name: "a virtual function of an id that is not known",
			devices: []sysfs.PCIDevice{port(vfs(1), func(d *sysfs.PCIDevice) { d.VFs.Product = "9999" })},
			offered: map[string]string{"0000:18:02.0": "CUSTOM_VF"}, leftOut: map[string]string{"0000:18:00.0": "virtual functions (1)"}},
		{name: "not virtual functions of another card", devices: []sysfs.PCIDevice{port(vfs(2), func(d *sysfs.PCIDevice) { d.Product = "1583" })},
			leftOut: map[string]string{"0000:18:02.0": "virtual function of 0000:18:00.0", "0000:18:02.1": "virtual function of 0000:18:00.0"}},
		{name: "not a port with a virtual function on its bus, where nothing tells of SR-IOV",
			devices: []sysfs.PCIDevice{port(), port(func(d *sysfs.PCIDevice) { d.Address, d.Product = "0000:18:02.0", "154c" })},
			offered: map[string]string{"0000:18:02.0": "CUSTOM_VF"}, leftOut: map[string]string{"0000:18:00.0": "0000:18:02.0, a virtual function"}},
		{name: "a port with a virtual function on another bus",
			devices: []sysfs.PCIDevice{port(), port(func(d *sysfs.PCIDevice) { d.Address, d.Product = "0000:19:02.0", "154c" })},
			offered: map[string]string{"0000:18:00.0": "CUSTOM_PF", "0000:19:02.0": "CUSTOM_VF"}},
		{name: "not another card", devices: []sysfs.PCIDevice{port(func(d *sysfs.PCIDevice) { d.Product = "1521" })}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := discover(t, tt.config, tt.devices...)
			var offered map[string]string
			for _, d := range report.Devices {
				for _, p := range d.Deployables {
					if offered == nil {
						offered = make(map[string]string)
					}
					offered[strings.TrimPrefix(p.Name, "compute1_")] = strings.Join(p.Traits, " ")
				}
			}
			if diff := cmp.Diff(tt.offered, offered); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			for _, l := range report.LeftOut {
				if want, ok := tt.leftOut[l.Address]; !ok || !strings.Contains(l.Reason, want) {
					t.Errorf("left out %+v, want %q", l, want)
				}
			}
			if len(report.LeftOut) != len(tt.leftOut) || len(report.Problems) > 0 {
				t.Errorf("left out %v, want %v; problems %v", report.LeftOut, tt.leftOut, report.Problems)
			}
		})
	}
}

// listing is a configuration that lists addresses.
func listing(addresses ...string) nic.Config {
	return nic.Config{EnabledNICTypes: []nic.Type{{Name: "x710_static", DeviceAddresses: addresses}}}
}

func TestABadAddressIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	_, err := nic.New(listing("18:00.0"), drivertest.Tree(t))
	if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), "[x710_static] device_addresses") || !strings.Contains(err.Error(), "18:00.0") {
		t.Errorf("got %v", err)
	}
}

func TestAVirtualFunctionWhoseInterfaceIsUpIsTheHostsOwn(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, port(vfs(2)))
	tree.SetFile("bus/pci/devices/0000:18:02.1/net/eth9/flags", []byte("0x1003\n"))
	d, err := nic.New(nic.Config{Host: "compute1"}, tree)
	if err != nil {
		t.Fatal(err)
	}
	report, err := d.Discover(t.Context())
	if err != nil || len(report.Devices) != 1 || len(report.Devices[0].Deployables) != 1 || report.Devices[0].Deployables[0].Name != "compute1_0000:18:02.0" {
		t.Errorf("report %+v, error %v", report, err)
	}
	if len(report.LeftOut) != 2 || !strings.Contains(report.LeftOut[1].Reason, "interface eth9 is up") {
		t.Errorf("left out: %+v", report.LeftOut)
	}
}

func TestTheChosenTraitsAreInEveryShape(t *testing.T) {
	t.Parallel()
	for shape, want := range map[driver.TraitShape][]string{
		driver.ShapeShipped:         {"CUSTOM_PF", "CUSTOM_GTPV1", "CUSTOM_PHYSNET1"},
		driver.ShapeRockyScheduling: {"OWNER_CYBORG", "CUSTOM_NIC_INTEL", "CUSTOM_NIC_INTEL_XXV710", "CUSTOM_PF", "CUSTOM_GTPV1", "CUSTOM_PHYSNET1"},
		driver.ShapeRockyAgent:      {"OWNER_CYBORG", "CUSTOM_NIC_INTEL_XXV710", "CUSTOM_PF", "CUSTOM_GTPV1", "CUSTOM_PHYSNET1"},
		driver.ShapeWallaby:         {"OWNER_CYBORG", "CUSTOM_INTEL_158B", "CUSTOM_PF", "CUSTOM_GTPV1", "CUSTOM_PHYSNET1"},
	} {
		c := static(t)
		c.TraitShape = shape
		report := discover(t, c, port(), port(second))
		virtual := discover(t, c, port(vfs(1)), port(second)).Devices[0].Deployables[0].Traits
		if got := strings.ReplaceAll(strings.Join(virtual, " "), "CUSTOM_VF", "CUSTOM_PF"); got != strings.Join(want, " ") {
			t.Errorf("%s: traits of a virtual function: %s", shape, got)
		}
		if diff := cmp.Diff(want, report.Devices[0].Deployables[0].Traits); diff != "" {
			t.Errorf("%s: traits (-want +got):\n%s", shape, diff)
		}
	}
}

func TestAMappingToNoPortIsAProblem(t *testing.T) {
	t.Parallel()
	other := sysfs.PCIDevice{Address: "0000:01:00.0", Vendor: "8086", Product: "1521", Class: "0200", Interfaces: []sysfs.Interface{{Name: "eth3"}}}
	report := discover(t, static(t), port(), other)
	if len(report.Devices) != 1 || len(report.Problems) != 1 {
		t.Fatalf("report: %+v", report)
	}
	if p := report.Problems[0]; p.File != "class/net/eth3" || !errors.Is(p, driver.ErrConfig) {
		t.Errorf("problem: %+v", p)
	}
}

func TestMappingsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]nic.Mappings{
		"":                               {},
		"  ":                             {},
		"physnet1:eth2|eth3":             {"physnet1": {"eth2", "eth3"}},
		" physnet1 : eth2 , phys-2:ens1": {"physnet1": {"eth2"}, "phys-2": {"ens1"}},
	} {
		got, err := nic.ParseMappings(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"physnet1", ":eth2", "physnet1:", "physnet1:eth2|", "physnet1:eth2|eth2", "a:eth2,a:eth3", "a:eth2,", "ph+ys:eth2", "a:e/th", "a:an-interface-too-long", "a:b:c"} {
		if got, err := nic.ParseMappings(text); !errors.Is(err, driver.ErrConfig) {
			t.Errorf("%q: %v, %v, want ErrConfig", text, got, err)
		}
	}
}

func TestConfigurationErrors(t *testing.T) {
	t.Parallel()
	types := func(list ...nic.Type) nic.Config { return nic.Config{Host: "h", EnabledNICTypes: list} }
	for want, c := range map[string]nic.Config{
		"no host name":                  {},
		"trait_shape":                   {Host: "h", Policy: driver.Policy{TraitShape: "baroque"}},
		"entry 0 has no name":           types(nic.Type{}),
		"a appears twice":               types(nic.Type{Name: "a"}, nic.Type{Name: "a"}),
		"[a] physical_device_mappings":  types(nic.Type{Name: "a", PhysicalDeviceMappings: nic.Mappings{"phys net!": {"eth2"}}}),
		"[a] function_device_mappings":  types(nic.Type{Name: "a", FunctionDeviceMappings: nic.Mappings{"f": {}}}),
		"eth2 is on net1 and on net2":   types(nic.Type{Name: "a", PhysicalDeviceMappings: nic.Mappings{"net2": {"eth2"}, "net1": {"eth2"}}}),
		"[b] physical_device_mappings:": types(nic.Type{Name: "a", PhysicalDeviceMappings: nic.Mappings{"net2": {"eth2"}}}, nic.Type{Name: "b", PhysicalDeviceMappings: nic.Mappings{"net1": {"eth2"}}}),
	} {
		_, err := nic.New(c, sysfs.NewMemory())
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
	for _, text := range []string{`"a"`, `5`, `["a"]`, `{"a": "eth2"}`} {
		var m nic.Mappings
		if err := json.Unmarshal([]byte(text), &m); !errors.Is(err, driver.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", text, err)
		}
	}
}

func FuzzParseMappings(f *testing.F) {
	for _, seed := range []string{"", "physnet1:eth2|eth3", "a:b,c:d", "a:b|", ":,|", "é:è"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := nic.ParseMappings(text)
		if err != nil {
			if !errors.Is(err, driver.ErrConfig) {
				t.Errorf("error %v", err)
			}
			return
		}
		config := nic.Config{Host: "h", EnabledNICTypes: []nic.Type{{Name: "a", FunctionDeviceMappings: m}}}
		if _, err := nic.New(config, sysfs.NewMemory()); err != nil {
			t.Errorf("parsed and then refused: %v", err)
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var again nic.Mappings
		if err := json.Unmarshal(data, &again); err != nil || !cmp.Equal(m, again) {
			t.Errorf("written and read again: %v, %v", again, err)
		}
	})
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{port(), port(second, up)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	networks, err := nic.ParseMappings("physnet1:eth2|eth3")
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := nic.New(nic.Config{Host: "compute1", EnabledNICTypes: []nic.Type{
		{Name: "x710_static", PhysicalDeviceMappings: networks},
	}}, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	p := report.Devices[0].Deployables[0]
	fmt.Println(p.Name, p.Traits, p.AttachHandles[0].Info["physical_network"])
	fmt.Println(report.LeftOut[0].Address, report.LeftOut[0].Reason)
	// Output:
	// compute1_0000:18:00.0 [CUSTOM_PF CUSTOM_PHYSNET1] physnet1
	// 0000:18:00.1 in use by the host: network interface eth3 is up
}
