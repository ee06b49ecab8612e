package pci_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const pf = "0000:05:00.0"

// machine has a network function with two VFs, a display, an accelerator and a bridge.
func machine(t testing.TB) *sysfs.Memory {
	t.Helper()
	return drivertest.Tree(t, []sysfs.PCIDevice{
		{Address: "0000:00:02.0", Vendor: "8086", Product: "2f04", Class: "0604"},
		{Address: pf, Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb",
			VFs:        &sysfs.VFs{Total: 2, Enabled: 2, Offset: 128, Stride: 4, Product: "1520", Driver: "igbvf"},
			Interfaces: []sysfs.Interface{{Name: "eth2"}}},
		{Address: "0000:06:00.0", Vendor: "8086", Product: "1521", Class: "0200", Driver: "igb",
			Interfaces: []sysfs.Interface{{Name: "eth0", Up: true}}},
		{Address: "0000:07:03.0", Vendor: "102b", Product: "0532", Class: "0300", Driver: "mgag200", BootVGA: true},
		{Address: "0000:0a:00.0", Vendor: "1b36", Product: "0005", Class: "1200"},
		{Address: "0000:0b:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
			MdevTypes: []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 1}}},
	}...)
}

func discover(t testing.TB, tree driver.Tree, whitelist string) driver.Report {
	t.Helper()
	w, err := pci.ParseWhitelist(whitelist)
	if err != nil {
		t.Fatal(err)
	}
	d, err := pci.New(pci.Config{Host: "compute1", PassthroughWhitelist: w}, tree)
	if err != nil {
		t.Fatal(err)
	}
	return drivertest.Discover(t, d)
}

func addresses(report driver.Report) []string {
	var list []string
	for _, d := range report.Devices {
		a, err := driver.PCIAddressOf(d.ControlPath.Info)
		if err != nil {
			return []string{err.Error()}
		}
		list = append(list, a.String())
	}
	return list
}

