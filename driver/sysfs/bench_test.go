package sysfs_test

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// large is the bus of a large machine: bridges with GPUs, disks and network functions
// with virtual functions behind them.
func large(functions int) sysfs.Description {
	var d sysfs.Description
	for n := 0; n < functions; n += 10 {
		bus, domain := n/10%256, n/10>>8
		bridge := fmt.Sprintf("%04x:%02x:00.0", domain, bus)
		at := func(slot int) string { return fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot) }
		d.Devices = append(d.Devices,
			sysfs.PCIDevice{Address: bridge, Vendor: "8086", Product: "2f04", Class: "0604", Driver: "pcieport"},
			sysfs.PCIDevice{Address: at(1), Parent: bridge, Vendor: "10de", Product: "20b5", Class: "0302", Driver: "nvidia", IOMMUGroup: ptr(n)},
			sysfs.PCIDevice{Address: at(2), Parent: bridge, Vendor: "1bd4", Product: "1001", Class: "010802", Driver: "nvme", IOMMUGroup: ptr(n + 1)},
			sysfs.PCIDevice{Address: at(3), Parent: bridge, Vendor: "8086", Product: "1572", Class: "0200", Driver: "i40e", IOMMUGroup: ptr(n + 2),
				VFs:        &sysfs.VFs{Total: 4, Enabled: 4, Offset: 128, Product: "154c", Driver: "vfio-pci"},
				Interfaces: []sysfs.Interface{{Name: fmt.Sprintf("eth%d", n), Up: n%20 == 0}}},
			sysfs.PCIDevice{Address: at(4), Parent: bridge, Vendor: "8086", Product: "2021", Class: "0880"},
			sysfs.PCIDevice{Address: at(5), Parent: bridge, Vendor: "8086", Product: "37c8", Class: "0b40", Driver: "c6xx", IOMMUGroup: ptr(n + 3)},
		)
	}
	return d
}

// BenchmarkPCIFunctions reads the identity of every function of a large machine, which
// is what each driver does first, and then what each is used for.
func BenchmarkPCIFunctions(b *testing.B) {
	const functions = 2000
	memory := generate(b, large(functions))
	for name, tree := range map[string]driver.Tree{"memory": memory, "directory": open(b, layOut(b, memory), sysfs.DirOptions{})} {
		b.Run(fmt.Sprintf("read=identity/tree=%s/functions=%d", name, functions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, problems, err := driver.NewView(tree).PCIFunctions(b.Context()); len(got) != functions || len(problems) > 0 || err != nil {
					b.Fatal(len(got), problems, err)
				}
			}
		})
		b.Run(fmt.Sprintf("read=state/tree=%s/functions=%d", name, functions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				view := driver.NewView(tree)
				got, _, _ := view.PCIFunctions(b.Context())
				for _, f := range got {
					if _, problems := view.PCIState(f); len(problems) > 0 {
						b.Fatal(problems)
					}
				}
			}
		})
	}
}
