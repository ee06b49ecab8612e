package fakecyborg_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// testDisableAndEnableADevice: disable reserves the inventory, enable gives it back. Upstream takes the
// deployable with the device's number, and loses max_unit.
func testDisableAndEnableADevice(t *testing.T, quirks bool) {
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", nil, "0", "1"))
	w.report()
	api := w.api()
	path := "/v2/devices/" + w.cyborg.Devices()[0].UUID
	for _, tt := range []struct {
		verb, status string
		reserved     int
	}{{"/disable", "maintaining", 2}, {"/enable", "enabled", 0}} {
		api.want(api.send(sent{method: "POST", path: path + tt.verb}), 204, "")
		p, _ := w.provider("3b")
		have := p.Inventories["PGPU"]
		maxUnit := either(quirks, 2, 2147483647)
		if w.cyborg.Devices()[0].Status != tt.status || have.Total != 2 || have.Reserved != tt.reserved || have.MaxUnit != maxUnit {
			t.Errorf("after %s: %s, inventory %+v, want reserved %d, max_unit %d", tt.verb, w.cyborg.Devices()[0].Status, have, tt.reserved, maxUnit)
		}
	}
	api.want(api.send(sent{method: "POST", path: "/v2/devices/xx/enable"}), 404, "Device not found with uuid=xx")
	api.want(api.send(sent{method: "POST", path: path + "/enable", token: "demo"}), 403, "Access was denied to the following resource: cyborg:device:enable")
}

func TestUpstreamDisablesTheWrongDeployable(t *testing.T) {
	t.Parallel()
	two := gpu("3b", "PGPU", nil, "0")
	other := gpu("5e", "PGPU", nil, "0").Deployables[0]
	two.Deployables = append(two.Deployables, other) // deployables 1 and 2 are of device 1
	for _, quirks := range []bool{false, true} {
		w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, two, gpu("af", "PGPU", nil, "0"))
		w.report()
		api := w.api()
		api.want(api.send(sent{method: "POST", path: "/v2/devices/" + w.cyborg.Devices()[1].UUID + "/disable"}), 204, "")
		second, _ := w.provider("5e")
		third, _ := w.provider("af")
		if second.Inventories["PGPU"].Reserved != either(quirks, 0, 1) || third.Inventories["PGPU"].Reserved != either(quirks, 1, 0) {
			t.Errorf("quirks %t: reserved %d of the deployable with the device's number, %d of the device's own",
				quirks, second.Inventories["PGPU"].Reserved, third.Inventories["PGPU"].Reserved)
		}
	}
}

func TestCapacityChangeOfADisabledDevice(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, vgpu("af", 2))
		w.report()
		settled(t, w.cyborg.SetDeviceStatus(t.Context(), w.cyborg.Devices()[0].UUID, fakecyborg.StatusMaintaining))
		w.hardware.set(vgpu("af", 4))
		w.report()
		p, _ := w.provider("af")
		if got, want := p.Inventories["VGPU"].Reserved, either(quirks, 4, 0); got != want {
			t.Errorf("quirks %t: %d reserved, want %d", quirks, got, want)
		}
	}
}

func TestUpstreamDropsTheNewestHandle(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", nil, "1", "2", "3"))
		w.report()
		w.hardware.set(gpu("3b", "PGPU", nil, "2", "3"))
		w.report()
		left := ""
		for _, h := range w.cyborg.AttachHandles() {
			left += h.Info["function"]
		}
		if want := either(quirks, "23", "12"); left != want {
			t.Errorf("quirks %t: handles %s left, want %s", quirks, left, want)
		}
	}
}

