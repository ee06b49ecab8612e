package requestspec

import (
	"slices"
	"strings"
)

// The traits of Nova's request filters.
const (
	traitAccelerators = "COMPUTE_ACCELERATORS"
	traitDisabled     = "COMPUTE_STATUS_DISABLED"
	traitOwnerNova    = "OWNER_NOVA"
	traitOwnerCyborg  = "OWNER_CYBORG"
)

// rootFilter has the traits that Nova's request filters and the caller require of the
// root provider.
type rootFilter struct {
	required, forbidden []string
	owner               bool // OWNER_NOVA is required
}

// filter applies nova/scheduler/request_filter.py: accelerators_filter,
// compute_status_filter and owner_nova_filter.
func (a *assembly) filter(accelerators bool, opts Options) rootFilter {
	f := rootFilter{required: slices.Clone(opts.RootRequired), forbidden: slices.Clone(opts.RootForbidden)}
	if !opts.NoFilters {
		f.forbidden = append(f.forbidden, traitDisabled)
		if accelerators {
			f.required = append(f.required, traitAccelerators)
		}
		f.owner = opts.OwnerNova && a.ownerGate(opts)
		if f.owner {
			f.required = append(f.required, traitOwnerNova)
		}
	}
	f.required, f.forbidden = sortedSet(f.required), sortedSet(f.forbidden)
	return f
}

// ownerGate is false while a nova-compute is too old to report the trait of its
// providers. Nova skips this check when the trait is required already.
func (a *assembly) ownerGate(opts Options) bool {
	old := opts.ComputeVersion > 0 && opts.ComputeVersion < MinComputeOwnerNova
	if !old || slices.Contains(opts.RootRequired, traitOwnerNova) {
		return true
	}
	a.warn("root_required", traitOwnerNova, "OWNER_NOVA trait not added to scheduling request: "+
		"not all nova-compute services are upgraded (min_version=%d, need %d).", opts.ComputeVersion, MinComputeOwnerNova)
	return false
}

// own applies the filter to the flavor's own groups.
func (a *assembly) own(f rootFilter, opts Options) {
	if !f.owner || !opts.OwnerNovaOnFlavorGroups {
		return
	}
	for _, g := range a.groups {
		if g.Resources["VGPU"]+g.Resources["PGPU"]+g.Resources["FPGA"] == 0 {
			continue
		}
		g.Required = append(g.Required, traitOwnerNova)
		if g.RequesterID == "" {
			g.Forbidden = append(g.Forbidden, traitOwnerCyborg)
		}
	}
}

// pciGroups returns the groups of opts. Groups of the flavor's PCI requests require OWNER_NOVA.
// Groups of ports and of device profiles never have it.
func (f rootFilter) pciGroups(opts Options) []Group {
	if !f.owner || len(opts.PCIRequests) == 0 {
		return opts.Groups
	}
	groups := slices.Clone(opts.Groups)
	for i, g := range groups {
		at := strings.LastIndexByte(g.RequesterID, '-')
		if at > 0 && digits(g.RequesterID[at+1:]) && slices.Contains(opts.PCIRequests, g.RequesterID[:at]) {
			groups[i].Required = append(slices.Clone(g.Required), traitOwnerNova)
		}
	}
	return groups
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
