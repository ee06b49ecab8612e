package cyborgclient

import "encoding/json"

// State is the state of an accelerator request. Unknown values are preserved.
type State string

// States of an accelerator request (cyborg/common/constants.py). Upstream never
// writes Deleting and cannot store UnbindFailed, but both are in its enumeration.
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

// Resolved reports whether a bind has ended, successfully or not: Bound,
// BindFailed or Deleting. Nova filters by this set, and Cyborg's
// bind_state=resolved means it.
func (s State) Resolved() bool {
	switch s {
	case StateBound, StateBindFailed, StateDeleting:
		return true
	}
	return false
}

// HandleType is the type of the attach handle of a Bound request. Unknown values
// are preserved.
type HandleType string

// Attach handle types that Cyborg can store.
const (
	HandlePCI     HandleType = "PCI"      // a PCI function; the address is in the info
	HandleMDEV    HandleType = "MDEV"     // a mediated device; its UUID is the handle's UUID
	HandleTestPCI HandleType = "TEST_PCI" // of the fake driver; never attached
)

// DeviceProfile is a named list of groups of resources and traits. The index of a
// group is the DeviceProfileGroupID of the accelerator requests made from it.
type DeviceProfile struct {
	UUID        string              `json:"uuid"`
	Name        string              `json:"name"`
	Description *string             `json:"description"` // nil when none was given
	Groups      []map[string]string `json:"groups"`
	CreatedAt   Time                `json:"created_at,omitzero"`
	UpdatedAt   Time                `json:"updated_at,omitzero"` // zero until the first update
}

// UnmarshalJSON accepts any scalar as the value of a group.
func (p *DeviceProfile) UnmarshalJSON(data []byte) error {
	wire := wireProfile{plainProfile: plainProfile(*p)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*p = wire.profile()
	return nil
}

// ARQ is an accelerator request: one device for one instance.
//
// The attach handle fields are set only while State is Bound. The binding fields (Hostname,
// DeviceRPUUID, InstanceUUID) are set from BindStarted on.
type ARQ struct {
	UUID                 string     `json:"uuid"`
	State                State      `json:"state"`
	DeviceProfileName    string     `json:"device_profile_name"`
	DeviceProfileGroupID int        `json:"device_profile_group_id"` // -1 without a group
	Hostname             string     `json:"hostname"`
	DeviceRPUUID         string     `json:"device_rp_uuid"`
	InstanceUUID         string     `json:"instance_uuid"`
	ProjectID            string     `json:"project_id"`
	AttachHandleType     HandleType `json:"attach_handle_type"`
	AttachHandleUUID     string     `json:"attach_handle_uuid"` // absent before 2023
	// AttachHandleInfo has strings for every handle that Cyborg makes; a number
	// would be a float64.
	AttachHandleInfo map[string]any `json:"attach_handle_info"`
	CreatedAt        Time           `json:"created_at,omitzero"`
	UpdatedAt        Time           `json:"updated_at,omitzero"`
}

// UnmarshalJSON accepts the group as a number or as a string.
func (a *ARQ) UnmarshalJSON(data []byte) error {
	wire := wireARQ{plainARQ: plainARQ(*a)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*a = wire.arq()
	return nil
}

// DeviceStatus is the administrative status of a device. Unknown values are
// preserved.
type DeviceStatus string

// Statuses of a device.
const (
	DeviceEnabled     DeviceStatus = "enabled"
	DeviceMaintaining DeviceStatus = "maintaining" // after DisableDevice
)

// Device is a piece of hardware on a host.
type Device struct {
	UUID            string `json:"uuid"`
	Type            string `json:"type"` // GPU, FPGA, AICHIP, QAT, NIC, SSD, MDEV, PCI, NVME
	Vendor          string `json:"vendor"`
	Model           string `json:"model"`
	StdBoardInfo    string `json:"std_board_info"`    // JSON or plain text of the driver
	VendorBoardInfo string `json:"vendor_board_info"` // also
	Hostname        string `json:"hostname"`
	// From 2.3: Status; empty below.
	Status    DeviceStatus `json:"status,omitempty"`
	CreatedAt Time         `json:"created_at,omitzero"`
	UpdatedAt Time         `json:"updated_at,omitzero"`
}

// Deployable is a part of a device. It is one resource provider in Placement.
type Deployable struct {
	UUID            string `json:"uuid"`
	ParentID        *int   `json:"parent_id"`
	RootID          *int   `json:"root_id"`
	Name            string `json:"name"` // also the name of the resource provider
	NumAccelerators int    `json:"num_accelerators"`
	// DeviceID is the device's primary key. The device itself does not show it, so
	// the two can only be joined by name.
	DeviceID int `json:"device_id"`
	// AttributesList is JSON text: a list of one-key objects. See Attributes.
	AttributesList string  `json:"attributes_list"`
	RPUUID         string  `json:"rp_uuid"`
	DriverName     string  `json:"driver_name"`
	BitstreamID    *string `json:"bitstream_id"`
	CreatedAt      Time    `json:"created_at,omitzero"`
	UpdatedAt      Time    `json:"updated_at,omitzero"`
}

// Attribute is a key and a value of a deployable, such as its resource class
// ("rc") or one of its traits ("trait0"). Deployable.Attributes sets no other field.
type Attribute struct {
	UUID         string `json:"uuid"`
	DeployableID int    `json:"deployable_id"` // primary key of the deployable
	Key          string `json:"key"`
	Value        string `json:"value"`
	CreatedAt    Time   `json:"created_at,omitzero"`
	UpdatedAt    Time   `json:"updated_at,omitzero"`
}

// APIVersion is Cyborg's version document.
type APIVersion struct {
	ID         string `json:"id"` // "v2.0"
	Status     string `json:"status"`
	MinVersion string `json:"min_version"` // lowest microversion, "2.0"
	MaxVersion string `json:"max_version"` // highest microversion, "2.3"
}
