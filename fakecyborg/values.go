package fakecyborg

import (
	"maps"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// State is the state of an ARQ.
type State string

// The states of a request.
const (
	StateInitial      State = store.Initial
	StateBindStarted  State = store.BindStarted
	StateBound        State = store.Bound
	StateUnbound      State = store.Unbound
	StateBindFailed   State = store.BindFailed
	StateUnbindFailed State = store.UnbindFailed // cannot be reached
	StateDeleting     State = store.Deleting     // is never stored

	// StateProvisioning is the state of a bound request whose mediated device is being created
	// again, see Config.BindingStates. Its handle is not shown, and it is not resolved.
	StateProvisioning State = store.Provisioning
	// StateUnknown is what a bound request shows while its host sends no heartbeats, see
	// Config.BindingStates. It is never stored, its handle is not shown, and it is not resolved.
	StateUnknown State = agent.StateUnknown
)

// Resolved reports whether the bind has ended: Bound, BindFailed or Deleting.
func (s State) Resolved() bool {
	return s == StateBound || s == StateBindFailed || s == StateDeleting
}

// DeviceProfile is a stored device profile.
type DeviceProfile struct {
	UUID        string
	Name        string
	Description string
	Groups      []map[string]string
	CreatedAt   time.Time
}

// ARQ is an accelerator request. Unlike on the wire, it has its attach handle in every state.
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
	// Failure is why a request is BindFailed, which the API does not show.
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

// Deployable is an independently assigned part of a device, and one resource provider.
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
	return d.spec().Class
}

// Traits are the provider's traits that Cyborg reports.
func (d Deployable) Traits() []string {
	return d.spec().Traits
}

func (d Deployable) spec() (spec driver.Deployable) {
	spec.SetAttributeList(d.Attributes)
	return spec
}

// Attribute is a key and a value of a deployable.
type Attribute struct {
	UUID           string
	DeployableUUID string
	Key, Value     string
	// ByUser is set for an attribute that no driver reported. It is not in Placement.
	ByUser bool
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
	// ARQ is the request that holds the handle. It is empty for an unused handle, and for one whose
	// mediated device could not be removed yet.
	ARQ string
}

// arqView returns the converter of requests with the states that they show at one moment. It is valid as
// long as the view.
func (s *Server) arqView(tx store.Tx) func(store.ARQ) ARQ {
	shown := s.conductor.ShownState(tx, s.clock.Now())
	return func(a store.ARQ) ARQ { return arqOf(tx, a, shown(a)) }
}

func arqOf(tx store.Tx, a store.ARQ, state string) ARQ {
	v := ARQ{
		UUID: a.UUID, State: State(state), DeviceProfileName: a.Profile, DeviceProfileGroupID: a.Group,
		Hostname: a.Host, DeviceRPUUID: a.Provider, InstanceUUID: a.Instance, ProjectID: a.Project,
		Failure: a.Failure, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}
	if h, ok := tx.Handle(a.Handle); ok {
		v.AttachHandleType, v.AttachHandleUUID, v.AttachHandleInfo = h.Type, h.UUID, h.Info.Map()
	}
	return v
}

func profileOf(p store.Profile) DeviceProfile {
	v := DeviceProfile{UUID: p.UUID, Name: p.Name, CreatedAt: p.CreatedAt}
	if p.Description != nil {
		v.Description = *p.Description
	}
	for _, g := range p.Groups {
		v.Groups = append(v.Groups, g.Map())
	}
	return v
}

func deviceOf(d store.Device) Device {
	d.ControlPath.Info = maps.Clone(d.ControlPath.Info)
	return Device{
		ID: int(d.ID), UUID: d.UUID, Hostname: d.Host, Type: d.Type, Vendor: d.Vendor, Model: d.Model,
		StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo,
		Status: d.Status, Driver: d.Driver, ControlPath: d.ControlPath,
	}
}

func deployableOf(tx store.Tx, d store.Deployable) Deployable {
	device, _ := tx.Device(d.Device)
	attributes := tx.Attributes(d.UUID)
	v := Deployable{
		ID: int(d.ID), UUID: d.UUID, Name: d.Name, DeviceID: int(device.ID), DeviceUUID: device.UUID,
		Hostname: device.Host, ProviderUUID: d.Provider, NumAccelerators: d.Total, DriverName: d.DriverName,
		BitstreamID: d.Bitstream, Attributes: make([]driver.Attribute, 0, len(attributes)),
	}
	for _, a := range attributes {
		v.Attributes = append(v.Attributes, driver.Attribute{Key: a.Key, Value: a.Value})
	}
	return v
}

func handleOf(tx store.Tx, h store.Handle) AttachHandle {
	d, _ := tx.Deployable(h.Deployable)
	device, _ := tx.Device(d.Device)
	return AttachHandle{
		UUID: h.UUID, DeployableUUID: d.UUID, ProviderUUID: d.Provider, Hostname: device.Host,
		Type: h.Type, Info: h.Info.Map(), InUse: h.InUse, ARQ: h.HeldBy,
	}
}

func attributeOf(a store.Attribute) Attribute {
	return Attribute{UUID: a.UUID, DeployableUUID: a.Deployable, Key: a.Key, Value: a.Value, ByUser: a.ByUser}
}
