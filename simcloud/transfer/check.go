package transfer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// maxUnits is how many attach handles a deployable may have.
const maxUnits = 1 << 16

// Validate checks that a cloud can be made of the listing, as far as that shows without
// making it: names and ids are there, well formed and unique, and what they refer to is
// listed. A listing of a cloud that changed while it was read may refer to what is not. The
// error matches [ErrListing] and names the path of each fault.
func (l Listing) Validate() error {
	c := &checker{seen: make(map[string]bool)}
	if l.SchemaVersion != ListingSchema {
		c.fault("schema_version", "%d, want %d", l.SchemaVersion, ListingSchema)
	}
	if l.ReadAt.IsZero() {
		c.fault("read_at", "missing")
	}
	c.providers(l.Placement.ResourceProviders)
	c.consumers(l.Placement)
	if l.Accelerator != nil {
		c.devices(*l.Accelerator)
		c.requests(*l.Accelerator)
	}
	return errors.Join(c.faults...)
}

// checker collects the faults of a listing.
type checker struct {
	faults []error
	seen   map[string]bool // names and ids, behind what they are of
}

func (c *checker) fault(path, format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%w: %s: %s", ErrListing, path, fmt.Sprintf(format, args...)))
}

// missing is the fault of a reference to something that is not listed.
func (c *checker) missing(path, what, name string) {
	c.fault(path, "%s %q is not listed; read the cloud again when nothing changes", what, name)
}

// unique checks a name or id that only one of a kind may have.
func (c *checker) unique(path, kind, name string) {
	switch key := kind + " " + name; {
	case name == "":
		c.fault(path, "missing")
	case c.seen[key]:
		c.fault(path, "%q is there twice", name)
	default:
		c.seen[key] = true
	}
}

// id checks a UUID, which must be in lower case with dashes.
func (c *checker) id(path, id string) {
	if len(id) != 36 || uuid.Validate(id) != nil || id != strings.ToLower(id) {
		c.fault(path, "%q is not a UUID", id)
	}
}

func (c *checker) uniqueID(path, kind, id string) {
	c.id(path, id)
	c.unique(path, kind, id)
}

func (c *checker) providers(list []ListedProvider) {
	parents := make(map[string]string, len(list))
	for i, p := range list {
		path := fmt.Sprintf("placement.resource_providers[%d]", i)
		c.uniqueID(path+".uuid", "provider", p.UUID)
		c.unique(path+".name", "provider name", p.Name)
		if parents[p.UUID] = p.Parent; p.Generation < 0 {
			c.fault(path+".generation", "%d is negative", p.Generation)
		}
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			c.inventory(path+".inventories."+class, p.Inventories[class])
		}
	}
	for i, p := range list {
		path := fmt.Sprintf("placement.resource_providers[%d].parent_provider_uuid", i)
		if _, listed := parents[p.Parent]; p.Parent != "" && !listed {
			c.missing(path, "resource provider", p.Parent)
			continue
		}
		at, steps := p.Parent, 0
		for ; at != "" && steps < len(list); steps++ {
			at = parents[at]
		}
		if at != "" {
			c.fault(path, "the provider is below itself")
			return
		}
	}
}

func (c *checker) inventory(path string, i ListedInventory) {
	switch {
	case i.Total < 1 || i.Reserved < 0 || i.Reserved > i.Total:
		c.fault(path, "total %d with %d reserved", i.Total, i.Reserved)
	case i.MinUnit < 1 || i.MaxUnit < 1 || i.StepSize < 1 || i.AllocationRatio <= 0:
		c.fault(path, "min_unit %d, max_unit %d, step_size %d, allocation_ratio %v, want more than 0 each", i.MinUnit, i.MaxUnit, i.StepSize, i.AllocationRatio)
	}
}

func (c *checker) consumers(p PlacementListing) {
	inventories := make(map[string]map[string]ListedInventory, len(p.ResourceProviders))
	for _, rp := range p.ResourceProviders {
		inventories[rp.UUID] = rp.Inventories
	}
	for i, consumer := range p.Consumers {
		path := fmt.Sprintf("placement.consumers[%d]", i)
		if bareHex(consumer.UUID) == "" {
			c.fault(path+".uuid", "%q is not a UUID", consumer.UUID)
		}
		c.unique(path+".uuid", "consumer", consumer.UUID)
		for _, provider := range slices.Sorted(maps.Keys(consumer.Allocations)) {
			for _, class := range slices.Sorted(maps.Keys(consumer.Allocations[provider])) {
				amount := consumer.Allocations[provider][class]
				if _, ok := inventories[provider][class]; !ok {
					c.missing(path+".allocations."+provider, "inventory", class)
				} else if amount < 1 {
					c.fault(path+".allocations."+provider, "%d of %s, want at least 1", amount, class)
				}
			}
		}
	}
}

