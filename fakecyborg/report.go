package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// ReportError tells why one device of a host, or the host as a whole, could not
// be reported. Everything else of the report was done.
type ReportError struct {
	Host string
	// Device is the control path as JSON text, the name of the driver, or empty
	// when the whole host is concerned.
	Device string
	// Step is what was being done: "discover", "find the host's provider", "add
	// provider cn0_FakeDevice".
	Step string
	Err  error
}

// Error names host, device, step and cause.
func (e *ReportError) Error() string {
	if e.Device == "" {
		return fmt.Sprintf("fakecyborg: report of host %s: %s: %v", e.Host, e.Step, e.Err)
	}
	return fmt.Sprintf("fakecyborg: report of host %s: device %s: %s: %v", e.Host, e.Device, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *ReportError) Unwrap() error { return e.Err }

// reportPeriod is upstream's periodic_interval.
const reportPeriod = time.Minute

// startPauses are upstream's pauses between the tries of a starting agent to
// find its host in Placement (resource_provider_startup_retries).
var startPauses = [...]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}

// Report lets the agent of every host report once, in the order in which the
// hosts were added. What cannot be reported is told in the error, which joins a
// [ReportError] for each trouble; all else is reported.
func (s *Server) Report(ctx context.Context) error {
	s.mu.RLock()
	hosts := slices.Clone(s.hostNames)
	s.mu.RUnlock()
	var errs []error
	for _, host := range hosts {
		errs = append(errs, s.ReportHost(ctx, host))
	}
	return errors.Join(errs...)
}

// ReportHost lets the agent of one host report once: the drivers look at the
// hardware, and the conductor compares with what it knows, tells Placement the
// difference and stores it. A device whose provider cannot be made is not
// stored; a device that vanished stays while a request holds it. The error
// matches [ErrHost] for an unknown host, and else joins a [ReportError] for
// each trouble.
func (s *Server) ReportHost(ctx context.Context, host string) error {
	ctx = simhttp.WithoutChangeLog(ctx) // no request's, whoever asked for it
	s.mu.RLock()
	a, ok := s.agents[host]
	s.mu.RUnlock()
	if !ok {
		return fmt.Errorf("%w %s: it is not there", ErrHost, host)
	}
	leave, err := a.enter(ctx)
	if err != nil {
		return &ReportError{Host: host, Step: "wait for its turn", Err: err}
	}
	defer leave()
	s.mu.RLock()
	down := a.signs.down
	s.mu.RUnlock()
	if down {
		return &ReportError{Host: host, Step: "ask the agent", Err: ErrAgentDown}
	}
	var reported error
	err = s.perform(ctx, agentReportOperation, host, func() error {
		reported = s.report(ctx, a)
		return nil
	})
	if err == nil {
		return reported
	}
	return errors.Join(reported, &ReportError{Host: host, Step: "ask the agent", Err: err})
}

// reportLoop is the life of an agent: report now, then every minute.
func (s *Server) reportLoop(ctx context.Context, host string) {
	err := s.ReportHost(ctx, host)
	for _, pause := range startPauses {
		if !errors.Is(err, errNoParent) {
			break
		}
		if s.clock.Wait(ctx, pause) != nil {
			return
		}
		err = s.ReportHost(ctx, host)
	}
	if errors.Is(err, errNoParent) && s.cfg.UpstreamQuirks {
		return // upstream's agent refuses to start
	}
	for s.clock.Wait(ctx, reportPeriod) == nil {
		_ = s.ReportHost(ctx, host) // kept for DriverReports; the next one tries again
	}
}

// reporting is one report in progress.
type reporting struct {
	s      *Server
	host   string
	parent string // provider of the host
	errs   []error
}

func (r *reporting) fail(device, step string, err error) {
	if err != nil {
		r.errs = append(r.errs, &ReportError{Host: r.host, Device: device, Step: step, Err: err})
	}
}

func (s *Server) report(ctx context.Context, a *agent) error {
	r := &reporting{s: s, host: s.nameOf(a)}
	seen := r.discover(ctx, a)
	if seen.hopeless && s.cfg.UpstreamQuirks {
		return errors.Join(r.errs...)
	}
	r.reapOrphans(ctx)
	if !s.cfg.UpstreamQuirks {
		r.restoreMdevs(ctx)
	}
	if s.placement != nil {
		if err := r.findParent(ctx, a); err != nil {
			r.fail("", "find the host's provider", err)
			return errors.Join(r.errs...)
		}
	}
	r.refuseClaimed(ctx, a, &seen)
	r.alike(&seen)
	r.dropVanished(ctx, seen)
	for _, f := range seen.devices {
		r.device(ctx, f)
	}
	r.settle(ctx)
	return errors.Join(r.errs...)
}

