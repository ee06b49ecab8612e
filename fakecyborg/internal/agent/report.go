package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/ordered"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// reportPeriod is upstream's periodic_interval.
const reportPeriod = time.Minute

// maxReports is how many agents report at the same time on their own. Thousands start together, and Placement would get a
// connection of each.
const maxReports = 32

// A starting agent that does not find its host in Placement tries again after this pause, which
// doubles up to reportPeriod. Upstream's tries three times more (resource_provider_startup_retries) since 16.0; before, it waits
// for its next report.
const (
	startPause   = time.Second
	startRetries = 3
)

// ErrNotReported is public in fakecyborg.
var ErrNotReported = errors.New("nothing was reported")

// unfound is the error of a report that did not find the provider of its host.
type unfound struct{ error }

// Is implements the interface of errors.Is.
func (unfound) Is(target error) bool { return target == ErrNotReported }

// Unwrap returns the cause.
func (u unfound) Unwrap() error { return u.error }

// Report makes the agent of every host report once, in the order in which the hosts were added. The
// error joins a driver.ReportError for each problem; all else is reported.
func (c *Conductor) Report(ctx context.Context) error {
	names := c.Hosts()
	errs := make([]error, len(names))
	ctx, recorded := simhttp.WatchRecording(ctx)
	queue := ordered.NewQueue()
	for i, ahead := range c.readAhead(ctx, names) {
		behind := queue
		if i == 0 || recorded.Load() || c.hasFaults() || !c.splits() {
			queue.Wait()
			behind = nil
		}
		c.reportHost(ctx, names[i], ahead, behind, func(err error) { errs[i] = err })
	}
	queue.Close()
	return errors.Join(errs...)
}

// splits reports whether new devices are providers of their own, which can be added to Placement while the rows of the next
// hosts are stored.
func (c *Conductor) splits() bool {
	return c.cfg.Layout != store.LayoutFlat && c.cfg.Layout != store.LayoutNested
}

// ReportHost makes the agent of one host report once.
func (c *Conductor) ReportHost(ctx context.Context, name string) (err error) {
	c.reportHost(ctx, name, reading{}, nil, func(reported error) { err = reported })
	return err
}

// reportHost reports, with what was read ahead of it, which may be nothing, and calls done at the end. New
// devices are added to Placement behind it, in the order of the hosts.
func (c *Conductor) reportHost(ctx context.Context, name string, ahead reading, behind *ordered.Queue, done func(error)) {
	end := func(err error) {
		if c.cfg.Reported != nil {
			c.cfg.Reported(name, err)
		}
		done(err)
	}
	ctx = simhttp.WithoutChangeLog(ctx) // no request's, whoever asked for it
	h, leave, err := c.takeTurn(ctx, name)
	if err != nil {
		behind.Do(func() { end(err) })
		return
	}
	r := &report{c: c, host: h, name: store.Read(c.db, h.storedName), behind: behind}
	err = c.withFault(ctx, fault.AgentReport, name, func() error {
		r.begin(ctx, ahead)
		return nil
	})
	if err != nil {
		err = &driver.ReportError{Host: name, Step: "ask the agent", Err: err}
	}
	behind.Do(func() {
		r.addBehind(ctx)
		leave()
		end(errors.Join(append(r.errs, err)...))
	})
}

// takeTurn waits for the turn of the host's agent.
func (c *Conductor) takeTurn(ctx context.Context, name string) (h *host, leave func(), err error) {
	if h, err = c.host(name); err != nil {
		return nil, nil, err
	}
	if leave, err = enter(ctx, h.turn); err != nil {
		return nil, nil, &driver.ReportError{Host: name, Step: "wait for its turn", Err: err}
	}
	if c.down(name) {
		leave()
		return nil, nil, &driver.ReportError{Host: name, Step: "ask the agent", Err: ErrAgentDown}
	}
	return h, leave, nil
}

// reportLoop reports now, until the host is in Placement, and then every minute.
func (c *Conductor) reportLoop(ctx context.Context, name string) {
	pause := startPause
	report := func() error {
		leave, err := enter(ctx, c.reporting)
		if err != nil {
			return err
		}
		defer leave()
		return c.ReportHost(ctx, name)
	}
	err := report()
	for try := 0; errors.Is(err, ErrNotReported); try++ {
		if c.looksByHostOnly() || c.cfg.Quirks && !errors.Is(err, layout.ErrNoParent) {
			break
		}
		if c.cfg.Quirks && try == startRetries {
			return // upstream's agent refuses to start
		}
		if sim.WaitAgain(ctx, c.cfg.Clock, pause) != nil {
			return
		}
		pause = min(2*pause, reportPeriod)
		err = report()
	}
	for sim.WaitAgain(ctx, c.cfg.Clock, reportPeriod) == nil {
		_ = report() // kept for DriverReports; the next one tries again
	}
}

