package requestspec

// Options are the inputs of a request besides flavor and device profile. The zero
// value is a server booted from an image, with the filters of shipped Nova.
type Options struct {
	// BootFromVolume leaves the flavor's root disk out of DISK_GB.
	BootFromVolume bool `json:"boot_from_volume,omitempty"`
	// OwnerNova adds OWNER_NOVA to the traits of the root provider and of the
	// groups of PCIRequests, as Nova does since 34.0.0 if ComputeVersion suffices.
	OwnerNova bool `json:"owner_nova,omitempty"`
	// OwnerNovaOnFlavorGroups restricts the flavor's own groups of VGPU, PGPU or
	// FPGA to Nova's devices, which shipped Nova does not: OWNER_NOVA is required
	// and, in the unsuffixed group, whose required traits the root alone may
	// satisfy, OWNER_CYBORG is forbidden. It needs OwnerNova.
	OwnerNovaOnFlavorGroups bool `json:"owner_nova_on_flavor_groups,omitempty"`
	// ComputeVersion is the lowest service version of all nova-compute services in
	// all cells; 0 means unknown and allows everything. OwnerNova needs
	// [MinComputeOwnerNova]; below it the request has a warning instead.
	ComputeVersion int `json:"compute_version,omitempty"`
	// PCIRequests are the ids of the flavor's PCI requests, whose groups are named
	// <id>-<n> (pci-in-placement, Nova 2023.1).
	PCIRequests []string `json:"pci_requests,omitempty"`
	// NoFilters omits the traits that Nova's request filters add for the root
	// provider: COMPUTE_ACCELERATORS, COMPUTE_STATUS_DISABLED and OWNER_NOVA.
	NoFilters bool `json:"no_filters,omitempty"`
	// ImageProperties are the properties of the image. trait:<name>=required adds a trait to the
	// unsuffixed group; another value is a warning.
	ImageProperties map[string]string `json:"image_properties,omitempty"`
	// Limit is the maximum number of candidates: 0 means [DefaultLimit], a negative
	// number omits the parameter, as Nova does for host hints.
	Limit int `json:"limit,omitempty"`
	// InTree restricts the unsuffixed group to the tree of this provider.
	InTree string `json:"in_tree,omitempty"`
	// Aggregates and ForbiddenAggregates restrict the unsuffixed group, for
	// availability zones and tenant isolation.
	Aggregates          [][]string `json:"aggregates,omitempty"`
	ForbiddenAggregates []string   `json:"forbidden_aggregates,omitempty"`
	// RootRequired and RootForbidden are additional traits of the root provider.
	RootRequired  []string `json:"root_required,omitempty"`
	RootForbidden []string `json:"root_forbidden,omitempty"`
	// SameSubtree are lists of requester ids.
	SameSubtree [][]string `json:"same_subtree,omitempty"`
	// NumericSuffixes writes the query for Placement before 1.33, as Nova of Stein
	// and Train did; see [RequestSpec.Microversion].
	NumericSuffixes bool `json:"numeric_suffixes,omitempty"`
	// Groups are additional request groups, for example of Neutron ports. Each needs
	// a unique requester id and content, and is served by one provider.
	Groups []Group `json:"-"`
}

const (
	// DeviceProfileKey is the extra spec that Nova reads for accelerators. Its value is
	// the name of a device profile.
	DeviceProfileKey = "accel:device_profile"

	// VNICAcceleratorDirect is a type of virtual NIC whose ports are backed by an
	// accelerator.
	VNICAcceleratorDirect = "accelerator-direct"
	// VNICAcceleratorDirectPhysical is another. Nova's release note calls it unsupported,
	// but Nova accepts it.
	VNICAcceleratorDirectPhysical = "accelerator-direct-physical"

	// DefaultLimit is Nova's [scheduler]max_placement_results.
	DefaultLimit = 1000
	// MinComputeOwnerNova is the service version of nova-compute that allows OWNER_NOVA:
	// older services do not report the trait.
	MinComputeOwnerNova = 73
	// MinComputePort is the service version of nova-compute that allows ports with a device
	// profile.
	MinComputePort = 57
)

func (o Options) limit() int {
	if o.Limit == 0 {
		return DefaultLimit
	}
	return max(o.Limit, 0)
}
