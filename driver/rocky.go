package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// ErrDictionary is the cause of every error about a dictionary of the Rocky form.
var ErrDictionary = errors.New("driver: bad dictionary")

// The attributes of a deployable that keep what a dictionary says of its region.
const (
	keyRegionType = "region-type-uuid"
	keyBitstream  = "bitstream-id"
	keyFunction   = "function-uuid"
)

// RockyDictionary is what discover returned in the specification of the interface between
// agent and drivers of Rocky: devices by the PCI address of their physical function. In
// JSON, a key that is absent and one that is null mean the same; keys that are not known
// are skipped, since drivers added their own.
type RockyDictionary map[string]RockyDevice

// RockyDevice is one device of a dictionary. Vendor and product are words, such as
// "Intel" and "PAC Arria10", not ids: a product may have several PCI ids.
type RockyDevice struct {
	Type    string        `json:"type"`
	Vendor  string        `json:"vendor"`
	Product string        `json:"product"`
	Regions []RockyRegion `json:"regions,omitempty"`
}

// RockyRegion is one region of a device. Every field may be empty.
type RockyRegion struct {
	RegionType string `json:"region-type-uuid,omitempty"`
	Bitstream  string `json:"bitstream-id,omitempty"`
	// Function is one uuid; a region with several functions has a list.
	Function RockyFunctions `json:"function-uuid,omitempty"`
	// PCIFunctions are the functions by which guests reach the region; none means the
	// physical function, which only one region may have. Not a key of the
	// specification, which has one region for each device.
	PCIFunctions []string `json:"pci-functions,omitempty"`
}

// RockyFunctions are the functions of a region. One is a string in JSON, several are a
// list, and none is null.
type RockyFunctions []string

// UnmarshalJSON accepts a string, a list of strings and null.
func (f *RockyFunctions) UnmarshalJSON(data []byte) error {
	*f = nil
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		var one string
		if err := json.Unmarshal(data, &one); err != nil {
			return err
		}
		if one != "" {
			*f = RockyFunctions{one}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New("function-uuid: neither a string nor a list of strings")
	}
	*f = list
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (f RockyFunctions) MarshalJSON() ([]byte, error) {
	switch len(f) {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(f[0])
	}
	return json.Marshal([]string(f))
}

// ParseRocky reads a dictionary from JSON and checks it. The error wraps ErrDictionary.
func ParseRocky(data []byte) (RockyDictionary, error) {
	var d RockyDictionary
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDictionary, err)
	}
	return d, d.Check()
}

// Check finds the faults of a dictionary: keys that are no PCI addresses, unknown types,
// names that make no traits, ids that are none, and a type of region in two products,
// which the specification rules out. All are joined; each wraps ErrDictionary.
func (d RockyDictionary) Check() error {
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s: "+format, append([]any{ErrDictionary, key}, args...)...))
	}
	products := make(map[string]string) // by region type
	given := make(map[string]bool)      // PCI functions of regions
	for _, key := range slices.Sorted(maps.Keys(d)) {
		device := d[key]
		if _, err := ParsePCIAddress(key); err != nil {
			fault(key, "%w", err)
		}
		if !KnownType(device.Type) {
			fault(key, "unknown type %q", device.Type)
		}
		if _, err := CustomName(device.Type, device.Vendor, device.Product); err != nil {
			fault(key, "%w", err)
		}
		for i, region := range device.Regions {
			if err := region.check(len(device.Regions)); err != nil {
				fault(key, "region %d: %w", i, err)
			}
			for _, function := range region.PCIFunctions {
				if given[function] {
					fault(key, "region %d: function %s is given to two regions", i, function)
				}
				given[function] = true
			}
			product, kind := device.Vendor+" "+device.Product, normalID(region.RegionType)
			if other, known := products[kind]; known && kind != "" && other != product {
				fault(key, "region %d: type %s is one of product %s, too", i, region.RegionType, other)
			}
			products[kind] = product
		}
	}
	return errors.Join(faults...)
}

func (r RockyRegion) check(regions int) error {
	for name, id := range map[string]string{keyRegionType: r.RegionType, keyBitstream: r.Bitstream} {
		if id != "" && !isID(id) {
			return fmt.Errorf("%s %q is neither a uuid nor 32 hexadecimal digits", name, id)
		}
	}
	for _, id := range r.Function {
		if !isID(id) {
			return fmt.Errorf("%s %q is neither a uuid nor 32 hexadecimal digits", keyFunction, id)
		}
	}
	for _, text := range r.PCIFunctions {
		if _, err := ParsePCIAddress(text); err != nil {
			return err
		}
	}
	if regions > 1 && len(r.PCIFunctions) == 0 {
		return errors.New("no pci-functions, and the physical function cannot be given to several regions")
	}
	return nil
}

// isID knows uuids as they are usually written and as sysfs has them.
func isID(text string) bool {
	return (len(text) == 36 || len(text) == 32) && uuid.Validate(text) == nil
}

func normalID(text string) string { return strings.ToLower(strings.ReplaceAll(text, "-", "")) }

