package driver

import (
	"fmt"
	"time"
)

// Host is a compute host with an agent of Cyborg. Its name is the name of its resource
// provider in Placement.
type Host struct {
	Name    string
	Drivers []Driver
	// Fallback is used if no resource provider has Name: upstream's agent searches for its fully
	// qualified name and then for [DEFAULT] host. With the defects of upstream the agent can be
	// called only by this name. It may be empty.
	Fallback string
	// NovaClaims names the setting of Nova's by which Nova offers a device, too, such as
	// "[pci] device_spec entry 0", or "" if none does. A claimed device is refused (with the
	// defects of upstream: reported). Nil: Nova's settings are not known.
	NovaClaims func(Device) string
	// Reboot does to the hardware what a restart of the host does. Nil: nothing.
	Reboot func()
	// Changed is called after each change of the hardware: of a mediated device, or of what
	// a region is programmed with. Nil: nothing.
	Changed func()
}

// HostReport is the last result of one driver of one host.
type HostReport struct {
	Host   string
	Driver string
	// At is when the driver looked; zero in a state that was loaded.
	At time.Time
	// Devices is how many devices were found.
	Devices int
	LeftOut []Notice
	// Conflicts are devices that the driver offers and Nova, too. The agent does not report them to Cyborg: Nova keeps them.
	Conflicts []Notice
	Problems  []Problem
	Warnings  []Notice
	// Err is why the discovery could not be done at all.
	Err error
}

// ReportError says why one device of a host, or the host as a whole, could not be reported
// to Cyborg. Everything else of the report was done.
type ReportError struct {
	Host string
	// Device is the control path as JSON text, the name of the driver, or empty when the
	// whole host is concerned.
	Device string
	// Step is the step that failed: "discover", "find the host's provider", "add provider
	// cn0_FakeDevice".
	Step string
	Err  error
}

// Error names host, device, step and cause.
func (e *ReportError) Error() string {
	if e.Device == "" {
		return fmt.Sprintf("fakecyborg: report of host %s: %s: %v", e.Host, e.Step, e.Err)
	}
	return fmt.Sprintf("fakecyborg: report of host %s: device %s: %s: %v", e.Host, e.Device, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *ReportError) Unwrap() error { return e.Err }
