package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// rockyDevice is an entry of the dictionary of the agent-driver API, without what is not read.
type rockyDevice struct {
	Type    string        `json:"type"`
	Vendor  string        `json:"vendor"`
	Product string        `json:"product"`
	Regions []rockyRegion `json:"regions,omitempty"`
}

type rockyRegion struct {
	Type      string `json:"region-type-uuid,omitempty"`
	Bitstream string `json:"bitstream-id,omitempty"`
	Function  string `json:"function-uuid,omitempty"`
}

// devicesOf are the devices of a dictionary, in the order of addresses.
func (c Config) devicesOf(dictionary []byte) ([]driver.Device, error) {
	var entries map[string]json.RawMessage
	err := json.Unmarshal(dictionary, &entries)
	if err == nil && entries == nil {
		err = errors.New("null is no dictionary")
	}
	if err != nil {
		return nil, fmt.Errorf("rocky: %w", err)
	}
	devices := make([]driver.Device, 0, len(entries))
	for _, text := range slices.Sorted(maps.Keys(entries)) {
		address, err := driver.ParsePCIAddress(text)
		var entry rockyDevice
		if err == nil {
			err = strictjson.Decode(entries[text], &entry)
		}
		var device driver.Device
		if err == nil {
			device, err = c.device(address, entry)
		}
		if err != nil {
			return nil, fmt.Errorf("rocky: %q: %w", text, err)
		}
		devices = append(devices, device)
	}
	return devices, nil
}

// device has one deployable: the region, or the device as a whole, whose unit is the function.
func (c Config) device(at driver.PCIAddress, entry rockyDevice) (driver.Device, error) {
	s := driver.Subject{Type: entry.Type, Vendor: entry.Vendor, Product: entry.Product}
	part := driver.Deployable{
		Name: c.Host + "_" + at.String(), NumAccelerators: 1,
		AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: at.Info()}},
	}
	if n := len(entry.Regions); n > 1 {
		return driver.Device{}, fmt.Errorf("%d regions: one function cannot be given to several guests", n)
	}
	for _, region := range entry.Regions {
		for _, id := range []string{region.Type, region.Bitstream, region.Function} {
			if id != "" && !uuids.Is(id) {
				return driver.Device{}, fmt.Errorf("%q is not a UUID", id)
			}
		}
		s.Region = region.Type
		if region.Function != "" {
			s.Functions = []string{region.Function}
		}
		if region.Bitstream != "" {
			part.Attributes = []driver.Attribute{{Key: "bitstream_id", Value: region.Bitstream}}
		}
	}
	var err error
	if s.ShippedClass, err = driver.CustomName("ACCELERATOR", entry.Type); err != nil {
		return driver.Device{}, err
	}
	if part.Class, part.Traits, err = c.Names(s); err != nil {
		return driver.Device{}, err
	}
	device := driver.Device{
		Vendor: entry.Vendor, Model: entry.Product, Type: entry.Type,
		ControlPath: at.ControlPath(), Deployables: []driver.Deployable{part},
	}
	return device, c.AddMemory(&device, at)
}