// Devices makes devices of a checked dictionary, in the order of addresses: a region is a
// deployable, a device without regions is one. Policy names traits and classes; the shape
// "" is ShapeRockyAgent here, since the dictionary is of its specification. Host starts
// the names of deployables. The error wraps ErrDictionary.
func (d RockyDictionary) Devices(host string, policy Policy) ([]Device, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	if policy.TraitShape == "" {
		policy.TraitShape = ShapeRockyAgent
	}
	devices := []Device{}
	for _, key := range slices.Sorted(maps.Keys(d)) {
		address, err := ParsePCIAddress(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDictionary, err)
		}
		device, err := d[key].device(host, address, policy)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDictionary, key, err)
		}
		devices = append(devices, device)
	}
	return devices, nil
}

func (r RockyDevice) device(host string, address PCIAddress, policy Policy) (Device, error) {
	device := Device{Vendor: r.Vendor, Model: r.Product, Type: r.Type, ControlPath: address.ControlPath()}
	regions := r.Regions
	if len(regions) == 0 {
		regions = []RockyRegion{{}}
	}
	for i, region := range regions {
		part, err := r.region(region, address, policy)
		if err != nil {
			return device, err
		}
		part.Name = host + "_" + address.String()
		if len(regions) > 1 {
			part.Name += fmt.Sprintf("_region%d", i)
		}
		device.Deployables = append(device.Deployables, part)
	}
	return device, policy.AddMemory(&device, address)
}

func (r RockyDevice) region(region RockyRegion, address PCIAddress, policy Policy) (Deployable, error) {
	shipped, err := CustomName(r.Type, r.Vendor)
	if err != nil {
		return Deployable{}, err
	}
	class, err := ShapeRockyAgent.ResourceClass(Subject{Type: r.Type})
	if err != nil {
		return Deployable{}, err
	}
	attributes, err := policy.Attributes(Subject{
		Type: r.Type, Vendor: r.Vendor, Product: r.Product, Region: region.RegionType, Functions: region.Function,
		Programmable: r.Type == TypeFPGA, Shipped: []string{shipped}, ShippedClass: class,
	})
	for _, a := range []Attribute{
		{keyRegionType, region.RegionType}, {keyBitstream, region.Bitstream}, {keyFunction, strings.Join(region.Function, ",")},
	} {
		if a.Value != "" {
			attributes = append(attributes, a)
		}
	}
	part := Deployable{Attributes: attributes}
	functions := region.PCIFunctions
	if len(functions) == 0 {
		functions = []string{address.String()}
	}
	for _, text := range functions {
		at, parseErr := ParsePCIAddress(text)
		err = errors.Join(err, parseErr)
		part.AttachHandles = append(part.AttachHandles, AttachHandle{Type: HandlePCI, Info: at.Info()})
	}
	part.NumAccelerators = len(part.AttachHandles)
	return part, err
}

// RockyOf writes devices in the Rocky form. A device whose control path is no PCI address
// has no place in it and is skipped. Ids of regions and functions are those of the
// attributes that Devices keeps them in, or are read from the traits of either Rocky
// shape or the shipped one.
func RockyOf(devices []Device) RockyDictionary {
	d := make(RockyDictionary)
	for _, device := range devices {
		at := device.ControlPath.Address()
		if at.Kind != ControlPathPCI {
			continue
		}
		entry := RockyDevice{Type: device.Type, Vendor: device.Vendor, Product: device.Model}
		for _, part := range device.Deployables {
			region := regionOf(part)
			for _, h := range part.AttachHandles {
				if to := addressOf(h.Info); to.Kind == ControlPathPCI && to != at {
					region.PCIFunctions = append(region.PCIFunctions, to.String())
				}
			}
			if len(device.Deployables) > 1 || region.said() {
				entry.Regions = append(entry.Regions, region)
			}
		}
		d[at.String()] = entry
	}
	return d
}

func (r RockyRegion) said() bool {
	return r.RegionType != "" || r.Bitstream != "" || len(r.Function)+len(r.PCIFunctions) > 0
}

func regionOf(part Deployable) RockyRegion {
	var r RockyRegion
	for _, a := range part.Attributes {
		switch a.Key {
		case keyRegionType:
			r.RegionType = a.Value
		case keyBitstream:
			r.Bitstream = a.Value
		case keyFunction:
			r.Function = strings.Split(a.Value, ",")
		}
	}
	for _, trait := range part.Traits() {
		if id := idIn(trait, "_REGION_"); id != "" && r.RegionType == "" {
			r.RegionType = id
		}
		id := idIn(trait, "_FUNCTION_")
		same := func(o string) bool { return normalID(o) == normalID(id) }
		if id != "" && !slices.ContainsFunc(r.Function, same) {
			r.Function = append(r.Function, id)
		}
	}
	return r
}

// idIn finds the id at the end of a trait of a region or a function.
func idIn(trait, mark string) string {
	if !strings.Contains(trait, mark) {
		return ""
	}
	for _, length := range []int{36, 32} {
		if len(trait) <= length {
			continue
		}
		tail := trait[len(trait)-length:]
		id := strings.ToLower(strings.ReplaceAll(tail, "_", "-"))
		if trait[len(trait)-length-1] == '_' && isID(id) {
			return id
		}
	}
	return ""
}
