package store

import (
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/sim"
)

// Profile is a device profile. It never changes.
type Profile struct {
	ID          int64     `json:"id"`
	UUID        string    `json:"uuid"`
	Name        string    `json:"name"`
	Description *string   `json:"description,omitempty"`
	Groups      []Group   `json:"groups"`
	CreatedAt   time.Time `json:"created_at"`
}

// Device is one piece of hardware.
type Device struct {
	ID              int64          `json:"id"`
	UUID            string         `json:"uuid"`
	Host            string         `json:"hostname"`
	Driver          string         `json:"driver"` // name of the driver that reported it
	Type            string         `json:"type"`
	Vendor          string         `json:"vendor"`
	Model           string         `json:"model"`
	StdBoardInfo    string         `json:"std_board_info,omitempty"`
	VendorBoardInfo string         `json:"vendor_board_info,omitempty"`
	ControlPath     ControlPath    `json:"controlpath_id"`
	Resources       map[string]int `json:"resources,omitempty"` // shared by its deployables, MiB by class
	Status          string         `json:"status"`
	// Nested is set for a device with a provider of its own, above the providers of its deployables.
	Nested    bool      `json:"nested,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"` // zero until the first change, as in all rows
}

// ControlPath is a [driver.ControlPath] without a map.
type ControlPath struct {
	Type string `json:"cpid_type"`
	Info Info   `json:"cpid_info"`
}

// Key is the identity of the device on its host.
func (c ControlPath) Key() string { return string(c.Info) }

// Reported is the control path as a driver reports it.
func (c ControlPath) Reported() driver.ControlPath {
	return driver.ControlPath{Type: c.Type, Info: c.Info.Map()}
}

