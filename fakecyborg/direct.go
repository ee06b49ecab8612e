package fakecyborg

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

// list collects the public views of rows. The maker of views is called once.
func list[R, V any](s *Server, rows func(store.Tx) iter.Seq[R], views func(store.Tx) func(R) V) []V {
	var values []V
	s.db.View(func(tx store.Tx) {
		n := 0
		for range rows(tx) {
			n++ // costs less than to let a long list grow
		}
		values = make([]V, 0, n)
		view := views(tx)
		for row := range rows(tx) {
			values = append(values, view(row))
		}
	})
	return values
}

// alone is a maker of views of rows that refer to no others.
func alone[R, V any](view func(R) V) func(store.Tx) func(R) V {
	return func(store.Tx) func(R) V { return view }
}

// failed adds to an error what has failed; without an error it returns nil.
func failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fakecyborg: %s: %w", fmt.Sprintf(format, args...), err)
}

// ARQs returns the accelerator requests of all projects, oldest first.
func (s *Server) ARQs() []ARQ { return s.arqsOf("") }

// arqsOf lists the requests of an instance, or all.
func (s *Server) arqsOf(instance string) []ARQ {
	return list(s, func(tx store.Tx) iter.Seq[store.ARQ] { return tx.ARQs(instance, store.Everything()) }, s.arqView)
}

// ARQPage is a part of the accelerator requests, see [Server.SearchARQs].
type ARQPage struct {
	ARQs []ARQ
	// Matching is how many requests were found in all.
	Matching int
	// States is how many requests there are in each state, found or not.
	States map[State]int
}

// SearchARQs returns requests of all projects, oldest first: those whose UUID, instance, host or
// device profile contains a text, or that are in the state of this name, without the first skip of
// them and at most limit. An empty text finds all.
func (s *Server) SearchARQs(text string, skip, limit int) ARQPage {
	page := ARQPage{States: make(map[State]int)}
	s.db.View(func(tx store.Tx) {
		shown := s.conductor.ShownState(tx, s.clock.Now())
		for a := range tx.ARQs("", store.Everything()) {
			state := shown(a)
			page.States[State(state)]++
			found := text == "" || strings.EqualFold(state, text) || slices.ContainsFunc(
				[]string{a.UUID, a.Instance, a.Host, a.Profile}, func(field string) bool { return strings.Contains(field, text) })
			if !found {
				continue
			}
			if page.Matching++; page.Matching > skip && len(page.ARQs) < limit {
				page.ARQs = append(page.ARQs, arqOf(tx, a, state))
			}
		}
	})
	return page
}

// DeviceProfiles returns the device profiles, oldest first.
func (s *Server) DeviceProfiles() []StoredDeviceProfile {
	return list(s, store.Tx.Profiles, alone(profileOf))
}

// CreateDeviceProfile stores a device profile by the rules of the API. The error has the API's text.
func (s *Server) CreateDeviceProfile(name string, groups []map[string]string) (StoredDeviceProfile, error) {
	wire := []map[string]any{{"name": name, "groups": groups}}
	in, err := s.parseProfile([]byte(jsonText(wire)))
	var p store.Profile
	if err == nil {
		p, err = s.storeProfile(context.Background(), in)
	}
	return profileOf(p), failed(err, "create device profile %s", name)
}

// Devices returns the devices of all hosts, oldest first.
func (s *Server) Devices() []StoredDevice {
	return list(s, store.Tx.Devices, alone(deviceOf))
}

// Deployables returns the deployables of all devices.
func (s *Server) Deployables() []StoredDeployable {
	return list(s, store.Tx.Deployables, deployableView)
}

// AttachHandles returns the attach handles of all deployables, lowest first.
func (s *Server) AttachHandles() []StoredAttachHandle {
	return list(s, store.Tx.AllHandles, handleView)
}

// Attributes returns the attributes of all deployables, oldest first.
func (s *Server) Attributes() []StoredAttribute {
	return list(s, store.Tx.AllAttributes, alone(attributeOf))
}

// Events returns the newest events for Nova, oldest first, whether or not they were delivered.
func (s *Server) Events() []sim.Event {
	return list(s, store.Tx.Events, alone(func(e store.Event) sim.Event { return e.Event }))
}

// DriverReports returns what each driver of some hosts, or of all, found last, by host and then in the order of the
// drivers, with devices left out and problems.
func (s *Server) DriverReports(hosts ...string) []driver.HostReport {
	return s.conductor.DriverReports(hosts...)
}

// UnitsInUse counts the units whose attach handles are in use on some hosts, by the UUID of the resource provider and the resource
// class. A card of Xilinx, which has two attach handles for a unit, uses one with either of them.
func (s *Server) UnitsInUse(hosts ...string) map[[2]string]int {
	units := make(map[[2]string]int)
	s.db.View(func(tx store.Tx) {
		for _, host := range hosts {
			for d := range tx.HostDeployables(host) {
				n := 0
				for h := range tx.Handles(d.UUID) {
					if h.InUse() {
						n++
					}
				}
				if n == 0 {
					continue
				}
				spec := tx.Reported(d)
				if slices.Contains(spec.Traits, "CUSTOM_FPGA_XILINX") {
					n = (n + 1) / 2
				}
				units[[2]string{d.Provider, spec.Class}] += n
			}
		}
	})
	return units
}