// nameOf is the agent's name under the lock.
func (s *Server) nameOf(a *agent) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return a.name()
}

// findParent finds the provider of the host, by the fallback as long as the
// agent has stored nothing under its name.
func (r *reporting) findParent(ctx context.Context, a *agent) error {
	s := r.s
	var err error
	r.parent, err = s.placement.parent(ctx, r.host)
	s.mu.RLock()
	settled := a.host.Fallback == "" || a.fellBack || len(s.state.byHost[r.host]) > 0
	s.mu.RUnlock()
	if !errors.Is(err, errNoParent) || settled {
		return err
	}
	if r.parent, err = s.placement.parent(ctx, a.host.Fallback); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.fellBack = true
	s.reports[a.host.Fallback] = s.reports[r.host]
	delete(s.reports, r.host)
	s.hostNames[slices.Index(s.hostNames, r.host)] = a.host.Fallback
	r.host = a.host.Fallback
	return nil
}

// sighting is what all drivers of a host found.
type sighting struct {
	devices []found
	present map[string]bool // control paths that are there, usable or not
	blind   map[string]bool // drivers that could not look
	// hopeless is a report that upstream gives up as a whole: a driver failed, or
	// reported a device without attributes, as that of Huawei's Ascend does.
	hopeless bool
}

// gone reports whether a stored device is known to be away.
func (v sighting) gone(d *deviceRow) bool { return !v.present[d.key] && !v.blind[d.source] }

// discover asks all drivers. A driver that fails, or has trouble with one
// device, leaves what it reported before alone; upstream drops the report of
// the whole host.
func (r *reporting) discover(ctx context.Context, a *agent) sighting {
	v := sighting{present: make(map[string]bool), blind: make(map[string]bool)}
	var reports []DriverReport
	now := r.s.clock.Now()
	all, err := driver.DiscoverAll(ctx, a.host.Drivers)
	failed := new(driver.DiscoveryError)
	errors.As(err, &failed)
	for i, d := range a.host.Drivers {
		found, err := all[i], failed.Failed[i]
		reports = append(reports, DriverReport{
			Host: r.host, Driver: d.Name(), At: now, Devices: len(found.Devices),
			LeftOut: found.LeftOut, Problems: found.Problems, Warnings: found.Warnings, Err: err,
		})
		if err != nil {
			v.blind[d.Name()], v.hopeless = true, true
			r.fail(d.Name(), "discover", err)
			continue
		}
		for _, problem := range found.Problems {
			r.fail(d.Name(), "discover", problem)
			if problem.Address != "" {
				v.present[placeOf(problem.Address).ControlPath().Key()] = true
			}
		}
		r.keep(&v, found.Devices, d.Name())
	}
	r.s.mu.Lock()
	r.s.reports[r.host] = reports
	r.s.mu.Unlock()
	return v
}

// placeOf understands the address of a problem: a PCI function, or a device of
// another kind by its name.
func placeOf(text string) driver.Address {
	if at, err := driver.ParsePCIAddress(text); err == nil {
		return driver.Address{Kind: driver.ControlPathPCI, PCI: at}
	}
	return driver.MdevParent(text)
}

// keep takes the devices of one driver that can be stored.
func (r *reporting) keep(v *sighting, devices []driver.Device, source string) {
	for _, d := range devices {
		key := d.ControlPath.Key()
		if d.Stub {
			v.present[key] = true
			continue
		}
		hidden, trouble := r.s.sight(d)
		if hidden {
			continue
		}
		if trouble != nil {
			v.present[key] = true
			r.fail(key, "read the device", trouble)
			continue
		}
		if slices.ContainsFunc(v.devices, func(f found) bool { return f.device.ControlPath.Key() == key }) {
			r.fail(key, "take what driver "+source+" reports", errors.New("another driver, or the same one twice, reports the device"))
			continue
		}
		v.present[key] = true
		v.hopeless = v.hopeless || slices.ContainsFunc(d.Deployables, func(p driver.Deployable) bool { return len(p.Attributes) == 0 })
		if err := d.Validate(); err != nil {
			r.fail(key, "take what driver "+source+" reports", err)
			continue
		}
		d, err := r.s.state.placeMemory(settled(d))
		r.fail(key, "place the local memory", err)
		v.devices = append(v.devices, found{device: d, source: source})
	}
}

