package fakecyborg

import (
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
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

// groupBody is a group of a device profile: an object in the group's order.
type groupBody store.Group

func groupBodies(groups []store.Group) []groupBody {
	bodies := make([]groupBody, len(groups))
	for i, g := range groups {
		bodies[i] = groupBody(g)
	}
	return bodies
}

// MarshalJSON implements json.Marshaler.
func (g groupBody) MarshalJSON() ([]byte, error) {
	members := make([]string, len(g))
	for i, item := range g {
		members[i] = jsonText(item.Key) + ":" + jsonText(item.Value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// profileBody is a device profile in a list and after its creation.
type profileBody struct {
	UUID        string      `json:"uuid"`
	Name        string      `json:"name"`
	Description *string     `json:"description"`
	Groups      []groupBody `json:"groups"`
	CreatedAt   string      `json:"created_at"`
	UpdatedAt   *string     `json:"updated_at"`
	Links       []link      `json:"links"`
}

func (l links) profile(p store.Profile) profileBody {
	return profileBody{
		UUID: p.UUID, Name: p.Name, Description: p.Description, Groups: groupBodies(p.Groups),
		CreatedAt: stamp(p.CreatedAt), Links: l.self("device_profiles", p.UUID),
	}
}

// oneProfile is a single device profile, which upstream puts together by hand:
// wrapped, other order, other times, and the text None for no time.
type oneProfile struct {
	Name        string      `json:"name"`
	Description *string     `json:"description"`
	UUID        string      `json:"uuid"`
	Groups      []groupBody `json:"groups"`
	CreatedAt   string      `json:"created_at"`
	UpdatedAt   string      `json:"updated_at"`
	Links       []link      `json:"links"`
}

func (l links) oneProfile(p store.Profile) oneProfile {
	return oneProfile{
		Name: p.Name, Description: p.Description, UUID: p.UUID, Groups: groupBodies(p.Groups),
		CreatedAt: p.CreatedAt.UTC().Format("2006-01-02 15:04:05") + "+00:00", UpdatedAt: "None",
		Links: l.self("device_profiles", p.UUID),
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

func (l links) device(d store.Device, minor int) deviceBody {
	body := deviceBody{
		UUID: d.UUID, Type: d.Type, Vendor: d.Vendor, Model: d.Model,
		StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo, Hostname: d.Host,
		Links: l.self("devices", d.UUID), CreatedAt: stamp(d.CreatedAt), UpdatedAt: stampOrNull(d.UpdatedAt),
	}
	if minor >= statusMinor {
		body.Status = d.Status
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
	DeviceID   int64   `json:"device_id"`
	Attributes string  `json:"attributes_list"`
	Provider   string  `json:"rp_uuid"`
	DriverName string  `json:"driver_name"`
	Bitstream  *string `json:"bitstream_id"`
	Links      []link  `json:"links"`
	CreatedAt  string  `json:"created_at"`
	UpdatedAt  *string `json:"updated_at"`
}

func (l links) deployable(tx store.Tx, d store.Deployable) deployableBody {
	device, _ := tx.Device(d.Device)
	return deployableBody{
		UUID: d.UUID, Name: d.Name, Total: d.Total, DeviceID: device.ID, Attributes: attributesText(tx.Attributes(d.UUID)),
		Provider: d.Provider, DriverName: d.DriverName, Bitstream: textOrNull(d.Bitstream),
		Links: append(l.self("deployables", d.UUID),
			link{l.base + "/accelerator/deployables/" + d.UUID, "bookmark"}),
		CreatedAt: stamp(d.CreatedAt), UpdatedAt: stampOrNull(d.UpdatedAt),
	}
}

// attributesText is a JSON list of objects of one key each, spaced as Python
// writes it, because people read it in that form.
func attributesText(attributes []store.Attribute) string {
	objects := make([]string, 0, len(attributes))
	for _, a := range attributes {
		objects = append(objects, "{"+jsonText(a.Key)+": "+jsonText(a.Value)+"}")
	}
	return "[" + strings.Join(objects, ", ") + "]"
}

// attributeBody is an attribute of a deployable.
type attributeBody struct {
	UUID       string  `json:"uuid"`
	Deployable int64   `json:"deployable_id"`
	Key        string  `json:"key"`
	Value      string  `json:"value"`
	CreatedAt  string  `json:"created_at"`
	UpdatedAt  *string `json:"updated_at"`
	Links      []link  `json:"links"`
}

func (l links) attribute(tx store.Tx, a store.Attribute) attributeBody {
	d, _ := tx.Deployable(a.Deployable)
	return attributeBody{
		UUID: a.UUID, Deployable: d.ID, Key: a.Key, Value: a.Value,
		CreatedAt: stamp(a.CreatedAt), UpdatedAt: stampOrNull(a.UpdatedAt), Links: l.self("attributes", a.UUID),
	}
}
