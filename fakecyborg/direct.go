package fakecyborg

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// ARQs returns the accelerator requests of all projects, oldest first.
func (s *Server) ARQs() []ARQ {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]ARQ, 0, len(s.state.arqs.rows))
	view := s.view()
	for _, a := range s.state.arqs.rows {
		list = append(list, view(a))
	}
	return list
}

// DeviceProfiles returns the device profiles, oldest first.
func (s *Server) DeviceProfiles() []DeviceProfile {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]DeviceProfile, 0, len(s.state.profiles.rows))
	for _, p := range s.state.profiles.rows {
		list = append(list, p.value())
	}
	return list
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
	return p.value(), nil
}

// Devices returns the devices of all hosts in the order in which they were
// stored.
func (s *Server) Devices() []Device {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Device, 0, len(s.state.devices.rows))
	for _, d := range s.state.devices.rows {
		spec := d.spec.Clone()
		list = append(list, Device{
			ID: d.id, UUID: d.uuid, Hostname: d.host, Type: spec.Type, Vendor: spec.Vendor, Model: spec.Model,
			StdBoardInfo: spec.StdBoardInfo, VendorBoardInfo: spec.VendorBoardInfo,
			Status: d.status, Driver: d.source, ControlPath: spec.ControlPath,
		})
	}
	return list
}

// Deployables returns the deployables of all devices.
func (s *Server) Deployables() []Deployable {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Deployable, 0, len(s.state.deployables.rows))
	for _, d := range s.state.deployables.rows {
		list = append(list, Deployable{
			ID: d.id, UUID: d.uuid, Name: d.name, DeviceID: d.device.id, DeviceUUID: d.device.uuid,
			Hostname: d.device.host, ProviderUUID: d.provider, NumAccelerators: d.total, DriverName: d.driverName,
			BitstreamID: d.bitstream, Attributes: d.attributesOf(),
		})
	}
	return list
}

// AttachHandles returns the attach handles of all deployables, lowest first.
func (s *Server) AttachHandles() []AttachHandle {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]AttachHandle, 0, len(s.state.handles.rows))
	for _, h := range s.state.handles.rows {
		v := AttachHandle{
			UUID: h.uuid, DeployableUUID: h.deployable.uuid, ProviderUUID: h.deployable.provider,
			Hostname: h.deployable.device.host, Type: h.kind, Info: h.info.info(), InUse: h.taken,
		}
		if h.arq != nil {
			v.ARQ = h.arq.uuid
		}
		list = append(list, v)
	}
	return list
}

// DriverReports returns what each driver of each host found last, by host and
// then in the order of the drivers. Devices left out and problems are told here
// and nowhere else.
func (s *Server) DriverReports() []DriverReport {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []DriverReport
	for _, host := range slices.Sorted(maps.Keys(s.reports)) {
		for _, report := range s.reports[host] {
			report.LeftOut, report.Problems = slices.Clone(report.LeftOut), slices.Clone(report.Problems)
			list = append(list, report)
		}
	}
	return list
}
