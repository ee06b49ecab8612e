package requestspec

// DefaultLimit is Nova's [scheduler]max_placement_results.
const DefaultLimit = 1000

// Options are what shapes the request beside flavor and device profile. The
// zero value is an image-booted server with the filters of shipped Nova.
type Options struct {
	// BootFromVolume leaves the flavor's root disk out of DISK_GB.
	BootFromVolume bool `json:"boot_from_volume,omitempty"`
	// OwnerNova adds OWNER_NOVA to the traits of the root provider and of the
	// groups of PCIRequests, as Nova does from 34.0.0 on once ComputeVersion lets it.
	OwnerNova bool `json:"owner_nova,omitempty"`
	// OwnerNovaOnFlavorGroups asks the flavor's own groups of VGPU, PGPU or FPGA
	// for Nova's devices, too, which shipped Nova does not: OWNER_NOVA is required
	// of them and, in the unsuffixed group, whose traits the root alone would
	// satisfy, OWNER_CYBORG is forbidden. It needs OwnerNova.
	OwnerNovaOnFlavorGroups bool `json:"owner_nova_on_flavor_groups,omitempty"`
	// ComputeVersion is the lowest service version of all nova-compute services
	// over all cells; 0 means that it is not known and that nothing is held back.
	// OwnerNova needs [MinComputeOwnerNova]; below it the request carries a warning.
	ComputeVersion int `json:"compute_version,omitempty"`
	// PCIRequests are the ids of the flavor's PCI requests; the groups <id>-<n> are theirs.
	PCIRequests []string `json:"pci_requests,omitempty"`
	// NoFilters leaves out what Nova's request filters add to the root
	// provider: COMPUTE_ACCELERATORS, COMPUTE_STATUS_DISABLED and OWNER_NOVA.
	NoFilters bool `json:"no_filters,omitempty"`
	// ImageTraits are the traits that the image requires; they join the
	// unsuffixed group.
	ImageTraits []string `json:"image_traits,omitempty"`
	// Limit is the greatest number of candidates: 0 means [DefaultLimit], a
	// negative number leaves the parameter out, as Nova does for host hints.
	Limit int `json:"limit,omitempty"`
	// InTree restricts the unsuffixed group to the tree of this provider.
	InTree string `json:"in_tree,omitempty"`
	// Aggregates and ForbiddenAggregates restrict the unsuffixed group, as
	// availability zones and tenant isolation do.
	Aggregates          [][]string `json:"aggregates,omitempty"`
	ForbiddenAggregates []string   `json:"forbidden_aggregates,omitempty"`
	// RootRequired and RootForbidden are further traits of the root provider.
	RootRequired  []string `json:"root_required,omitempty"`
	RootForbidden []string `json:"root_forbidden,omitempty"`
	// SameSubtree are lists of requester ids.
	SameSubtree [][]string `json:"same_subtree,omitempty"`
	// NumericSuffixes writes the query for Placement before 1.33, as Nova of Stein
	// and Train did; see [RequestSpec.Microversion].
	NumericSuffixes bool `json:"numeric_suffixes,omitempty"`
	// LateGroupErrors reads the device profile as Nova does, which finds out too
	// late that a group cannot be scheduled; see [ParseProfile].
	LateGroupErrors bool `json:"late_group_errors,omitempty"`
	// Groups are request groups of other owners, for example of Neutron ports.
	// Each needs a requester id that no other group has, and content; a group
	// with a requester id is always served by one provider.
	Groups []Group `json:"-"`
}

// Service versions of nova-compute that open a gate.
const (
	// MinComputeOwnerNova is what every nova-compute must have before Nova asks
	// for OWNER_NOVA: an older one does not put the trait on its providers.
	MinComputeOwnerNova = 73
	// MinComputePort is what every nova-compute must have before Nova takes a port
	// with a device profile.
	MinComputePort = 57
)

// limit resolves the default.
func (o Options) limit() int {
	if o.Limit == 0 {
		return DefaultLimit
	}
	return max(o.Limit, 0)
}
