package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/ordered"
)

// found is a device of one report with the driver that found it.
type found struct {
	driver.Device
	source string
	key    string // of the control path
}

// discovery is what all drivers of a host found.
type discovery struct {
	devices   []found
	present   map[string]bool         // control paths that exist, usable or not
	failed    map[string]bool         // drivers that could not discover; with the defects of upstream the whole report is dropped
	unread    map[driver.Address]bool // what drivers found and could not read
	before    store.HostReport
	functions map[driver.PCIAddress]bool // of the devices
}

// reading is the hardware that the drivers of a host found before the turn of the host, if anything.
type reading struct {
	drivers []driver.Report
	changes uint64     // the version of the hardware
	rows    storedRows // stored rows, which show the functions that guests had
}

// read asks the drivers of a host.
func (c *Conductor) read(ctx context.Context, h *host) reading {
	r := reading{changes: c.hardwareVersion(h), rows: c.readRows(h.storedName, storedRows{})}
	r.drivers = h.guard.DiscoverAll(ctx, h.Drivers, r.rows.held()...)
	return r
}

// readAhead reads the hardware of hosts in parallel while earlier hosts report. Fault rules act in the order of the
// reports, so if there are any, a host is read only when it reports.
func (c *Conductor) readAhead(ctx context.Context, names []string) iter.Seq2[int, reading] {
	none := c.hasFaults()
	return ordered.Ahead(len(names), func(i int) reading {
		h, err := c.host(names[i])
		if none || i == 0 || err != nil || c.down(names[i]) {
			return reading{}
		}
		return c.read(ctx, h)
	})
}

// hasFaults reports whether there are fault rules.
func (c *Conductor) hasFaults() bool { return c.cfg.Faults != nil && len(c.cfg.Faults.Rules()) > 0 }

// hardwareVersion increases when the hardware of a host changes.
func (c *Conductor) hardwareVersion(h *host) uint64 {
	loads := c.loads()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return h.changes + uint64(loads)
}

// gone reports whether a stored device is known to be missing.
func (v discovery) gone(d storedDevice) bool {
	return !v.present[d.key] && !v.failed[d.Driver]
}

// discover calls all drivers. The stored devices of a driver that fails, or that cannot read a device, are kept;
// upstream drops the report of the whole host.
func (r *report) discover(ctx context.Context, ahead reading) discovery {
	v := discovery{
		present: make(map[string]bool), failed: make(map[string]bool), functions: make(map[driver.PCIAddress]bool), unread: make(map[driver.Address]bool),
	}
	now := r.c.now()
	r.rows = ahead.rows
	r.stored()
	if ahead.drivers == nil || ahead.changes != r.c.hardwareVersion(r.host) || !slices.Equal(ahead.rows.held(), r.rows.held()) {
		ahead = r.c.read(ctx, r.host)
	}
	all := ahead.drivers
	rows := make([]store.DriverReport, 0, len(all))
	for i, d := range r.host.Drivers {
		report := all[i]
		if r.c.cfg.DriverReport != nil {
			report = r.c.cfg.DriverReport(d.Name(), report)
		}
		rows = append(rows, reportRow(d.Name(), report))
		if report.Err != nil {
			v.failed[d.Name()] = true
			r.fail(d.Name(), "discover", report.Err)
			continue
		}
		for _, problem := range report.Problems {
			r.fail(d.Name(), "discover", problem)
			if problem.Address != "" && !errors.Is(problem, driver.ErrConfig) { // the hardware that is configured is not there
				at := driver.ParseAddress(problem.Address)
				v.present[at.ControlPath().Key()] = true
				v.unread[at] = true
			}
		}
		r.take(&v, report.Devices, d.Name())
	}
	v.before = store.Read(r.c.db, func(tx store.Tx) store.HostReport { return tx.Report(r.name) })
	if v.before.Host == "" || !reflect.DeepEqual(v.before.Drivers, rows) {
		r.c.db.Update(nil, func(tx store.Tx) { tx.SetReport(r.name, rows) })
	}
	r.c.setReported(r.name, now)
	return v
}

