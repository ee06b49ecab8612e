package fakecyborg

import (
	"context"
	"fmt"
	"iter"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

// list collects the public views of rows.
func list[R, V any](s *Server, rows func(store.Tx) iter.Seq[R], view func(store.Tx, R) V) []V {
	values := []V{}
	s.db.View(func(tx store.Tx) {
		for row := range rows(tx) {
			values = append(values, view(tx, row))
		}
	})
	return values
}

// ARQs returns the accelerator requests of all projects, oldest first.
func (s *Server) ARQs() []ARQ { return s.arqsOf("") }

// arqsOf lists the requests of an instance, or all.
func (s *Server) arqsOf(instance string) []ARQ {
	list := []ARQ{}
	s.db.View(func(tx store.Tx) {
		view := s.arqView(tx)
		for a := range tx.ARQs(instance, store.Everything()) {
			list = append(list, view(a))
		}
	})
	return list
}

// DeviceProfiles returns the device profiles, oldest first.
func (s *Server) DeviceProfiles() []DeviceProfile {
	return list(s, store.Tx.Profiles, func(_ store.Tx, p store.Profile) DeviceProfile { return profileOf(p) })
}

// CreateDeviceProfile stores a device profile by the rules of the API; the
// error has the API's text.
func (s *Server) CreateDeviceProfile(name string, groups []map[string]string) (DeviceProfile, error) {
	wire := []map[string]any{{"name": name, "groups": groups}}
	in, err := parseProfile([]byte(jsonText(wire)), s.cfg.UpstreamQuirks)
	if err != nil {
		return DeviceProfile{}, fmt.Errorf("fakecyborg: create device profile %s: %w", name, err)
	}
	p, err := s.storeProfile(context.Background(), in)
	if err != nil {
		return DeviceProfile{}, fmt.Errorf("fakecyborg: create device profile %s: %w", name, err)
	}
	return profileOf(p), nil
}

// Devices returns the devices of all hosts in the order in which they were
// stored.
func (s *Server) Devices() []Device {
	return list(s, store.Tx.Devices, func(_ store.Tx, d store.Device) Device { return deviceOf(d) })
}

// Deployables returns the deployables of all devices.
func (s *Server) Deployables() []Deployable { return list(s, store.Tx.Deployables, deployableOf) }

// AttachHandles returns the attach handles of all deployables, lowest first.
func (s *Server) AttachHandles() []AttachHandle { return list(s, store.Tx.AllHandles, handleOf) }

// Attributes returns the attributes of all deployables, oldest first.
func (s *Server) Attributes() []Attribute {
	return list(s, store.Tx.AllAttributes, func(_ store.Tx, a store.Attribute) Attribute { return attributeOf(a) })
}

// Events returns the newest events that the server had for Nova, oldest first,
// whether or not a Nova is there and took them.
func (s *Server) Events() []sim.Event {
	return list(s, store.Tx.Events, func(_ store.Tx, e store.Event) sim.Event { return e.Event })
}

// DriverReports returns what each driver of each host found last, by host and
// then in the order of the drivers. Devices left out and problems are in no
// other list. Errors are texts.
func (s *Server) DriverReports() []driver.HostReport { return s.conductor.DriverReports() }