// report is one report in progress.
type report struct {
	c      *Conductor
	host   *host
	name   string            // under which the devices are stored
	parent string            // provider of the host
	tree   []layout.Provider // the provider of the host and those below it; nil: not read
	errs   []error
	rows   storedRows // as they were read last
	// behind adds the new devices of earlier hosts to Placement; nil if nothing runs beside the report.
	behind *ordered.Queue
	added  []newDevice // whose rows are stored, to be added to Placement
}

func (r *report) fail(device, step string, err error) {
	if err != nil {
		r.errs = append(r.errs, &driver.ReportError{Host: r.name, Device: device, Step: step, Err: err})
	}
}

// begin discovers, compares with what is stored, and applies the difference.
func (r *report) begin(ctx context.Context, ahead reading) {
	c := r.c
	seen := r.discover(ctx, ahead)
	if len(seen.failed) > 0 && c.cfg.Quirks {
		return
	}
	r.settleMdevs(ctx)
	if c.cfg.Placement != nil {
		if err := r.findParent(ctx, seen.before.Root); err != nil {
			r.fail("", "find the host's provider", unfound{err})
			return
		}
	}
	stored := r.stored()
	seen.keepUnread(stored)
	r.complete(&seen, stored)
	r.dropForeign(&seen, stored)
	r.refuseClaimed(ctx, &seen, stored)
	r.dropTraitMismatches(&seen, stored)
	if r.returnLost(ctx, seen, stored) {
		stored = r.stored()
	}
	r.apply(ctx, planReport(c.cfg.Rules, stored, seen))
	if len(r.added) == 0 {
		r.settle(ctx)
	}
}

// settle makes Placement match the stored data of the host after an earlier call or process was interrupted. Upstream
// does not notice.
func (r *report) settle(ctx context.Context) {
	if r.c.cfg.Placement == nil || r.c.cfg.Quirks {
		return
	}
	var parts []layout.Part
	for _, device := range r.stored() {
		for _, d := range device.deployables {
			if d.InPlacement() {
				parts = append(parts, r.part(device.Device, d.Deployable, d.reported))
			}
		}
	}
	for _, err := range r.c.mirror.Settle(ctx, r.name, parts) {
		r.fail("", "settle a provider", err)
	}
}

// part is a deployable as it is to be in Placement.
func (r *report) part(device store.Device, d store.Deployable, spec driver.Deployable) layout.Part {
	return layout.Part{Device: device, Deployable: d, Spec: spec, Root: r.parent}
}

// addBehind ends the report.
func (r *report) addBehind(ctx context.Context) {
	if len(r.added) == 0 {
		return
	}
	if r.c.cfg.Layout == store.LayoutFlat {
		r.addToHost(ctx)
	} else {
		for _, d := range r.added {
			r.addDevice(ctx, d)
		}
	}
	r.settle(ctx)
}

// addToHost adds the new devices of a flat host to its provider, all at once, so that what an earlier Cyborg has put there for the
// same devices is known by its amount. Devices with a class that is not Cyborg's are not added.
func (r *report) addToHost(ctx context.Context) {
	var parts []layout.Part
	for _, d := range r.added {
		if d.err != nil {
			r.addDevice(ctx, d) // which reports the error
			continue
		}
		parts = append(parts, d.deployables...)
	}
	for len(parts) > 0 {
		_, err := r.c.mirror.Put(ctx, parts...)
		refused := func(layout.Part) bool { return true }
		if taken := (*layout.TakenError)(nil); errors.As(err, &taken) {
			refused = func(p layout.Part) bool {
				return slices.ContainsFunc(parts, func(other layout.Part) bool { return other.Device.UUID == p.Device.UUID && other.Has(taken.Class) })
			}
		}
		var rest []layout.Part
		for _, p := range parts {
			if refused(p) {
				r.end(p, err)
			} else {
				rest = append(rest, p)
			}
		}
		parts = rest
	}
	r.c.db.Update(nil, func(tx store.Tx) {
		for _, d := range r.added {
			tx.RemoveEmptyDevice(d.UUID)
		}
	})
}

