package cyborgclient

import (
	"encoding/json"
	"time"
)

// State is the state of an accelerator request. Values that this package does
// not know are kept as they came.
type State string

// States of an accelerator request (cyborg/common/constants.py). Upstream
// never writes Deleting and cannot store UnbindFailed, yet both are in its
// enumeration and clients are expected to know them.
const (
	StateInitial      State = "Initial"
	StateBindStarted  State = "BindStarted"
	StateBound        State = "Bound"
	StateUnbound      State = "Unbound"
	StateBindFailed   State = "BindFailed"
	StateUnbindFailed State = "UnbindFailed"
	StateDeleting     State = "Deleting"
)

// Known reports whether s is one of the states that Cyborg documents.
func (s State) Known() bool {
	switch s {
	case StateInitial, StateBindStarted, StateBound, StateUnbound,
		StateBindFailed, StateUnbindFailed, StateDeleting:
		return true
	}
	return false
}

// Resolved reports whether a bind has come to an end: Bound, BindFailed or
// Deleting. It is the set that Nova filters on and that Cyborg's
// bind_state=resolved means; it does not mean that the bind succeeded.
func (s State) Resolved() bool {
	switch s {
	case StateBound, StateBindFailed, StateDeleting:
		return true
	}
	return false
}

// HandleType says what the attach handle of a Bound request is. Values that
// this package does not know are kept as they came.
type HandleType string

// Attach handle types that Cyborg can store.
const (
	HandlePCI     HandleType = "PCI"      // a PCI function; the address is in the info
	HandleMDEV    HandleType = "MDEV"     // a mediated device; its UUID is the handle's UUID
	HandleTestPCI HandleType = "TEST_PCI" // the fake driver's; never attached
)

// Known reports whether t is one of the types that Cyborg can store.
func (t HandleType) Known() bool {
	switch t {
	case HandlePCI, HandleMDEV, HandleTestPCI:
		return true
	}
	return false
}

// Link is one entry of a resource's links. Cyborg always writes the path
// /accelerator/v2/... whatever URL the client used, so this package never
// follows a link.
type Link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// DeviceProfile is a named list of groups, each asking for resources and
// traits. The index of a group is the DeviceProfileGroupID of the accelerator
// requests made from it.
type DeviceProfile struct {
	UUID        string              `json:"uuid"`
	Name        string              `json:"name"`
	Description *string             `json:"description"` // nil when none was given
	Groups      []map[string]string `json:"groups"`
	CreatedAt   *time.Time          `json:"created_at"`
	UpdatedAt   *time.Time          `json:"updated_at"` // nil until the first update
	Links       []Link              `json:"links"`
}

