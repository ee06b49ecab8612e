package simcloud

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
)

// Validate tells whether a cloud can be made of the listing, as far as that shows without
// making it: names and identifiers that are missing, malformed or there twice, and
// references to what is not listed, which a listing has that was read while somebody
// changed the cloud. The error matches [ErrListing], names the path of each fault and
// joins them all.
func (l Listing) Validate() error {
	c := &listingCheck{}
	if l.SchemaVersion != ListingSchema {
		c.fault("schema_version", "%d, want %d", l.SchemaVersion, ListingSchema)
	}
	c.placement(l.Placement)
	if l.Accelerator != nil {
		c.accelerator(*l.Accelerator)
	}
	return errors.Join(c.faults...)
}

// listingCheck collects the faults of a listing.
type listingCheck struct{ faults []error }

func (c *listingCheck) fault(path, format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%w: %s: %s", ErrListing, path, fmt.Sprintf(format, args...)))
}

// unique judges a name or identifier that only one thing may have.
func (c *listingCheck) unique(path, name string, seen map[string]bool) {
	switch {
	case name == "":
		c.fault(path, "it is missing")
	case seen[name]:
		c.fault(path, "%q is there twice", name)
	}
	seen[name] = true
}

// id is unique for UUIDs, which are written in lower case with dashes.
func (c *listingCheck) id(path, id string, seen map[string]bool) {
	if id != "" && !isUUID(id) {
		c.fault(path, "%q is not a UUID", id)
	}
	c.unique(path, id, seen)
}

// isUUID tells whether the text is a UUID in lower case with dashes.
func isUUID(text string) bool {
	return len(text) == 36 && nova.CanonicalUUID(text) == text
}

// bareHex is a UUID without dashes in lower case, or "" for anything else.
func bareHex(text string) string {
	bare := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if len(bare) != 32 || strings.Trim(bare, "0123456789abcdef") != "" {
		return ""
	}
	return bare
}

func (c *listingCheck) placement(p PlacementListing) {
	ids, names := make(map[string]bool), make(map[string]bool)
	for i, rp := range p.ResourceProviders {
		path := fmt.Sprintf("placement.resource_providers[%d]", i)
		c.id(path+".uuid", rp.UUID, ids)
		c.unique(path+".name", rp.Name, names)
		if rp.Generation < 0 {
			c.fault(path+".generation", "%d is negative", rp.Generation)
		}
		for _, class := range slices.Sorted(maps.Keys(rp.Inventories)) {
			c.inventory(path+".inventories."+class, rp.Inventories[class])
		}
	}
	c.parents(p)
	inventories := make(map[string]map[string]ListedInventory, len(p.ResourceProviders))
	for _, rp := range p.ResourceProviders {
		inventories[rp.UUID] = rp.Inventories
	}
	ids = make(map[string]bool)
	for i, consumer := range p.Consumers {
		path := fmt.Sprintf("placement.consumers[%d]", i)
		if bareHex(consumer.UUID) == "" {
			c.fault(path+".uuid", "%q is not a UUID", consumer.UUID)
		}
		c.unique(path+".uuid", consumer.UUID, ids)
		for _, provider := range slices.Sorted(maps.Keys(consumer.Allocations)) {
			for _, class := range slices.Sorted(maps.Keys(consumer.Allocations[provider])) {
				amount := consumer.Allocations[provider][class]
				if _, ok := inventories[provider][class]; !ok || amount < 1 {
					c.fault(path+".allocations."+provider, "%d of %s, of which the provider is not listed with any; read the cloud again when nobody changes it", amount, class)
				}
			}
		}
	}
}

func (c *listingCheck) inventory(path string, i ListedInventory) {
	switch {
	case i.Total < 1 || i.Reserved < 0 || i.Reserved > i.Total:
		c.fault(path, "total %d with %d reserved", i.Total, i.Reserved)
	case i.MinUnit < 1 || i.MaxUnit < 1 || i.StepSize < 1 || i.AllocationRatio <= 0:
		c.fault(path, "min_unit %d, max_unit %d, step_size %d, allocation_ratio %v, want more than 0 each", i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio)
	}
}

// parents judges that the providers are trees.
func (c *listingCheck) parents(p PlacementListing) {
	parent := make(map[string]string, len(p.ResourceProviders))
	for _, rp := range p.ResourceProviders {
		parent[rp.UUID] = rp.Parent
	}
	for i, rp := range p.ResourceProviders {
		path := fmt.Sprintf("placement.resource_providers[%d].parent_provider_uuid", i)
		if _, there := parent[rp.Parent]; rp.Parent != "" && !there {
			c.fault(path, "%s is not listed; read the cloud again when nobody changes it", rp.Parent)
			continue
		}
		steps := 0
		for at := rp.Parent; at != "" && steps <= len(parent); at = parent[at] {
			steps++
		}
		if steps > len(parent) {
			c.fault(path, "the provider is below itself")
			return
		}
	}
}

