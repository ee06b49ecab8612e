// Package driver defines what a Cyborg driver is, the reports that it makes, and the tree
// that it reads.
//
// A driver reads a sysfs Tree and reports Devices in the shape of upstream's driver
// objects, down to the JSON names. It also reports which devices it skipped and why, and what it
// could not read: no device is missing without a reason. The package has the parts that every
// driver of PCI hardware needs: addresses, the functions of a tree and what they are used for, a
// Policy of what may be assigned to guests, and the shapes in which traits and resource classes
// are named. A PCISpec is a whole driver of functions that are assigned to guests as they are; a
// PCIScan is for drivers that do more. DiscoverAll lets the drivers of a host read through one
// view.
//
// A driver with its own state is a Snapshotter.
//
// The drivers themselves are in the packages below. This one keeps no state and calls no
// service; a report is for the agent and the conductor.
//
// It follows cyborg/accelerator/drivers/driver.py and cyborg/objects/driver_objects of
// Cyborg 2026.2, cyborg/conductor/manager.py for the provider's identifier, and the
// specifications cyborg-agent-driver-api and cyborg-nova-scheduling of Rocky and
// cyborg-vgpu-support of Wallaby for names.
//
//	report, err := d.Discover(ctx)
//	for _, device := range report.Devices {
//		if err := device.Validate(); err != nil { ... }
//	}
package driver
