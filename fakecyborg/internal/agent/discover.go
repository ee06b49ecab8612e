package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// found is a device of one report with the driver that found it.
type found struct {
	driver.Device
	source string
}

// discovery is what all drivers of a host found.
type discovery struct {
	devices []found
	present map[string]bool // control paths that exist, usable or not
	failed  map[string]bool // drivers that could not discover
	before  store.HostReport
	// abort is set for a report that upstream drops as a whole: a driver failed, or
	// reported a device without attributes, as that of Huawei's Ascend does.
	abort bool
}

// gone reports whether a stored device is known to be missing.
func (v discovery) gone(d store.Device) bool {
	return !v.present[d.ControlPath.Key()] && !v.failed[d.Driver]
}

// discover calls all drivers. What a driver that fails, or that cannot read a device, reported
// before stays as it is; upstream drops the report of the whole host.
func (r *report) discover(ctx context.Context) discovery {
	v := discovery{present: make(map[string]bool), failed: make(map[string]bool)}
	now := r.c.now()
	all := driver.DiscoverAll(ctx, r.host.Drivers)
	rows := make([]store.DriverReport, 0, len(all))
	for i, d := range r.host.Drivers {
		report := all[i]
		rows = append(rows, reportRow(d.Name(), report))
		if report.Err != nil {
			v.failed[d.Name()], v.abort = true, true
			r.fail(d.Name(), "discover", report.Err)
			continue
		}
		for _, problem := range report.Problems {
			r.fail(d.Name(), "discover", problem)
			if problem.Address != "" {
				v.present[driver.ParseAddress(problem.Address).ControlPath().Key()] = true
			}
		}
		r.take(&v, report.Devices, d.Name())
	}
	r.c.db.Update(nil, func(tx store.Tx) {
		v.before = tx.Report(r.name)
		tx.SetReport(r.name, rows)
	})
	r.c.setReported(r.name, now)
	return v
}

func reportRow(name string, found driver.Report) store.DriverReport {
	row := store.DriverReport{
		Driver: name, Devices: len(found.Devices), LeftOut: found.LeftOut, Warnings: found.Warnings, Error: textOf(found.Err),
	}
	for _, p := range found.Problems {
		row.Problems = append(row.Problems, store.Problem{Address: p.Address, File: p.File, Error: textOf(p.Err)})
	}
	return row
}

// take adds the devices of one driver that can be stored.
func (r *report) take(v *discovery, devices []driver.Device, source string) {
	step := "take what driver " + source + " reports"
	for _, d := range devices {
		key := d.ControlPath.Key()
		if d.Stub {
			v.present[key] = true
			continue
		}
		hidden, err := r.c.discoveryFault(d)
		if hidden {
			continue
		}
		if err != nil {
			v.present[key] = true
			r.fail(key, "read the device", err)
			continue
		}
		if slices.ContainsFunc(v.devices, func(f found) bool { return f.ControlPath.Key() == key }) {
			r.fail(key, step, errors.New("another driver, or the same one twice, reports the device"))
			continue
		}
		v.present[key] = true
		v.abort = v.abort || slices.ContainsFunc(d.Deployables, func(p driver.Deployable) bool { return len(p.AttributeList()) == 0 })
		if err := d.Validate(); err != nil {
			r.fail(key, step, err)
			continue
		}
		d, err = r.c.rules.PlaceMemory(withProgrammability(d))
		r.fail(key, "place the local memory", err)
		v.devices = append(v.devices, found{Device: d, source: source})
	}
}

// withProgrammability is a device whose pre-programmed deployables have no trait for programming.
func withProgrammability(d driver.Device) driver.Device {
	d = d.Clone()
	for i := range d.Deployables {
		deployable := &d.Deployables[i]
		if d.Programmable != nil && deployable.Programmable == nil {
			deployable.Programmable = d.Programmable
		}
		if deployable.Preprogrammed() {
			deployable.Traits = slices.DeleteFunc(deployable.Traits, func(trait string) bool { return trait == driver.TraitProgrammable })
		}
	}
	return d
}

// dropTraitMismatches removes devices from the discovery of a flat host, where all must have the
// same traits, since Placement could not distinguish them. The first device that is stored already
// is the model, or else the first.
func (r *report) dropTraitMismatches(seen *discovery, stored []storedDevice) {
	if r.c.cfg.Layout != store.LayoutFlat || len(seen.devices) == 0 {
		return
	}
	var model driver.Deployable
	for _, f := range seen.devices {
		known := isStored(stored, f.Device)
		if len(f.Deployables) > 0 && (model.Name == "" || known) {
			model = f.Deployables[0]
		}
		if known && model.Name != "" {
			break
		}
	}
	want := layout.FlatTraits(model.Traits)
	expected := make(map[string]int)
	seen.devices = slices.DeleteFunc(seen.devices, func(f found) bool {
		for _, deployable := range f.Deployables {
			if got := layout.FlatTraits(deployable.Traits); !slices.Equal(got, want) {
				key := f.ControlPath.Key()
				delete(seen.present, key)
				r.fail(key, "put the device on the provider of its host", fmt.Errorf(
					"deployable %s has the traits [%s] and %s has [%s]; on a flat host all devices need the same",
					deployable.Name, strings.Join(got, " "), model.Name, strings.Join(want, " ")))
				return true
			}
		}
		for _, deployable := range f.Deployables {
			expected[deployable.Class] += deployable.NumAccelerators
			for class, mib := range deployable.Resources {
				expected[class] += mib
			}
		}
		return false
	})
	r.c.layout.BeginReport(r.parent, expected)
}

func isStored(stored []storedDevice, d driver.Device) bool {
	return slices.ContainsFunc(stored, func(s storedDevice) bool { return s.key() == d.ControlPath.Key() })
}
