package discover

import (
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// largeMachine has functions of every kind that a driver checks, virtual ones included, in
// groups of ten behind a bridge.
func largeMachine(functions int) sysfs.Description {
	var d sysfs.Description
	for n := 0; n < functions; n += 10 {
		at := func(slot int) string { return fmt.Sprintf("%04x:%02x:%02x.0", n/10>>8, n/10%256, slot) }
		port := fn(at(0), "8086", "2030", "0604", "pcieport")
		nic := group(n+2, behind(at(0), fn(at(3), "8086", "1572", "0200", "i40e")))
		nic.VFs = &sysfs.VFs{Total: 4, Enabled: 4, Offset: 128, Product: "154c", Driver: "vfio-pci"}
		nic.Interfaces = []sysfs.Interface{{Name: fmt.Sprintf("eth%d", n), Up: n%20 == 0}}
		disk := group(n+1, behind(at(0), fn(at(2), "1bd4", "1001", "010802", "nvme")))
		disk.Disks = []sysfs.Disk{{Name: fmt.Sprintf("nvme%dn1", n), Major: 259, Minor: n, Partitions: []sysfs.Partition{{Name: fmt.Sprintf("nvme%dn1p1", n), Minor: n + 1}}}}
		d.Devices = append(d.Devices, port, nic, disk,
			group(n, behind(at(0), fn(at(1), "10de", "20b5", "0302", "nvidia"))),
			behind(at(0), fn(at(4), "8086", "2021", "0880", "")),
			group(n+3, behind(at(0), fn(at(5), "8086", "37c8", "0b40", "c6xx"))))
	}
	return d
}

// BenchmarkDiscover runs all drivers on a directory of a machine with 2,000 functions. The
// goal is 150 ms on two cores.
func BenchmarkDiscover(b *testing.B) {
	const functions = 2000
	tree, err := sysfs.OpenDir(laidOut(b, largeMachine(functions)), sysfs.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	drivers, err := builtin.New(builtin.Config{Host: "h", EnabledDrivers: builtin.Hardware()}, tree)
	if err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reports := driver.DiscoverAll(b.Context(), drivers)
			offered := 0
			for _, report := range reports {
				offered += len(report.Devices)
			}
			if want := 200 + 200 + 200; offered != want { // GPUs, accelerators, and ports with virtual functions
				b.Fatalf("%d devices, want %d", offered, want)
			}
		}
	})
}
