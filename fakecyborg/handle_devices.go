package fakecyborg

import (
	"net/http"
	"net/url"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// listArgs reads the query of a list: its own arguments and the filters.
func listArgs(r request, known ...string) (url.Values, listing, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, listing{}, store.Refuse(store.Invalid, "Invalid query string: %v", err)
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
	var rows []store.Device
	s.db.View(func(tx store.Tx) {
		for d := range tx.Devices() {
			if matches(query, "type", d.Type) && matches(query, "vendor", d.Vendor) && matches(query, "hostname", d.Host) {
				rows = append(rows, d)
			}
		}
	})
	if rows, err = arrange(l, rows, deviceText); err != nil {
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

// deviceText is the text by which devices are sorted.
func deviceText(d store.Device, key string) (string, bool) {
	text, ok := map[string]string{
		"id": number(d.ID), "uuid": d.UUID, "created_at": stamp(d.CreatedAt), "updated_at": stamp(d.UpdatedAt),
		"type": d.Type, "vendor": d.Vendor, "model": d.Model, "hostname": d.Host, "status": d.Status,
		"std_board_info": d.StdBoardInfo, "vendor_board_info": d.VendorBoardInfo,
	}[key]
	return text, ok
}

func (s *Server) getDevice(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleDeviceRead); err != nil {
		return 0, nil, err
	}
	if _, err := queryArgs(r); err != nil {
		return 0, nil, err
	}
	var d store.Device
	var err error
	s.db.View(func(tx store.Tx) { d, err = tx.Device(r.PathValue("id")) })
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

func (s *Server) setStatus(r request, rule, status string) error {
	if err := s.authorize(r.caller, rule); err != nil {
		return err
	}
	return s.conductor.SetStatus(r.Context(), r.PathValue("id"), status)
}

func (s *Server) listDeployables(r request) (int, any, error) {
	if err := s.authorize(r.caller, rulePartList); err != nil {
		return 0, nil, err
	}
	_, l, err := listArgs(r)
	if err != nil {
		return 0, nil, err
	}
	list := []deployableBody{}
	s.db.View(func(tx store.Tx) {
		var rows []store.Deployable
		for d := range tx.Deployables() {
			if l.name == nil || d.Name == *l.name {
				rows = append(rows, d)
			}
		}
		text := func(d store.Deployable, key string) (string, bool) { return deployableText(tx, d, key) }
		if rows, err = arrange(l, rows, text); err != nil {
			return
		}
		for _, d := range rows {
			list = append(list, r.links.deployable(tx, d))
		}
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"deployables": list}, nil
}

// deployableText is the text by which deployables are sorted.
func deployableText(tx store.Tx, d store.Deployable, key string) (string, bool) {
	if key == "device_id" {
		device, _ := tx.Device(d.Device)
		return number(device.ID), true
	}
	text, ok := map[string]string{
		"id": number(d.ID), "uuid": d.UUID, "created_at": stamp(d.CreatedAt), "updated_at": stamp(d.UpdatedAt),
		"name": d.Name, "num_accelerators": number(d.Total), "rp_uuid": d.Provider,
		"driver_name": d.DriverName, "bitstream_id": d.Bitstream, "parent_id": "", "root_id": "",
	}[key]
	return text, ok
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
	body, err := s.deployableBody(r, id)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, body, nil
}

func (s *Server) deployableBody(r request, id string) (body deployableBody, err error) {
	s.db.View(func(tx store.Tx) {
		var d store.Deployable
		if d, err = tx.Deployable(id); err == nil {
			body = r.links.deployable(tx, d)
		}
	})
	return body, err
}
