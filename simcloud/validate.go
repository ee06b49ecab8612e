package simcloud

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

const maxProviderName = 200 // Placement's limit

// Validate checks names, amounts and devices. The error matches [ErrModel] and joins the faults,
// each with its path; if there are more than nine, it has eight and the number of the others.
// Only [New] reports what drivers and services refuse. [WithDriver] is the only option that it
// uses: the model may enable its driver.
func (m Model) Validate(opts ...Option) error { return m.validate(newSettings(opts).drivers) }

// validate is Validate with the drivers that may be enabled; nil: any may.
func (m Model) validate(drivers *builtin.Registry) error {
	c := &validation{registry: drivers, providers: make(map[string]string), uuids: make(map[string]string)}
	for i, h := range m.Hosts {
		c.host(fmt.Sprintf("hosts[%d]", i), h)
	}
	names := make(map[string]bool)
	for i, p := range m.DeviceProfiles {
		path := fmt.Sprintf("device_profiles[%d]", i)
		c.unique(path+".name", p.Name, names)
		if len(p.Groups) == 0 {
			c.fault(path+".groups", "a device profile needs a group")
		}
	}
	names = make(map[string]bool)
	for i, f := range m.Flavors {
		path := fmt.Sprintf("flavors[%d]", i)
		c.unique(path+".name", f.Name, names)
		c.notNegative(path, map[string]int{
			"vcpus": f.VCPUs, "ram": f.MemoryMB, "disk": f.RootGB, "ephemeral": f.EphemeralGB, "swap": f.SwapMB,
		})
	}
	c.guestSource(m)
	if _, err := nova.ParseRelease(m.NovaRelease); err != nil {
		c.fault("nova_release", err.Error())
	}
	if err := keystone.Elsewhere(m.Catalog).Check(); err != nil {
		c.faultsOf("catalog", err)
	}
	if err := m.identity().Validate(); err != nil {
		c.faultsOf("users", err)
	}
	if err := m.Collation.Check(); err != nil {
		c.fault("collation", err.Error())
	}
	if err := m.Cyborg.Validate(); err != nil {
		c.faultsOf("cyborg", err)
	}
	if c.count > maxFaults {
		const shown = maxFaults - 1
		c.faults = append(c.faults[:shown], fmt.Errorf("%w: ... and %d more", ErrModel, c.count-shown))
	}
	return errors.Join(c.faults...)
}

// maxFaults limits the lines of an error about a model.
const maxFaults = 9

// validation collects the faults of a model.
type validation struct {
	registry  *builtin.Registry // nil: drivers are not checked
	faults    []error
	count     int               // of all faults
	providers map[string]string // path by the name of a provider
	uuids     map[string]string // path by the uuid of a host's provider
}

func (c *validation) fault(path, problem string) {
	if c.count++; c.count > maxFaults {
		return
	}
	c.faults = append(c.faults, fmt.Errorf("%w: %w", ErrModel, strictjson.At(path, problem)))
}

// faultsOf adds each fault that an error joins.
func (c *validation) faultsOf(path string, err error) {
	for _, fault := range joinedIn(err) {
		c.fault(path, fault.Error())
	}
}

// joinedIn returns the errors that an error joins, or the error.
func joinedIn(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only the outermost error joins them
	if !ok || !strings.Contains(err.Error(), "\n") {
		return []error{err}
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, joinedIn(each)...)
	}
	return all
}

func (c *validation) unique(path, name string, seen map[string]bool) {
	switch {
	case name == "":
		c.fault(path, "the name is missing")
	case seen[name]:
		c.fault(path, fmt.Sprintf("%q occurs twice", name))
	}
	seen[name] = true
}

func (c *validation) notNegative(path string, amounts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if amounts[name] < 0 {
			c.fault(strictjson.Join(path, name), fmt.Sprintf("%d is negative", amounts[name]))
		}
	}
}

// provider checks the name of a resource provider: unique in the whole cloud.
func (c *validation) provider(path, name string) {
	switch other, taken := c.providers[name]; {
	case name == "" || len(name) > maxProviderName:
		c.fault(path, fmt.Sprintf("the name has %d characters, want 1 to %d", len(name), maxProviderName))
	case taken:
		c.fault(path, fmt.Sprintf("the provider name %q occurs at %s, too", name, other))
	default:
		c.providers[name] = path
	}
}