func TestAWhitelistedFunction(t *testing.T) {
	t.Parallel()
	report := discover(t, machine(t), `[{"vendor_id": "8086", "product_id": "1520", "address": "*:05:10.0"}, {"vendor_id": "1b36"}]`)
	device := func(vendor, product, bus, slot, name string, traits ...string) driver.Device {
		info := driver.Info{"domain": "0000", "bus": bus, "device": slot, "function": "0"}
		return driver.Device{
			Vendor: vendor, Model: product, Type: "GPU", VendorBoardInfo: "miss_vb_info",
			StdBoardInfo: `{"product_id": "` + product + `", "controller": null}`,
			ControlPath:  driver.ControlPath{Type: "PCI", Info: info},
			Deployables: []driver.Deployable{{
				Name: "compute1_0000:" + bus + ":" + slot + ".0", NumAccelerators: 1, DriverName: name,
				Class: "CUSTOM_PCI", Traits: append([]string{"OWNER_CYBORG"}, traits...),
				AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: info}},
			}},
		}
	}
	want := driver.Report{Devices: []driver.Device{
		device("8086", "1520", "05", "10", "INTEL", "CUSTOM_PCI_INTEL", "CUSTOM_PCI_PRODUCT_ID_1520"),
		device("1b36", "0005", "0a", "00", "1B36", "CUSTOM_PCI_PRODUCT_ID_0005"),
	}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestAPhysicalFunctionIsNotOfferedBesideItsVirtualOnes, also where a capture has no links between them,
// and whether or not the whitelist admits the virtual ones.
func TestAPhysicalFunctionIsNotOfferedBesideItsVirtualOnes(t *testing.T) {
	t.Parallel()
	capture, err := sysfs.OpenDir(drivertest.Unpack(t, filepath.Join("..", "sysfs", "testdata", "xeon-i350-sriov.tar.gz")), sysfs.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { capture.Close() })
	ports := []string{"0000:05:00.0", "0000:05:00.1"}
	for whitelist, want := range map[string]int{
		`{"vendor_id": "8086", "address": "*:05:*.*"}`: 8, `{"vendor_id": "8086", "product_id": "1521"}`: 0, `{"product_id": "1520"}`: 8,
	} {
		report := discover(t, capture, whitelist)
		got := addresses(report)
		for _, at := range ports {
			if slices.Contains(got, at) {
				t.Errorf("%s: %s is offered beside its virtual functions", whitelist, at)
			}
			if named := slices.ContainsFunc(report.LeftOut, func(n driver.Notice) bool { return n.Address == at && strings.Contains(n.Reason, "0000:05:10.0") }); named != (want == 0 || strings.Contains(whitelist, "address")) {
				t.Errorf("%s: %s left out: %v", whitelist, at, report.LeftOut)
			}
		}
		if len(got) != want {
			t.Errorf("%s: offered %v, want %d", whitelist, got, want)
		}
	}
}

func TestWhitelistEntriesMatchAsUpstreams(t *testing.T) {
	t.Parallel()
	vfs := []string{"0000:05:10.0", "0000:05:10.4"}
	accelerator := []string{"0000:0a:00.0"}
	for _, tt := range []struct {
		name, whitelist string
		want            []string
	}{
		{"vendor and product", `{"vendor_id": "8086", "product_id": "1520"}`, vfs},
		{"with prefix and short", `{"vendor_id": "0x1b36", "product_id": "5"}`, accelerator},
		{"upper case", `{"vendor_id": "1B36"}`, accelerator},
		{"any vendor", `{"vendor_id": "*", "product_id": "0005"}`, accelerator},
		{"whole address", `{"address": "0000:0a:00.0"}`, accelerator},
		{"stars", `{"address": "*:05:10.*"}`, vfs},
		{"function left out", `{"address": "0000:05:10"}`, vfs},
		{"domain and bus left out", `{"address": "10.4"}`, []string{"0000:05:10.4"}},
		{"slot left empty", `{"address": "0a:.0"}`, accelerator},
		{"expressions", `{"address": {"domain": ".*", "bus": "05", "slot": "1[0-1]", "function": "[0-3]"}}`, []string{"0000:05:10.0"}},
		{"expressions begin at the beginning", `{"address": {"bus": "a"}}`, nil},
		{"and need not reach the end", `{"address": {"bus": "0", "slot": "1"}}`, vfs},
		{"devname and vendor", `{"devname": "eth2", "vendor_id": "10de"}`, nil},
		{"any entry does", `[{"address": "0000:0a:00.0"}, {"product_id": "1520"}]`, append(append([]string{}, vfs...), accelerator...)},
		{"a physical function does not bring its VFs", `{"address": "0000:05:00.0"}`, nil},
		{"text of text", `["{\"vendor_id\": \"1b36\"}", "[{\"product_id\": \"1520\"}]"]`, append(append([]string{}, vfs...), accelerator...)},
		{"none", `[]`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := discover(t, machine(t), tt.whitelist)
			if diff := cmp.Diff(tt.want, addresses(report)); diff != "" || len(report.Problems) > 0 {
				t.Errorf("problems %v, offered (-want +got):\n%s", report.Problems, diff)
			}
		})
	}
}

