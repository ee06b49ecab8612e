package fakecyborg

import (
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
	StateUnbindFailed State = store.UnbindFailed // only [Server.SetARQState] stores it
	StateDeleting     State = store.Deleting     // only [Server.SetARQState] stores it

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

// StoredDeviceProfile is a device profile as the conductor stored it.
type StoredDeviceProfile struct {
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

// Mdev returns the mediated device of the attach handle, for [MdevsByNova]; false without one.
func (a ARQ) Mdev() (m driver.Mdev, ok bool) {
	if a.State != StateBound {
		return m, false
	}
	m, err := driver.AttachHandle{Type: a.AttachHandleType, Info: a.AttachHandleInfo}.Mdev(a.AttachHandleUUID)
	return m, err == nil
}

// StoredDevice is a piece of hardware as the conductor stored it.
type StoredDevice struct {
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

// StoredDeployable is an independently assigned part of a device, and one resource provider, as the conductor stored it.
type StoredDeployable struct {
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
func (d StoredDeployable) ResourceClass() string {
	return d.spec().Class
}

// Traits are the provider's traits that Cyborg reports.
func (d StoredDeployable) Traits() []string {
	return d.spec().Traits
}

func (d StoredDeployable) spec() (spec driver.Deployable) {
	spec.SetAttributeList(d.Attributes)
	return spec
}

// StoredAttribute is a key and a value of a deployable, as the conductor stored it.
type StoredAttribute struct {
	UUID           string
	DeployableUUID string
	Key, Value     string
	// ByUser is set for an attribute that no driver reported. It is not in Placement.
	ByUser bool
}

// StoredAttachHandle is one unit of a deployable, as the conductor stored it.
type StoredAttachHandle struct {
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

func profileOf(p store.Profile) StoredDeviceProfile {
	v := StoredDeviceProfile{UUID: p.UUID, Name: p.Name, CreatedAt: p.CreatedAt}
	if p.Description != nil {
		v.Description = *p.Description
	}
	for _, g := range p.Groups {
		v.Groups = append(v.Groups, g.Map())
	}
	return v
}

func deviceOf(d store.Device) StoredDevice {
	return StoredDevice{
		ID: int(d.ID), UUID: d.UUID, Hostname: d.Host, Type: d.Type, Vendor: d.Vendor, Model: d.Model,
		StdBoardInfo: d.StdBoardInfo, VendorBoardInfo: d.VendorBoardInfo,
		Status: d.Status, Driver: d.Driver, ControlPath: d.ControlPath.Reported(),
	}
}

// deployableView returns the converter of all deployables. To look up each of what they refer to
// would cost more than to read it all.
func deployableView(tx store.Tx) func(store.Deployable) StoredDeployable {
	devices := make(map[string]StoredDeployable) // what their deployables have in common
	for d := range tx.Devices() {
		devices[d.UUID] = StoredDeployable{DeviceID: int(d.ID), DeviceUUID: d.UUID, Hostname: d.Host}
	}
	attributes := make(map[string][]driver.Attribute)
	of, list := "", []driver.Attribute(nil)
	for a := range tx.AllAttributes() {
		if a.Deployable != of { // attributes of a report are consecutive
			attributes[of] = list
			of, list = a.Deployable, attributes[a.Deployable]
		}
		list = append(list, driver.Attribute{Key: a.Key, Value: a.Value})
	}
	attributes[of] = list
	return func(d store.Deployable) StoredDeployable {
		v := devices[d.Device]
		v.ID, v.UUID, v.Name, v.ProviderUUID = int(d.ID), d.UUID, d.Name, d.Provider
		v.NumAccelerators, v.DriverName, v.BitstreamID, v.Attributes = d.Total, d.DriverName, d.Bitstream, attributes[d.UUID]
		return v
	}
}

// handleView is to attach handles what deployableView is to deployables.
func handleView(tx store.Tx) func(store.Handle) StoredAttachHandle {
	hosts := make(map[string]string) // by device
	for d := range tx.Devices() {
		hosts[d.UUID] = d.Host
	}
	deployables := make(map[string]StoredAttachHandle) // what their handles have in common
	for d := range tx.Deployables() {
		deployables[d.UUID] = StoredAttachHandle{DeployableUUID: d.UUID, ProviderUUID: d.Provider, Hostname: hosts[d.Device]}
	}
	return func(h store.Handle) StoredAttachHandle {
		v := deployables[h.Deployable]
		v.UUID, v.Type, v.Info, v.InUse, v.ARQ = h.UUID, h.Type, h.Info.Map(), h.InUse(), h.HeldBy
		return v
	}
}

func attributeOf(a store.Attribute) StoredAttribute {
	return StoredAttribute{UUID: a.UUID, DeployableUUID: a.Deployable, Key: a.Key, Value: a.Value, ByUser: a.ByUser}
}
