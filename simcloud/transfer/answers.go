package transfer

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

// answers are what the services answer, with the members that are read. Unexported fields of
// the types below are found out by join.
type answers struct {
	SchemaVersion int       `json:"schema_version"` // listingSchema
	ReadAt        time.Time `json:"read_at"`        // when the reading began; what shows no time counts as made then
	Region        string    `json:"region,omitempty"`
	Placement     struct {
		Classes []struct {
			Name string `json:"name"`
		} `json:"resource_classes"`
		Traits    []string    `json:"traits"`
		Providers []*provider `json:"resource_providers"` // each with what is below it
		Consumers []*consumer `json:"consumers"`
	} `json:"placement"`
	Cyborg struct {
		Devices     []*device        `json:"devices"`
		Deployables []*deployable    `json:"deployables"`
		Attributes  []*attribute     `json:"attributes,omitzero"` // nil for Zed, which does not list them
		Profiles    []*deviceProfile `json:"device_profiles"`
		ARQs        []*arq           `json:"arqs"`
	} `json:"accelerator,omitzero"` // its lists are nil for a cloud without Cyborg
}

type provider struct {
	UUID        string               `json:"uuid"`
	Name        string               `json:"name"`
	Parent      string               `json:"parent_provider_uuid"` // empty for a root
	Generation  int                  `json:"resource_provider_generation"`
	Inventories map[string]inventory `json:"inventories,omitempty"`
	Traits      []string             `json:"traits,omitempty"`
	Aggregates  []string             `json:"aggregates,omitempty"`
}

type inventory struct {
	Total           int     `json:"total"`
	Reserved        int     `json:"reserved"`
	MinUnit         int     `json:"min_unit"`
	MaxUnit         int     `json:"max_unit"`
	StepSize        int     `json:"step_size"`
	AllocationRatio float64 `json:"allocation_ratio"`
}

type consumer struct {
	UUID        string `json:"uuid"`
	ProjectID   string `json:"project_id"`
	UserID      string `json:"user_id"`
	Generation  int    `json:"consumer_generation"` // from 1.28; 0 below, where it counts as 1
	Type        string `json:"consumer_type"`       // from 1.38
	Allocations map[string]struct {
		Resources map[string]int64 `json:"resources"`
	} `json:"allocations"` // by provider
}

type times struct {
	CreatedAt time.Time `json:"created_at,omitzero"` // zero: it is not shown
	UpdatedAt time.Time `json:"updated_at,omitzero"` // zero: never changed
}

type device struct {
	UUID            string `json:"uuid"`
	Hostname        string `json:"hostname"`
	Type            string `json:"type"`
	Vendor          string `json:"vendor"`
	Model           string `json:"model"`
	StdBoardInfo    string `json:"std_board_info"`
	VendorBoardInfo string `json:"vendor_board_info"`
	Status          string `json:"status"` // from 2.3; empty counts as enabled
	times

	id          int
	nested      bool // it has a provider of its own
	reported    driver.Device
	deployables []*deployable
}

type deployable struct {
	UUID            string `json:"uuid"`
	Name            string `json:"name"`
	NumAccelerators int    `json:"num_accelerators"`
	DeviceID        int    `json:"device_id"` // number of the device, which the device does not show
	ProviderUUID    string `json:"rp_uuid"`
	DriverName      string `json:"driver_name"`
	BitstreamID     string `json:"bitstream_id"`
	Attributes      pairs  `json:"attributes_list"`
	times

	id         int
	device     *device
	reported   driver.Deployable // its attach handles are those of bound requests, then unknown ones
	attributes []*attribute
	arqs       []*arq // the bound requests
}

type attribute struct {
	UUID         string `json:"uuid"`
	DeployableID int    `json:"deployable_id"` // number of the deployable, which the deployable does not show
	Key          string `json:"key"`
	Value        string `json:"value"`
	times

	deployable *deployable
	byUser     bool // created through the API
}

type deviceProfile struct {
	UUID        string              `json:"uuid"`
	Name        string              `json:"name"`
	Description *string             `json:"description"`
	Groups      []map[string]string `json:"groups"`
	times
}

type arq struct {
	UUID         string      `json:"uuid"`
	State        string      `json:"state"`
	ProfileName  string      `json:"device_profile_name"`
	Group        int         `json:"device_profile_group_id"`
	Hostname     string      `json:"hostname"`
	ProviderUUID string      `json:"device_rp_uuid"`
	InstanceUUID string      `json:"instance_uuid"`
	ProjectID    string      `json:"project_id"`
	HandleType   string      `json:"attach_handle_type"`
	HandleUUID   string      `json:"attach_handle_uuid"` // not shown by Zed
	HandleInfo   driver.Info `json:"attach_handle_info,omitempty"`
	times

	handle string // the uuid of its attach handle; empty if it holds none
}

// pairs are the attributes that a deployable shows: a list of objects of one member each,
// which Cyborg writes as JSON in a string.
type pairs []map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (p *pairs) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = []byte(cmp.Or(text, "null"))
	}
	return json.Unmarshal(data, (*[]map[string]string)(p))
}