// alone waits until nothing runs beside the report, and keeps it so.
func (r *report) alone() {
	r.behind.Wait()
	r.behind = nil
}

// stored is what is stored of the host now.
func (r *report) stored() []storedDevice {
	r.rows = r.c.readRows(func(store.Tx) string { return r.name }, r.rows)
	return r.rows.devices
}

// readRows reads what is stored of a host, unless nothing changed since it was read before.
func (c *Conductor) readRows(name func(store.Tx) string, before storedRows) (rows storedRows) {
	c.db.View(func(tx store.Tx) {
		if rows = before; rows.version == tx.Version()+1 {
			return
		}
		rows = storedRows{version: tx.Version() + 1}
		for d := range tx.HostDevices(name(tx)) {
			rows.devices = append(rows.devices, storedDevice{d, d.ControlPath.Key(), loadDeployables(tx, d.UUID)})
		}
	})
	return rows
}

func loadDeployables(tx store.Tx, device string) (list []storedDeployable) {
	for _, d := range tx.DeviceDeployables(device) {
		reported, byUser := tx.ReportedOrAdded(d)
		list = append(list, storedDeployable{
			Deployable: d, reported: reported, byUser: byUser, programming: tx.Programming(d.UUID), handles: slices.Collect(tx.Handles(d.UUID)),
		})
	}
	return list
}

// settleMdevs removes and restores mediated devices.
func (r *report) settleMdevs(ctx context.Context) {
	var orphans, restorable []string
	r.c.db.View(func(tx store.Tx) { orphans, restorable = tx.UnsettledMdevs(r.name) })
	if len(orphans)+len(restorable) > 0 {
		r.alone()
	}
	r.removeOrphans(ctx, orphans)
	if !r.c.cfg.Quirks {
		r.restoreMdevs(ctx, restorable)
	}
}

// removeOrphans retries the removal of mediated devices whose requests were deleted.
func (r *report) removeOrphans(ctx context.Context, handles []string) {
	for _, handle := range handles {
		if work, ok := r.c.begin(ctx, store.WorkRemove, handle); ok {
			r.fail(work.Device, "remove a "+deviceOf(work)+" left over", r.c.removeHandle(ctx, work, nil))
		}
	}
}

// begin takes the lease of a handle, unless the handle was released.
func (c *Conductor) begin(ctx context.Context, work, handle string) (w store.HandleWork, ok bool) {
	c.change(ctx, func(tx store.Tx) { w, ok = tx.BeginWork(work, handle) })
	return w, ok
}

// restoreMdevs creates the missing mediated devices of bound requests, which do not survive a
// restart of their host. Upstream planned this and does not do it.
func (r *report) restoreMdevs(ctx context.Context, handles []string) {
	c := r.c
	var resolved []store.Bind
	patch := int64(0)
	for _, handle := range handles {
		work, ok := r.c.begin(ctx, store.WorkRestore, handle)
		if !ok {
			continue
		}
		_, err := c.createDevice(ctx, work)
		var ended []store.Bind
		held := false
		c.db.Update(nil, func(tx store.Tx) { ended, held = tx.EndRestore(work, err, patch, c.now()) })
		if !held { // unbound or deleted
			err = c.removeHandle(ctx, work, nil)
		}
		for _, b := range ended {
			resolved, patch = append(resolved, b), b.Patch
		}
		r.fail(work.Device, "restore a "+deviceOf(work), err)
	}
	r.fail("", "notify Nova of the restored mediated devices", c.notifyRestored(ctx, resolved))
	if !c.work.Ended() {
		c.endPatch(ctx, patch)
	}
}

// apply applies the difference, in Placement and in the store. Vanished deployables of all devices come first, since
// found ones may have their functions.
func (r *report) apply(ctx context.Context, d difference) {
	if len(d.vanished) > 0 || slices.ContainsFunc(d.devices, func(change deviceChange) bool { return change.stored != nil }) {
		r.alone()
	}
	for _, device := range d.vanished {
		r.removeDevice(ctx, device)
	}
	for i := range d.devices {
		r.endVanished(ctx, &d.devices[i])
	}
	taken := r.takenFunctions(d)
	for _, change := range d.devices {
		switch {
		case taken != nil && !taken.restrict(r.c.cfg.Rules, &change):
		case change.stored == nil:
			r.addNew(ctx, r.storeDevice(change))
		case change.reshaped():
			r.reshapeDevice(ctx, change)
		default:
			r.changeDevice(ctx, change)
		}
	}
}

