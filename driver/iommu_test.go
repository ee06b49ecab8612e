package driver_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	xilinx "github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// grouped is a device of an IOMMU group, on a kernel driver.
func grouped(group int, address, vendor, product, class, driver string) sysfs.PCIDevice {
	return sysfs.PCIDevice{Address: address, Vendor: vendor, Product: product, Class: class, Driver: driver, IOMMUGroup: &group}
}

// outcome is what a discovery makes of each address: "offered", with warnings, or the reason why not.
func outcome(t *testing.T, drivers ...driver.Driver) map[string]string {
	t.Helper()
	got := make(map[string]string)
	reports := driver.DiscoverAll(t.Context(), drivers)
	drivertest.Check(t, drivers, reports)
	for i, report := range reports {
		for _, d := range report.Devices {
			for _, p := range d.Deployables {
				if p.NumAccelerators > len(p.AttachHandles) {
					t.Errorf("%s has %d accelerators and the handles %v", p.Name, p.NumAccelerators, p.AttachHandles)
				}
				for _, h := range p.AttachHandles {
					got[driver.ControlPath{Info: h.Info}.Address().String()] = "offered"
				}
			}
		}
		for _, n := range report.LeftOut {
			if !strings.HasPrefix(n.Reason, "physical function with") {
				got[n.Address] = n.Reason
			}
		}
		for _, n := range report.Warnings {
			got[n.Address] += ": " + n.Reason
		}
		for _, p := range report.Problems {
			got[p.Address] = p.Error()
		}
		if report.Err != nil {
			t.Errorf("%s: %v", drivers[i].Name(), report.Err)
		}
	}
	return got
}

