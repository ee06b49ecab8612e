package sysfs_test

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
	"github.com/gocyborg/gocyborg/internal/sysfs"
)

// BenchmarkPCIFunctions reads the identity of every function of a large machine, which
// is what each driver does first.
func BenchmarkPCIFunctions(b *testing.B) {
	const functions = 2000
	var d sysfs.Description
	for i := range functions {
		d.Devices = append(d.Devices, sysfs.PCIDevice{
			Address: fmt.Sprintf("%04x:%02x:%02x.%d", i>>11, i>>8&7, i>>3&0x1f, i&7),
			Vendor:  "8086", Product: "2f04", Class: "0880",
		})
	}
	memory := generate(b, d)
	dir := b.TempDir()
	copyOut(b, memory, ".", dir)
	for name, tree := range map[string]driver.Tree{"memory": memory, "directory": open(b, dir, sysfs.DirOptions{})} {
		b.Run(fmt.Sprintf("tree=%s/functions=%d", name, functions), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, problems, err := driver.PCIFunctions(b.Context(), tree); len(got) != functions || len(problems) > 0 || err != nil {
					b.Fatal(len(got), problems, err)
				}
			}
		})
	}
}
