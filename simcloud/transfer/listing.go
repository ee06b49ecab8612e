package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ListingSchema is the version of the form of a [Listing].
const ListingSchema = 1

// ErrListing is matched by every error about a listing that no cloud can be made of.
var ErrListing = errors.New("transfer: bad listing")

// Listing is what the read-only calls of a real cloud show of its accelerators: all of
// Placement, and of Cyborg what its API shows. The lists are in the order of the answers.
type Listing struct {
	SchemaVersion int                 `json:"schema_version"` // [ListingSchema]
	ReadAt        time.Time           `json:"read_at"`        // when the reading began; what shows no time counts as made then
	Region        string              `json:"region,omitempty"`
	Placement     PlacementListing    `json:"placement"`
	Accelerator   *AcceleratorListing `json:"accelerator,omitempty"` // nil for a cloud without Cyborg
}

// PlacementListing is what Placement holds.
type PlacementListing struct {
	Version           string           `json:"version,omitempty"` // microversion of the requests
	ResourceClasses   []string         `json:"resource_classes"`
	Traits            []string         `json:"traits"`
	ResourceProviders []ListedProvider `json:"resource_providers"`
	Consumers         []ListedConsumer `json:"consumers"`
}

// ListedProvider is a resource provider with what it has.
type ListedProvider struct {
	UUID        string                     `json:"uuid"`
	Name        string                     `json:"name"`
	Generation  int                        `json:"generation"`
	Parent      string                     `json:"parent_provider_uuid,omitempty"` // empty for a root
	Inventories map[string]ListedInventory `json:"inventories,omitempty"`          // by resource class
	Traits      []string                   `json:"traits,omitempty"`
	Aggregates  []string                   `json:"aggregates,omitempty"`
}

// ListedInventory is an inventory.
type ListedInventory struct {
	Total           int     `json:"total"`
	Reserved        int     `json:"reserved"`
	MinUnit         int     `json:"min_unit"`
	MaxUnit         int     `json:"max_unit"`
	StepSize        int     `json:"step_size"`
	AllocationRatio float64 `json:"allocation_ratio"`
}

// ListedConsumer is a consumer of allocations, mostly an instance.
type ListedConsumer struct {
	UUID         string                      `json:"uuid"`
	ProjectID    string                      `json:"project_id"`
	UserID       string                      `json:"user_id"`
	Generation   *int                        `json:"consumer_generation,omitempty"` // from 1.28; nil below, where it counts as 1
	ConsumerType string                      `json:"consumer_type,omitempty"`       // from 1.38; empty below
	Allocations  map[string]map[string]int64 `json:"allocations"`                   // by provider and resource class
}

// AcceleratorListing is what Cyborg's API shows: no control paths, and attach handles
// only of bound requests.
type AcceleratorListing struct {
	MaxVersion     string             `json:"max_version,omitempty"` // the highest microversion
	Devices        []ListedDevice     `json:"devices"`
	Deployables    []ListedDeployable `json:"deployables"`
	Attributes     []ListedAttribute  `json:"attributes"` // empty for Zed, which does not list them
	DeviceProfiles []ListedProfile    `json:"device_profiles"`
	ARQs           []ListedARQ        `json:"accelerator_requests"`
}

// ListedTimes are the times of a row.
type ListedTimes struct {
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"` // zero: never changed
}

// ListedDevice is a device.
type ListedDevice struct {
	UUID            string `json:"uuid"`
	Hostname        string `json:"hostname"`
	Type            string `json:"type"`
	Vendor          string `json:"vendor"`
	Model           string `json:"model"`
	StdBoardInfo    string `json:"std_board_info,omitempty"`
	VendorBoardInfo string `json:"vendor_board_info,omitempty"`
	Status          string `json:"status,omitempty"` // from 2.3; empty counts as enabled
	ListedTimes
}

// ListedDeployable is a deployable.
type ListedDeployable struct {
	UUID            string       `json:"uuid"`
	Name            string       `json:"name"`
	NumAccelerators int          `json:"num_accelerators"`
	DeviceID        int          `json:"device_id"` // number of the device, which the device does not show
	ProviderUUID    string       `json:"rp_uuid"`
	DriverName      string       `json:"driver_name"`
	BitstreamID     string       `json:"bitstream_id,omitempty"`
	Attributes      []ListedPair `json:"attributes"` // of attributes_list
	ListedTimes
}

// ListedPair is a key and value of a deployable's attributes.
type ListedPair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ListedAttribute is an attribute as a resource of its own.
type ListedAttribute struct {
	UUID         string `json:"uuid"`
	DeployableID int    `json:"deployable_id"` // number of the deployable, which the deployable does not show
	Key          string `json:"key"`
	Value        string `json:"value"`
	ListedTimes
}

// ListedProfile is a device profile.
type ListedProfile struct {
	UUID        string              `json:"uuid"`
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Groups      []map[string]string `json:"groups"`
	ListedTimes
}

// ListedARQ is an accelerator request. The attach handle is that of a Bound one.
type ListedARQ struct {
	UUID             string            `json:"uuid"`
	State            string            `json:"state"`
	ProfileName      string            `json:"device_profile_name"`
	Group            int               `json:"device_profile_group_id"`
	Hostname         string            `json:"hostname,omitempty"`
	ProviderUUID     string            `json:"device_rp_uuid,omitempty"`
	InstanceUUID     string            `json:"instance_uuid,omitempty"`
	ProjectID        string            `json:"project_id,omitempty"`
	AttachHandleType string            `json:"attach_handle_type,omitempty"`
	AttachHandleUUID string            `json:"attach_handle_uuid,omitempty"` // not shown by Zed
	AttachHandleInfo map[string]string `json:"attach_handle_info,omitempty"`
	ListedTimes
}

// ParseListing reads a listing from JSON and checks it. Unknown fields are refused. The
// error matches [ErrListing].
func ParseListing(data []byte) (Listing, error) {
	var l Listing
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Listing{}, fmt.Errorf("%w: %w", ErrListing, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Listing{}, fmt.Errorf("%w: more data follows the JSON value", ErrListing)
	}
	return l, l.Validate()
}

// JSON writes the listing as [ParseListing] reads it, indented. The error is for a
// number that JSON has no form for.
func (l Listing) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListing, err)
	}
	return append(data, '\n'), nil
}
