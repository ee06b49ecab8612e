package nic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/driver"
)

// Config is the configuration of the driver. Upstream's option is named with each field.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host; upstream takes the name of
	// the operating system).
	Host string `json:"host"`
	driver.Policy
	// EnabledNICTypes say what is behind the ports ([nic_devices] enabled_nic_types, and
	// for each a section of its name). A port that none of them mentions is offered
	// without a network.
	EnabledNICTypes []Type `json:"enabled_nic_types,omitempty"`
}

// Type is one kind of configured ports.
type Type struct {
	// Name is the name of the section, such as x710_static.
	Name string `json:"name"`
	// PhysicalDeviceMappings give the interfaces on each physical network
	// (physical_device_mappings = physnet1:eth2|eth3).
	PhysicalDeviceMappings Mappings `json:"physical_device_mappings,omitempty"`
	// FunctionDeviceMappings give the interfaces with each function
	// (function_device_mappings = GTPv1:eth3|eth2).
	FunctionDeviceMappings Mappings `json:"function_device_mappings,omitempty"`
	// DeviceAddresses are the PCI addresses of the functions to offer (device_addresses, since
	// 2026.2), in either case: a physical function includes all of its virtual functions. If no
	// type has addresses, every function is offered.
	DeviceAddresses []string `json:"device_addresses,omitempty"`
}

// Mappings lead from the name of a network or function to the interfaces it belongs to.
// In JSON it is an object of lists, or a string in the form of upstream's options.
type Mappings map[string][]string

// ParseMappings reads the form of upstream's options, a list of NAME:INTERFACE|INTERFACE
// separated by commas. Blanks around the parts do not count. The error wraps
// driver.ErrConfig and quotes the entry.
func ParseMappings(text string) (Mappings, error) {
	m := make(Mappings)
	if strings.TrimSpace(text) == "" {
		return m, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		key, list, found := strings.Cut(entry, ":")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			return nil, fmt.Errorf("%w: mapping %q: want NAME:INTERFACE|INTERFACE", driver.ErrConfig, entry)
		}
		if m[key] != nil {
			return nil, fmt.Errorf("%w: mapping %q: %s appears twice", driver.ErrConfig, entry, key)
		}
		for name := range strings.SplitSeq(list, "|") {
			m[key] = append(m[key], strings.TrimSpace(name))
		}
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%w: mapping %q: %w", driver.ErrConfig, entry, err)
		}
	}
	return m, nil
}

// UnmarshalJSON reads an object of lists or upstream's text.
func (m *Mappings) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		parsed, err := ParseMappings(text)
		if err == nil {
			*m = parsed
		}
		return err
	}
	var object map[string][]string
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("%w: mappings: %w", driver.ErrConfig, err)
	}
	*m = object
	return nil
}

// check finds names that cannot be traits and interfaces that cannot be ones.
func (m Mappings) check() error {
	for _, key := range m.names() {
		if _, err := driver.CustomName(key); err != nil {
			return err
		}
		if len(m[key]) == 0 {
			return fmt.Errorf("%s has no interface", key)
		}
		for i, name := range m[key] {
			if !interfaceName(name) {
				return fmt.Errorf("%s: %q is not the name of a network interface", key, name)
			}
			if slices.Contains(m[key][:i], name) {
				return fmt.Errorf("%s: interface %s appears twice", key, name)
			}
		}
	}
	return nil
}

// interfaceName checks a name as the kernel does: at most 15 bytes, no slash, colon or blank.
// Invalid UTF-8 is refused, too: it would not survive JSON.
func interfaceName(name string) bool {
	return name != "" && len(name) <= 15 && utf8.ValidString(name) && name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\r\v\f\x00")
}

func (m Mappings) names() []string { return slices.Sorted(maps.Keys(m)) }

// port is the configuration of one interface.
type port struct {
	network   string
	functions []string
}

// ports returns what is configured for each interface.
func (c Config) ports() (ports, error) {
	ports := make(ports)
	for i, t := range c.EnabledNICTypes {
		if t.Name == "" {
			return nil, fmt.Errorf("%w: enabled_nic_types entry %d has no name", driver.ErrConfig, i)
		}
		if slices.ContainsFunc(c.EnabledNICTypes[:i], func(o Type) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("%w: enabled_nic_types: %s appears twice", driver.ErrConfig, t.Name)
		}
		if err := t.addTo(ports); err != nil {
			return nil, fmt.Errorf("%w: [%s] %w", driver.ErrConfig, t.Name, err)
		}
	}
	return ports, nil
}

// addresses returns the addresses of the functions to offer; empty means all.
func (c Config) addresses() (map[driver.PCIAddress]bool, error) {
	all := make(map[driver.PCIAddress]bool)
	for _, t := range c.EnabledNICTypes {
		for _, text := range t.DeviceAddresses {
			at, err := driver.ParsePCIAddress(text)
			if err != nil {
				return nil, fmt.Errorf("%w: [%s] device_addresses: %w", driver.ErrConfig, t.Name, err)
			}
			all[at] = true
		}
	}
	return all, nil
}

func (t Type) addTo(ports ports) error {
	if err := t.PhysicalDeviceMappings.check(); err != nil {
		return fmt.Errorf("physical_device_mappings: %w", err)
	}
	if err := t.FunctionDeviceMappings.check(); err != nil {
		return fmt.Errorf("function_device_mappings: %w", err)
	}
	for _, network := range t.PhysicalDeviceMappings.names() {
		for _, name := range t.PhysicalDeviceMappings[network] {
			p := ports[name]
			if p.network != "" && p.network != network {
				return fmt.Errorf("physical_device_mappings: interface %s is on %s and on %s", name, p.network, network)
			}
			p.network = network
			ports[name] = p
		}
	}
	for _, function := range t.FunctionDeviceMappings.names() {
		for _, name := range t.FunctionDeviceMappings[function] {
			p := ports[name]
			if !slices.Contains(p.functions, function) {
				p.functions = append(p.functions, function)
			}
			ports[name] = p
		}
	}
	return nil
}
