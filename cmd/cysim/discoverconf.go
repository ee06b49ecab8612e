package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
)

// realDrivers are the entry points of the drivers that look for hardware, as
// [agent] enabled_drivers names them: all but the fake one. Those that need a
// configuration find nothing without it.
func realDrivers() []string {
	return slices.DeleteFunc(builtin.Names(), func(name string) bool { return name == builtin.Fake })
}

// readCyborgConf reads the configuration of the drivers: a JSON object of builtin.Config,
// or a cyborg.conf.
func readCyborgConf(file string) (builtin.Config, error) {
	data, err := readBounded(file, maxConf)
	if err != nil {
		return builtin.Config{}, badInput(fmt.Errorf("--config: %w", err))
	}
	read := cyborgConf
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		read = builtin.ParseConfig
	}
	config, err := read(data)
	if err != nil {
		return builtin.Config{}, badInput(fmt.Errorf("--config %s: %w", file, err))
	}
	return config, nil
}

// cyborgConf takes the options that shape reports from a cyborg.conf. All others, and the
// sections of other services in it, are passed over.
func cyborgConf(data []byte) (builtin.Config, error) {
	conf, err := parseConf(data)
	if err != nil {
		return builtin.Config{}, err
	}
	config := builtin.Config{EnabledDrivers: conf.list("agent", "enabled_drivers")}
	config.Host, _ = conf.last("DEFAULT", "host")
	var errs [3]error
	config.NVIDIA.EnabledVGPUTypes = vgpuTypes(conf)
	config.NVIDIA.FilterSRIOVVFs, errs[0] = conf.flag("gpu_devices", "filter_sriov_vfs")
	config.NIC.EnabledNICTypes, errs[1] = nicTypes(conf)
	config.PCI.PassthroughWhitelist, errs[2] = whitelist(conf)
	return config, errors.Join(errs[:]...)
}

func vgpuTypes(conf openstackConf) []nvidia.VGPUType {
	var types []nvidia.VGPUType
	for _, name := range conf.list("gpu_devices", "enabled_vgpu_types") {
		types = append(types, nvidia.VGPUType{Name: name, DeviceAddresses: conf.list("vgpu_"+name, "device_addresses")})
	}
	return types
}

func nicTypes(conf openstackConf) ([]nic.Type, error) {
	var types []nic.Type
	for _, name := range conf.list("nic_devices", "enabled_nic_types") {
		t := nic.Type{Name: name}
		for option, into := range map[string]*nic.Mappings{
			"physical_device_mappings": &t.PhysicalDeviceMappings, "function_device_mappings": &t.FunctionDeviceMappings,
		} {
			text, _ := conf.last(name, option)
			mappings, err := nic.ParseMappings(text)
			if err != nil {
				return nil, fmt.Errorf("[%s] %s: %w", name, option, err)
			}
			*into = mappings
		}
		types = append(types, t)
	}
	return types, nil
}

func whitelist(conf openstackConf) (pci.Whitelist, error) {
	var all pci.Whitelist
	for _, value := range conf.all("pci", "passthrough_whitelist") {
		entries, err := pci.ParseWhitelist(value)
		if err != nil {
			return nil, fmt.Errorf("[pci] passthrough_whitelist: %q: %w", value, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

// vgpuAddresses are the cards that are configured to be divided. What is garbled was
// refused when the driver was made.
func vgpuAddresses(config nvidia.Config) map[driver.PCIAddress]string {
	cards := make(map[driver.PCIAddress]string)
	for _, t := range config.EnabledVGPUTypes {
		for _, text := range t.DeviceAddresses {
			if address, err := driver.ParsePCIAddress(text); err == nil {
				cards[address] = t.Name
			}
		}
	}
	return cards
}
