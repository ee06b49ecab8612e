package sysfs_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	region1 = "69528db6eb31577a8c3668f9faa081f6"
	region2 = "9926ab6d6c925a68aabca7d84c545738"
	afu1    = "d8424dc4a4a3c413f89e433683f9040b"
	afu2    = "c000c9660d824272 9aeffe5f84570612"
	fpga    = "0000:5e:00.0"
)

// classes has a disk of every kind, a clock, an FPGA with VFs, and a parent off PCI.
func classes() sysfs.Description {
	return sysfs.Description{
		Devices: []sysfs.PCIDevice{
			{Address: "0000:00:1d.0", Vendor: "8086", Product: "a298", Class: "0604", Driver: "pcieport"},
			{Address: "0000:01:00.0", Parent: "0000:00:1d.0", Vendor: "1bd4", Product: "1001", Class: "010802", Driver: "nvme",
				Disks: []sysfs.Disk{{Name: "nvme0n1", Major: 259, Minor: 0, Partitions: []sysfs.Partition{
					{Name: "nvme0n1p1", Minor: 1}, {Name: "nvme0n1p2", Minor: 2, Holders: []string{"dm-0", "dm-1"}},
				}}}},
			{Address: "0000:00:11.4", Vendor: "8086", Product: "8d62", Class: "010601", Driver: "ahci", Disks: []sysfs.Disk{
				{Name: "sda", Major: 8, Minor: 0, Holders: []string{"md127"}}, {Name: "sdb", Major: 8, Minor: 16, Holders: []string{"md127"}},
			}},
			{Address: "0000:00:04.0", Vendor: "1af4", Product: "1042", Class: "0100", Driver: "virtio-pci",
				Disks: []sysfs.Disk{{Name: "vda", Major: 254, Minor: 0}}},
			{Address: "0000:00:05.0", Vendor: "1344", Product: "5150", Class: "0180", Driver: "mtip32xx",
				Disks: []sysfs.Disk{{Name: "rssda", Major: 252, Minor: 0}}},
			{Address: "0000:06:00.0", Vendor: "1cf2", Product: "1001", Class: "0880",
				Clocks: []sysfs.Clock{{Name: "ptp0", ClockName: "zte_ptp"}, {Name: "ptp1", ClockName: "zte_ptp"}}},
			{Address: fpga, Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
				VFs: &sysfs.VFs{Total: 2, Offset: 8, Product: "09c5"},
				FPGA: &sysfs.FPGA{Dev: 3, InterfaceID: region1, Ports: []sysfs.FPGAPort{
					{Number: 4, AFUID: strings.ToUpper(afu1), VF: 1}, {Number: 5, VF: 2}, {Number: 6, AFUID: afu1},
				}}},
			{Address: "0000:5f:00.0", Vendor: "8086", Product: "0b30", Class: "1200",
				FPGA: &sysfs.FPGA{Dev: 0, Regions: []sysfs.FPGARegion{{Number: 0, InterfaceID: region1}, {Number: 1, InterfaceID: region2}}}},
		},
		MdevParents: []sysfs.MdevParent{{Name: "mtty", MixedMdevTypes: true, Types: []sysfs.MdevType{
			{Type: "mtty-1", Name: "Single port serial", AvailableInstances: 24},
			{Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 12},
		}}},
	}
}