// takenFunctions returns the functions of the host's devices, or nil if no found device could take a function from
// another.
func (r *report) takenFunctions(d difference) functions {
	if r.c.cfg.Quirks || len(d.devices) == 0 {
		return nil
	}
	if stored := r.stored(); len(stored) > 0 {
		return functionsOf(stored)
	}
	return nil
}

// endVanished removes the vanished deployables of a device.
func (r *report) endVanished(ctx context.Context, change *deviceChange) {
	if len(change.vanished) > 0 {
		r.removeVanished(ctx, change.stored.Device, "drop the vanished deployable", change.vanished)
		change.endVanished()
	}
}

// removeDevice removes a device that drivers no longer report when no request holds a handle of it.
func (r *report) removeDevice(ctx context.Context, d storedDevice) {
	r.removeVanished(ctx, d.Device, "drop the vanished device", d.deployables)
	r.c.db.Update(nil, func(tx store.Tx) { tx.RemoveEmptyDevice(d.UUID) })
}

// removeVanished removes the deployables that are free, and withdraws the free handles of the others.
func (r *report) removeVanished(ctx context.Context, device store.Device, step string, deployables []storedDeployable) {
	vanished := make(map[string]bool, len(deployables))
	for _, d := range deployables {
		vanished[d.UUID] = true
		r.removeDeployables(ctx, device, step, d)
	}
	left := slices.DeleteFunc(r.deployablesOf(device), func(d storedDeployable) bool { return !vanished[d.UUID] })
	for i := range left {
		r.shrink(ctx, device, &left[i])
	}
}

// removeDeployables removes deployables from Placement and then from the store. It returns false, with an error of
// the step, if any is in use. If Placement refuses to remove one, because resources from it are allocated, it is
// offered again.
func (r *report) removeDeployables(ctx context.Context, device store.Device, step string, deployables ...storedDeployable) bool {
	rows := make([]store.Deployable, len(deployables))
	for i, d := range deployables {
		rows[i] = d.Deployable
	}
	key := device.ControlPath.Key()
	var err error
	r.c.db.Update(nil, func(tx store.Tx) { err = tx.Withdraw(rows) })
	if err != nil {
		r.fail(key, step, err)
		return false
	}
	for _, d := range deployables {
		err := r.c.mirror.Remove(ctx, r.part(device, d.Deployable, d.reported))
		r.c.db.Update(nil, func(tx store.Tx) {
			if err == nil {
				tx.RemoveDeployable(d.UUID)
			} else {
				tx.SetPresence(d.UUID, d.Presence)
			}
		})
		r.fail(key, "remove provider "+d.Name, err)
	}
	return true
}

// shrink lowers the capacity of a vanished deployable. A report that finds it again restores it.
func (r *report) shrink(ctx context.Context, device store.Device, d *storedDeployable) {
	if r.c.cfg.Quirks {
		return
	}
	if change, needed := planDeployable(r.c.cfg.Rules, device, device, d, d.shrunk(), store.Vanished); needed {
		r.changeDeployable(ctx, device.ControlPath.Key(), change)
	}
}

// newDevice is a device whose rows are stored, or the error about one of its deployables.
type newDevice struct {
	store.Device
	deployables []layout.Part
	failed      string
	err         error
}

// addNew adds a device whose rows are stored to Placement, behind the devices of earlier hosts if something runs beside the report.
func (r *report) addNew(ctx context.Context, d newDevice) {
	if r.behind == nil && r.c.cfg.Layout != store.LayoutFlat {
		r.addDevice(ctx, d)
		return
	}
	r.added = append(r.added, d)
}

// storeDevice stores the rows of a new device and its deployables, or none of them.
func (r *report) storeDevice(change deviceChange) (d newDevice) {
	f := change.found
	r.c.db.Update(nil, func(tx store.Tx) {
		d.Device = tx.AddDevice(r.name, f.Device, f.source, change.nested, r.c.now())
		for _, spec := range f.Deployables {
			deployable, err := r.storeDeployable(tx, d.Device, spec)
			if err != nil {
				d.failed, d.err = spec.Name, err
				tx.Rollback()
				return
			}
			d.deployables = append(d.deployables, deployable)
		}
	})
	return d
}

