package fpga_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// alveo is a card of Xilinx with a function to manage it and one for its user.
func alveo(address string) []sysfs.PCIDevice {
	return []sysfs.PCIDevice{
		{Address: address + ".0", Vendor: "10ee", Product: "5000", Class: "1200", Driver: "xclmgmt"},
		{Address: address + ".1", Vendor: "10ee", Product: "5001", Class: "1200", Driver: "xocl"},
	}
}

func inspurCard(address string) sysfs.PCIDevice {
	return sysfs.PCIDevice{Address: address, Vendor: "1bd4", Product: "a115", Class: "1200"}
}

func xilinx(t testing.TB, config fpga.Config, tree driver.Tree) driver.Report {
	t.Helper()
	config.Host = "cn0"
	return must[*fpga.Xilinx](t)(fpga.NewXilinx(config, tree))
}

func inspur(t testing.TB, config fpga.Config, tree driver.Tree) driver.Report {
	t.Helper()
	config.Host = "cn0"
	return must[*fpga.Inspur](t)(fpga.NewInspur(config, tree))
}

func TestAXilinxCardIsReportedAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, alveo("0000:3b:00")...)
	info := func(function string) driver.Info {
		return driver.Info{"domain": "0000", "bus": "3b", "device": "00", "function": function}
	}
	handle := func(function string) driver.AttachHandle {
		return driver.AttachHandle{Type: "PCI", Info: info(function)}
	}
	device := driver.Device{
		Vendor: "10ee", Model: "Xilinx Corporation Device", Type: "FPGA",
		StdBoardInfo:    `{"product_id": "5001", "controller": "Processing accelerators"}`,
		VendorBoardInfo: `{"vendor_info": "fpga_vb_info"}`,
		ControlPath:     driver.ControlPath{Type: "PCI", Info: info("0")},
		Deployables: []driver.Deployable{{
			Name: "cn0_0000:3b:00.0", NumAccelerators: 1, DriverName: "XILINX",
			Class: "FPGA", Traits: []string{"CUSTOM_FPGA_XILINX", "CUSTOM_FPGA_PRODUCT_ID_5000",
				"CUSTOM_FPGA_PRODUCT_ID_5001", "CUSTOM_PROGRAMMABLE"},
			AttachHandles: []driver.AttachHandle{handle("0"), handle("1")},
		}},
	}
	if diff := cmp.Diff(driver.Report{Devices: []driver.Device{device}}, xilinx(t, fpga.Config{DoubledHandles: true}, tree)); diff != "" {
		t.Errorf("doubled (-want +got):\n%s", diff)
	}
	device.Deployables[0].AttachHandles = []driver.AttachHandle{handle("1")}
	want := driver.Report{Devices: []driver.Device{device}, LeftOut: []driver.Notice{
		{Address: "0000:3b:00.0", Driver: "xilinx_fpga", Reason: "management function of a card whose user function is 0000:3b:00.1"},
	}}
	if diff := cmp.Diff(want, xilinx(t, fpga.Config{}, tree)); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
}