// UnmarshalJSON reads both forms that Cyborg writes: the one of POST and of
// lists, and the one of GET by id, whose times have a blank for the T and
// whose updated_at is the text "None".
func (p *DeviceProfile) UnmarshalJSON(data []byte) error {
	type plain DeviceProfile
	wire := struct {
		*plain
		Groups    []group   `json:"groups"`
		CreatedAt timestamp `json:"created_at"`
		UpdatedAt timestamp `json:"updated_at"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	p.Groups = plainGroups(wire.Groups)
	p.CreatedAt, p.UpdatedAt = wire.CreatedAt.time, wire.UpdatedAt.time
	return nil
}

// NoGroup is the DeviceProfileGroupID of an accelerator request for which the
// server named no group.
const NoGroup = -1

// ARQ is an accelerator request: one device for one instance.
//
// The three attach handle fields are filled only while State is Bound, and a
// binding (Hostname, DeviceRPUUID, InstanceUUID) only from BindStarted on;
// otherwise they are empty.
type ARQ struct {
	UUID                 string     `json:"uuid"`
	State                State      `json:"state"`
	DeviceProfileName    string     `json:"device_profile_name"`
	DeviceProfileGroupID int        `json:"device_profile_group_id"` // NoGroup when the server named none
	Hostname             string     `json:"hostname"`
	DeviceRPUUID         string     `json:"device_rp_uuid"`
	InstanceUUID         string     `json:"instance_uuid"`
	ProjectID            string     `json:"project_id"`
	AttachHandleType     HandleType `json:"attach_handle_type"`
	AttachHandleUUID     string     `json:"attach_handle_uuid"` // absent before 2023
	// AttachHandleInfo holds text for every handle that Cyborg makes; numbers,
	// should a driver send them, arrive as float64.
	AttachHandleInfo map[string]any `json:"attach_handle_info"`
	Links            []Link         `json:"links"`
	CreatedAt        *time.Time     `json:"created_at"`
	UpdatedAt        *time.Time     `json:"updated_at"`
}

// UnmarshalJSON accepts the group as a number or as text, null for any text
// field, and both forms of times.
func (a *ARQ) UnmarshalJSON(data []byte) error {
	type plain ARQ
	wire := struct {
		*plain
		Group     groupID   `json:"device_profile_group_id"`
		CreatedAt timestamp `json:"created_at"`
		UpdatedAt timestamp `json:"updated_at"`
	}{plain: (*plain)(a), Group: NoGroup}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	a.DeviceProfileGroupID = int(wire.Group)
	a.CreatedAt, a.UpdatedAt = wire.CreatedAt.time, wire.UpdatedAt.time
	return nil
}

// DeviceStatus is the administrative status of a device. Values that this
// package does not know are kept as they came.
type DeviceStatus string

// Statuses of a device.
const (
	DeviceEnabled     DeviceStatus = "enabled"
	DeviceMaintaining DeviceStatus = "maintaining" // after DisableDevice
)

// Known reports whether s is one of the statuses that Cyborg documents.
func (s DeviceStatus) Known() bool { return s == DeviceEnabled || s == DeviceMaintaining }

// Device is a piece of hardware on a host.
type Device struct {
	UUID            string `json:"uuid"`
	Type            string `json:"type"` // GPU, FPGA, AICHIP, QAT, NIC, SSD
	Vendor          string `json:"vendor"`
	Model           string `json:"model"`
	StdBoardInfo    string `json:"std_board_info"`    // JSON text or plain text, as the driver wrote it
	VendorBoardInfo string `json:"vendor_board_info"` // likewise
	Hostname        string `json:"hostname"`
	// Status is from 2.3; empty below.
	Status    DeviceStatus `json:"status,omitempty"`
	Links     []Link       `json:"links"`
	CreatedAt *time.Time   `json:"created_at"`
	UpdatedAt *time.Time   `json:"updated_at"`
}

// UnmarshalJSON accepts both forms of times.
func (d *Device) UnmarshalJSON(data []byte) error {
	type plain Device
	return decodeTimed(data, (*plain)(d))
}

// Deployable is a part of a device that Placement knows as one resource
// provider.
type Deployable struct {
	UUID            string `json:"uuid"`
	ParentID        *int   `json:"parent_id"`
	RootID          *int   `json:"root_id"`
	Name            string `json:"name"` // also the name of the resource provider
	NumAccelerators int    `json:"num_accelerators"`
	// DeviceID is the device's primary key. No call shows it on the device
	// itself, so the two can only be joined by name.
	DeviceID int `json:"device_id"`
	// AttributesList is JSON text: a list of one-key objects. See Pairs.
	AttributesList string     `json:"attributes_list"`
	RPUUID         string     `json:"rp_uuid"`
	DriverName     string     `json:"driver_name"`
	BitstreamID    *string    `json:"bitstream_id"`
	Links          []Link     `json:"links"`
	CreatedAt      *time.Time `json:"created_at"`
	UpdatedAt      *time.Time `json:"updated_at"`
}

// UnmarshalJSON accepts both forms of times.
func (d *Deployable) UnmarshalJSON(data []byte) error {
	type plain Deployable
	return decodeTimed(data, (*plain)(d))
}

// Pair is one key and value of a deployable's attributes.
type Pair struct{ Key, Value string }

// Attribute is a key and a value of a deployable, such as its resource class
// ("rc") or one of its traits ("trait0").
type Attribute struct {
	UUID         string     `json:"uuid"`
	DeployableID int        `json:"deployable_id"` // primary key of the deployable
	Key          string     `json:"key"`
	Value        string     `json:"value"`
	Links        []Link     `json:"links"`
	CreatedAt    *time.Time `json:"created_at"`
	UpdatedAt    *time.Time `json:"updated_at"`
}

// UnmarshalJSON accepts both forms of times.
func (a *Attribute) UnmarshalJSON(data []byte) error {
	type plain Attribute
	return decodeTimed(data, (*plain)(a))
}

// APIVersion is Cyborg's version document.
type APIVersion struct {
	ID         string `json:"id"` // "v2.0"
	Status     string `json:"status"`
	MinVersion string `json:"min_version"` // lowest microversion, "2.0"
	MaxVersion string `json:"max_version"` // highest microversion, "2.3"
	Links      []Link `json:"links"`
}
