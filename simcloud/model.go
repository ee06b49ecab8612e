package simcloud

import (
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
)

// Model describes a whole cloud. The zero value is the default world of [DefaultModel];
// a list that is nil takes its default, one that is empty but not nil stays empty. The
// same struct is read from JSON by [ParseModel].
type Model struct {
	// Seed determines identifiers and tokens: two clouds of one model are the same.
	// Cyborg.Seed and Placement.Seed take it unless they have their own.
	Seed uint64 `json:"seed,omitempty"`
	// Region is the region of the catalog's endpoints; RegionOne if empty.
	Region string `json:"region,omitempty"`
	// StrictInstances makes the compute endpoint judge instances as Nova does: events
	// for instances that are no guests get 404, for guests without a host 422.
	StrictInstances bool `json:"strict_instances,omitempty"`
	// StrictRequests rejects requests with unknown query keys or body fields, see
	// [Cloud.Unrecognized], with 400 before anything changes. The real services ignore most
	// of these.
	StrictRequests bool `json:"strict_requests,omitempty"`
	// TokenLifetime is how long a token is valid; an hour if zero.
	TokenLifetime Duration `json:"token_lifetime,omitempty"`
	// Users can log in beside admin, demo, nova and cyborg; nil: manager and reader of
	// the project demo, and alice, a member of lab.
	Users []User `json:"users,omitzero"`
	// Hosts are the compute hosts.
	Hosts []Host `json:"hosts"`
	// DeviceProfiles are created in Cyborg.
	DeviceProfiles []DeviceProfile `json:"device_profiles"`
	// Images are the bitstream images of the image service; there are none by default.
	Images []Image `json:"images,omitzero"`
	// Flavors are for the programs that use the cloud; nothing here interprets them.
	// The default is one flavor accel.NAME for each device profile NAME.
	Flavors []Flavor `json:"flavors"`
	// Cyborg and Placement say which service is simulated.
	Cyborg    fakecyborg.Config   `json:"cyborg"`
	Placement placementsim.Config `json:"placement"`
}

// Host is a compute host: a root resource provider in Placement with the agent of
// Cyborg beside it.
type Host struct {
	// Name is the host's, and its resource provider's.
	Name string `json:"name"`
	// ProviderUUID is the uuid of its resource provider; empty lets the seed choose.
	ProviderUUID string `json:"provider_uuid,omitempty"`
	// Fallback is the name that counts instead for an agent whose Placement, not one
	// of a Cloud, has no provider of Name ([DEFAULT] host).
	Fallback string `json:"fallback,omitempty"`
	// VCPUs, MemoryMB (MiB) and DiskGB (GiB) are the inventory of the root provider;
	// zero means 64, 262144 and 4000.
	VCPUs    int `json:"vcpus,omitempty"`
	MemoryMB int `json:"ram,omitempty"`
	DiskGB   int `json:"disk,omitempty"`
	// Traits are the root provider's; nil means COMPUTE_ACCELERATORS and OWNER_NOVA.
	Traits []string `json:"traits,omitzero"`
	// Providers are nested providers of Nova's own, such as those of network cards.
	Providers []Provider `json:"providers,omitempty"`
	// Nova is the hardware that nova-compute offers by itself; nil: none.
	Nova *Nova `json:"nova,omitempty"`
	// Devices are reported by the agent as they are, beside what the drivers find.
	Devices []driver.Device `json:"devices,omitempty"`
	// Sysfs is the hardware that the drivers look at; nil is a host without any.
	Sysfs *Sysfs `json:"sysfs,omitempty"`
	// Drivers are the drivers that the agent loads; nil means nvidia for a host with
	// Sysfs and none for another.
	Drivers *Drivers `json:"drivers,omitempty"`
}

// Provider is a resource provider below a host's root provider.
type Provider struct {
	Name string `json:"name"`
	// Inventory gives the total of each resource class.
	Inventory map[string]int `json:"inventory"`
	Traits    []string       `json:"traits,omitempty"`
}

// Sysfs is where a host's drivers find hardware: either a directory or synthetic
// devices with the kernel's behaviour.
type Sysfs struct {
	// Dir is the mount point of a sysfs, the live /sys or a captured copy.
	Dir string `json:"dir,omitempty"`
	// Write lets the drivers write below Dir. Without it the making of mediated
	// devices is only recorded, see [Cloud.Overlaid].
	Write bool `json:"write,omitempty"`
	// Devices are the functions of a synthetic PCI bus.
	Devices []sysfs.PCIDevice `json:"devices,omitempty"`
	// MdevParents are synthetic devices off that bus that mediated devices are made on.
	MdevParents []sysfs.MdevParent `json:"mdev_parents,omitempty"`
}

// DeviceProfile is a device profile as its creator sends it.
type DeviceProfile struct {
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Groups      []map[string]string `json:"groups"`
}

// Image is an image of the image service that everybody sees: for Cyborg the bitstream
// of an FPGA. It is found by its properties accel:function_id, accel:bitstream_name and
// accel:function_name; accel:region_id is the type of region it is for.
type Image struct {
	// ID is a UUID; empty lets the service choose one.
	ID         string            `json:"id,omitempty"`
	Name       string            `json:"name,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	// Data is the bitstream.
	Data string `json:"data"`
}

// Flavor is a Nova flavor. It has the fields and JSON names of requestspec.Flavor, so
// that one converts to the other.
type Flavor struct {
	Name        string            `json:"name"`
	VCPUs       int               `json:"vcpus"`
	MemoryMB    int               `json:"ram"`  // MiB
	RootGB      int               `json:"disk"` // GiB
	EphemeralGB int               `json:"ephemeral,omitempty"`
	SwapMB      int               `json:"swap,omitempty"` // MiB
	ExtraSpecs  map[string]string `json:"extra_specs,omitempty"`
}
