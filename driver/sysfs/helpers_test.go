package sysfs_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const (
	t4   = "0000:84:00.0"
	nic  = "0000:05:00.0"
	id1  = "11111111-1111-4111-8111-111111111111"
	id2  = "22222222-2222-4222-8222-222222222222"
	id3  = "33333333-3333-4333-8333-333333333333"
	t35  = "class/mdev_bus/" + t4 + "/mdev_supported_types/nvidia-35"
	t36  = "class/mdev_bus/" + t4 + "/mdev_supported_types/nvidia-36"
	vfs0 = "bus/pci/devices/" + nic + "/sriov_numvfs"
)

func ptr(n int) *int { return &n }

// machine has a card with two mdev types and a network function with VFs.
func machine() sysfs.Description {
	return sysfs.Description{Devices: []sysfs.PCIDevice{
		{Address: "0000:80:02.0", Vendor: "8086", Product: "2f04", Class: "060400", Driver: "pcieport"},
		{Address: t4, Parent: "0000:80:02.0", Vendor: "10de", Product: "1eb8", SubsystemVendor: "10de", SubsystemProduct: "12a2",
			Class: "0302", Revision: "a1", Driver: "nvidia", NUMANode: ptr(1), IOMMUGroup: ptr(42),
			MdevTypes: []sysfs.MdevType{
				{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 2},
				{Type: "nvidia-36", Name: "GRID T4-2B", AvailableInstances: 1},
			}},
		{Address: nic, Vendor: "8086", Product: "1521", Class: "020000", Driver: "igb", IOMMUGroup: ptr(7),
			VFs:        &sysfs.VFs{Total: 3, Offset: 128, Stride: 4, Product: "1520", Driver: "igbvf"},
			Interfaces: []sysfs.Interface{{Name: "eth2", MAC: "a0:36:9f:00:00:01", Up: true}}},
	}}
}

func generate(t testing.TB, d sysfs.Description) *sysfs.Memory {
	t.Helper()
	m, err := sysfs.Generate(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t testing.TB, tree driver.Tree, name string) string {
	t.Helper()
	data, err := tree.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func list(t testing.TB, tree driver.Tree, name string) []string {
	t.Helper()
	entries, err := tree.ReadDir(name)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func write(t testing.TB, tree driver.Tree, name, text string) {
	t.Helper()
	if err := tree.WriteFile(name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// wantLinks checks the targets of links, and that each leads to a directory.
func wantLinks(t *testing.T, tree driver.Tree, links map[string]string) {
	t.Helper()
	for name, target := range links {
		got, err := tree.Readlink(name)
		if err != nil || got != target {
			t.Errorf("Readlink(%s) = %q, %v, want %q", name, got, err, target)
		}
		if _, err := tree.ReadDir(name); err != nil {
			t.Errorf("the link leads nowhere: %v", err)
		}
	}
}

// wantFiles checks the lines of files.
func wantFiles(t *testing.T, tree driver.Tree, files map[string]string) {
	t.Helper()
	for name, want := range files {
		if got := read(t, tree, name); got != want+"\n" {
			t.Errorf("%s = %q, want the line %q", name, got, want)
		}
	}
}

// layOut writes a tree to a new directory, links as links.
func layOut(t testing.TB, m *sysfs.Memory) string {
	t.Helper()
	dir := t.TempDir()
	if err := m.LayOut(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}