func TestEverythingWhitelistedStillLeavesOutWhatTheHostNeeds(t *testing.T) {
	t.Parallel()
	m := machine(t)
	if err := m.WriteFile("class/mdev_bus/0000:0b:00.0/mdev_supported_types/nvidia-35/create", []byte("11111111-1111-4111-8111-111111111111")); err != nil {
		t.Fatal(err)
	}
	report := discover(t, m, `{}`)
	if diff := cmp.Diff([]string{"0000:05:10.0", "0000:05:10.4", "0000:0a:00.0"}, addresses(report)); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	want := []driver.Notice{
		{Address: "0000:00:02.0", Driver: "pci", Reason: "a bridge cannot be given to a guest"},
		{Address: pf, Driver: "pci", Reason: "physical function with virtual functions enabled (2)"},
		{Address: "0000:06:00.0", Driver: "pci", Reason: "in use by the host: network interface eth0 is up"},
		{Address: "0000:07:03.0", Driver: "pci", Reason: "the host's own display: boot_vga is 1"},
		{Address: "0000:0b:00.0", Driver: "pci", Reason: "has mediated devices (1), including 11111111-1111-4111-8111-111111111111"},
	}
	if diff := cmp.Diff(want, report.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

func TestAnInterfaceBehindAVirtioDeviceIsInUse(t *testing.T) {
	t.Parallel()
	m := machine(t)
	m.SetFile("bus/pci/devices/0000:0a:00.0/virtio2/net/eth7/flags", []byte("0x1003\n"))
	report := discover(t, m, `{"vendor_id": "1b36"}`)
	if len(report.Devices) != 0 || len(report.LeftOut) != 1 || !strings.Contains(report.LeftOut[0].Reason, "eth7 is up") {
		t.Errorf("report: %+v", report)
	}
}

func TestDevNameFollowsTheInterface(t *testing.T) {
	t.Parallel()
	m := machine(t)
	if err := m.WriteFile("bus/pci/devices/"+pf+"/sriov_numvfs", []byte("0")); err != nil {
		t.Fatal(err)
	}
	report := discover(t, m, `[{"devname": "eth2"}, {"devname": "eth9"}]`)
	if diff := cmp.Diff([]string{pf}, addresses(report)); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	if len(report.Problems) != 1 || report.Problems[0].File != "class/net/eth9/device" || !errors.Is(report.Problems[0], fs.ErrNotExist) {
		t.Errorf("problems: %v", report.Problems)
	}
}

func TestTroubleWithOneFunctionLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	dir := "bus/pci/devices/0000:0a:00.0"
	for _, tt := range []struct {
		name  string
		spoil func(*sysfs.Memory)
		file  string
		want  error
	}{
		{"class garbled", func(m *sysfs.Memory) { m.SetFile(dir+"/class", []byte("0x12\n")) }, dir + "/class", driver.ErrGarbled},
		{"flags garbled", func(m *sysfs.Memory) { m.SetFile(dir+"/net/eth5/flags", []byte("up\n")) }, dir + "/net/eth5/flags", driver.ErrGarbled},
		{"flags empty", func(m *sysfs.Memory) { m.SetFile(dir+"/net/eth5/flags", nil) }, dir + "/net/eth5/flags", driver.ErrGarbled},
		{"count garbled", func(m *sysfs.Memory) { m.SetFile(dir+"/sriov_numvfs", []byte("two")) }, dir + "/sriov_numvfs", driver.ErrGarbled},
		{"unplugged", func(m *sysfs.Memory) { m.Remove("devices/pci0000:0a") }, dir + "/vendor", fs.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := machine(t)
			tt.spoil(m)
			report := discover(t, m, `[{"vendor_id": "1b36"}, {"product_id": "1520"}]`)
			if diff := cmp.Diff([]string{"0000:05:10.0", "0000:05:10.4"}, addresses(report)); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if len(report.Problems) != 1 || report.Problems[0].Address != "0000:0a:00.0" || report.Problems[0].File != tt.file || !errors.Is(report.Problems[0], tt.want) {
				t.Errorf("problems: %v, want one with %s: %v", report.Problems, tt.file, tt.want)
			}
		})
	}
}