func TestGenerateLinksTheClassesAsTheKernelDoes(t *testing.T) {
	t.Parallel()
	m := generate(t, classes())
	wantLinks(t, m, map[string]string{
		"block/nvme0n1":                         "../devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1",
		"class/block/nvme0n1p2":                 "../../devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2",
		"block/nvme0n1/device":                  "../../nvme0",
		"class/nvme/nvme0":                      "../../devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0",
		"class/nvme/nvme0/device":               "../../../0000:01:00.0",
		"dev/block/259:2":                       "../../devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2",
		"class/block/nvme0n1p2/holders/dm-1":    "../../../../../../../../virtual/block/dm-1",
		"block/dm-1/slaves/nvme0n1p2":           "../../../../pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2",
		"block/sda":                             "../devices/pci0000:00/0000:00:11.4/host0/target0:0:0/0:0:0:0/block/sda",
		"block/sdb":                             "../devices/pci0000:00/0000:00:11.4/host1/target1:0:0/1:0:0:0/block/sdb",
		"block/sda/holders/md127":               "../../../../../../../../virtual/block/md127",
		"block/vda":                             "../devices/pci0000:00/0000:00:04.0/virtio0/block/vda",
		"block/rssda":                           "../devices/pci0000:00/0000:00:05.0/block/rssda",
		"class/ptp/ptp1":                        "../../devices/pci0000:06/0000:06:00.0/ptp/ptp1",
		"class/ptp/ptp1/device":                 "../../../0000:06:00.0",
		"class/fpga/intel-fpga-dev.3":           "../../devices/pci0000:5e/0000:5e:00.0/fpga/intel-fpga-dev.3",
		"class/fpga/intel-fpga-dev.3/device":    "../../../0000:5e:00.0",
		"class/mdev_bus/mtty":                   "../../devices/virtual/mtty/mtty",
		"class/mtty/mtty":                       "../../devices/virtual/mtty/mtty",
		"devices/virtual/mtty/mtty/subsystem":   "../../../../class/mtty",
		"bus/pci/devices/0000:01:00.0/driver":   "../../../../bus/pci/drivers/nvme",
		"class/block/rssda/subsystem":           "../../../../../class/block",
		"class/fpga/intel-fpga-dev.0/subsystem": "../../../../../class/fpga",
	})
	wantFiles(t, m, map[string]string{
		"block/nvme0n1/dev":               "259:0",
		"class/block/nvme0n1p2/dev":       "259:2",
		"class/block/nvme0n1p2/partition": "2",
		"block/dm-1/dev":                  "253:1",
		"block/md127/dev":                 "9:127",
		"class/ptp/ptp0/clock_name":       "zte_ptp",
		"class/fpga/intel-fpga-dev.3/intel-fpga-fme.3/pr/interface_id": region1,
		"class/fpga/intel-fpga-dev.0/intel-fpga-fme.1/pr/interface_id": region2,
		"class/fpga/intel-fpga-dev.3/intel-fpga-port.4/afu_id":         afu1,
		"class/mdev_bus/mtty/mdev_supported_types/mtty-2/name":         "Dual port serial",
	})
}

func TestPortsMoveToTheirVirtualFunctions(t *testing.T) {
	t.Parallel()
	m := generate(t, classes())
	numVFs := "bus/pci/devices/" + fpga + "/sriov_numvfs"
	owners := func() []string {
		var found []string
		for _, dev := range list(t, m, "class/fpga") {
			target, err := m.Readlink("class/fpga/" + dev + "/device")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range list(t, m, "class/fpga/"+dev) {
				if strings.HasPrefix(name, "intel-fpga-port") {
					found = append(found, strings.Join([]string{dev, target[strings.LastIndex(target, "/")+1:], name}, " "))
				}
			}
		}
		return found
	}
	together := []string{
		"intel-fpga-dev.3 0000:5e:00.0 intel-fpga-port.4", "intel-fpga-dev.3 0000:5e:00.0 intel-fpga-port.5", "intel-fpga-dev.3 0000:5e:00.0 intel-fpga-port.6",
	}
	apart := []string{
		"intel-fpga-dev.3 0000:5e:00.0 intel-fpga-port.6", "intel-fpga-dev.4 0000:5e:01.0 intel-fpga-port.4", "intel-fpga-dev.5 0000:5e:01.1 intel-fpga-port.5",
	}
	for _, step := range []struct {
		vfs  string
		want []string
	}{{"0", together}, {"2", apart}, {"0", together}, {"1", []string{together[1], together[2], apart[1]}}} {
		write(t, m, numVFs, step.vfs)
		if diff := cmp.Diff(step.want, owners()); diff != "" {
			t.Errorf("with %s VFs (-want +got):\n%s", step.vfs, diff)
		}
	}
	if got := read(t, m, "bus/pci/devices/0000:5e:01.0/fpga/intel-fpga-dev.4/intel-fpga-port.4/afu_id"); got != afu1+"\n" {
		t.Errorf("afu_id = %q", got)
	}
}