func TestIOMMUGroups(t *testing.T) {
	t.Parallel()
	const offered = "offered"
	gpu := func(group int, address, driver string) sysfs.PCIDevice {
		return grouped(group, address, "10de", "15f8", "0302", driver)
	}
	audio := func(driver string) sysfs.PCIDevice {
		return grouped(30, "0000:40:00.1", "10de", "0fb8", "0403", driver)
	}
	nic := func(group int, address, driver string) sysfs.PCIDevice {
		return grouped(group, address, "8086", "1521", "0200", driver)
	}
	vfs := nic(30, "0000:05:00.0", "vfio-pci")
	vfs.VFs = &sysfs.VFs{Total: 2, Enabled: 2, Product: "1520", Driver: "vfio-pci"}
	plain := gpu(0, "0000:60:00.0", "nvidia")
	plain.IOMMUGroup = nil
	for _, tt := range []struct {
		name    string
		devices []sysfs.PCIDevice
		change  func(*sysfs.Memory)
		want    map[string]string
	}{
		{"two of one group on vfio-pci", []sysfs.PCIDevice{gpu(30, "0000:41:00.0", "vfio-pci"), gpu(30, "0000:40:00.0", "vfio-pci")}, nil,
			map[string]string{"0000:40:00.0": offered, "0000:41:00.0": "group 30 with 0000:40:00.0"}},
		{"three, one of another driver", []sysfs.PCIDevice{gpu(30, "0000:41:00.0", "vfio-pci"), nic(30, "0000:40:00.0", "pci-stub"), gpu(30, "0000:42:00.0", "")}, nil,
			map[string]string{"0000:40:00.0": offered, "0000:41:00.0": "group 30 with 0000:40:00.0", "0000:42:00.0": "group 30 with 0000:40:00.0"}},
		{"the lowest is of another driver", []sysfs.PCIDevice{gpu(30, "0000:41:00.0", "vfio-pci"), nic(30, "0000:40:00.0", "vfio-pci")}, nil,
			map[string]string{"0000:40:00.0": offered, "0000:41:00.0": "group 30 with 0000:40:00.0"}},
		{"two groups", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), gpu(31, "0000:41:00.0", "nvidia")}, nil,
			map[string]string{"0000:40:00.0": offered, "0000:41:00.0": offered}},
		{"both on the driver of the host", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), gpu(30, "0000:41:00.0", "nvidia")}, nil,
			map[string]string{
				"0000:40:00.0": "IOMMU group 30 has 0000:41:00.0, of class 0302, on driver nvidia: bind it to vfio-pci",
				"0000:41:00.0": "IOMMU group 30 has 0000:40:00.0, of class 0302, on driver nvidia: bind it to vfio-pci",
			}},
		{"one of them, which libvirt unbinds", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), gpu(30, "0000:41:00.0", "")}, nil,
			map[string]string{"0000:40:00.0": offered, "0000:41:00.0": "IOMMU group 30 has 0000:40:00.0, of class 0302, on driver nvidia: bind it to vfio-pci"}},
		{"audio of the same slot on a sound driver", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "vfio-pci"), audio("snd_hda_intel")}, nil,
			map[string]string{"0000:40:00.0": "IOMMU group 30 has 0000:40:00.1, of class 0403, on driver snd_hda_intel: bind it to vfio-pci"}},
		{"audio on vfio-pci", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), audio("vfio-pci")}, nil, map[string]string{"0000:40:00.0": offered}},
		{"audio on a variant", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), audio("nvgrace_gpu_vfio_pci")}, nil, map[string]string{"0000:40:00.0": offered}},
		{"the card on a variant", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "xe-vfio-pci")}, nil, map[string]string{"0000:40:00.0": offered}},
		{"audio without driver", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), audio("")}, nil, map[string]string{"0000:40:00.0": offered}},
		{"a bridge", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), grouped(30, "0000:3f:00.0", "8086", "2030", "0604", "pcieport")}, nil,
			map[string]string{"0000:40:00.0": offered}},
		{"a member that is not understood", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), audio("")},
			func(m *sysfs.Memory) { m.SetFile("bus/pci/devices/0000:40:00.1/class", []byte("?")) },
			map[string]string{"0000:40:00.0": `IOMMU group 30 has 0000:40:00.1, which is not understood: garbled content: "?"`,
				"0000:40:00.1": `driver: device 0000:40:00.1: bus/pci/devices/0000:40:00.1/class: garbled content: "?"`}},
		{"virtual functions of one group", []sysfs.PCIDevice{vfs}, func(m *sysfs.Memory) {
			for _, vf := range []string{"0000:05:00.1", "0000:05:00.2"} {
				m.SetLink("bus/pci/devices/"+vf+"/iommu_group", "../../../kernel/iommu_groups/30")
				m.SetLink("kernel/iommu_groups/30/devices/"+vf, "../../../../bus/pci/devices/"+vf)
			}
		}, map[string]string{"0000:05:00.1": offered, "0000:05:00.2": "group 30 with 0000:05:00.1"}},
		{"no group while others have one", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "nvidia"), plain}, nil,
			map[string]string{"0000:40:00.0": offered, "0000:60:00.0": "in no IOMMU group, and other functions are in one: a guest cannot start with it"}},
		{"no IOMMU", []sysfs.PCIDevice{plain}, func(m *sysfs.Memory) { m.SetFile("kernel/iommu_groups/x", nil); m.Remove("kernel/iommu_groups/x") },
			map[string]string{"0000:60:00.0": "offered: the machine has no IOMMU group: without an IOMMU a guest cannot start with it"}},
		{"a capture without groups", []sysfs.PCIDevice{plain}, nil, map[string]string{"0000:60:00.0": offered}},
		{"a capture with links only", []sysfs.PCIDevice{gpu(30, "0000:40:00.0", "vfio-pci"), gpu(30, "0000:41:00.0", "vfio-pci")},
			func(m *sysfs.Memory) { m.Remove("kernel/iommu_groups") },
			map[string]string{"0000:40:00.0": offered, "0000:41:00.0": "group 30 with 0000:40:00.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := drivertest.Tree(t, tt.devices...)
			if tt.change != nil {
				tt.change(m)
			}
			got := outcome(t, gpusOf(t, m, driver.Policy{}), passthrough(t, m, driver.Policy{}, pci.Spec{VendorID: "8086", ProductID: "1521"}, pci.Spec{VendorID: "8086", ProductID: "1520"}))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMediatedDevicesShareNoGroup has two divided cards in one group: each mediated device has a group
// of its own.
func TestMediatedDevicesShareNoGroup(t *testing.T) {
	t.Parallel()
	card := func(address string) sysfs.PCIDevice {
		d := grouped(30, address, "10de", "1eb8", "0302", "nvidia")
		d.MdevTypes = []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 2}}
		return d
	}
	m := drivertest.Tree(t, card("0000:40:00.0"), card("0000:41:00.0"))
	d, err := nvidia.New(nvidia.Config{Host: "h", EnabledVGPUTypes: []nvidia.VGPUType{{Name: "nvidia-35", DeviceAddresses: []string{"0000:40:00.0", "0000:41:00.0"}}}}, m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"0000:40:00.0": "offered", "0000:41:00.0": "offered"}, outcome(t, d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAGroupThatCannotBeReadIsAProblem(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"kernel/iommu_groups/30/devices", "bus/pci/devices/0000:40:00.1/driver"} {
		m := &unreadable{drivertest.Tree(t, grouped(30, "0000:40:00.0", "10de", "15f8", "0302", "nvidia"), grouped(30, "0000:40:00.1", "10de", "0fb8", "0403", "vfio-pci")), file}
		report, err := gpusOf(t, m, driver.Policy{}).Discover(t.Context())
		if err != nil || len(report.Problems) != 1 || len(report.Devices)+len(report.LeftOut) != 0 {
			t.Fatalf("%s: %+v, %v", file, report, err)
		}
		if p := report.Problems[0]; p.File != file || p.Address != "0000:40:00.0" || !errors.Is(p, syscall.EMFILE) {
			t.Errorf("problem %+v, want file %s", p, file)
		}
	}
}

// TestHandlesOfOneAcceleratorShareAGroup has a card of two functions that go to one guest together.
func TestHandlesOfOneAcceleratorShareAGroup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		devices []sysfs.PCIDevice
		want    map[string]string
	}{
		"alone": {nil, map[string]string{"0000:40:00.0": "offered", "0000:40:00.1": "offered"}},
		"beside a function at a lower address": {
			[]sysfs.PCIDevice{grouped(30, "0000:30:00.0", "10de", "15f8", "0302", "vfio-pci")},
			map[string]string{"0000:30:00.0": "offered", "0000:40:00.0": "group 30 with 0000:30:00.0", "0000:40:00.1": "group 30 with 0000:30:00.0"},
		},
	} {
		m := drivertest.Tree(t, append(tt.devices,
			grouped(30, "0000:40:00.0", "10ee", "5000", "1200", "vfio-pci"), grouped(30, "0000:40:00.1", "10ee", "5001", "1200", "vfio-pci"))...)
		card, err := xilinx.NewXilinx(xilinx.Config{Host: "h", DoubledHandles: true}, m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, outcome(t, card, gpusOf(t, m, driver.Policy{}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAGroupIsNotOfferedTwiceWhileAFunctionIsUnreadable makes each name unreadable once: what an agent keeps of
// the first card excludes the second.
func TestAGroupIsNotOfferedTwiceWhileAFunctionIsUnreadable(t *testing.T) {
	t.Parallel()
	const first, second = "0000:40:00.0", "0000:41:00.0"
	tree := func(name string) *unreadable {
		return &unreadable{drivertest.Tree(t, grouped(30, first, "10de", "15f8", "0302", "vfio-pci"), grouped(30, second, "10de", "15f8", "0302", "vfio-pci")), name}
	}
	read := &tally{Tree: tree(""), reads: make(map[string]int)}
	outcome(t, gpusOf(t, read, driver.Policy{}))
	for kindAndName := range read.reads {
		_, name, _ := strings.Cut(kindAndName, " ")
		reports := driver.DiscoverAll(t.Context(), []driver.Driver{gpusOf(t, tree(name), driver.Policy{})})
		for _, d := range reports[0].Devices {
			if at := d.ControlPath.Address().String(); at != first {
				t.Errorf("%s is unreadable: %s is offered beside what is kept of %s", name, at, first)
			}
		}
	}
}

// failing is a driver whose discovery fails.
type failing struct {
	claiming
	fail func() error
}

type claiming interface {
	driver.TreeDriver
	driver.Claimer
}

func (f failing) DiscoverIn(context.Context, *driver.View) (driver.Report, error) {
	return driver.Report{}, f.fail()
}

// TestAFailedDriverPreventsNewOffers: an agent keeps what the driver reported, so its functions may be
// those of guests. Others of their groups, and the same functions by another driver, stay as they are.
func TestAFailedDriverPreventsNewOffers(t *testing.T) {
	t.Parallel()
	const inGroup, apart, same = "0000:30:00.0", "0000:42:00.0", "0000:43:00.0"
	tree := drivertest.Tree(t,
		grouped(30, inGroup, "8086", "1520", "0200", "vfio-pci"), grouped(30, "0000:40:00.0", "10de", "15f8", "0302", "vfio-pci"),
		grouped(31, apart, "8086", "1520", "0200", "vfio-pci"), grouped(32, same, "10de", "15f8", "0302", "vfio-pci"))
	gpus := gpusOf(t, tree, driver.Policy{}).(claiming)
	others := passthrough(t, tree, driver.Policy{}, pci.Spec{VendorID: "8086", ProductID: "1520"}, pci.Spec{Address: &pci.AddressPattern{Glob: same}})
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("class/gpu: too many open files") },
		"a panic":  func() error { panic("no tool") },
	} {
		for _, drivers := range [][]driver.Driver{{failing{gpus, fail}, others}, {others, failing{gpus, fail}}} {
			reports := driver.DiscoverAll(t.Context(), drivers)
			report := reports[0]
			if report.Err != nil {
				report = reports[1]
			}
			var offered []string
			for _, d := range report.Devices {
				offered = append(offered, d.ControlPath.Address().String())
			}
			if diff := cmp.Diff([]string{apart}, offered); diff != "" {
				t.Errorf("%s: offered (-want +got):\n%s", name, diff)
			}
			problems := map[string]string{}
			for _, p := range report.Problems {
				problems[p.Address] = p.Err.Error()
			}
			want := map[string]string{
				inGroup: "group 30 with 0000:40:00.0 of driver nvidia, which failed: left as it was",
				same:    "a function of driver nvidia, too, which failed: left as it was",
			}
			if diff := cmp.Diff(want, problems); diff != "" {
				t.Errorf("%s: problems (-want +got):\n%s", name, diff)
			}
		}
	}
}

// kept is a tree that keeps its view while nothing changes it.
type kept struct{ *sysfs.Memory }

func (k kept) View() *driver.View { return k.DescribedView() }

// watched is a driver that reports its discoveries.
type watched struct {
	claiming
	discovered func()
}

func (w watched) DiscoverIn(ctx context.Context, view *driver.View) (driver.Report, error) {
	defer w.discovered()
	return w.claiming.DiscoverIn(ctx, view)
}

func TestDriversOfAChangingTreeShareOneView(t *testing.T) {
	t.Parallel()
	divided := p100("0000:50:00.0", func(d *sysfs.PCIDevice) { d.VFs = &sysfs.VFs{Total: 1} })
	tree := kept{drivertest.Tree(t, divided, grouped(30, "0000:40:00.0", "10de", "15f8", "0302", "vfio-pci"), grouped(30, "0000:41:00.0", "8086", "1520", "0200", "vfio-pci"))}
	gpus := watched{gpusOf(t, tree, driver.Policy{}).(claiming), func() {
		if err := tree.WriteFile("bus/pci/devices/0000:50:00.0/sriov_numvfs", []byte("1")); err != nil {
			t.Error(err)
		}
	}}
	reports := driver.DiscoverAll(t.Context(), []driver.Driver{gpus, passthrough(t, tree, driver.Policy{}, pci.Spec{VendorID: "8086"})})
	if len(reports[1].Devices) > 0 || len(reports[1].LeftOut) != 1 || reports[1].LeftOut[0].Reason != "group 30 with 0000:40:00.0" {
		t.Errorf("beside a device of its group is reported %+v", reports[1])
	}
}
