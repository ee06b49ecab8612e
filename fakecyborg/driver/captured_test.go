package driver_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/fakecyborg/driver/pci"
	"github.com/gocyborg/gocyborg/internal/sysfs"
)

// captured opens a tree of a real machine.
func captured(t *testing.T, name string) *sysfs.DirTree {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "internal", "sysfs", "testdata", name+".tar.gz"))
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

// summary lists what a driver makes of a tree: what is offered, with resource class and
// traits, and how many functions are left out or a problem.
type summary struct {
	Offered           []string
	LeftOut, Problems int
}

func summarise(t *testing.T, d driver.Driver, err error) summary {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	report, err := d.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := summary{LeftOut: len(report.LeftOut), Problems: len(report.Problems)}
	for _, device := range report.Devices {
		if err := device.Validate(); err != nil {
			t.Error(err)
		}
		for _, p := range device.Deployables {
			s.Offered = append(s.Offered, strings.Join(append([]string{p.Name, p.ResourceClass()}, p.Traits()...), " "))
		}
	}
	return s
}

func TestWhatRealMachinesOffer(t *testing.T) {
	t.Parallel()
	vfs := []string{}
	for _, slot := range []string{"10.0", "10.1", "10.4", "10.5", "11.0", "11.1", "11.4", "11.5"} {
		vfs = append(vfs, "h_0000:05:"+slot+" CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_INTEL CUSTOM_PCI_PRODUCT_ID_1520")
	}
	for _, tt := range []struct {
		machine, whitelist  string
		nvidia, passthrough summary
	}{
		{machine: "nvidia-p100", whitelist: `{"vendor_id": "1af4", "address": "*:04:*.*"}`,
			nvidia:      summary{Offered: []string{"h_0000:06:00.0 PGPU OWNER_CYBORG CUSTOM_NVIDIA_15F8"}},
			passthrough: summary{LeftOut: 1}}, // the machine's own display
		{machine: "xeon-i350-sriov", whitelist: `[{"vendor_id": "8086", "product_id": "1520"}, {"vendor_id": "102b"}]`,
			passthrough: summary{Offered: vfs, LeftOut: 1}},
		{machine: "qemu-accel", whitelist: `{"vendor_id": "1b36", "product_id": "0005"}`,
			passthrough: summary{Offered: []string{"h_0000:00:04.0 CUSTOM_PCI OWNER_CYBORG CUSTOM_PCI_PRODUCT_ID_0005"}}},
	} {
		t.Run(tt.machine, func(t *testing.T) {
			t.Parallel()
			tree := captured(t, tt.machine)
			gpus, err := nvidia.New(nvidia.Config{Host: "h"}, tree)
			if diff := cmp.Diff(tt.nvidia, summarise(t, gpus, err)); diff != "" {
				t.Errorf("nvidia (-want +got):\n%s", diff)
			}
			none, err := pci.New(pci.Config{Host: "h"}, tree)
			if diff := cmp.Diff(summary{}, summarise(t, none, err)); diff != "" {
				t.Errorf("pci without a whitelist (-want +got):\n%s", diff)
			}
			whitelist, err := pci.ParseWhitelist(tt.whitelist)
			if err != nil {
				t.Fatal(err)
			}
			some, err := pci.New(pci.Config{Host: "h", PassthroughWhitelist: whitelist}, tree)
			if diff := cmp.Diff(tt.passthrough, summarise(t, some, err)); diff != "" {
				t.Errorf("pci with a whitelist (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheMachineItRunsOn has no expectation of the hardware: what is reported can be
// stored, and the discovery ends.
func TestTheMachineItRunsOn(t *testing.T) {
	t.Parallel()
	tree, err := sysfs.OpenDir("/sys", sysfs.DirOptions{})
	if err != nil {
		t.Skipf("no sysfs here: %v", err)
	}
	defer tree.Close()
	gpus, err := nvidia.New(nvidia.Config{Host: "h"}, tree)
	t.Logf("nvidia: %+v", summarise(t, gpus, err))
	all, err := pci.New(pci.Config{Host: "h", PassthroughWhitelist: []pci.Spec{{}}}, tree)
	t.Logf("pci: %+v", summarise(t, all, err))
}
