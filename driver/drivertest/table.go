package drivertest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// Row is a row of a table: a machine, and what a driver has to offer of it.
type Row struct {
	Name    string
	New     func(tree driver.Tree) (driver.Driver, error)
	Devices []sysfs.PCIDevice
	// Offered has the class and the traits of each deployable, separated by blanks, by the
	// address of its first attach handle.
	Offered map[string]string
	// LeftOut has a part of the reason, by address.
	LeftOut map[string]string
}

// Table tests rows without problems.
func Table(t *testing.T, rows []Row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			report := Discover(t, Case{New: row.New}.newDriver(t, Tree(t, row.Devices...)))
			offered := make(map[string]string)
			for _, d := range report.Devices {
				for _, p := range d.Deployables {
					at := driver.ControlPath{Info: p.AttachHandles[0].Info}.Address().String()
					offered[at] = strings.Join(append([]string{p.Class}, p.Traits...), " ")
				}
			}
			if !maps.Equal(row.Offered, offered) {
				t.Errorf("offered %v, want %v", offered, row.Offered)
			}
			for _, l := range report.LeftOut {
				if want, ok := row.LeftOut[l.Address]; !ok || !strings.Contains(l.Reason, want) {
					t.Errorf("left out %+v, want %q", l, want)
				}
			}
			if len(report.LeftOut) != len(row.LeftOut) || len(report.Problems)+len(report.Warnings) > 0 {
				t.Errorf("left out %v, want those of %v; problems %v, warnings %v",
					report.LeftOut, slices.Sorted(maps.Keys(row.LeftOut)), report.Problems, report.Warnings)
			}
		})
	}
}
