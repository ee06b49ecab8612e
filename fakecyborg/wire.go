package fakecyborg

import (
	"strings"
	"time"
)

// stamp is a time as it leaves: UTC, whole seconds, an explicit offset.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05") + "+00:00" }

// stampOrNull is null for a row that was never changed.
func stampOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := stamp(t)
	return &text
}

// textOrNull is null for a field that is not set.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// profileBody is a device profile in a list and after its creation.
type profileBody struct {
	UUID        string  `json:"uuid"`
	Name        string  `json:"name"`
	Description *string `json:"description"`
	Groups      []group `json:"groups"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   *string `json:"updated_at"`
	Links       []link  `json:"links"`
}

func (l links) profile(p *profileRow) profileBody {
	return profileBody{
		UUID: p.uuid, Name: p.name, Description: p.description, Groups: p.groups,
		CreatedAt: stamp(p.created), UpdatedAt: stampOrNull(p.updated), Links: l.self("device_profiles", p.uuid),
	}
}

// oneProfile is a single device profile, which upstream puts together by hand:
// wrapped, other order, other times, and the text None for no time.
type oneProfile struct {
	Name        string  `json:"name"`
	Description *string `json:"description"`
	UUID        string  `json:"uuid"`
	Groups      []group `json:"groups"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	Links       []link  `json:"links"`
}

func (l links) oneProfile(p *profileRow) oneProfile {
	return oneProfile{
		Name: p.name, Description: p.description, UUID: p.uuid, Groups: p.groups,
		CreatedAt: p.created.UTC().Format("2006-01-02 15:04:05") + "+00:00", UpdatedAt: "None",
		Links: l.self("device_profiles", p.uuid),
	}
}

// arqBody is an accelerator request: 14 fields.
type arqBody struct {
	UUID       string  `json:"uuid"`
	State      State   `json:"state"`
	Profile    string  `json:"device_profile_name"`
	Group      int     `json:"device_profile_group_id"`
	Hostname   *string `json:"hostname"`
	Provider   *string `json:"device_rp_uuid"`
	Instance   *string `json:"instance_uuid"`
	Project    *string `json:"project_id"`
	HandleType string  `json:"attach_handle_type"`
	handleUUID
	HandleInfo map[string]string `json:"attach_handle_info"`
	Links      []link            `json:"links"`
	CreatedAt  string            `json:"created_at"`
	UpdatedAt  *string           `json:"updated_at"`
}

// handleUUID is the field that the Zed release does not have.
type handleUUID struct {
	UUID **string `json:"attach_handle_uuid,omitempty"`
}

// arq shows the handle in the state Bound only.
func (l links) arq(a ARQ, zed bool) arqBody {
	body := arqBody{
		UUID: a.UUID, State: a.State, Profile: a.DeviceProfileName, Group: a.DeviceProfileGroupID,
		Hostname: textOrNull(a.Hostname), Provider: textOrNull(a.DeviceRPUUID), Instance: textOrNull(a.InstanceUUID),
		Project: textOrNull(a.ProjectID), HandleInfo: map[string]string{},
		Links:     l.self("accelerator_requests", a.UUID),
		CreatedAt: stamp(a.CreatedAt), UpdatedAt: stampOrNull(a.UpdatedAt),
	}
	var shown *string
	if a.State == StateBound && a.AttachHandleUUID != "" {
		body.HandleType, body.HandleInfo = a.AttachHandleType, a.AttachHandleInfo
		shown = &a.AttachHandleUUID
	}
	if !zed {
		body.handleUUID.UUID = &shown
	}
	return body
}

// deviceBody is a device; the status is shown from 2.3.
type deviceBody struct {
	UUID            string  `json:"uuid"`
	Type            string  `json:"type"`
	Vendor          string  `json:"vendor"`
	Model           string  `json:"model"`
	StdBoardInfo    string  `json:"std_board_info"`
	VendorBoardInfo string  `json:"vendor_board_info"`
	Hostname        string  `json:"hostname"`
	Status          string  `json:"status,omitempty"`
	Links           []link  `json:"links"`
	CreatedAt       string  `json:"created_at"`
	UpdatedAt       *string `json:"updated_at"`
}

// statusMinor is the microversion since which a device shows its status.
const statusMinor = 3

func (l links) device(d *deviceRow, minor int) deviceBody {
	body := deviceBody{
		UUID: d.uuid, Type: d.spec.Type, Vendor: d.spec.Vendor, Model: d.spec.Model,
		StdBoardInfo: d.spec.StdBoardInfo, VendorBoardInfo: d.spec.VendorBoardInfo, Hostname: d.host,
		Links: l.self("devices", d.uuid), CreatedAt: stamp(d.created), UpdatedAt: stampOrNull(d.updated),
	}
	if minor >= statusMinor {
		body.Status = d.status
	}
	return body
}

// deployableBody is a deployable; its attributes are JSON within a string.
type deployableBody struct {
	UUID       string  `json:"uuid"`
	ParentID   *int    `json:"parent_id"`
	RootID     *int    `json:"root_id"`
	Name       string  `json:"name"`
	Total      int     `json:"num_accelerators"`
	DeviceID   int     `json:"device_id"`
	Attributes string  `json:"attributes_list"`
	Provider   string  `json:"rp_uuid"`
	DriverName string  `json:"driver_name"`
	Bitstream  *string `json:"bitstream_id"`
	Links      []link  `json:"links"`
	CreatedAt  string  `json:"created_at"`
	UpdatedAt  *string `json:"updated_at"`
}

func (l links) deployable(d *deployableRow) deployableBody {
	return deployableBody{
		UUID: d.uuid, Name: d.name, Total: d.total, DeviceID: d.device.id, Attributes: attributesText(d.attributes),
		Provider: d.provider, DriverName: d.driverName, Bitstream: textOrNull(d.bitstream),
		Links: append(l.self("deployables", d.uuid),
			link{l.base + "/accelerator/deployables/" + d.uuid, "bookmark"}),
		CreatedAt: stamp(d.created), UpdatedAt: stampOrNull(d.updated),
	}
}

// attributesText is a JSON list of objects of one key each, spaced as Python
// writes it, because people read it in that form.
func attributesText(attributes []*attributeRow) string {
	objects := make([]string, 0, len(attributes))
	for _, a := range attributes {
		objects = append(objects, "{"+jsonText(a.key)+": "+jsonText(a.value)+"}")
	}
	return "[" + strings.Join(objects, ", ") + "]"
}

// attributeBody is an attribute of a deployable.
type attributeBody struct {
	UUID       string  `json:"uuid"`
	Deployable int     `json:"deployable_id"`
	Key        string  `json:"key"`
	Value      string  `json:"value"`
	CreatedAt  string  `json:"created_at"`
	UpdatedAt  *string `json:"updated_at"`
	Links      []link  `json:"links"`
}

func (l links) attribute(a *attributeRow) attributeBody {
	return attributeBody{
		UUID: a.uuid, Deployable: a.deployable.id, Key: a.key, Value: a.value,
		CreatedAt: stamp(a.created), UpdatedAt: stampOrNull(a.updated), Links: l.self("attributes", a.uuid),
	}
}
