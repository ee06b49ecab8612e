package fakecyborg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ARQs returns the accelerator requests of all projects, oldest first.
func (s *Server) ARQs() []ARQ {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]ARQ, 0, len(s.state.arqs.rows))
	for _, a := range s.state.arqs.rows {
		list = append(list, a.value())
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
	p, err := s.storeProfile(in)
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
			Hostname: h.deployable.device.host, Type: h.spec.Type, Info: cloneInfo(h.spec.Info), InUse: h.taken,
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

// TB is the part of testing.TB that the Check methods need.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// CheckARQs fails the test unless the instance has exactly n accelerator
// requests, in whatever state.
func (s *Server) CheckARQs(t TB, instance string, n int) {
	t.Helper()
	if have := s.arqsOfInstance(instance); len(have) != n {
		t.Errorf("instance %s has %d accelerator requests, want %d\n%s", instance, len(have), n, arqTree(s.ARQs()))
	}
}

// CheckBound fails the test unless the instance has exactly n accelerator
// requests and each is Bound and holds an attach handle.
func (s *Server) CheckBound(t TB, instance string, n int) {
	t.Helper()
	have := s.arqsOfInstance(instance)
	bound := 0
	for _, a := range have {
		if a.State == StateBound && a.AttachHandleUUID != "" {
			bound++
		}
	}
	if len(have) != n || bound != n {
		t.Errorf("instance %s has %d accelerator requests, %d of them Bound; want %d\n%s", instance, len(have), bound, n, arqTree(s.ARQs()))
	}
}

func (s *Server) arqsOfInstance(instance string) []ARQ {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []ARQ
	if instance == "" {
		return nil
	}
	for _, a := range s.state.arqsOf(instance, scope{all: true}) {
		list = append(list, a.value())
	}
	return list
}

// arqTree prints all requests by instance.
func arqTree(arqs []ARQ) string {
	byInstance := make(map[string][]ARQ)
	for _, a := range arqs {
		byInstance[a.InstanceUUID] = append(byInstance[a.InstanceUUID], a)
	}
	var b strings.Builder
	for _, instance := range slices.Sorted(maps.Keys(byInstance)) {
		title := "instance " + instance
		if instance == "" {
			title = "no instance"
		}
		fmt.Fprintln(&b, title)
		for _, a := range byInstance[instance] {
			fmt.Fprintf(&b, "  ARQ %s %s, profile %s group %d", a.UUID, a.State, a.DeviceProfileName, a.DeviceProfileGroupID)
			if a.DeviceRPUUID != "" {
				fmt.Fprintf(&b, ", host %s, provider %s", a.Hostname, a.DeviceRPUUID)
			}
			if a.AttachHandleUUID != "" {
				fmt.Fprintf(&b, ", %s handle %s", a.AttachHandleType, a.AttachHandleUUID)
			}
			fmt.Fprintln(&b)
		}
	}
	if b.Len() == 0 {
		return "there are no accelerator requests"
	}
	return b.String()
}
