package driver

import (
	"encoding/json"
	"fmt"

	"github.com/gocyborg/gocyborg/internal/pythonjson"
)

// driverDevice, driverDeployable and driverHandle are upstream's objects DriverDevice,
// DriverDeployable and DriverAttachHandle (cyborg/objects/driver_objects).
type driverDevice struct {
	Vendor          string             `json:"vendor"`
	Model           string             `json:"model"`
	Type            string             `json:"type"`
	StdBoardInfo    string             `json:"std_board_info"`
	VendorBoardInfo string             `json:"vendor_board_info"`
	Stub            bool               `json:"stub"`
	ControlPath     driverControlPath  `json:"controlpath_id"`
	Deployables     []driverDeployable `json:"deployable_list"`
}

type driverControlPath struct {
	Type string `json:"cpid_type"`
	Info string `json:"cpid_info"`
}

type driverDeployable struct {
	Name            string         `json:"name"`
	NumAccelerators int            `json:"num_accelerators"`
	DriverName      string         `json:"driver_name"`
	Attributes      []Attribute    `json:"attribute_list"`
	AttachHandles   []driverHandle `json:"attach_handle_list"`
}

type driverHandle struct {
	Type  string `json:"attach_type"`
	Info  string `json:"attach_info"`
	InUse bool   `json:"in_use"`
}

// MarshalObjects returns devices as upstream's drivers report them: a JSON list of DriverDevice objects
// with all their fields, class and traits among the attributes, and the information of control paths and
// handles as the text that upstream's drivers make of it. Decoding a []Device reads it.
// Programmable and Resources are omitted: upstream has no fields for them.
func MarshalObjects(devices []Device) ([]byte, error) {
	list := make([]driverDevice, 0, len(devices))
	for _, d := range devices {
		object := driverDevice{
			Vendor: d.Vendor, Model: d.Model, Type: d.Type, StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo, Stub: d.Stub,
			ControlPath: driverControlPath{d.ControlPath.Type, pythonjson.Object(d.ControlPath.Info)}, Deployables: []driverDeployable{},
		}
		for _, p := range d.Deployables {
			part := driverDeployable{
				Name: p.Name, NumAccelerators: p.NumAccelerators, DriverName: p.DriverName, Attributes: p.AttributeList(), AttachHandles: []driverHandle{},
			}
			for _, h := range p.AttachHandles {
				part.AttachHandles = append(part.AttachHandles, driverHandle{h.Type, pythonjson.Object(h.Info), h.InUse})
			}
			object.Deployables = append(object.Deployables, part)
		}
		list = append(list, object)
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("driver: marshal objects: %w", err)
	}
	return append(text, '\n'), nil
}