func (r *report) storeDeployable(tx store.Tx, device store.Device, spec driver.Deployable) (layout.Part, error) {
	d, err := tx.AddDeployable(device, spec, r.parent, r.c.now())
	if err != nil {
		return layout.Part{}, err
	}
	return r.part(device, d, tx.Reported(d)), nil
}

// addDevice reports all deployables of a new device, or none of them.
func (r *report) addDevice(ctx context.Context, d newDevice) {
	if d.err != nil {
		r.fail(d.ControlPath.Key(), "add provider "+d.failed, d.err)
		return
	}
	for i := range d.deployables {
		if !r.offer(ctx, d.deployables[i]) {
			r.takeBack(ctx, d, i)
			return
		}
	}
}

// takeBack removes a new device after one of its deployables failed and others are in Placement.
func (r *report) takeBack(ctx context.Context, d newDevice, offered int) {
	c := r.c
	ctx, end := c.work.Detach(ctx)
	defer end()
	c.db.Update(nil, func(tx store.Tx) {
		for _, rest := range d.deployables[offered+1:] {
			tx.RemoveDeployable(rest.Deployable.UUID)
		}
	})
	for _, deployable := range r.deployablesOf(d.Device) {
		r.removeDeployables(ctx, d.Device, "remove provider "+deployable.Name, deployable)
	}
	c.db.Update(nil, func(tx store.Tx) { tx.RemoveEmptyDevice(d.UUID) })
}

func (r *report) deployablesOf(device store.Device) []storedDeployable {
	return store.Read(r.c.db, func(tx store.Tx) []storedDeployable { return loadDeployables(tx, device.UUID) })
}

// addDeployable adds a deployable to a stored device, or none of its rows and providers.
func (r *report) addDeployable(ctx context.Context, device store.Device, spec driver.Deployable) {
	var d layout.Part
	var err error
	r.c.db.Update(nil, func(tx store.Tx) { d, err = r.storeDeployable(tx, device, spec) })
	if err != nil {
		r.fail(device.ControlPath.Key(), "add provider "+spec.Name, err)
		return
	}
	r.offer(ctx, d)
}

// put adds a deployable to Placement. After a failure it removes what was created; what it cannot remove, the next
// report does.
func (r *report) put(ctx context.Context, part layout.Part) error {
	made, err := r.c.mirror.Put(ctx, part)
	if err == nil || !made {
		return err
	}
	ctx, end := r.c.work.Detach(ctx)
	defer end()
	return errors.Join(err, r.c.mirror.Remove(ctx, part))
}

// offer puts a deployable into Placement, or else deletes its rows.
func (r *report) offer(ctx context.Context, d layout.Part) bool {
	err := r.put(ctx, d)
	r.end(d, err)
	return err == nil
}

// end ends the addition of a deployable.
func (r *report) end(d layout.Part, err error) {
	r.c.db.Update(nil, func(tx store.Tx) {
		if err == nil {
			tx.OfferDeployable(d.Deployable.UUID, r.c.now())
		} else {
			tx.RemoveDeployable(d.Deployable.UUID)
		}
	})
	r.fail(d.Device.ControlPath.Key(), "add provider "+d.Deployable.Name, err)
	if errors.Is(err, layout.ErrStandardTrait) {
		r.drop(d.Device, d.Deployable.Name, err)
	}
}

// drop adds a device that cannot be reported as it is to the problems of its driver's report.
func (r *report) drop(device store.Device, deployable string, err error) {
	r.c.db.Update(nil, func(tx store.Tx) {
		tx.ChangeReport(r.name, device.Driver, func(report *store.DriverReport) {
			report.Devices--
			report.Problems = append(slices.Clone(report.Problems), store.Problem{
				Address: device.ControlPath.Reported().Address().String(), Error: fmt.Sprintf("%s is not reported: %v", deployable, err),
			})
		})
	})
}

