package spawn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/devicespec"
	"github.com/gocyborg/gocyborg/internal/osloconf"
	"github.com/gocyborg/gocyborg/requestspec"
)

const (
	defaultARQBindingTimeout = 300 * time.Second // as nova-compute
	defaultMaxAttempts       = 3                 // as nova-scheduler
	defaultUnwindTimeout     = 2 * time.Minute

	maxARQBindingTimeout = 365 * 24 * time.Hour
)

// Weigher is the name of a weigher of package matching.
type Weigher string

// The weighers, by the candidates that they rank first.
const (
	// WeigherFunction: candidates whose regions have the function or bitstream of the device profile loaded
	// (matching.FunctionLoaded). Names are looked up in the image service, and bitstreams in Cyborg's deployables, of
	// up to 1,000 regions, with the flow's own token.
	WeigherFunction Weigher = "function"
	// WeigherFragments: candidates that begin to use the fewest unused devices (matching.FewestFragments).
	WeigherFragments Weigher = "fragments"
	// WeigherNUMA: candidates whose devices are on one NUMA node (matching.NUMAAffinity).
	WeigherNUMA Weigher = "numa"
)

// Config holds the options of a flow that an operator sets, named as in Nova. The zero value is the default. In JSON,
// times are whole seconds.
type Config struct {
	// ARQBindingTimeout is how long to wait for the ARQs to be bound, counted from the end of the bind request, in
	// whole seconds. 0 means 300 s; the maximum is a year. Nova's [DEFAULT]/arq_binding_timeout.
	ARQBindingTimeout time.Duration `json:"-"`
	// MaxAttempts is the number of hosts to try. 0 means 3; Nova's [scheduler]/max_attempts. Hosts that only refused
	// the claim do not count.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// UnwindTimeout limits the unwinding, which continues when the caller's context ends. 0 means two minutes. It is
	// not an option of Nova and not in JSON.
	UnwindTimeout time.Duration `json:"-"`
	// PlacementOrder tries the candidates in the order of Placement's response. By default their order depends on the
	// instance's UUID, so that parallel spawns do not all choose the first one; Nova shuffles hosts of equal weight.
	// Request.Order and Weighers are applied afterwards.
	PlacementOrder bool `json:"placement_order,omitempty"`
	// ExclusiveProject says that only this flow creates ARQs in the token's project: there is one flow, in one
	// process, and the project has no other use. ARQs from a create whose response was lost are then known to belong
	// to the flow, and are deleted. Otherwise they are reported as suspects, because an ARQ does not name its
	// creator.
	ExclusiveProject bool `json:"exclusive_project,omitempty"`
	// PCIDeviceSpec lists the PCI devices of this host that Nova assigns, in the form of [pci]device_spec: an object
	// or a list of objects with an address such as "0000:0a:00.*". An ARQ with such a device is an
	// [*OwnerConflictError]. Entries with only vendor and product match nothing.
	PCIDeviceSpec string `json:"pci_device_spec,omitempty"`
	// Weighers order the candidates when Request.Order is nil: the first one decides, the next one breaks ties.
	Weighers []Weigher `json:"weighers,omitempty"`
	// RockyFlavors converts flavors of the Rocky specification.
	RockyFlavors RockyFlavors `json:"rocky_flavors,omitzero"`
	// Compat makes single decisions follow a specification instead of shipped Nova.
	Compat Compat `json:"compat,omitzero"`
}

// withDefaults replaces zero fields with their defaults.
func (c Config) withDefaults() Config {
	c.ARQBindingTimeout = cmp.Or(c.ARQBindingTimeout, defaultARQBindingTimeout)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, defaultMaxAttempts)
	c.UnwindTimeout = cmp.Or(c.UnwindTimeout, defaultUnwindTimeout)
	return c
}

// check rejects invalid options; the error matches ErrConfig.
func (c Config) check() error {
	switch {
	case c.ARQBindingTimeout < time.Second, c.ARQBindingTimeout%time.Second != 0:
		return fmt.Errorf("%w: arq_binding_timeout: %s is not a positive number of whole seconds", ErrConfig, c.ARQBindingTimeout)
	case c.ARQBindingTimeout > maxARQBindingTimeout:
		return fmt.Errorf("%w: arq_binding_timeout: %s is longer than a year", ErrConfig, c.ARQBindingTimeout)
	case c.MaxAttempts < 1:
		return fmt.Errorf("%w: max_attempts: %d is below 1", ErrConfig, c.MaxAttempts)
	case c.UnwindTimeout < 0:
		return fmt.Errorf("%w: unwind timeout: %s is negative", ErrConfig, c.UnwindTimeout)
	}
	_, err := weighersOf(c.Weighers, requestspec.Profile{}, nil)
	return err
}

