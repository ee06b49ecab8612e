package discover

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// TestUnclaimedAccelerators has the GPUs and FPGAs that no driver takes, by the ids of their vendors, and
// functions that are no accelerators.
func TestUnclaimedAccelerators(t *testing.T) {
	t.Parallel()
	sys := laidOut(t, sysfs.Description{Devices: []sysfs.PCIDevice{
		fn("0000:00:02.0", "8086", "3e92", "0300", "i915"),
		fn("0000:03:00.0", "1a03", "2000", "0300", "ast"), // a display of a baseboard controller
		fn("0000:41:00.0", "1002", "740f", "0380", "amdgpu"),
		fn("0000:42:00.0", "8086", "0bd5", "0380", "xe"),
		fn("0000:43:00.0", "1002", "74a1", "1200", "gim"),
		fn("0000:44:00.0", "1002", "744c", "0300", "amdgpu"),
		fn("0000:44:00.1", "1002", "ab30", "0403", "snd_hda_intel"),
		fn("0000:45:00.0", "8086", "56c0", "0380", "i915"),
		fn("0000:46:00.0", "8086", "e211", "0300", "xe"),
		fn("0000:47:00.0", "8086", "bcc0", "0580", "dfl-pci"),
		fn("0000:48:00.0", "8086", "bcce", "0580", ""),
		fn("0000:49:00.0", "1c2c", "1000", "0200", "dfl-pci"),
		fn("0000:4a:00.0", "8086", "1521", "0200", "igb"),
	}})
	tables := printed(t, sys)
	_, table, _ := strings.Cut(tables, "Accelerators that no driver takes")
	var got []string
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(words[0], "0000:") {
			class, _, _ := strings.Cut(strings.Join(words[1:], " "), " {")
			got = append(got, words[0]+" "+class)
		}
	}
	want := []string{
		"0000:00:02.0 VGA compatible controller", "0000:41:00.0 Display controller", "0000:42:00.0 Display controller",
		"0000:43:00.0 Processing accelerators", "0000:44:00.0 VGA compatible controller", "0000:45:00.0 Display controller",
		"0000:46:00.0 VGA compatible controller",
		"0000:49:00.0 FPGA with a Device Feature List",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unclaimed (-want +got):\n%s\n%s", diff, tables)
	}
}

func TestTheTablesWithoutABus(t *testing.T) {
	t.Parallel()
	tree, err := sysfs.Generate(sysfs.Description{})
	must(t, err)
	tree.Remove("bus/pci")
	dir := t.TempDir()
	must(t, tree.LayOut(dir))
	if tables := printed(t, dir, "--nova-conf", writeFile(t, "nova.conf", "[pci]\n")); strings.Count(tables, "bus/pci/devices") != 1 {
		t.Error(tables)
	}
}
