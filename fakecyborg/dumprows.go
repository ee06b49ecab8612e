package fakecyborg

import (
	"cmp"
	"maps"
	"slices"
)

// dumpRows writes the rows of a table that are to be found later.
func dumpRows[R interface{ meta() *record }, D any](t table[R], dump func(R) (D, bool)) []D {
	list := make([]D, 0, len(t.rows))
	for _, row := range t.rows {
		if d, ok := dump(row); ok {
			list = append(list, d)
		}
	}
	return list
}

func (r *record) dump() dumpRecord {
	return dumpRecord{ID: r.id, UUID: r.uuid, Created: r.created.UTC(), Updated: r.updated.UTC()}
}

func (st *state) dumpIDs() dumpIDs {
	named := make(map[string]int)
	maps.Copy(named, st.counts)
	return dumpIDs{Named: named, Last: dumpLast{
		Profiles: st.profiles.last, Devices: st.devices.last, Deployables: st.deployables.last,
		Attributes: st.attributes.last, Handles: st.handles.last, ARQs: st.arqs.last,
	}}
}

func dumpOfProfile(p *profileRow) (dumpProfile, bool) {
	return dumpProfile{dumpRecord: p.dump(), Name: p.name, Description: p.description, Groups: p.groups}, true
}

func dumpOfDevice(d *deviceRow) (dumpDevice, bool) {
	return dumpDevice{
		dumpRecord: d.dump(), Hostname: d.host, Driver: d.source, Status: d.status, Nested: d.nested, Device: d.spec.Clone(),
	}, true
}

func dumpOfDeployable(part *deployableRow) (dumpDeployable, bool) {
	return dumpDeployable{
		dumpRecord: part.dump(), Device: part.device.uuid, Name: part.name, Provider: part.provider, Total: part.total,
		Driver: part.driverName, Programmable: programmable(part), Memory: maps.Clone(part.memory), Offered: part.offered,
		Bitstream: part.bitstream, Loaded: dumpOfLoaded(part.loaded), Writing: part.writing, Unsure: part.unsure,
	}, true
}

func dumpOfLoaded(l loaded) *dumpLoaded {
	if l.image.id == "" {
		return nil
	}
	return &dumpLoaded{
		Image: l.image.id, Properties: maps.Clone(l.image.properties), Trait: l.trait,
		Reported: slices.Clone(l.reported), Looked: l.looked,
	}
}

func dumpOfAttribute(a *attributeRow) (dumpAttribute, bool) {
	return dumpAttribute{dumpRecord: a.dump(), Deployable: a.deployable.uuid, Key: a.key, Value: a.value, ByUser: a.byAPI}, true
}

// dumpOfHandle writes a handle as nobody was at work on it. What needs no agent to
// give it back is given back.
func dumpOfHandle(h *handleRow) (dumpHandle, bool) {
	taken := h.taken && (h.arq != nil || h.needsAgent())
	return dumpHandle{
		dumpRecord: h.dump(), Deployable: h.deployable.uuid, Type: h.kind, Info: h.info.info(), InUse: taken, Gone: h.gone,
	}, taken || !h.gone
}

func (st *state) dumpARQs() []dumpARQ {
	going := make(map[*arqRow]bool)
	for _, run := range st.binds {
		for _, job := range run.jobs {
			going[job.arq] = going[job.arq] || job.going()
		}
	}
	list := make([]dumpARQ, 0, len(st.arqs.rows))
	for _, a := range st.arqs.rows {
		d := dumpARQ{
			dumpRecord: a.dump(), State: a.state, Profile: a.profile.uuid, Group: a.group, Hostname: a.host, Provider: a.provider,
			Instance: a.instance, Project: a.project, Image: a.image.dump(), Failure: a.failure,
		}
		if a.handle != nil {
			d.Handle = a.handle.uuid
			if a.state == StateBindStarted && a.handle.busy && !going[a] {
				d.State = StateBindFailed // its handle is being given back, which fails
			}
		}
		list = append(list, d)
	}
	return list
}

func (i image) dump() map[string]string {
	if i.by == "" {
		return nil
	}
	return map[string]string{string(i.by): i.value}
}

// dumpBinds writes what Resume needs. Of a run of which Nova is not to be told,
// what has ended is over.
func (st *state) dumpBinds() []dumpBind {
	list := []dumpBind{}
	for _, run := range st.binds {
		b := dumpBind{Requests: []dumpBinding{}}
		b.Silent = run.silent || slices.ContainsFunc(run.jobs, func(j *bindJob) bool { return j.outcome() == StateBindStarted })
		for _, job := range run.jobs {
			binding := dumpBinding{ARQ: job.uuid, Instance: job.server, Profile: job.profile, State: job.outcome()}
			if job.going() {
				binding.State, binding.Program = StateBindStarted, job.image.dump()
			}
			if !b.Silent || job.going() {
				b.Requests = append(b.Requests, binding)
			}
		}
		if len(b.Requests) > 0 {
			list = append(list, b)
		}
	}
	return list
}

// dumpAgents writes the agents by the names of their hosts, and those of hosts
// that a dump knew and nobody has added yet.
func (s *Server) dumpAgents() []dumpAgent {
	list := []dumpAgent{}
	for name, a := range s.agents {
		if name == a.host.Name {
			list = append(list, dumpAgentOf(name, agentState{a.signs, a.fellBack}))
		}
	}
	for name, a := range s.awaited {
		list = append(list, dumpAgentOf(name, a))
	}
	slices.SortFunc(list, func(a, b dumpAgent) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

func dumpAgentOf(host string, a agentState) dumpAgent {
	return dumpAgent{
		Host: host, FellBack: a.fellBack, Down: a.signs.down, Started: a.signs.started.UTC(),
		LastBeat: a.signs.last.UTC(), Returns: a.signs.returns.UTC(),
	}
}

func (s *Server) dumpReports() []dumpReport {
	list := []dumpReport{}
	for _, host := range slices.Sorted(maps.Keys(s.reports)) {
		for _, r := range s.reports[host] {
			d := dumpReport{
				Host: host, Driver: r.Driver, At: r.At.UTC(), Devices: r.Devices,
				LeftOut: slices.Clone(r.LeftOut), Warnings: slices.Clone(r.Warnings), Error: textOf(r.Err),
			}
			for _, p := range r.Problems {
				d.Problems = append(d.Problems, dumpProblem{Address: p.Address, File: p.File, Error: textOf(p.Err)})
			}
			list = append(list, d)
		}
	}
	return list
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