func TestTheConfigurationIsRefusedByName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                             `neither an object nor a list`,
		`5`:                            `neither an object nor a list`,
		`{`:                            `unexpected EOF`,
		`{} {}`:                        `something follows the JSON value`,
		`[{}, 5]`:                      `entry 1: neither an object`,
		`{"vender_id": "8086"}`:        `unknown field "vender_id"`,
		`{"address": {"device": "0"}}`: `unknown field "device"`,
		`{"address": 5}`:               `address: neither a string nor an object`,
		`[[[[[[{}]]]]]]`:               `neither an object nor a list`,
	} {
		if w, err := pci.ParseWhitelist(text); !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseWhitelist(%s) = %v, %v, want %q", text, w, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"vendor_id": "80861"}`:                         `vendor_id "80861"`,
		`{"product_id": "x"}`:                            `product_id "x"`,
		`{"address": "a:b:c:d.e"}`:                       `more than domain, bus and slot`,
		`{"address": "zz:00.0"}`:                         `address bus "zz"`,
		`{"address": "00:20.0"}`:                         `address slot "20"`,
		`{"address": "00:00.8"}`:                         `address function "8"`,
		`{"address": {"bus": "("}}`:                      `address bus "("`,
		`{"address": {"bus": "(?=a)"}}`:                  `address bus "(?=a)"`,
		`{"address": "*", "devname": "eth0"}`:            `exclude each other`,
		`{"devname": "../x"}`:                            `not an interface name`,
		`[{"vendor_id": "8086"}, {"vendor_id": "none"}]`: `entry 1: vendor_id`,
	} {
		w, err := pci.ParseWhitelist(text)
		if err != nil {
			t.Errorf("ParseWhitelist(%s): %v", text, err)
			continue
		}
		if _, err := pci.New(pci.Config{Host: "h", PassthroughWhitelist: w}, sysfs.NewMemory()); !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%s): %v, want %q", text, err, want)
		}
	}
	if _, err := pci.New(pci.Config{}, sysfs.NewMemory()); !errors.Is(err, driver.ErrConfig) {
		t.Errorf("no host: %v", err)
	}
}

func TestTheWhitelistIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	const text = `{"host":"compute1","passthrough_whitelist":[{"vendor_id":"8086","address":"*:0a:00.*"},{"address":{"bus":"0[ab]"}},{"devname":"eth1"}]}`
	var c pci.Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(c)
	if err != nil || string(got) != text {
		t.Errorf("%s, %v, want %s", got, err, text)
	}
}

func TestACancelledDiscoveryReportsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := pci.New(pci.Config{Host: "h", PassthroughWhitelist: []pci.Spec{{}}}, machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if report, err := d.Discover(ctx); !errors.Is(err, context.Canceled) || len(report.Devices) != 0 {
		t.Errorf("Discover: %+v, %v", report, err)
	}
}

func Example() {
	tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:0a:00.0", Vendor: "10ee", Product: "5001", Class: "1200"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	whitelist, err := pci.ParseWhitelist(`{"vendor_id": "10ee", "address": "*:0a:00.*"}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := pci.New(pci.Config{Host: "compute1", PassthroughWhitelist: whitelist}, tree)
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
	fmt.Println(p.Name, p.Class, p.Traits)
	// Output:
	// compute1_0000:0a:00.0 CUSTOM_PCI [OWNER_CYBORG CUSTOM_PCI_XILINX CUSTOM_PCI_PRODUCT_ID_5001]
}

// TestAnEntrySaysThatAFunctionIsNotManaged: then its handles say so. The other handles have no such key,
// as upstream's.
func TestAnEntrySaysThatAFunctionIsNotManaged(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{`"no"`: "false", `"False"`: "false", `"yes"`: "", `"1"`: "", `false`: "false", `true`: ""} {
		report := discover(t, machine(t), `[{"address": "*:05:10.0"}, {"vendor_id": "1b36", "managed": `+value+`}, {"vendor_id": "*", "product_id": "0005"}]`)
		if len(report.Devices) != 2 {
			t.Fatalf("managed %s: %v", value, addresses(report))
		}
		for i, want := range []string{"", want} {
			got, present := report.Devices[i].Deployables[0].AttachHandles[0].Info["managed"]
			if got != want || present != (want != "") {
				t.Errorf("managed %s, device %d: %q", value, i, got)
			}
			if _, present := report.Devices[i].ControlPath.Info["managed"]; present {
				t.Errorf("managed %s, device %d: the control path has it", value, i)
			}
		}
	}
	for _, value := range []string{`"maybe"`, `""`, `1`, `[]`} {
		w, err := pci.ParseWhitelist(`{"vendor_id": "1b36", "managed": ` + value + `}`)
		if err == nil {
			err = w.Check()
		}
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), "managed") {
			t.Errorf("managed %s: %v", value, err)
		}
	}
}