func TestXilinxCards(t *testing.T) {
	t.Parallel()
	swapped := alveo("0000:3b:00")
	swapped[0].Driver, swapped[1].Driver = "xocl", "xclmgmt"
	unbound := alveo("0000:3b:00")
	unbound[0].Driver, unbound[1].Driver = "", "vfio-pci"
	bound := alveo("0000:3b:00")
	bound[1].Driver = "nvme"
	withVFs := alveo("0000:3b:00")
	withVFs[1].VFs = &sysfs.VFs{Total: 2, Enabled: 2, Offset: 8}
	boundManagement := alveo("0000:3b:00")
	boundManagement[0].Driver = "nvme"
	tests := []struct {
		name    string
		devices []sysfs.PCIDevice
		doubled bool
		want    []string
		left    []string
	}{
		{name: "kernel drivers identify the functions", devices: swapped,
			want: []string{"cn0_0000:3b:00.0 1 of 3b.0: FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 PROGRAMMABLE"},
			left: []string{"0000:3b:00.1 management function of a card whose user function is 0000:3b:00.0"}},
		{name: "the first is for management", devices: unbound,
			want: []string{"cn0_0000:3b:00.0 1 of 3b.1: FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 PROGRAMMABLE"},
			left: []string{"0000:3b:00.0 management function of a card whose user function is 0000:3b:00.1"}},
		{name: "three functions", devices: append(alveo("0000:3b:00"), sysfs.PCIDevice{Address: "0000:3b:00.2", Vendor: "10ee", Product: "5002", Class: "1200"}),
			want: []string{"cn0_0000:3b:00.0 1 of 3b.1: FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 FPGA_PRODUCT_ID_5002 PROGRAMMABLE"},
			left: []string{
				"0000:3b:00.0 management function of a card whose user function is 0000:3b:00.1",
				"0000:3b:00.2 management function of a card whose user function is 0000:3b:00.1"}},
		{name: "one function only", devices: alveo("0000:3b:00")[:1],
			want: []string{"cn0_0000:3b:00.0 1 of 3b.0: FPGA_XILINX FPGA_PRODUCT_ID_5000 PROGRAMMABLE"}},
		{name: "two cards", devices: append(alveo("0000:3b:00"), alveo("0000:3b:01")[1:]...),
			want: []string{
				"cn0_0000:3b:00.0 1 of 3b.1: FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 PROGRAMMABLE",
				"cn0_0000:3b:01.1 1 of 3b.1: FPGA_XILINX FPGA_PRODUCT_ID_5001 PROGRAMMABLE",
			},
			left: []string{"0000:3b:00.0 management function of a card whose user function is 0000:3b:00.1"}},
		{name: "the user's function is in use", devices: bound,
			left: []string{"0000:3b:00.1 bound to driver nvme, which is not among the allowed ones",
				"0000:3b:00.0 another function of its card is not offered"}},
		{name: "doubled, and the management function is in use", devices: boundManagement, doubled: true,
			left: []string{"0000:3b:00.0 bound to driver nvme, which is not among the allowed ones",
				"0000:3b:00.1 user function of a card whose other function 0000:3b:00.0 cannot be assigned with it"}},
		{name: "virtual functions", devices: withVFs, doubled: true,
			want: []string{"cn0_0000:3b:00.0 2 of 3b.1,3b.2: FPGA_XILINX FPGA_PRODUCT_ID_5000 FPGA_PRODUCT_ID_5001 PROGRAMMABLE"},
			left: []string{"0000:3b:00.1 physical function with virtual functions enabled (2)", "0000:3b:00.0 management function of a card with virtual functions (2)"}},
		{name: "another class", devices: []sysfs.PCIDevice{{Address: pf, Vendor: "10ee", Product: "7038", Class: "0580"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantReport(t, xilinx(t, fpga.Config{DoubledHandles: tt.doubled}, drivertest.Tree(t, tt.devices...)), tt.want, tt.left)
		})
	}
}

func TestAnInspurDiskIsNoFPGA(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, inspurCard("0000:3c:00.0"),
		sysfs.PCIDevice{Address: "0000:db:00.0", Vendor: "1bd4", Product: "1001", Class: "0108", Driver: "nvme"},
		sysfs.PCIDevice{Address: "0000:dc:00.0", Vendor: "1234", Product: "a115", Class: "1200", SubsystemVendor: "1bd4"})
	info := driver.Info{"domain": "0000", "bus": "3c", "device": "00", "function": "0"}
	no := false
	want := driver.Report{Devices: []driver.Device{{
		Vendor: "1bd4", Model: "Inspur Electronic Information Industry Co., Ltd. Device", Type: "FPGA", Programmable: &no,
		StdBoardInfo:    `{"product_id": "a115", "controller": "Processing accelerators"}`,
		VendorBoardInfo: `{"vendor_info": "fpga_vb_info"}`,
		ControlPath:     driver.ControlPath{Type: "PCI", Info: info},
		Deployables: []driver.Deployable{{
			Name: "cn0_0000:3c:00.0", NumAccelerators: 1, DriverName: "INSPUR", Programmable: &no,
			Class: "FPGA", Traits: []string{"CUSTOM_FPGA_INSPUR", "CUSTOM_FPGA_PRODUCT_ID_A115"},
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: info}},
		}},
	}}}
	if diff := cmp.Diff(want, inspur(t, fpga.Config{}, tree)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestCardsOfThreeVendorsAreReportedOnce(t *testing.T) {
	t.Parallel()
	inspurFirst := inspurCard("0000:3c:00.0")
	inspurFirst.FPGA = &sysfs.FPGA{Dev: 7, InterfaceID: id("7")} // shown by Intel's kernel driver, and still Inspur's
	tree := drivertest.Tree(t, append(alveo("0000:3b:00"), inspurFirst, intelCard(pf, 0, "12", "ab", 2))...)
	reports := everything(t, fpga.Config{}, tree)
	for i, want := range []string{pf, "0000:3b:00.0", "0000:3c:00.0"} {
		if d := reports[i].Devices; len(d) != 1 || d[0].ControlPath.Address().String() != want || len(reports[i].Problems) > 0 {
			t.Errorf("driver %d reports %+v, problems %v, want %s", i, d, reports[i].Problems, want)
		}
	}
}

func TestDevicesInUseAreNotOffered(t *testing.T) {
	t.Parallel()
	seven, eight := 7, 8
	disk := sysfs.PCIDevice{Address: "0000:5f:00.0", Vendor: "1bd4", Product: "1001", Class: "0108", Driver: "nvme", IOMMUGroup: &seven}
	grouped := intelCard(pf, 0, "1", "a", 0)
	grouped.IOMMUGroup = &seven
	alone := intelCard(pf, 0, "1", "a", 0)
	alone.IOMMUGroup = &eight
	network := intelCard(pf, 0, "1", "a", 0)
	network.Interfaces = []sysfs.Interface{{Name: "eth0", Up: true}}
	other := intelCard(pf, 0, "1", "a", 0)
	other.Driver = "altera-cvp"
	vfs := intelCard(pf, 0, "1", "aa", 2)
	vfs.VFs.Driver = "uio"
	mixed := intelCard(pf, 0, "1", "aa", 2)
	tests := []struct {
		name    string
		devices []sysfs.PCIDevice
		break_  func(*sysfs.Memory)
		config  fpga.Config
		offered int // handles
		left    []string
	}{
		{name: "a network interface is up", devices: []sysfs.PCIDevice{network}, left: []string{pf + " in use by the host: network interface eth0 is up"}},
		{name: "another kernel driver", devices: []sysfs.PCIDevice{other}, left: []string{pf + " bound to driver altera-cvp, which is not among the allowed ones"}},
		{name: "which is allowed", devices: []sysfs.PCIDevice{other}, config: fpga.Config{Policy: driver.Policy{AllowedDrivers: []string{"altera-cvp"}}}, offered: 1},
		{name: "virtual functions of another kernel driver", devices: []sysfs.PCIDevice{vfs}, left: []string{
			pf + " physical function with virtual functions enabled (2)",
			"0000:5e:00.1 bound to driver uio, which is not among the allowed ones", "0000:5e:00.2 bound to driver uio, which is not among the allowed ones"}},
		{name: "virtual functions that cannot be seen", devices: []sysfs.PCIDevice{intelCard(pf, 0, "1", "a", 0)},
			break_: func(m *sysfs.Memory) { m.SetFile(pciDir+pf+"/sriov_numvfs", []byte("3\n")) },
			left:   []string{pf + " physical function with virtual functions enabled (3)"}},
		{name: "virtual functions known by their own link only", devices: []sysfs.PCIDevice{mixed}, offered: 2,
			break_: func(m *sysfs.Memory) {
				for _, name := range []string{"virtfn0", "virtfn1", "sriov_numvfs"} {
					m.Remove(pciDir + pf + "/" + name)
				}
			},
			left: []string{pf + " physical function with virtual functions enabled (2)"}},
		{name: "a group shared with a disk", devices: []sysfs.PCIDevice{grouped, disk},
			left: []string{pf + " IOMMU group 7 has 0000:5f:00.0, of class 0108, on driver nvme: bind it to vfio-pci"}},
		{name: "a group of its own", devices: []sysfs.PCIDevice{alone, disk}, offered: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := drivertest.Tree(t, tt.devices...)
			if tt.break_ != nil {
				tt.break_(m)
			}
			report := intel(t, tt.config, m)
			offered := 0
			for _, d := range report.Devices {
				for _, p := range d.Deployables {
					offered += len(p.AttachHandles)
				}
			}
			if offered != tt.offered || len(report.Warnings) > 0 || len(report.Problems) > 0 {
				t.Errorf("offered %d, want %d; warnings %v, problems %v", offered, tt.offered, report.Warnings, report.Problems)
			}
			if diff := cmp.Diff(tt.left, leftOut(report)); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGroupThatIsNotUnderstood has a function of another kind in the group, which a
// driver of that kind has a problem with; the card is doubtful and no more.
func TestAGroupThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	seven := 7
	card := intelCard(pf, 0, "1", "a", 0)
	card.IOMMUGroup = &seven
	m := drivertest.Tree(t, card, sysfs.PCIDevice{Address: "0000:5f:00.0", Vendor: "1bd4", Product: "1001", Class: "0108", IOMMUGroup: &seven})
	m.SetFile(pciDir+"0000:5f:00.0/class", []byte("?"))
	if report := intel(t, fpga.Config{}, m); len(report.Devices) != 0 || len(report.LeftOut) != 1 {
		t.Errorf("offered %v, left out %v", lines(report), report.LeftOut)
	}
}

const pciDir = "bus/pci/devices/"