func TestProgramChangesTheFunctionOfAPort(t *testing.T) {
	t.Parallel()
	const other = "0123456789abcdef0123456789ABCDEF"
	m := generate(t, classes())
	write(t, m, "bus/pci/devices/"+fpga+"/sriov_numvfs", "1")
	for _, tt := range []struct {
		name, address string
		port          int
		id            string
		want          error
	}{
		{"through the physical function", fpga, 4, other, nil},
		{"one that was empty", fpga, 5, other, nil},
		{"through its virtual function", "0000:5e:01.0", 4, other, nil},
		{"another function's port", "0000:5e:01.0", 6, other, sysfs.ErrNoPort},
		{"no such port", fpga, 9, other, sysfs.ErrNoPort},
		{"no FPGA", "0000:01:00.0", 4, other, sysfs.ErrNoPort},
		{"no address", "fpga", 4, other, driver.ErrPCIAddress},
		{"no id", fpga, 4, afu2, fs.ErrInvalid},
	} {
		if err := m.Program(tt.address, tt.port, tt.id); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	inPF := "bus/pci/devices/" + fpga + "/fpga/intel-fpga-dev.3/"
	wantFiles(t, m, map[string]string{
		"bus/pci/devices/0000:5e:01.0/fpga/intel-fpga-dev.4/intel-fpga-port.4/afu_id": strings.ToLower(other),
		inPF + "intel-fpga-port.5/afu_id":                                             strings.ToLower(other),
		inPF + "intel-fpga-port.6/afu_id":                                             afu1,
	})
	m.Reboot()
	if got := read(t, m, inPF+"intel-fpga-port.4/afu_id"); got != afu1+"\n" {
		t.Errorf("after a restart afu_id = %q", got)
	}
	if _, err := m.ReadFile(inPF + "intel-fpga-port.5/afu_id"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a restart: %v, want no afu_id", err)
	}
}

func TestAParentOffThePCIBusHasMdevs(t *testing.T) {
	t.Parallel()
	m := generate(t, classes())
	const types = "class/mdev_bus/mtty/mdev_supported_types"
	write(t, m, types+"/mtty-1/create", id1)
	write(t, m, types+"/mtty-2/create", id2)
	want := []driver.Mdev{{UUID: id1, Parent: "mtty", Type: "mtty-1"}, {UUID: id2, Parent: "mtty", Type: "mtty-2"}}
	got, err := sysfs.Mdevs(m)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("mdevs: %v (-want +got):\n%s", err, diff)
	}
	if target, err := m.Readlink("bus/mdev/devices/" + id2); err != nil || target != "../../../devices/virtual/mtty/mtty/"+id2 {
		t.Errorf("the bus leads to %q, %v", target, err)
	}
	if left := read(t, m, types+"/mtty-1/available_instances"); left != "23\n" {
		t.Errorf("available_instances = %q", left)
	}
	write(t, m, types+"/mtty-2/devices/"+id2+"/remove", "1")
	m.Reboot()
	if left := m.Mdevs(); len(left) != 0 || slices.Contains(list(t, m, "class/mdev_bus/mtty"), id1) {
		t.Errorf("after a restart: %v", left)
	}
}