// DeleteDeviceProfile deletes a profile. The error, for an unknown one and for one in use, has the
// API's text.
func (s *Server) DeleteDeviceProfile(name string) (err error) {
	s.db.Update(nil, func(tx store.Tx) {
		var p store.Profile
		if p, err = tx.ProfileByName(name); err == nil {
			err = tx.DeleteProfile(p)
		}
	})
	return failed(err, "delete device profile %s", name)
}

// CreateARQs creates the requests of a device profile for a project, as POST accelerator_requests does.
// The error has the API's text.
func (s *Server) CreateARQs(profile, project string) (arqs []ARQ, err error) {
	err = s.storeARQs(context.Background(), profile, project, store.BitstreamRef{}, func(tx store.Tx, rows []store.ARQ) {
		for _, row := range rows {
			arqs = append(arqs, arqOf(tx, row, row.State))
		}
	})
	return arqs, failed(err, "create ARQs of %s", profile)
}

// Binding says where a request is to be bound.
type Binding struct {
	ARQ, Host, Provider, Instance string
}

// Bind binds requests as one PATCH does, with its events. With Config.UpstreamQuirks, too, a provider or an
// instance that is not a UUID is refused. The error has the API's text; with Config.AsyncBind or an FPGA to be
// programmed, the binds end later.
func (s *Server) Bind(ctx context.Context, bindings ...Binding) error {
	patches := make([]agent.Patch, 0, len(bindings))
	for _, b := range bindings {
		args := store.BindArgs{Host: b.Host, Provider: b.Provider, Instance: b.Instance}
		if err := checkBindArgs(args); err != nil {
			return failed(err, "bind ARQ %s", b.ARQ)
		}
		s.db.View(func(tx store.Tx) {
			a, _ := tx.ARQ(b.ARQ, store.Everything())
			args.Project = a.Project // is kept
		})
		patches = append(patches, agent.Patch{ARQ: b.ARQ, Args: args})
	}
	return s.patch(ctx, "bind", patches)
}

// Unbind frees the handles of requests and makes them Unbound, as a PATCH does.
func (s *Server) Unbind(ctx context.Context, arqs ...string) error {
	patches := make([]agent.Patch, 0, len(arqs))
	for _, arq := range arqs {
		patches = append(patches, agent.Patch{ARQ: arq, Unbind: true})
	}
	return s.patch(ctx, "unbind", patches)
}

func (s *Server) patch(ctx context.Context, verb string, patches []agent.Patch) error {
	if len(patches) == 0 {
		return nil
	}
	return failed(s.conductor.Apply(ctx, agent.Caller{Scope: store.Everything()}, patches), "%s", verb)
}

// DeleteARQs frees the handles of requests and deletes them. It stops at the first that cannot be
// deleted.
func (s *Server) DeleteARQs(ctx context.Context, arqs ...string) error {
	for _, arq := range arqs {
		if err := s.conductor.Delete(ctx, arq, store.Everything()); err != nil {
			return failed(err, "delete ARQ %s", arq)
		}
	}
	return nil
}

// SetARQState sets the state of a request without an event, so that clients can be tested with it. A
// request without an attach handle cannot be Bound or provisioning, one with a handle cannot be Initial
// or Unbound, and unknown is never stored. The error has the reason, and nothing is changed then.
func (s *Server) SetARQState(arq string, state State) (err error) {
	now := s.clock.Now()
	s.db.Update(nil, func(tx store.Tx) { err = tx.SetARQState(arq, string(state), now) })
	return failed(err, "set state")
}

// SetDeviceStatus enables or disables a device, in Placement, too, as POST devices/{uuid}/enable and
// disable do. Enabling it clears the reservation of fully reserved inventories, even if another
// client reserved them. The error has the API's text; the next report then corrects Placement.
func (s *Server) SetDeviceStatus(ctx context.Context, device, status string) error {
	if !slices.Contains([]string{StatusEnabled, StatusMaintaining}, status) {
		return fmt.Errorf("fakecyborg: device %s: there is no status %q", device, status)
	}
	return failed(s.conductor.SetStatus(ctx, device, status), "set status")
}

// ProgramDeployable writes an image of Glance to a deployable, as PATCH deployables/{uuid}/program does
// for an administrator. The error has the API's text.
func (s *Server) ProgramDeployable(ctx context.Context, deployable, imageID string) error {
	return failed(s.program(ctx, deployable, imageID, "", nil), "program")
}

// CreateAttribute adds an attribute to a deployable, as POST attributes does. The error, for an unknown
// deployable, an empty or too long text, has the API's text.
func (s *Server) CreateAttribute(deployable, key, value string) (a StoredAttribute, err error) {
	in := store.Attribute{Deployable: deployable, Key: key, Value: value}
	if key == "" {
		err = store.Refuse(store.Invalid, "the key is empty")
	} else {
		err = in.Check(s.cfg.UpstreamQuirks)
	}
	if err != nil {
		return a, failed(err, "create attribute %s of deployable %s", key, deployable)
	}
	now := s.clock.Now()
	s.db.Update(nil, func(tx store.Tx) {
		if _, err = tx.Deployable(deployable); err == nil {
			in, err = tx.CreateAttribute(in, now)
		}
	})
	if err == nil {
		a = attributeOf(in)
	}
	return a, failed(err, "create attribute %s of deployable %s", key, deployable)
}

// DeleteAttribute deletes an attribute, as DELETE attributes does. The error, for an unknown one, has
// the API's text.
func (s *Server) DeleteAttribute(uuid string) error {
	return failed(s.removeAttribute(context.Background(), uuid), "delete attribute")
}
