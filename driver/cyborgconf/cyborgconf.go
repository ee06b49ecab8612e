package cyborgconf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nic"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/driver/ssd"
	"github.com/gocyborg/gocyborg/internal/osloconf"
)

// MaxSize limits the size of a file, in bytes.
const MaxSize = osloconf.MaxSize

// Parse reads the configuration of the drivers: a JSON object of builtin.Config, or a cyborg.conf. The
// error names the option.
func Parse(data []byte) (builtin.Config, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return builtin.ParseConfig(data)
	}
	return parseCyborgConf(data)
}

// parseCyborgConf reads the options of a cyborg.conf that affect reports, and ignores all
// others.
func parseCyborgConf(data []byte) (builtin.Config, error) {
	conf, err := osloconf.Parse(data)
	if err != nil {
		return builtin.Config{}, err
	}
	config := builtin.Config{EnabledDrivers: conf.List("agent", "enabled_drivers")}
	config.Host, _ = conf.Last("DEFAULT", "host")
	config.NVIDIA, config.NIC, config.PCI, config.SSD = &nvidia.Config{}, &nic.Config{}, &pci.Config{}, &ssd.Config{}
	var errs [5]error
	config.NVIDIA.EnabledVGPUTypes, errs[4] = vgpuTypes(conf)
	config.NVIDIA.FilterSRIOVVFs, errs[0] = conf.Flag("gpu_devices", "filter_sriov_vfs")
	config.NIC.EnabledNICTypes, errs[1] = nicTypes(conf)
	config.PCI.PassthroughWhitelist, errs[2] = whitelist(conf)
	config.SSD.DeviceSpec, errs[3] = nvmeDisks(conf)
	dropDisabled(&config)
	return config, errors.Join(errs[:]...)
}

// dropDisabled drops the options of drivers that are not enabled, which a cyborg.conf may have.
func dropDisabled(c *builtin.Config) {
	if c.EnabledDrivers == nil {
		return
	}
	on := func(name string) bool { return slices.Contains(c.EnabledDrivers, name) }
	if !on(builtin.NVIDIA) {
		c.NVIDIA = nil
	}
	if !on(builtin.IntelNIC) {
		c.NIC = nil
	}
	if !on(builtin.PCI) {
		c.PCI = nil
	}
	if !on(builtin.InspurSSD) {
		c.SSD = nil
	}
}

func vgpuTypes(conf osloconf.File) ([]nvidia.VGPUType, error) {
	var types []nvidia.VGPUType
	for _, name := range conf.List("gpu_devices", "enabled_vgpu_types") {
		t := nvidia.VGPUType{Name: name, DeviceAddresses: conf.List("vgpu_"+name, "device_addresses")}
		t.VGPUName, _ = conf.Last("vgpu_"+name, "vgpu_name")
		if text, given := conf.Last("vgpu_"+name, "max_instances"); given {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("[vgpu_%s] max_instances: %q is not a positive number", name, text)
			}
			t.MaxInstances = n
		}
		types = append(types, t)
	}
	return types, nil
}

func nicTypes(conf osloconf.File) ([]nic.Type, error) {
	var types []nic.Type
	for _, name := range conf.List("nic_devices", "enabled_nic_types") {
		t := nic.Type{Name: name, DeviceAddresses: conf.List(name, "device_addresses")}
		for option, into := range map[string]*nic.Mappings{
			"physical_device_mappings": &t.PhysicalDeviceMappings, "function_device_mappings": &t.FunctionDeviceMappings,
		} {
			text, _ := conf.Last(name, option)
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

func whitelist(conf osloconf.File) (pci.Whitelist, error) {
	var all pci.Whitelist
	for _, value := range conf.All("pci", "passthrough_whitelist") {
		entries, err := pci.ParseWhitelist(value)
		if err != nil {
			return nil, fmt.Errorf("[pci] passthrough_whitelist: %q: %w", value, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

func nvmeDisks(conf osloconf.File) ([]ssd.Spec, error) {
	var all []ssd.Spec
	for _, value := range conf.All("nvme", "device_spec") {
		entries, err := ssd.ParseDeviceSpec(value)
		if err != nil {
			return nil, fmt.Errorf("[nvme] device_spec: %q: %w", value, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}
