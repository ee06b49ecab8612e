package driver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// DiscoverAll runs all drivers and returns their reports in the same order. Drivers of one tree
// share one view of it. The report of a failed driver has only Err. A device or an attach handle
// that two drivers report is not offered; both reports have a problem that wraps ErrDoubleClaim
// and names both. Only the function with the lowest address of an IOMMU group is offered, across
// all drivers; the others are skipped. A problem that several drivers have is in the first report
// only. A driver that panics has failed, and so has a driver that ignores its context, which ends
// after 30 seconds. An agent uses a Guard, which does not call such a driver again while it runs.
func DiscoverAll(ctx context.Context, drivers []Driver) []Report {
	return new(Guard).DiscoverAll(ctx, drivers)
}

// viewOf returns the view that an earlier driver of the tree has, or a new one.
func viewOf(drivers []Driver, views []*View, tree Tree) *View {
	for i, v := range views {
		if t, ok := drivers[i].(TreeDriver); v != nil && ok && same(t.Tree(), tree) {
			return v
		}
	}
	return NewView(tree)
}

// same compares trees whose types need not be comparable.
func same(a, b Tree) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// refuseDoubleClaims removes devices that two drivers report.
func refuseDoubleClaims(drivers []Driver, reports []Report) {
	if len(reports) < 2 {
		return
	}
	users := make(map[string][]int) // drivers by what they report
	for i, report := range reports {
		for _, d := range report.Devices {
			for _, at := range d.Addresses() {
				if key := at.String(); !slices.Contains(users[key], i) {
					users[key] = append(users[key], i)
				}
			}
		}
	}
	for i := range reports {
		report := &reports[i]
		report.Devices = slices.DeleteFunc(slices.Clone(report.Devices), func(d Device) bool {
			for _, at := range d.Addresses() {
				if key := at.String(); len(users[key]) > 1 {
					report.Problems = append(report.Problems, doubleClaim(drivers, users[key], key, d))
					return true
				}
			}
			return false
		})
	}
}

func doubleClaim(drivers []Driver, users []int, key string, d Device) Problem {
	var names []string
	for _, i := range users {
		names = append(names, drivers[i].Name())
	}
	what := "the device"
	if address := d.ControlPath.Address().String(); address != key {
		what = key + " of the device"
	}
	return Problem{Address: d.ControlPath.Address().String(),
		Err: fmt.Errorf("%w: %s report %s, and none of them may offer it", ErrDoubleClaim, strings.Join(names, " and "), what)}
}

// dropRepeatedProblems drops problems that an earlier report has, since all drivers of a
// tree read the same broken function.
func dropRepeatedProblems(reports []Report) {
	reported := make(map[string]bool)
	for i := range reports {
		var own []string
		reports[i].Problems = slices.DeleteFunc(slices.Clone(reports[i].Problems), func(p Problem) bool {
			text := p.Error()
			own = append(own, text)
			return reported[text] && !errors.Is(p, ErrDoubleClaim)
		})
		for _, text := range own {
			reported[text] = true
		}
	}
}

// LeaveOut moves the devices for which reason returns a text from Devices to LeftOut. It is
// for claims from outside, such as Nova's. Driver is the driver of the entries.
func (r *Report) LeaveOut(driver string, reason func(Device) string) {
	r.Devices = slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool {
		text := reason(d)
		if text != "" {
			r.LeftOut = append(r.LeftOut, Notice{Address: d.ControlPath.Address().String(), Driver: driver, Reason: text})
		}
		return text != ""
	})
}