// UnmarshalJSON reads {"arq_binding_timeout": 300, "max_attempts": 3, "compat": {"rebind": true}}. Missing options
// get their defaults. Unknown options are rejected, and so are explicit zeros, unlike in Go. The error matches
// ErrConfig.
func (c *Config) UnmarshalJSON(data []byte) error {
	doc := configDocument{options: options(c.withDefaults())}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&doc)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	fresh := Config(doc.options)
	if doc.ARQBindingTimeout != nil {
		if fresh.ARQBindingTimeout, err = seconds("arq_binding_timeout", *doc.ARQBindingTimeout); err != nil {
			return err
		}
	}
	return c.set(fresh)
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c Config) MarshalJSON() ([]byte, error) {
	doc := configDocument{options: options(c)}
	if c.ARQBindingTimeout != 0 {
		timeout := int64(c.ARQBindingTimeout / time.Second)
		doc.ARQBindingTimeout = &timeout
	}
	return json.Marshal(doc)
}

type options Config // without the methods

// configDocument is a Config in JSON.
type configDocument struct {
	options
	ARQBindingTimeout *int64 `json:"arq_binding_timeout,omitempty"`
}

// seconds converts an option; the check of its limits follows.
func seconds(option string, n int64) (time.Duration, error) {
	if d := time.Duration(n) * time.Second; d/time.Second == time.Duration(n) {
		return d, nil
	}
	return 0, fmt.Errorf("%w: %s: %d seconds is longer than a year", ErrConfig, option, n)
}

// set replaces the configuration by a valid one.
func (c *Config) set(fresh Config) error {
	err := fresh.check()
	if err == nil {
		*c = fresh
	}
	return err
}

// ReadNovaConf reads arq_binding_timeout, [scheduler]max_attempts and [pci]device_spec from a file in the format of
// nova-cpu.conf or nova.conf. Options missing from the file keep their value or get their defaults; other options are
// ignored. The error names the option and matches ErrConfig.
func (c *Config) ReadNovaConf(r io.Reader) error {
	file, err := readConf(r)
	if err != nil {
		return err
	}
	return c.readNovaConf(file)
}

// readConf reads a file in the format of oslo.config.
func readConf(r io.Reader) (osloconf.File, error) {
	data, err := io.ReadAll(io.LimitReader(r, osloconf.MaxSize+1))
	if err == nil && len(data) > osloconf.MaxSize {
		err = fmt.Errorf("larger than %d bytes", osloconf.MaxSize)
	}
	if err != nil {
		return osloconf.File{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	file, err := osloconf.Parse(data)
	if err != nil {
		return osloconf.File{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return file, nil
}

func (c *Config) readNovaConf(file osloconf.File) (err error) {
	fresh := c.withDefaults()
	timeout := int64(fresh.ARQBindingTimeout / time.Second)
	attempts := int64(fresh.MaxAttempts)
	for _, option := range []struct {
		section, name string
		to            *int64
	}{{"DEFAULT", "arq_binding_timeout", &timeout}, {"scheduler", "max_attempts", &attempts}} {
		text, set := file.Last(option.section, option.name)
		if !set {
			continue
		}
		if *option.to, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("%w: %s: %q is not a whole number", ErrConfig, option.name, text)
		}
	}
	fresh.MaxAttempts = int(attempts)
	if fresh.ARQBindingTimeout, err = seconds("arq_binding_timeout", timeout); err != nil {
		return err
	}
	if err := fresh.readDeviceSpecs(file); err != nil {
		return err
	}
	return c.set(fresh)
}

// readDeviceSpecs reads [pci]device_spec and its former names.
func (c *Config) readDeviceSpecs(file osloconf.File) error {
	var texts []string
	for name, text := range devicespec.OfNova(file.All) {
		specs, err := readNovaSpecs(text)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrConfig, name, err)
		}
		for _, spec := range specs {
			texts = append(texts, spec.text)
		}
	}
	if len(texts) > 0 {
		c.PCIDeviceSpec = "[" + strings.Join(texts, ",") + "]"
	}
	return nil
}

// Compat switches single decisions of a flow from the behavior of shipped Nova to one of the specifications. The zero
// value is the default; docs/compat.md lists every option with its reason. Fields and JSON names describe what an
// option does.
type Compat struct {
	// OwnerNovaOnFlavorGroups also requires OWNER_NOVA in the flavor's own VGPU groups. Providers of a Nova before
	// 34.0.0 do not have this trait.
	OwnerNovaOnFlavorGroups bool `json:"owner_nova_on_flavor_groups,omitempty"`
	// NumericSuffixes is for a Placement before 1.34: it uses numeric group suffixes at microversion 1.32, and
	// searches for the provider of each group.
	NumericSuffixes bool `json:"numeric_suffixes,omitempty"`
	// SearchProviders searches for the provider of each group, as Stein and Train did, instead of reading Placement's
	// mappings.
	SearchProviders bool `json:"search_providers,omitempty"`
	// FlatProviders accepts devices on the compute node's own provider, for a Cyborg that does not report nested
	// providers.
	FlatProviders bool `json:"flat_providers,omitempty"`
	// Rebind keeps the ARQs at a reschedule: they are unbound, and bound again on the next host, as in the Train and
	// Ussuri specifications.
	Rebind bool `json:"rebind,omitempty"`
	// UnbindFirst unbinds ARQs explicitly before they are deleted.
	UnbindFirst bool `json:"unbind_first,omitempty"`
	// ResolvedByServer asks Cyborg for the resolved ARQs (bind_state=resolved,
	// 423 while there are others) instead of checking their states here.
	ResolvedByServer bool `json:"resolved_by_server,omitempty"`
}
