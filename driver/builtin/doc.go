// Package builtin has all drivers of this module by the names under which upstream's
// setup.cfg registers them (entry points of cyborg.accelerator.driver), and one
// configuration for all of them.
//
// It reads no hardware and no files; a configuration comes from a program, or
// as JSON. Upstream's nvmf_spdk_driver is registered there without a discover method and
// is not here. The drivers hpts_driver and mdev_driver are not upstream's.
//
// It follows setup.cfg, cyborg/agent/resource_tracker.py and cyborg/conf of Cyborg
// 2026.2.
//
//	config, err := builtin.ParseConfig([]byte(`{
//		"enabled_drivers": ["nvidia_gpu_driver", "pci_driver"], "host": "compute1",
//		"pci": {"passthrough_whitelist": {"vendor_id": "8086", "product_id": "1520"}}
//	}`))
//	drivers, err := builtin.New(config, tree)
//	reports := driver.DiscoverAll(ctx, drivers)
package builtin
