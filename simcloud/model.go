package simcloud

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// Model describes a whole cloud. The zero value is the cloud of [DefaultModel]. A nil list
// means its default, an empty list that is not nil stays empty. [ParseModel] reads the same
// struct from JSON, and the flags of cysim serve are its fields.
type Model struct {
	// Seed determines generated identifiers: two clouds of one model are equal. Tokens follow the clock, too.
	// It is the default of Cyborg.Seed and Placement.Seed.
	Seed uint64 `json:"seed,omitempty"`
	// Region of the endpoints in the catalog; empty means RegionOne.
	Region string `json:"region,omitempty"`
	// Collation is how the databases of Keystone, Placement and Cyborg compare names and identifiers; empty means
	// sim.CollationMySQL. It is the default of Cyborg.Collation and Placement.Collation.
	Collation sim.Collation `json:"collation,omitempty"`
	// NovaRelease is the release of the stand-in for Nova: a version, 26 to 34, or a series, zed to 2026.2; empty means 2026.2.
	NovaRelease string `json:"nova_release,omitempty" placeholder:"RELEASE"`
	// StrictInstances makes the compute endpoint check instances as Nova does: events get
	// 404 for unknown guests and 422 for guests without a host.
	StrictInstances bool `json:"strict_instances,omitempty"`
	// StrictRequests rejects requests with unknown query keys or body fields, see
	// [Cloud.Unrecognized], with 400 before anything changes. The real services ignore most
	// of these.
	StrictRequests bool `json:"strict_requests,omitempty"`
	// TokenLifetime is how long a token is valid; zero means an hour. In JSON it is a text such
	// as "90s".
	TokenLifetime time.Duration `json:"token_lifetime,omitempty"`
	// NovaMakesHosts gives all hosts the Root nova. Their Providers and Nova fields then
	// describe providers owned by nova-compute.
	NovaMakesHosts bool `json:"nova_makes_hosts,omitempty"`
	// Catalog has the URLs of services elsewhere by their types: compute, network, image and others, but
	// not identity, placement and accelerator. The catalog names them, in place of the stand-ins for Nova and Glance. Events about
	// binds go to that Nova, and Cyborg reads bitstreams from that Glance.
	Catalog map[string]string `json:"catalog,omitempty" placeholder:"TYPE=URL" mapsep:"none"`
	// GuestsFrom is the source of guests for the leak check; empty: only the registered guests.
	GuestsFrom GuestSource `json:"guests_from,omitempty"`
	// Users that can log in, in addition to admin, demo, nova and cyborg; nil means manager and reader
	// of the project demo, and alice, a member of lab.
	Users []User `json:"users,omitzero" kong:"-"`
	// Hosts are the compute hosts.
	Hosts []Host `json:"hosts" kong:"-"`
	// DeviceProfiles are created in Cyborg.
	DeviceProfiles []DeviceProfile `json:"device_profiles" kong:"-"`
	// Images are the bitstream images of the image service; empty by default.
	Images []Image `json:"images,omitzero" kong:"-"`
	// Flavors are for programs that use the cloud, and can be read at its compute endpoint; the cloud does not
	// interpret them. The default is one flavor accel.NAME for each device profile NAME.
	Flavors []Flavor `json:"flavors" kong:"-"`
	// Cyborg and Placement configure these services.
	Cyborg    fakecyborg.Config   `json:"cyborg" embed:"" prefix:"cyborg-"`
	Placement placementsim.Config `json:"placement" embed:"" prefix:"placement-"`
}

// Host is a compute host: a root resource provider in Placement and an agent of Cyborg.
type Host struct {
	// Name of the host and of its resource provider.
	Name string `json:"name"`
	// Root selects which service creates its resource provider.
	Root HostRoot `json:"root,omitempty"`
	// ProviderUUID is the uuid of its resource provider; empty means a generated one.
	ProviderUUID string `json:"provider_uuid,omitempty"`
	// Fallback is the name ([DEFAULT] host) that an agent uses if its Placement, one that is
	// not part of a Cloud, has no provider called Name. With Cyborg.UpstreamQuirks the agent
	// listens to this name alone.
	Fallback string `json:"fallback,omitempty"`
	// VCPUs, MemoryMB (MiB) and DiskGB (GiB) are the inventory of the root provider;
	// zero means 64, 262144 and 4000.
	VCPUs    int `json:"vcpus,omitempty"`
	MemoryMB int `json:"ram,omitempty"`
	DiskGB   int `json:"disk,omitempty"`
	// Traits are the root provider's; nil means COMPUTE_ACCELERATORS, and OWNER_NOVA since Nova 34 (2026.2).
	Traits []string `json:"traits,omitzero"`
	// Providers are nested providers of Nova, such as those of network cards.
	Providers []Provider `json:"providers,omitempty"`
	// Nova is the hardware that nova-compute offers itself; nil means none.
	Nova *Nova `json:"nova,omitempty"`
	// Devices are reported verbatim by the agent, in addition to the devices that the drivers find.
	Devices []driver.Device `json:"devices,omitempty"`
	// Sysfs is the hardware that the drivers read; nil means none.
	Sysfs *Sysfs `json:"sysfs,omitempty"`
	// Drivers are the drivers that the agent loads; nil means all for a host with Sysfs.Dir,
	// nvidia for one with synthetic devices, else none. Their Host is filled in. On synthetic hardware no disk is mounted but those
	// of Drivers.Mounts.
	Drivers *builtin.Config `json:"drivers,omitempty"`
}

