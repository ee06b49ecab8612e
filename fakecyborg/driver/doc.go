// Package driver is what a Cyborg driver is: how it is asked for the devices of a host,
// what it answers, and the view of the hardware it is given.
//
// A driver looks at a sysfs Tree and reports Devices in the shape of upstream's driver
// objects, down to the JSON names. It also reports what it left out and why, and what it
// could not understand, so that a device that is not offered is never a riddle. The
// package has the parts every driver of PCI hardware needs: addresses, the functions of
// a tree and what they are used for, and the naming rules of custom traits.
//
// It has no driver in it, keeps no state and talks to no service; what is done with a
// report is the agent's and the conductor's business.
//
// It follows cyborg/accelerator/drivers/driver.py and cyborg/objects/driver_objects of
// Cyborg 2026.2, and cyborg/conductor/manager.py for the provider's identifier.
//
//	report, err := d.Discover(ctx)
//	for _, device := range report.Devices {
//		if err := device.Validate(); err != nil { ... }
//	}
package driver
