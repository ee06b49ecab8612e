package fakecyborg

import (
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/pythonjson"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// stamp is a time as it leaves: UTC, whole seconds, an explicit offset.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05") + "+00:00" }

// stampOfNew is the time of an attribute in the answer to its creation, which upstream has not yet read from its database:
// with microseconds, unless they are 0.
func stampOfNew(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return stamp(t)
	}
	return t.Format("2006-01-02T15:04:05.000000") + "+00:00"
}

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

// arqWriter writes accelerator requests, which come by the ten thousand, without a value in
// between.
type arqWriter struct {
	href   string // of all requests, an unfinished JSON text
	uuid   bool   // of the handle is shown
	handle func(uuid string) (shownHandle, bool)
}

// shownHandle is what a request shows of its attach handle.
type shownHandle struct {
	kind string
	info store.Info
}

// arqs returns a writer of about a number of requests.
func (l links) arqs(tx store.Tx, handleUUID bool, count int) arqWriter {
	w := arqWriter{href: strings.TrimSuffix(jsonText(l.base+"/accelerator/v2/accelerator_requests/"), `"`), uuid: handleUUID}
	if count > tx.CountHandles()/handlesPerLookup {
		held := make(map[string]shownHandle, count)
		for h := range tx.AllHandles() {
			if h.InUse() {
				held[h.UUID] = shownHandle{h.Type, h.Info}
			}
		}
		w.handle = func(uuid string) (h shownHandle, ok bool) { h, ok = held[uuid]; return h, ok }
		return w
	}
	w.handle = func(uuid string) (shownHandle, bool) {
		h, ok := tx.Handle(uuid)
		return shownHandle{h.Type, h.Info}, ok
	}
	return w
}

// handlesPerLookup is about how many handles are read in the time that the search for one takes.
const handlesPerLookup = 8

// append writes a request that shows a state: 14 fields, the UUID of the handle being optional.
// The handle is shown in the state Bound only.
func (w arqWriter) append(b []byte, a store.ARQ, state string) []byte {
	handle, bound := shownHandle{info: "{}"}, false
	if state == store.Bound && a.Handle != "" {
		if held, ok := w.handle(a.Handle); ok {
			handle, bound = held, true
		}
	}
	b = simhttp.AppendText(append(b, `{"uuid":`...), a.UUID)
	b = simhttp.AppendText(append(b, `,"state":`...), state)
	b = simhttp.AppendText(append(b, `,"device_profile_name":`...), a.Profile)
	b = strconv.AppendInt(append(b, `,"device_profile_group_id":`...), int64(a.Group), 10)
	b = appendTextOrNull(append(b, `,"hostname":`...), a.Host)
	b = appendTextOrNull(append(b, `,"device_rp_uuid":`...), a.Provider)
	b = appendTextOrNull(append(b, `,"instance_uuid":`...), a.Instance)
	b = appendTextOrNull(append(b, `,"project_id":`...), a.Project)
	b = simhttp.AppendText(append(b, `,"attach_handle_type":`...), handle.kind)
	if w.uuid {
		b = append(b, `,"attach_handle_uuid":`...)
		if bound {
			b = simhttp.AppendText(b, a.Handle)
		} else {
			b = append(b, "null"...)
		}
	}
	b = append(append(b, `,"attach_handle_info":`...), handle.info...)
	b = append(append(b, `,"links":[{"href":`...), w.href...)
	b = append(append(b, a.UUID...), `","rel":"self"}],"created_at":`...)
	b = appendStamp(b, a.CreatedAt)
	b = append(b, `,"updated_at":`...)
	if a.UpdatedAt.IsZero() {
		return append(b, "null}"...)
	}
	return append(appendStamp(b, a.UpdatedAt), '}')
}

// appendStamp writes what stamp returns. [time.RFC3339] is the layout that [time] formats fast.
func appendStamp(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(append(b, '"'), time.RFC3339)
	return append(b[:len(b)-len("Z")], `+00:00"`...)
}

func appendTextOrNull(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return simhttp.AppendText(b, text)
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

// attributesText is a JSON list of objects of one key each, as Python writes it, because people read it in that form.
func attributesText(attributes []store.Attribute) string {
	objects := make([]string, 0, len(attributes))
	for _, a := range attributes {
		objects = append(objects, pythonjson.Object(map[string]string{a.Key: a.Value}))
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