func TestOneBadDriverSpoilsUpstreamsReport(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		for _, how := range []string{"fails", "has no attributes"} {
			w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks}, gpu("3b", "PGPU", nil, "0"))
			bad := newHardware("bad")
			if how == "fails" {
				bad.err = errors.New("no lspci")
			} else {
				d := gpu("5e", "PGPU", nil, "0")
				d.Deployables[0].Class, d.Deployables[0].Traits = "", nil
				bad.set(d)
			}
			settled(t, w.cyborg.AddHost(driver.Host{Name: "cn1", Drivers: []driver.Driver{newHardware("good", named("cn1_card", gpu("3b", "PGPU", nil, "0"))), bad}}))
			w.create(placementsim.ResourceProvider{Name: "cn1"})
			if err := w.cyborg.ReportHost(t.Context(), "cn1"); err == nil {
				t.Errorf("%s: no error", how)
			}
			if got, want := len(w.cyborg.Devices()), either(quirks, 1, 0); got != want {
				t.Errorf("quirks %t, %s: %d devices, want %d", quirks, how, got, want)
			}
		}
	}
}

// named gives the first deployable of a device another name.
func named(name string, d driver.Device) driver.Device {
	d.Deployables[0].Name = name
	return d
}

func TestADroppedDeviceIsAProblemOfItsDriver(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		w := newReportWorldOf(t, fakecyborg.Config{Release: "2023.1", UpstreamQuirks: quirks},
			gpu("3b", "PGPU", []string{"OWNER_CYBORG"}, "0"), gpu("5e", "PGPU", []string{"CUSTOM_A"}, "0"))
		if err := w.cyborg.Report(t.Context()); !errors.Is(err, fakecyborg.ErrStandardTrait) || !strings.Contains(err.Error(), "OWNER_CYBORG") {
			t.Errorf("quirks %t: report: %v", quirks, err)
		}
		for range 2 { // each report says it once
			_ = w.cyborg.Report(t.Context())
			found := w.cyborg.DriverReports("cn0")[0]
			if len(found.Problems) != 1 || found.Devices != 1 || len(w.cyborg.Devices()) != 1 {
				t.Fatalf("quirks %t: %+v", quirks, found)
			}
			if found.Problems[0].Address != "0000:3b:00.0" || !strings.Contains(found.Problems[0].Error(), "OWNER_CYBORG") {
				t.Errorf("problem %v", found.Problems[0])
			}
		}
		if got := w.cyborg.DriverReports("elsewhere"); len(got) != 0 {
			t.Errorf("reports of an unknown host: %v", got)
		}
	}
}

// t4 is a card that can be divided.
func t4(address string) sysfs.PCIDevice {
	return sysfs.PCIDevice{
		Address: address, Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
		MdevTypes: []sysfs.MdevType{{Type: "nvidia-222", Name: "GRID T4-1B", AvailableInstances: 4}},
	}
}

func machineOf(t *testing.T, devices ...sysfs.PCIDevice) *sysfs.Memory {
	t.Helper()
	tree, err := sysfs.Generate(sysfs.Description{Devices: devices})
	settled(t, err)
	return tree
}

