package fakecyborg

import (
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

// State is where an ARQ is in its life.
type State string

// The states of upstream's enumeration. Deleting is never stored, and
// UnbindFailed cannot be.
const (
	StateInitial      State = "Initial"
	StateBindStarted  State = "BindStarted"
	StateBound        State = "Bound"
	StateUnbound      State = "Unbound"
	StateBindFailed   State = "BindFailed"
	StateUnbindFailed State = "UnbindFailed"
	StateDeleting     State = "Deleting"
)

// The states of the Wallaby specification, see Config.BindingStates. In neither
// of them the handle is shown, and neither is resolved.
const (
	// StateProvisioning is the state of a bound request whose mediated device is
	// being made again.
	StateProvisioning State = "provisioning"
	// StateUnknown is what a bound request shows while the agent of its host is
	// silent. It is never stored.
	StateUnknown State = "unknown"
)

// Resolved reports whether binding has ended, well or not: Bound, BindFailed or
// Deleting.
func (s State) Resolved() bool {
	return s == StateBound || s == StateBindFailed || s == StateDeleting
}

// The states of a device.
const (
	// StatusEnabled is the state of a device that is offered.
	StatusEnabled = "enabled"
	// StatusMaintaining is the state of a disabled device: its inventory is
	// reserved in Placement.
	StatusMaintaining = "maintaining"
)

// DeviceProfile is a stored device profile.
type DeviceProfile struct {
	UUID        string
	Name        string
	Description string
	Groups      []map[string]string
	CreatedAt   time.Time
}

// ARQ is an accelerator request as the server holds it; the attach handle is
// told in every state in which one is taken, unlike on the wire.
type ARQ struct {
	UUID                 string
	State                State
	DeviceProfileName    string
	DeviceProfileGroupID int
	Hostname             string
	DeviceRPUUID         string
	InstanceUUID         string
	ProjectID            string
	AttachHandleType     string
	AttachHandleUUID     string
	AttachHandleInfo     map[string]string
	// Failure is why a request is BindFailed, which no client is told by the API.
	Failure   string
	CreatedAt time.Time
	UpdatedAt time.Time // zero until the first change
}

// Device is a piece of hardware as the conductor stored it.
type Device struct {
	ID              int
	UUID            string
	Hostname        string
	Type            string
	Vendor          string
	Model           string
	StdBoardInfo    string
	VendorBoardInfo string
	Status          string
	// Driver is the name of the driver that reported it.
	Driver      string
	ControlPath driver.ControlPath
}

// Deployable is a part of a device, and one resource provider.
type Deployable struct {
	ID              int
	UUID            string
	Name            string
	DeviceID        int
	DeviceUUID      string
	Hostname        string
	ProviderUUID    string
	NumAccelerators int
	DriverName      string
	BitstreamID     string
	Attributes      []driver.Attribute
}

// ResourceClass is the class of the provider's inventory.
func (d Deployable) ResourceClass() string {
	return driver.Deployable{Attributes: d.Attributes}.ResourceClass()
}

// Traits are the provider's traits that Cyborg reports.
func (d Deployable) Traits() []string {
	return driver.Deployable{Attributes: d.Attributes}.Traits()
}

// AttachHandle is one unit of a deployable.
type AttachHandle struct {
	UUID           string
	DeployableUUID string
	ProviderUUID   string
	Hostname       string
	Type           string
	Info           map[string]string
	InUse          bool
	// ARQ is the request that holds the handle. An unused handle has none, and
	// neither has one whose mediated device could not be removed yet.
	ARQ string
}

// DriverReport is what one driver of one host found last.
type DriverReport struct {
	Host   string
	Driver string
	At     time.Time
	// Devices is how many devices were found.
	Devices  int
	LeftOut  []driver.LeftOut
	Problems []driver.Problem
	Warnings []driver.Warning
	// Err is why the discovery could not be done at all.
	Err error
}