// Deployable is a part of a device, and one resource provider.
type Deployable struct {
	ID         int64          `json:"id"`
	UUID       string         `json:"uuid"`
	Device     string         `json:"device"`
	Name       string         `json:"name"`
	DriverName string         `json:"driver_name"`
	Total      int            `json:"num_accelerators"`
	Resources  map[string]int `json:"resources,omitempty"` // local memory on the provider, MiB by class
	Provider   string         `json:"rp_uuid"`
	Presence   Presence       `json:"presence,omitempty"`
	// Lost has the times at which drivers recently stopped reporting traits. An instance may have been scheduled by
	// them before.
	Lost map[string]time.Time `json:"lost_traits,omitempty"`
	// Preprogrammed is set for a region that is never programmed.
	Preprogrammed bool      `json:"preprogrammed,omitempty"`
	Bitstream     string    `json:"bitstream_id,omitempty"`
	Region        Region    `json:"region,omitzero"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
}

// Image is a bitstream image as Glance describes it.
type Image struct {
	ID         string            `json:"image_id"`
	Properties map[string]string `json:"properties,omitempty"` // those that begin with "accel:"
}

// Presence says whether Placement has a deployable. Attach handles are assigned while it does.
type Presence string

// The presences of deployables. A Stored or absent one is put into Placement by the next report, and is then Offered.
const (
	// Stored is a deployable that was never in Placement.
	Stored Presence = ""
	// Offered is a deployable that drivers report.
	Offered Presence = "offered"
	// Vanished is one that is no longer reported and cannot be removed. Its handles are deleted when they are released.
	Vanished Presence = "vanished"
	// absent is one that Placement has lost, or that is being removed.
	absent Presence = "absent"
)

// InPlacement reports whether Placement has the deployable.
func (d Deployable) InPlacement() bool { return d.Presence == Offered || d.Presence == Vanished }

// Attribute is one attribute of a deployable.
type Attribute struct {
	ID         int64  `json:"id"`
	UUID       string `json:"uuid"`
	Deployable string `json:"deployable"`
	Key        string `json:"key"`
	Value      string `json:"value"`
	// ByUser is set for an attribute that was created through the API. It is Cyborg's
	// alone and not in Placement.
	ByUser    bool      `json:"by_user,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// Handle is an attach handle: one unit of a deployable. There may be hundreds of thousands.
type Handle struct {
	ID         int64       `json:"id"`
	UUID       string      `json:"uuid"`
	Deployable string      `json:"deployable"`
	Type       string      `json:"attach_type"`
	Info       Info        `json:"attach_info"`
	State      HandleState `json:"state,omitempty"`
	// HeldBy is the request that has the handle. A handle that is not free and that no request has waits for the removal of its
	// mediated device.
	HeldBy string `json:"held_by,omitempty"`
	// Functions are the traits of the functions that the handle leads to, as in a driver's report. Upstream does not
	// know them.
	Functions functions `json:"functions,omitempty"`
}

// ARQ is an accelerator request.
type ARQ struct {
	ID        int64        `json:"id"`
	UUID      string       `json:"uuid"`
	Profile   string       `json:"device_profile_name"`
	Group     int          `json:"device_profile_group_id"`
	State     string       `json:"state"`
	Host      string       `json:"hostname,omitempty"`
	Provider  string       `json:"device_rp_uuid,omitempty"`
	Instance  string       `json:"instance_uuid,omitempty"`
	Project   string       `json:"project_id,omitempty"`
	Handle    string       `json:"attach_handle,omitempty"` // its UUID
	Failure   string       `json:"failure,omitempty"`
	Bitstream BitstreamRef `json:"bitstream,omitzero"` // of image_uuid, for a group that does not name one
	// Attempt grows with each bind and unbind, so that a late bind notices.
	Attempt int `json:"attempt,omitempty"`
	// RestoreFailures counts the reports in a row that could not create its mediated device
	// again.
	RestoreFailures int       `json:"restore_failures,omitempty"`
	CreatedAt       time.Time `json:"created_at"`
	UpdatedAt       time.Time `json:"updated_at,omitzero"`
}

// Bind is one bind of a PATCH, from its beginning until Nova was notified of how all binds of
// the PATCH ended. Upstream keeps it in the memory of its API service.
type Bind struct {
	ID       int64    `json:"id"`
	Patch    int64    `json:"patch"` // the first bind of the PATCH
	ARQ      string   `json:"accelerator_request"`
	Instance string   `json:"instance_uuid"` // that the event is for
	Profile  string   `json:"device_profile_name"`
	Attempt  int      `json:"attempt,omitempty"`
	Handle   string   `json:"attach_handle,omitempty"`
	Device   creation `json:"device,omitempty"`
	// Bitstream is programmed first.
	Bitstream BitstreamRef `json:"bitstream,omitzero"`
	// Result is empty while the bind goes on, then Bound or BindFailed, and BindStarted
	// for a bind that was given up.
	Result string `json:"result,omitempty"`
	// Silent is set if Nova is not notified, because the answer to the PATCH says it.
	Silent bool `json:"silent,omitempty"`
}

// creation says whether an agent has to create the device of an attach handle on the host, a mediated device or a vGPU.
type creation string

// The creations of devices. What is there after a creation has begun is the bind's own.
const (
	notNeeded creation = ""
	needed    creation = "needed"
	begun     creation = "begun"
)

// Creates reports whether an agent has to create a device for the bind.
func (b Bind) Creates() bool { return b.Device != notNeeded }

// Lease marks an attach handle or a deployable as being worked on outside of the
// transactions. Each has one lease at a time. A process that finds leases of an earlier one
// ends them, see [Tx.Recover].
type Lease struct {
	ID         int64  `json:"id"` // of the attempt
	Work       string `json:"work"`
	Bind       int64  `json:"bind,omitempty"`
	Handle     string `json:"attach_handle,omitempty"`
	Deployable string `json:"deployable,omitempty"`
	Image      string `json:"image_id,omitempty"` // that is written to the deployable
	Epoch      int    `json:"epoch,omitempty"`    // of the region when the work began
}

// Agent is the health of the agent of a host.
type Agent struct {
	Host string `json:"hostname"`
	// Fallback is the other name of the host, under which its devices are stored if
	// FellBack is set.
	Fallback  string    `json:"fallback,omitempty"`
	FellBack  bool      `json:"fell_back,omitempty"`
	StartedAt time.Time `json:"started_at"`            // the first heartbeat
	BeatAt    time.Time `json:"last_beat_at,omitzero"` // the last heartbeat, of an agent that is down
	ReturnsAt time.Time `json:"returns_at,omitzero"`   // when an agent that is down starts again, if that is known
}

// HostReport is what the drivers of a host found last.
type HostReport struct {
	Host         string         `json:"hostname"`
	Drivers      []DriverReport `json:"drivers"`
	ClaimsReadAt time.Time      `json:"claims_read_at,omitzero"` // Nova's providers below the host
	Root         Root           `json:"root,omitzero"`
}

// Root is the provider of a host, as the last report found it.
type Root struct {
	UUID string `json:"uuid"`
}

// DriverReport is what one driver found.
type DriverReport struct {
	Driver    string          `json:"driver"`
	Devices   int             `json:"devices"`
	LeftOut   []driver.Notice `json:"left_out,omitempty"`
	Conflicts []driver.Notice `json:"conflicts,omitempty"`
	Problems  []Problem       `json:"problems,omitempty"`
	Warnings  []driver.Notice `json:"warnings,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// Problem is something that a driver could not read.
type Problem struct {
	Address string `json:"address,omitempty"`
	File    string `json:"file,omitempty"`
	Error   string `json:"error"`
}

// Event is an event for Nova.
type Event struct {
	ID int64 `json:"id"`
	sim.Event
}

// Provider is a resource provider as far as Cyborg writes it to Placement. In the flat layout it is Nova's, and the contents are
// what Cyborg has added.
type Provider struct {
	UUID   string `json:"uuid"`
	Host   string `json:"hostname"`
	Name   string `json:"name,omitempty"`
	Parent string `json:"parent_provider_uuid,omitempty"`
	// Applied is what answers of Placement have confirmed.
	Applied Contents `json:"applied,omitzero"`
	// Pending are the values that unconfirmed writes have sent or replaced. Placement may have any of them. A class or trait is either
	// in Applied or in Pending.
	Pending Contents `json:"pending,omitzero"`
}

// Contents are inventories and traits of a resource provider, in the order in which they are written.
type Contents struct {
	Inventories []Inventory `json:"inventories,omitempty"`
	Traits      []string    `json:"traits,omitempty"`
}

// IsZero reports whether the contents are empty.
func (c Contents) IsZero() bool { return len(c.Inventories)+len(c.Traits) == 0 }

// Inventory is an inventory of a resource provider, as far as Cyborg reserves it itself.
type Inventory struct {
	Class    string `json:"resource_class"`
	Total    int    `json:"total"`
	MaxUnit  int    `json:"max_unit"`
	Reserved int    `json:"reserved,omitempty"`
}
