package sysfs_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// dflCard has a device feature list, with two ports; one can be moved to a virtual function.
var dflCard = sysfs.PCIDevice{
	Address: "0000:61:00.0", Vendor: "8086", Product: "0b30", Class: "1200", Driver: "dfl-pci", IOMMUGroup: ptr(11),
	VFs: &sysfs.VFs{Total: 1, Product: "0b31", Driver: "dfl-pci"},
	FPGA: &sysfs.FPGA{Dev: 7, DFL: true, InterfaceID: region1, Ports: []sysfs.FPGAPort{
		{Number: 20, AFUID: afu1}, {Number: 21, AFUID: afu1, VF: 1},
	}},
}

func TestADeviceFeatureListIsLaidOutAsTheKernelDoes(t *testing.T) {
	t.Parallel()
	m := generate(t, sysfs.Description{Devices: []sysfs.PCIDevice{dflCard}})
	const (
		card    = "devices/pci0000:61/0000:61:00.0"
		region  = card + "/fpga_region/region7"
		inner   = region + "/dfl-fme.7/dfl-fme-region.21/fpga_region/region1021"
		manager = region + "/dfl-fme.7/dfl-fme-mgr.7/fpga_manager/fpga7"
	)
	wantLinks(t, m, map[string]string{
		"class/fpga_region/region7":           "../../" + region,
		"class/fpga_region/region7/device":    "../../../0000:61:00.0",
		"class/fpga_region/region1021":        "../../" + inner,
		"class/fpga_region/region1021/device": "../../../dfl-fme-region.21",
		"class/fpga_manager/fpga7":            "../../" + manager,
		"class/fpga_manager/fpga7/device":     "../../../dfl-fme-mgr.7",
		"bus/platform/devices/dfl-fme.7":      "../../../" + region + "/dfl-fme.7",
		"bus/platform/devices/dfl-port.20":    "../../../" + region + "/dfl-port.20",
	})
	if _, err := m.ReadFile("class/fpga_region/region7/compat_id"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("compat_id of the whole: %v, want the kernel's", err)
	}
	const state = "class/fpga_manager/fpga7/state"
	wantFiles(t, m, map[string]string{
		"class/fpga_region/region7/dfl-fme.7/ports_num": "2", inner + "/compat_id": region1, state: "unknown",
		"bus/platform/devices/dfl-port.20/id": "0", "bus/platform/devices/dfl-port.21/id": "1", "bus/platform/devices/dfl-port.21/afu_id": afu1,
	})
	if err := m.Program(dflCard.Address, 20, region2); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, m, map[string]string{state: "operating", "bus/platform/devices/dfl-port.20/afu_id": region2})
	write(t, m, "bus/pci/devices/"+dflCard.Address+"/sriov_numvfs", "1")
	wantFiles(t, m, map[string]string{
		state: "operating", "class/fpga_region/region8/dfl-port.21/afu_id": afu1, "bus/platform/devices/dfl-port.21/afu_id": afu1,
	})
	m.Reboot()
	wantFiles(t, m, map[string]string{state: "unknown", "bus/platform/devices/dfl-port.20/afu_id": afu1})
}

func TestADeviceFeatureListThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sysfs.FPGA){
		"two regions":            func(f *sysfs.FPGA) { f.Regions = []sysfs.FPGARegion{{Number: 1, InterfaceID: region2}} },
		"a number of regions'":   func(f *sysfs.FPGA) { f.Dev = 1000 },
		"no state":               func(f *sysfs.FPGA) { f.ManagerState = "fine" },
		"a state without a list": func(f *sysfs.FPGA) { f.DFL, f.ManagerState = false, "operating" },
	} {
		card, list := dflCard, *dflCard.FPGA
		change(&list)
		card.FPGA = &list
		if _, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{card}}); !errors.Is(err, sysfs.ErrDescription) {
			t.Errorf("%s: %v, want ErrDescription", name, err)
		}
	}
	other := dflCard
	other.Address, other.FPGA = "0000:62:00.0", &sysfs.FPGA{Dev: 6, DFL: true, Ports: dflCard.FPGA.Ports[:1]}
	if _, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{dflCard, other}}); !errors.Is(err, sysfs.ErrDescription) {
		t.Errorf("one port of two cards: %v, want ErrDescription", err)
	}
}
