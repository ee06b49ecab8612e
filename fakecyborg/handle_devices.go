package fakecyborg

import (
	"net/http"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func (s *Server) listDevices(c *simhttp.Call) error {
	args, l, err := s.listArguments(c)
	if err != nil {
		return err
	}
	var rows []store.Device
	s.db.View(func(tx store.Tx) {
		for d := range tx.Devices() {
			if s.matches(args, "type", d.Type) && s.matches(args, "vendor", d.Vendor) && s.matches(args, "hostname", d.Host) {
				rows = append(rows, d)
			}
		}
	})
	if rows, err = arrange(l, rows, deviceText); err != nil {
		return err
	}
	links, list := s.links(c), make([]deviceBody, 0, len(rows))
	for _, d := range rows {
		list = append(list, links.device(d, c.Minor))
	}
	return c.JSON(http.StatusOK, map[string]any{"devices": list})
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

func (s *Server) getDevice(c *simhttp.Call) error {
	if _, err := s.arguments(c); err != nil {
		return err
	}
	d, err := store.Find(s.db, func(tx store.Tx) (store.Device, error) { return tx.Device(c.PathValue("id")) })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.links(c).device(d, c.Minor))
}

func (s *Server) enableDevice(c *simhttp.Call) error {
	return s.setStatus(c, StatusEnabled)
}

func (s *Server) disableDevice(c *simhttp.Call) error {
	return s.setStatus(c, StatusMaintaining)
}

func (s *Server) setStatus(c *simhttp.Call, status string) error {
	if _, err := s.arguments(c); err != nil {
		return err
	}
	if err := s.conductor.SetStatus(c.Context(), c.PathValue("id"), status); err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}

func (s *Server) listDeployables(c *simhttp.Call) error {
	_, l, err := s.listArguments(c)
	if err != nil {
		return err
	}
	links, list := s.links(c), []deployableBody{}
	s.db.View(func(tx store.Tx) {
		var rows []store.Deployable
		for d := range tx.Deployables() {
			if name := l["name"]; name == nil || s.equal(d.Name, *name) {
				rows = append(rows, d)
			}
		}
		rows, err = arrange(l, rows, func(d store.Deployable, key string) (string, bool) { return deployableText(tx, d, key) })
		for _, d := range rows {
			list = append(list, links.deployable(tx, d))
		}
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"deployables": list})
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

func (s *Server) getDeployable(c *simhttp.Call) error {
	if err := checkUUID("uuid", c.PathValue("id")); err != nil {
		return err
	}
	if _, err := s.arguments(c); err != nil {
		return err
	}
	return s.answerDeployable(c)
}

// answerDeployable answers with the deployable that the path names.
func (s *Server) answerDeployable(c *simhttp.Call) error {
	body, err := store.Find(s.db, func(tx store.Tx) (deployableBody, error) {
		d, err := tx.Deployable(c.PathValue("id"))
		return s.links(c).deployable(tx, d), err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, body)
}