func TestTheOverlayTakesParentsOffThePCIBus(t *testing.T) {
	t.Parallel()
	tree := open(t, layOut(t, generate(t, classes())), sysfs.DirOptions{})
	write(t, tree, "class/mdev_bus/mtty/mdev_supported_types/mtty-2/create", id1)
	want := []driver.Mdev{{UUID: id1, Parent: "mtty", Type: "mtty-2"}}
	got, err := sysfs.Mdevs(tree)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("mdevs: %v (-want +got):\n%s", err, diff)
	}
}

func TestGenerateRefusesClassesThatNoMachineHas(t *testing.T) {
	t.Parallel()
	card := sysfs.PCIDevice{Address: t4, Vendor: "10de", Product: "1eb8", Class: "0302"}
	for name, change := range map[string]func(*sysfs.Description, *sysfs.PCIDevice){
		"disk name":   func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.Disks = []sysfs.Disk{{Name: "a/b"}} },
		"disk number": func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.Disks = []sysfs.Disk{{Name: "sda", Major: -1}} },
		"huge minor":  func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.Disks = []sysfs.Disk{{Name: "sda", Minor: 1 << 20}} },
		"holder": func(_ *sysfs.Description, d *sysfs.PCIDevice) {
			d.Disks = []sysfs.Disk{{Name: "sda", Holders: []string{".."}}}
		},
		"partition name": func(_ *sysfs.Description, d *sysfs.PCIDevice) {
			d.Disks = []sysfs.Disk{{Name: "sda", Partitions: []sysfs.Partition{{Name: "sda"}}}}
		},
		"clock name": func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.Clocks = []sysfs.Clock{{Name: ""}} },
		"region id":  func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.FPGA = &sysfs.FPGA{InterfaceID: afu2} },
		"region twice": func(_ *sysfs.Description, d *sysfs.PCIDevice) {
			d.FPGA = &sysfs.FPGA{InterfaceID: region1, Regions: []sysfs.FPGARegion{{InterfaceID: region2}}}
		},
		"negative dev": func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.FPGA = &sysfs.FPGA{Dev: -1} },
		"dev twice": func(all *sysfs.Description, d *sysfs.PCIDevice) {
			d.FPGA = &sysfs.FPGA{}
			all.Devices = append(all.Devices, sysfs.PCIDevice{Address: fpga, Vendor: "8086", Product: "09c4", Class: "1200", FPGA: &sysfs.FPGA{}})
		},
		"port twice": func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.FPGA = &sysfs.FPGA{Ports: []sysfs.FPGAPort{{}, {}}} },
		"function id": func(_ *sysfs.Description, d *sysfs.PCIDevice) {
			d.FPGA = &sysfs.FPGA{Ports: []sysfs.FPGAPort{{AFUID: "x"}}}
		},
		"port of no VF": func(_ *sysfs.Description, d *sysfs.PCIDevice) { d.FPGA = &sysfs.FPGA{Ports: []sysfs.FPGAPort{{VF: 1}}} },
		"parent is PCI": func(all *sysfs.Description, _ *sysfs.PCIDevice) { all.MdevParents[0].Name = t4 },
		"parent twice": func(all *sysfs.Description, _ *sysfs.PCIDevice) {
			all.MdevParents = append(all.MdevParents, all.MdevParents[0])
		},
		"parent above":       func(all *sysfs.Description, _ *sysfs.PCIDevice) { all.MdevParents[0].Name = ".." },
		"parent of no types": func(all *sysfs.Description, _ *sysfs.PCIDevice) { all.MdevParents[0].Types = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sysfs.Description{MdevParents: []sysfs.MdevParent{{Name: "mtty", Types: []sysfs.MdevType{{Type: "a"}}}}}
			bad := card
			change(&d, &bad)
			d.Devices = append(d.Devices, bad)
			if _, err := sysfs.Generate(d); !errors.Is(err, sysfs.ErrDescription) {
				t.Errorf("Generate: %v, want ErrDescription", err)
			}
		})
	}
}
