package builtin_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// unpacked unpacks the tree of a real machine.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	return drivertest.Unpack(t, filepath.Join("..", "sysfs", "testdata", name+".tar.gz"))
}

// captured opens a tree of a real machine.
func captured(t *testing.T, dir string) *sysfs.DirTree {
	t.Helper()
	tree, err := sysfs.OpenDir(dir, sysfs.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

// hardware enables every driver except the fake one.
func hardware() builtin.Config {
	return builtin.Config{EnabledDrivers: builtin.Names()[1:], Host: "h", PCI: &pci.Config{}}
}

// everyOffer lists what drivers offer and leave out, each with its names.
func everyOffer(reports map[string]driver.Report) []string {
	list := []string{}
	for name, report := range reports {
		for _, d := range report.Devices {
			for _, p := range d.Deployables {
				list = append(list, strings.Join(append([]string{name, p.Name, p.Class}, p.Traits...), " "))
			}
		}
		for _, l := range report.LeftOut {
			list = append(list, name+" leaves out "+l.Address)
		}
	}
	slices.Sort(list)
	return list
}

func TestAllDriversOnRealMachines(t *testing.T) {
	t.Parallel()
	vfs := []string{}
	for _, slot := range []string{"10.0", "10.1", "10.4", "10.5", "11.0", "11.1", "11.4", "11.5"} {
		vfs = append(vfs, "pci h_0000:05:"+slot+" CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_1520")
	}
	a16 := []string{"nvidia leaves out 0000:08:00.0"}
	for vf := 4; vf < 20; vf++ {
		a16 = append(a16, fmt.Sprintf("nvidia leaves out 0000:08:%02x.%d", vf/8, vf%8))
	}
	dirs := make(map[string]string)
	const gpu = "nvidia h_0000:06:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_15F8"
	for _, tt := range []struct {
		machine, whitelist string
		want               []string
	}{
		{"nvidia-p100", "", []string{gpu}},
		{"nvidia-p100", `{"vendor_id": "1af4", "address": "*:04:*.*"}`, []string{gpu, "pci leaves out 0000:04:00.0"}}, // the machine's own display
		{"xeon-i350-sriov", "", []string{}},
		{"xeon-i350-sriov", `[{"vendor_id": "8086", "product_id": "1520"}, {"vendor_id": "102b"}]`, append(vfs, "pci leaves out 0000:07:03.0")},
		{"nvidia-a16-sriov-mdev", "", a16},
		{"qemu-accel", "", []string{}},
		{"qemu-accel", `{"vendor_id": "1b36", "product_id": "0005"}`, []string{"pci h_0000:00:04.0 CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_PRODUCT_ID_0005"}},
	} {
		if dirs[tt.machine] == "" {
			dirs[tt.machine] = unpacked(t, tt.machine)
		}
		dir := dirs[tt.machine]
		t.Run(tt.machine, func(t *testing.T) {
			t.Parallel()
			c := hardware()
			if tt.whitelist != "" {
				var err error
				if c.PCI.PassthroughWhitelist, err = pci.ParseWhitelist(tt.whitelist); err != nil {
					t.Fatal(err)
				}
			}
			reports := discover(t, c, captured(t, dir))
			if diff := cmp.Diff(tt.want, everyOffer(reports)); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
			for name, report := range reports {
				if len(report.Problems) > 0 {
					t.Errorf("%s: %v", name, report.Problems)
				}
			}
		})
	}
}

// TestTheMachineItRunsOn has no expectation of the hardware: what is reported can be
// stored, nothing is given away twice, and the discovery ends.
func TestTheMachineItRunsOn(t *testing.T) {
	t.Parallel()
	tree, err := sysfs.OpenDir("/sys", sysfs.DirOptions{})
	if err != nil {
		t.Skipf("no sysfs here: %v", err)
	}
	defer tree.Close()
	c := hardware()
	c.PCI.PassthroughWhitelist = pci.Whitelist{{VendorID: "1af4"}}
	drivers := load(t, c, tree)
	reports := driver.DiscoverAll(t.Context(), drivers)
	drivertest.Check(t, drivers, reports)
	for i, report := range reports {
		t.Logf("%s: %v", drivers[i].Name(), offered(report))
	}
}
