// Package driver is what a Cyborg driver is: how it is asked for the devices of a host,
// what it answers, and the view of the hardware it is given.
//
// A driver reads a sysfs Tree and reports Devices in the shape of upstream's driver
// objects, down to the JSON names. It also reports what it left out and why, and what it
// could not understand, so that no device is missing without a reason. The package has the
// parts that every driver of PCI hardware needs: addresses, the functions of a tree and
// what they are used for, a Policy of what may be given away, and the shapes in which
// traits and resource classes are named. A PCISpec is a whole driver of functions that are
// given away as they are; a PCIScan is for drivers that do more. DiscoverAll lets the
// drivers of a host read through one view.
//
// A driver that remembers more than its configuration and its tree do is a Snapshotter.
//
// It has no driver of its own, keeps no state and talks to no service; what is done with a
// report is the agent's and the conductor's business.
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