// reapOrphans tries again to remove mediated devices whose requests are gone.
func (r *reporting) reapOrphans(ctx context.Context) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, h := range r.s.state.orphans(r.host) {
		if h.busy || !h.taken || h.arq != nil {
			continue // taken care of while the lock was away
		}
		h.busy = true
		key := h.deployable.device.key
		r.fail(key, "remove a mediated device left over", r.s.removeHandle(ctx, h))
	}
}

// restoreMdevs makes the mediated devices of bound requests again, which do not
// survive a restart of their host. One that is there stays as it is. Upstream
// planned this and does not do it.
func (r *reporting) restoreMdevs(ctx context.Context) {
	run := &bindRun{}
	resolved := r.makeMdevs(ctx, run)
	r.fail("", "tell Nova of the mediated devices made again", r.s.sendRestored(ctx, resolved))
	r.s.leaveRun(r.s.life, run)
}

// makeMdevs does the work of restoreMdevs. Nova is to be told of the requests that
// were provisioning.
func (r *reporting) makeMdevs(ctx context.Context, run *bindRun) (resolved []resolution) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.state.boundMdevs(r.host) {
		if !h.restorable() {
			continue // given back while the lock was away
		}
		h.busy = true
		work, key := h.work(), h.deployable.device.key
		s.mu.Unlock()
		err := s.createMdev(ctx, work)
		s.mu.Lock()
		if h.arq == nil { // unbound or deleted meanwhile, and left to us
			err = s.removeHandle(ctx, h)
		} else {
			h.busy = false
			if ended, ok := s.restored(h, err); ok {
				resolved = append(resolved, ended)
				s.state.track(run, ended.job())
			}
		}
		r.fail(key, "restore a mediated device", err)
	}
	return resolved
}

// dropVanished removes the devices that no driver reports any more.
func (r *reporting) dropVanished(ctx context.Context, seen sighting) {
	r.s.mu.RLock()
	devices := slices.Clone(r.s.state.byHost[r.host])
	r.s.mu.RUnlock()
	for _, d := range devices {
		if !seen.gone(d) {
			continue
		}
		if err := r.retire(d.parts...); err != nil {
			r.fail(d.key, "drop the vanished device", err)
			r.freeze(ctx, d)
			continue
		}
		for _, part := range slices.Clone(d.parts) {
			r.dropPart(ctx, part)
		}
		r.s.mu.Lock()
		if len(d.parts) == 0 {
			r.s.state.removeDevice(d)
		}
		r.s.mu.Unlock()
	}
}

// retire takes deployables out of the offer, all or none of them.
func (r *reporting) retire(parts ...*deployableRow) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, part := range parts {
		if users := part.inUse(); len(users) > 0 {
			return fmt.Errorf("deployable %s is in use by %s", part.name, strings.Join(users, ", "))
		}
	}
	for _, part := range parts {
		part.offered = false
	}
	return nil
}

// dropPart removes a retired deployable from Placement and then from the store.
// If Placement refuses, because something is allocated from it, it is offered
// again.
func (r *reporting) dropPart(ctx context.Context, part *deployableRow) {
	s := r.s
	s.mu.RLock()
	want := s.state.want(part, part.reportedSpec(), r.parent)
	s.mu.RUnlock()
	var err error
	if s.placement != nil {
		err = s.shape.remove(ctx, want)
	}
	s.mu.Lock()
	if err == nil {
		s.state.removePart(part)
	} else {
		part.offered = true
	}
	s.mu.Unlock()
	r.fail(part.device.key, "remove provider "+part.name, err)
}

// device stores and reports one device that is there.
func (r *reporting) device(ctx context.Context, f found) {
	s := r.s
	s.mu.Lock()
	row := s.state.deviceOf(r.host, f.device.ControlPath.Key())
	isNew := row == nil
	if isNew {
		row = s.state.addDevice(r.host, f, s.clock.Now())
		row.nested = s.state.nests(f.device)
	} else {
		s.state.updateDevice(row, f, s.clock.Now())
	}
	s.mu.Unlock()
	if isNew {
		r.newDevice(ctx, row, f)
		return
	}
	if row.nested != s.state.nests(f.device) && !r.reshape(ctx, row, f) {
		return
	}
	r.sameDevice(ctx, row, f)
}

