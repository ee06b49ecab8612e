package builtin_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/pci"
	"github.com/gocyborg/gocyborg/internal/sysfs"
)

// captured opens a tree of a real machine.
func captured(t *testing.T, name string) *sysfs.DirTree {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "internal", "sysfs", "testdata", name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(plain); err == nil; {
		var h *tar.Header
		if h, err = r.Next(); err == nil {
			err = extract(filepath.Join(dir, filepath.FromSlash(h.Name)), h, r)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	tree, err := sysfs.OpenDir(filepath.Join(dir, "sys"), sysfs.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func extract(path string, h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return os.Symlink(h.Linkname, path)
	}
	data, err := io.ReadAll(r)
	return errors.Join(err, os.WriteFile(path, data, 0o644))
}

// hardware is every driver but the one that finds what is not there.
func hardware() builtin.Config {
	return builtin.Config{EnabledDrivers: builtin.Names()[1:], Host: "h"}
}

func TestAllDriversOnRealMachines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		machine   string
		whitelist pci.Whitelist
		want      map[string]int // devices by driver
	}{
		{"nvidia-p100", nil, map[string]int{"nvidia": 1}},
		{"xeon-i350-sriov", nil, map[string]int{}},
		{"xeon-i350-sriov", pci.Whitelist{{VendorID: "8086", ProductID: "1520"}}, map[string]int{"pci": 8}},
		{"qemu-accel", nil, map[string]int{}},
		{"qemu-accel", pci.Whitelist{{VendorID: "1b36", ProductID: "0005"}}, map[string]int{"pci": 1}},
	} {
		t.Run(tt.machine, func(t *testing.T) {
			t.Parallel()
			c := hardware()
			c.PCI.PassthroughWhitelist = tt.whitelist
			got := make(map[string]int)
			for name, report := range discover(t, c, captured(t, tt.machine)) {
				if len(report.Devices) > 0 {
					got[name] = len(report.Devices)
				}
				if len(report.Problems) > 0 {
					t.Errorf("%s: %v", name, report.Problems)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
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
	reports, err := driver.DiscoverAll(t.Context(), drivers)
	if err != nil {
		t.Fatal(err)
	}
	checkReports(t, drivers, reports)
	for i, report := range reports {
		t.Logf("%s: %v", drivers[i].Name(), offered(report))
	}
}
