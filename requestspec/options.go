package requestspec

// DefaultLimit is Nova's [scheduler]max_placement_results.
const DefaultLimit = 1000

// Options are what shapes the request beside flavor and device profile. The
// zero value is an image-booted server with the filters of shipped Nova.
type Options struct {
	// BootFromVolume leaves the flavor's root disk out of DISK_GB.
	BootFromVolume bool `json:"boot_from_volume,omitempty"`
	// OwnerNova adds OWNER_NOVA to the traits of the root provider, as Nova does
	// from 34.0.0 once every nova-compute service is new enough.
	OwnerNova bool `json:"owner_nova,omitempty"`
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
	// Groups are request groups of other owners, for example of Neutron ports.
	// Each needs a requester id that no other group has, and content; a group
	// with a requester id is always served by one provider.
	Groups []Group `json:"-"`
}

// limit resolves the default.
func (o Options) limit() int {
	if o.Limit == 0 {
		return DefaultLimit
	}
	return max(o.Limit, 0)
}