// reshapeDevice replaces the deployables of a device that gets regions, or loses all but one: their
// providers move, all at once.
func (r *report) reshapeDevice(ctx context.Context, change deviceChange) {
	c, device := r.c, change.stored.Device
	r.updateDevice(change)
	r.endVanished(ctx, &change)
	all := r.deployablesOf(device)
	if slices.ContainsFunc(all, change.isVanished) || !r.removeDeployables(ctx, device, "move the providers of its regions", all...) || len(r.deployablesOf(device)) > 0 {
		for _, found := range change.found.Deployables { // the providers cannot move
			r.lower(ctx, device, found)
		}
		return
	}
	c.db.Update(nil, func(tx store.Tx) {
		tx.SetNested(device.UUID, change.nested)
		device, _ = tx.Device(device.UUID)
	})
	for _, spec := range change.found.Deployables {
		r.addDeployable(ctx, device, spec)
	}
}

// lower reduces a stored deployable to what is reported, with its present class and memory.
func (r *report) lower(ctx context.Context, device store.Device, found driver.Deployable) {
	for _, d := range r.deployablesOf(device) {
		if d.Name != found.Name {
			continue
		}
		if change, needed := planDeployable(r.c.cfg.Rules, device, device, &d, d.remaining(found), d.found()); needed {
			r.changeDeployable(ctx, device.ControlPath.Key(), change)
		}
	}
}

func (r *report) updateDevice(change deviceChange) {
	if change.updated() {
		r.c.db.Update(nil, func(tx store.Tx) {
			tx.UpdateDevice(change.stored.UUID, change.found.Device, change.found.source, r.c.now())
		})
	}
}

// changeDevice applies the difference of a stored device.
func (r *report) changeDevice(ctx context.Context, change deviceChange) {
	r.endVanished(ctx, &change)
	// A process that ends before the first deployable is unsettled must find the difference again.
	r.updateDevice(change)
	for _, d := range change.deployables {
		if d.stored == nil {
			r.addDeployable(ctx, change.device(), d.spec)
		} else {
			r.changeDeployable(ctx, change.stored.key, d)
		}
	}
}

// changeDeployable changes a deployable in Placement and then in the store. Before, free handles that are no longer
// reported are withdrawn, whether or not Placement accepts the change, and traits that are no longer reported cannot
// satisfy a bind.
func (r *report) changeDeployable(ctx context.Context, key string, d deployableChange) {
	c := r.c
	step := "update provider " + d.stored.Name
	c.db.Update(nil, func(tx store.Tx) {
		if !d.found.Hidden {
			tx.ObserveDeployable(d.stored.UUID, d.found)
		}
		if !c.cfg.Quirks {
			tx.SetPresence(d.stored.UUID, d.part.Deployable.Presence)
			tx.LoseTraits(d.stored.UUID, d.spec.Traits, c.now())
			tx.WithdrawHandles(d.stored.UUID, d.spec.AttachHandles)
		}
	})
	d.part.Root = r.parent
	if _, err := c.mirror.Put(ctx, d.part); err != nil {
		r.fail(key, step, err)
		if !d.stored.holds(d.spec) { // perhaps because a guest holds some of the class
			r.lower(ctx, d.part.Device, d.found)
		}
		return
	}
	var err error
	c.db.Update(nil, func(tx store.Tx) { err = tx.UpdateDeployable(d.stored.UUID, d.spec, c.now()) })
	r.fail(key, step, err)
}

// setReported sets when a host was discovered last, which is not part of the state.
func (c *Conductor) setReported(name string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported[name] = at
}

func (c *Conductor) reportedAt(name string) time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.reported[name]
}

// DriverReports returns what each driver of the given hosts, or of all, found last, by host and then in the order of
// the drivers.
func (c *Conductor) DriverReports(hosts ...string) (list []driver.HostReport) {
	c.db.View(func(tx store.Tx) {
		reports := tx.Reports()
		if len(hosts) > 0 {
			reports = func(yield func(store.HostReport) bool) {
				for _, host := range hosts {
					if !yield(tx.Report(host)) {
						return
					}
				}
			}
		}
		for host := range reports {
			for _, r := range host.Drivers {
				list = append(list, hostReport(host.Host, c.reportedAt(host.Host), r))
			}
		}
	})
	return list
}

func hostReport(host string, at time.Time, r store.DriverReport) driver.HostReport {
	report := driver.HostReport{
		Host: host, Driver: r.Driver, At: at, Devices: r.Devices, LeftOut: r.LeftOut, Conflicts: r.Conflicts, Warnings: r.Warnings, Err: errorOf(r.Error),
	}
	for _, p := range r.Problems {
		report.Problems = append(report.Problems, driver.Problem{Address: p.Address, File: p.File, Err: errorOf(p.Error)})
	}
	return report
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}
