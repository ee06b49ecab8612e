package spawn

// Compat switches single decisions of a flow from what shipped Nova does to what
// one of the specifications says. The zero value is the default; docs/compat.md
// lists every option with its reason. Fields and JSON names say what an option
// does.
type Compat struct {
	// OwnerNovaOnFlavorGroups requires OWNER_NOVA of the flavor's own VGPU
	// groups as well. Providers of a Nova before 34.0.0 have no such trait.
	OwnerNovaOnFlavorGroups bool `json:"owner_nova_on_flavor_groups,omitempty"`
	// NumericSuffixes speaks to a Placement before 1.34: numeric group suffixes
	// at microversion 1.32, and the provider of each group is searched for.
	NumericSuffixes bool `json:"numeric_suffixes,omitempty"`
	// SearchProviders searches for the provider of each group as Stein and Train
	// did, although Placement has told it in the mappings.
	SearchProviders bool `json:"search_providers,omitempty"`
	// FlatProviders takes the compute node's own provider for a device's, as in
	// a cloud whose Cyborg reports no nested providers.
	FlatProviders bool `json:"flat_providers,omitempty"`
	// Rebind keeps the ARQs over a reschedule: they are unbound and bound again
	// on the next host, as the specifications of Train and Ussuri say.
	Rebind bool `json:"rebind,omitempty"`
	// UnbindFirst unbinds ARQs explicitly before they are deleted.
	UnbindFirst bool `json:"unbind_first,omitempty"`
	// ResolvedByServer asks Cyborg for the resolved ARQs (bind_state=resolved,
	// 423 while there are others) instead of looking at their states here.
	ResolvedByServer bool `json:"resolved_by_server,omitempty"`
}
