// Package cyborgconf reads the configuration of the drivers from a cyborg.conf, so that an agent here and
// one of upstream can share the file, or from JSON.
//
// It reads the options that affect what drivers report, [DEFAULT] host, [agent] enabled_drivers,
// [gpu_devices] with [vgpu_TYPE], [nic_devices] with the sections that it names, [pci]
// passthrough_whitelist and [nvme] device_spec, and ignores all others.
//
//	config, err := cyborgconf.Parse(data)
//	drivers, err := builtin.New(config, tree)
package cyborgconf
