package builtin_test

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// virtual is a machine whose functions are nearly all virtual ones that a driver offers.
func virtual(functions int) sysfs.Description {
	const each = 50
	var d sysfs.Description
	for i := range functions / each {
		d.Devices = append(d.Devices, sysfs.PCIDevice{
			Address: fmt.Sprintf("0000:%02x:00.0", i+1), Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx", IOMMUGroup: group(i),
			VFs: &sysfs.VFs{Total: each - 1, Enabled: each - 1, Product: "37c9", Driver: "vfio-pci"},
		})
	}
	return d
}

// BenchmarkDiscover lets all drivers discover a machine of 2,000 PCI functions: one with a device
// of every type among many that no driver claims, and one of virtual functions.
func BenchmarkDiscover(b *testing.B) {
	const functions = 2000
	for _, machine := range []struct {
		name        string
		description sysfs.Description
		offered     int
	}{{"mixed", crowded(everything(), functions), 18}, {"virtual", virtual(functions), functions - functions/50 + 1}} {
		memory := generate(b, machine.description)
		dir := b.TempDir()
		if err := memory.LayOut(dir); err != nil {
			b.Fatal(err)
		}
		tree, err := sysfs.OpenDir(dir, sysfs.DirOptions{})
		if err != nil {
			b.Fatal(err)
		}
		defer tree.Close()
		for name, tree := range map[string]driver.Tree{"memory": memory, "directory": tree} {
			b.Run(fmt.Sprintf("machine=%s/tree=%s/functions=%d", machine.name, name, functions), func(b *testing.B) {
				benchmark(b, tree, machine.offered)
			})
		}
	}
}

func benchmark(b *testing.B, tree driver.Tree, offered int) {
	drivers := load(b, allOn(), tree)
	b.ReportAllocs()
	for b.Loop() {
		reports := driver.DiscoverAll(b.Context(), drivers)
		deployables := 0
		for _, r := range reports {
			for _, d := range r.Devices {
				deployables += len(d.Deployables)
			}
		}
		if deployables != offered {
			b.Fatalf("%d deployables, want %d", deployables, offered)
		}
	}
}