func (c *validation) traits(path string, traits []string) {
	for i, trait := range traits {
		if err := driver.CheckTrait(trait); err != nil {
			c.fault(fmt.Sprintf("%s[%d]", path, i), err.Error())
		}
	}
}

func (c *validation) host(path string, h Host) {
	c.provider(path+".name", h.Name)
	if h.ProviderUUID != "" {
		c.providerUUID(path+".provider_uuid", h.ProviderUUID)
	}
	if !isHostName(h.Name) {
		c.fault(path+".name", fmt.Sprintf("%q is not a host name", h.Name))
	}
	c.root(path, h)
	c.notNegative(path, map[string]int{"vcpus": h.VCPUs, "ram": h.MemoryMB, "disk": h.DiskGB})
	c.traits(path+".traits", h.Traits)
	for i, p := range h.Providers {
		here := fmt.Sprintf("%s.providers[%d]", path, i)
		c.provider(here+".name", p.Name)
		c.traits(here+".traits", p.Traits)
		for _, class := range slices.Sorted(maps.Keys(p.Inventory)) {
			if err := driver.CheckResourceClass(class); err != nil {
				c.fault(here+".inventory."+class, err.Error())
			}
			if p.Inventory[class] < 1 {
				c.fault(here+".inventory."+class, fmt.Sprintf("%d, want at least 1", p.Inventory[class]))
			}
		}
	}
	if h.Nova != nil {
		c.nova(path+".nova", h)
	}
	for i, d := range h.Devices {
		here := fmt.Sprintf("%s.devices[%d]", path, i)
		if err := d.Validate(); err != nil {
			name := fmt.Sprintf("%v %s: ", driver.ErrInvalidDevice, d.ControlPath.Key())
			for _, fault := range joinedIn(err) {
				c.fault(here, strings.TrimPrefix(fault.Error(), name)) // the path names it
			}
		}
		for j, p := range d.Deployables {
			c.provider(fmt.Sprintf("%s.deployable_list[%d].name", here, j), p.Name)
		}
	}
	c.hardware(path, h)
}

// root checks which service makes the provider of a host, and that the model has nothing of what
// nova-compute makes.
func (c *validation) root(path string, h Host) {
	switch {
	case h.Root != "" && h.Root != RootNova:
		c.fault(path+".root", fmt.Sprintf("%q is not %q", h.Root, RootNova))
	case h.Root == "":
	case h.ProviderUUID != "":
		c.fault(path+".provider_uuid", "nova-compute makes the provider")
	case len(h.Providers) > 0:
		c.fault(path+".providers", "nova-compute makes them")
	case h.VCPUs != 0 || h.MemoryMB != 0 || h.DiskGB != 0 || h.Traits != nil:
		c.fault(path, "nova-compute sets vcpus, ram, disk and traits")
	case h.Nova != nil && len(h.Nova.VGPUs)+len(h.Nova.PCI) > 0:
		c.fault(path+".nova", "nova-compute makes the providers of vgpus and pci")
	}
}

// isHostName reports whether a host may have the name.
func isHostName(name string) bool { return !strings.ContainsAny(name, " /\t\n\x00") }

// providerUUID checks that the uuid of a host's provider is a unique UUID.
func (c *validation) providerUUID(path, id string) {
	switch other, taken := c.uuids[id]; {
	case !uuids.Is(id) || id != strings.ToLower(id):
		c.fault(path, fmt.Sprintf("%q is not a UUID in lower case", id))
	case taken:
		c.fault(path, fmt.Sprintf("the uuid %s occurs at %s, too", id, other))
	default:
		c.uuids[id] = path
	}
}

func (c *validation) hardware(path string, h Host) {
	if h.Sysfs != nil {
		switch s := h.Sysfs; {
		case s.Dir != "" && s.Devices != nil:
			c.fault(path+".sysfs", "dir and devices exclude each other")
		case s.Dir != "" && s.MdevParents != nil:
			c.fault(path+".sysfs", "dir and mdev_parents exclude each other")
		case s.Dir == "" && s.Write:
			c.fault(path+".sysfs.write", "needs dir")
		}
	}
	if h.Drivers != nil {
		c.drivers(path+".drivers", h)
	}
}