func (c *checker) devices(a AcceleratorListing) {
	for i, d := range a.Devices {
		path := fmt.Sprintf("accelerator.devices[%d]", i)
		c.uniqueID(path+".uuid", "device", d.UUID)
		if d.Hostname == "" {
			c.fault(path+".hostname", "missing")
		}
		if d.Status != "" && d.Status != fakecyborg.StatusEnabled && d.Status != fakecyborg.StatusMaintaining {
			c.fault(path+".status", "%q, want %s or %s", d.Status, fakecyborg.StatusEnabled, fakecyborg.StatusMaintaining)
		}
	}
	for i, d := range a.Deployables {
		path := fmt.Sprintf("accelerator.deployables[%d]", i)
		c.uniqueID(path+".uuid", "deployable", d.UUID)
		c.unique(path+".name", "deployable name", d.Name)
		c.id(path+".rp_uuid", d.ProviderUUID) // those of a flat host share one
		if d.DeviceID < 1 {
			c.fault(path+".device_id", "%d, want at least 1", d.DeviceID)
		}
		if d.NumAccelerators < 1 || d.NumAccelerators > maxUnits {
			c.fault(path+".num_accelerators", "%d, want 1 to %d", d.NumAccelerators, maxUnits)
		}
	}
	for i, attribute := range a.Attributes {
		path := fmt.Sprintf("accelerator.attributes[%d]", i)
		c.uniqueID(path+".uuid", "attribute", attribute.UUID)
		if attribute.Key == "" {
			c.fault(path+".key", "missing")
		}
		if attribute.DeployableID < 1 {
			c.fault(path+".deployable_id", "%d, want at least 1", attribute.DeployableID)
		}
	}
}

// requests checks device profiles and accelerator requests.
func (c *checker) requests(a AcceleratorListing) {
	groups, providers := make(map[string]int), make(map[string]bool)
	for i, p := range a.DeviceProfiles {
		path := fmt.Sprintf("accelerator.device_profiles[%d]", i)
		c.uniqueID(path+".uuid", "device profile", p.UUID)
		c.unique(path+".name", "device profile name", p.Name)
		if groups[p.Name] = len(p.Groups); len(p.Groups) == 0 {
			c.fault(path+".groups", "a device profile needs a group")
		}
	}
	for _, d := range a.Deployables {
		providers[d.ProviderUUID] = true
	}
	for i, arq := range a.ARQs {
		path := fmt.Sprintf("accelerator.accelerator_requests[%d]", i)
		c.uniqueID(path+".uuid", "accelerator request", arq.UUID)
		for _, field := range [][2]string{
			{"device_rp_uuid", arq.ProviderUUID}, {"instance_uuid", arq.InstanceUUID}, {"attach_handle_uuid", arq.AttachHandleUUID},
		} {
			if field[1] != "" {
				c.id(path+"."+field[0], field[1])
			}
		}
		if n, listed := groups[arq.ProfileName]; !listed {
			c.missing(path+".device_profile_name", "device profile", arq.ProfileName)
		} else if arq.Group < 0 || arq.Group >= n {
			c.fault(path+".device_profile_group_id", "%d, and the device profile %s has %d groups", arq.Group, arq.ProfileName, n)
		}
		c.state(path, arq, providers)
	}
}

func (c *checker) state(path string, arq ListedARQ, providers map[string]bool) {
	switch fakecyborg.State(arq.State) {
	case fakecyborg.StateInitial, fakecyborg.StateUnbound, fakecyborg.StateBindFailed, fakecyborg.StateBindStarted:
	case fakecyborg.StateBound:
		if !providers[arq.ProviderUUID] {
			c.missing(path+".device_rp_uuid", "a deployable of resource provider", arq.ProviderUUID)
		}
		if arq.AttachHandleType == "" || len(arq.AttachHandleInfo) == 0 {
			c.fault(path, "the request is Bound and has no attach handle")
		}
	default:
		c.fault(path+".state", "%q cannot be imported", arq.State)
	}
}