// hasNovaRoots reports whether a host has the Root nova.
func (m Model) hasNovaRoots() bool {
	return slices.ContainsFunc(m.Hosts, func(h Host) bool { return h.Root == RootNova })
}

// HostRoot selects which service makes the root resource provider of a host. By default the cloud does.
type HostRoot string

// RootNova is for a host on which a real nova-compute runs under the same host name. nova-compute
// makes the root with its inventories and traits. The agent waits for the root and reports its
// devices below it. Agents of a cloud with such a host report every minute, as with
// [WithAgentLoop].
const RootNova HostRoot = "nova"

// Provider is a resource provider below a host's root provider.
type Provider struct {
	Name string `json:"name"`
	// Inventory has the total of each resource class.
	Inventory map[string]int `json:"inventory"`
	Traits    []string       `json:"traits,omitempty"`
}

// Sysfs is the hardware of a host: either a directory or synthetic devices with the
// kernel's behaviour.
type Sysfs struct {
	// Dir is the mount point of a sysfs, the live /sys or a captured copy.
	Dir string `json:"dir,omitempty"`
	// Write lets the drivers write below Dir. Without it writes such as the creation of
	// mediated devices are only recorded, see [Cloud.Overlaid].
	Write bool `json:"write,omitempty"`
	// Devices are the functions of a synthetic PCI bus.
	Devices []sysfs.PCIDevice `json:"devices,omitempty"`
	// MdevParents are synthetic parents of mediated devices that are not on that bus.
	MdevParents []sysfs.MdevParent `json:"mdev_parents,omitempty"`
}

// DeviceProfile is a device profile in the form of the API.
type DeviceProfile struct {
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Groups      []map[string]string `json:"groups"`
}

// Image is a public image of the image service, such as the bitstream of an FPGA. Cyborg
// finds it by its properties accel:function_id, accel:bitstream_name and
// accel:function_name; accel:region_id is the type of its region.
type Image struct {
	// ID is a UUID; empty means a generated one.
	ID         string            `json:"id,omitempty"`
	Name       string            `json:"name,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	// Data is the bitstream.
	Data string `json:"data"`
}

// Flavor is a Nova flavor, with the fields and JSON names of requestspec.Flavor: one
// converts to the other.
type Flavor struct {
	Name        string            `json:"name"`
	VCPUs       int               `json:"vcpus"`
	MemoryMB    int               `json:"ram"`  // MiB
	RootGB      int               `json:"disk"` // GiB
	EphemeralGB int               `json:"ephemeral,omitempty"`
	SwapMB      int               `json:"swap,omitempty"` // MiB
	ExtraSpecs  map[string]string `json:"extra_specs,omitempty"`
}

// User can log in. Its projects and roles are created.
type User struct {
	Name string `json:"name"`
	// Password; empty means the constant Password.
	Password string `json:"password,omitempty"`
	// Roles by the name of their project: admin, manager, member and reader (each implies the
	// later ones), service, or others.
	Roles map[string][]string `json:"roles,omitempty"`
	// SystemRoles are the roles on the whole cloud.
	SystemRoles []string `json:"system_roles,omitempty"`
}

type plainModel Model

// modelJSON is a Model in JSON.
type modelJSON struct {
	plainModel
	TokenLifetime strictjson.Duration `json:"token_lifetime,omitempty"`
}

// MarshalJSON writes the model with its duration as text.
func (m Model) MarshalJSON() ([]byte, error) {
	return json.Marshal(modelJSON{plainModel(m), strictjson.Duration(m.TokenLifetime)})
}

// UnmarshalJSON reads a model as [ParseModel] does, without its checks.
func (m *Model) UnmarshalJSON(data []byte) error {
	var model Model
	if err := strictjson.DecodeModel(data, (*plainModel)(&model)); err != nil {
		return err
	}
	*m = model
	return nil
}

// identity is Keystone's configuration of the model.
func (m Model) identity() keystone.Config {
	cfg := keystone.Config{Seed: m.Seed, Collation: m.Collation, Region: m.Region, TokenLifetime: m.TokenLifetime, Services: keystone.Elsewhere(m.Catalog).Catalog(catalog())}
	for _, u := range m.Users {
		cfg.Users = append(cfg.Users, keystone.User(u))
	}
	return cfg
}