func (c *listingCheck) accelerator(a AcceleratorListing) {
	ids := make(map[string]bool)
	for i, d := range a.Devices {
		path := fmt.Sprintf("accelerator.devices[%d]", i)
		c.id(path+".uuid", d.UUID, ids)
		if d.Hostname == "" {
			c.fault(path+".hostname", "it is missing")
		}
		if d.Status != "" && d.Status != fakecyborg.StatusEnabled && d.Status != fakecyborg.StatusMaintaining {
			c.fault(path+".status", "%q is neither %s nor %s", d.Status, fakecyborg.StatusEnabled, fakecyborg.StatusMaintaining)
		}
	}
	ids, names := make(map[string]bool), make(map[string]bool)
	parts := make(map[string]bool)
	for i, d := range a.Deployables {
		path := fmt.Sprintf("accelerator.deployables[%d]", i)
		c.id(path+".uuid", d.UUID, ids)
		c.unique(path+".name", d.Name, names)
		c.id(path+".rp_uuid", d.ProviderUUID, make(map[string]bool)) // flat hosts share one
		parts[d.ProviderUUID] = true
		if d.DeviceID < 1 {
			c.fault(path+".device_id", "%d, want at least 1", d.DeviceID)
		}
		if d.NumAccelerators < 1 || d.NumAccelerators > maxListedUnits {
			c.fault(path+".num_accelerators", "%d, want 1 to %d", d.NumAccelerators, maxListedUnits)
		}
	}
	c.attributes(a)
	c.requests(a, parts)
}

// maxListedUnits is how many attach handles a deployable may have.
const maxListedUnits = 1 << 16

func (c *listingCheck) attributes(a AcceleratorListing) {
	ids := make(map[string]bool)
	for i, attribute := range a.Attributes {
		path := fmt.Sprintf("accelerator.attributes[%d]", i)
		c.id(path+".uuid", attribute.UUID, ids)
		if attribute.Key == "" {
			c.fault(path+".key", "it is missing")
		}
		if attribute.DeployableID < 1 {
			c.fault(path+".deployable_id", "%d, want at least 1", attribute.DeployableID)
		}
	}
}

// requests judges device profiles and accelerator requests.
func (c *listingCheck) requests(a AcceleratorListing, parts map[string]bool) {
	ids, groups := make(map[string]bool), make(map[string]int)
	names := make(map[string]bool)
	for i, p := range a.DeviceProfiles {
		path := fmt.Sprintf("accelerator.device_profiles[%d]", i)
		c.id(path+".uuid", p.UUID, ids)
		c.unique(path+".name", p.Name, names)
		if groups[p.Name] = len(p.Groups); len(p.Groups) == 0 {
			c.fault(path+".groups", "a device profile needs a group")
		}
	}
	ids = make(map[string]bool)
	for i, arq := range a.ARQs {
		path := fmt.Sprintf("accelerator.accelerator_requests[%d]", i)
		c.id(path+".uuid", arq.UUID, ids)
		c.request(path, arq, groups, parts)
	}
}

func (c *listingCheck) request(path string, arq ListedARQ, groups map[string]int, parts map[string]bool) {
	switch n, known := groups[arq.ProfileName]; {
	case !known:
		c.fault(path+".device_profile_name", "the device profile %q is not listed; read the cloud again when nobody changes it", arq.ProfileName)
	case arq.Group < 0 || arq.Group >= n:
		c.fault(path+".device_profile_group_id", "%d, and the device profile %s has %d groups", arq.Group, arq.ProfileName, n)
	}
	for _, field := range [][2]string{
		{"device_rp_uuid", arq.ProviderUUID}, {"instance_uuid", arq.InstanceUUID}, {"attach_handle_uuid", arq.AttachHandleUUID},
	} {
		if field[1] != "" && !isUUID(field[1]) {
			c.fault(path+"."+field[0], "%q is not a UUID", field[1])
		}
	}
	switch state := fakecyborg.State(arq.State); state {
	case fakecyborg.StateInitial, fakecyborg.StateUnbound, fakecyborg.StateBindFailed, fakecyborg.StateBindStarted:
	case fakecyborg.StateBound:
		if !parts[arq.ProviderUUID] {
			c.fault(path+".device_rp_uuid", "the request is Bound to %q, and no deployable of that provider is listed; read the cloud again when nobody changes it", arq.ProviderUUID)
		}
		if arq.AttachHandleType == "" || len(arq.AttachHandleInfo) == 0 {
			c.fault(path, "the request is Bound and has no attach handle")
		}
	default:
		c.fault(path+".state", "%q cannot be imported", arq.State)
	}
}
