package fakecyborg

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/tables"
)

// listArgs reads the query of a list: its own arguments and the filters.
func listArgs(r request, known ...string) (url.Values, listing, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, listing{}, refuse(kindInvalid, "Invalid query string: %v", err)
	}
	l, err := takeFilters(query)
	if err != nil {
		return nil, l, err
	}
	rest := *r.Request
	u := *r.URL
	u.RawQuery, rest.URL = query.Encode(), &u
	r.Request = &rest
	query, err = queryArgs(r, known...)
	l.filtered = l.filtered || len(query) > 0
	return query, l, err
}

func (s *Server) listDevices(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleDeviceList); err != nil {
		return 0, nil, err
	}
	query, l, err := listArgs(r, "type", "vendor", "hostname")
	if err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows := make([]*deviceRow, 0, len(s.state.devices.rows))
	for _, d := range s.state.devices.rows {
		if matches(query, "type", d.spec.Type) && matches(query, "vendor", d.spec.Vendor) && matches(query, "hostname", d.host) {
			rows = append(rows, d)
		}
	}
	if rows, err = arrange(l, rows, deviceKey); err != nil {
		return 0, nil, err
	}
	list := make([]deviceBody, 0, len(rows))
	for _, d := range rows {
		list = append(list, r.links.device(d, r.minor))
	}
	return http.StatusOK, map[string]any{"devices": list}, nil
}

func matches(query url.Values, name, value string) bool {
	return !query.Has(name) || query.Get(name) == value
}

// deviceKey is the text by which devices are sorted.
func deviceKey(d *deviceRow, key string) (string, bool) {
	text, ok := map[string]string{
		"type": d.spec.Type, "vendor": d.spec.Vendor, "model": d.spec.Model, "hostname": d.host, "status": d.status,
		"std_board_info": d.spec.StdBoardInfo, "vendor_board_info": d.spec.VendorBoardInfo,
	}[key]
	return text, ok
}

// findDevice takes any text for a uuid: what is none is not found.
func (s *Server) findDevice(id string) (*deviceRow, error) {
	if d, ok := s.state.devices.get(id); ok {
		return d, nil
	}
	return nil, refuse(kindNotFound, "Device not found with uuid=%s", id)
}

func (s *Server) getDevice(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleDeviceRead); err != nil {
		return 0, nil, err
	}
	if _, err := queryArgs(r); err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, err := s.findDevice(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, r.links.device(d, r.minor), nil
}

func (s *Server) enableDevice(r request) (int, any, error) {
	return http.StatusNoContent, nil, s.setStatus(r, ruleDeviceEnable, StatusEnabled)
}

func (s *Server) disableDevice(r request) (int, any, error) {
	return http.StatusNoContent, nil, s.setStatus(r, ruleDeviceDisable, StatusMaintaining)
}

// setStatus enables or disables a device: Placement hears of it first, so that
// a failure changes nothing. Upstream stores the status first, takes the
// deployable that happens to have the device's number, and loses max_unit.
func (s *Server) setStatus(r request, rule, status string) error {
	if err := s.authorize(r.caller, rule); err != nil {
		return err
	}
	return s.changeStatus(r.Context(), r.PathValue("id"), status)
}

// changeStatus is setStatus without the policy.
func (s *Server) changeStatus(ctx context.Context, id, status string) error {
	s.mu.RLock()
	d, err := s.findDevice(id)
	if err != nil {
		s.mu.RUnlock()
		return err
	}
	s.mu.RUnlock()
	leave, err := s.enterTurn(ctx, d.host) // a report would otherwise meet half of the change
	if err != nil {
		return err
	}
	defer leave()
	if s.cfg.UpstreamQuirks && !s.cfg.flat() { // upstream has no flat hosts, which that would wipe
		return s.setStatusAsUpstream(s.living(ctx), d, status)
	}
	if err := s.reserve(s.life, d, status); err != nil {
		return refuse(kindServer, "Device %s: set status %s: %v", id, status, err)
	}
	s.lock(ctx)
	defer s.unlock()
	s.state.setStatus(d, status, s.clock.Now())
	return nil
}

// setStatus stores the status of a device.
func (st *state) setStatus(d *deviceRow, status string, now time.Time) {
	st.notes.AddSteps("device", d.uuid, "", tables.Step{Name: "status", From: d.status, To: status})
	d.status, d.updated = status, now
}

// reserve tells Placement that the device's inventory is not to be given out,
// or that it is again.
func (s *Server) reserve(ctx context.Context, d *deviceRow, status string) error {
	if s.placement == nil {
		return nil
	}
	s.mu.RLock()
	var wants []providerWant
	for _, part := range d.parts {
		want := s.state.want(part, part.reportedSpec(), "")
		want.reserved = 0
		if status == StatusMaintaining {
			want.reserved = want.total
		}
		wants = append(wants, want)
	}
	s.mu.RUnlock()
	for _, want := range wants {
		if err := s.shape.reserve(ctx, want); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) listDeployables(r request) (int, any, error) {
	if err := s.authorize(r.caller, rulePartList); err != nil {
		return 0, nil, err
	}
	_, l, err := listArgs(r)
	if err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows := slices.Clone(s.state.deployables.rows)
	if l.name != nil {
		rows = slices.DeleteFunc(rows, func(d *deployableRow) bool { return d.name != *l.name })
	}
	if rows, err = arrange(l, rows, deployableKey); err != nil {
		return 0, nil, err
	}
	list := make([]deployableBody, 0, len(rows))
	for _, d := range rows {
		list = append(list, r.links.deployable(d))
	}
	return http.StatusOK, map[string]any{"deployables": list}, nil
}

func deployableKey(d *deployableRow, key string) (string, bool) {
	text, ok := map[string]string{
		"name": d.name, "num_accelerators": number(d.total), "device_id": number(d.device.id), "rp_uuid": d.provider,
		"driver_name": d.driverName, "bitstream_id": d.bitstream, "parent_id": "", "root_id": "",
	}[key]
	return text, ok
}

func (s *Server) findDeployable(id string) (*deployableRow, error) {
	if d, ok := s.state.deployables.get(id); ok {
		return d, nil
	}
	return nil, refuse(kindNotFound, "Deployable not found with uuid=%s", id)
}

func (s *Server) getDeployable(r request) (int, any, error) {
	id := r.PathValue("id")
	if err := checkUUID("uuid", id); err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, rulePartRead); err != nil {
		return 0, nil, err
	}
	if _, err := queryArgs(r); err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, err := s.findDeployable(id)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, r.links.deployable(d), nil
}
