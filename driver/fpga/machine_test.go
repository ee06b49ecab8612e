package fpga_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const pf = "0000:5e:00.0"

// id is the id of a region or of a function: one digit, 32 times.
func id(digit string) string { return strings.Repeat(digit, 32) }

// traitID is an id as written in a trait.
func traitID(digit string) string { return strings.ToUpper(id(digit)) }

// dashedID is traitID in the shapes of the Rocky specifications.
func dashedID(digit string) string {
	d := traitID(digit)
	return strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "_")
}

// withDigits has one digit for each id in a trait.
func withDigits(traits string) string {
	for digit := range strings.SplitSeq("0123456789abcdef", "") {
		traits = strings.NewReplacer(traitID(digit), digit, dashedID(digit), digit).Replace(traits)
	}
	return traits
}

// intelCard is a PAC with a region for each character of kinds, a port for each of
// functions (a blank: nothing is loaded), and so many virtual functions, each with the
// port of its number.
func intelCard(address string, dev int, kinds, functions string, vfs int) sysfs.PCIDevice {
	d := sysfs.PCIDevice{
		Address: address, Vendor: "8086", Product: "09c4", Class: "1200", Driver: "intel-fpga-pci",
		FPGA: &sysfs.FPGA{Dev: dev},
	}
	for i, kind := range kinds {
		d.FPGA.Regions = append(d.FPGA.Regions, sysfs.FPGARegion{Number: dev*10 + i, InterfaceID: id(string(kind))})
	}
	for i, function := range functions {
		p := sysfs.FPGAPort{Number: dev*10 + i}
		if function != ' ' {
			p.AFUID = id(string(function))
		}
		if i < vfs {
			p.VF = i + 1
		}
		d.FPGA.Ports = append(d.FPGA.Ports, p)
	}
	if vfs > 0 {
		d.VFs = &sysfs.VFs{Total: vfs, Enabled: vfs, Product: "09c5", Driver: "vfio-pci"}
	}
	return d
}

// must discovers with a driver that was just made; every device has to be valid.
func must[D driver.Driver](t testing.TB) func(d D, err error) driver.Report {
	return func(d D, err error) driver.Report {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return drivertest.Discover(t, d)
	}
}

// lines are the deployables of a report, each as "name: handles: traits", without the
// part of names and addresses that all of them share.
func lines(report driver.Report) []string {
	var list []string
	for _, d := range report.Devices {
		for _, p := range d.Deployables {
			var at []string
			for _, h := range p.AttachHandles {
				a, _ := driver.PCIAddressOf(h.Info)
				at = append(at, fmt.Sprintf("%02x.%d", a.Bus, a.Function))
			}
			programs := ""
			if p.Preprogrammed() {
				programs = " fixed"
			}
			traits := withDigits(strings.ReplaceAll(strings.Join(p.Traits, " "), "CUSTOM_", ""))
			list = append(list, fmt.Sprintf("%s %d of %s%s: %s", p.Name, p.NumAccelerators, strings.Join(at, ","), programs, traits))
		}
	}
	return list
}

func leftOut(report driver.Report) []string {
	var list []string
	for _, l := range report.LeftOut {
		list = append(list, l.Address+" "+l.Reason)
	}
	return list
}

// wantReport checks the deployables of a report without problems, and what it leaves out.
func wantReport(t *testing.T, report driver.Report, offered, left []string) {
	t.Helper()
	if len(report.Problems) > 0 {
		t.Errorf("problems: %v", report.Problems)
	}
	if diff := cmp.Diff(offered, lines(report)); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(left, leftOut(report)); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}