// reshape takes the deployables of a device away when it gets regions, or loses
// all but one: their providers have to stand elsewhere. It answers whether they
// may be made anew.
func (r *reporting) reshape(ctx context.Context, row *deviceRow, f found) bool {
	if err := r.retire(row.parts...); err != nil {
		r.fail(row.key, "move the providers of its regions", err)
		return false
	}
	for _, part := range slices.Clone(row.parts) {
		r.dropPart(ctx, part)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if len(row.parts) > 0 {
		return false
	}
	row.nested = r.s.state.nests(f.device)
	return true
}

// newDevice reports all deployables of a new device, or none of them.
func (r *reporting) newDevice(ctx context.Context, row *deviceRow, f found) {
	for _, spec := range f.device.Deployables {
		if r.addPart(ctx, row, spec) {
			continue
		}
		for _, part := range slices.Clone(row.parts) {
			if err := r.retire(part); err == nil {
				r.dropPart(r.s.life, part)
			}
		}
		r.s.mu.Lock()
		if len(row.parts) == 0 {
			r.s.state.removeDevice(row)
		}
		r.s.mu.Unlock()
		return
	}
}

// addPart stores a new deployable and makes its provider. If that fails,
// nothing of it stays.
func (r *reporting) addPart(ctx context.Context, row *deviceRow, spec driver.Deployable) bool {
	s := r.s
	step := "add provider " + spec.Name
	s.mu.Lock()
	part, err := s.state.addPart(row, spec, r.parent, s.clock.Now())
	if err != nil {
		s.mu.Unlock()
		r.fail(row.key, step, err)
		return false
	}
	want := s.state.want(part, part.reportedSpec(), r.parent)
	s.mu.Unlock()
	made := false
	if s.placement != nil {
		made, err = s.shape.add(ctx, want)
	}
	if err != nil && made {
		err = errors.Join(err, s.shape.remove(s.life, want))
	}
	s.mu.Lock()
	if err != nil {
		s.state.removePart(part)
	} else {
		part.offered, part.updated = true, s.clock.Now()
	}
	s.mu.Unlock()
	r.fail(row.key, step, err)
	return err == nil
}

// sameDevice reports the differences of a device that was known.
func (r *reporting) sameDevice(ctx context.Context, row *deviceRow, f found) {
	r.s.mu.RLock()
	parts := slices.Clone(row.parts)
	r.s.mu.RUnlock()
	for _, part := range parts {
		if slices.ContainsFunc(f.device.Deployables, func(d driver.Deployable) bool { return d.Name == part.name }) {
			continue
		}
		if err := r.retire(part); err != nil {
			r.fail(row.key, "drop the vanished deployable", err)
			continue
		}
		r.dropPart(ctx, part)
	}
	for _, spec := range f.device.Deployables {
		i := slices.IndexFunc(parts, func(part *deployableRow) bool { return part.name == spec.Name })
		if i < 0 {
			r.addPart(ctx, row, spec)
			continue
		}
		r.samePart(ctx, parts[i], spec)
	}
}

// samePart tells Placement what changed about a deployable and then stores it.
func (r *reporting) samePart(ctx context.Context, part *deployableRow, spec driver.Deployable) {
	s := r.s
	step := "update provider " + part.name
	if !s.cfg.UpstreamQuirks {
		s.mu.Lock()
		part.look(spec)
		s.mu.Unlock()
	}
	s.mu.RLock()
	spec = part.asProgrammed(spec)
	if !s.cfg.UpstreamQuirks { // what is bound counts, though the hardware may be short of it now
		spec.NumAccelerators = max(spec.NumAccelerators, part.taken())
	}
	change := s.state.compare(part, spec, r.parent)
	s.mu.RUnlock()
	if s.placement != nil {
		if err := s.shape.change(ctx, change); err != nil {
			r.fail(part.device.key, step, err)
			return
		}
	}
	s.mu.Lock()
	err := s.state.updatePart(part, spec, s.clock.Now())
	s.mu.Unlock()
	r.fail(part.device.key, step, err)
}

// change tells Placement the difference, in upstream's order: inventory or
// class, then traits taken away, then traits added.
func (p *placementClient) change(ctx context.Context, c partChange) error {
	if fresh := without(c.fresh.classes(), c.old.classes()); len(fresh) > 0 {
		if err := p.ensureClasses(ctx, fresh...); err != nil {
			return err
		}
	}
	if c.class || c.amount {
		if err := p.putInventory(ctx, c.fresh, ""); err != nil {
			return err
		}
	}
	for _, class := range without(c.old.classes(), c.fresh.classes()) {
		p.dropClass(ctx, class)
	}
	if len(c.drop) > 0 {
		if err := p.changeTraits(ctx, c.fresh.uuid, nil, c.drop); err != nil {
			return err
		}
		p.dropTraits(ctx, c.drop)
	}
	return p.changeTraits(ctx, c.fresh.uuid, c.add, nil)
}
