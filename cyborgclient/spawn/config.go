package spawn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gopkg.in/ini.v1"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/pcispec"
	"github.com/gocyborg/gocyborg/requestspec"
)

// ErrConfig is matched by every error about a configuration that cannot be
// used; the text names the option.
var ErrConfig = errors.New("spawn: bad configuration")

// Defaults of Config.
const (
	DefaultARQBindingTimeout = 300 // seconds, as nova-compute
	DefaultUnwindTimeout     = 2 * time.Minute
	DefaultMaxAttempts       = 3 // as nova-scheduler
)

// Config holds the options of a flow, named as Nova names them. The zero value
// is the default.
type Config struct {
	// ARQBindingTimeout is how long to wait for the ARQs to be bound, in whole
	// seconds, counted from the end of the bind request. 0 means 300; Nova's
	// [DEFAULT]/arq_binding_timeout.
	ARQBindingTimeout int `json:"arq_binding_timeout,omitempty"`
	// MaxAttempts is how many hosts are tried when a claim is refused because
	// somebody else was faster. 0 means 3; Nova's [scheduler]/max_attempts.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// UnwindTimeout bounds the unwinding, which runs on a context of its own.
	// 0 means two minutes. It has no name in Nova and no place in JSON.
	UnwindTimeout time.Duration `json:"-"`
	// RotateCandidates begins the list of candidates at a place that depends on
	// the instance's UUID, so that parallel spawns do not all want the first one.
	// It comes before Request.Order. Nova shuffles hosts of equal weight instead.
	RotateCandidates bool `json:"rotate_candidates,omitempty"`
	// PCIDeviceSpec is what Nova offers of this host's PCI devices, in the form of
	// [pci]device_spec: an object or a list of objects with an address such as
	// "0000:0a:00.*". An ARQ whose device fits is an [*OwnerConflictError]. What
	// names vendor and product alone fits nothing: a handle does not tell them.
	PCIDeviceSpec string `json:"pci_device_spec,omitempty"`
	// Weighers order the candidates where Request.Order does not: the first one
	// named decides, the next where it finds them equal. See the Weigh constants.
	Weighers []string `json:"weighers,omitempty"`
	// VerifyProfile reads the device profiles once more after the ARQs were made,
	// and fails when one is not what the request was made of. Without it only the
	// counts and the indices of the groups are verified.
	VerifyProfile bool `json:"verify_profile,omitempty"`
	// RockyFlavors takes flavors without a device profile, too.
	RockyFlavors RockyFlavors `json:"rocky_flavors,omitzero"`
	// Compat switches single decisions to Nova's; see docs/compat.md.
	Compat Compat `json:"compat,omitzero"`
}

// withDefaults fills the zero fields and refuses what makes no sense; the
// error matches ErrConfig.
func (c Config) withDefaults() (Config, error) {
	if c.ARQBindingTimeout == 0 {
		c.ARQBindingTimeout = DefaultARQBindingTimeout
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.UnwindTimeout == 0 {
		c.UnwindTimeout = DefaultUnwindTimeout
	}
	if _, err := weighersOf(c.Weighers, requestspec.DeviceProfile{}); err != nil {
		return c, err
	}
	switch {
	case c.ARQBindingTimeout < 1:
		return c, fmt.Errorf("%w: arq_binding_timeout: %d is below 1 second", ErrConfig, c.ARQBindingTimeout)
	case c.MaxAttempts < 1:
		return c, fmt.Errorf("%w: max_attempts: %d is below 1", ErrConfig, c.MaxAttempts)
	case c.UnwindTimeout < 0:
		return c, fmt.Errorf("%w: unwind timeout: %s is negative", ErrConfig, c.UnwindTimeout)
	}
	return c, nil
}

func (c Config) bindingTimeout() time.Duration {
	return time.Duration(c.ARQBindingTimeout) * time.Second
}

// UnmarshalJSON reads {"arq_binding_timeout": 300, "max_attempts": 3, "compat":
// {"rebind": true}}. Unknown options are refused; so is, unlike in Go, a zero that
// is written down. The error matches ErrConfig.
func (c *Config) UnmarshalJSON(data []byte) error {
	type options Config // without this method
	fresh := *c
	given := struct {
		*options
		ARQBindingTimeout *int `json:"arq_binding_timeout"`
		MaxAttempts       *int `json:"max_attempts"`
	}{options: (*options)(&fresh)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&given); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, option := range []struct {
		name      string
		value, to *int
	}{
		{"arq_binding_timeout", given.ARQBindingTimeout, &fresh.ARQBindingTimeout},
		{"max_attempts", given.MaxAttempts, &fresh.MaxAttempts},
	} {
		if option.value == nil {
			continue
		}
		if *option.to = *option.value; *option.to < 1 {
			return fmt.Errorf("%w: %s: %d is below 1", ErrConfig, option.name, *option.to)
		}
	}
	*c = fresh
	return nil
}

// ReadNovaConf reads the options of Config from a file in the format of
// nova-cpu.conf or nova.conf, and leaves alone what the file does not set.
// Sections and options of others are passed over. The error names the option
// and matches ErrConfig.
func (c *Config) ReadNovaConf(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxConfSize+1))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if len(data) > maxConfSize {
		return fmt.Errorf("%w: larger than %d bytes", ErrConfig, maxConfSize)
	}
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreInlineComment:        true, // oslo.config keeps them as part of the value
		AllowPythonMultilineValues: true,
		SkipUnrecognizableLines:    true,
		AllowShadows:               true, // device_spec may be given many times
	}, data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	fresh := *c
	for _, option := range []struct {
		section, name string
		to            *int
	}{{"DEFAULT", "arq_binding_timeout", &fresh.ARQBindingTimeout}, {"scheduler", "max_attempts", &fresh.MaxAttempts}} {
		key, err := file.Section(option.section).GetKey(option.name)
		if err != nil {
			continue // not set
		}
		text := "" // of an option that is given more than once the last value counts
		for _, value := range key.ValueWithShadows() {
			text = strings.TrimSpace(value)
		}
		if *option.to, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%w: %s: %q is not a whole number", ErrConfig, option.name, text)
		}
		if *option.to < 1 {
			return fmt.Errorf("%w: %s: %d is below 1", ErrConfig, option.name, *option.to)
		}
	}
	if err := fresh.readDeviceSpecs(file.Section("pci")); err != nil {
		return err
	}
	*c = fresh
	return nil
}

// readDeviceSpecs reads [pci]device_spec, which may be given many times, each
// with an object or a list of them, and its old name.
func (c *Config) readDeviceSpecs(section *ini.Section) error {
	var texts []string
	for _, name := range []string{"device_spec", "passthrough_whitelist"} {
		key, err := section.GetKey(name)
		if err != nil {
			continue // not set
		}
		for _, text := range key.ValueWithShadows() {
			specs, err := pcispec.Parse(text)
			if err != nil {
				return fmt.Errorf("%w: [pci]%s: %w", ErrConfig, name, err)
			}
			for _, spec := range specs {
				texts = append(texts, spec.String())
			}
		}
	}
	if len(texts) > 0 {
		c.PCIDeviceSpec = "[" + strings.Join(texts, ",") + "]"
	}
	return nil
}

// maxConfSize is far above any nova.conf with all its comments.
const maxConfSize = 4 << 20

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