// testVGPUConfigurationErrors: the vGPU configuration is refused in upstream's words.
func testVGPUConfigurationErrors(t *testing.T, quirks bool) {
	tree := machineOf(t, t4("0000:84:00.0"))
	const card = "0000:84:00.0"
	for want, types := range map[string][]nvidia.VGPUType{
		"Missing device addresses config for vgpu type nvidia-35": {{Name: "nvidia-35"}},
		"Duplicate types for PCI address " + card: {
			{Name: "nvidia-35", DeviceAddresses: []string{card}}, {Name: "nvidia-36", DeviceAddresses: []string{card}},
		},
		"Incorrect PCI address: 84:00": {{Name: "nvidia-35", DeviceAddresses: []string{"84:00"}}},
	} {
		if _, err := nvidia.New(nvidia.Config{Host: "cn0", EnabledVGPUTypes: types}, tree); err == nil || !strings.Contains(err.Error(), "Invalid vGPU config: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	d, err := nvidia.New(nvidia.Config{Host: "cn0", EnabledVGPUTypes: []nvidia.VGPUType{{Name: "nvidia-999", DeviceAddresses: []string{card}}}}, tree)
	settled(t, err)
	w := newReportWorldOf(t, fakecyborg.Config{UpstreamQuirks: quirks})
	settled(t, w.cyborg.AddHost(driver.Host{Name: "cn1", Drivers: []driver.Driver{d}}))
	if err := w.cyborg.ReportHost(t.Context(), "cn1"); err == nil || !strings.Contains(err.Error(), "Invalid requested vGPU type: nvidia-999") {
		t.Errorf("report: %v", err)
	}
}

// testVirtualFunctionsOfAVGPUCard: a virtual function of a card is passed over with filter_sriov_vfs, and
// reported for vGPUs without it.
func testVirtualFunctionsOfAVGPUCard(t *testing.T, quirks bool) {
	a100 := sysfs.PCIDevice{
		Address: "0000:3b:00.0", Vendor: "10de", Product: "20f1", Class: "0302", Driver: "nvidia",
		VFs: &sysfs.VFs{Total: 1, Enabled: 1, Offset: 4, Product: "20f1", Driver: "nvidia", MdevTypes: []sysfs.MdevType{
			{Type: "nvidia-474", Name: "GRID A100-1-5C", AvailableInstances: 1},
		}},
	}
	for _, filter := range []bool{false, true} {
		d, err := nvidia.New(nvidia.Config{
			Host: "cn0", FilterSRIOVVFs: filter,
			EnabledVGPUTypes: []nvidia.VGPUType{{Name: "nvidia-474", DeviceAddresses: []string{"0000:3b:00.4"}}},
		}, machineOf(t, a100))
		settled(t, err)
		w := newWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, []driver.Driver{d})
		var names []string
		for _, deployable := range w.server.Deployables() {
			names = append(names, deployable.Name+" "+deployable.ResourceClass())
		}
		if got, want := fmt.Sprint(names), either(filter, "[cn0_0000:3b:00.4 VGPU]", "[]"); got != want {
			t.Errorf("filter_sriov_vfs %t: %s, want %s", filter, got, want)
		}
	}
}

// testPCIWhitelist: the whitelist admits by vendor and product, glob and expressions; a
// vendor that is not known gets no trait.
func testPCIWhitelist(t *testing.T, quirks bool) {
	tree := machineOf(t,
		sysfs.PCIDevice{Address: "0000:0a:00.0", Vendor: "8086", Product: "1520", Class: "1200"},
		sysfs.PCIDevice{Address: "0000:0b:00.0", Vendor: "abcd", Product: "0001", Class: "1200"},
	)
	for entry, want := range map[string]string{
		`{"vendor_id":"8086","product_id":"1520"}`: "0000:0a:00.0 CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_1520",
		`{"address":"*:0b:00.*"}`:                  "0000:0b:00.0 CUSTOM_PCI_PRODUCT_ID_0001",
		`{"address":{"domain":".*","bus":"0[ab]","slot":"00","function":"0"}, "vendor_id":"abcd"}`: "0000:0b:00.0 CUSTOM_PCI_PRODUCT_ID_0001",
		`{"vendor_id":"1234"}`: "",
	} {
		whitelist, err := pci.ParseWhitelist(entry)
		settled(t, err)
		d, err := pci.New(pci.Config{Host: "cn0", PassthroughWhitelist: whitelist}, tree)
		settled(t, err)
		w := newWorld(t, fakecyborg.Config{UpstreamQuirks: quirks}, []driver.Driver{d})
		var found []string
		for _, deployable := range w.server.Deployables() {
			found = append(found, strings.TrimPrefix(deployable.Name, "cn0_"))
			for _, trait := range deployable.Traits() {
				if trait != driver.TraitOwnerCyborg {
					found = append(found, trait)
				}
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: got %q, want %q", entry, got, want)
		}
	}
}
