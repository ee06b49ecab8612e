// Package cyborgconf reads the configuration of the drivers from a cyborg.conf, which an agent of
// this module and an upstream agent can share, or from JSON.
//
// It reads the options that affect what drivers report, [DEFAULT] host, [agent] enabled_drivers,
// [gpu_devices] with [vgpu_TYPE], [nic_devices] with the sections that it names, [pci]
// passthrough_whitelist and [nvme] device_spec, and ignores all others.
//
//	config, err := cyborgconf.Parse(data)
//	drivers, err := builtin.New(config, tree)
package cyborgconf
