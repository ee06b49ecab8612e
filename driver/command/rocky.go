package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// rockyDevice is an entry of the dictionary of the agent-driver API: the keys that the specification
// adds. It adds them to the keys of a driver of Queens for the same device.
type rockyDevice struct {
	Type    string        `json:"type"`
	Vendor  string        `json:"vendor"`
	Product string        `json:"product"`
	Regions []rockyRegion `json:"regions"`
}

type rockyRegion struct {
	Type      string `json:"region-type-uuid"`
	Bitstream string `json:"bitstream-id"`
	Function  string `json:"function-uuid"`
	// Address is the PCI function that leads to the region, a key of Queens.
	Address string `json:"devices"`
}

// addDictionary adds the devices of a dictionary to a report, in the order of addresses. An entry that
// cannot be read is a problem.
func (c Config) addDictionary(report *driver.Report, dictionary []byte) error {
	var entries map[string]json.RawMessage
	err := json.Unmarshal(dictionary, &entries)
	if err == nil && entries == nil {
		err = errors.New("null is not a dictionary")
	}
	if err != nil {
		return fmt.Errorf("rocky: %w", err)
	}
	for _, text := range slices.Sorted(maps.Keys(entries)) {
		device, err := c.device(text, entries[text])
		if err != nil {
			report.AddProblem(addressIn(text), fmt.Errorf("rocky: %q: %w", text, err))
			continue
		}
		report.Devices = append(report.Devices, device)
		if keys := otherKeys(entries[text]); len(keys) > 0 {
			report.Warnings = append(report.Warnings, driver.Notice{
				Address: addressIn(text), Driver: c.Name, Reason: "keys that are not read: " + strings.Join(keys, ", "),
			})
		}
	}
	return nil
}

// addressIn returns the address in a text, or "".
func addressIn(text string) string {
	at, err := parseAddress(text)
	if err != nil {
		return ""
	}
	return at.String()
}

// parseAddress reads an address as the kernel or as the specifications of Queens write it: 0000:be:00:1.
func parseAddress(text string) (driver.PCIAddress, error) {
	if at := strings.LastIndexByte(text, ':'); strings.Count(text, ":") == 3 {
		text = text[:at] + "." + text[at+1:]
	}
	return driver.ParsePCIAddress(text)
}

// otherKeys returns the keys of an entry and of its regions that are not read.
func otherKeys(entry []byte) (keys []string) {
	var device map[string]json.RawMessage
	_ = json.Unmarshal(entry, &device) // it was decoded before
	for key := range device {
		if !slices.Contains([]string{"type", "vendor", "product", "regions"}, key) {
			keys = append(keys, key)
		}
	}
	var regions []map[string]json.RawMessage
	_ = json.Unmarshal(device["regions"], &regions)
	for _, region := range regions {
		for key := range region {
			if !slices.Contains([]string{"region-type-uuid", "bitstream-id", "function-uuid", "devices"}, key) {
				keys = append(keys, "regions."+key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// device returns the device of an entry. Its deployables are its regions, if each has its own PCI
// function; otherwise the device as a whole, with one unit.
func (c Config) device(key string, text []byte) (driver.Device, error) {
	at, err := parseAddress(key)
	if err != nil {
		return driver.Device{}, err
	}
	var entry rockyDevice
	if err := json.Unmarshal(text, &entry); err != nil {
		return driver.Device{}, err
	}
	if bytes.Equal(text, []byte("null")) {
		return driver.Device{}, errors.New("null is not a device")
	}
	device := driver.Device{Vendor: entry.Vendor, Model: entry.Product, Type: entry.Type, ControlPath: at.ControlPath()}
	addresses, err := entry.addresses()
	if err != nil {
		return driver.Device{}, err
	}
	name := c.Host + "_" + at.String()
	if len(addresses) == 0 {
		addresses = append(addresses, at)
	}
	for i, address := range addresses {
		regions, partName := entry.Regions, name
		if len(addresses) > 1 {
			regions, partName = regions[i:i+1], fmt.Sprintf("%s_region%d", name, i)
		}
		part, err := c.deployable(entry, regions)
		if err != nil {
			return driver.Device{}, err
		}
		part.Name, part.NumAccelerators = partName, 1
		part.AttachHandles = []driver.AttachHandle{{Type: driver.HandlePCI, Info: address.Info()}}
		device.Deployables = append(device.Deployables, part)
	}
	return device, c.AddMemory(&device, at)
}

// addresses returns the PCI functions of the regions, or nothing if the regions do not name
// distinct functions. Two guests cannot share a function.
func (d rockyDevice) addresses() ([]driver.PCIAddress, error) {
	var list []driver.PCIAddress
	for i, region := range d.Regions {
		if region.Address == "" {
			continue
		}
		at, err := parseAddress(region.Address)
		switch {
		case err != nil:
			return nil, fmt.Errorf("region %d: devices: %w", i, err)
		case slices.Contains(list, at):
			return nil, fmt.Errorf("region %d: function %s also leads to another region", i, at)
		}
		list = append(list, at)
	}
	if len(list) > 0 && len(list) < len(d.Regions) {
		return nil, fmt.Errorf("%d of %d regions have no PCI function (devices)", len(d.Regions)-len(list), len(d.Regions))
	}
	return list, nil
}

// deployable has the names of some regions of a device.
func (c Config) deployable(entry rockyDevice, regions []rockyRegion) (part driver.Deployable, err error) {
	class, err := driver.CustomName("ACCELERATOR", entry.Type)
	if err != nil {
		return part, err
	}
	subject := driver.Subject{Type: entry.Type, Vendor: entry.Vendor, Product: entry.Product, ShippedClass: class}
	subjects := make([]driver.Subject, 0, max(1, len(regions)))
	for i, region := range regions {
		for _, id := range []string{region.Type, region.Bitstream, region.Function} {
			if id != "" && !uuids.Is(id) {
				return part, fmt.Errorf("region %d: %q is not a UUID", i, id)
			}
		}
		s := subject
		s.Region = region.Type
		if region.Function != "" {
			s.Functions = []string{region.Function}
		}
		if region.Bitstream != "" {
			key := "bitstream_id"
			if len(regions) > 1 {
				key += fmt.Sprint("_region", i)
			}
			part.Attributes = append(part.Attributes, driver.Attribute{Key: key, Value: region.Bitstream})
		}
		subjects = append(subjects, s)
	}
	if len(subjects) == 0 {
		subjects = append(subjects, subject)
	}
	part.Class, part.Traits, err = c.Names(subjects...)
	return part, err
}