// keepUnread keeps stored devices unchanged if one of their handles could not be read now. Otherwise the part of such
// a device that was found would replace it.
func (v *discovery) keepUnread(stored []storedDevice) {
	if len(v.unread) == 0 {
		return
	}
	for _, device := range stored {
		i := slices.IndexFunc(v.devices, func(f found) bool { return f.key == device.key })
		var rest []driver.Address
		if i >= 0 {
			rest = v.devices[i].Addresses()
		}
		if slices.ContainsFunc(device.addresses(), func(at driver.Address) bool { return v.unread[at] && !slices.Contains(rest, at) }) {
			v.present[device.key] = true
			if i >= 0 {
				v.devices = slices.Delete(v.devices, i, i+1)
			}
		}
	}
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
		if slices.ContainsFunc(v.devices, func(f found) bool { return f.key == key }) {
			r.fail(key, step, errors.New("another driver, or the same one twice, reports the device"))
			continue
		}
		v.present[key] = true
		bare := func(p driver.Deployable) bool { return len(p.AttributeList()) == 0 } // as Huawei's Ascend driver reports
		if r.c.cfg.Quirks && slices.ContainsFunc(d.Deployables, bare) {
			v.failed[source] = true
		}
		if err := d.Validate(); err != nil {
			r.fail(key, step, err)
			continue
		}
		if at, shared := v.shared(d); shared && !r.c.cfg.Quirks {
			r.fail(key, step, fmt.Errorf("its function %s is another device's, too", at))
			continue
		}
		v.devices = append(v.devices, found{withProgrammability(d), source, key})
	}
}

// shared adds the functions of a device, and returns one that an earlier device has.
func (v *discovery) shared(d driver.Device) (at driver.PCIAddress, is bool) {
	for _, p := range d.Deployables {
		for _, h := range p.AttachHandles {
			function, err := driver.PCIAddressOf(h.Info)
			if err != nil || h.Type != driver.HandlePCI {
				continue
			}
			if v.functions[function] {
				return function, true
			}
			v.functions[function] = true
		}
	}
	return at, false
}

// complete adds the stored data of devices to what was found, and then places their local memory.
func (r *report) complete(seen *discovery, stored []storedDevice) {
	for i := range seen.devices {
		f := &seen.devices[i]
		if n := slices.IndexFunc(stored, func(d storedDevice) bool { return d.key == f.key }); n >= 0 && !r.c.cfg.Quirks {
			f.Device = stored[n].keepHidden(f.Device)
		}
		var err error
		f.Device, err = r.c.cfg.Rules.PlaceMemory(f.Device)
		r.fail(f.key, "place the local memory", err)
	}
}

// withProgrammability returns the device with its Programmable copied to deployables that lack one, and without the
// trait for programming on pre-programmed deployables.
func withProgrammability(d driver.Device) driver.Device {
	if d.Programmable == nil && !slices.ContainsFunc(d.Deployables, driver.Deployable.Preprogrammed) {
		return d
	}
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

// dropTraitMismatches removes devices from the discovery of a flat host, where all must have the same traits, since
// Placement could not distinguish them. They are compared with the first stored device, or else the first one.
// Deployables that a guest hides are not compared: after a restart of the host their function is unknown.
func (r *report) dropTraitMismatches(seen *discovery, stored []storedDevice) {
	if r.c.cfg.Layout != store.LayoutFlat || len(seen.devices) == 0 {
		return
	}
	var model driver.Deployable
	for _, f := range seen.devices {
		known := isStored(stored, f)
		shown := slices.IndexFunc(f.Deployables, func(d driver.Deployable) bool { return !d.Hidden })
		if shown >= 0 && (model.Name == "" || known) {
			model = f.Deployables[shown]
		}
		if known && model.Name != "" {
			break
		}
	}
	want := layout.FlatTraits(model.Traits)
	seen.devices = slices.DeleteFunc(seen.devices, func(f found) bool {
		for _, deployable := range f.Deployables {
			if got := layout.FlatTraits(deployable.Traits); !deployable.Hidden && !slices.Equal(got, want) {
				delete(seen.present, f.key)
				r.fail(f.key, "put the device on the provider of its host", fmt.Errorf(
					"deployable %s has the traits [%s] and %s has [%s]; on a flat host all devices need the same",
					deployable.Name, strings.Join(got, " "), model.Name, strings.Join(want, " ")))
				return true
			}
		}
		return false
	})
}

func isStored(stored []storedDevice, f found) bool {
	return slices.ContainsFunc(stored, func(s storedDevice) bool { return s.key == f.key })
}
